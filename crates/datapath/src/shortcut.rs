//! A short way for packets whose megaflow does little: no key is extracted, and no megaflow touched.
//!
//! What: a cache in front of the others, keyed by a [`Glance`]: the frame's own bytes under the bits that
//! the megaflows met so far have examined, which are few. It leads to a [`Brief`], a megaflow's program in
//! one cache line with its own counts: the TTL lowered, Ethernet addresses set, forwarded or dropped.
//! All other packets (and megaflows that do more) go the long way, from which the short one learns.
//!
//! Why it is right: a packet that looks like another through a lens that sees all that a megaflow's mask
//! names agrees with that megaflow. Bits that are not the packet's (registers, recirculation) are zero
//! for all packets that just came in, and the port is compared. So nothing has to be known of the tables
//! here. Whatever else could make an entry wrong ends it: changed tables and a wider lens by the version
//! in it, a removed megaflow by the stamp of its brief.
//!
//! Where it does not pay, because there are more flows than it has room for, it steps aside: after a
//! window of [`WINDOW`] packets of which less than half were found, for [`ASIDE`] packets. So it costs
//! no more than a lookup in one of `ASIDE / WINDOW` packets whatever comes.
//!
//! A burst is looked up in passes, so that the memory of all its packets is on its way at once: look,
//! hash and fetch the entry; then compare and act. Where the lens is blind, as for tables that examine
//! nothing but the port, one lookup does for the burst, and its frames are not read.
//!
//! Cost: a keyed hash, a line for the entry and one for the brief, which is shared by a megaflow's
//! entries; `examples/forward.rs` measures it, all in. Memory: the entries double from 64 KiB to 2 MiB as
//! they crowd one another out. Threads: one worker's.

use crate::edit::{Addresses, dec_ttl_of_plain};
use crate::execute::Fate;
use crate::program::Op;
use weir_classifier::Handle;
use weir_dpdk::{BURST, Burst, Packet, prefetch};
use weir_flow::{Glance, Lens, Mask, Seed};
use weir_openflow::PortNo;
use weir_port::DropReason;
use weir_units::Nanos;

/// Entries at the start, and at most: powers of two.
const FEWEST: usize = 1 << 10;
const MOST: usize = 1 << 15;

/// Of so many entries one may be crowded out before there are twice as many.
const CROWDED: usize = 16;

/// Packets after which it is judged whether it pays.
const WINDOW: u64 = 1 << 17;

/// Packets for which it steps aside.
const ASIDE: u64 = 1 << 22;

/// The number of no brief.
const NONE: u32 = u32::MAX;

/// Where packets that look like this go.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry {
    glance: Glance,
    /// The version when it was learned in the upper half; in the lower the port.
    origin: u64,
    brief: u32,
    stamp: u32,
}

impl Entry {
    /// No packet has version 0.
    const EMPTY: Self = Self { glance: [0; 4], origin: 0, brief: NONE, stamp: 0 };

    #[inline(always)]
    fn is_of(&self, glance: &Glance, origin: u64) -> bool {
        let differs = self.glance.iter().zip(glance).fold(self.origin ^ origin, |all, (a, b)| all | (a ^ b));
        differs == 0
    }
}

/// What is done to a packet, if it is no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// Whether the packet is changed.
    changes: bool,
    dec_ttl: bool,
    addresses: Addresses,
    end: End,
}

/// Where a packet goes when that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Forward(u16),
    Drop(DropReason),
}

impl End {
    /// A number of its own.
    #[inline]
    fn number(self) -> u32 {
        match self {
            Self::Forward(port) => u32::from(port),
            Self::Drop(reason) => 1 << 16 | reason as u32,
        }
    }
}

impl From<End> for Fate {
    #[inline]
    fn from(end: End) -> Self {
        match end {
            End::Forward(port) => Self::Forward(port),
            End::Drop(reason) => Self::Drop(reason),
        }
    }
}

