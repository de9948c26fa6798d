//! A frame out of a description: the packet that a match describes, for `trace`.
//!
//! What the description leaves open is filled in plainly: TTL 64, a SYN where it is TCP, an echo request
//! where it is ICMP, zeros elsewhere. Lengths and checksums are right, so that the packet is one that
//! the tables would really see.

use weir_flow::protocol::{ARP, BOTTOM_OF_STACK, ICMP, ICMPV6, IPV4, IPV6, RARP, TCP, is_mpls};
use weir_flow::span::SECOND_LABEL;
use weir_flow::{Field, Key, Match, compose};
use weir_openflow::PortNo;

/// Hops of a packet that is not told.
const TTL: u8 = 64;
/// The EtherType of a packet that is not told: IEEE's for experiments.
const EXPERIMENTAL: u16 = 0x88b5;
/// The label of one that is not told: the first that means nothing.
const LABEL: u32 = 16;
/// Bytes of transport payload.
const PAYLOAD: usize = 8;

const SYN: u8 = 0x02;
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;
/// ARP's operation that asks.
const REQUEST: u8 = 1;

/// The port that a described packet comes in by, if it says, and its frame without FCS.
///
/// # Errors
/// What a packet on the wire cannot have.
pub(crate) fn described(matching: &Match) -> Result<(Option<PortNo>, Vec<u8>), String> {
    let (mut key, mask) = (matching.key(), matching.mask());
    let on_the_wire = |field: Field| field.about().source.is_packet() || field == Field::InPort;
    let wrong = Field::ALL.iter().find(|field| !on_the_wire(**field) && field.mask_of(&mask) != 0);
    if let Some(field) = wrong {
        return Err(format!("`{}` is no part of a packet that comes in; leave it out", field.name()));
    }
    if Field::Ipv6Exthdr.get(&key) != 0 {
        return Err(
            "`ipv6_exthdr`: a packet with extension headers is traced by its bytes (frame=HEX)".to_owned()
        );
    }
    // In turn: what a field is by default depends on those before.
    for defaults in [link, network, transport] {
        for &(field, value) in defaults(&key) {
            if field.mask_of(&mask) == 0 {
                field.set(&mut key, value.into());
            }
        }
    }
    // Below a label that is not the last, one that is.
    SECOND_LABEL.set(&mut key, u64::from(LABEL << 12 | BOTTOM_OF_STACK | u32::from(TTL)));
    let port = key.in_port();
    Ok(((port != 0).then_some(PortNo(port)), compose(&key, &[0; PAYLOAD])))
}

fn link(_: &Key) -> &'static [(Field, u16)] {
    &[(Field::EthType, EXPERIMENTAL)]
}

fn network(key: &Key) -> &'static [(Field, u16)] {
    match key.ether_type() {
        IPV4 | IPV6 => &[(Field::NwTtl, TTL as u16)],
        ARP | RARP => &[(Field::ArpOp, REQUEST as u16)],
        label if is_mpls(label) => {
            &[(Field::MplsLabel, LABEL as u16), (Field::MplsBos, 1), (Field::MplsTtl, TTL as u16)]
        }
        _ => &[],
    }
}

