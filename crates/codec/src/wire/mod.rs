//! Messages from and to the wire, one subject a file.

pub(crate) mod bundle;
pub(crate) mod error;
pub(crate) mod extension;
pub(crate) mod flow_mod;
pub(crate) mod flow_removed;
pub(crate) mod group;
pub(crate) mod match10;
pub(crate) mod meter;
pub(crate) mod packet;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod stats15;
pub(crate) mod switch;
pub(crate) mod table;

use crate::Version;
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Put, from_port16, to_port16};
use std::time::Duration;
use weir_openflow::{PortNo, TableId};

pub(crate) type Encoded = Result<(), Unsayable>;

/// A duration in seconds and nanoseconds.
pub(crate) fn duration(body: &mut Cursor<'_>) -> Decoded<Duration> {
    let (seconds, nanos) = (body.u32()?, body.u32()?);
    Ok(Duration::new(seconds.into(), nanos))
}

pub(crate) fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    out.u32(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX));
    out.u32(duration.subsec_nanos());
}

/// The same, where all ones say that it is not known.
pub(crate) fn perhaps_duration(body: &mut Cursor<'_>) -> Decoded<Option<Duration>> {
    let (seconds, nanos) = (body.u32()?, body.u32()?);
    Ok((seconds != u32::MAX || nanos != u32::MAX).then(|| Duration::new(seconds.into(), nanos)))
}

pub(crate) fn put_perhaps_duration(out: &mut Vec<u8>, duration: Option<Duration>) {
    match duration {
        Some(duration) => put_duration(out, duration),
        None => out.u64(u64::MAX),
    }
}

/// A buffer; all ones are none.
pub(crate) fn buffer(body: &mut Cursor<'_>) -> Decoded<Option<u32>> {
    body.u32().map(|number| Some(number).filter(|number| *number != u32::MAX))
}

/// A port of 32 bits.
pub(crate) fn port(body: &mut Cursor<'_>) -> Decoded<PortNo> {
    body.u32().map(PortNo)
}

/// A port of 16 bits.
pub(crate) fn port16(body: &mut Cursor<'_>) -> Decoded<PortNo> {
    body.u16().map(|number| PortNo(from_port16(number)))
}

/// A port, of as many bits as the version has.
pub(crate) fn port_of(body: &mut Cursor<'_>, version: Version) -> Decoded<PortNo> {
    if version == Version::V10 { port16(body) } else { port(body) }
}

pub(crate) fn put_port16(out: &mut Vec<u8>, port: PortNo) {
    out.u16(to_port16(port.0));
}

/// A port that restricts, or [`PortNo::ANY`].
pub(crate) fn some_port(port: PortNo) -> Option<PortNo> {
    Some(port).filter(|port| *port != PortNo::ANY)
}

/// A table, or 255 for all.
pub(crate) fn some_table(number: u8) -> Option<TableId> {
    Some(TableId(number)).filter(|table| *table <= TableId::LAST)
}

pub(crate) fn table_number(table: Option<TableId>) -> u8 {
    table.map_or(255, |table| table.0)
}
