//! The linear reference: what OpenFlow tables make of a packet, by their plain meaning.
//!
//! In each table the entries are looked at one after the other, by priority, and the first that matches
//! decides (OpenFlow 1.3.5, section 5.3); its actions are done to the packet's bytes in their order. Only the
//! model of flow entries is the switch's; matching and edits are written here a second time, so that a mistake
//! of the switch is not one of the reference. [`Table::find`] takes a step that a list one after the other does
//! not: entries of equal masks are found by a hash; a test holds it to the plain walk.
//!
//! What it cannot judge is refused by name when a file is read ([`judges`]); a packet that it cannot judge, or of
//! which the tables leave open what becomes of it (two entries of one priority match it and do different
//! things, or several copies of it leave), is [`Expected::Open`], and counted.

mod packet;

use super::{Expected, Reason};
use crate::nf::FlowEntry;
use packet::{Packet, Unjudged};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use weir_flow::{Field, Match, Subfield, ones};
use weir_openflow::{Action, Flow, Instructions, PortNo, TableId};

/// Ports of a function.
const PORTS: u32 = 2;
/// Lookups of one packet, by `resubmit` and `goto_table`: more are a circle, which switches break off each in
/// their own way.
const MOST_LOOKUPS: u32 = 64;

/// Fields with bits of their own that the reference knows, besides the registers. A field that lies within one of
/// them, such as `udp_src` in `tcp_src`, is known with it.
const KNOWN: [Field; 21] = [
    Field::InPort,
    Field::Metadata,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanTci,
    Field::NwSrc,
    Field::NwDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::NwProto,
    Field::NwTos,
    Field::NwEcn,
    Field::NwTtl,
    Field::NwFrag,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::ArpSha,
    Field::ArpTha,
];

/// Known fields that are not written.
const FIXED: [Field; 5] = [Field::EthType, Field::Ipv6Label, Field::NwProto, Field::NwFrag, Field::TcpFlags];

fn is_known(field: Field) -> bool {
    let owner = field.about().owner;
    let is_neighbour = matches!(field, Field::NdSll | Field::NdTll);
    let is_wide_register = owner != field && Field::REGISTERS.contains(&owner);
    let listed = KNOWN.contains(&owner) || Field::REGISTERS.contains(&owner);
    listed && !is_neighbour && !is_wide_register
}

/// One entry's bits of one field.
type Demand = (Field, u128, u128);

/// What a match demands, field by field; the name of a field that the reference does not know.
fn demands(matching: &Match) -> Result<Vec<Demand>, &'static str> {
    let (key, mask) = (matching.key(), matching.mask());
    let mut found = Vec::new();
    for field in Field::ALL.iter().copied().filter(|field| field.is_owner()) {
        let bits = field.mask_of(&mask);
        if bits != 0 {
            let known = is_known(field).then_some((field, field.get(&key), bits));
            found.push(known.ok_or(field.name())?);
        }
    }
    Ok(found)
}

/// Whether the reference can judge an entry; what it cannot, and why.
pub(crate) fn judges(flow: &Flow) -> Result<(), String> {
    demands(&flow.matching).map_err(|field| format!("a match on `{field}`"))?;
    if [flow.idle_timeout, flow.hard_timeout] != [0, 0] {
        return Err("an entry that goes after some time".to_owned());
    }
    let Instructions { meter, apply, write, .. } = &flow.instructions;
    if meter.is_some() {
        return Err("a meter".to_owned());
    }
    judges_actions(apply)?;
    match write.as_slice() {
        [] | [Action::Output(_)] => Ok(()),
        _ => Err("an action set of more than one output (`write_actions`)".to_owned()),
    }
}

