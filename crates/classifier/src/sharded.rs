//! A persistent hash table: a clone costs one pointer a shelf, and a change copies three short lists.
//!
//! A control thread changes its tables while workers read the state before. Copying a table of a
//! million entries for each change would take milliseconds; locking it would stop workers. So a table
//! is cut twice: into shelves, and each of these into shards of some twenty entries. Changing a clone
//! copies the list of shelves, the list of one shelf's shards, and one shard; what is not copied is
//! shared. While nobody holds an older clone nothing is copied at all.
//!
//! Why shards are so small: of what is copied, entries are the dearest, because each is counted where it
//! lies, which nobody has looked at lately. A shelf gets more shards by itself when it grows, so that
//! growing is paid for a shelf at a time; the list of shelves grows in steps of four, at every sixteenfold.
//!
//! A shard is open addressing over slots of 8 bytes (32 bits of the hash, 32 of a place), behind which lie
//! its entries' hashes and the words that are compared; values lie apart. Removal swaps the last entry into
//! the gap. Keys are not stored as such: an entry has as many words as the table was made for (none where
//! the hash alone says enough), and a lookup brings its own comparison.
//!
//! Cost: a lookup reads a shelf, a shard's head, a slot, the words, the value: the first two are a hundredth
//! of the table and stay in caches. Threads: as `Arc`.

use std::sync::Arc;

/// Slots of a new shard, a power of two.
const FEWEST_SLOTS: usize = 4;

/// Entries a shard on average at which a shelf gets twice as many; with a fourth it gets half as many.
const SHARD: usize = 32;

/// Shards a shelf per shelf of the table at which there are four times as many shelves.
const BALANCE: usize = 4;

/// By how much the number of shelves changes.
const STEP: usize = 4;

/// Shelves at most: which one is said by so many bits of the hash that others do not use.
const MOST_SHELVES: usize = 1 << SHELF_BITS;
const SHELF_BITS: u32 = 12;

/// A persistent hash table of values behind `stride` words each.
#[derive(Debug)]
pub(crate) struct Sharded<V> {
    shelves: Vec<Shelf<V>>,
    stride: usize,
    len: usize,
}

/// Shards, and the numbers of entries and of slots in them.
#[derive(Debug)]
struct Shelf<V> {
    shards: Arc<[Arc<Shard<V>>]>,
    len: usize,
    slots: usize,
}

#[derive(Clone, Debug)]
struct Shard<V> {
    /// First the slots: upper half of the hash, lower the entry's place plus one; or 0. Then of each entry its
    /// hash and its words.
    cells: Vec<u64>,
    slots: usize,
    values: Vec<V>,
}

impl<V> Clone for Sharded<V> {
    fn clone(&self) -> Self {
        Self { shelves: self.shelves.clone(), stride: self.stride, len: self.len }
    }
}

impl<V> Clone for Shelf<V> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards), len: self.len, slots: self.slots }
    }
}

/// The upper half of a slot, and where probing starts.
#[inline]
const fn tag(hash: u64) -> u64 {
    hash << 32
}

impl<V> Shard<V> {
    fn with_slots(slots: usize) -> Self {
        Self { cells: vec![0; slots], slots, values: Vec::new() }
    }

    /// Entries of this hash, by slot and place, in the order of probing.
    #[inline]
    fn candidates(&self, hash: u64) -> impl Iterator<Item = (usize, usize)> {
        let slots = &self.cells[..self.slots];
        let mut at = hash as usize & (slots.len() - 1);
        std::iter::from_fn(move || {
            loop {
                let (slot, here) = (slots[at], at);
                if slot == 0 {
                    return None;
                }
                at = (at + 1) & (slots.len() - 1);
                if (slot ^ tag(hash)) >> 32 == 0 {
                    return Some((here, (slot as u32 - 1) as usize));
                }
            }
        })
    }

