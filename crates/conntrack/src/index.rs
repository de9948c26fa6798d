//! From a hash to the places of entries that may have it: linear hashing over cache lines.
//!
//! Why: the index must grow from a thousand connections to millions without a pause and without
//! copying. Linear hashing (Litwin, VLDB 1980) splits one bucket at a time, so that an insertion costs
//! at most one split; memory for the largest size is reserved when the index is built and not touched
//! until it is needed, so nothing is allocated later.
//!
//! A bucket is one cache line: seven 32-bit hashes, seven places, how many there are, and the number of
//! an overflow bucket. With at most [`LOAD`] entries a bucket on average, about one lookup in forty
//! meets a second line. Hashes are keyed, so nobody outside can choose which bucket overflows.
//!
//! It never shrinks. Threads: none; it belongs to one worker.

use weir_cpu::{equal_words, prefetch};

/// Slots in a bucket.
const SLOTS: usize = 7;

/// Entries a bucket on average, above which one is split.
const LOAD: usize = 3;

/// Buckets it starts with.
const FIRST: usize = 256;

/// No bucket.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// Hashes; behind them, so that all are compared at once, how many there are.
    hashes: [u32; SLOTS + 1],
    places: [u32; SLOTS],
    next: u32,
}

const EMPTY: Bucket = Bucket { hashes: [0; SLOTS + 1], places: [0; SLOTS], next: NONE };

impl Bucket {
    #[inline]
    const fn used(&self) -> usize {
        self.hashes[SLOTS] as usize
    }

    /// Bit n set: slot n is used and has this hash.
    #[inline(always)]
    fn matches(&self, hash: u32) -> u32 {
        equal_words(&self.hashes, hash) & ((1 << self.used()) - 1)
    }

    fn add(&mut self, hash: u32, place: u32) -> bool {
        let at = self.used();
        if at == SLOTS {
            return false;
        }
        (self.hashes[at], self.places[at]) = (hash, place);
        self.hashes[SLOTS] += 1;
        true
    }

    fn take(&mut self, at: usize) -> (u32, u32) {
        let taken = (self.hashes[at], self.places[at]);
        self.hashes[SLOTS] -= 1;
        let last = self.used();
        (self.hashes[at], self.places[at]) = (self.hashes[last], self.places[last]);
        taken
    }
}

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Vec<Bucket>,
    /// Buckets behind full ones; those that are free are chained by `next` from `free`.
    overflow: Vec<Bucket>,
    free: u32,
    /// Overflow buckets that are free or may still be made.
    spare: usize,
    /// One less than a power of two, the smallest that is not below the last bucket's number.
    mask: usize,
    entries: usize,
}

impl Index {
    /// An index for as many entries, at most. With `prefault`, all memory is taken now.
    pub(super) fn new(entries: usize, prefault: bool) -> Self {
        let most = (entries / LOAD + 1).max(FIRST);
        let mut buckets = Vec::with_capacity(most);
        buckets.resize(FIRST, EMPTY);
        super::memory::reserve(&mut buckets, EMPTY, prefault);
        let spare = most / 4 + SLOTS * SLOTS;
        Self { buckets, overflow: Vec::with_capacity(spare), free: NONE, spare, mask: FIRST - 1, entries: 0 }
    }

    /// Bytes in use.
    pub(super) fn memory(&self) -> usize {
        (self.buckets.len() + self.overflow.len()) * size_of::<Bucket>()
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        let at = hash as usize & self.mask;
        if at < self.buckets.len() { at } else { at & (self.mask >> 1) }
    }