fn judges_actions(actions: &[Action]) -> Result<(), String> {
    actions.iter().try_for_each(|action| {
        let writes = |field: Field| match is_known(field) && !FIXED.contains(&field.about().owner) {
            true => Ok(()),
            false => Err(format!("an action that writes `{}`", field.name())),
        };
        let reads = |field: Field| match is_known(field) {
            true => Ok(()),
            false => Err(format!("an action that reads `{}`", field.name())),
        };
        match action {
            Action::Output(port) | Action::OutputWith(port, _) => outputs(*port),
            Action::OutputReg(part) => reads(part.field),
            Action::SetField { field, .. } => writes(*field),
            Action::Load { to, .. } => writes(to.field),
            Action::Move { from, to } => reads(from.field).and_then(|()| writes(to.field)),
            Action::PushVlan(_)
            | Action::SetVlanVid(_)
            | Action::SetVlanPcp(_)
            | Action::PopVlan
            | Action::SetNwTtl(_)
            | Action::DecTtl(_)
            | Action::Drop
            | Action::Resubmit { .. }
            | Action::Exit
            | Action::Note(_) => Ok(()),
            Action::Clone(inner) => judges_actions(inner),
            Action::Controller(_) => Err("`controller`".to_owned()),
            Action::Group(_) => Err("`group`".to_owned()),
            Action::Meter(_) => Err("`meter`".to_owned()),
            Action::Ct(_) | Action::CtClear | Action::ResubmitTracked { .. } => Err("`ct`".to_owned()),
            Action::Service { .. } | Action::ServiceWith { .. } => Err("a service".to_owned()),
            Action::Conjunction(_) => Err("`conjunction`".to_owned()),
            Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::PushPbb(_)
            | Action::PopPbb
            | Action::CopyTtlOut
            | Action::CopyTtlIn => Err("an action on labels or backbone headers".to_owned()),
        }
    })
}

fn outputs(port: PortNo) -> Result<(), String> {
    match port {
        PortNo::IN_PORT | PortNo::ALL | PortNo::FLOOD | PortNo::LOCAL => Ok(()),
        PortNo(number) if (1..=PORTS).contains(&number) => Ok(()),
        PortNo::NORMAL => Err("`normal`, which learns".to_owned()),
        PortNo(number) => {
            Err(format!("`output:{number}`: the tester's two sides are ports 1 and 2, and there is no other"))
        }
    }
}

/// One flow entry.
#[derive(Clone, Debug)]
struct Entry {
    line: u32,
    priority: u16,
    demands: Vec<Demand>,
    instructions: Instructions,
}

/// Entries that look at the same bits of the same fields.
#[derive(Clone, Debug)]
struct Alike {
    bits: Vec<(Field, u128)>,
    /// Of its entries the greatest priority.
    most: u16,
    /// By the bits' values, places in the table's list, rising.
    places: FxHashMap<Box<[u128]>, Vec<u32>>,
}

/// One table.
#[derive(Clone, Debug, Default)]
struct Table {
    /// By falling priority.
    entries: Vec<Entry>,
    /// By falling greatest priority.
    alike: Vec<Alike>,
}

impl Table {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(|entry| Reverse(entry.priority));
        let mut places: FxHashMap<Vec<(Field, u128)>, usize> = FxHashMap::default();
        let mut alike: Vec<Alike> = Vec::new();
        for (place, entry) in (0_u32..).zip(&entries) {
            let bits: Vec<(Field, u128)> =
                entry.demands.iter().map(|(field, _, mask)| (*field, *mask)).collect();
            let at = *places.entry(bits).or_insert_with_key(|bits| {
                alike.push(Alike { bits: bits.clone(), most: entry.priority, places: FxHashMap::default() });
                alike.len() - 1
            });
            let values = entry.demands.iter().map(|(_, value, _)| *value).collect();
            alike[at].places.entry(values).or_default().push(place);
        }
        Self { entries, alike }
    }

    /// The entries of greatest priority that match, one after the other: the plain walk.
    #[cfg(test)]
    fn first(&self, packet: &Packet) -> Vec<&Entry> {
        let mut matching = self.entries.iter().filter(|entry| {
            entry.demands.iter().all(|(field, value, mask)| packet.get(*field) & mask == *value)
        });
        let Some(first) = matching.next() else { return Vec::new() };
        std::iter::once(first).chain(matching.take_while(|next| next.priority == first.priority)).collect()
    }

    /// The same, found by hashes.
    fn find(&self, packet: &Packet) -> Vec<&Entry> {
        let mut found: Vec<&Entry> = Vec::new();
        for alike in &self.alike {
            let best = found.first().map_or(0, |entry| entry.priority);
            if alike.most < best {
                break;
            }
            let values: Box<[u128]> =
                alike.bits.iter().map(|(field, mask)| packet.get(*field) & mask).collect();
            let Some(places) = alike.places.get(&values) else { continue };
            for entry in places.iter().map(|place| &self.entries[*place as usize]) {
                match found.first().map(|first| first.priority) {
                    Some(best) if entry.priority < best => break,
                    Some(best) if entry.priority > best => found = vec![entry],
                    _ => found.push(entry),
                }
            }
        }
        found
    }
}

