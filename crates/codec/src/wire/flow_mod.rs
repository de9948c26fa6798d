//! Flow-mods.

use super::{Encoded, buffer, port, port16, put_port16, some_port, some_table, table_number};
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::field::{put_match, put_nxm, read_match, read_nxm};
use crate::instruction::{put_instructions, read_instructions};
use crate::wire::match10::{put_match10, read_match10};
use crate::{ANY_GROUP, Code, Context, FlowCommand, FlowForm, FlowMod, Version};
use weir_openflow::{FlowFlags, GroupId, PortNo, TableId};

fn command(number: u16) -> Decoded<FlowCommand> {
    use FlowCommand as C;
    let all = [C::Add, C::Modify, C::ModifyStrict, C::Delete, C::DeleteStrict];
    let found = all.get(usize::from(number)).copied();
    found.ok_or(Fault::new(Code::FlowCommand, "there is no such command"))
}

/// The command of OpenFlow 1.0, and the table if the upper half names one.
fn command10(number: u16, context: Context) -> Decoded<(FlowCommand, Option<TableId>)> {
    if !context.flow_mod_table_id {
        return Ok((command(number)?, None));
    }
    let [table, number] = number.to_be_bytes();
    Ok((command(number.into())?, some_table(table)))
}

pub(crate) fn read_flags(bits: u16, version: Version) -> Decoded<FlowFlags> {
    let known = if version == Version::V10 { 0x03 } else { 0x1f };
    if bits & !known != 0 {
        return Err(Fault::new(Code::FlowFlags, "flags of a flow are unknown"));
    }
    let has = |place: u16| bits & 1 << place != 0;
    Ok(FlowFlags {
        send_flow_rem: has(0),
        check_overlap: has(1),
        reset_counts: has(2),
        no_packet_counts: has(3),
        no_byte_counts: has(4),
    })
}

pub(crate) fn flag_bits(flags: FlowFlags, version: Version) -> u16 {
    let FlowFlags { send_flow_rem, check_overlap, reset_counts, no_packet_counts, no_byte_counts } = flags;
    let all = [send_flow_rem, check_overlap, reset_counts, no_packet_counts, no_byte_counts];
    let bits = all.iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(*flag));
    if version == Version::V10 { bits & 0x03 } else { bits }
}

fn some_group(number: u32) -> Option<GroupId> {
    Some(GroupId(number)).filter(|group| *group != ANY_GROUP)
}

pub(crate) fn read(mut body: Cursor<'_>, version: Version, context: Context) -> Decoded<FlowMod> {
    if version == Version::V10 {
        return read10(body, context);
    }
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let (table, number) = (body.u8()?, body.u8()?);
    let command = command(number.into())?;
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let buffer = buffer(&mut body)?;
    let (out_port, out_group) = (some_port(port(&mut body)?), some_group(body.u32()?));
    let (bits, importance) = (body.u16()?, body.u16()?);
    let matching = read_match(&mut body)?;
    let instructions = read_instructions(body, version, &matching)?;
    if let Some(goto) = instructions.goto
        && goto.0 <= table
        && command == FlowCommand::Add
    {
        return Err(Fault::new(Code::InstructionTable, "the table to go to is not behind the flow's"));
    }
    Ok(FlowMod {
        form: FlowForm::Standard,
        command,
        table: some_table(table),
        matching,
        priority,
        instructions,
        cookie,
        cookie_mask,
        new_cookie: 0,
        idle_timeout,
        hard_timeout,
        importance: if version >= Version::V14 { importance } else { 0 },
        flags: read_flags(bits, version)?,
        buffer,
        out_port,
        out_group,
    })
}

fn read10(mut body: Cursor<'_>, context: Context) -> Decoded<FlowMod> {
    let matching = read_match10(&mut body)?;
    let cookie = body.u64()?;
    let (command, table) = command10(body.u16()?, context)?;
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let buffer = buffer(&mut body)?;
    let out_port = some_port(port16(&mut body)?);
    let flags = read_flags(body.u16()?, Version::V10)?;
    let instructions = read_instructions(body, Version::V10, &matching)?;
    Ok(FlowMod {
        form: FlowForm::Standard,
        command,
        table,
        matching,
        priority,
        instructions,
        cookie,
        cookie_mask: 0,
        new_cookie: 0,
        idle_timeout,
        hard_timeout,
        importance: 0,
        flags,
        buffer,
        out_port,
        out_group: None,
    })
}

