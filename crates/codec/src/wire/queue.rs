//! Queues: the switch has none, but controllers ask for them.

use super::{perhaps_duration, port, port_of, port16, put_perhaps_duration, put_port16};
use crate::cursor::{Cursor, Decoded, Put};
use crate::{Code, Queue, QueueConfig, QueueQuery, QueueStats, Version};
use weir_openflow::PortNo;

/// The least rate.
const LEAST: u16 = 1;
/// The greatest rate.
const MOST: u16 = 2;

pub(crate) fn read_config_request(mut body: Cursor<'_>, version: Version) -> Decoded<PortNo> {
    port_of(&mut body, version)
}

pub(crate) fn put_config_request(out: &mut Vec<u8>, port: PortNo, version: Version) {
    if version == Version::V10 {
        put_port16(out, port);
        out.zeros(2);
    } else {
        out.u32(port.0);
        out.zeros(4);
    }
}

pub(crate) fn read_config(mut body: Cursor<'_>, version: Version) -> Decoded<QueueConfig> {
    let port = port_of(&mut body, version)?;
    body.skip(if version == Version::V10 { 6 } else { 4 })?;
    let mut queues = Vec::new();
    while !body.is_empty() {
        queues.push(read_queue(&mut body, version, port)?);
    }
    Ok(QueueConfig { port, queues })
}

/// A queue of a configuration, or of a description (OpenFlow 1.4).
pub(crate) fn read_queue(body: &mut Cursor<'_>, version: Version, of: PortNo) -> Decoded<Queue> {
    let (port, queue) = match version {
        Version::V10 => (of, body.u32()?),
        Version::V13 => {
            let queue = body.u32()?;
            (port(body)?, queue)
        }
        Version::V14 | Version::V15 => (port(body)?, body.u32()?),
    };
    let head = if version == Version::V10 { 8 } else { 16 };
    let length = usize::from(body.u16()?);
    body.skip(if version == Version::V10 { 2 } else { 6 })?;
    let inside = length.checked_sub(head).ok_or(body.fault("a queue is shorter than its header"))?;
    let mut properties = body.part(inside)?.with(Code::PropertyLength);
    let mut out = Queue { port, queue, least: None, most: None };
    while !properties.is_empty() {
        let (kind, mut value) = properties.property()?;
        if version < Version::V14 {
            value.skip(4)?;
        }
        match kind {
            LEAST => out.least = Some(value.u16()?),
            MOST => out.most = Some(value.u16()?),
            _ => {}
        }
    }
    Ok(out)
}

pub(crate) fn put_config(out: &mut Vec<u8>, config: &QueueConfig, version: Version) {
    if version == Version::V10 {
        put_port16(out, config.port);
        out.zeros(6);
    } else {
        out.u32(config.port.0);
        out.zeros(4);
    }
    for queue in &config.queues {
        put_queue(out, queue, version);
    }
}

pub(crate) fn put_queue(out: &mut Vec<u8>, queue: &Queue, version: Version) {
    let start = out.len();
    match version {
        Version::V10 => out.u32(queue.queue),
        Version::V13 => {
            out.u32(queue.queue);
            out.u32(queue.port.0);
        }
        Version::V14 | Version::V15 => {
            out.u32(queue.port.0);
            out.u32(queue.queue);
        }
    }
    let at = out.len();
    out.zeros(if version == Version::V10 { 4 } else { 8 });
    let most = queue.most.filter(|_| version > Version::V10);
    for (kind, rate) in [(LEAST, queue.least), (MOST, most)] {
        if let Some(rate) = rate {
            let start = out.open(kind);
            out.zeros(if version < Version::V14 { 4 } else { 0 });
            out.u16(rate);
            out.pad(start);
            out.close(start);
        }
    }
    out.length(at, start);
}

pub(crate) fn read_query(body: &mut Cursor<'_>, version: Version) -> Decoded<QueueQuery> {
    let port = if version == Version::V10 {
        let port = port16(body)?;
        body.skip(2)?;
        port
    } else {
        port(body)?
    };
    Ok(QueueQuery { port, queue: body.u32()? })
}

pub(crate) fn put_query(out: &mut Vec<u8>, query: QueueQuery, version: Version) {
    if version == Version::V10 {
        put_port16(out, query.port);
        out.zeros(2);
    } else {
        out.u32(query.port.0);
    }
    out.u32(query.queue);
}

pub(crate) fn read_stats(body: &mut Cursor<'_>, version: Version) -> Decoded<QueueStats> {
    let mut rest = None;
    if version >= Version::V14 {
        let length = usize::from(body.u16()?);
        body.skip(6)?;
        rest = Some(length.checked_sub(48).ok_or(body.fault("counters are shorter than their header"))?);
    }
    let queue = read_query(body, version)?;
    let (tx_bytes, tx_packets, tx_errors) = (body.u64()?, body.u64()?, body.u64()?);
    let duration = if version == Version::V10 { None } else { perhaps_duration(body)? };
    body.skip(rest.unwrap_or_default())?;
    Ok(QueueStats { queue, tx_bytes, tx_packets, tx_errors, duration })
}

pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &QueueStats, version: Version) {
    if version >= Version::V14 {
        out.u16(48);
        out.zeros(6);
    }
    put_query(out, stats.queue, version);
    out.u64(stats.tx_bytes);
    out.u64(stats.tx_packets);
    out.u64(stats.tx_errors);
    if version > Version::V10 {
        put_perhaps_duration(out, stats.duration);
    }
}
