//! Packet-ins and packet-outs.

use super::{Encoded, buffer, port, port16, put_port16};
use crate::action::{Known, put_actions, read_actions};
use crate::cursor::{Cursor, Decoded, Put};
use crate::field::{put_fields, put_nxm, read_fields, read_nxm};
use crate::{Code, PacketIn, PacketInForm, PacketOut, Version};
use weir_flow::{Field, Match, Span};
use weir_openflow::{PortNo, TableId};

/// The greatest reason that OpenFlow has names for until 1.3.
const LAST_OLD_REASON: u8 = 2;
/// The reason that an action said so.
const ACTION: u8 = 1;

fn reason(number: u8, version: Version) -> u8 {
    if version < Version::V14 && number > LAST_OLD_REASON { ACTION } else { number }
}

fn in_port(fields: &Match) -> PortNo {
    let (value, mask) = fields.field(Field::InPort);
    if mask == 0 { PortNo::ANY } else { PortNo(value as u32) }
}

fn only_port(port: PortNo) -> Match {
    let mut fields = Match::any();
    if port != PortNo::ANY {
        fields.demand(Field::InPort, port.0.into(), u128::MAX);
    }
    fields
}

pub(crate) fn read_in(mut body: Cursor<'_>, version: Version) -> Decoded<PacketIn> {
    let buffer = buffer(&mut body)?;
    let total_len = body.u16()?.into();
    if version == Version::V10 {
        let fields = only_port(port16(&mut body)?);
        let reason = body.u8()?;
        body.skip(1)?;
        let data = body.all().to_vec();
        return Ok(PacketIn { buffer, total_len, reason, fields, data, ..PacketIn::default() });
    }
    let (reason, table, cookie) = (body.u8()?, TableId(body.u8()?), body.u64()?);
    let fields = read_fields(&mut body)?;
    body.skip(2)?;
    let data = body.all().to_vec();
    Ok(PacketIn { buffer, total_len, reason, table, cookie, fields, data, ..PacketIn::default() })
}

/// Writes a packet-in; 2 bytes of padding bring its packet's network header to a multiple of 4.
pub(crate) fn put_in(out: &mut Vec<u8>, packet: &PacketIn, version: Version) {
    out.u32(packet.buffer.unwrap_or(u32::MAX));
    out.u16(total(packet));
    if version == Version::V10 {
        put_port16(out, in_port(&packet.fields));
        out.u8(reason(packet.reason, version));
        out.zeros(1);
    } else {
        out.u8(reason(packet.reason, version));
        out.u8(packet.table.0);
        out.u64(packet.cookie);
        put_fields(out, version, &packet.fields);
        out.zeros(2);
    }
    out.extend_from_slice(&packet.data);
}

fn total(packet: &PacketIn) -> u16 {
    u16::try_from(packet.total_len).unwrap_or(u16::MAX)
}

/// `NXT_PACKET_IN`.
pub(crate) fn read_nicira(mut body: Cursor<'_>) -> Decoded<PacketIn> {
    let buffer = buffer(&mut body)?;
    let (total_len, reason, table, cookie) =
        (body.u16()?.into(), body.u8()?, TableId(body.u8()?), body.u64()?);
    let length = body.u16()?;
    body.skip(6)?;
    let (fields, _) = read_nxm(&mut body, length.into(), true)?;
    body.skip(2)?;
    let data = body.all().to_vec();
    let form = PacketInForm::Nicira;
    Ok(PacketIn { form, buffer, total_len, reason, table, cookie, fields, userdata: Vec::new(), data })
}

pub(crate) fn put_nicira(out: &mut Vec<u8>, packet: &PacketIn, version: Version) {
    out.u32(packet.buffer.unwrap_or(u32::MAX));
    out.u16(total(packet));
    out.u8(reason(packet.reason, version));
    out.u8(packet.table.0);
    out.u64(packet.cookie);
    let at = out.len();
    out.zeros(8);
    let length = put_nxm(out, &packet.fields, (0, 0));
    out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    out.zeros(2);
    out.extend_from_slice(&packet.data);
}

/// Properties of `NXT_PACKET_IN2`.
const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const BUFFER: u16 = 2;
const TABLE: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;