impl Deed {
    /// A segment's operations as a deed, if they are that little.
    pub(crate) fn of(ops: &[Op]) -> Option<Self> {
        let (last, before) = ops.split_last()?;
        let end = match last {
            Op::Forward(port) => End::Forward(*port),
            Op::Drop(reason) => End::Drop(*reason),
            _ => return None,
        };
        let mut deed = Self { changes: false, dec_ttl: false, addresses: Addresses::default(), end };
        for op in before {
            match op {
                Op::DecTtl(_) if !deed.dec_ttl => deed.dec_ttl = true,
                Op::Rewrite(rewrite) if deed.addresses == Addresses::default() => {
                    deed.addresses = rewrite.only_addresses()?;
                }
                _ => return None,
            }
        }
        deed.changes = deed.dec_ttl || deed.addresses != Addresses::default();
        Some(deed)
    }
}

/// A megaflow in brief: one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Brief {
    packets: u64,
    bytes: u64,
    used: Nanos,
    deed: Deed,
    /// How often this place was given up.
    stamp: u32,
    /// Whether it is listed as having counted something.
    dirty: bool,
}

/// What a brief counted since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) used: Nanos,
}

/// What became of a burst on the short way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Packets that have to go the long way.
    pub(crate) left: u64,
    /// Where all others go, if that is one place.
    pub(crate) all: Option<Fate>,
}

/// One worker's short way.
pub(crate) struct Shortcut {
    seed: Seed,
    lens: Lens,
    version: u32,
    entries: Vec<Entry>,
    briefs: Vec<Brief>,
    /// The megaflow of each brief.
    owners: Vec<Handle>,
    free: Vec<u32>,
    /// Briefs that counted something.
    dirty: Vec<u32>,
    crowded: usize,
    /// Packets of this window, and those of them that were found.
    seen: u64,
    found: u64,
    /// Packets for which it still steps aside.
    aside: u64,
    /// Of the burst at hand: what was seen of each packet, and where its entry may be.
    aims: [(Glance, usize); BURST],
}

/// Where a glance belongs, before that is cut to the number of entries.
#[inline(always)]
fn slot(seed: Seed, &[a, b, c, d]: &Glance, origin: u64) -> usize {
    (seed.fold(a, b) ^ seed.fold_with(c, d, 1) ^ origin) as usize
}

/// The brief that is known for packets that look like this, and its number.
#[inline(always)]
fn find<'b>(
    entries: &[Entry],
    briefs: &'b mut [Brief],
    glance: &Glance,
    slot: usize,
    origin: u64,
) -> Option<(u32, &'b mut Brief)> {
    // Both entries of a pair share what the adjacent-line prefetcher brings.
    let slot = slot & (entries.len() - 1);
    let mut entry = &entries[slot];
    if !entry.is_of(glance, origin) {
        entry = &entries[slot ^ 1];
        if !entry.is_of(glance, origin) {
            return None;
        }
    }
    let brief = briefs.get_mut(entry.brief as usize)?;
    (brief.stamp == entry.stamp).then_some((entry.brief, brief))
}

impl Shortcut {
    pub(crate) fn new(seed: Seed) -> Self {
        let mut entries = Vec::with_capacity(MOST);
        entries.resize(FEWEST, Entry::EMPTY);
        Self {
            seed,
            lens: Lens::new(),
            version: 1,
            entries,
            briefs: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            crowded: 0,
            seen: 0,
            found: 0,
            aside: 0,
            aims: [([0; 4], 0); BURST],
        }
    }

    /// What is told apart of packets of one port, at this version.
    #[inline]
    fn origin(&self, port: PortNo) -> u64 {
        u64::from(self.version) << 32 | u64::from(port.0)
    }

    #[inline]
    fn slot(&self, glance: &Glance, origin: u64) -> usize {
        slot(self.seed, glance, origin) & (self.entries.len() - 1)
    }

