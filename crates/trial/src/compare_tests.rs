use super::*;
use crate::{Nf, Oracle};
use weir_wire::{EtherType, Ipv4Repr, MacAddress, UdpRepr};

/// A UDP frame with TTL 64 from one half of the test network to a port in the other.
fn frame(port: u16) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..100).collect();
    EthernetRepr { destination: MacAddress([2; 6]), source: MacAddress([6; 6]), ether_type: EtherType::IPV4 }
        .emit(&mut frame);
    let (source, destination) = ([198, 18, 31, 145].into(), [198, 19, 76, 1].into());
    Ipv4Repr { source, destination, protocol: ipv4::UDP, ttl: 64, payload_len: 66 }.emit(&mut frame[14..]);
    UdpRepr { source: 40_000, destination: port, payload_len: 58 }.emit(&mut frame[34..]);
    frame
}

fn routed() -> (Expected, Vec<u8>) {
    let expected = Oracle::new(Nf::L3Fwd { routes: 10 }).expected(0, &frame(9000));
    let Expected::Forward { frame, .. } = &expected else { panic!("{expected:?}") };
    let frame = frame.clone();
    (expected, frame)
}

/// Computes the header's checksum anew.
fn mend(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = weir_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn the_right_packet_has_no_fault() {
    let (expected, came) = routed();
    assert_eq!(compare(&expected, &came, 1), []);
    assert_eq!(compare(&Expected::Open, &came, 0), []);
}

/// DPDK's l3fwd adds one to the checksum of a packet whose TTL it lowers, which makes 0xffff where 0x0000 is due.
#[test]
fn a_checksum_of_zero_may_be_written_in_either_form() {
    let oracle = Oracle::new(Nf::L3Fwd { routes: 10 });
    let mut sent = frame(9000);
    let zero = (0..=u16::MAX).find_map(|identification| {
        sent[18..20].copy_from_slice(&identification.to_be_bytes());
        mend(&mut sent);
        match oracle.expected(0, &sent) {
            Expected::Forward { port, frame } if frame[24..26] == [0, 0] => Some((port, frame)),
            _ => None,
        }
    });
    let (port, mut came) = zero.expect("one identification of all makes a sum of zero");
    let expected = oracle.expected(0, &sent);
    came[24..26].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(compare(&expected, &came, port), []);
    came[24..26].copy_from_slice(&[0xff, 0xfe]);
    assert_eq!(compare(&expected, &came, port)[0].0, Fault::Checksum);
}

#[test]
fn every_change_is_named_with_what_was_and_what_must_be() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, Fault, &str); 11] = [
        (
            |f| f[0..6].fill(9),
            Fault::Macs,
            "destination MAC address 09:09:09:09:09:09, must be 02:00:00:00:02:01",
        ),
        (|f| f[11] = 0, Fault::Macs, "source MAC address 02:00:00:00:01:00, must be 02:00:00:00:01:01"),
        (
            |f| {
                f[22] = 64;
                mend(f)
            },
            Fault::Ttl,
            "time to live 64, must be 63",
        ),
        (|f| f[25] ^= 0x10, Fault::Checksum, "does not hold"),
        (
            |f| {
                f[33] ^= 1;
                mend(f)
            },
            Fault::Header,
            "destination address is 0xc6134c00, must be 0xc6134c01",
        ),
        (|f| f[33] ^= 1, Fault::Header, "destination address"),
        (
            |f| {
                f[15] = 4;
                mend(f)
            },
            Fault::Header,
            "type of service",
        ),
        (|f| f[36] ^= 1, Fault::Header, "destination port is 0x2228, must be 0x2328"),
        (|f| f[41] ^= 1, Fault::Header, "transport checksum"),
        (|f| f[99] ^= 0xff, Fault::Payload, "byte 99 of the frame is 0x9c, must be 0x63 (1 B differ)"),
        (|f| f.truncate(99), Fault::Length, "99 B came, 100 B must"),
    ];
    for (change, fault, says) in cases {
        let (expected, mut came) = routed();
        change(&mut came);
        let found = compare(&expected, &came, 1);
        let [(named, example)] = found.as_slice() else { panic!("{says}: {found:?}") };
        assert_eq!(*named, fault);
        assert!(example.contains(says) && example.contains("198.18.31.145"), "{example}");
    }
}