pub(crate) fn read_nicira2(body: Cursor<'_>) -> Decoded<PacketIn> {
    let mut body = body.with(Code::PropertyLength);
    let mut out = PacketIn { form: PacketInForm::Nicira2, ..PacketIn::default() };
    let mut full = None;
    while !body.is_empty() {
        let (kind, mut value) = body.property()?;
        match kind {
            PACKET => out.data = value.all().to_vec(),
            FULL_LEN => full = Some(value.u32()?),
            BUFFER => out.buffer = buffer(&mut value)?,
            TABLE => out.table = TableId(value.u8()?),
            COOKIE => {
                value.skip(4)?;
                out.cookie = value.u64()?;
            }
            REASON => out.reason = value.u8()?,
            METADATA => {
                let length = value.len();
                // Nothing follows, so that there is no padding inside.
                let mut padded = Cursor::new(value.all(), Code::MatchLength);
                out.fields = crate::field::read_unpadded(&mut padded, length)?;
            }
            USERDATA => out.userdata = value.all().to_vec(),
            _ => return Err(crate::Fault::new(Code::PropertyType, "packets have no such property")),
        }
    }
    out.total_len = full.unwrap_or(out.data.len() as u32);
    Ok(out)
}

pub(crate) fn put_nicira2(out: &mut Vec<u8>, packet: &PacketIn, version: Version) {
    out.long_property(PACKET, &packet.data);
    if packet.total_len as usize != packet.data.len() {
        out.property(FULL_LEN, &packet.total_len.to_be_bytes());
    }
    if let Some(buffer) = packet.buffer {
        out.property(BUFFER, &buffer.to_be_bytes());
    }
    out.property(TABLE, &[packet.table.0]);
    // The cookie is aligned to 8 bytes.
    let mut cookie = [0; 12];
    cookie[4..].copy_from_slice(&packet.cookie.to_be_bytes());
    out.property(COOKIE, &cookie);
    out.property(REASON, &[packet.reason]);
    if !packet.fields.terms().is_empty() {
        let start = out.open(METADATA);
        crate::field::put_unpadded(out, version, &packet.fields);
        out.close(start);
        out.pad(start);
    }
    if !packet.userdata.is_empty() {
        out.long_property(USERDATA, &packet.userdata);
    }
}

pub(crate) fn read_out(mut body: Cursor<'_>, version: Version) -> Decoded<PacketOut> {
    let buffer = buffer(&mut body)?;
    let (in_port, fields, length);
    match version {
        Version::V10 => {
            in_port = port16(&mut body)?;
            length = body.u16()?;
            fields = Match::any();
        }
        Version::V13 | Version::V14 => {
            in_port = port(&mut body)?;
            length = body.u16()?;
            body.skip(6)?;
            fields = Match::any();
        }
        Version::V15 => {
            length = body.u16()?;
            body.skip(2)?;
            let all = read_fields(&mut body)?;
            in_port = self::in_port(&all);
            fields = without_port(&all);
        }
    }
    let actions = body.with(Code::BadLength).part(length.into())?;
    body.skip(length.into())?;
    let actions = read_actions(actions, version, Known::default())?;
    Ok(PacketOut { buffer, in_port, fields, actions, data: body.all().to_vec() })
}

/// The fields but for the port.
fn without_port(fields: &Match) -> Match {
    const PORT: Span = Field::InPort.span();
    let mut out = Match::any();
    for term in fields.terms() {
        let mask = if term.place == PORT.word { term.mask & !PORT.mask() } else { term.mask };
        out.demand_bits(term.place.into(), term.value, mask);
    }
    out
}

pub(crate) fn put_out(out: &mut Vec<u8>, packet: &PacketOut, version: Version) -> Encoded {
    out.u32(packet.buffer.unwrap_or(u32::MAX));
    let at;
    match version {
        Version::V10 => {
            put_port16(out, packet.in_port);
            at = out.len();
            out.zeros(2);
        }
        Version::V13 | Version::V14 => {
            out.u32(packet.in_port.0);
            at = out.len();
            out.zeros(8);
        }
        Version::V15 => {
            at = out.len();
            out.zeros(4);
            let mut fields = packet.fields.clone();
            if packet.in_port != PortNo::ANY {
                fields.demand(Field::InPort, packet.in_port.0.into(), u128::MAX);
            }
            put_fields(out, version, &fields);
        }
    }
    let start = out.len();
    put_actions(out, version, &packet.actions, false)?;
    out.length(at, start);
    out.extend_from_slice(&packet.data);
    Ok(())
}