/// The tables of a function.
#[derive(Clone, Debug)]
pub(super) struct Tables(BTreeMap<u8, Table>);

/// A packet's way: what it is now, and what left.
struct Way {
    packet: Packet,
    /// Ports it left by (OpenFlow's numbers), and as which bytes.
    left: Vec<(u32, Vec<u8>)>,
    /// The port that the action set names.
    at_the_end: Option<PortNo>,
    lookups: u32,
    /// Nothing follows.
    over: bool,
    /// The line of the last entry that matched.
    last: Option<u32>,
}

impl Tables {
    /// Of entries that the reference judges; of two of one table, match and priority the later one counts.
    pub(super) fn new(entries: &[FlowEntry]) -> Self {
        let mut latest: FxHashMap<(TableId, u16, &Match), &FlowEntry> = FxHashMap::default();
        for entry in entries {
            latest.insert((entry.flow.table, entry.flow.priority, &entry.flow.matching), entry);
        }
        let mut by_table: BTreeMap<u8, Vec<Entry>> = BTreeMap::new();
        let mut lasting: Vec<&FlowEntry> = latest.into_values().collect();
        lasting.sort_by_key(|entry| entry.line);
        for FlowEntry { line, flow } in lasting {
            // An entry of an unknown field is refused when its file is read.
            let Ok(demands) = demands(&flow.matching) else { continue };
            let instructions = flow.instructions.clone();
            let entry = Entry { line: *line, priority: flow.priority, demands, instructions };
            by_table.entry(flow.table.0).or_default().push(entry);
        }
        Self(by_table.into_iter().map(|(table, entries)| (table, Table::new(entries))).collect())
    }

    /// What must become of a frame that comes in by a port, from 0; or why that is not judged.
    pub(super) fn passed(&self, in_port: u8, frame: &[u8]) -> Result<Expected, Unjudged> {
        let packet = Packet::new(frame, u32::from(in_port) + 1)?;
        let mut way = Way { packet, left: Vec::new(), at_the_end: None, lookups: 0, over: false, last: None };
        self.look_up(0, &mut way)?;
        if let Some(port) = way.at_the_end {
            if way.over {
                return Err("`exit` comes before the action set is done");
            }
            way.output(port);
        }
        let mut left = way.left.into_iter();
        match (left.next(), left.next()) {
            (None, _) => Ok(Expected::Drop(way.last.map_or(Reason::NoEntry, Reason::Entry))),
            (Some((port, frame)), None) => Ok(Expected::Forward { port: port as u8 - 1, frame }),
            (Some(_), Some(_)) => Err("several copies of it leave"),
        }
    }

