//! Replies of multiparts, from and to the wire; what is too long for a message becomes several.

use super::number::{Extension, Number, put_number, set_more};
use super::{foreign, monitor, stats};
use crate::action::Unsayable;
use crate::cursor::{Cursor, Decoded, Fault, Put, text};
use crate::wire::{Encoded, group, meter, port, queue, table};
use crate::*;
use weir_openflow::{Flow, PortNo};

/// Bytes of a description's text, and of its serial number.
const TEXT: usize = 256;
const SERIAL: usize = 32;

pub(crate) fn read(mut body: Cursor<'_>, version: Version) -> Decoded<MultipartReply> {
    let (number, more) = Number::read(&mut body, version)?;
    let reply = read_one(number, body, version)?;
    Ok(MultipartReply { more, reply })
}

/// A list to the end of the message.
fn list<'a, T>(mut body: Cursor<'a>, one: impl Fn(&mut Cursor<'a>) -> Decoded<T>) -> Decoded<Vec<T>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        out.push(one(&mut body)?);
    }
    Ok(out)
}

fn read_one(number: Number, body: Cursor<'_>, version: Version) -> Decoded<Reply> {
    use Extension as X;
    use Number as N;
    let late = version > Version::V10;
    let v14 = version >= Version::V14;
    let standard = FlowForm::Standard;
    Ok(match number {
        N::Own(0) => Reply::Desc(read_desc(body)?),
        N::Own(1) => Reply::Flow(standard, list(body, |body| stats::read(body, version))?),
        N::Own(2) => Reply::Aggregate(standard, stats::read_aggregate(body, version)?),
        N::Own(3) => Reply::Table(list(body, |body| table::read_stats(body, version))?),
        N::Own(4) => Reply::Port(list(body, |body| port::read_stats(body, version))?),
        N::Own(5) => Reply::Queue(list(body, |body| queue::read_stats(body, version))?),
        N::Own(6) if late => Reply::Group(list(body, group::read_stats)?),
        N::Own(7) if late => Reply::GroupDesc(list(body, |body| group::read_desc(body, version))?),
        N::Own(8) if late => Reply::GroupFeatures(group::read_features(body)?),
        N::Own(9) if late => Reply::Meter(list(body, meter::read_stats)?),
        N::Own(10) if late => Reply::MeterConfig(list(body, meter::read_config)?),
        N::Own(11) if late => Reply::MeterFeatures(meter::read_features(body, version)?),
        N::Own(12) if late => Reply::TableFeatures(list(body, |body| table::read_features(body, version))?),
        N::Own(13) => Reply::PortDesc(port::read_ports(body, version)?),
        N::Own(14) if v14 => Reply::TableDesc(list(body, |body| table::read_desc(body, version))?),
        N::Own(15) if v14 => {
            Reply::QueueDesc(list(body, |body| queue::read_queue(body, version, PortNo::ANY))?)
        }
        N::Own(16) if v14 => Reply::Monitor(list(body, |body| monitor::read_update(body, version))?),
        N::Own(17) if version == Version::V15 => Reply::FlowStats(list(body, stats::read_counters)?),
        N::Extension(X::Flow) => Reply::Flow(FlowForm::Nxm, list(body, stats::read_nicira)?),
        N::Extension(X::Aggregate) => Reply::Aggregate(FlowForm::Nxm, stats::read_aggregate(body, version)?),
        N::Extension(X::Monitor) => Reply::Monitor(list(body, |body| monitor::read_update(body, version))?),
        N::Extension(X::Group) => Reply::Group(list(body, group::read_stats)?),
        N::Extension(X::GroupDesc) => Reply::GroupDesc(list(body, |body| group::read_desc(body, version))?),
        N::Extension(X::GroupFeatures) => Reply::GroupFeatures(group::read_features(body)?),
        N::Own(_) => return Err(Fault::new(Code::BadMultipart, "there is no such multipart")),
    })
}

