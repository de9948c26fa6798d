//! A burst's lookup on the fast path: what an entry is, how one is found, and what is done to a packet that has one.

use super::{FAR, Taken};
use crate::actions::execute::Disposition;
use crate::actions::program::Counted;
use crate::actions::simple::{End, SimpleActions};
use weir_dpdk::{BURST, Burst, Packet};
use weir_flow::{Extractor, MaskedHeader, WithExtractor, spread};
use weir_units::Nanos;

/// The number of no target.
pub(super) const NONE: u32 = u32::MAX;

/// Where packets that look like this go.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) header: MaskedHeader,
    /// The version when it was learned in the upper half; in the lower the port.
    pub(super) origin: u64,
    /// The generation of the tables that it is known to be right for.
    pub(super) generation: u64,
    pub(super) target: u32,
}

impl Entry {
    /// No packet has version 0.
    pub(super) const EMPTY: Self = Self { header: [0; 4], origin: 0, generation: 0, target: NONE };
}

/// A megaflow as the fast path has it, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Target {
    pub(super) counted: Counted,
    pub(super) used: Nanos,
    pub(super) actions: SimpleActions,
}

/// How packets are told apart: by what is seen of them, and by where they come from.
#[derive(Clone, Copy)]
pub(super) struct Telling {
    pub(super) masks: MaskedHeader,
    pub(super) factors: MaskedHeader,
    pub(super) origin: u64,
    /// The generation of the tables.
    pub(super) generation: u64,
    /// That as the sum begins, so that ports whose packets look alike have places of their own.
    pub(super) start: u64,
}

impl Telling {
    /// Where what is known of such packets belongs, before that is cut to the number of entries.
    #[inline(always)]
    pub(super) fn place<S: Extractor>(&self, header: &MaskedHeader) -> usize {
        spread(S::sum(&self.factors, header).wrapping_add(self.start)) as usize
    }

    /// The number of the target of packets that look like this. It is in one of two entries, which share
    /// what the adjacent-line prefetcher brings; mostly in the first.
    #[inline(always)]
    fn find<S: Extractor>(&self, entries: &[Entry], header: &MaskedHeader) -> Option<u32> {
        self.find_at::<S>(entries, header, self.place::<S>(header))
    }

    /// The same where that place is known.
    #[inline(always)]
    pub(super) fn find_at<S: Extractor>(
        &self,
        entries: &[Entry],
        header: &MaskedHeader,
        place: usize,
    ) -> Option<u32> {
        let slot = place & entries.len().wrapping_sub(1);
        let is_it = |entry: &&Entry| {
            let same = (entry.origin ^ self.origin) | (entry.generation ^ self.generation);
            S::differ(&entry.header, header) | same == 0
        };
        let first = entries.get(slot)?;
        let found = if is_it(&first) { Some(first) } else { entries.get(slot ^ 1).filter(is_it) };
        found.map(|entry| entry.target)
    }
}

/// A single lookup.
pub(super) struct Find<'e>(pub(super) &'e Telling, pub(super) &'e [Entry], pub(super) MaskedHeader);

impl WithExtractor for Find<'_> {
    type Output = Option<u32>;

    fn run<S: Extractor>(self) -> Option<u32> {
        self.0.find::<S>(self.1, &self.2)
    }
}

/// One packet whose target is known.
pub(super) struct TakeOne<'t> {
    pub(super) target: &'t mut Target,
    pub(super) packet: &'t mut Packet,
    pub(super) now: Nanos,
}

impl WithExtractor for TakeOne<'_> {
    type Output = Option<End>;

    fn run<S: Extractor>(self) -> Option<End> {
        self.target.take::<S>(self.now, self.packet.data_mut())
    }
}

/// Where a single one belongs.
pub(super) struct Place<'e>(pub(super) &'e Telling, pub(super) MaskedHeader);

impl WithExtractor for Place<'_> {
    type Output = usize;

    fn run<S: Extractor>(self) -> usize {
        self.0.place::<S>(&self.1)
    }
}

/// A burst whose packets are looked up one by one, and what that takes.
pub(super) struct OneByOne<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) dispositions: &'a mut [Disposition; BURST],
    pub(super) telling: Telling,
    pub(super) entries: &'a [Entry],
    pub(super) targets: &'a mut [Target],
    pub(super) now: Nanos,
}

impl WithExtractor for OneByOne<'_> {
    type Output = Taken;

    /// Does to all packets that are known what is to be done to them.
    #[inline(always)]
    fn run<S: Extractor>(self) -> Taken {
        let Self { burst, dispositions, telling, entries, targets, now } = self;
        let (mut left, mut ends) = (0, [End::default(); BURST]);
        burst.prefetch();
        if entries.len() >= FAR {
            let (burst, dispositions, targets) = (&mut *burst, &mut *dispositions, &mut *targets);
            let mut all = OneByOne { burst, dispositions, telling, entries, targets, now };
            left = all.take_ahead::<S>(&mut ends);
        } else {
            for (at, packet) in burst.iter_mut().enumerate() {
                match take::<S>(&telling, entries, targets, now, packet) {
                    Some(end) => ends[at % BURST] = end,
                    None => left |= 1 << at,
                }
            }
        }
        let (first, ends) = (ends[0], &ends[..burst.len()]);
        if left == 0 && ends.iter().all(|end| *end == first) {
            return Taken { left, all: Some(first.into()) };
        }
        for (at, (disposition, end)) in dispositions.iter_mut().zip(ends).enumerate() {
            if left >> at & 1 == 0 {
                *disposition = (*end).into();
            }
        }
        Taken { left, all: None }
    }
}

/// Does to a packet what is to be done to it, if that is known, and says where it goes.
#[inline(always)]
fn take<S: Extractor>(
    telling: &Telling,
    entries: &[Entry],
    targets: &mut [Target],
    now: Nanos,
    packet: &mut Packet,
) -> Option<End> {
    if packet.is_chained() {
        return None;
    }
    let header = S::read(&telling.masks, packet.data())?;
    let number = telling.find::<S>(entries, &header)?;
    targets.get_mut(number as usize)?.take::<S>(now, packet.data_mut())
}

impl Target {
    pub(super) fn new(actions: SimpleActions) -> Self {
        Self { counted: Counted::default(), used: Nanos(0), actions }
    }

    #[inline(always)]
    pub(super) fn count(&mut self, packets: u64, bytes: u64, now: Nanos) {
        self.counted.packets += packets;
        self.counted.bytes += bytes;
        self.used = now;
    }

    /// Does to a frame what is to be done, if it can be, and says where it goes.
    #[inline(always)]
    pub(super) fn take<S: Extractor>(&mut self, now: Nanos, frame: &mut [u8]) -> Option<End> {
        if !self.actions.apply::<S>(frame) {
            return None;
        }
        self.count(1, frame.len() as u64, now);
        Some(self.actions.end())
    }

    /// What it counted, and when it was used last; it starts anew.
    pub(super) fn collect(&mut self) -> (Counted, Nanos) {
        (std::mem::take(&mut self.counted), self.used)
    }
}

const _: () = assert!(size_of::<Target>() == 64, "a target is one line");
