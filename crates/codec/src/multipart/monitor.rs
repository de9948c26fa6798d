//! Flow monitors: OpenFlow 1.4's, Nicira's, and ONF's extension to 1.3, whose updates are Nicira's but for the
//! match.

use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::field::{put_match, put_nxm, read_match, read_nxm};
use crate::instruction::{put_instructions, read_instructions};
use crate::wire::{Encoded, port, port16, put_port16, some_port, some_table, table_number};
use crate::*;
use weir_openflow::{GroupId, PortNo, TableId};

/// Flags that there are.
const FLAGS: u16 = 0x7f;
/// Those that Nicira's form has.
const FLAGS10: u16 = 0x3f;

pub(super) fn read_requests(mut body: Cursor<'_>, version: Version) -> Decoded<Vec<MonitorRequest>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        out.push(match version {
            Version::V10 => read_nicira_request(&mut body)?,
            Version::V13 => read_onf_request(&mut body)?,
            Version::V14 | Version::V15 => read_request(&mut body)?,
        });
    }
    Ok(out)
}

fn flags(bits: u16, known: u16) -> Decoded<u16> {
    if bits & !known != 0 {
        return Err(Fault::new(Code::MonitorFlags, "flags of a monitor are unknown"));
    }
    Ok(bits)
}

fn read_request(body: &mut Cursor<'_>) -> Decoded<MonitorRequest> {
    let (id, out_port) = (body.u32()?, some_port(port(body)?));
    let out_group = Some(GroupId(body.u32()?)).filter(|group| *group != ANY_GROUP);
    let (flags, table) = (flags(body.u16()?, FLAGS)?, some_table(body.u8()?));
    let command = match body.u8()? {
        0 => MonitorCommand::Add,
        1 => MonitorCommand::Modify,
        2 => MonitorCommand::Delete,
        _ => return Err(Fault::new(Code::MonitorCommand, "there is no such command")),
    };
    Ok(MonitorRequest { id, command, flags, table, out_port, out_group, matching: read_match(body)? })
}

fn read_onf_request(body: &mut Cursor<'_>) -> Decoded<MonitorRequest> {
    let (id, bits) = (body.u32()?, body.u16()?);
    body.skip(2)?;
    let (out_port, table) = (some_port(port(body)?), some_table(body.u8()?));
    body.skip(3)?;
    let flags = flags(bits, FLAGS)?;
    let command = MonitorCommand::Add;
    Ok(MonitorRequest { id, command, flags, table, out_port, out_group: None, matching: read_match(body)? })
}

fn read_nicira_request(body: &mut Cursor<'_>) -> Decoded<MonitorRequest> {
    let (id, flags) = (body.u32()?, flags(body.u16()?, FLAGS10)?);
    let (out_port, length, table) = (some_port(port16(body)?), body.u16()?, some_table(body.u8()?));
    body.skip(5)?;
    let (matching, cookie) = read_nxm(body, length.into(), false)?;
    if cookie.is_some() {
        return Err(Fault::new(Code::NxmInvalid, "a monitor cannot select by cookie"));
    }
    let command = MonitorCommand::Add;
    Ok(MonitorRequest { id, command, flags, table, out_port, out_group: None, matching })
}

pub(super) fn put_request(out: &mut Vec<u8>, request: &MonitorRequest, version: Version) -> Encoded {
    if version < Version::V14 && request.command != MonitorCommand::Add {
        return Err(crate::action::Unsayable("a change of a monitor"));
    }
    let out_port = request.out_port.unwrap_or(PortNo::ANY);
    out.u32(request.id);
    match version {
        Version::V10 => {
            out.u16(request.flags & FLAGS10);
            put_port16(out, out_port);
            let at = out.len();
            out.zeros(2);
            out.u8(table_number(request.table));
            out.zeros(5);
            let length = put_nxm(out, &request.matching, (0, 0));
            out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        }
        Version::V13 => {
            out.u16(request.flags);
            out.zeros(2);
            out.u32(out_port.0);
            out.u8(table_number(request.table));
            out.zeros(3);
            put_match(out, version, &request.matching);
        }
        Version::V14 | Version::V15 => {
            out.u32(out_port.0);
            out.u32(request.out_group.unwrap_or(ANY_GROUP).0);
            out.u16(request.flags);
            out.u8(table_number(request.table));
            out.u8(request.command as u8);
            put_match(out, version, &request.matching);
        }
    }
    Ok(())
}

