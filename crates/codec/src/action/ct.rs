//! Nicira's `ct` and `nat` (`ovs-actions(7)`): connections are tracked and translated.

use super::EXPERIMENTER;
use super::nicira::places;
use super::read::{Known, exactly, item, part, read_actions, writable};
use super::write::{Unsayable, put_actions};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::field::{put_header, read_header, row_for};
use crate::{Code, NICIRA, Version};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_openflow::{Action, Ct, CtStep, CtZone, Nat, NatRange, TableId};

/// Nicira's number of `ct`.
const CT: u16 = 35;
/// Nicira's number of `nat`.
const NAT: u16 = 36;

/// Reads `ct`; `body` is what follows its number.
pub(super) fn read(mut body: Cursor<'_>, version: Version, known: Known) -> Decoded<Ct> {
    let flags = body.u16()?;
    let has_source = body.with(Code::ActionLength).u32()? != 0;
    let zone = if has_source {
        let row = read_header(&mut body)?;
        let (from, bits) = places(body.u16()?);
        let zone = part(row, from, bits)?;
        if zone.bits != 16 {
            return Err(Fault::new(Code::ActionFieldLength, "a zone has 16 bits"));
        }
        CtZone::Bits(zone)
    } else {
        body.skip(4)?;
        CtZone::Number(body.u16()?)
    };
    let table = body.u8()?;
    body.skip(3)?;
    let helper = body.u16()?;
    if flags & !3 != 0 || flags == 2 {
        return Err(Fault::new(
            Code::ActionArgument,
            "flags of `ct` are unknown, or `force` is without `commit`",
        ));
    }
    let mut known = known.inside()?;
    known.tracked = true;
    let mut steps = Vec::new();
    while !body.is_empty() {
        let mut peek = body;
        let (kind, mut inside) = item(&mut peek)?;
        let length = body.len() - peek.len();
        let one = body.part(length)?;
        let nat = kind == EXPERIMENTER
            && inside.u32().is_ok_and(|whose| whose == NICIRA)
            && inside.u16().is_ok_and(|kind| kind == NAT);
        if nat {
            steps.push(CtStep::Nat(read_nat(inside)?));
        } else {
            for action in read_actions(one, version, known)? {
                // Also of the actions that say their field by their number, such as `set_tunnel`.
                if let Action::SetField { field, .. } = action {
                    writable(field, known)?;
                }
                steps.push(CtStep::Set(action));
            }
        }
    }
    let ct = Ct {
        commit: flags & 1 != 0,
        force: flags & 2 != 0,
        zone,
        table: Some(TableId(table)).filter(|table| table.0 != 255),
        helper,
        steps,
    };
    check(&ct).map(|()| ct)
}

/// Whether a helper and steps are such as can be done.
fn check(ct: &Ct) -> Decoded<()> {
    let fault = |what| Err(Fault::new(Code::ActionArgument, what));
    let sets = |step: &CtStep| {
        matches!(
            step,
            CtStep::Nat(_) | CtStep::Set(Action::SetField { .. } | Action::Load { .. } | Action::Move { .. })
        )
    };
    if !ct.steps.iter().all(sets) {
        return fault("within `ct`, only the mark and the label of connections are set");
    }
    let plain = |step: &CtStep| matches!(step, CtStep::Nat(nat) if *nat == Nat::default());
    if !ct.commit && !ct.steps.iter().all(plain) {
        return fault("`ct` needs `commit` for anything but `nat` without arguments");
    }
    if !matches!(ct.helper, 0 | Ct::FTP | Ct::TFTP) {
        return fault("there are helpers for FTP and TFTP");
    }
    Ok(())
}

