//! Both caches before the tables: the hot loop of the switch.
//!
//! A burst is looked up in passes, so that the memory of all its packets is on its way at once:
//! hash every key and fetch its bucket; take each bucket's candidate and fetch its megaflow's line and
//! value; compare. What is left goes to the megaflow cache as one burst, and what that finds is remembered in
//! the exact-match cache. A packet that is found at once costs a hash and two lines that were fetched
//! ahead, whatever the number of masks; one that is not costs at most a probe a mask more.
//!
//! Packets often come in runs, several of one flow right behind one another. Those have one lookup, where bursts have
//! been such lately.
//!
//! Cost: `examples/lookup.rs` measures it. Threads: one worker's.

use weir_flow::{Key, Mask, Seed, places};

use crate::exact::Exact;
use crate::handle::Handle;
use crate::megaflows::{Inserted, LOOKUP_BURST, Megaflows};

/// Bursts that are taken as they come after one that had no runs: looking for them costs a
/// seventh of a lookup.
const APART: u32 = 31;

/// What a burst's lookup worked out, by the keys' places in the burst.
#[derive(Clone, Debug)]
pub struct Found {
    /// Each key's hash.
    pub hashes: [u64; LOOKUP_BURST],
    /// The megaflow of each key that was found; of others, nothing that means anything.
    pub handles: [Handle; LOOKUP_BURST],
    /// Whether half of the last burst's packets, or more, came right behind another of their flow.
    pub runs: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self { hashes: [0; LOOKUP_BURST], handles: [Handle::NONE; LOOKUP_BURST], runs: false }
    }
}

/// What became of lookups since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Found by the exact-match cache.
    pub exact: u64,
    /// Of these, right behind another key that was the same, whose answer they took.
    pub repeated: u64,
    /// Found by the megaflow cache.
    pub megaflow: u64,
    /// Found by neither.
    pub missed: u64,
    /// Probes of masks' tables for all that the exact-match cache did not find.
    pub probes: u64,
}

/// The two caches of one worker.
#[derive(Debug)]
pub struct Caches<T> {
    seed: Seed,
    exact: Exact,
    megaflows: Megaflows<T>,
    counts: LookupCounts,
    /// Bursts for which runs are not looked for.
    apart: u32,
    /// Whether the exact-match cache remembers anything; asked once a burst.
    remembers: bool,
}

impl<T> Caches<T> {
    /// Empty caches: up to `megaflows` entries, and up to `buckets` exact-match buckets (see
    /// [`crate::EXACT_BUCKETS`]).
    pub fn new(seed: Seed, megaflows: usize, buckets: usize) -> Self {
        let (exact, megaflows) = (Exact::new(buckets), Megaflows::new(seed, megaflows));
        Self { seed, exact, megaflows, counts: LookupCounts::default(), apart: 0, remembers: true }
    }

    /// The same with an exact-match cache that never knows anything.
    #[must_use]
    pub fn without_exact(self) -> Self {
        Self { remembers: false, ..self }
    }

    /// Looks up those of up to [`LOOKUP_BURST`] keys that `wanted` names. A bit set in the result is a
    /// key whose megaflow is in `found`.
    ///
    /// # Panics
    ///
    /// When `wanted` names a key that is not there.
    pub fn lookup_burst(&mut self, keys: &[Key], wanted: u64, found: &mut Found) -> u64 {
        let hit = self.lookup_known(keys, wanted, found);
        if hit == wanted { hit } else { hit | self.lookup_missed(keys, wanted & !hit, found) }
    }

    /// The same by the exact-match cache alone, which costs the same whatever the number of masks. What
    /// it does not find, [`Caches::lookup_missed`] may.
    pub fn lookup_known(&mut self, keys: &[Key], wanted: u64, found: &mut Found) -> u64 {
        if !self.remembers {
            found.runs = false;
            places(wanted).for_each(|i| found.hashes[i] = keys[i].hash(self.seed));
            return 0;
        }
        let hit = if self.apart == 0 {
            self.lookup_runs(keys, wanted, found)
        } else {
            (self.apart, found.runs) = (self.apart - 1, false);
            self.lookup_each(keys, wanted, found)
        };
        self.counts.exact += u64::from(hit.count_ones());
        hit
    }

