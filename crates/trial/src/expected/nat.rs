//! What source NAT makes of a packet, and of what holds between packets: which port a device gives a connection is its own
//! choice, that it is one of its own and nobody else's is not.

use super::{Expected, Oracle, Reason, five_tuple, ipv4_of};
use std::net::Ipv4Addr;
use weir_wire::{EthernetRepr, Ipv4View, TcpView, checksum, ipv4, tcp, udp};

impl Oracle {
    /// A packet of [`crate::Nf::Nat`]: from inside it is routed and translated; from outside it would have to belong to a
    /// connection, and the lab's trials send no answers but in connections of their own ([`Oracle::of_connection`]).
    pub(super) fn translated(&self, in_port: u8, frame: &[u8]) -> Expected {
        let Some(public) = self.nf().translates() else { return Expected::Open };
        let Some(tuple) = five_tuple(frame) else { return Expected::Open };
        if in_port != 0 {
            return Expected::Drop(Reason::NoConnection);
        }
        let (port, out) = match self.routed(frame) {
            Expected::Forward { port: 1, frame } => (1, frame),
            Expected::Forward { .. } => return Expected::Drop(Reason::NoRoute),
            other => return other,
        };
        // Trackers may find port 0 invalid, and what a device makes of a segment whose connection it did not see opened
        // no description says; nor of what has no ports.
        let opens = tuple.protocol == ipv4::UDP || tuple.protocol == ipv4::TCP && is_syn(frame);
        let named = tuple.ports.is_some_and(|(source, destination)| source != 0 && destination != 0);
        if !opens || !named || tuple.source.octets()[..2] != [198, 18] {
            return Expected::Open;
        }
        Expected::Translated { port, frame: out, public }
    }
}

fn is_syn(frame: &[u8]) -> bool {
    use tcp::flags::{ACK, FIN, RST, SYN};
    let segment = ipv4_of(frame).and_then(|datagram| Ipv4View::checked(datagram).ok());
    let view = segment.and_then(|header| TcpView::checked(header.payload()).ok());
    view.is_some_and(|segment| segment.flags() & (SYN | ACK | RST | FIN) == SYN)
}

