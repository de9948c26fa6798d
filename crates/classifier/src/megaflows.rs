//! The megaflow cache: what the tables said for whole regions of keys.
//!
//! What: entries of a masked key and a value, found by any key that agrees with them. Entries may
//! overlap only where it does not matter which is found: each was right for all its keys when it was
//! made, and the caller removes those that are no longer.
//!
//! Why: one probe instead of a walk through all tables. It is tuple space search without priorities:
//! a hash table for each mask, asked in the order of use ([`Megaflows::rank`]), and the first that
//! agrees ends it. So a lookup costs a probe a mask, and masks have a bound.
//!
//! The bound: each port and stage has masks of its own, which every entry's mask names. When one has
//! [`MASKS`], an entry of yet another mask takes its widest one, which names every bit that any of them
//! does. So a lookup costs at most [`crate::PROBES`] probes, whatever the traffic: tuple-space explosion
//! makes more entries, which have a bound as well, but no more masks. When the widest mask has to be
//! wider still, the old one is asked no more: its entries are right, are found by the exact-match cache
//! as before, and go when nobody uses them. Masks that are rounded up first ([`crate::quantise()`]) reach
//! the limit late.
//!
//! Places are names: an entry's [`Handle`] is its place and the place's generation. In an entry's one
//! line lie its generation, its mask's number and the six words of the key's head under the mask, so
//! that verifying that a key belongs to a place costs that line and nothing else: what nearly every mask
//! names behind the head, such as the number of a recirculation, is zero in nearly every packet, and a bit
//! says so. A place that is free has the mask that names nothing and a word that is never equal, so that even a handle made up of
//! whole cloth is found out by the comparison, without a branch for it.
//!
//! Capacity: fixed, and reserved at the start (untouched memory costs nothing). When it is full, the
//! clock's hand goes round, passes entries of ports that have no more than their share (`shares.rs`), spares
//! entries used since it last came by, but only so many at a time, and evicts the first that was not.
//!
//! Cost: a burst of misses shares the latency of memory: for each mask all outstanding keys are hashed
//! and their slots fetched, then all candidates' lines are fetched, then compared. Inserting may grow a
//! mask's table (amortised; some 10 ms at a million entries of one mask); nothing else allocates but a
//! new mask, and entries that have something behind the head.
//! Threads: one worker's.

mod change;

use weir_cpu::{prefer_huge_pages, prefetch, prefetch_whole};
use weir_flow::{HEAD, Key, Mask, Seed, places};

use crate::groups::{Groups, MASKS};
use crate::handle::Handle;
use crate::shares::Shares;
use crate::subtable::{Cut, Subtable};

/// Keys that are looked up together, at most.
pub const LOOKUP_BURST: usize = 64;

/// The number of the mask that names nothing, that free places have.
const NOTHING: u32 = 0;

/// Set in an entry's mask number when it was used since the clock's hand last came by.
const USED: u32 = 1 << 31;

/// Set in an entry's mask number when all that its mask names behind the head is zero, as in nearly all packets.
const BARE: u32 = 1 << 30;

/// Entries that the clock's hand spares for one that it evicts, at most: so that making room takes
/// bounded time even when all entries are in use.
const SPARED: u32 = 64;

/// Entries that the clock's hand passes for one that it evicts, at most, whoever they are of: where those that
/// have to make room are so rare, the last that it passed goes.
const PASSED: u32 = 256;

/// What verifying an entry needs: one line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Line {
    generation: u32,
    /// The mask's number, [`USED`] and [`BARE`].
    mask: u32,
    /// Under the mask.
    head: [u64; HEAD],
    /// Under the mask, of the whole key.
    hash: u64,
}

impl Line {
    fn free(generation: u32) -> Self {
        // The mask names no bit: a key under it has no bit set, and does not equal this.
        Self { generation, mask: NOTHING, head: [1; HEAD], hash: 0 }
    }

    #[inline]
    fn number(&self) -> usize {
        (self.mask & !(USED | BARE)) as usize
    }

