//! Nicira's actions (`ovs-actions(7)`), in any version.

use super::read::{
    Known, copy, exactly, group, output, part, push_mpls, read_actions, set_field, writable, zeros,
};
use super::{SERVICE, SERVICE_WITH, ct, service};
use crate::cursor::{Cursor, Decoded, Fault, from_port16};
use crate::field::{How, read_header};
use crate::{Code, Version, WEIR};
use weir_flow::{Field, Subfield, ones};
use weir_openflow::{Action, Conjunction, PortNo, TableId, ToController};

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: ones(field.bits()) }
}

/// The action of this number; `body` is what follows the number.
pub(super) fn action(kind: u16, mut body: Cursor<'_>, version: Version, known: Known) -> Decoded<Action> {
    // Those whose argument is in the header's own 16 bytes.
    if matches!(kind, 1 | 2 | 14 | 44 | 17 | 18 | 20 | 23..=26 | 30 | 31 | 34 | 40 | 43) {
        exactly(&body, 6)?;
    }
    match kind {
        1 => resubmit(body.u16()?, 255),
        2 => {
            body.skip(2)?;
            Ok(set(Field::TunId, body.number(4)?))
        }
        4 => Err(Fault::new(Code::ActionQueue, "there are no queues")),
        6 => {
            let places = (body.u16()?, body.u16()?, body.u16()?);
            copy(body, places, known)
        }
        7 => load(body, known),
        8 => Ok(note(body.all())),
        9 => {
            exactly(&body, 14)?;
            body.skip(6)?;
            Ok(set(Field::TunId, body.number(8)?))
        }
        14 => {
            let (port, table) = (body.u16()?, body.u8()?);
            zeros(&mut body)?;
            resubmit(port, table)
        }
        44 => {
            let (port, table) = (body.u16()?, body.u8()?);
            zeros(&mut body)?;
            let (port, table) = place(port, table);
            Ok(Action::ResubmitTracked { port, table })
        }
        15 => output_reg(body),
        17 => Ok(Action::Exit),
        18 => Ok(Action::DecTtl(Vec::new())),
        20 => {
            let (max_len, id, reason) = (body.u16()?, body.u16()?, body.u8()?);
            Ok(Action::Controller(ToController { max_len, id, reason, userdata: Vec::new() }))
        }
        21 => dec_ttl(body),
        23 => push_mpls(body.u16()?),
        24 => Ok(Action::PopMpls(body.u16()?)),
        25 => Ok(Action::SetMplsTtl(body.u8()?)),
        26 => Ok(Action::DecMplsTtl),
        30 => {
            body.skip(2)?;
            label(body.number(4)?, Field::MplsLabel)
        }
        31 => label(u128::from(body.u8()?), Field::MplsTc),
        32 => output_reg2(body),
        // The field is right behind the number (`struct ext_action_header` of Open vSwitch).
        33 => set_field(body, true, known),
        34 => {
            let (place, dimensions, id) = (body.u8()?, body.u8()?, body.u32()?);
            Conjunction { id, dimension: place.saturating_add(1), dimensions }
                .check()
                .map(Action::Conjunction)
                .map_err(|what| Fault::new(Code::ActionConjunction, what))
        }
        35 => ct::read(body, version, known).map(|ct| Action::Ct(Box::new(ct))),
        37 => controller(body),
        40 => {
            body.skip(2)?;
            group(body.u32()?)
        }
        42 => {
            body.skip(6)?;
            read_actions(body, version, known.inside()?).map(Action::Clone)
        }
        43 => Ok(Action::CtClear),
        _ => Err(Fault::new(Code::ActionExperimenterType, unsupported(kind))),
    }
}

/// Why an action is refused, by its name if it has one.
const fn unsupported(kind: u16) -> &'static str {
    match kind {
        5 => "`pop_queue` is not supported",
        10 => "`multipath` is not supported",
        12 => "`bundle` is not supported",
        13 => "`bundle_load` is not supported",
        16 | 45 => "`learn` is not supported",
        19 => "`fin_timeout` is not supported",
        22 => "`write_metadata` is the last but for `resubmit`",
        27 => "`push` is not supported",
        28 => "`pop` is not supported",
        29 | 38 | 41 | 51 => "`sample` is not supported",
        36 => "`nat` is only done within `ct`",
        39 => "`output` with `max_len` is not supported",
        46 => "`encap` is not supported",
        47 => "`decap` is not supported",
        48 => "`dec_nsh_ttl` is not supported",
        49 => "`check_pkt_larger` is not supported",
        50 => "`delete_field` is not supported",
        _ => "there is no such action",
    }
}