/// The frame with another source; all checksums that it has hold.
pub fn with_source(frame: &[u8], (address, port): (Ipv4Addr, u16)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = EthernetRepr::BYTES;
    let Ok(header) = Ipv4View::checked(frame.get(at..).unwrap_or(&[])) else { return frame };
    let (protocol, transport) = (header.protocol(), at + header.header_len());
    let old = [header.source().octets(), address.octets()];
    let at_sum = match protocol {
        ipv4::TCP => transport + tcp::CHECKSUM,
        ipv4::UDP => transport + udp::CHECKSUM,
        _ => return frame,
    };
    if frame.len() < at_sum + 2 {
        return frame;
    }
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let header_sum = checksum::update(word(&frame, at + ipv4::field::CHECKSUM), &old[0], &old[1]);
    frame[at + ipv4::field::SOURCE..at + ipv4::field::SOURCE + 4].copy_from_slice(&old[1]);
    frame[at + ipv4::field::CHECKSUM..at + ipv4::field::CHECKSUM + 2]
        .copy_from_slice(&header_sum.to_be_bytes());
    let sum = word(&frame, at_sum);
    let is_udp = protocol == ipv4::UDP;
    if !(is_udp && sum == 0) {
        let sum = checksum::update(sum, &old[0], &old[1]);
        let sum = checksum::update_u16(sum, word(&frame, transport), port);
        let sum = if is_udp { checksum::udp_nonzero(sum) } else { sum };
        frame[at_sum..at_sum + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame[transport..transport + 2].copy_from_slice(&port.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::Nf;
    use crate::compare::{Steadiness, compare};
    use crate::expected::flow;
    use weir_wire::{EtherType, Ipv4Repr, MacAddress, TcpRepr, UdpRepr};

    const OUTSIDE: (Ipv4Addr, u16) = (Ipv4Addr::new(203, 0, 113, 2), 61_000);

    fn oracle() -> Oracle {
        Oracle::new(Nf::Nat { addresses: 2 })
    }

    fn frame(protocol: u8, source: [u8; 4], destination: [u8; 4], ttl: u8) -> Vec<u8> {
        let mut frame = vec![7; 80];
        let mac = MacAddress([2; 6]);
        EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let (source, destination) = (source.into(), destination.into());
        let header = Ipv4Repr { source, destination, protocol, ttl, payload_len: 80 - 34 };
        header.emit(&mut frame[14..]);
        if protocol == ipv4::TCP {
            let flags = tcp::flags::SYN;
            TcpRepr { source: 5_000, destination: 80, sequence: 1, acknowledgement: 0, flags, window: 9 }
                .emit(&mut frame[34..], header.pseudo());
        } else {
            UdpRepr { source: 5_000, destination: 80, payload_len: 80 - 42 }.emit(&mut frame[34..]);
            let sum = checksum::finish(header.pseudo() + checksum::sum(&frame[34..]));
            frame[40..42].copy_from_slice(&checksum::udp_nonzero(sum).to_be_bytes());
        }
        frame
    }

    fn inside(protocol: u8) -> Vec<u8> {
        frame(protocol, [198, 18, 0, 9], [198, 19, 0, 7], 64)
    }

    fn faults(protocol: u8, change: impl Fn(&mut Vec<u8>)) -> Vec<Fault> {
        let expected = oracle().expected(0, &inside(protocol));
        let Expected::Translated { port, frame, .. } = &expected else { panic!("{expected:?}") };
        let mut came = with_source(frame, OUTSIDE);
        change(&mut came);
        compare(&expected, &came, *port).into_iter().map(|(fault, _)| fault).collect()
    }

    #[test]
    fn what_comes_from_inside_is_routed_and_has_a_public_source_with_all_checksums_right() {
        for protocol in [ipv4::TCP, ipv4::UDP] {
            assert_eq!(faults(protocol, |_| {}), []);
            assert_eq!(faults(protocol, |came| came[36] ^= 1), [Fault::Header], "another service");
            assert_eq!(
                faults(protocol, |came| *came = with_source(came, ([203, 0, 113, 3].into(), 5))),
                [Fault::Header]
            );
            assert_eq!(
                faults(protocol, |came| *came = with_source(came, ([198, 18, 0, 9].into(), 5_000))),
                [Fault::Header]
            );
            let sum = if protocol == ipv4::TCP { 50 } else { 40 };
            assert!(!faults(protocol, |came| came[sum] ^= 1).is_empty(), "a transport checksum");
            assert!(!faults(protocol, |came| came[24] ^= 1).is_empty(), "the header's checksum");
            assert!(!faults(protocol, |came| came[70] ^= 1).is_empty(), "the payload");
            assert!(faults(protocol, |came| came[22] += 1).contains(&Fault::Ttl));
            assert_eq!(faults(protocol, |came| came[0] ^= 4), [Fault::Macs]);
        }
    }

    #[test]
    fn strangers_and_what_leads_nowhere_do_not_come_through() {
        let oracle = oracle();
        let answer = frame(ipv4::UDP, [198, 19, 0, 7], [203, 0, 113, 1], 64);
        assert_eq!(oracle.expected(1, &answer), Expected::Drop(Reason::NoConnection));
        let direct = frame(ipv4::UDP, [198, 19, 0, 7], [198, 18, 0, 9], 64);
        assert_eq!(oracle.expected(1, &direct), Expected::Drop(Reason::NoConnection));
        let nowhere = frame(ipv4::UDP, [198, 18, 0, 9], [10, 0, 0, 1], 64);
        assert_eq!(oracle.expected(0, &nowhere), Expected::Drop(Reason::NoRoute));
        let expired = frame(ipv4::UDP, [198, 18, 0, 9], [198, 19, 0, 7], 1);
        assert_eq!(oracle.expected(0, &expired), Expected::Drop(Reason::Expired));
    }

    #[test]
    fn a_flow_keeps_its_source_and_shares_it_with_no_other_towards_a_server() {
        let oracle = oracle();
        let mut steady = Steadiness::default();
        let mut note = |sent: &[u8], source: (Ipv4Addr, u16)| {
            let expected = oracle.expected(0, sent);
            let Expected::Translated { frame, .. } = &expected else { panic!("{expected:?}") };
            let came = with_source(frame, source);
            steady.note(0, flow(sent), &expected, &came).map(|(_, what)| what)
        };
        let (one, other) = (inside(ipv4::UDP), frame(ipv4::UDP, [198, 18, 0, 10], [198, 19, 0, 7], 64));
        assert_eq!(note(&one, OUTSIDE), None);
        assert_eq!(note(&one, OUTSIDE), None);
        assert!(note(&one, (OUTSIDE.0, 7)).unwrap().contains("203.0.113.2:61000 before"));
        assert!(note(&other, OUTSIDE).unwrap().contains("has that source"));
        let elsewhere = frame(ipv4::UDP, [198, 18, 0, 10], [198, 19, 0, 8], 64);
        assert_eq!(note(&elsewhere, OUTSIDE), None, "towards another server it is free");
    }

    #[test]
    fn a_udp_packet_without_a_checksum_gets_none() {
        let mut sent = inside(ipv4::UDP);
        sent[40..42].fill(0);
        let came = with_source(&sent, OUTSIDE);
        assert_eq!(came[40..42], [0, 0]);
    }
}