fn read_desc(mut body: Cursor<'_>) -> Decoded<Desc> {
    Ok(Desc {
        manufacturer: text(body.bytes(TEXT)?),
        hardware: text(body.bytes(TEXT)?),
        software: text(body.bytes(TEXT)?),
        serial: text(body.bytes(SERIAL)?),
        datapath: text(body.bytes(TEXT)?),
    })
}

fn put_desc(out: &mut Vec<u8>, desc: &Desc) {
    out.text(&desc.manufacturer, TEXT);
    out.text(&desc.hardware, TEXT);
    out.text(&desc.software, TEXT);
    out.text(&desc.serial, SERIAL);
    out.text(&desc.datapath, TEXT);
}

/// The number of an answer in a version.
fn number(reply: &Reply, version: Version) -> Option<Number> {
    use Extension as X;
    use Number as N;
    let v10 = version == Version::V10;
    let v14 = version >= Version::V14;
    Some(match reply {
        Reply::Desc(_) => N::Own(0),
        Reply::Flow(FlowForm::Nxm, _) if v10 => N::Extension(X::Flow),
        Reply::Flow(..) => N::Own(1),
        Reply::Aggregate(FlowForm::Nxm, _) if v10 => N::Extension(X::Aggregate),
        Reply::Aggregate(..) => N::Own(2),
        Reply::Table(_) => N::Own(3),
        Reply::Port(_) => N::Own(4),
        Reply::Queue(_) => N::Own(5),
        Reply::Group(_) => {
            if v10 {
                N::Extension(X::Group)
            } else {
                N::Own(6)
            }
        }
        Reply::GroupDesc(_) => {
            if v10 {
                N::Extension(X::GroupDesc)
            } else {
                N::Own(7)
            }
        }
        Reply::GroupFeatures(_) => {
            if v10 {
                N::Extension(X::GroupFeatures)
            } else {
                N::Own(8)
            }
        }
        Reply::Meter(_) if !v10 => N::Own(9),
        Reply::MeterConfig(_) if !v10 => N::Own(10),
        Reply::MeterFeatures(_) if !v10 => N::Own(11),
        Reply::TableFeatures(_) if !v10 => N::Own(12),
        Reply::PortDesc(_) => N::Own(13),
        Reply::TableDesc(_) if v14 => N::Own(14),
        Reply::QueueDesc(_) if v14 => N::Own(15),
        Reply::Monitor(_) => {
            if v14 {
                N::Own(16)
            } else {
                N::Extension(X::Monitor)
            }
        }
        Reply::FlowStats(_) if version == Version::V15 => N::Own(17),
        _ => return None,
    })
}

/// Messages that are being written, the last of them not yet closed.
struct Parts<'a> {
    out: &'a mut Vec<u8>,
    /// Where the last one begins.
    start: usize,
    /// How each begins.
    head: Vec<u8>,
}

