//! Frames that neighbours on a wire send by themselves. One of them among a trial's packets says nothing
//! about the device under test.

use crate::stamp::{Stamp, key};
use weir_wire::{EtherType, EthernetRepr};

/// Group addresses that no bridge passes on (IEEE 802.1Q, table 8-1): spanning tree, LLDP, LACP, pause.
const RESERVED_GROUP: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];
/// Cisco's discovery and spanning tree protocols.
const CISCO_GROUP: [u8; 5] = [0x01, 0x00, 0x0c, 0xcc, 0xcc];
const ARP: EtherType = EtherType(0x0806);
const LLDP: EtherType = EtherType(0x88cc);
/// IPv6 header numbers (RFC 8200).
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;
const IPV6_HEADER: usize = 40;
/// Room for an IPv6 header, hop-by-hop options of eight bytes and a type.
const LEAST: usize = IPV6_HEADER + 1;

/// Whether a frame without a stamp is of a protocol that keeps to its link: reserved group addresses,
/// LLDP, ARP, IPv6 neighbour discovery (RFC 4861) and multicast listener discovery (RFC 3810).
pub(crate) fn is_wire_chatter(frame: &[u8]) -> bool {
    let Some((link, packet)) = frame.split_first_chunk::<{ EthernetRepr::BYTES }>() else { return false };
    if Stamp::read(frame, key()).is_some() {
        return false;
    }
    let reserved = link.starts_with(&RESERVED_GROUP) && link[5] < 0x10 || link.starts_with(&CISCO_GROUP);
    match EtherType(u16::from_be_bytes([link[12], link[13]])) {
        ARP | LLDP => true,
        EtherType::IPV6 => reserved || is_discovery(packet),
        _ => reserved,
    }
}

/// Whether an IPv6 packet is of neighbour discovery or multicast listener discovery.
fn is_discovery(packet: &[u8]) -> bool {
    if packet.len() < LEAST {
        return false;
    }
    let at = match packet[6] {
        ICMPV6 => IPV6_HEADER,
        // Listener reports carry the router alert option, eight bytes in all.
        HOP_BY_HOP if packet[IPV6_HEADER] == ICMPV6 => IPV6_HEADER + 8,
        _ => return false,
    };
    matches!(packet.get(at), Some(130..=137 | 143))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(destination: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = [&destination[..], &[2; 6], &ether_type.to_be_bytes(), payload].concat();
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn icmpv6(kind: u8, hop_by_hop: bool) -> Vec<u8> {
        let mut packet = vec![0; IPV6_HEADER];
        (packet[0], packet[6]) = (0x60, if hop_by_hop { HOP_BY_HOP } else { ICMPV6 });
        if hop_by_hop {
            packet.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        }
        packet.push(kind);
        packet
    }

    #[test]
    fn protocols_of_the_link_are_known_and_traffic_is_not_taken_for_them() {
        let (group, host) = ([0x33, 0x33, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        let lldp = frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc, &[2, 7, 4]);
        let known = [
            lldp.clone(),
            frame([0x01, 0x80, 0xc2, 0, 0, 0], 38, &[0x42, 0x42, 3]), // spanning tree
            frame([0x01, 0, 0x0c, 0xcc, 0xcc, 0xcc], 90, &[0xaa]),
            frame([0xff; 6], 0x0806, &[0, 1]),
            frame(group, 0x86dd, &icmpv6(135, false)),
            frame(group, 0x86dd, &icmpv6(143, true)),
        ];
        assert!(known.iter().all(|frame| is_wire_chatter(frame)));
        let mut forged = lldp;
        let at = forged.len() - Stamp::BYTES;
        Stamp { trial: 3, sequence: 1, tsc: 5 }.write(&mut forged[at..], key());
        let others = [
            forged,
            frame([0x01, 0x80, 0xc2, 0, 0, 0x10], 0x0800, &[0x45]),
            frame(host, 0x0800, &[0x45]),
            frame(host, 0x86dd, &icmpv6(128, false)), // an echo request
            frame(host, 0x86dd, &[0x60]),
            vec![0xff; 13],
        ];
        for frame in &others {
            assert!(!is_wire_chatter(frame), "{frame:02x?}");
        }
    }
}