pub(super) fn read_update(body: &mut Cursor<'_>, version: Version) -> Decoded<FlowUpdate> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("an update is shorter than its header"))?;
    let mut body = body.part(inside)?;
    let event = body.u16()?;
    if version < Version::V14 {
        return read_nicira_update(event, body, version);
    }
    let event = match event {
        4 => return Ok(FlowUpdate::Abbreviated(body.u32()?)),
        5 => return Ok(FlowUpdate::Paused),
        6 => return Ok(FlowUpdate::Resumed),
        0..4 => event,
        _ => return Err(body.fault("there is no such event")),
    };
    let (table, reason) = (TableId(body.u8()?), body.u8()?);
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(4)?;
    let cookie = body.u64()?;
    let matching = read_match(&mut body)?;
    let instructions = read_instructions(body, version, &matching)?;
    let event = match event {
        0 => UpdateEvent::Initial,
        1 => UpdateEvent::Added,
        2 => UpdateEvent::Removed(reason),
        _ => UpdateEvent::Modified,
    };
    Ok(FlowUpdate::Full {
        event,
        table,
        priority,
        idle_timeout,
        hard_timeout,
        cookie,
        matching,
        instructions,
    })
}

fn read_nicira_update(event: u16, mut body: Cursor<'_>, version: Version) -> Decoded<FlowUpdate> {
    if event == 3 {
        return Ok(FlowUpdate::Abbreviated(body.u32()?));
    }
    let (reason, priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?, body.u16()?);
    let (length, table) = (body.u16()?, TableId(body.u8()?));
    body.skip(1)?;
    let cookie = body.u64()?;
    let matching = match version {
        Version::V10 => read_nxm(&mut body, length.into(), false)?.0,
        _ => read_match(&mut body)?,
    };
    let instructions = read_instructions(body, version, &matching)?;
    let event = match event {
        0 => UpdateEvent::Added,
        1 => UpdateEvent::Removed(reason as u8),
        2 => UpdateEvent::Modified,
        _ => return Err(body.fault("there is no such event")),
    };
    Ok(FlowUpdate::Full {
        event,
        table,
        priority,
        idle_timeout,
        hard_timeout,
        cookie,
        matching,
        instructions,
    })
}

pub(super) fn put_update(out: &mut Vec<u8>, update: &FlowUpdate, version: Version) -> Encoded {
    let short = |out: &mut Vec<u8>, event: u16, value: u32| {
        out.u16(8);
        out.u16(event);
        out.u32(value);
        Ok(())
    };
    // As Nicira has it.
    let old = version < Version::V14;
    let start = out.len();
    let (event, full) = match update {
        FlowUpdate::Abbreviated(xid) => return short(out, if old { 3 } else { 4 }, *xid),
        FlowUpdate::Paused | FlowUpdate::Resumed if old => {
            return Err(crate::action::Unsayable("a pause of monitors, but by its own message,"));
        }
        FlowUpdate::Paused => return short(out, 5, 0),
        FlowUpdate::Resumed => return short(out, 6, 0),
        FlowUpdate::Full { event, .. } => (*event, update),
    };
    let FlowUpdate::Full {
        table, priority, idle_timeout, hard_timeout, cookie, matching, instructions, ..
    } = full
    else {
        return Ok(());
    };
    let (number, reason) = match event {
        UpdateEvent::Initial => (0, 0),
        UpdateEvent::Added => (if old { 0 } else { 1 }, 0),
        UpdateEvent::Removed(reason) => (if old { 1 } else { 2 }, reason),
        UpdateEvent::Modified => (if old { 2 } else { 3 }, 0),
    };
    out.zeros(2);
    out.u16(number);
    if old {
        out.u16(reason.into());
        out.u16(*priority);
        out.u16(*idle_timeout);
        out.u16(*hard_timeout);
        let at = out.len();
        out.zeros(2);
        out.u8(table.0);
        out.zeros(1);
        out.u64(*cookie);
        let length = if version == Version::V10 {
            put_nxm(out, matching, (0, 0)) as u16
        } else {
            put_match(out, version, matching)
        };
        out[at..at + 2].copy_from_slice(&length.to_be_bytes());
    } else {
        out.u8(table.0);
        out.u8(reason);
        out.u16(*idle_timeout);
        out.u16(*hard_timeout);
        out.u16(*priority);
        out.zeros(4);
        out.u64(*cookie);
        put_match(out, version, matching);
    }
    put_instructions(out, version, instructions, matching)?;
    out.length(start, start);
    Ok(())
}