    /// Of packets of one flow right behind one another, the first is looked up.
    fn lookup_runs(&mut self, keys: &[Key], wanted: u64, found: &mut Found) -> u64 {
        let (mut trailing, mut before) = (0_u64, None);
        for i in places(wanted) {
            trailing |= u64::from(before.is_some_and(|before: usize| keys[i].repeats(&keys[before]))) << i;
            before = Some(i);
        }
        found.runs = trailing != 0 && trailing.count_ones() * 2 >= wanted.count_ones();
        if !found.runs {
            self.apart = APART;
        }
        let mut hit = self.lookup_each(keys, wanted & !trailing, found);
        let mut first = 0;
        for i in places(wanted) {
            if trailing >> i & 1 == 0 {
                first = i;
            } else {
                (found.hashes[i], found.handles[i]) = (found.hashes[first], found.handles[first]);
                hit |= (hit >> first & 1) << i;
            }
        }
        self.counts.repeated += u64::from((hit & trailing).count_ones());
        hit
    }

    /// Each packet by itself.
    fn lookup_each(&mut self, keys: &[Key], wanted: u64, found: &mut Found) -> u64 {
        let count = wanted.trailing_ones() as usize;
        // Nearly always all of a burst are wanted, and counting is cheaper than picking bits.
        if wanted == u64::MAX.checked_shr(64 - count as u32).unwrap_or(0) {
            let keys = &keys[..count];
            self.lookup_exact(keys, || 0..keys.len().min(LOOKUP_BURST), found)
        } else {
            self.lookup_exact(keys, || places(wanted), found)
        }
    }

    /// The exact-match cache's turn, verified.
    #[inline(always)]
    fn lookup_exact<I: Iterator<Item = usize>>(
        &mut self,
        keys: &[Key],
        wanted: impl Fn() -> I,
        found: &mut Found,
    ) -> u64 {
        for i in wanted() {
            let hash = keys[i].hash(self.seed);
            found.hashes[i] = hash;
            self.exact.prefetch(hash);
        }
        for i in wanted() {
            let index = self.exact.get(found.hashes[i]).unwrap_or(Handle::NONE.index);
            self.megaflows.prefetch(index);
            self.megaflows.prefetch_value(index);
            found.handles[i].index = index;
        }
        let mut hit = 0;
        for i in wanted() {
            if let Some(handle) = self.megaflows.verify(found.handles[i].index, &keys[i]) {
                found.handles[i] = handle;
                hit |= 1 << i;
            }
        }
        hit
    }

    /// The megaflow cache's turn, for what the exact-match cache did not find.
    pub fn lookup_missed(&mut self, keys: &[Key], wanted: u64, found: &mut Found) -> u64 {
        let (hit, probes) = self.megaflows.find_burst(keys, wanted, &mut found.handles);
        if self.remembers {
            places(hit).for_each(|i| self.exact.insert(found.hashes[i], found.handles[i].index));
        }
        self.counts.megaflow += u64::from(hit.count_ones());
        self.counts.missed += u64::from((wanted & !hit).count_ones());
        self.counts.probes += probes;
        hit
    }

    /// Adds a megaflow, and remembers it for this key: see [`Megaflows::insert`].
    pub fn insert(&mut self, key: &Key, mask: &Mask, value: T) -> Inserted<T> {
        let inserted = self.megaflows.insert(key, mask, value);
        if self.remembers {
            self.exact.insert(key.hash(self.seed), inserted.handle.index);
        }
        inserted
    }

    /// The megaflows.
    #[inline]
    pub fn megaflows(&self) -> &Megaflows<T> {
        &self.megaflows
    }

    /// The megaflows, to change them. The exact-match cache need not be told.
    #[inline]
    pub fn megaflows_mut(&mut self) -> &mut Megaflows<T> {
        &mut self.megaflows
    }

    /// The exact-match cache.
    pub fn exact(&self) -> &Exact {
        &self.exact
    }

    /// What became of lookups since the start.
    pub fn counts(&self) -> LookupCounts {
        self.counts
    }

    /// Takes all megaflows out and forgets all keys.
    pub fn clear(&mut self) {
        self.exact.clear();
        self.megaflows.clear();
    }

    /// Bytes in use, without what values point to.
    pub fn memory(&self) -> usize {
        self.exact.memory() + self.megaflows.memory()
    }
}
