//! A persistent hash table: a clone costs one pointer a shard, and a change copies one shard.
//!
//! A control thread changes its tables while workers read the state before. Copying a table of a
//! million entries for each change would take milliseconds; locking it would stop workers. So a table
//! is cut into about as many shards as a shard has entries (√n of √n, times a constant): changing a
//! clone copies the list of shards and the one shard that changes. While nobody holds an older clone
//! nothing is copied at all.
//!
//! A shard is open addressing over slots of 8 bytes (32 bits of the hash, 32 of a place), with its
//! entries packed elsewhere: words that are compared, hashes, values. Packed entries make copying and
//! walking fast, and removal swaps the last entry into the gap. Keys are not stored as such: an entry
//! has as many words as the table was made for (none where the hash alone says enough), and a lookup
//! brings its own comparison.
//!
//! Cost: a lookup reads a slot, the words, the value: three lines. Threads: as `Arc`.

use std::sync::Arc;

/// Slots of a new shard, a power of two.
const FEWEST_SLOTS: usize = 4;

/// Entries a shard per shard of the table: at 256 shards, 1,024 entries each.
const BALANCE: usize = 4;

/// A persistent hash table of values behind `stride` words each.
#[derive(Debug)]
pub(crate) struct Sharded<V> {
    shards: Vec<Arc<Shard<V>>>,
    stride: usize,
    len: usize,
}

impl<V> Clone for Sharded<V> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), stride: self.stride, len: self.len }
    }
}

#[derive(Clone, Debug)]
struct Shard<V> {
    /// Upper half: of the hash; lower: the entry's place plus one, or 0.
    slots: Vec<u64>,
    words: Vec<u64>,
    hashes: Vec<u64>,
    values: Vec<V>,
}

/// The upper half of a slot, and where probing starts.
#[inline]
const fn tag(hash: u64) -> u64 {
    hash << 32
}

impl<V> Shard<V> {
    fn with_slots(slots: usize) -> Self {
        Self { slots: vec![0; slots], words: Vec::new(), hashes: Vec::new(), values: Vec::new() }
    }

    /// Entries of this hash, by slot and place, in the order of probing.
    #[inline]
    fn candidates(&self, hash: u64) -> impl Iterator<Item = (usize, usize)> {
        let last = self.slots.len() - 1;
        let mut at = hash as usize & last;
        std::iter::from_fn(move || {
            loop {
                let (slot, here) = (self.slots[at], at);
                if slot == 0 {
                    return None;
                }
                at = (at + 1) & last;
                if (slot ^ tag(hash)) >> 32 == 0 {
                    return Some((here, (slot as u32 - 1) as usize));
                }
            }
        })
    }

    #[inline]
    fn find(&self, stride: usize, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<(usize, usize)> {
        self.candidates(hash).find(|&(_, place)| same(&self.words[place * stride..][..stride]))
    }

    fn set_slot(&mut self, hash: u64, place: usize) {
        let last = self.slots.len() - 1;
        let mut at = hash as usize & last;
        while self.slots[at] != 0 {
            at = (at + 1) & last;
        }
        self.slots[at] = tag(hash) | (place as u64 + 1);
    }

    fn push(&mut self, hash: u64, words: impl Iterator<Item = u64>, value: V) {
        if (self.values.len() + 1) * 4 > self.slots.len() * 3 {
            self.slots = vec![0; self.slots.len() * 2];
            for place in 0..self.hashes.len() {
                self.set_slot(self.hashes[place], place);
            }
        }
        self.set_slot(hash, self.values.len());
        self.words.extend(words);
        self.hashes.push(hash);
        self.values.push(value);
    }

    /// Empties a slot, and moves back what probing would no longer reach.
    fn clear_slot(&mut self, mut gap: usize) {
        let last = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & last;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = (slot >> 32) as usize & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(gap) & last) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = 0;
    }

    fn take(&mut self, stride: usize, slot: usize, place: usize) -> V {
        self.clear_slot(slot);
        let moved = self.values.len() - 1;
        if moved != place {
            let hash = self.hashes[moved];
            let (slot, _) =
                self.candidates(hash).find(|&(_, at)| at == moved).expect("every entry has a slot");
            self.slots[slot] = tag(hash) | (place as u64 + 1);
            self.words.copy_within(moved * stride.., place * stride);
        }
        self.words.truncate(moved * stride);
        self.hashes.swap_remove(place);
        self.values.swap_remove(place)
    }
}