/// Writes `ct`.
pub(super) fn put(ct: &Ct, version: Version, out: &mut Vec<u8>) -> Result<(), Unsayable> {
    let start = out.open(EXPERIMENTER);
    out.u32(NICIRA);
    out.u16(CT);
    out.u16(u16::from(ct.commit) | u16::from(ct.force) << 1);
    match ct.zone {
        CtZone::Number(number) => {
            out.u32(0);
            out.u16(number);
        }
        CtZone::Bits(bits) => {
            put_header(out, row_for(bits.field, Version::V10), false);
            out.u16(u16::from(bits.from) << 6 | u16::from(bits.bits - 1));
        }
    }
    out.u8(ct.table.map_or(255, |table| table.0));
    out.zeros(3);
    out.u16(ct.helper);
    for step in &ct.steps {
        match step {
            CtStep::Nat(nat) => put_nat(nat, out),
            CtStep::Set(action) => put_actions(out, version, std::slice::from_ref(action), false)?,
        }
    }
    out.close(start);
    Ok(())
}

/// Reads `nat`; `body` is what follows its number.
fn read_nat(mut body: Cursor<'_>) -> Decoded<Nat> {
    let wrong = |what| Err(Fault::new(Code::ActionArgument, what));
    body.skip(2)?;
    let (flags, present) = (body.u16()?, body.u16()?);
    if flags & !0x1f != 0 || flags & 3 == 3 || flags & 0x18 == 0x18 || present & !0x3f != 0 {
        return wrong("flags of `nat` are unknown or exclude each other");
    }
    let has = |bit: u16| present & bit != 0;
    let v4 = |body: &mut Cursor<'_>| body.u32().map(Ipv4Addr::from_bits);
    let v6 = |body: &mut Cursor<'_>| body.array().map(Ipv6Addr::from);
    let range = match present & 0xf {
        0 => NatRange::None,
        1 => NatRange::Ipv4(v4(&mut body)?, None),
        3 => NatRange::Ipv4(v4(&mut body)?, Some(v4(&mut body)?)),
        4 => NatRange::Ipv6(v6(&mut body)?, None),
        12 => NatRange::Ipv6(v6(&mut body)?, Some(v6(&mut body)?)),
        _ => return wrong("the addresses of `nat` are of both kinds, or have no least"),
    };
    let least = if has(16) { body.u16()? } else { 0 };
    let greatest = if has(32) { body.u16()? } else { 0 };
    let ordered = match range {
        NatRange::Ipv4(low, Some(high)) => low <= high,
        NatRange::Ipv6(low, Some(high)) => low <= high,
        _ => true,
    };
    if !ordered || greatest != 0 && greatest < least {
        return wrong("a range of `nat` ends before it begins");
    }
    if flags & 3 == 0 && (range != NatRange::None || present & 0x30 != 0 || flags != 0) {
        return wrong("`nat` says where to, but neither of sources nor of destinations");
    }
    super::read::zeros(&mut body)?;
    exactly(&body, 0)?;
    Ok(Nat {
        source: flags & 1 != 0,
        destination: flags & 2 != 0,
        persistent: flags & 4 != 0,
        hash: flags & 8 != 0,
        random: flags & 16 != 0,
        range,
        ports: (least, greatest),
    })
}

/// Writes `nat`.
fn put_nat(nat: &Nat, out: &mut Vec<u8>) {
    let start = out.open(EXPERIMENTER);
    out.u32(NICIRA);
    out.u16(NAT);
    out.zeros(2);
    let flags = [nat.source, nat.destination, nat.persistent, nat.hash, nat.random];
    out.u16(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(*flag)));
    let addresses = match nat.range {
        NatRange::None => 0,
        NatRange::Ipv4(_, greatest) => 1 | u16::from(greatest.is_some()) << 1,
        NatRange::Ipv6(_, greatest) => 4 | u16::from(greatest.is_some()) << 3,
    };
    let (least, greatest) = nat.ports;
    out.u16(addresses | u16::from(least != 0) << 4 | u16::from(greatest != 0) << 5);
    match nat.range {
        NatRange::None => {}
        NatRange::Ipv4(least, greatest) => {
            out.extend_from_slice(&least.octets());
            out.extend(greatest.iter().flat_map(Ipv4Addr::octets));
        }
        NatRange::Ipv6(least, greatest) => {
            out.extend_from_slice(&least.octets());
            out.extend(greatest.iter().flat_map(Ipv6Addr::octets));
        }
    }
    for port in [least, greatest].into_iter().filter(|port| *port != 0) {
        out.u16(port);
    }
    out.pad(start);
    out.close(start);
}
