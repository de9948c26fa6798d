//! One mask's megaflows: a hash table from masked keys to places.
//!
//! Open addressing over slots of 8 bytes: 32 bits of the masked key's hash, 32 of the megaflow's
//! place. The words that are compared lie with the megaflow, in one line with its generation, since
//! the exact-match cache needs them there as well; so the table itself is dense, and the slots of
//! 10,000 megaflows fit a first-level cache twice over.
//!
//! Masks nearly always name words of the key's head, and which of them differs from mask to mask. So
//! the head is hashed and compared as a whole, six words that the compiler handles at once, without a
//! branch; words behind the head follow one by one where the mask has some.
//!
//! Cost: some 15 cycles a hash, a line a probe. Threads: one worker's.

use weir_cpu::prefetch;
use weir_flow::{HEAD, Key, Mask, Seed};

/// Slots of a new table, a power of two.
const FEWEST_SLOTS: usize = 16;

/// A mask, prepared for hashing and comparing.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) head: [u64; HEAD],
    /// Words behind the head: place and mask.
    pub(crate) rest: Box<[(u8, u64)]>,
    /// Their places, one bit each.
    pub(crate) behind: u64,
}

impl Cut {
    pub(crate) fn new(mask: &Mask) -> Self {
        let rest = mask.iter().filter(|&(place, _)| place >= HEAD);
        Self {
            head: std::array::from_fn(|place| mask.word(place)),
            behind: mask.present() >> HEAD << HEAD,
            rest: rest.map(|(place, word)| (place as u8, word)).collect(),
        }
    }

    /// The key's head under the mask.
    #[inline]
    pub(crate) fn head_of(&self, key: &Key) -> [u64; HEAD] {
        let head = key.head();
        std::array::from_fn(|place| head[place] & self.head[place])
    }

    /// The key's other words under the mask.
    #[inline]
    pub(crate) fn rest_of(&self, key: &Key) -> impl Iterator<Item = u64> {
        self.rest.iter().map(|&(place, mask)| key.word(usize::from(place)) & mask)
    }

    #[inline]
    pub(crate) fn hash(&self, seed: Seed, key: &Key) -> u64 {
        let [a, b, c, d, e, f] = self.head_of(key);
        let head = seed.fold(a, b) ^ seed.fold_with(c, d, 1) ^ seed.fold_with(e, f, 2);
        let rest = self.rest.iter().zip(self.rest_of(key));
        seed.finish(rest.fold(head, |hash, (&(place, _), word)| seed.fold_with(hash, word, place.into())))
    }
}

/// The megaflows of one mask.
#[derive(Debug)]
pub(crate) struct Subtable {
    pub(crate) mask: Mask,
    pub(crate) cut: Cut,
    /// Upper half: of the hash; lower: the place plus one, or 0.
    slots: Vec<u64>,
    pub(crate) len: usize,
    /// Lookups that ended here since the order was last made, and a share of those before.
    pub(crate) hits: u64,
}

impl Subtable {
    pub(crate) fn new(mask: Mask) -> Self {
        Self { cut: Cut::new(&mask), mask, slots: vec![0; FEWEST_SLOTS], len: 0, hits: 0 }
    }

    /// Fetches the slots where a hash is looked for.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.slots[hash as usize & (self.slots.len() - 1)]);
    }

    /// What lies where a hash is looked for first, 0 for nothing.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> u64 {
        self.slots[hash as usize & (self.slots.len() - 1)]
    }

    /// Places of megaflows whose hash may be this one, with their slots.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> {
        let slots = &self.slots[..];
        let mut at = hash as usize;
        std::iter::from_fn(move || {
            loop {
                let here = at & (slots.len() - 1);
                let slot = slots[here];
                if slot == 0 {
                    return None;
                }
                at = here + 1;
                if (slot >> 32) as u32 == hash as u32 {
                    return Some((here, slot as u32 - 1));
                }
            }
        })
    }

    fn set(&mut self, tag: u32, slot: u64) {
        let last = self.slots.len() - 1;
        let mut at = tag as usize & last;
        while self.slots[at] != 0 {
            at = (at + 1) & last;
        }
        self.slots[at] = slot;
    }

    /// Adds a place that is not there.
    pub(crate) fn insert(&mut self, hash: u64, index: u32) {
        self.len += 1;
        if self.len * 2 > self.slots.len() {
            let doubled = vec![0; self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, doubled) {
                if slot != 0 {
                    self.set((slot >> 32) as u32, slot);
                }
            }
        }
        self.set(hash as u32, hash << 32 | u64::from(index + 1));
    }

    /// Takes a place out that is there, and moves back what probing would no longer reach.
    pub(crate) fn remove(&mut self, hash: u64, index: u32) {
        let Some((mut gap, _)) = self.candidates(hash).find(|&(_, other)| other == index) else { return };
        self.len -= 1;
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

    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * 8 + size_of::<Self>() + self.cut.rest.len() * size_of::<(u8, u64)>()
    }
}
