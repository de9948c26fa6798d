//! Hints: the names of megaflows that come with the packets, from a port that classifies.
//!
//! What: each queue of a port may have a table in front of it that marks packets ([`HintSource`]): the
//! flow rules of a NIC (`rules.rs`), or the emulation of one, a port in front of the port (`soft.rs`). Packets come with
//! their marks, whichever it is. [`Hints`] drives the table: it decides
//! which megaflows are in the table, keeps for each mark the megaflow's handle (place and generation), and
//! resolves the marks of a burst. What a hint says is never believed: the megaflow has to be there, of
//! that generation, and the packet has to agree with it under its mask; else the packet is looked up as
//! if there were no hint (SoftFlow, section 6). So a table may lag behind, or be wrong, at no other cost.
//!
//! Which megaflows: those of the first stage only. A port sees packets before any service does: it
//! knows neither `sf_stage` nor what a service wrote, and packets that go back to the caches behind a
//! service do not pass it again. Coalescing therefore decides how much hints save: with it, the first
//! lookup is often the only one.
//!
//! What enters the table: megaflows that packets without a hint were found to belong to, one a burst and no
//! faster than the table takes updates, which makes busy megaflows the likely ones. What leaves: the
//! least recently used, or the one of the lowest rate, of [`LOOKED_AT`] that are looked at in turn; and what
//! a packet found to be stale.
//!
//! For an experiment packets carry their hints themselves (`packet.rs`).
//!
//! Cost: a few cycles a packet to resolve; no lookup then. Threads: the worker's.

mod packet;
mod rules;
mod soft;

pub(crate) use packet::PacketHints;
pub(crate) use rules::Installer;
pub(crate) use soft::in_front_of;

use crate::classify::cache::Caches;
use crate::model::Packets;
use crate::model::tcam::{Eviction, TcamConfig};
use crate::stats::report::HintReport;
use std::collections::HashMap;
use weir_classifier::{Found, Handle, Mark, Refusal};
use weir_dpdk::Burst;
use weir_flow::{Key, Mask, places};
use weir_units::Nanos;

/// Megaflows of which one is chosen to leave.
pub(super) const LOOKED_AT: usize = 16;

/// The table of something that marks packets before a worker sees them. Updates take their time: they are begun, and
/// what became of them is asked for later.
pub(crate) trait HintSource: Send {
    /// Whether an update would be begun now.
    fn is_ready(&self, now: Nanos) -> bool;

    /// Begins to have packets marked that agree with the key in what the mask names. It may mark more:
    /// what hardware cannot match on is left to the software.
    fn write(&mut self, mark: Mark, key: &Key, mask: &Mask, now: Nanos) -> Result<(), Refusal>;

    /// Begins to have them marked no more.
    fn erase(&mut self, mark: Mark, now: Nanos) -> Result<(), Refusal>;

    /// A mark that no packet will get any more: erased, or never written after all. Each is told once.
    fn gone(&mut self, now: Nanos) -> Option<Mark>;
}

/// A place of the table, and its mark's meaning.
#[derive(Clone, Copy, Debug)]
struct Slot {
    handle: Handle,
    state: State,
    /// When the last packet came with it.
    used: Nanos,
    /// Since when packets are counted.
    since: Nanos,
    packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Written,
    Leaving,
}

const FREE: Slot =
    Slot { handle: Handle::NONE, state: State::Free, used: Nanos(0), since: Nanos(0), packets: 0 };

/// Where a queue's hints come from.
pub(crate) enum InputHints {
    /// A table that marks packets.
    Table(Box<Hints>),
    /// The packets.
    Packet(Box<PacketHints>),
}

impl InputHints {
    /// Places, and those that are taken.
    pub(crate) fn fill(&self) -> (usize, usize) {
        match self {
            Self::Table(hints) => hints.fill(),
            Self::Packet(hints) => hints.fill(),
        }
    }
}

/// A table of marks, driven.
pub(crate) struct Hints {
    source: Box<dyn HintSource>,
    /// The mark of the first place.
    first: Mark,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_handle: HashMap<Handle, u32>,
    eviction: Eviction,
    hand: usize,
}

impl Hints {
    /// An empty table; the marks of its places begin with `first`, which is not 0.
    pub(crate) fn new(source: Box<dyn HintSource>, config: &TcamConfig, first: Mark) -> Self {
        Self {
            source,
            first,
            slots: vec![FREE; config.entries as usize],
            free: (0..config.entries).rev().collect(),
            by_handle: HashMap::with_capacity(config.entries as usize),
            eviction: config.eviction,
            hand: 0,
        }
    }

