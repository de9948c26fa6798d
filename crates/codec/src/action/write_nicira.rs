//! Nicira's actions, to the wire.

use super::write::{Unsayable, put_actions};
use super::{EXPERIMENTER, service};
use crate::cursor::{Put, to_port16};
use crate::field::{How, put_header, put_value, row_for};
use crate::{NICIRA, Version, WEIR};
use weir_flow::{Field, Subfield};
use weir_openflow::{Action, Conjunction, PortNo, TableId, ToController};

/// Begins an action of Nicira's.
fn open(out: &mut Vec<u8>, kind: u16) -> usize {
    let start = out.open(EXPERIMENTER);
    out.u32(NICIRA);
    out.u16(kind);
    start
}

fn close(out: &mut Vec<u8>, start: usize) {
    out.pad(start);
    out.close(start);
}

/// One of 16 bytes, with its argument right behind its number.
pub(super) fn put_nicira(out: &mut Vec<u8>, kind: u16, argument: &[u8]) {
    let start = open(out, kind);
    out.extend_from_slice(argument);
    close(out, start);
}

/// One of 16 bytes, with an argument of four.
pub(super) fn put_long(out: &mut Vec<u8>, kind: u16, argument: u32) {
    let start = open(out, kind);
    out.zeros(2);
    out.u32(argument);
    close(out, start);
}

pub(super) fn put_conjunction(out: &mut Vec<u8>, what: Conjunction) {
    let start = open(out, 34);
    out.u8(what.dimension.saturating_sub(1));
    out.u8(what.dimensions);
    out.u32(what.id);
    close(out, start);
}

pub(super) fn put_tunnel(out: &mut Vec<u8>, id: u64) {
    let start = open(out, 9);
    out.zeros(6);
    out.u64(id);
    close(out, start);
}

pub(crate) fn put_resubmit(out: &mut Vec<u8>, port: Option<PortNo>, table: Option<TableId>) {
    put_again(out, 14, port, table);
}

/// With the original tuple of the packet's connection.
pub(super) fn put_resubmit_tracked(out: &mut Vec<u8>, port: Option<PortNo>, table: Option<TableId>) {
    put_again(out, 44, port, table);
}

fn put_again(out: &mut Vec<u8>, kind: u16, port: Option<PortNo>, table: Option<TableId>) {
    let port = to_port16(port.unwrap_or(PortNo::IN_PORT).0);
    let start = open(out, kind);
    out.u16(port);
    out.u8(table.map_or(255, |table| table.0));
    close(out, start);
}

pub(crate) fn put_write_metadata(out: &mut Vec<u8>, (value, mask): (u64, u64)) {
    let start = open(out, 22);
    out.zeros(6);
    out.u64(value);
    out.u64(mask);
    close(out, start);
}

pub(super) fn put_exit(out: &mut Vec<u8>) {
    put_nicira(out, 17, &[]);
}

pub(super) fn put_note(out: &mut Vec<u8>, words: &[u8]) {
    let start = open(out, 8);
    out.extend_from_slice(words);
    close(out, start);
}

/// Weir's action, in a note: clients that do not know it print that, and can send it.
pub(super) fn put_service(out: &mut Vec<u8>, action: &Action) {
    let start = open(out, 8);
    out.u32(WEIR);
    service::put(out, action);
    close(out, start);
}

pub(super) fn put_dec_ttl(out: &mut Vec<u8>, ids: &[u16]) {
    let start = open(out, 21);
    out.u16(ids.len() as u16);
    out.zeros(4);
    for id in ids {
        out.u16(*id);
    }
    close(out, start);
}

pub(super) fn put_controller(out: &mut Vec<u8>, to: &ToController) {
    if to.userdata.is_empty() {
        let start = open(out, 20);
        out.u16(to.max_len);
        out.u16(to.id);
        out.u8(to.reason);
        close(out, start);
        return;
    }
    let start = open(out, 37);
    out.zeros(6);
    if to.max_len != u16::MAX {
        out.property(0, &to.max_len.to_be_bytes());
    }
    if to.id != 0 {
        out.property(1, &to.id.to_be_bytes());
    }
    if to.reason != 1 {
        out.property(2, &[to.reason]);
    }
    out.long_property(3, &to.userdata);
    close(out, start);
}

/// Where bits start and how many they are, in one number, as the row's header has them.
fn places(part: Subfield, how: How) -> u16 {
    let from = if how == How::Tos { part.from + 2 } else { part.from };
    u16::from(from) << 6 | u16::from(part.bits - 1)
}

/// A row of the key's whole field, for actions that name bits of it.
fn row(field: Field) -> &'static crate::field::Row {
    // A port of 16 bits cannot be named in part.
    if field == Field::InPort { row_for(field, Version::V13) } else { row_for(field, Version::V10) }
}

pub(super) fn put_output_reg(out: &mut Vec<u8>, part: Subfield) {
    let row = row(part.field);
    let long = row.class == crate::field::EXPERIMENTER;
    let start = open(out, if long { 32 } else { 15 });
    // More than 64 bits cannot be said, and a port has 32.
    let part = Subfield { bits: part.bits.min(64), ..part };
    out.u16(places(part, row.how));
    if long {
        out.u16(u16::MAX);
        put_header(out, row, false);
        out.zeros(2);
    } else {
        put_header(out, row, false);
        out.u16(u16::MAX);
        out.zeros(6);
    }
    close(out, start);
}

pub(super) fn put_load(out: &mut Vec<u8>, value: u128, to: Subfield) {
    let short = row_for(to.field, Version::V10);
    if short.how == How::Port16 && to == to.field.whole() {
        let start = open(out, 7);
        out.u16(15);
        put_header(out, short, false);
        out.u64(u64::from(to_port16(value as u32)));
        close(out, start);
        return;
    }
    let row = row(to.field);
    if to.bits > 64 || row.class == crate::field::EXPERIMENTER {
        put_set_masked(out, to.field, value << to.from, to.mask());
        return;
    }
    let start = open(out, 7);
    out.u16(places(to, row.how));
    put_header(out, row, false);
    out.u64(value as u64);
    close(out, start);
}

pub(super) fn put_set_masked(out: &mut Vec<u8>, field: Field, value: u128, mask: u128) {
    let start = open(out, 33);
    put_value(out, row(field), value, mask);
    close(out, start);
}

pub(super) fn put_move(out: &mut Vec<u8>, version: Version, from: Subfield, to: Subfield) {
    let header = |field| if field == Field::InPort { row(field) } else { row_for(field, version) };
    let place = |part: Subfield, how| u16::from(part.from) + if how == How::Tos { 2 } else { 0 };
    let (source, target) = (header(from.field), header(to.field));
    let start = open(out, 6);
    out.u16(from.bits.into());
    out.u16(place(from, source.how));
    out.u16(place(to, target.how));
    put_header(out, source, false);
    put_header(out, target, false);
    close(out, start);
}

pub(super) fn put_clone(
    out: &mut Vec<u8>,
    version: Version,
    actions: &[Action],
    tagged: bool,
) -> Result<(), Unsayable> {
    let start = open(out, 42);
    out.zeros(6);
    put_actions(out, version, actions, tagged)?;
    close(out, start);
    Ok(())
}
