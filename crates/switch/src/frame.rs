//! A frame out of a description: the packet that a match describes, for `trace`.
//!
//! What the description leaves open is filled in plainly: TTL 64, a SYN where it is TCP, an echo request
//! where it is ICMP, zeros elsewhere. Lengths and checksums are right, so that the packet is one that
//! the tables would really see.

use std::net::{Ipv4Addr, Ipv6Addr};
use weir_flow::{Field, Key, Mask, Match};
use weir_openflow::PortNo;
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, Ipv6Repr, MacAddress, TcpRepr, UdpRepr, checksum};

/// Shortest frame, without FCS (IEEE 802.3).
const SHORTEST: usize = 60;
/// Hops of a packet that is not told.
const TTL: u8 = 64;
/// The EtherType of a packet that is not told: IEEE's for experiments.
const EXPERIMENTAL: u16 = 0x88b5;
/// The bit of `vlan_tci` that says that there is a tag (`ovs-fields(7)`).
const TAGGED: u16 = 0x1000;
/// Bytes of transport payload.
const PAYLOAD: usize = 8;

const ARP: u16 = 0x0806;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const SYN: u8 = 0x02;
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;
/// ICMPv6 types that carry a target (RFC 4861).
const NEIGHBOUR: [u8; 2] = [135, 136];
/// Bits of `nw_frag`: any fragment, and one other than the first.
const LATER: u8 = 2;

/// What a description says.
struct Described {
    key: Key,
    mask: Mask,
}

impl Described {
    fn get(&self, field: Field) -> u128 {
        field.get(&self.key)
    }

    /// The value, or another where the description does not say.
    fn or(&self, field: Field, default: u128) -> u128 {
        if field.mask_of(&self.mask) == 0 { default } else { self.get(field) }
    }

    fn mac(&self, field: Field) -> MacAddress {
        let [_, _, a, b, c, d, e, f] = (self.get(field) as u64).to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }

    fn ipv4(&self, field: Field) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.get(field) as u32)
    }

    fn ipv6(&self, field: Field) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.get(field))
    }
}

/// Whether a packet on the wire can have the field.
fn on_the_wire(field: Field) -> bool {
    use Field as F;
    let registers = F::Reg0 as u8..=F::Xxreg3 as u8;
    let tracked = F::CtState as u8..=F::CtIpv6Dst as u8;
    !registers.contains(&(field as u8))
        && !tracked.contains(&(field as u8))
        && !matches!(
            field,
            F::Metadata
                | F::TunId
                | F::TunSrc
                | F::TunDst
                | F::PktMark
                | F::RecircId
                | F::ConjId
                | F::ActsetOutput
                | F::SfStage
                | F::SfAction
                | F::SfMetadata
        )
}

/// The port that a described packet comes in by, if it says, and its frame without FCS.
///
/// # Errors
/// What a packet on the wire cannot have.
pub(crate) fn described(matching: &Match) -> Result<(Option<PortNo>, Vec<u8>), String> {
    let packet = Described { key: matching.key(), mask: matching.mask() };
    let wrong = Field::ALL.iter().find(|field| !on_the_wire(**field) && field.mask_of(&packet.mask) != 0);
    if let Some(field) = wrong {
        return Err(format!("`{}` is no part of a packet that comes in; leave it out", field.name()));
    }
    let port = packet.or(Field::InPort, 0) as u32;
    let mut frame = vec![0; EthernetRepr::BYTES];
    let ether_type = packet.or(Field::EthType, EXPERIMENTAL.into()) as u16;
    let tci = packet.get(Field::VlanTci) as u16;
    let outer = if tci & TAGGED == 0 { EtherType(ether_type) } else { EtherType::VLAN };
    let ethernet = EthernetRepr {
        destination: packet.mac(Field::EthDst),
        source: packet.mac(Field::EthSrc),
        ether_type: outer,
    };
    ethernet.emit(&mut frame);
    if tci & TAGGED != 0 {
        frame.extend((tci & !TAGGED).to_be_bytes());
        frame.extend(ether_type.to_be_bytes());
    }
    match ether_type {
        0x0800 => ipv4(&packet, &mut frame)?,
        0x86dd => ipv6(&packet, &mut frame)?,
        ARP => arp(&packet, &mut frame),
        label if MPLS.contains(&label) => mpls(&packet, &mut frame),
        _ => {}
    }
    frame.resize(frame.len().max(SHORTEST), 0);
    Ok(((port != 0).then_some(PortNo(port)), frame))
}