#[test]
fn a_packet_wrong_in_several_ways_is_told_each_of_them() {
    let (expected, _) = routed();
    let faults: Vec<Fault> =
        compare(&expected, &frame(9000), 1).into_iter().map(|(fault, _)| fault).collect();
    assert_eq!(faults, [Fault::Macs, Fault::Ttl]);
    let (_, mut came) = routed();
    came[22] = 64; // lowered in the checksum alone
    let faults: Vec<Fault> = compare(&expected, &came, 1).into_iter().map(|(fault, _)| fault).collect();
    assert_eq!(faults, [Fault::Ttl, Fault::Checksum]);
}

#[test]
fn a_checksum_that_was_broken_before_is_nobodys_fault() {
    let mut sent = frame(9000);
    sent[24] ^= 1;
    let expected = Expected::Forward { port: 1, frame: sent.clone() };
    assert_eq!(compare(&expected, &sent, 1), []);
    assert_eq!(compare(&expected, &frame(9000), 1)[0].0, Fault::Checksum, "nor is it mended by the way");
}

#[test]
fn another_port_and_a_grown_frame_are_named() {
    let (expected, mut came) = routed();
    let found = compare(&expected, &came, 0);
    assert!(
        matches!(found.as_slice(), [(Fault::Port, says)] if says.ends_with("left by port 0, must leave by port 1")),
        "{found:?}"
    );
    came.extend([0; 4]);
    assert_eq!(compare(&expected, &came, 1)[0].0, Fault::Length);
}

#[test]
fn what_must_not_come_out_is_named_with_the_reason() {
    let wall = Oracle::new(Nf::Firewall { rules: 10 });
    let denied = frame(123);
    let found = compare(&wall.expected(0, &denied), &denied, 1);
    let [(Fault::Denied, says)] = found.as_slice() else { panic!("{found:?}") };
    assert!(says.contains("UDP 198.18.31.145:40000 > 198.19.76.1:123, 100 B: rule `deny udp"), "{says}");
    for (reason, fault) in [
        (Reason::NoRoute, Fault::Port),
        (Reason::Expired, Fault::Ttl),
        (Reason::BadChecksum, Fault::Checksum),
        (Reason::BadHeader, Fault::Header),
    ] {
        assert_eq!(compare(&Expected::Drop(reason), &denied, 1)[0].0, fault);
    }
}

#[test]
fn padding_behind_the_packet_is_not_compared() {
    let mut sent = frame(9000);
    sent[17] = 46; // the datagram ends at byte 60 of the frame
    sent[39] = 26;
    mend(&mut sent);
    let expected = Oracle::new(Nf::L3Fwd { routes: 10 }).expected(0, &sent);
    let Expected::Forward { frame: mut came, .. } = expected.clone() else { panic!("{expected:?}") };
    came[60..].fill(0);
    assert_eq!(compare(&expected, &came, 1), []);
    came.truncate(60);
    assert_eq!(compare(&expected, &came, 1), []);
    came.truncate(59);
    assert_eq!(compare(&expected, &came, 1)[0].0, Fault::Length);
}

#[test]
fn frames_without_ip_are_compared_byte_by_byte() {
    let sent: Vec<u8> = (0..60).collect();
    let expected = Expected::Forward { port: 1, frame: sent.clone() };
    for (at, fault) in [(3, Fault::Macs), (12, Fault::Header), (14, Fault::Payload), (59, Fault::Payload)] {
        let mut came = sent.clone();
        came[at] ^= 1;
        assert_eq!(compare(&expected, &came, 1)[0].0, fault, "byte {at}");
    }
    assert_eq!(compare(&expected, &sent, 1), []);
}

#[test]
fn any_bytes_at_all_are_compared_without_a_panic() {
    let (expected, good) = routed();
    for len in 0..=good.len() {
        let expected_short = Expected::Forward { port: 1, frame: good[..len].to_vec() };
        for other in 0..=good.len() {
            let mut came = good[..other].to_vec();
            came.iter_mut().step_by(3).for_each(|byte| *byte = byte.wrapping_mul(37));
            compare(&expected_short, &came, 0);
            assert!(!compare(&expected, &came, 1).is_empty());
        }
    }
}

#[test]
fn reports_of_a_router_are_told_from_echoes() {
    let mut icmp = frame(9000);
    icmp[23] = 1;
    for (kind, report) in [(3, true), (5, true), (11, true), (0, false), (8, false)] {
        icmp[34] = kind;
        assert_eq!(is_router_report(&icmp), report);
    }
    assert!(!is_router_report(&frame(9000)));
}