fn transport(key: &Key) -> &'static [(Field, u16)] {
    match (key.ether_type(), key.protocol()) {
        (IPV4 | IPV6, TCP) => &[(Field::TcpFlags, SYN as u16)],
        (IPV4, ICMP) => &[(Field::IcmpType, ECHO as u16)],
        (IPV6, ICMPV6) => &[(Field::Icmpv6Type, ECHO_V6 as u16)],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use weir_wire::{Dissection, Ipv4View, TcpView, UdpView, checksum};

    fn matching(fields: &[(Field, u128)]) -> Match {
        let mut out = Match::any();
        for (field, value) in fields {
            out.demand(*field, *value, u128::MAX);
        }
        out
    }

    #[test]
    fn a_described_tcp_packet_is_whole_and_its_checksums_are_right() {
        let (port, frame) = described(&matching(&[
            (Field::InPort, 3),
            (Field::EthDst, 0x0200_0000_0009),
            (Field::VlanTci, 0x1000 | 3 << 13 | 77),
            (Field::EthType, 0x0800),
            (Field::NwProto, 6),
            (Field::NwSrc, 0x0a00_0001),
            (Field::NwDst, 0x0a00_0002),
            (Field::NwTos, 46),
            (Field::TcpDst, 443),
        ]))
        .unwrap();
        assert_eq!((port, frame.len()), (Some(PortNo(3)), 66));
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(frame[12..18], [0x81, 0, 0x60, 77, 8, 0]);
        let ip = Ipv4View::checked(&frame[18..]).unwrap();
        assert!(ip.checksum_is_right() && ip.ttl() == 64 && frame[19] == 46 << 2);
        let tcp = TcpView::checked(ip.payload()).unwrap();
        assert_eq!((tcp.destination(), tcp.flags()), (443, SYN));
        let pseudo = checksum::pseudo_ipv4(ip.source(), ip.destination(), 6, ip.payload().len() as u16);
        assert_eq!(checksum::finish(pseudo + checksum::sum(ip.payload())), 0);
    }

    #[test]
    fn a_described_udp_packet_over_ipv6_is_whole() {
        let source = 0x2001_0db8_u128 << 96 | 1;
        let (port, frame) = described(&matching(&[
            (Field::EthType, 0x86dd),
            (Field::NwProto, 17),
            (Field::Ipv6Src, source),
            (Field::NwTtl, 3),
            (Field::UdpDst, 53),
        ]))
        .unwrap();
        assert_eq!(port, None);
        let found = Dissection::of(&frame);
        let (network, transport) = (found.network.unwrap(), found.transport.unwrap());
        assert_eq!((network.source, transport.destination), (Ipv6Addr::from_bits(source).into(), 53));
        assert!(frame[21] == 3 && network.end == frame.len());
        let udp = UdpView::checked(&frame[transport.offset..]).unwrap();
        let pseudo = checksum::pseudo_ipv6(Ipv6Addr::from_bits(source), Ipv6Addr::UNSPECIFIED, 17, 16);
        assert!(udp.checksum() != 0 && udp.checksum_is_right(pseudo));
    }

    #[test]
    fn fragments_arp_labels_and_neighbours_are_described_too() {
        let ip = [(Field::EthType, 0x0800), (Field::NwProto, 17)];
        let later = described(&matching(&[ip[0], ip[1], (Field::NwFrag, 3)])).unwrap().1;
        let view = Ipv4View::checked(&later[14..]).unwrap();
        assert!(view.fragment_offset() > 0 && view.checksum_is_right());
        let first = described(&matching(&[ip[0], ip[1], (Field::NwFrag, 1)])).unwrap().1;
        let view = Ipv4View::checked(&first[14..]).unwrap();
        assert!(view.is_fragment() && view.fragment_offset() == 0);
        let arp = described(&matching(&[(Field::EthType, 0x0806), (Field::ArpTpa, 0x0a00_0001)])).unwrap().1;
        assert_eq!((&arp[14..22], &arp[38..42]), (&[0, 1, 8, 0, 6, 4, 0, 1][..], &[10, 0, 0, 1][..]));
        let label = described(&matching(&[(Field::EthType, 0x8847), (Field::MplsLabel, 5)])).unwrap().1;
        assert_eq!(label[14..18], [0, 0, 0x51, 64]);
        let target = 0xfe80_u128 << 112 | 9;
        let neighbour = described(&matching(&[
            (Field::EthType, 0x86dd),
            (Field::NwProto, 58),
            (Field::Icmpv6Type, 135),
            (Field::NdTarget, target),
        ]))
        .unwrap()
        .1;
        assert_eq!(neighbour[62..78], target.to_be_bytes());
    }

    #[test]
    fn what_no_packet_on_the_wire_has_is_refused_by_name() {
        for field in [Field::Metadata, Field::Reg3, Field::CtState, Field::SfStage, Field::TunId] {
            let error = described(&matching(&[(field, 1)])).unwrap_err();
            let shared = matches!(field, Field::Reg3);
            assert!(shared || error.contains(field.name()), "{error}");
        }
        let error = described(&matching(&[(Field::EthType, 0x86dd), (Field::Ipv6Exthdr, 8)])).unwrap_err();
        assert!(error.contains("frame=HEX"), "{error}");
    }
}