    /// Forgets what it learned: tables have changed, or it is to see less from now on.
    pub(crate) fn forget(&mut self) {
        self.lens = Lens::new();
        self.outdate();
    }

    fn outdate(&mut self) {
        self.crowded = 0;
        self.version = self.version.wrapping_add(1);
        if self.version == 0 {
            self.entries.fill(Entry::EMPTY);
            self.version = 1;
        }
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

    /// Takes the packets it knows; `fates` says where they go.
    #[inline]
    pub(crate) fn take(
        &mut self,
        burst: &mut Burst,
        port: PortNo,
        now: Nanos,
        fates: &mut [Fate; BURST],
    ) -> Taken {
        let (count, origin) = (burst.len(), self.origin(port));
        let all = u64::MAX >> (u64::BITS as usize - count);
        if self.owners.len() == self.free.len() {
            return Taken { left: all, all: None };
        }
        let whole = if self.lens.is_blind() { self.take_whole(burst, origin, now) } else { None };
        let taken = whole.unwrap_or_else(|| {
            let aimed = self.aim(burst, origin);
            self.hit(burst, aimed, (origin, now), fates)
        });
        self.judge(count, taken.left);
        taken
    }

    /// All packets look the same: so one lookup does.
    #[inline]
    fn take_whole(&mut self, burst: &mut Burst, origin: u64, now: Nanos) -> Option<Taken> {
        let slot = slot(self.seed, &[0; 4], origin);
        let (number, brief) = find(&self.entries, &mut self.briefs, &[0; 4], slot, origin)?;
        let usual = |packet: &Packet| !packet.is_chained() && self.lens.read(packet.data()).is_some();
        if brief.deed.changes || !burst.iter().all(usual) {
            return None;
        }
        let bytes = burst.iter().map(|packet| packet.len() as u64).sum();
        let end = brief.deed.end;
        if brief.count(burst.len() as u64, bytes, now) {
            self.dirty.push(number);
        }
        Some(Taken { left: 0, all: Some(end.into()) })
    }

    /// Looks at all packets, and has their entries fetched. Returns those that it could look at.
    #[inline]
    fn aim(&mut self, burst: &Burst, origin: u64) -> u64 {
        for packet in burst.iter() {
            packet.prefetch();
        }
        let Self { lens, seed, entries, aims, .. } = self;
        let (mut aimed, last) = (0, entries.len() - 1);
        let frames = burst.iter().map(|packet| if packet.is_chained() { &[] } else { packet.data() });
        lens.read_all(frames, |at, glance| {
            let Some(glance) = glance else { return };
            let slot = slot(*seed, &glance, origin) & last;
            prefetch(&entries[slot]);
            aims[at % BURST] = (glance, slot);
            aimed |= 1 << at;
        });
        aimed
    }

    /// Does to all packets that are known what is to be done to them.
    #[inline]
    fn hit(
        &mut self,
        burst: &mut Burst,
        aimed: u64,
        (origin, now): (u64, Nanos),
        fates: &mut [Fate; BURST],
    ) -> Taken {
        let Self { entries, aims, briefs, dirty, .. } = self;
        let (mut left, mut first, mut differs) = (0, None, 0);
        for (at, (packet, (fate, (glance, slot)))) in
            burst.iter_mut().zip(fates.iter_mut().zip(aims)).enumerate()
        {
            let found =
                if aimed >> at & 1 == 1 { find(entries, briefs, glance, *slot, origin) } else { None };
            let Some((number, brief)) = found else {
                left |= 1 << at;
                continue;
            };
            let deed = &brief.deed;
            if deed.changes {
                if deed.dec_ttl && !dec_ttl_of_plain(packet.data_mut()) {
                    left |= 1 << at;
                    continue;
                }
                deed.addresses.apply(packet.data_mut());
            }
            let end = deed.end;
            *fate = end.into();
            differs |= end.number() ^ first.get_or_insert(end).number();
            if brief.count(1, packet.len() as u64, now) {
                dirty.push(number);
            }
        }
        Taken { left, all: first.filter(|_| differs == 0).map(Fate::from) }
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

    /// Learns from a packet that just came in by a port and whose megaflow has this mask and brief.
    pub(crate) fn learn(&mut self, packet: &Packet, port: PortNo, mask: &Mask, number: u32) {
        if packet.is_chained() {
            return;
        }
        if !self.lens.sees(mask) {
            let Some(wider) = self.lens.widened(mask) else { return };
            self.lens = wider;
            self.outdate();
        }
        let Some(brief) = self.briefs.get(number as usize) else { return };
        let stamp = brief.stamp;
        if brief.deed.dec_ttl && !self.lens.sees_ipv4() {
            return;
        }
        let Some(glance) = self.lens.fits(packet.data()) else { return };
        let origin = self.origin(port);
        let slot = self.slot(&glance, origin);
        let live = |slot: usize| self.entries[slot].origin >> 32 == u64::from(self.version);
        let (slot, crowds) = match [slot, slot ^ 1].into_iter().find(|&slot| !live(slot)) {
            Some(free) => (free, false),
            None => (slot ^ 1, true),
        };
        self.entries[slot] = Entry { glance, origin, brief: number, stamp };
        self.crowded += usize::from(crowds);
        if self.crowded * CROWDED > self.entries.len() && self.entries.len() < MOST {
            let doubled = self.entries.len() * 2;
            self.entries.resize(doubled, Entry::EMPTY);
            self.outdate();
        }
    }

    /// Makes a megaflow's brief; nothing when there are enough.
    pub(crate) fn add(&mut self, owner: Handle, deed: Deed) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            let stamp = self.briefs[number as usize].stamp;
            self.briefs[number as usize] = Brief { stamp, ..Brief::new(deed) };
            self.owners[number as usize] = owner;
            return Some(number);
        }
        (self.briefs.len() < MOST).then(|| {
            self.briefs.push(Brief::new(deed));
            self.owners.push(owner);
            self.briefs.len() as u32 - 1
        })
    }