    /// The port whose packets it is for, which every mask names.
    fn port(&self) -> u32 {
        let mut key = Key::new();
        key.set_head(self.head);
        Shares::port_of(&key)
    }

    #[inline]
    fn is_bare(&self) -> bool {
        self.mask & BARE != 0
    }
}

/// What an insertion did.
#[derive(Debug, PartialEq, Eq)]
pub struct Inserted<T> {
    /// The entry.
    pub handle: Handle,
    /// The value that was there under the same mask and masked key: it had the same handle.
    pub replaced: Option<T>,
    /// The entry that had to go to make room.
    pub evicted: Option<Evicted<T>>,
}

/// An entry that had to go to make room.
#[derive(Debug, PartialEq, Eq)]
pub struct Evicted<T> {
    /// What it was called.
    pub handle: Handle,
    /// Its value.
    pub value: T,
    /// The number of the port whose packets it was for.
    pub port: u32,
}

/// The megaflows of one worker.
#[derive(Debug)]
pub struct Megaflows<T> {
    seed: Seed,
    capacity: usize,
    lines: Vec<Line>,
    values: Vec<Option<T>>,
    /// Words behind the key's head that the mask names, under it: of entries that are not [`BARE`].
    rests: Vec<Box<[u64]>>,
    /// How many words those are together.
    rest_words: usize,
    free: Vec<u32>,
    /// By number; the first names nothing and holds nothing.
    masks: Vec<Subtable>,
    /// Numbers of masks without entries.
    spare: Vec<u32>,
    /// Numbers of masks with entries, by port and stage, in the order they are asked.
    groups: Groups,
    /// Entries by port.
    shares: Shares,
    /// The clock's hand.
    hand: usize,
    len: usize,
}

impl<T> Megaflows<T> {
    /// An empty cache that holds up to `capacity` entries, at least 1, for each of which it reserves
    /// one line and its value.
    pub fn new(seed: Seed, capacity: usize) -> Self {
        let capacity = capacity.clamp(1, USED as usize - 1);
        let (mut lines, mut values) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        prefer_huge_pages(lines.spare_capacity_mut());
        prefer_huge_pages(values.spare_capacity_mut());
        Self {
            seed,
            capacity,
            lines,
            values,
            rests: Vec::with_capacity(capacity),
            rest_words: 0,
            free: Vec::new(),
            masks: vec![Subtable::new(Mask::new())],
            spare: Vec::new(),
            groups: Groups::default(),
            shares: Shares::default(),
            hand: 0,
            len: 0,
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The masks that are asked, a port and stage after the other and in the order they are asked there,
    /// with the number of entries of each.
    pub fn masks(&self) -> impl Iterator<Item = (&Mask, usize)> {
        self.groups.iter().flat_map(|group| &group.order).map(|&number| {
            let table = &self.masks[number as usize];
            (&table.mask, table.len)
        })
    }

    /// Ports that have entries, each with how many: by number, rising.
    pub fn ports(&self) -> impl Iterator<Item = (u32, usize)> {
        self.shares.iter()
    }

    /// The most masks that any port and stage has: so many probes a lookup costs at most now.
    pub fn most_masks(&self) -> usize {
        self.groups.iter().map(|group| group.order.len()).max().unwrap_or(0)
    }

    /// Bytes in use, without what values point to; what is reserved is not counted.
    pub fn memory(&self) -> usize {
        let lines = size_of_val(&*self.lines);
        let values = size_of_val(&*self.values);
        let rests = size_of_val(&*self.rests) + self.rest_words * size_of::<u64>();
        lines + values + rests + self.masks.iter().map(Subtable::memory).sum::<usize>()
    }

    /// Whether the entry at a place is one of this key, whatever its generation.
    #[inline(always)]
    fn is_of(&self, index: u32, key: &Key) -> Option<&Line> {
        let line = self.lines.get(index as usize)?;
        let cut = &self.masks.get(line.number())?.cut;
        let head = cut.head_of(key);
        let differs = head.iter().zip(&line.head).fold(0, |differs, (a, b)| differs | (a ^ b));
        let rest_is = || {
            if key.present() & cut.behind == 0 { line.is_bare() } else { self.rest_is(cut, index, key) }
        };
        (differs == 0 && rest_is()).then_some(line)
    }

    #[inline(never)]
    fn rest_is(&self, cut: &Cut, index: u32, key: &Key) -> bool {
        if self.lines[index as usize].is_bare() {
            return cut.rest_of(key).all(|word| word == 0);
        }
        cut.rest_of(key).eq(self.rests[index as usize].iter().copied())
    }

    /// Asks the CPU for what [`Megaflows::verify`] reads of a place.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(line) = self.lines.get(index as usize) {
            prefetch(line);
        }
    }

