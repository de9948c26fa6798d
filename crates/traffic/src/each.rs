//! Every packet of a trial held against the frame that its stamp names.
//!
//! The number in a stamp says which frame of the trace was sent. Before a trial the oracle has said of every
//! distinct frame what must become of it ([`Ways`]): most leave as they came, or routed. So a packet that comes
//! is compared byte by byte with the frame as it was sent, which is in the cache because the sender has
//! just copied it: headers in words of eight bytes with a mask over what the function or the stamp changes, the
//! payload as it stands, the L4 checksum with what the stamp makes of it. What the function must have changed (MAC
//! addresses, time to live, header checksum) is compared with what it must be.
//!
//! What is not compared here: frames whose disposition is open or one of several (a balancer's), encrypted ones, IPv4
//! headers with options that are routed, packets without a stamp, traces whose ports change from lap to lap, and those of more distinct
//! frames than [`MOST`]. Those are held to their checksums ([`crate::intact`]) and looked at in the sample
//! ([`crate::sample`]).
//!
//! Cost: a lookup and a comparison of the whole frame, no allocation; `./x generator --receive` measures it.
//! One [`Each`] a stream and receiver, owned by its thread; [`Ways`] are shared.

use crate::recall::Recall;
use crate::stamp::{Stamp, StampSlot};
use crate::trace::{FrameTable, HEAD_BYTES};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_trial::compare::describe;
use weir_trial::expected::Reason;
use weir_trial::{Expected, Oracle, Shares};
use weir_wire::table::{next_hop_mac, port_mac};
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, checksum};

/// Where an IPv4 header's fields stand in a frame without tags.
const TTL: usize = EthernetRepr::BYTES + 8;
const CHECKSUM: usize = EthernetRepr::BYTES + 10;
const MACS: usize = 12;
/// Version and header length of an IPv4 header without options.
const PLAIN: u8 = 0x45;

/// A frame is starved only where it came less often by so many times the spread that chance makes (of a count,
/// its square root).
const CHANCE: f64 = 6.0;

/// Distinct frames of a table that the oracle is asked about, at most: a quarter of a second of its time, or a few
/// seconds where it has a hundred thousand rules.
const MOST: usize = 1 << 18;

/// What must become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Disposition {
    /// It leaves by this port as it came.
    Same(u8),
    /// It leaves by this port as a router leaves it: new MAC addresses, the time to live lowered.
    Routed(u8),
    /// It must not come out.
    Gone,
    /// Not told here.
    Open,
}

/// How frames of one disposition, size and protocol are compared.
#[derive(Clone, Debug)]
struct Way {
    disposition: Disposition,
    /// Bytes of the frame, and how many of its head are compared.
    len: usize,
    front: usize,
    /// Ones where a byte must be as it was sent.
    mask: [u8; HEAD_BYTES],
    macs: [u8; MACS],
}

/// What must become of each frame of a table.
#[derive(Debug)]
pub(crate) struct Ways {
    ways: Vec<Way>,
    /// Of each distinct frame, the place in `ways`.
    of: Vec<u16>,
}

/// What looking at a packet came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is what must come.
    Right,
    /// It is not.
    Wrong,
    /// Nobody here knows.
    Open,
}

impl Ways {
    /// Asks the oracle about every distinct frame that enters by a port: a microsecond each. Nothing where it
    /// knows of none what must come, or there are too many of them.
    pub(crate) fn of(oracle: &Oracle, port: u8, table: &FrameTable) -> Option<Self> {
        if table.distinct() > MOST || table.turns().is_some() {
            return None;
        }
        let mut known: HashMap<(Disposition, usize, StampSlot), u16> = HashMap::new();
        let (mut ways, mut of) = (Vec::new(), Vec::with_capacity(table.distinct()));
        for index in 0..table.distinct() {
            let (frame, slot) = (table.distinct_frame(index).to_vec(), table.slot_of(index));
            let disposition =
                if is_in_head(slot) { disposition(oracle, port, &frame) } else { Disposition::Open };
            let key = (disposition, frame.len(), place_alone(slot));
            let next = u16::try_from(ways.len()).ok()?;
            of.push(*known.entry(key).or_insert_with(|| {
                ways.push(Way::new(key.0, frame.len(), slot));
                next
            }));
        }
        ways.iter().any(|way| way.disposition != Disposition::Open).then_some(Self { ways, of })
    }
}

/// Whether the checksum that a stamp changes stands in the part of a frame that is masked.
fn is_in_head(slot: StampSlot) -> bool {
    match slot {
        StampSlot::Checksum { at, .. } => usize::from(at) + 2 <= HEAD_BYTES,
        StampSlot::Plain | StampSlot::None => true,
    }
}

/// A slot without what differs from frame to frame.
fn place_alone(slot: StampSlot) -> StampSlot {
    match slot {
        StampSlot::Checksum { at, odd, udp, .. } => StampSlot::Checksum { at, partial: 0, odd, udp },
        other => other,
    }
}