    /// When a brief was last used.
    pub(crate) fn used(&self, number: u32) -> Nanos {
        self.briefs.get(number as usize).map_or(Nanos(0), |brief| brief.used)
    }

    /// Gives a brief up, and says what it counted last.
    pub(crate) fn remove(&mut self, number: u32) -> Counted {
        let Some(brief) = self.briefs.get_mut(number as usize) else { return Counted::default() };
        brief.stamp = brief.stamp.wrapping_add(1);
        self.free.push(number);
        brief.collect()
    }

    /// What briefs counted since the last call, with their megaflows.
    pub(crate) fn collect(&mut self, mut each: impl FnMut(Handle, Counted)) {
        for number in self.dirty.drain(..) {
            let number = number as usize;
            if let (Some(brief), Some(&owner)) = (self.briefs.get_mut(number), self.owners.get(number)) {
                brief.dirty = false;
                each(owner, brief.collect());
            }
        }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.briefs) + size_of_val(&*self.owners)
    }
}

impl Brief {
    fn new(deed: Deed) -> Self {
        Self { packets: 0, bytes: 0, used: Nanos(0), deed, stamp: 0, dirty: false }
    }

    /// Counts packets, and returns whether it has to be listed for that.
    #[inline(always)]
    fn count(&mut self, packets: u64, bytes: u64, now: Nanos) -> bool {
        self.packets += packets;
        self.bytes += bytes;
        self.used = now;
        !std::mem::replace(&mut self.dirty, true)
    }

    /// What it counted; it starts anew.
    fn collect(&mut self) -> Counted {
        let counted = Counted { packets: self.packets, bytes: self.bytes, used: self.used };
        (self.packets, self.bytes) = (0, 0);
        counted
    }
}

const _: () = assert!(size_of::<Brief>() == 64, "a brief is one line");
