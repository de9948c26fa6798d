//! Stamps: written, read, and their checksums against a full recomputation.

use proptest::prelude::*;
use weir_traffic::stamp::{Stamp, StampSlot, key};
use weir_wire::{
    Dissection, EtherType, EthernetRepr, Ipv4Repr, Ipv6Repr, MacAddress, TcpRepr, UdpRepr, checksum, ipv4,
};

/// What a test frame is made of.
#[derive(Clone, Copy, Debug)]
struct Kind {
    tcp: bool,
    v6: bool,
    checksummed: bool,
}

fn kinds() -> impl Strategy<Value = Kind> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(tcp, v6, checksummed)| Kind {
        tcp,
        v6,
        checksummed,
    })
}

/// An IPv4 or IPv6 frame with this payload; TCP always, UDP where asked, has a right checksum.
fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let header = if kind.tcp { TcpRepr::BYTES } else { UdpRepr::BYTES };
    let network = if kind.v6 { Ipv6Repr::BYTES } else { Ipv4Repr::BYTES };
    let mut frame = vec![0; EthernetRepr::BYTES + network + header];
    frame.extend_from_slice(payload);
    let payload_len = (header + payload.len()) as u16;
    let ether_type = if kind.v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    EthernetRepr { destination: MacAddress([2; 6]), source: MacAddress([6; 6]), ether_type }.emit(&mut frame);
    let protocol = if kind.tcp { ipv4::TCP } else { ipv4::UDP };
    if kind.v6 {
        let (source, destination) = ("2001:2::1".parse().unwrap(), "2001:2::2".parse().unwrap());
        Ipv6Repr { source, destination, next_header: protocol, hop_limit: 9, payload_len }
            .emit(&mut frame[14..]);
    } else {
        let (source, destination) = ([198, 18, 0, 1].into(), [198, 19, 0, 1].into());
        Ipv4Repr { source, destination, protocol, ttl: 9, payload_len }.emit(&mut frame[14..]);
    }
    let at = EthernetRepr::BYTES + network;
    if kind.tcp {
        let tcp = TcpRepr {
            source: 5_000,
            destination: 6_000,
            sequence: 1,
            acknowledgement: 2,
            flags: 0x10,
            window: 9,
        };
        tcp.emit(&mut frame[at..], 0);
    } else {
        UdpRepr { source: 5_000, destination: 6_000, payload_len: payload.len() as u16 }
            .emit(&mut frame[at..]);
    }
    if kind.tcp || kind.checksummed {
        let (field, sum) = full_checksum(&frame);
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// The L4 checksum of a frame from scratch, and where it stands.
fn full_checksum(frame: &[u8]) -> (usize, u16) {
    let found = Dissection::of(frame);
    let (network, transport) = (found.network.unwrap(), found.transport.unwrap());
    let mut segment = frame[transport.offset..].to_vec();
    let field = transport.checksum - transport.offset;
    segment[field..field + 2].fill(0);
    let pseudo = match (network.source, network.destination) {
        (std::net::IpAddr::V4(a), std::net::IpAddr::V4(b)) => {
            checksum::pseudo_ipv4(a, b, network.protocol, segment.len() as u16)
        }
        (std::net::IpAddr::V6(a), std::net::IpAddr::V6(b)) => {
            checksum::pseudo_ipv6(a, b, network.protocol, segment.len() as u32)
        }
        _ => unreachable!("both sides are of one family"),
    };
    let sum = checksum::finish(pseudo + checksum::sum(&segment));
    (transport.checksum, if network.protocol == ipv4::UDP { checksum::udp_nonzero(sum) } else { sum })
}

fn stamps() -> impl Strategy<Value = Stamp> {
    (any::<u16>(), 0..1_u64 << 48, any::<u64>()).prop_map(|(trial, sequence, tsc)| Stamp {
        trial,
        sequence,
        tsc,
    })
}

proptest! {
    #[test]
    fn a_stamped_frame_reads_back_and_its_checksum_equals_a_full_recomputation(
        kind in kinds(),
        payload in proptest::collection::vec(any::<u8>(), 18..200),
        stamp in stamps(),
    ) {
        let mut bytes = frame(kind, &payload);
        let before = bytes.clone();
        let slot = StampSlot::of(&bytes);
        prop_assert!(slot.stamp(&mut bytes, stamp));
        prop_assert_eq!(Stamp::read(&bytes, key()), Some(stamp));
        let (field, sum) = full_checksum(&bytes);
        let written = u16::from_be_bytes([bytes[field], bytes[field + 1]]);
        let covered = kind.tcp || kind.checksummed;
        prop_assert_eq!(written, if covered { sum } else { 0 });
        // Nothing else changes.
        let stamp_at = bytes.len() - Stamp::BYTES;
        bytes[field..field + 2].copy_from_slice(&before[field..field + 2]);
        prop_assert_eq!(&bytes[..stamp_at], &before[..stamp_at]);
        // A frame may be stamped again by the same slot.
        prop_assert_eq!(StampSlot::of(&before), slot);
    }

    #[test]
    fn a_payload_too_short_for_a_stamp_is_left_alone(
        kind in kinds(),
        payload in proptest::collection::vec(any::<u8>(), 0..18),
        stamp in stamps(),
    ) {
        let mut bytes = frame(kind, &payload);
        let before = bytes.clone();
        prop_assert!(!StampSlot::of(&bytes).stamp(&mut bytes, stamp));
        prop_assert_eq!(bytes, before);
    }

    #[test]
    fn padding_behind_the_packet_is_never_stamped(payload in proptest::collection::vec(any::<u8>(), 18..60)) {
        let mut bytes = frame(Kind { tcp: false, v6: false, checksummed: true }, &payload);
        bytes.push(0);
        prop_assert_eq!(StampSlot::of(&bytes), StampSlot::None);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = Stamp::read(&bytes, key());
        let mut copy = bytes.clone();
        let stamp = Stamp { trial: 1, sequence: 2, tsc: 3 };
        prop_assert_eq!(StampSlot::of(&bytes).stamp(&mut copy, stamp), StampSlot::of(&bytes).is_stampable());
    }
}

#[test]
fn a_stamp_survives_headers_pushed_and_popped_in_front_of_it() {
    let mut bytes = frame(Kind { tcp: false, v6: false, checksummed: false }, &[0; 18]);
    let stamp = Stamp { trial: 9, sequence: 0x1234_5678_9abc, tsc: u64::MAX - 5 };
    assert_eq!(bytes.len(), 60, "the least frame holds exactly one stamp");
    assert!(StampSlot::of(&bytes).stamp(&mut bytes, stamp));
    bytes.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(Stamp::read(&bytes, key()), Some(stamp));
    bytes.drain(0..18);
    assert_eq!(Stamp::read(&bytes, key()), Some(stamp));
}

#[test]
fn a_udp_checksum_that_comes_out_zero_is_sent_as_ffff() {
    let kind = Kind { tcp: false, v6: false, checksummed: true };
    let base = frame(kind, &[0; 18]);
    let slot = StampSlot::of(&base);
    // Stamps are scrambled with a key of this process: one in 65,536 makes the sum zero, and of as many none does in
    // one process of three. Of 256 times as many one always does.
    let found = (0..1_u64 << 24).find(|tsc| {
        let mut bytes = base.clone();
        slot.stamp(&mut bytes, Stamp { trial: 0, sequence: 0, tsc: *tsc });
        bytes[40..42] == [0xff, 0xff]
    });
    let mut bytes = base;
    slot.stamp(&mut bytes, Stamp { trial: 0, sequence: 0, tsc: found.expect("one stamp must") });
    assert_eq!(full_checksum(&bytes).1, 0xffff);
}