    /// Asks the CPU for the front of the value at a place.
    #[inline]
    pub(crate) fn prefetch_value(&self, index: u32) {
        if let Some(value) = self.values.get(index as usize) {
            prefetch(value);
        }
    }

    /// Asks the CPU for all that [`Megaflows::get_mut`] reads of an entry, the whole value included.
    #[inline]
    pub fn prefetch_entry(&self, handle: Handle) {
        let at = handle.index as usize;
        if let (Some(line), Some(value)) = (self.lines.get(at), self.values.get(at)) {
            prefetch(line);
            prefetch_whole(value);
        }
    }

    /// The handle of the entry at a place, if it is one of this key: it counts as used.
    #[inline(always)]
    pub(crate) fn verify(&mut self, index: u32, key: &Key) -> Option<Handle> {
        let line = self.is_of(index, key)?;
        let (generation, used) = (line.generation, line.mask & USED != 0);
        if !used {
            self.lines[index as usize].mask |= USED;
        }
        Some(Handle { index, generation })
    }

    /// Whether the entry of this name is there, and one of this key. A stale handle is not, nor one
    /// of any other origin that does not name an entry of this key.
    #[inline]
    pub fn agrees(&self, handle: Handle, key: &Key) -> bool {
        self.is_of(handle.index, key).is_some_and(|line| line.generation == handle.generation)
    }

    /// Verifies the names that somebody else found for those of up to [`LOOKUP_BURST`] keys that `wanted`
    /// names: a bit set in the result is a key of the entry that its handle names, which counts as used.
    ///
    /// # Panics
    ///
    /// When `wanted` names a key or handle that is not there.
    pub fn confirm_burst(&mut self, keys: &[Key], wanted: u64, handles: &[Handle]) -> u64 {
        for i in places(wanted) {
            self.prefetch(handles[i].index);
        }
        let mut confirmed = 0;
        for i in places(wanted) {
            if self.agrees(handles[i], &keys[i]) {
                self.lines[handles[i].index as usize].mask |= USED;
                confirmed |= 1 << i;
            }
        }
        confirmed
    }

    fn line(&self, handle: Handle) -> Option<&Line> {
        let is = |line: &&Line| line.generation == handle.generation && line.number() != 0;
        self.lines.get(handle.index as usize).filter(is)
    }