    /// Where an entry's hash lies, before its words.
    #[inline]
    const fn cell(&self, stride: usize, place: usize) -> usize {
        self.slots + place * (stride + 1)
    }

    fn words(&self, stride: usize, place: usize) -> &[u64] {
        &self.cells[self.cell(stride, place) + 1..][..stride]
    }

    #[inline]
    fn find(&self, stride: usize, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<(usize, usize)> {
        self.candidates(hash).find(|&(_, place)| same(self.words(stride, place)))
    }

    fn set_slot(&mut self, hash: u64, place: usize) {
        let last = self.slots - 1;
        let mut at = hash as usize & last;
        while self.cells[at] != 0 {
            at = (at + 1) & last;
        }
        self.cells[at] = tag(hash) | (place as u64 + 1);
    }

    fn push(&mut self, stride: usize, hash: u64, words: impl Iterator<Item = u64>, value: V) {
        if (self.values.len() + 1) * 4 > self.slots * 3 {
            let (entries, slots) = (self.cells.split_off(self.slots), self.slots * 2);
            self.cells = vec![0; slots];
            self.slots = slots;
            for (place, entry) in entries.chunks_exact(stride + 1).enumerate() {
                self.set_slot(entry[0], place);
            }
            self.cells.extend(entries);
        }
        self.set_slot(hash, self.values.len());
        self.cells.push(hash);
        self.cells.extend(words);
        self.values.push(value);
    }

    /// Empties a slot, and moves back what probing would no longer reach.
    fn clear_slot(&mut self, mut gap: usize) {
        let last = self.slots - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & last;
            let slot = self.cells[at];
            if slot == 0 {
                break;
            }
            let home = (slot >> 32) as usize & last;
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(gap) & last) {
                self.cells[gap] = slot;
                gap = at;
            }
        }
        self.cells[gap] = 0;
    }

    fn take(&mut self, stride: usize, slot: usize, place: usize) -> V {
        self.clear_slot(slot);
        let moved = self.values.len() - 1;
        let last = self.cell(stride, moved);
        if moved != place {
            let hash = self.cells[last];
            let (slot, _) =
                self.candidates(hash).find(|&(_, at)| at == moved).expect("every entry has a slot");
            self.cells[slot] = tag(hash) | (place as u64 + 1);
            let to = self.cell(stride, place);
            self.cells.copy_within(last.., to);
        }
        self.cells.truncate(last);
        self.values.swap_remove(place)
    }
}

impl<V> Shard<V> {
    /// Takes its entries out; each is told with its hash and its words.
    fn for_each(self, stride: usize, mut tell: impl FnMut(u64, &[u64], V)) {
        let entries = self.cells[self.slots..].chunks_exact(stride + 1);
        entries.zip(self.values).for_each(|(entry, value)| tell(entry[0], &entry[1..], value));
    }
}

/// Which of so many shelves, a power of two.
#[inline]
const fn shelf_of(hash: u64, shelves: usize) -> usize {
    (hash >> 32) as usize & (shelves - 1)
}

/// Which of so many shards, a power of two.
#[inline]
const fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> (32 + SHELF_BITS)) as usize & (shards - 1)
}

impl<V> Shelf<V> {
    #[inline]
    fn shard(&self, hash: u64) -> &Shard<V> {
        &self.shards[shard_of(hash, self.shards.len())]
    }
}

impl<V: Clone> Shelf<V> {
    fn of(shards: Vec<Shard<V>>) -> Self {
        let len = shards.iter().map(|shard| shard.values.len()).sum();
        let slots = shards.iter().map(|shard| shard.slots).sum();
        Self { shards: shards.into_iter().map(Arc::new).collect(), len, slots }
    }

