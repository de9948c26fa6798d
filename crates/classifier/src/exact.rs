//! The exact-match cache: from the hash of a whole key to the place of its megaflow.
//!
//! It answers where a megaflow may be, independently of how many masks there are, and stores no key:
//! what it says is compared with the megaflow itself, whose line is needed anyway. Any megaflow that
//! agrees with a key is right for it, so a wrong or old answer costs a comparison and nothing else;
//! nothing has to be told when a megaflow goes, and entries need no generation.
//!
//! A bucket is one cache line of 8 entries: 16 bits of the hash and a place each, and which were used.
//! Within a bucket a tag is unique, so that a lookup has one candidate at most; of flows in one bucket,
//! one in ten thousand shares its tag with another and is looked up among the megaflows instead.
//!
//! The cache grows from 4 KiB to its limit by linear hashing (Litwin, VLDB 1980): each second time that
//! a bucket has no room, one more bucket comes into use, a copy of the one it shares hashes with. So
//! there is no pause to rehash, 10,000 flows stay within a second-level cache, and a million still
//! have their place. Copies that are never looked up are evicted first, and so are the entries of
//! flows that sent one packet: whoever was hit since the bucket was last full is spared.
//!
//! Every flow is inserted when it is first missed: a filter for the second packet was not worth its
//! line, since evicting first what was not hit does the same for the flows that matter.
//!
//! Cost: one line a lookup, fetched ahead. Memory is reserved at the start and touched as it grows;
//! nothing allocates afterwards. Threads: one worker's.

use weir_cpu::{prefer_huge_pages, prefetch};

/// Entries of a bucket.
pub const WAYS: usize = 8;

/// Buckets at the start, a power of two.
const FEWEST: usize = 64;

/// Buckets of a cache by default: 32 MiB, four entries for each of a million flows. With two, one bucket in fifty had
/// more flows than entries, and what is not found here costs a probe a mask, each of which misses every cache.
pub const EXACT_BUCKETS: usize = 1 << 19;

/// Insertions into full buckets for each bucket more.
const FULL_A_BUCKET: u32 = 2;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// Four to a word, from the lowest bits; 0 for an entry that is free.
    tags: [u64; WAYS / 4],
    places: [u32; WAYS],
    /// Bit n set: entry n was hit since the bucket was last full.
    used: u8,
    /// The entry to be evicted next, if it was not used.
    hand: u8,
}

/// One worker's exact-match cache.
#[derive(Debug)]
pub struct Exact {
    buckets: Vec<Bucket>,
    limit: usize,
    /// The number of buckets, rounded down to a power of two.
    low: usize,
    full: u32,
}

/// 16 bits of a hash: never 0.
#[inline]
fn tag(hash: u64) -> u64 {
    (hash >> 48).max(1)
}

/// 1 in each of four tags.
const EACH: u64 = 0x0001_0001_0001_0001;

/// The first of eight tags that is this one. Subtracting 1 from a tag's difference borrows into its
/// upper bit where there is none; whatever the borrow does to the tags above, the first is right.
#[inline]
fn first(tags: [u64; WAYS / 4], tag: u64) -> Option<usize> {
    let borrows = |tags: u64| {
        let differs = tags ^ (tag * EACH);
        differs.wrapping_sub(EACH) & !differs & (EACH << 15)
    };
    let (low, high) = (borrows(tags[0]), borrows(tags[1]));
    if low | high == 0 {
        return None;
    }
    let (from, bits) = if low != 0 { (0, low) } else { (4, high) };
    Some((from + (bits.trailing_zeros() / 16) as usize) % WAYS)
}

impl Bucket {
    const EMPTY: Self = Self { tags: [0; WAYS / 4], places: [0; WAYS], used: 0, hand: 0 };

    /// The entry that is free or was not used, where there is one; otherwise the hand's, after which
    /// none is used.
    fn victim(&mut self) -> usize {
        for _ in 0..WAYS {
            let way = usize::from(self.hand) % WAYS;
            self.hand = (way + 1) as u8;
            if self.used >> way & 1 == 0 {
                return way;
            }
        }
        self.used = 0;
        let way = usize::from(self.hand) % WAYS;
        self.hand = (way + 1) as u8;
        way
    }
}