    /// An entry's value.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.line(handle)?;
        self.values[handle.index as usize].as_ref()
    }

    /// The same to change it.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.line(handle)?;
        self.values[handle.index as usize].as_mut()
    }

    /// Counts an entry as used, as finding it does.
    pub fn touch(&mut self, handle: Handle) {
        if self.line(handle).is_some() {
            self.lines[handle.index as usize].mask |= USED;
        }
    }

    /// An entry's mask.
    pub fn mask(&self, handle: Handle) -> Option<&Mask> {
        Some(&self.masks[self.line(handle)?.number()].mask)
    }

    /// An entry's key: zero outside its mask.
    pub fn key(&self, handle: Handle) -> Option<Key> {
        let line = self.line(handle)?;
        let mut key = Key::new();
        key.set_head(line.head);
        let rest = &self.rests[handle.index as usize];
        for (&(place, _), &word) in self.masks[line.number()].cut.rest.iter().zip(rest) {
            key.set_word(usize::from(place), word);
        }
        Some(key)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.lines.iter().zip(&self.values).enumerate().filter_map(|(index, (line, value))| {
            let handle = Handle { index: index as u32, generation: line.generation };
            Some((handle, value.as_ref()?))
        })
    }

    /// Places that entries are in, or were: what walks the cache a piece at a time, while it changes, looks
    /// at so many.
    pub fn places(&self) -> usize {
        self.lines.len()
    }

    /// The entry at a place, if there is one.
    pub fn at(&self, place: usize) -> Option<Handle> {
        let line = self.lines.get(place).filter(|line| line.number() != NOTHING as usize)?;
        Some(Handle { index: place as u32, generation: line.generation })
    }

    /// The entry that a key agrees with. It counts as used.
    pub fn find(&mut self, key: &Key) -> Option<Handle> {
        let mut found = [Handle::NONE];
        (self.find_burst(std::slice::from_ref(key), 1, &mut found).0 != 0).then_some(found[0])
    }

    /// Looks up those of up to [`LOOKUP_BURST`] keys that `wanted` names: a bit set in the result is a
    /// key whose entry is in `found`. Entries found count as used. The second figure is how many probes
    /// it took.
    ///
    /// # Panics
    ///
    /// When `wanted` names a key that is not there, or one for which `found` has no room.
    pub fn find_burst(&mut self, keys: &[Key], wanted: u64, found: &mut [Handle]) -> (u64, u64) {
        let (mut left, mut hits, mut probes) = (wanted, 0, 0);
        while left != 0 {
            let group = Groups::of(&keys[left.trailing_zeros() as usize]);
            let is = |&at: &usize| Groups::of(&keys[at]) == group;
            let together = places(left).filter(is).fold(0, |set, at| set | 1 << at);
            left &= !together;
            if let Some(group) = self.groups.place(group) {
                let (hit, more) = self.find_together(group, keys, together, found);
                hits |= hit;
                probes += more;
            }
        }
        (hits, probes)
    }

    /// The same for keys of one port and stage.
    fn find_together(&mut self, group: usize, keys: &[Key], wanted: u64, found: &mut [Handle]) -> (u64, u64) {
        let (mut left, mut probes) = (wanted, 0);
        let mut hashes = [0; LOOKUP_BURST];
        for at in 0..self.groups[group].order.len() {
            if left == 0 {
                break;
            }
            let number = self.groups[group].order[at] as usize;
            let table = &self.masks[number];
            probes += u64::from(left.count_ones());
            for i in places(left) {
                hashes[i] = table.cut.hash(self.seed, &keys[i]);
                table.prefetch(hashes[i]);
            }
            // Most probes end at a slot that is empty, which nothing could predict: so no branch.
            let mut likely = 0;
            for i in places(left) {
                let slot = table.home(hashes[i]);
                likely |= u64::from(slot != 0) << i;
                self.prefetch((slot as u32).wrapping_sub(1));
            }
            let before = left;
            for i in places(likely) {
                let table = &self.masks[number];
                let is = |&(_, index): &(usize, u32)| self.is_of(index, &keys[i]).is_some();
                if let Some((_, index)) = table.candidates(hashes[i]).find(is) {
                    let line = &mut self.lines[index as usize];
                    line.mask |= USED;
                    found[i] = Handle { index, generation: line.generation };
                    left &= !(1 << i);
                }
            }
            self.masks[number].hits += u64::from((before ^ left).count_ones());
        }
        (wanted & !left, probes)
    }

    /// Puts the masks that are hit most first, and halves what counts for the next time.
    pub fn rank(&mut self) {
        let masks = &mut self.masks;
        for group in self.groups.iter_mut() {
            group.order.sort_by_key(|&number| std::cmp::Reverse(masks[number as usize].hits));
            for &number in &group.order {
                masks[number as usize].hits /= 2;
            }
        }
    }
}