    fn shard_mut(&mut self, hash: u64) -> &mut Shard<V> {
        let at = shard_of(hash, self.shards.len());
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[at])
    }

    /// Takes its shards out, copied where somebody else holds them.
    fn into_shards(mut self) -> impl Iterator<Item = Shard<V>> {
        let none = Arc::new(Shard::with_slots(FEWEST_SLOTS));
        let take = |shard: &mut Arc<Shard<V>>| std::mem::replace(shard, Arc::clone(&none));
        let taken: Vec<_> = Arc::make_mut(&mut self.shards).iter_mut().map(take).collect();
        taken.into_iter().map(Arc::unwrap_or_clone)
    }

    fn reshard(&mut self, count: usize, stride: usize) {
        let mut shards = empty(count, self.len);
        let old = std::mem::replace(self, Self::of(Vec::new()));
        for shard in old.into_shards() {
            shard.for_each(stride, |hash, words, value| {
                shards[shard_of(hash, count)].push(stride, hash, words.iter().copied(), value);
            });
        }
        *self = Self::of(shards);
    }
}

/// So many shards, with room for so many entries together.
fn empty<V>(count: usize, entries: usize) -> Vec<Shard<V>> {
    let slots = (entries.div_ceil(count) * 2).next_power_of_two().max(FEWEST_SLOTS);
    (0..count).map(|_| Shard::with_slots(slots)).collect()
}

impl<V: Clone> Sharded<V> {
    pub(crate) fn new(stride: usize) -> Self {
        Self { shelves: vec![Shelf::of(empty(1, 0))], stride, len: 0 }
    }
}

impl<V> Sharded<V> {
    #[inline]
    fn shelf_of(&self, hash: u64) -> usize {
        shelf_of(hash, self.shelves.len())
    }