impl Parts<'_> {
    /// Writes one entry of a list; if the message becomes too long by it, a new one begins with it.
    fn entry(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Encoded {
        self.put(false, put)
    }

    /// Writes one entry of a list; a new message begins with it if it is to be alone, or is too long for this one.
    fn put(&mut self, alone: bool, put: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Encoded {
        let before = self.out.len();
        put(self.out)?;
        let length = self.out.len() - before;
        if self.head.len() + length > LONGEST {
            return Err(Unsayable("an entry of more than 65535 bytes"));
        }
        let first = before == self.start + self.head.len();
        if self.out.len() - self.start > LONGEST || (alone && !first) {
            self.close(before);
            set_more(self.out, self.start);
            let head = self.head.iter().copied();
            self.out.splice(before..before, head);
            self.start = before;
        }
        Ok(())
    }

    fn each<T>(&mut self, list: &[T], put: impl Fn(&mut Vec<u8>, &T) -> Encoded) -> Encoded {
        list.iter().try_for_each(|one| self.entry(|out| put(out, one)))
    }

    /// Writes flow entries. What a version cannot say of one a note says, for people. Those that Open vSwitch's
    /// tools do not know come last, each in a message of its own: a tool that meets one prints nothing more of
    /// that message.
    fn flows(&mut self, list: &[FlowStats], put: impl Fn(&mut Vec<u8>, &FlowStats) -> Encoded) -> Encoded {
        let put = |out: &mut Vec<u8>, one: &FlowStats| {
            let before = out.len();
            put(out, one).or_else(|_| {
                out.truncate(before);
                let matching = &one.flow.matching;
                let instructions = foreign::noted(&one.flow.instructions, matching);
                put(out, &FlowStats { flow: Flow { instructions, ..one.flow.clone() }, ..one.clone() })
            })
        };
        let is_known = |one: &&FlowStats| !foreign::is_foreign(&one.flow);
        list.iter().filter(is_known).try_for_each(|one| self.put(false, |out| put(out, one)))?;
        let is_foreign = |one: &&FlowStats| foreign::is_foreign(&one.flow);
        list.iter().filter(is_foreign).try_for_each(|one| self.put(true, |out| put(out, one)))
    }

    /// Writes the length of the last message, that ends here.
    fn close(&mut self, end: usize) {
        let length = (end - self.start) as u16;
        self.out[self.start + 2..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes a reply, as one or more whole messages; `start` is where the header of the first was written.
pub(crate) fn put(out: &mut Vec<u8>, start: usize, message: &MultipartReply, version: Version) -> Encoded {
    let number = number(&message.reply, version).ok_or(Unsayable("this multipart"))?;
    put_number(out, number, false, version);
    let head = out[start..].to_vec();
    let mut parts = Parts { out, start, head };
    match &message.reply {
        Reply::Desc(desc) => put_desc(parts.out, desc),
        Reply::Flow(FlowForm::Nxm, list) if version == Version::V10 => {
            parts.flows(list, stats::put_nicira)?
        }
        Reply::Flow(_, list) => parts.flows(list, |out, one| stats::put(out, one, version))?,
        Reply::FlowStats(list) => parts.each(list, stats::put_counters)?,
        Reply::Aggregate(_, sum) => stats::put_aggregate(parts.out, sum, version),
        Reply::Table(list) => parts.each(list, |out, one| {
            table::put_stats(out, one, version);
            Ok(())
        })?,
        Reply::Port(list) => parts.each(list, |out, one| {
            port::put_stats(out, one, version);
            Ok(())
        })?,
        Reply::Queue(list) => parts.each(list, |out, one| {
            queue::put_stats(out, one, version);
            Ok(())
        })?,
        Reply::Group(list) => parts.each(list, |out, one| {
            group::put_stats(out, one);
            Ok(())
        })?,
        Reply::GroupDesc(list) => parts.each(list, |out, one| group::put_desc(out, one, version))?,
        Reply::GroupFeatures(features) => group::put_features(parts.out, features),
        Reply::Meter(list) => parts.each(list, |out, one| {
            meter::put_stats(out, one);
            Ok(())
        })?,
        Reply::MeterConfig(list) => parts.each(list, |out, one| {
            meter::put_config(out, one);
            Ok(())
        })?,
        Reply::MeterFeatures(features) => meter::put_features(parts.out, features, version),
        Reply::TableFeatures(list) => parts.each(list, |out, one| table::put_features(out, one, version))?,
        Reply::PortDesc(list) => parts.each(list, |out, one| {
            port::put_port(out, one, version);
            Ok(())
        })?,
        Reply::TableDesc(list) => parts.each(list, |out, one| {
            table::put_desc(out, one, version);
            Ok(())
        })?,
        Reply::QueueDesc(list) => parts.each(list, |out, one| {
            queue::put_queue(out, one, version);
            Ok(())
        })?,
        Reply::Monitor(list) => parts.each(list, |out, one| monitor::put_update(out, one, version))?,
    }
    let end = parts.out.len();
    parts.close(end);
    if message.more {
        let start = parts.start;
        set_more(parts.out, start);
    }
    Ok(())
}