    fn look_up(&self, table: u8, way: &mut Way) -> Result<(), Unjudged> {
        way.lookups += 1;
        if way.lookups > MOST_LOOKUPS {
            return Err("it goes round in circles among the tables");
        }
        let found = self.0.get(&table).map_or_else(Vec::new, |table| table.find(&way.packet));
        let Some((first, rest)) = found.split_first() else { return Ok(()) };
        if rest.iter().any(|other| other.instructions != first.instructions) {
            return Err("entries of one priority match it and do different things");
        }
        way.last = Some(first.line);
        let Instructions { apply, clear, write, metadata, goto, .. } = &first.instructions;
        if !self.done(apply, table, way)? || way.over {
            return Ok(());
        }
        if *clear {
            way.at_the_end = None;
        }
        if let [Action::Output(port)] = write.as_slice() {
            way.at_the_end = Some(*port);
        }
        if let Some((value, mask)) = metadata {
            way.packet.metadata = way.packet.metadata & !mask | value & mask;
        }
        goto.map_or(Ok(()), |next| self.look_up(next.0, way))
    }

    /// Does actions; whether what follows them in their entry is done, too.
    fn done(&self, actions: &[Action], table: u8, way: &mut Way) -> Result<bool, Unjudged> {
        for action in actions {
            if way.over {
                return Ok(false);
            }
            let packet = &mut way.packet;
            match action {
                Action::Output(port) | Action::OutputWith(port, _) => way.output(*port),
                Action::OutputReg(part) => {
                    let port = part_of(packet, *part) as u32;
                    way.output(PortNo(port));
                }
                Action::SetField { field, value, mask } => packet.set(*field, *value, *mask)?,
                Action::Load { value, to } => put_part(packet, *to, *value)?,
                Action::Move { from, to } => {
                    let value = part_of(packet, *from);
                    put_part(packet, *to, value)?;
                }
                Action::PushVlan(tpid) => packet.push_tag(*tpid)?,
                Action::SetVlanVid(vid) => packet.set_tag_bits(*vid, 0x0fff)?,
                Action::SetVlanPcp(priority) => packet.set_tag_bits(u16::from(*priority) << 13, 0xe000)?,
                Action::PopVlan => packet.pop_tag()?,
                Action::SetNwTtl(ttl) => packet.set_ttl(*ttl),
                Action::DecTtl(_) if !packet.lower_ttl() => return Ok(false),
                Action::Drop => return Ok(false),
                Action::Resubmit { port, table: next } => {
                    let came_in = packet.in_port;
                    if let Some(port) = port.filter(|port| *port != PortNo::IN_PORT) {
                        packet.in_port = port.0;
                    }
                    self.look_up(next.map_or(table, |next| next.0), way)?;
                    way.packet.in_port = came_in;
                }
                Action::Clone(inner) => {
                    let before = (way.packet.clone(), way.at_the_end);
                    self.done(inner, table, way)?;
                    (way.packet, way.at_the_end) = before;
                    way.over = false;
                }
                Action::Exit => way.over = true,
                // Words, a time to live that was lowered, and what `judges` refuses.
                _ => {}
            }
        }
        Ok(true)
    }
}

impl Way {
    /// A copy leaves by a port; never by the one it came in by, unless that is said (section 4.5).
    fn output(&mut self, port: PortNo) {
        let came_in = self.packet.in_port;
        let ports = match port {
            PortNo::IN_PORT => vec![came_in],
            PortNo::ALL | PortNo::FLOOD => (1..=PORTS).filter(|port| *port != came_in).collect(),
            PortNo(port) => vec![port].into_iter().filter(|port| *port != came_in).collect(),
        };
        let there = ports.into_iter().filter(|port| (1..=PORTS).contains(port));
        self.left.extend(there.map(|port| (port, self.packet.frame.clone())));
    }
}

/// Bits of a field as a number.
fn part_of(packet: &Packet, part: Subfield) -> u128 {
    packet.get(part.field) >> part.from & ones(u32::from(part.bits))
}

/// Sets bits of a field.
fn put_part(packet: &mut Packet, part: Subfield, value: u128) -> Result<(), Unjudged> {
    let mask = ones(u32::from(part.bits)) << part.from;
    packet.set(part.field, value << part.from, mask)
}

#[cfg(test)]
mod tests;
