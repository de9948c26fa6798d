//! Flow entries with their counters.

use crate::cursor::{Cursor, Decoded, Put};
use crate::field::{put_match, put_nxm, read_match, read_nxm};
use crate::instruction::{put_instructions, read_instructions};
use crate::wire::flow_mod::{flag_bits, read_flags};
use crate::wire::match10::{put_match10, read_match10};
use crate::wire::stats15::Stats;
use crate::wire::{Encoded, duration, put_duration};
use crate::*;
use std::time::Duration;
use weir_openflow::{Flow, TableId};

/// The part of a list's entry behind its length.
fn entry<'a>(body: &mut Cursor<'a>) -> Decoded<Cursor<'a>> {
    let length = usize::from(body.u16()?);
    let inside = length.checked_sub(2).ok_or(body.fault("an entry is shorter than its header"))?;
    body.part(inside)
}

pub(super) fn read(body: &mut Cursor<'_>, version: Version) -> Decoded<FlowStats> {
    let mut body = entry(body)?;
    match version {
        Version::V10 => read10(body),
        Version::V13 | Version::V14 => read13(body, version),
        Version::V15 => {
            body.skip(2)?;
            let table = TableId(body.u8()?);
            body.skip(1)?;
            let (priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?);
            let (bits, importance, cookie) = (body.u16()?, body.u16()?, body.u64()?);
            let matching = read_match(&mut body)?;
            let stats = Stats::read(&mut body)?;
            let instructions = read_instructions(body, version, &matching)?;
            let flags = read_flags(bits, version)?;
            let flow = Flow {
                table,
                priority,
                matching,
                instructions,
                cookie,
                idle_timeout,
                hard_timeout,
                importance,
                flags,
            };
            Ok(with(flow, stats))
        }
    }
}

fn with(flow: Flow, stats: Stats) -> FlowStats {
    FlowStats {
        flow,
        duration: stats.duration.unwrap_or_default(),
        idle_age: stats.idle.map(|idle| idle.as_secs().min(u16::MAX.into()) as u16),
        hard_age: None,
        packets: stats.packets.unwrap_or(u64::MAX),
        bytes: stats.bytes.unwrap_or(u64::MAX),
    }
}

fn of(stats: &FlowStats) -> Stats {
    Stats {
        duration: Some(stats.duration),
        idle: stats.idle_age.map(|age| Duration::from_secs(age.into())),
        flows: None,
        packets: Some(stats.packets).filter(|count| *count != u64::MAX),
        bytes: Some(stats.bytes).filter(|count| *count != u64::MAX),
    }
}