/// What the oracle says about a frame.
fn disposition(oracle: &Oracle, port: u8, frame: &[u8]) -> Disposition {
    match oracle.expected(port, frame) {
        Expected::Forward { port, frame: out } if out == frame => Disposition::Same(port),
        Expected::Forward { port, frame: out } if routed(frame, port).is_some_and(|routed| routed == out) => {
            Disposition::Routed(port)
        }
        // Some devices have a default route: what they do with such packets is said elsewhere.
        Expected::Drop(Reason::NoRoute) => Disposition::Open,
        Expected::Drop(_) => Disposition::Gone,
        Expected::Forward { .. } | Expected::OneOf { .. } | Expected::Translated { .. } | Expected::Open => {
            Disposition::Open
        }
    }
}

fn macs_behind(port: u8) -> [u8; MACS] {
    let mut macs = [0; MACS];
    macs[..6].copy_from_slice(&next_hop_mac(port));
    macs[6..].copy_from_slice(&port_mac(port));
    macs
}

/// A frame as [`Way::holds`] takes a router to leave it; nothing where its header is not plain IPv4.
fn routed(frame: &[u8], port: u8) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    let head = frame.get_mut(..EthernetRepr::BYTES + Ipv4Repr::BYTES)?;
    if head[MACS..EthernetRepr::BYTES] != EtherType::IPV4.0.to_be_bytes()
        || head[EthernetRepr::BYTES] != PLAIN
    {
        return None;
    }
    let sum = lowered(head)?;
    head[..MACS].copy_from_slice(&macs_behind(port));
    head[TTL] -= 1;
    head[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

/// The header checksum of a frame once its time to live is lowered by one (RFC 1624).
#[inline]
fn lowered(head: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes([*head.get(at)?, *head.get(at + 1)?]));
    let (sum, old) = (word(CHECKSUM)?, word(TTL)?);
    Some(checksum::update_u16(sum, old, old.checked_sub(0x0100)?))
}

impl Way {
    fn new(disposition: Disposition, len: usize, slot: StampSlot) -> Self {
        let mut mask = [0xff; HEAD_BYTES];
        if let StampSlot::Checksum { at, .. } = slot {
            mask.iter_mut().skip(usize::from(at)).take(2).for_each(|byte| *byte = 0);
        }
        let mut macs = [0; MACS];
        if let Disposition::Routed(port) = disposition {
            macs = macs_behind(port);
            mask[..MACS].fill(0);
            mask[TTL] = 0;
            mask[CHECKSUM..CHECKSUM + 2].fill(0);
        }
        Self { disposition, len, front: len.saturating_sub(Stamp::BYTES).min(HEAD_BYTES), mask, macs }
    }

    /// Whether a packet that came by a port is what must become of a frame.
    #[inline]
    fn holds(
        &self,
        (port, came): (u8, &[u8]),
        sent: &[u8; HEAD_BYTES],
        tail: &[u8],
        slot: StampSlot,
    ) -> bool {
        let (out, routed) = match self.disposition {
            Disposition::Same(out) => (out, false),
            Disposition::Routed(out) => (out, true),
            Disposition::Gone | Disposition::Open => return false,
        };
        let Some((body, stamp)) = came.split_last_chunk::<{ Stamp::BYTES }>() else { return false };
        if out != port || came.len() != self.len || body.len() < self.front {
            return false;
        }
        let (front, rest) = body.split_at(self.front);
        let whole = tail.get(..rest.len()) == Some(rest);
        whole
            && self.front_holds(front, sent)
            && (!routed || self.is_routed(front, sent))
            && ends(came, slot, stamp)
    }

    #[inline]
    fn front_holds(&self, came: &[u8], sent: &[u8; HEAD_BYTES]) -> bool {
        let (words, rest) = came.as_chunks::<8>();
        let at = words.len() * 8;
        let masks = self.mask.as_chunks::<8>().0;
        let mut differs = 0;
        for ((came, sent), mask) in words.iter().zip(sent.as_chunks::<8>().0).zip(masks) {
            let [came, sent, mask] = [came, sent, mask].map(|word| u64::from_ne_bytes(*word));
            differs |= (came ^ sent) & mask;
        }
        for ((came, sent), mask) in rest.iter().zip(&sent[at..]).zip(&self.mask[at..]) {
            differs |= u64::from((came ^ sent) & mask);
        }
        differs == 0
    }

    /// Whether what a router changes is as it must be.
    #[inline]
    fn is_routed(&self, came: &[u8], sent: &[u8; HEAD_BYTES]) -> bool {
        let Some(head) = came.first_chunk::<{ CHECKSUM + 2 }>() else { return false };
        let sum = u16::from_be_bytes([head[CHECKSUM], head[CHECKSUM + 1]]);
        // Zero has two forms, of which both hold.
        let sum_holds = lowered(sent).is_some_and(|must| sum == must || must == 0 && sum == 0xffff);
        head[..MACS] == self.macs && head[TTL] == sent[TTL].wrapping_sub(1) && sum_holds
    }
}

