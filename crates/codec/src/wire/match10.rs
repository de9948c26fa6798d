//! The match of OpenFlow 1.0, of fixed size (OpenFlow 1.0.1, section 5.2.3).

use crate::cursor::{Cursor, Decoded, Put, from_port16, to_port16};
use weir_flow::{Field, Match, ones};

use Field as F;

/// Bits of the wildcards.
const IN_PORT: u32 = 1 << 0;
const VLAN: u32 = 1 << 1;
const SOURCE: u32 = 1 << 2;
const DESTINATION: u32 = 1 << 3;
const TYPE: u32 = 1 << 4;
const PROTOCOL: u32 = 1 << 5;
const TP_SOURCE: u32 = 1 << 6;
const TP_DESTINATION: u32 = 1 << 7;
const PRIORITY: u32 = 1 << 20;
const TOS: u32 = 1 << 21;

/// Where the low bits of the addresses that do not matter are counted.
const NW_SOURCE: u32 = 8;
const NW_DESTINATION: u32 = 14;

/// The VLAN that stands for no tag.
const NO_VLAN: u16 = 0xffff;
/// The bit of a VLAN TCI that says that there is a tag.
const TAG: u128 = 0x1000;

/// Reads a match. What a field needs and is not matched makes it mean nothing, as Open vSwitch has it.
pub(crate) fn read_match10(body: &mut Cursor<'_>) -> Decoded<Match> {
    let wild = body.u32()?;
    let port = body.u16()?;
    let (source, destination) = (body.number(6)?, body.number(6)?);
    let (vlan, priority) = (body.u16()?, body.u8()?);
    body.skip(1)?;
    let ether_type = body.u16()?;
    let (tos, protocol) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    let (nw_source, nw_destination) = (body.u32()?, body.u32()?);
    let (tp_source, tp_destination) = (body.u16()?, body.u16()?);

    let mut out = Match::any();
    let mut exact = |bit: u32, field: Field, value: u128| {
        if wild & bit == 0 {
            out.demand(field, value, u128::MAX);
        }
    };
    exact(IN_PORT, F::InPort, u128::from(from_port16(port)));
    exact(SOURCE, F::EthSrc, source);
    exact(DESTINATION, F::EthDst, destination);
    exact(TYPE, F::EthType, u128::from(ether_type));
    tag(&mut out, wild, vlan, priority);

    let ether_type = if wild & TYPE == 0 { ether_type } else { 0 };
    let (v4, v6) = (ether_type == 0x0800, ether_type == 0x86dd);
    let arp = matches!(ether_type, 0x0806 | 0x8035);
    if v4 || arp {
        let mask = |shift: u32| ones(32) & !ones((wild >> shift & 0x3f).min(32));
        out.demand(F::NwSrc, nw_source.into(), mask(NW_SOURCE));
        out.demand(F::NwDst, nw_destination.into(), mask(NW_DESTINATION));
    }
    if arp && wild & PROTOCOL == 0 {
        out.demand(F::ArpOp, protocol.into(), u128::MAX);
    }
    if !v4 && !v6 {
        return Ok(out);
    }
    if wild & TOS == 0 {
        out.demand(F::NwTos, u128::from(tos >> 2), u128::MAX);
    }
    if wild & PROTOCOL != 0 {
        return Ok(out);
    }
    out.demand(F::NwProto, protocol.into(), u128::MAX);
    let mask = match protocol {
        6 | 17 | 132 => ones(16),
        1 if v4 => ones(8),
        58 if v6 => ones(8),
        _ => return Ok(out),
    };
    // Ports of all protocols, and ICMP's type and code, lie in the same place.
    if wild & TP_SOURCE == 0 {
        out.demand(F::TcpSrc, u128::from(tp_source) & mask, mask);
    }
    if wild & TP_DESTINATION == 0 {
        out.demand(F::TcpDst, u128::from(tp_destination) & mask, mask);
    }
    Ok(out)
}

fn tag(out: &mut Match, wild: u32, vlan: u16, priority: u8) {
    if wild & VLAN == 0 && vlan == NO_VLAN {
        out.demand(F::VlanTci, 0, u128::MAX);
        return;
    }
    if wild & VLAN == 0 {
        out.demand(F::VlanTci, u128::from(vlan) & ones(12) | TAG, ones(12) | TAG);
    }
    if wild & PRIORITY == 0 {
        out.demand(F::VlanTci, u128::from(priority & 7) << 13 | TAG, 7 << 13 | TAG);
    }
}

/// Writes a match: as much of it as OpenFlow 1.0 can say.
pub(crate) fn put_match10(out: &mut Vec<u8>, matching: &Match) {
    let (key, mask) = (matching.key(), matching.mask());
    let mut wild = 0;
    let mut exact = |field: Field, bit: u32| {
        let bits = field.mask_of(&mask);
        if bits == ones(field.bits()) {
            return field.get(&key);
        }
        wild |= bit;
        0
    };
    let port = exact(F::InPort, IN_PORT) as u32;
    let (source, destination) = (exact(F::EthSrc, SOURCE), exact(F::EthDst, DESTINATION));
    let ether_type = exact(F::EthType, TYPE) as u16;
    let arp = matches!(ether_type, 0x0806 | 0x8035);
    let protocol = if arp { exact(F::ArpOp, PROTOCOL) } else { exact(F::NwProto, PROTOCOL) };
    let tos = exact(F::NwTos, TOS) << 2;
    let known = if arp { 0 } else { protocol };
    let (tp_source, tp_destination) = match known {
        1 | 58 => (exact(F::IcmpType, TP_SOURCE), exact(F::IcmpCode, TP_DESTINATION)),
        6 | 17 | 132 => (exact(F::TcpSrc, TP_SOURCE), exact(F::TcpDst, TP_DESTINATION)),
        _ => {
            wild |= TP_SOURCE | TP_DESTINATION;
            (0, 0)
        }
    };
    let (tci, bits) = (F::VlanTci.get(&key), F::VlanTci.mask_of(&mask));
    let untagged = bits & TAG != 0 && tci & TAG == 0;
    let vlan = if untagged {
        NO_VLAN
    } else if bits & ones(12) == ones(12) {
        (tci & ones(12)) as u16
    } else {
        wild |= VLAN;
        0
    };
    let priority = if bits >> 13 == 7 {
        (tci >> 13) as u8
    } else {
        wild |= PRIORITY;
        0
    };
    // Only whole prefixes can be said: of another mask, the bits in front of its first gap.
    let prefix = |field: Field| (field.mask_of(&mask) as u32).leading_ones();
    let network = ether_type == 0x0800 || arp;
    let address = |field: Field| {
        if !network {
            return (0, 32);
        }
        let wild = 32 - prefix(field);
        (field.get(&key) as u32 & !(ones(wild) as u32), wild)
    };
    let ((nw_source, low_source), (nw_destination, low_destination)) = (address(F::NwSrc), address(F::NwDst));
    wild |= low_source << NW_SOURCE | low_destination << NW_DESTINATION;

    out.u32(wild);
    out.u16(if wild & IN_PORT == 0 { to_port16(port) } else { 0 });
    out.number(source, 6);
    out.number(destination, 6);
    out.u16(vlan);
    out.u8(priority);
    out.zeros(1);
    out.u16(ether_type);
    out.u8(tos as u8);
    out.u8(protocol as u8);
    out.zeros(2);
    out.u32(nw_source);
    out.u32(nw_destination);
    out.u16(tp_source as u16);
    out.u16(tp_destination as u16);
}