fn read10(mut body: Cursor<'_>) -> Decoded<FlowStats> {
    let table = TableId(body.u8()?);
    body.skip(1)?;
    let matching = read_match10(&mut body)?;
    let duration = duration(&mut body)?;
    let (priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(6)?;
    let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
    let instructions = read_instructions(body, Version::V10, &matching)?;
    let flow = Flow {
        table,
        priority,
        matching,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        ..Flow::default()
    };
    Ok(FlowStats { flow, duration, idle_age: None, hard_age: None, packets, bytes })
}

fn read13(mut body: Cursor<'_>, version: Version) -> Decoded<FlowStats> {
    let table = TableId(body.u8()?);
    body.skip(1)?;
    let duration = duration(&mut body)?;
    let (priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?);
    let (bits, importance) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
    let matching = read_match(&mut body)?;
    let instructions = read_instructions(body, version, &matching)?;
    let importance = if version == Version::V14 { importance } else { 0 };
    let flags = read_flags(bits, version)?;
    let flow = Flow {
        table,
        priority,
        matching,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        importance,
        flags,
    };
    Ok(FlowStats { flow, duration, idle_age: None, hard_age: None, packets, bytes })
}

pub(super) fn read_nicira(body: &mut Cursor<'_>) -> Decoded<FlowStats> {
    let mut body = entry(body)?;
    let table = TableId(body.u8()?);
    body.skip(1)?;
    let duration = duration(&mut body)?;
    let (priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?);
    let length = body.u16()?;
    // One more than the age; 0 if it is not known.
    let (idle_age, hard_age) = (body.u16()?.checked_sub(1), body.u16()?.checked_sub(1));
    let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
    let (matching, _) = read_nxm(&mut body, length.into(), false)?;
    let instructions = read_instructions(body, Version::V10, &matching)?;
    let flow = Flow {
        table,
        priority,
        matching,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        ..Flow::default()
    };
    Ok(FlowStats { flow, duration, idle_age, hard_age, packets, bytes })
}

/// Counters of an entry without its instructions (OpenFlow 1.5).
pub(super) fn read_counters(body: &mut Cursor<'_>) -> Decoded<FlowStats> {
    let mut body = entry(body)?;
    body.skip(2)?;
    let table = TableId(body.u8()?);
    body.skip(1)?;
    let priority = body.u16()?;
    let matching = read_match(&mut body)?;
    let stats = Stats::read(&mut body)?;
    Ok(with(Flow { table, priority, matching, ..Flow::default() }, stats))
}

pub(super) fn put_counters(out: &mut Vec<u8>, stats: &FlowStats) -> Encoded {
    let start = out.len();
    out.zeros(4);
    out.u8(stats.flow.table.0);
    out.zeros(1);
    out.u16(stats.flow.priority);
    put_match(out, Version::V15, &stats.flow.matching);
    of(stats).put(out);
    out.length(start, start);
    Ok(())
}

pub(super) fn put(out: &mut Vec<u8>, stats: &FlowStats, version: Version) -> Encoded {
    let flow = &stats.flow;
    let start = out.len();
    out.zeros(2);
    if version == Version::V15 {
        out.zeros(2);
    }
    out.u8(flow.table.0);
    out.zeros(1);
    if version == Version::V10 {
        put_match10(out, &flow.matching);
    }
    if version < Version::V15 {
        put_duration(out, stats.duration);
    }
    out.u16(flow.priority);
    out.u16(flow.idle_timeout);
    out.u16(flow.hard_timeout);
    if version == Version::V10 {
        out.zeros(6);
    } else {
        out.u16(flag_bits(flow.flags, version));
        out.u16(if version == Version::V13 { 0 } else { flow.importance });
        out.zeros(if version == Version::V15 { 0 } else { 2 });
    }
    out.u64(flow.cookie);
    if version < Version::V15 {
        out.u64(stats.packets);
        out.u64(stats.bytes);
    }
    if version > Version::V10 {
        put_match(out, version, &flow.matching);
    }
    if version == Version::V15 {
        of(stats).put(out);
    }
    put_instructions(out, version, &flow.instructions, &flow.matching)?;
    out.length(start, start);
    Ok(())
}

pub(super) fn put_nicira(out: &mut Vec<u8>, stats: &FlowStats) -> Encoded {
    let flow = &stats.flow;
    let start = out.len();
    out.zeros(2);
    out.u8(flow.table.0);
    out.zeros(1);
    put_duration(out, stats.duration);
    out.u16(flow.priority);
    out.u16(flow.idle_timeout);
    out.u16(flow.hard_timeout);
    let at = out.len();
    out.zeros(2);
    for age in [stats.idle_age, stats.hard_age] {
        out.u16(age.map_or(0, |age| age.saturating_add(1)));
    }
    out.u64(flow.cookie);
    out.u64(stats.packets);
    out.u64(stats.bytes);
    let length = put_nxm(out, &flow.matching, (0, 0));
    out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    put_instructions(out, Version::V10, &flow.instructions, &flow.matching)?;
    out.length(start, start);
    Ok(())
}

pub(super) fn read_aggregate(mut body: Cursor<'_>, version: Version) -> Decoded<Aggregate> {
    if version == Version::V15 {
        let stats = Stats::read(&mut body)?;
        return Ok(Aggregate {
            packets: stats.packets.unwrap_or_default(),
            bytes: stats.bytes.unwrap_or_default(),
            flows: stats.flows.unwrap_or_default(),
        });
    }
    Ok(Aggregate { packets: body.u64()?, bytes: body.u64()?, flows: body.u32()? })
}

pub(super) fn put_aggregate(out: &mut Vec<u8>, sum: &Aggregate, version: Version) {
    if version == Version::V15 {
        let stats = Stats {
            flows: Some(sum.flows),
            packets: Some(sum.packets),
            bytes: Some(sum.bytes),
            ..Stats::default()
        };
        stats.put(out);
        return;
    }
    out.u64(sum.packets);
    out.u64(sum.bytes);
    out.u32(sum.flows);
    out.zeros(4);
}