/// Words for people, or Weir's action in the form that clients of Open vSwitch can print and send.
fn note(words: &[u8]) -> Action {
    of_weir(words).unwrap_or_else(|_| Action::Note(words.to_vec()))
}

fn of_weir(words: &[u8]) -> Decoded<Action> {
    let mut body = Cursor::new(words, Code::ActionLength);
    match (body.u32()?, body.u16()?) {
        (WEIR, kind @ (SERVICE | SERVICE_WITH)) => service::read(kind, body, true),
        _ => Err(body.fault("it is no action of Weir's")),
    }
}

fn resubmit(port: u16, table: u8) -> Decoded<Action> {
    let (port, table) = place(port, table);
    Ok(Action::Resubmit { port, table })
}

/// Where a packet is looked up again.
fn place(port: u16, table: u8) -> (Option<PortNo>, Option<TableId>) {
    let port = Some(PortNo(from_port16(port))).filter(|port| *port != PortNo::IN_PORT);
    (port, Some(TableId(table)).filter(|table| table.0 != 255))
}

fn label(value: u128, field: Field) -> Decoded<Action> {
    if value > ones(field.bits()) {
        return Err(Fault::new(Code::ActionArgument, "a value is greater than its field"));
    }
    Ok(set(field, value))
}

/// Where bits start and how many they are, in one number.
pub(super) const fn places(number: u16) -> (u16, u16) {
    (number >> 6, (number & 0x3f) + 1)
}

fn load(mut body: Cursor<'_>, known: Known) -> Decoded<Action> {
    exactly(&body, 14)?;
    let (from, bits) = places(body.u16()?);
    let row = read_header(&mut body)?;
    let value = u128::from(body.u64()?);
    writable(row.field, known)?;
    if value > ones(u32::from(bits)) {
        return Err(Fault::new(Code::ActionArgument, "a value is greater than its field"));
    }
    if row.how == How::Port16 && bits == 16 {
        let port = u128::from(from_port16(value as u16));
        return Ok(Action::Load { value: port, to: row.field.whole() });
    }
    let to = part(row, from, bits)?;
    // What lies to the right of the field falls away.
    Ok(Action::Load { value: value >> (bits - u16::from(to.bits)), to })
}

fn source(row: &crate::field::Row, number: u16) -> Decoded<Subfield> {
    let (from, bits) = places(number);
    part(row, from, bits)
}

fn output_reg(mut body: Cursor<'_>) -> Decoded<Action> {
    exactly(&body, 14)?;
    let number = body.u16()?;
    let row = read_header(&mut body)?;
    body.skip(2)?;
    zeros(&mut body)?;
    source(row, number).map(Action::OutputReg)
}

fn output_reg2(mut body: Cursor<'_>) -> Decoded<Action> {
    exactly(&body, 14)?;
    let number = body.u16()?;
    body.skip(2)?;
    let row = read_header(&mut body)?;
    source(row, number).map(Action::OutputReg)
}

fn dec_ttl(mut body: Cursor<'_>) -> Decoded<Action> {
    let count = usize::from(body.u16()?);
    body.skip(4)?;
    if count == 0 {
        return Err(Fault::new(Code::ActionLength, "no controller is named"));
    }
    let mut ids = body.part(2 * count)?;
    zeros(&mut body)?;
    let mut list = Vec::with_capacity(count);
    while !ids.is_empty() {
        list.push(ids.u16()?);
    }
    Ok(Action::DecTtl(list))
}

fn controller(mut body: Cursor<'_>) -> Decoded<Action> {
    body.skip(6)?;
    let mut body = body.with(Code::PropertyLength);
    let mut to = ToController::default();
    while !body.is_empty() {
        if body.len() < 8 {
            zeros(&mut body.with(Code::ActionLength))?;
            break;
        }
        let (kind, mut value) = body.property()?;
        match kind {
            0 => to.max_len = value.u16()?,
            1 => to.id = value.u16()?,
            2 => to.reason = value.u8()?,
            3 => to.userdata = value.all().to_vec(),
            4 | 5 => {
                let what = "`controller` with `pause` or `meter_id` is not supported";
                return Err(Fault::new(Code::PropertyType, what));
            }
            _ => return Err(Fault::new(Code::PropertyType, "`controller` has no such property")),
        }
    }
    // A plain one is said as an output: both mean the same.
    if to.id == 0 && to.reason == 1 && to.userdata.is_empty() {
        return output(PortNo::CONTROLLER, to.max_len);
    }
    Ok(Action::Controller(to))
}