/// `NXT_FLOW_MOD`.
pub(crate) fn read_nicira(mut body: Cursor<'_>, context: Context) -> Decoded<FlowMod> {
    let cookie = body.u64()?;
    let (command, table) = command10(body.u16()?, context)?;
    let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let buffer = buffer(&mut body)?;
    let out_port = some_port(port16(&mut body)?);
    let flags = read_flags(body.u16()?, Version::V10)?;
    let length = body.u16()?;
    body.skip(6)?;
    let (matching, selected) = read_nxm(&mut body, length.into(), false)?;
    // A cookie in the match selects; the other is what entries get.
    if command == FlowCommand::Add && selected.is_some() {
        return Err(Fault::new(Code::NxmInvalid, "a flow that is added cannot be selected by its cookie"));
    }
    let new_cookie = if selected.is_some() { cookie } else { 0 };
    let (cookie, cookie_mask) = selected.unwrap_or((cookie, 0));
    let instructions = read_instructions(body, Version::V10, &matching)?;
    Ok(FlowMod {
        form: FlowForm::Nxm,
        command,
        table,
        matching,
        priority,
        instructions,
        cookie,
        cookie_mask,
        new_cookie,
        idle_timeout,
        hard_timeout,
        importance: 0,
        flags,
        buffer,
        out_port,
        out_group: None,
    })
}

fn number10(flow: &FlowMod, context: Context) -> Result<u16, Unsayable> {
    let number = flow.command as u16;
    match flow.table {
        _ if context.flow_mod_table_id => Ok(u16::from(table_number(flow.table)) << 8 | number),
        // Without the extension there is but one table to add to.
        Some(TableId(0)) if flow.command == FlowCommand::Add => Ok(number),
        None => Ok(number),
        Some(_) => Err(Unsayable("the table of a flow, without NXT_FLOW_MOD_TABLE_ID")),
    }
}

pub(crate) fn put(out: &mut Vec<u8>, flow: &FlowMod, version: Version, context: Context) -> Encoded {
    if version == Version::V10 {
        put_match10(out, &flow.matching);
        out.u64(flow.cookie);
        out.u16(number10(flow, context)?);
        put_middle10(out, flow);
        return put_instructions(out, version, &flow.instructions, &flow.matching);
    }
    out.u64(flow.cookie);
    out.u64(flow.cookie_mask);
    out.u8(table_number(flow.table));
    out.u8(flow.command as u8);
    out.u16(flow.idle_timeout);
    out.u16(flow.hard_timeout);
    out.u16(flow.priority);
    out.u32(flow.buffer.unwrap_or(u32::MAX));
    out.u32(flow.out_port.unwrap_or(PortNo::ANY).0);
    out.u32(flow.out_group.unwrap_or(ANY_GROUP).0);
    out.u16(flag_bits(flow.flags, version));
    out.u16(if version >= Version::V14 { flow.importance } else { 0 });
    put_match(out, version, &flow.matching);
    put_instructions(out, version, &flow.instructions, &flow.matching)
}

/// What OpenFlow 1.0 and Nicira's form have in common.
fn put_middle10(out: &mut Vec<u8>, flow: &FlowMod) {
    out.u16(flow.idle_timeout);
    out.u16(flow.hard_timeout);
    out.u16(flow.priority);
    out.u32(flow.buffer.unwrap_or(u32::MAX));
    put_port16(out, flow.out_port.unwrap_or(PortNo::ANY));
    out.u16(flag_bits(flow.flags, Version::V10));
}

pub(crate) fn put_nicira(out: &mut Vec<u8>, flow: &FlowMod, context: Context) -> Encoded {
    out.u64(if flow.cookie_mask == 0 { flow.cookie } else { flow.new_cookie });
    out.u16(number10(flow, context)?);
    put_middle10(out, flow);
    let at = out.len();
    out.zeros(8);
    let length = put_nxm(out, &flow.matching, (flow.cookie, flow.cookie_mask));
    out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    put_instructions(out, Version::V10, &flow.instructions, &flow.matching)
}