/// Whether the L4 checksum is the one that goes with this stamp.
#[inline]
fn ends(came: &[u8], slot: StampSlot, stamp: &[u8; Stamp::BYTES]) -> bool {
    slot.finish(stamp).is_none_or(|(at, field)| came.get(at..at + 2) == Some(&field))
}

/// The packets of one stream of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Each {
    ways: Arc<Ways>,
    recall: Recall,
    /// The number looked at last, and the place of its frame.
    last: (u64, u64),
    /// How often each distinct frame came as it must.
    came: Vec<u32>,
    compared: u64,
}

impl Each {
    pub(crate) fn new(ways: Arc<Ways>, recall: Recall) -> Self {
        let mut came = vec![1; ways.of.len()];
        came.fill(0);
        let last = (0, recall.place(0) as u64);
        Self { ways, recall, last, came, compared: 0 }
    }

    /// Looks at a packet with this stamp that came by a port.
    #[inline]
    pub(crate) fn look(&mut self, stamp: Stamp, port: u8, came: &[u8]) -> Look {
        let Some(place) = self.place(stamp.number()) else { return Look::Open };
        let table = self.recall.table();
        let index = table.index(place);
        let Some(way) = self.ways.of.get(index).and_then(|way| self.ways.ways.get(usize::from(*way))) else {
            return Look::Open;
        };
        if way.disposition == Disposition::Open {
            return Look::Open;
        }
        self.compared += 1;
        let tail = table.distinct_frame(index).tail;
        if !way.holds((port, came), &table.heads()[index].0, tail, table.slot(place)) {
            return Look::Wrong;
        }
        self.came[index] += 1;
        Look::Right
    }

    /// The place of the frame that carried this number. Numbers come nearly in order: the next is a step away.
    #[inline]
    fn place(&mut self, number: u64) -> Option<usize> {
        let len = self.recall.table().len() as u64;
        let steps = number.wrapping_sub(self.last.0);
        let place = if self.recall.is_every() && steps < len {
            let place = self.last.1 + steps;
            if place < len { place } else { place - len }
        } else {
            self.recall.place_of(number)? as u64
        };
        self.last = (number, place);
        Some(place as usize)
    }

    /// Adds what another receiver saw of the same sender's packets.
    fn add(&mut self, other: &Self) {
        self.came.iter_mut().zip(&other.came).for_each(|(sum, came)| *sum += came);
        self.compared += other.compared;
    }

    /// How often each frame that must come out came, for each time that it stands in a lap, and its place.
    pub(crate) fn shares(&self) -> Vec<(u64, usize)> {
        let table = self.recall.table();
        let mut times = vec![u64::from(table.order().is_none()); self.came.len()];
        table.order().into_iter().flatten().for_each(|index| times[*index as usize] += 1);
        let comes = |index: &usize| {
            let way = self.ways.ways.get(usize::from(self.ways.of[*index]));
            times[*index] > 0
                && way.is_some_and(|way| {
                    matches!(way.disposition, Disposition::Same(_) | Disposition::Routed(_))
                })
        };
        (0..self.came.len())
            .filter(comes)
            .map(|index| (u64::from(self.came[index]) / times[index], index))
            .collect()
    }

    /// A frame of its table.
    pub(crate) fn frame(&self, index: usize) -> Vec<u8> {
        self.recall.table().distinct_frame(index).to_vec()
    }

    /// Packets compared.
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }
}

/// How what came back is shared among the frames of all senders; nothing where none is known. Each look at a sender's packets
/// comes with that sender's direction and place, as several receivers may have looked at them.
pub(crate) fn shares<'a>(all: impl Iterator<Item = ((usize, usize), &'a Each)>) -> Option<Shares> {
    let mut senders: BTreeMap<(usize, usize), Each> = BTreeMap::new();
    for (sender, each) in all {
        match senders.entry(sender) {
            Entry::Vacant(place) => drop(place.insert(each.clone())),
            Entry::Occupied(mut sum) => sum.get_mut().add(each),
        }
    }
    let mut rates: Vec<(u64, &Each, usize)> = Vec::new();
    for each in senders.values() {
        rates.extend(each.shares().into_iter().map(|(rate, index)| (rate, each, index)));
    }
    let middle = rates.len() / 2;
    rates.get(middle)?;
    let median = rates.select_nth_unstable_by_key(middle, |one| one.0).1.0;
    let likely = median as f64 - CHANCE * (median as f64).sqrt();
    let starved = |rate: u64| rate * 2 < median && (rate as f64) < likely;
    let mut found = rates.iter().filter(|(rate, ..)| starved(*rate)).peekable();
    let example = found.peek().map_or(String::new(), |(rate, each, index)| {
        format!("{}, {rate} times", describe(&each.frame(*index)))
    });
    Some(Shares { frames: rates.len() as u64, median, starved: found.count() as u64, example })
}

#[cfg(test)]
#[path = "each_tests.rs"]
mod tests;
