//! Flow entries that went.

use super::stats15::Stats;
use super::{Encoded, duration, put_duration};
use crate::cursor::{Cursor, Decoded, Put};
use crate::field::{put_match, put_nxm, read_match, read_nxm};
use crate::wire::match10::{put_match10, read_match10};
use crate::{FlowForm, FlowRemoved, Version};
use weir_openflow::TableId;

pub(crate) fn read(mut body: Cursor<'_>, version: Version) -> Decoded<FlowRemoved> {
    match version {
        Version::V10 => {
            let matching = read_match10(&mut body)?;
            let (cookie, priority, reason) = (body.u64()?, body.u16()?, body.u8()?);
            body.skip(1)?;
            let (duration, idle_timeout) = (duration(&mut body)?, body.u16()?);
            body.skip(2)?;
            Ok(FlowRemoved {
                form: FlowForm::Standard,
                table: TableId(0),
                matching,
                cookie,
                priority,
                reason,
                duration,
                idle_timeout,
                hard_timeout: 0,
                packets: body.u64()?,
                bytes: body.u64()?,
            })
        }
        Version::V15 => {
            let (table, reason, priority) = (TableId(body.u8()?), body.u8()?, body.u16()?);
            let (idle_timeout, hard_timeout, cookie) = (body.u16()?, body.u16()?, body.u64()?);
            let matching = read_match(&mut body)?;
            let stats = Stats::read(&mut body)?;
            Ok(FlowRemoved {
                form: FlowForm::Standard,
                table,
                matching,
                cookie,
                priority,
                reason,
                duration: stats.duration.unwrap_or_default(),
                idle_timeout,
                hard_timeout,
                packets: stats.packets.unwrap_or_default(),
                bytes: stats.bytes.unwrap_or_default(),
            })
        }
        Version::V13 | Version::V14 => {
            let (cookie, priority, reason) = (body.u64()?, body.u16()?, body.u8()?);
            let (table, duration) = (TableId(body.u8()?), duration(&mut body)?);
            let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
            let (packets, bytes) = (body.u64()?, body.u64()?);
            Ok(FlowRemoved {
                form: FlowForm::Standard,
                table,
                matching: read_match(&mut body)?,
                cookie,
                priority,
                reason,
                duration,
                idle_timeout,
                hard_timeout,
                packets,
                bytes,
            })
        }
    }
}

/// `NXT_FLOW_REMOVED`.
pub(crate) fn read_nicira(mut body: Cursor<'_>) -> Decoded<FlowRemoved> {
    let (cookie, priority, reason) = (body.u64()?, body.u16()?, body.u8()?);
    // One more than the table; 0 if it is not known.
    let table = TableId(body.u8()?.saturating_sub(1));
    let (duration, idle_timeout, length) = (duration(&mut body)?, body.u16()?, body.u16()?);
    let (packets, bytes) = (body.u64()?, body.u64()?);
    let (matching, _) = read_nxm(&mut body, length.into(), false)?;
    Ok(FlowRemoved {
        form: FlowForm::Nxm,
        table,
        matching,
        cookie,
        priority,
        reason,
        duration,
        idle_timeout,
        hard_timeout: 0,
        packets,
        bytes,
    })
}

pub(crate) fn put(out: &mut Vec<u8>, gone: &FlowRemoved, version: Version) -> Encoded {
    match version {
        Version::V10 => {
            put_match10(out, &gone.matching);
            out.u64(gone.cookie);
            out.u16(gone.priority);
            out.u8(gone.reason);
            out.zeros(1);
            put_duration(out, gone.duration);
            out.u16(gone.idle_timeout);
            out.zeros(2);
            out.u64(gone.packets);
            out.u64(gone.bytes);
        }
        Version::V15 => {
            out.u8(gone.table.0);
            out.u8(gone.reason);
            out.u16(gone.priority);
            out.u16(gone.idle_timeout);
            out.u16(gone.hard_timeout);
            out.u64(gone.cookie);
            put_match(out, version, &gone.matching);
            let stats = Stats {
                duration: Some(gone.duration),
                packets: Some(gone.packets),
                bytes: Some(gone.bytes),
                ..Stats::default()
            };
            stats.put(out);
        }
        Version::V13 | Version::V14 => {
            out.u64(gone.cookie);
            out.u16(gone.priority);
            out.u8(gone.reason);
            out.u8(gone.table.0);
            put_duration(out, gone.duration);
            out.u16(gone.idle_timeout);
            out.u16(gone.hard_timeout);
            out.u64(gone.packets);
            out.u64(gone.bytes);
            put_match(out, version, &gone.matching);
        }
    }
    Ok(())
}

pub(crate) fn put_nicira(out: &mut Vec<u8>, gone: &FlowRemoved) -> Encoded {
    out.u64(gone.cookie);
    out.u16(gone.priority);
    out.u8(gone.reason);
    out.u8(gone.table.0.saturating_add(1));
    put_duration(out, gone.duration);
    out.u16(gone.idle_timeout);
    let at = out.len();
    out.zeros(2);
    out.u64(gone.packets);
    out.u64(gone.bytes);
    let length = put_nxm(out, &gone.matching, (0, 0));
    out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    Ok(())
}