impl<V> Sharded<V> {
    pub(crate) fn new(stride: usize) -> Self {
        Self { shards: vec![Arc::new(Shard::with_slots(FEWEST_SLOTS))], stride, len: 0 }
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    /// The value of this hash whose words are the same.
    #[inline]
    pub(crate) fn find(&self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<&V> {
        let shard = &*self.shards[self.shard_of(hash)];
        let (_, place) = shard.find(self.stride, hash, same)?;
        Some(&shard.values[place])
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| &shard.values)
    }

    /// Bytes held, without what values point to.
    pub(crate) fn memory(&self) -> usize {
        let entry = 8 * (self.stride + 1) + size_of::<V>();
        let shard = |shard: &Arc<Shard<V>>| 8 * shard.slots.len() + entry * shard.values.len();
        self.shards.iter().map(shard).sum::<usize>()
    }
}

impl<V: Clone> Sharded<V> {
    /// The same to change it. A shard is copied only when the value is there.
    pub(crate) fn find_mut(&mut self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<&mut V> {
        let at = self.shard_of(hash);
        let (_, place) = self.shards[at].find(self.stride, hash, same)?;
        Some(&mut Arc::make_mut(&mut self.shards[at]).values[place])
    }

    /// Adds a value whose words are not there yet.
    pub(crate) fn insert(&mut self, hash: u64, words: impl Iterator<Item = u64>, value: V) {
        if self.len >= BALANCE * self.shards.len() * self.shards.len() {
            self.reshard(self.shards.len() * 2);
        }
        let at = self.shard_of(hash);
        Arc::make_mut(&mut self.shards[at]).push(hash, words, value);
        self.len += 1;
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<V> {
        let at = self.shard_of(hash);
        let (slot, place) = self.shards[at].find(self.stride, hash, same)?;
        let value = Arc::make_mut(&mut self.shards[at]).take(self.stride, slot, place);
        self.len -= 1;
        if self.shards.len() > 1 && self.len * BALANCE < self.shards.len() * self.shards.len() {
            self.reshard(self.shards.len() / 2);
        }
        Some(value)
    }

    fn reshard(&mut self, count: usize) {
        let expected = self.len.div_ceil(count) * 2;
        let slots = expected.next_power_of_two().max(FEWEST_SLOTS);
        let mut shards: Vec<Shard<V>> = (0..count).map(|_| Shard::with_slots(slots)).collect();
        for shard in self.shards.drain(..) {
            let Shard { words, hashes, values, .. } = Arc::unwrap_or_clone(shard);
            for (place, (hash, value)) in hashes.into_iter().zip(values).enumerate() {
                let words = words[place * self.stride..][..self.stride].iter().copied();
                shards[(hash >> 32) as usize & (count - 1)].push(hash, words, value);
            }
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Few hashes for many keys, so that tags, slots and shards all collide.
    fn hash(key: u64, kinds: u64) -> u64 {
        (key % kinds).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    proptest! {
        #[test]
        fn a_clone_keeps_what_it_had_while_the_other_changes(
            steps in proptest::collection::vec((0..600_u64, 0..4_u8), 0..900),
            kinds in 1..2000_u64,
        ) {
            let mut table = Sharded::new(1);
            let mut model = HashMap::new();
            let mut kept = Vec::new();
            for (number, &(key, what)) in steps.iter().enumerate() {
                let (hash, same) = (hash(key, kinds), |words: &[u64]| words == [key]);
                if what == 0 {
                    prop_assert_eq!(table.remove(hash, same), model.remove(&key));
                } else if let Some(value) = table.find_mut(hash, same) {
                    *value = number;
                    model.insert(key, number);
                } else {
                    table.insert(hash, std::iter::once(key), number);
                    model.insert(key, number);
                }
                if number % 150 == 0 {
                    kept.push((table.clone(), model.clone()));
                }
            }
            kept.push((table, model));
            for (table, model) in kept {
                prop_assert_eq!(table.len, model.len());
                prop_assert_eq!(table.iter().count(), model.len());
                for key in 0..600 {
                    let found = table.find(hash(key, kinds), |words| words == [key]);
                    prop_assert_eq!(found, model.get(&key));
                }
            }
        }
    }

    #[test]
    fn a_changed_clone_shares_all_but_one_shard() {
        let mut table = Sharded::new(0);
        for key in 0..100_000_u64 {
            table.insert(weir_flow::Seed::new(1).fold(key, 0), std::iter::empty(), key);
        }
        let old = table.clone();
        table.insert(7, std::iter::empty(), 7);
        let shared = old.shards.iter().zip(&table.shards).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, table.shards.len() - 1);
        let largest = table.shards.iter().map(|shard| shard.values.len()).max().unwrap();
        assert!(table.shards.len() <= 512 && largest < 2048, "{} shards of {largest}", table.shards.len());
    }
}
