//! The fast path, for packets whose megaflow has simple actions: no key is extracted, and no megaflow touched.
//!
//! What: a cache in front of the others, keyed by a [`MaskedHeader`]: the frame's own bytes under the bits that
//! the megaflows met so far have examined, which are few. It leads to a [`Target`], a megaflow's program in
//! one cache line with its own counts: the TTL lowered, Ethernet addresses set, forwarded or dropped.
//! All other packets (and megaflows that do more) go through the other tiers, from which the fast path learns.
//!
//! Why it is right: a packet with the masked header of another, under a header mask that covers all that a megaflow's mask
//! names agrees with that megaflow. Bits that are not the packet's (registers, recirculation) are zero
//! for all packets that just came in, and the port is compared. So nothing has to be known of the tables
//! here. Whatever else could make an entry wrong ends it: a wider header mask by the version in it, a removed megaflow by its
//! target, which says so until no entry leads there. After a change of the tables an entry asks its megaflow once: that is
//! right for these tables too if the journal says that no change since may concern it. So a change costs an entry that
//! it does not concern one question, and the others their entry. Packets without an entry pay a second look as long as
//! entries may be of older tables: until megaflows that were not met since the change are idle.
//!
//! The header mask starts anew with a change that concerns all packets ([`FastPath::keep_up`]), and when no megaflow has
//! a bit of it any more ([`FastPath::narrow`]).
//!
//! Where it does not pay, because there are more flows than it has room for, it steps aside: after a
//! window of [`WINDOW`] packets of which less than half were found, for [`ASIDE`] packets. So it costs
//! no more than a lookup in one of `ASIDE / WINDOW` packets whatever comes.
//!
//! A burst is looked up in one loop, made for the header mask at hand (`lookup`): look, sum up, compare, act. The
//! packets do not depend on each other, so the CPU works on several at once, and what is known of one
//! stays in registers. Where the header mask is empty, as for tables that examine nothing but the port, one lookup
//! does for the burst, and its frames are not read.
//!
//! Cost: a sum, a line for the entry and one for the target, which is shared by a megaflow's entries: 20 to
//! 30 cycles; `examples/forward.rs` measures it, all in. Memory: the entries double from 64 KiB to 4 MiB
//! as they get into one another's places. Threads: one worker's.

mod ahead;
mod lookup;

use crate::actions::execute::Disposition;
use crate::actions::program::Counted;
use crate::actions::simple::SimpleActions;
use crate::model::pipeline::Pipeline;
use lookup::{Entry, Find, OneByOne, Place, TakeOne, Target, Telling};
use std::ops::Range;
use weir_classifier::Handle;
use weir_dpdk::{BURST, Burst, Packet};
use weir_flow::{HeaderMask, Mask, MaskedHeader, Seed, places};
use weir_openflow::PortNo;
use weir_units::Nanos;

/// Entries at the start, and at most: powers of two.
const FEWEST: usize = 1 << 10;
const MOST: usize = 1 << 16;

/// Entries that do not fit a second-level cache: they are fetched for the burst before they are read.
const FAR: usize = 1 << 14;

/// Of so many entries one may be in another's place, where the CPU does not expect it, before there are
/// twice as many.
const CROWDED: usize = 64;

/// Packets after which it is judged whether it pays.
const WINDOW: u64 = 1 << 17;

/// Packets for which it steps aside.
const ASIDE: u64 = 1 << 22;

/// What became of a burst on the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Packets that have to go through the other tiers.
    pub(crate) left: u64,
    /// Where all others go, if that is one place.
    pub(crate) all: Option<Disposition>,
}

/// Packets for which it is left alone, where it is for good: more than ever come.
const CLOSED: u64 = u64::MAX;