    /// Places, and those that are taken.
    pub(crate) fn fill(&self) -> (usize, usize) {
        (self.slots.len(), self.slots.len() - self.free.len())
    }

    /// Resolves the marks of a burst: a bit set in the result is a packet whose megaflow is in `found`,
    /// verified.
    pub(crate) fn resolve(
        &mut self,
        (burst, keys): (&Burst, &[Key]),
        wanted: Packets,
        caches: &mut Caches,
        (found, report): (&mut Found, &mut HintReport),
        now: Nanos,
    ) -> Packets {
        let (mut hinted, mut places_of) = (0, [0; weir_dpdk::BURST]);
        for (at, packet) in burst.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            let Some(mark) = packet.mark() else {
                report.missed += 1;
                continue;
            };
            let place = mark.wrapping_sub(self.first);
            let Some(slot) = self.slots.get(place as usize) else {
                report.wrong += 1;
                continue;
            };
            (places_of[at], found.handles[at]) = (place, slot.handle);
            hinted |= 1 << at;
        }
        let hits = caches.confirm(keys, hinted, &found.handles);
        report.hits += u64::from(hits.count_ones());
        for at in places(hits) {
            let slot = &mut self.slots[places_of[at] as usize];
            slot.used = now;
            slot.packets += 1;
        }
        for at in places(hinted & !hits) {
            if caches.holds(found.handles[at]) {
                report.wrong += 1;
            } else {
                report.stale += 1;
                self.erase(places_of[at], now);
            }
        }
        hits
    }

    /// Has a place freed, if it is in use and the table takes an update.
    fn erase(&mut self, place: u32, now: Nanos) -> bool {
        let slot = &mut self.slots[place as usize];
        let begun = slot.state == State::Written && self.source.erase(self.first + place, now).is_ok();
        if begun {
            slot.state = State::Leaving;
            self.by_handle.remove(&slot.handle);
        }
        begun
    }

    /// A megaflow that a packet without a hint belongs to: it enters the table, or something leaves so
    /// that the next may.
    pub(crate) fn propose(&mut self, handle: Handle, caches: &Caches, report: &mut HintReport, now: Nanos) {
        while let Some(mark) = self.source.gone(now) {
            let place = mark.wrapping_sub(self.first);
            if let Some(slot) = self.slots.get_mut(place as usize) {
                if self.by_handle.get(&slot.handle) == Some(&place) {
                    self.by_handle.remove(&slot.handle);
                }
                *slot = FREE;
                self.free.push(place);
            }
        }
        if !self.source.is_ready(now) || self.by_handle.contains_key(&handle) {
            return;
        }
        let Some(place) = self.free.pop() else {
            report.full += 1;
            let victim = self.victim(now);
            report.evicted += u64::from(victim.is_some_and(|place| self.erase(place, now)));
            return;
        };
        let written =
            caches.matching(handle).map(|(key, mask)| self.source.write(self.first + place, &key, mask, now));
        if let Some(Ok(())) = written {
            self.slots[place as usize] =
                Slot { handle, state: State::Written, used: now, since: now, packets: 0 };
            self.by_handle.insert(handle, place);
            report.written += 1;
        } else {
            self.free.push(place);
            report.full += u64::from(written == Some(Err(Refusal::Full)));
        }
    }

    /// Who leaves: the worst of the next few.
    fn victim(&mut self, now: Nanos) -> Option<u32> {
        let mut worst: Option<(f64, usize)> = None;
        for _ in 0..LOOKED_AT.min(self.slots.len()) {
            let at = self.hand;
            self.hand = if at + 1 == self.slots.len() { 0 } else { at + 1 };
            let slot = &mut self.slots[at];
            if slot.state != State::Written {
                continue;
            }
            let age = now.0.saturating_sub(slot.since.0);
            let worth = match self.eviction {
                Eviction::LeastRecent => slot.used.0 as f64,
                Eviction::LowestRate => slot.packets as f64 / age.max(1) as f64,
            };
            // The past counts half as much the next time.
            slot.packets /= 2;
            slot.since = Nanos(now.0 - age / 2);
            if worst.is_none_or(|(least, _)| worth < least) {
                worst = Some((worth, at));
            }
        }
        worst.map(|(_, at)| at as u32)
    }
}

#[cfg(test)]
mod tests;