impl Exact {
    /// An empty cache that grows to `limit` buckets of 64 bytes, and to no fewer than 64.
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(FEWEST);
        let mut buckets = Vec::with_capacity(limit);
        prefer_huge_pages(buckets.spare_capacity_mut());
        buckets.resize(FEWEST, Bucket::EMPTY);
        Self { buckets, limit, low: FEWEST, full: 0 }
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> usize {
        let wide = hash as usize & (2 * self.low - 1);
        if wide < self.buckets.len() { wide } else { wide - self.low }
    }

    /// Asks the CPU for the bucket of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[self.bucket_of(hash)]);
    }

    /// Where the megaflow of this hash may be. It counts as used.
    #[inline]
    pub fn get(&mut self, hash: u64) -> Option<u32> {
        let at = self.bucket_of(hash);
        let bucket = &mut self.buckets[at];
        let way = first(bucket.tags, tag(hash))?;
        if bucket.used >> way & 1 == 0 {
            bucket.used |= 1 << way;
        }
        Some(bucket.places[way])
    }

    /// Remembers where the megaflow of this hash is.
    pub fn insert(&mut self, hash: u64, place: u32) {
        let at = self.bucket_of(hash);
        let bucket = &mut self.buckets[at];
        let way = first(bucket.tags, tag(hash)).or_else(|| first(bucket.tags, 0)).unwrap_or_else(|| {
            self.full += 1;
            bucket.victim()
        });
        let (word, shift) = (&mut bucket.tags[way / 4], 16 * (way % 4));
        *word = *word & !(0xffff << shift) | tag(hash) << shift;
        bucket.places[way] = place;
        bucket.used &= !(1 << way);
        if self.full >= FULL_A_BUCKET {
            self.full = 0;
            self.grow();
        }
    }

    fn grow(&mut self) {
        if self.buckets.len() < self.limit {
            let shared = self.buckets.len() - self.low;
            let shared = &mut self.buckets[shared];
            shared.used = 0;
            let copy = *shared;
            self.buckets.push(copy);
            if self.buckets.len() == 2 * self.low {
                self.low = self.buckets.len();
            }
        }
    }

    /// Forgets everything, and is small again.
    pub fn clear(&mut self) {
        self.buckets.clear();
        self.buckets.resize(FEWEST, Bucket::EMPTY);
        (self.low, self.full) = (FEWEST, 0);
    }

    /// Entries that are not free: copies and stale ones among them.
    pub fn len(&self) -> usize {
        let taken = |tags: u64| (0..4).filter(|n| tags >> (16 * n) & 0xffff != 0).count();
        self.buckets.iter().flat_map(|bucket| bucket.tags).map(taken).sum()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in use; what is reserved is not counted.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_equal_tag_is_found(tags in any::<[[u16; 4]; 2]>(), near in 0..8_usize, delta in 0..3_u16) {
            let flat = tags.as_flattened();
            for tag in [flat[near], flat[near].wrapping_add(delta), 0, 1, 0x8000] {
                let words = tags.map(|tags| tags.iter().rev().fold(0, |word, &tag| word << 16 | u64::from(tag)));
                prop_assert_eq!(first(words, tag.into()), flat.iter().position(|&other| other == tag));
            }
        }

        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn what_is_found_is_what_was_inserted_last_for_that_hash_or_for_its_like(
            steps in proptest::collection::vec((0..400_u64, any::<bool>()), 0..4000),
        ) {
            // The place says which hash it was inserted for.
            let hash = |flow: u64| flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut exact = Exact::new(100);
            for (flow, insert) in steps {
                if insert {
                    exact.insert(hash(flow), flow as u32);
                    prop_assert_eq!(exact.get(hash(flow)), Some(flow as u32));
                } else if let Some(place) = exact.get(hash(flow)) {
                    prop_assert_eq!(tag(hash(place.into())), tag(hash(flow)));
                }
            }
            prop_assert!(exact.memory() <= 100 * 64);
            prop_assert!(exact.len() <= exact.memory() / 64 * WAYS);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn flows_that_come_back_stay_while_others_pass_by() {
        let hash = |flow: u64| weir_flow::Seed::new(5).fold(flow, 1);
        let mut exact = Exact::new(64);
        let mut missed = 0;
        for flow in 0..100 {
            exact.insert(hash(flow), flow as u32);
        }
        for passing in 1000..50_000_u64 {
            exact.insert(hash(passing), passing as u32);
            let back = passing % 100;
            if exact.get(hash(back)) != Some(back as u32) {
                missed += 1;
                exact.insert(hash(back), back as u32);
            }
        }
        assert!(missed < 49_000 / 20, "{missed} of 49,000 missed");
    }
}