    /// The value of this hash whose words are the same.
    #[inline]
    pub(crate) fn find(&self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<&V> {
        let shard = self.shelves[self.shelf_of(hash)].shard(hash);
        let (_, place) = shard.find(self.stride, hash, same)?;
        Some(&shard.values[place])
    }

    fn shards(&self) -> impl Iterator<Item = &Shard<V>> {
        self.shelves.iter().flat_map(|shelf| shelf.shards.iter()).map(|shard| &**shard)
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.shards().flat_map(|shard| &shard.values)
    }

    /// Bytes held, without what values point to. Looks at shelves only.
    pub(crate) fn memory(&self) -> usize {
        let entry = (self.stride + 1) * size_of::<u64>() + size_of::<V>();
        let shelf = |shelf: &Shelf<V>| {
            shelf.shards.len() * size_of::<Shard<V>>() + shelf.slots * size_of::<u64>() + shelf.len * entry
        };
        self.shelves.iter().map(shelf).sum()
    }
}

impl<V: Clone> Sharded<V> {
    /// The same to change it. A shard is copied only when the value is there.
    pub(crate) fn find_mut(&mut self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<&mut V> {
        let at = self.shelf_of(hash);
        let (_, place) = self.shelves[at].shard(hash).find(self.stride, hash, same)?;
        Some(&mut self.shelves[at].shard_mut(hash).values[place])
    }

    /// Adds a value whose words are not there yet.
    pub(crate) fn insert(&mut self, hash: u64, words: impl Iterator<Item = u64>, value: V) {
        let shelves = self.shelves.len();
        if self.len >= BALANCE * SHARD * shelves * shelves && shelves < MOST_SHELVES {
            self.reshelve(shelves * STEP);
        }
        let (at, stride) = (self.shelf_of(hash), self.stride);
        let shelf = &mut self.shelves[at];
        if shelf.len >= SHARD * shelf.shards.len() {
            shelf.reshard(shelf.shards.len() * 2, stride);
        }
        let shard = shelf.shard_mut(hash);
        let before = shard.slots;
        shard.push(stride, hash, words, value);
        let more = shard.slots - before;
        shelf.slots += more;
        shelf.len += 1;
        self.len += 1;
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, hash: u64, same: impl Fn(&[u64]) -> bool) -> Option<V> {
        let (at, stride) = (self.shelf_of(hash), self.stride);
        let shelf = &mut self.shelves[at];
        let (slot, place) = shelf.shard(hash).find(stride, hash, same)?;
        let value = shelf.shard_mut(hash).take(stride, slot, place);
        shelf.len -= 1;
        self.len -= 1;
        if shelf.shards.len() > 1 && shelf.len * 4 < SHARD * shelf.shards.len() {
            shelf.reshard(shelf.shards.len() / 2, stride);
        }
        let fewer = self.shelves.len() / STEP;
        // Fewer than half of those at which there were to be more: not to and fro.
        if fewer > 0 && self.len * 2 < BALANCE * SHARD * fewer * fewer {
            self.reshelve(fewer);
        }
        Some(value)
    }

    fn reshelve(&mut self, count: usize) {
        let (stride, each) = (self.stride, self.len.div_ceil(count));
        let shards = each.div_ceil(SHARD / 2).next_power_of_two();
        let mut shelves: Vec<Vec<Shard<V>>> = (0..count).map(|_| empty(shards, each)).collect();
        for shard in self.shelves.drain(..).flat_map(Shelf::into_shards) {
            shard.for_each(stride, |hash, words, value| {
                let shard = &mut shelves[shelf_of(hash, count)][shard_of(hash, shards)];
                shard.push(stride, hash, words.iter().copied(), value);
            });
        }
        self.shelves = shelves.into_iter().map(Shelf::of).collect();
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

    /// What [`Sharded::memory`] says, shard by shard.
    fn weighed<V>(table: &Sharded<V>) -> usize {
        let shard = |shard: &Shard<V>| {
            size_of::<Shard<V>>() + 8 * shard.cells.len() + size_of::<V>() * shard.values.len()
        };
        table.shards().map(shard).sum()
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
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
                prop_assert_eq!(table.memory(), weighed(&table));
                for key in 0..600 {
                    let found = table.find(hash(key, kinds), |words| words == [key]);
                    prop_assert_eq!(found, model.get(&key));
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_changed_clone_shares_all_but_one_shard_and_shards_are_small() {
        let mut table = Sharded::new(0);
        for key in 0..100_000_u64 {
            table.insert(weir_flow::Seed::new(1).fold(key, 0), std::iter::empty(), key);
        }
        let old = table.clone();
        table.insert(7, std::iter::empty(), 7);
        let apart = |(a, b): (&Shard<u64>, &Shard<u64>)| !std::ptr::eq(a, b);
        assert_eq!(old.shards().zip(table.shards()).filter(|pair| apart(*pair)).count(), 1);
        let kept = |(a, b): &(&Shelf<u64>, &Shelf<u64>)| Arc::ptr_eq(&a.shards, &b.shards);
        assert_eq!(old.shelves.iter().zip(&table.shelves).filter(kept).count(), table.shelves.len() - 1);
        let widest = table.shelves.iter().map(|shelf| shelf.shards.len()).max().unwrap();
        let largest = table.shards().map(|shard| shard.values.len()).max().unwrap();
        assert!(
            table.shelves.len() <= 64 && widest <= 128 && largest <= 3 * SHARD,
            "{} shelves, {widest} shards in one, {largest} entries in one",
            table.shelves.len()
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_table_that_empties_has_as_few_shards_as_a_new_one() {
        let mut table = Sharded::new(0);
        let hash = |key: u64| weir_flow::Seed::new(1).fold(key, 0);
        for key in 0..40_000_u64 {
            table.insert(hash(key), std::iter::empty(), key);
        }
        assert!(table.shelves.len() > 1);
        for key in 0..40_000 {
            assert_eq!(table.remove(hash(key), |_| true), Some(key));
        }
        assert_eq!((table.len, table.shelves.len(), table.shards().count()), (0, 1, 1));
        assert_eq!(table.memory(), weighed(&table));
    }
}