fn arp(packet: &Described, frame: &mut Vec<u8>) {
    frame.extend([0, 1, 8, 0, 6, 4]);
    frame.extend((packet.or(Field::ArpOp, 1) as u16).to_be_bytes());
    frame.extend(packet.mac(Field::ArpSha).0);
    frame.extend(packet.ipv4(Field::ArpSpa).octets());
    frame.extend(packet.mac(Field::ArpTha).0);
    frame.extend(packet.ipv4(Field::ArpTpa).octets());
}

fn mpls(packet: &Described, frame: &mut Vec<u8>) {
    let part = |field, default: u128, shift: u32| (packet.or(field, default) as u32) << shift;
    let entry = part(Field::MplsLabel, 16, 12)
        | part(Field::MplsTc, 0, 9)
        | part(Field::MplsBos, 1, 8)
        | part(Field::MplsTtl, TTL.into(), 0);
    frame.extend(entry.to_be_bytes());
    if entry >> 8 & 1 == 0 {
        frame.extend((16_u32 << 12 | 1 << 8 | u32::from(TTL)).to_be_bytes());
    }
}

fn ipv4(packet: &Described, frame: &mut Vec<u8>) -> Result<(), String> {
    let later = packet.get(Field::NwFrag) as u8 & LATER != 0;
    let header = Ipv4Repr {
        source: packet.ipv4(Field::NwSrc),
        destination: packet.ipv4(Field::NwDst),
        protocol: packet.get(Field::NwProto) as u8,
        ttl: packet.or(Field::NwTtl, TTL.into()) as u8,
        payload_len: 0,
    };
    let payload = if later {
        vec![0; PAYLOAD]
    } else {
        transport(packet, header.protocol, false, |len| Ipv4Repr { payload_len: len, ..header }.pseudo())?
    };
    let header = Ipv4Repr { payload_len: payload.len() as u16, ..header };
    let mut bytes = [0; Ipv4Repr::BYTES];
    header.emit(&mut bytes);
    bytes[1] = (packet.get(Field::NwTos) as u8) << 2 | packet.get(Field::NwEcn) as u8;
    if packet.get(Field::NwFrag) != 0 {
        // More fragments, at the start or 185 eight-byte units into the packet.
        bytes[6..8].copy_from_slice(&if later { 0x20b9_u16 } else { 0x2000 }.to_be_bytes());
    }
    bytes[10..12].fill(0);
    let sum = checksum::checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(bytes);
    frame.extend(payload);
    Ok(())
}

fn ipv6(packet: &Described, frame: &mut Vec<u8>) -> Result<(), String> {
    if packet.get(Field::Ipv6Exthdr) != 0 {
        return Err(
            "`ipv6_exthdr`: a packet with extension headers is traced by its bytes (frame=HEX)".to_owned()
        );
    }
    const FRAGMENT: u8 = 44;
    let fragment = packet.get(Field::NwFrag) as u8;
    let protocol = packet.get(Field::NwProto) as u8;
    let header = Ipv6Repr {
        source: packet.ipv6(Field::Ipv6Src),
        destination: packet.ipv6(Field::Ipv6Dst),
        next_header: protocol,
        hop_limit: packet.or(Field::NwTtl, TTL.into()) as u8,
        payload_len: 0,
    };
    let mut payload = if fragment & LATER != 0 {
        vec![0; PAYLOAD]
    } else {
        transport(packet, protocol, true, |len| Ipv6Repr { payload_len: len, ..header }.pseudo())?
    };
    let mut next_header = protocol;
    if fragment != 0 {
        let place: u16 = if fragment & LATER != 0 { 185 << 3 | 1 } else { 1 };
        let [high, low] = place.to_be_bytes();
        payload.splice(..0, [protocol, 0, high, low, 0, 0, 0, 1]);
        next_header = FRAGMENT;
    }
    let header = Ipv6Repr { payload_len: payload.len() as u16, next_header, ..header };
    let mut bytes = [0; Ipv6Repr::BYTES];
    header.emit(&mut bytes);
    let class = (packet.get(Field::NwTos) as u32) << 2 | packet.get(Field::NwEcn) as u32;
    let first = 6 << 28 | class << 20 | packet.get(Field::Ipv6Label) as u32;
    bytes[..4].copy_from_slice(&first.to_be_bytes());
    frame.extend(bytes);
    frame.extend(payload);
    Ok(())
}