/// One worker's fast path.
pub(crate) struct FastPath {
    seed: Seed,
    header_mask: HeaderMask,
    factors: MaskedHeader,
    version: u32,
    entries: Vec<Entry>,
    targets: Vec<Target>,
    /// The megaflow of each target.
    owners: Vec<Handle>,
    /// Targets without a megaflow: to which no entry leads, and to which one may.
    free: Vec<u32>,
    gone: Vec<u32>,
    crowded: usize,
    /// Packets of this window, and those of them that were found.
    seen: u64,
    found: u64,
    /// Packets for which it still steps aside.
    aside: u64,
    /// How often all entries were forgotten.
    restarts: u64,
}

impl FastPath {
    pub(crate) fn new(seed: Seed) -> Self {
        let mut entries = Vec::with_capacity(MOST);
        entries.resize(FEWEST, Entry::EMPTY);
        Self {
            seed,
            header_mask: HeaderMask::new(),
            factors: seed.factors(),
            version: 1,
            entries,
            targets: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
            gone: Vec::new(),
            crowded: 0,
            seen: 0,
            found: 0,
            aside: 0,
            restarts: 0,
        }
    }

    /// How packets of a port are told apart, at this version.
    #[inline]
    fn telling(&self, port: PortNo, generation: u64) -> Telling {
        let origin = u64::from(self.version) << 32 | u64::from(port.0);
        let start = self.seed.fold(u64::from(port.0), u64::from(self.version));
        Telling { masks: *self.header_mask.masks(), factors: self.factors, origin, generation, start }
    }

    /// Forgets what it learned: it is to see less from now on.
    fn forget(&mut self) {
        self.header_mask = HeaderMask::new();
        self.outdate();
    }

    /// Tables have changed since this generation. What a change concerns is found out by those whom it concerns; one that
    /// concerns all has them start anew, with a header mask for what the tables examine now.
    pub(crate) fn keep_up(&mut self, pipeline: &Pipeline, since: u64) {
        if pipeline.journal().is_of_all(since) {
            self.forget();
        }
    }