    /// Has the hash's cache line fetched.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets[self.home(hash)]);
    }

    /// The first place under this hash that the caller accepts.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, mut accepts: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut bucket = &self.buckets[self.home(hash)];
        loop {
            let mut same = bucket.matches(hash);
            while same != 0 {
                let place = bucket.places[same.trailing_zeros() as usize];
                if accepts(place) {
                    return Some(place);
                }
                same &= same - 1;
            }
            if bucket.next == NONE {
                return None;
            }
            bucket = &self.overflow[bucket.next as usize];
        }
    }

    /// Adds a place under a hash. False where there is no room.
    pub(super) fn insert(&mut self, hash: u32, place: u32) -> bool {
        if self.entries >= self.buckets.len() * LOAD && self.buckets.len() < self.buckets.capacity() {
            self.split();
        }
        let added = self.append(self.home(hash), hash, place);
        self.entries += usize::from(added);
        added
    }

    /// Takes a place from under a hash.
    pub(super) fn remove(&mut self, hash: u32, place: u32) -> bool {
        let home = self.home(hash);
        let (mut before, mut link) = (NONE, NONE);
        loop {
            let bucket = self.bucket(home, link);
            let at = (0..bucket.used()).find(|&at| bucket.hashes[at] == hash && bucket.places[at] == place);
            if let Some(at) = at {
                bucket.take(at);
                if bucket.used() == 0 && link != NONE {
                    self.unlink(home, before, link);
                }
                self.entries -= 1;
                return true;
            }
            if bucket.next == NONE {
                return false;
            }
            (before, link) = (link, bucket.next);
        }
    }

    /// The overflow bucket of this number, or else the home bucket.
    fn bucket(&mut self, home: usize, link: u32) -> &mut Bucket {
        if link == NONE { &mut self.buckets[home] } else { &mut self.overflow[link as usize] }
    }

    /// Adds to the chain that starts at this bucket.
    fn append(&mut self, home: usize, hash: u32, place: u32) -> bool {
        let mut link = NONE;
        loop {
            let bucket = self.bucket(home, link);
            if bucket.add(hash, place) {
                return true;
            }
            if bucket.next == NONE {
                break;
            }
            link = bucket.next;
        }
        let Some(fresh) = self.fresh() else { return false };
        self.overflow[fresh as usize].add(hash, place);
        self.bucket(home, link).next = fresh;
        true
    }

    /// An empty overflow bucket.
    fn fresh(&mut self) -> Option<u32> {
        self.spare = self.spare.checked_sub(1)?;
        if self.free != NONE {
            let number = self.free;
            self.free = std::mem::replace(&mut self.overflow[number as usize], EMPTY).next;
            return Some(number);
        }
        self.overflow.push(EMPTY);
        Some(self.overflow.len() as u32 - 1)
    }

    /// Gives an empty overflow bucket back.
    fn unlink(&mut self, home: usize, before: u32, link: u32) {
        let next = std::mem::replace(&mut self.overflow[link as usize].next, self.free);
        self.free = link;
        self.spare += 1;
        self.bucket(home, before).next = next;
    }

    /// Overflow buckets of a chain.
    fn chain(&self, home: usize) -> usize {
        let mut next = self.buckets[home].next;
        std::iter::from_fn(|| {
            let link = (next != NONE).then_some(next)?;
            next = self.overflow[link as usize].next;
            Some(())
        })
        .count()
    }

    /// Moves the part of one bucket that belongs to a new one there. Put off where the overflow buckets
    /// might not suffice for both.
    fn split(&mut self) {
        let fresh = self.buckets.len();
        let mask = if fresh > self.mask { self.mask * 2 + 1 } else { self.mask };
        let home = fresh & (mask >> 1);
        if self.chain(home) > self.spare {
            return;
        }
        self.buckets.push(EMPTY);
        self.mask = mask;
        let (mut before, mut link) = (NONE, NONE);
        loop {
            let mut at = 0;
            while at < self.bucket(home, link).used() {
                let bucket = self.bucket(home, link);
                if bucket.hashes[at] as usize & mask != fresh {
                    at += 1;
                    continue;
                }
                let (hash, place) = bucket.take(at);
                let added = self.append(fresh, hash, place);
                debug_assert!(added, "there are overflow buckets for a chain as long as the old one");
            }
            let next = self.bucket(home, link).next;
            if link != NONE && self.bucket(home, link).used() == 0 {
                self.unlink(home, before, link);
            } else {
                before = link;
            }
            if next == NONE {
                return;
            }
            link = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn what_was_inserted_and_not_removed_is_found(
            steps in proptest::collection::vec((any::<bool>(), any::<u16>(), 0_u32..4), 1..6000),
            spread in 0_u32..16,
        ) {
            let mut index = Index::new(4000, false);
            let mut oracle: HashMap<(u32, u32), ()> = HashMap::new();
            for (insert, number, place) in steps {
                // Few distinct hashes make long chains.
                let hash = (u32::from(number) & ((1 << spread) - 1)).wrapping_mul(0x9e37_79b1);
                if insert && !oracle.contains_key(&(hash, place)) {
                    if index.insert(hash, place) {
                        oracle.insert((hash, place), ());
                    }
                } else if !insert {
                    prop_assert_eq!(index.remove(hash, place), oracle.remove(&(hash, place)).is_some());
                }
            }
            for &(hash, place) in oracle.keys() {
                prop_assert_eq!(index.find(hash, |found| found == place), Some(place));
            }
            prop_assert_eq!(index.entries, oracle.len());
            for (hash, place) in oracle.into_keys() {
                prop_assert!(index.remove(hash, place));
            }
            prop_assert_eq!(index.entries, 0);
            prop_assert!(index.buckets.iter().all(|bucket| bucket.used() == 0 && bucket.next == NONE));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn it_grows_to_its_size_without_moving_in_memory() {
        let mut index = Index::new(300_000, true);
        let (buckets, overflow) = (index.buckets.as_ptr(), index.overflow.as_ptr());
        for place in 0..300_000_u32 {
            assert!(index.insert(place.wrapping_mul(0x9e37_79b1).rotate_left(7), place));
        }
        assert_eq!((index.buckets.as_ptr(), index.overflow.as_ptr()), (buckets, overflow));
        for place in 0..300_000_u32 {
            let hash = place.wrapping_mul(0x9e37_79b1).rotate_left(7);
            assert_eq!(index.find(hash, |found| found == place), Some(place));
        }
    }
}