/// The transport header and its payload. `pseudo` sums the pseudo-header for so many bytes.
fn transport(
    packet: &Described,
    protocol: u8,
    six: bool,
    pseudo: impl Fn(u16) -> u32,
) -> Result<Vec<u8>, String> {
    let port = |field| packet.get(field) as u16;
    // Fields of one place in the key answer for each other: ports are those of any protocol.
    let (source, destination) = (port(Field::UdpSrc), port(Field::UdpDst));
    let mut segment = match protocol {
        TCP => {
            let mut segment = vec![0; TcpRepr::BYTES + PAYLOAD];
            let flags = packet.or(Field::TcpFlags, SYN.into()) as u8;
            let tcp = TcpRepr { source, destination, sequence: 1, acknowledgement: 0, flags, window: 65_535 };
            let sum = pseudo(segment.len() as u16);
            tcp.emit(&mut segment, sum);
            return Ok(segment);
        }
        UDP => {
            let mut segment = vec![0; UdpRepr::BYTES + PAYLOAD];
            UdpRepr { source, destination, payload_len: PAYLOAD as u16 }.emit(&mut segment);
            segment
        }
        SCTP => {
            let mut segment = vec![0; 12 + PAYLOAD];
            segment[..2].copy_from_slice(&source.to_be_bytes());
            segment[2..4].copy_from_slice(&destination.to_be_bytes());
            return Ok(segment); // its checksum is no part of any match, and stays zero
        }
        ICMP if !six => {
            let kind = packet.or(Field::IcmpType, ECHO.into()) as u8;
            let mut message = vec![0; 8 + PAYLOAD];
            message[..2].copy_from_slice(&[kind, packet.get(Field::IcmpCode) as u8]);
            message
        }
        ICMPV6 if six => icmpv6(packet),
        _ => return Ok(vec![0; PAYLOAD]),
    };
    let (at, pseudo) = match protocol {
        UDP => (6, pseudo(segment.len() as u16)),
        ICMP => (2, 0),
        _ => (2, pseudo(segment.len() as u16)),
    };
    let sum = checksum::finish(pseudo + checksum::sum(&segment));
    let sum = if protocol == UDP { checksum::udp_nonzero(sum) } else { sum };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(segment)
}

fn icmpv6(packet: &Described) -> Vec<u8> {
    let kind = packet.or(Field::Icmpv6Type, ECHO_V6.into()) as u8;
    let mut message = vec![0; 8];
    message[..2].copy_from_slice(&[kind, packet.get(Field::Icmpv6Code) as u8]);
    if !NEIGHBOUR.contains(&kind) {
        message.extend([0; PAYLOAD]);
        return message;
    }
    message.extend(packet.ipv6(Field::NdTarget).octets());
    // The link-layer address of the sender in a solicitation, of the target in an advertisement.
    let (option, address) = if kind == NEIGHBOUR[0] { (1, Field::NdSll) } else { (2, Field::NdTll) };
    message.extend([option, 1]);
    message.extend(packet.mac(address).0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Dissection, Ipv4View, TcpView, UdpView};

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