    /// Forgets what it learned if its header mask covers more than these masks, all that megaflows have, let it see: it
    /// gets wider by what it learns, and without this would stay so when the tables examine less.
    pub(super) fn narrow<'m>(&mut self, masks: impl Iterator<Item = &'m Mask>) {
        let wide = masks.fold(HeaderMask::new(), |wide, mask| wide.widened(mask).unwrap_or(wide));
        if !wide.covers_all_of(&self.header_mask) {
            self.forget();
        }
    }

    /// How often all entries were forgotten.
    pub(super) const fn restarts(&self) -> u64 {
        self.restarts
    }

    fn outdate(&mut self) {
        self.restarts += 1;
        self.crowded = 0;
        self.free.append(&mut self.gone);
        self.version = self.version.wrapping_add(1);
        if self.version == 0 {
            self.entries.fill(Entry::EMPTY);
            self.version = 1;
        }
    }

    /// It is asked for no burst any more.
    pub(super) fn close(&mut self) {
        self.aside = CLOSED;
    }

    /// Whether it is asked for this burst, and learns from it.
    #[inline]
    pub(crate) fn is_open(&mut self, packets: usize) -> bool {
        if self.aside == 0 {
            return true;
        }
        self.aside = self.aside.saturating_sub(packets as u64);
        if self.aside == 0 {
            self.forget();
        }
        false
    }

    /// Takes the packets it knows; `dispositions` says where they go. Where entries may be of older tables, `is_right`
    /// says of a megaflow whether it is right for these.
    #[inline]
    pub(crate) fn take(
        &mut self,
        burst: &mut Burst,
        port: PortNo,
        (now, generation): (Nanos, u64),
        dispositions: &mut [Disposition; BURST],
        is_right: Option<impl FnMut(Handle) -> bool>,
    ) -> Taken {
        let count = burst.len();
        if self.owners.len() == self.free.len() + self.gone.len() {
            return Taken { left: u64::MAX >> (u64::BITS as usize - count), all: None };
        }
        let telling = self.telling(port, generation);
        let whole = if self.header_mask.is_empty() { self.take_whole(burst, &telling, now) } else { None };
        let taken = whole.unwrap_or_else(|| {
            let Self { header_mask, entries, targets, .. } = self;
            header_mask.with(OneByOne { burst: &mut *burst, dispositions, telling, entries, targets, now })
        });
        let taken = match is_right.filter(|_| taken.left != 0) {
            Some(is_right) => self.take_stale(taken, burst, (&telling, now), dispositions, is_right),
            None => taken,
        };
        self.judge(count, taken.left);
        taken
    }

    /// Of packets that are left, takes those whose entry is of older tables, if its megaflow `is_right` for these too.
    #[cold]
    #[inline(never)]
    fn take_stale(
        &mut self,
        mut taken: Taken,
        burst: &mut Burst,
        (telling, now): (&Telling, Nanos),
        dispositions: &mut [Disposition; BURST],
        mut is_right: impl FnMut(Handle) -> bool,
    ) -> Taken {
        for at in places(taken.left) {
            let Some(packet) = burst.get_mut(at).filter(|packet| !packet.is_chained()) else { continue };
            let Some(header) = self.header_mask.read(packet.data()) else { continue };
            let own = self.header_mask.with(Place(telling, header)) & (self.entries.len() - 1);
            let slots = [own, own ^ 1];
            let is_it = |&slot: &usize| {
                let entry = &self.entries[slot];
                entry.origin == telling.origin && entry.header == header
            };
            let Some(slot) = slots.into_iter().find(is_it) else { continue };
            let Entry { generation, target, .. } = self.entries[slot];
            if generation != telling.generation {
                if !is_right(self.owners[target as usize]) {
                    continue;
                }
                self.entries[slot].generation = telling.generation;
            }
            let one = TakeOne { target: &mut self.targets[target as usize], packet, now };
            if let Some(end) = self.header_mask.with(one) {
                dispositions[at % BURST] = end.into();
                taken.left &= !(1 << at);
            }
        }
        taken
    }

    /// All packets look the same: so one lookup does.
    #[inline]
    fn take_whole(&mut self, burst: &Burst, telling: &Telling, now: Nanos) -> Option<Taken> {
        let number = self.header_mask.with(Find(telling, &self.entries, [0; 4]))?;
        let target = self.targets.get_mut(number as usize)?;
        let usual = |packet: &Packet| !packet.is_chained() && packet.len() >= HeaderMask::LEAST;
        if target.actions.changes() || !burst.iter().all(usual) {
            return None;
        }
        let bytes = burst.iter().map(|packet| packet.len() as u64).sum();
        target.count(burst.len() as u64, bytes, now);
        Some(Taken { left: 0, all: Some(target.actions.end().into()) })
    }

    #[inline]
    fn judge(&mut self, packets: usize, left: u64) {
        self.seen += packets as u64;
        self.found += packets as u64 - u64::from(left.count_ones());
        if self.seen >= WINDOW {
            if self.found < self.seen / 2 {
                self.aside = ASIDE;
            }
            (self.seen, self.found) = (0, 0);
        }
    }

    /// Learns from a packet that just came in by a port and whose megaflow has this mask and target; says
    /// whether it remembers it.
    pub(crate) fn learn(
        &mut self,
        packet: &Packet,
        (port, generation): (PortNo, u64),
        mask: &Mask,
        number: u32,
    ) -> bool {
        if packet.is_chained() {
            return false;
        }
        if !self.header_mask.covers(mask) {
            let Some(wider) = self.header_mask.widened(mask) else { return false };
            self.header_mask = wider;
            self.outdate();
        }
        let Some(target) = self.targets.get(number as usize) else { return false };
        if target.actions.lowers() && !self.header_mask.covers_ipv4() {
            return false;
        }
        let Some(header) = self.header_mask.fits(packet.data()) else { return false };
        let telling = self.telling(port, generation);
        let own = self.header_mask.with(Place(&telling, header)) & (self.entries.len() - 1);
        let entry = Entry { header, origin: telling.origin, generation, target: number };
        let is_same = |&slot: &usize| {
            let old = &self.entries[slot];
            old.origin == entry.origin && old.header == header
        };
        let is_free = |&slot: &usize| self.entries[slot].origin >> 32 != u64::from(self.version);
        let pair = [own, own ^ 1];
        let slot =
            pair.into_iter().find(is_same).or_else(|| pair.into_iter().find(is_free)).unwrap_or(own ^ 1);
        self.entries[slot] = entry;
        self.crowded += usize::from(slot != own);
        if self.crowded * CROWDED > self.entries.len() && self.entries.len() < MOST {
            let doubled = self.entries.len() * 2;
            self.entries.resize(doubled, Entry::EMPTY);
            self.outdate();
        }
        true
    }

    /// Makes a megaflow's target; nothing when there are enough.
    pub(crate) fn add(&mut self, owner: Handle, actions: SimpleActions) -> Option<u32> {
        if self.free.is_empty() && self.gone.len() > self.targets.len() / 2 {
            self.outdate();
        }
        if let Some(number) = self.free.pop() {
            self.targets[number as usize] = Target::new(actions);
            self.owners[number as usize] = owner;
            return Some(number);
        }
        (self.targets.len() < MOST).then(|| {
            self.targets.push(Target::new(actions));
            self.owners.push(owner);
            self.targets.len() as u32 - 1
        })
    }

    /// When a target was last used.
    pub(crate) fn used(&self, number: u32) -> Nanos {
        self.targets.get(number as usize).map_or(Nanos(0), |target| target.used)
    }

    /// Gives a target up, and says what it counted last.
    pub(crate) fn remove(&mut self, number: u32) -> (Counted, Nanos) {
        let Some(target) = self.targets.get_mut(number as usize) else { return Default::default() };
        target.actions.end_it();
        self.gone.push(number);
        target.collect()
    }

    /// How many targets there are.
    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// What these targets counted since the last call, with their megaflows.
    pub(crate) fn collect(&mut self, places: Range<usize>, mut each: impl FnMut(Handle, Counted, Nanos)) {
        let targets = self.targets.iter_mut().zip(&self.owners).skip(places.start).take(places.len());
        for (target, owner) in targets.filter(|(target, _)| target.counted.packets > 0) {
            let (counted, used) = target.collect();
            each(*owner, counted, used);
        }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.targets) + size_of_val(&*self.owners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weir_flow::Field;

    #[test]
    fn ports_whose_packets_look_alike_have_places_of_their_own() {
        let fast_path = FastPath::new(Seed::new(7));
        let place = |port: u32| {
            let telling = fast_path.telling(PortNo(port), 1);
            fast_path.header_mask.with(Place(&telling, [1, 2, 3, 4])) & (FEWEST - 1)
        };
        let places: HashSet<usize> = (1..=64).map(place).collect();
        assert!(places.len() > 52, "{} places for 64 ports", places.len());
    }

    /// A mask that names one field.
    fn mask(field: Field) -> Mask {
        let mut mask = Mask::new();
        field.examine(&mut mask, u128::MAX);
        mask
    }

    #[test]
    fn a_header_mask_that_covers_more_than_any_megaflow_examines_is_given_up() {
        let mut fast_path = FastPath::new(Seed::new(7));
        let [address, port, flags] = [Field::NwDst, Field::UdpDst, Field::TcpFlags].map(mask);
        for learnt in [&address, &port] {
            fast_path.header_mask =
                fast_path.header_mask.widened(learnt).expect("a header mask can cover it");
        }
        let wide = fast_path.header_mask.clone();
        // A megaflow that no header mask can cover changes nothing.
        fast_path.narrow([&port, &flags, &address].into_iter());
        assert_eq!((&fast_path.header_mask, fast_path.restarts()), (&wide, 0));
        fast_path.narrow([&address, &flags].into_iter());
        assert_eq!((&fast_path.header_mask, fast_path.restarts()), (&HeaderMask::new(), 1));
        fast_path.narrow(std::iter::empty());
        assert_eq!(fast_path.restarts(), 1, "it cannot be narrower");
    }
}
