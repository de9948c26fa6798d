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

use weir_dpdk::prefetch;

/// Entries of a bucket.
pub const WAYS: usize = 8;

/// Buckets at the start, a power of two.
const FEWEST: usize = 64;

/// Buckets of a cache by default: 16 MiB, two entries for each of a million flows.
pub const EXACT_BUCKETS: usize = 1 << 18;

/// Insertions into full buckets for each bucket more.
const FULL_A_BUCKET: u32 = 2;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// 0 for an entry that is free.
    tags: [u16; WAYS],
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

#[inline]
fn tag(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

impl Bucket {
    const EMPTY: Self = Self { tags: [0; WAYS], places: [0; WAYS], used: 0, hand: 0 };

    /// The entries that have a tag, a bit each.
    #[inline]
    fn having(&self, tag: u16) -> u32 {
        let mut bits = 0;
        for (way, &other) in self.tags.iter().enumerate() {
            bits |= u32::from(other == tag) << way;
        }
        bits
    }

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
        let having = bucket.having(tag(hash));
        if having == 0 {
            return None;
        }
        let way = having.trailing_zeros() as usize % WAYS;
        if bucket.used >> way & 1 == 0 {
            bucket.used |= 1 << way;
        }
        Some(bucket.places[way])
    }

    /// Remembers where the megaflow of this hash is.
    pub fn insert(&mut self, hash: u64, place: u32) {
        let at = self.bucket_of(hash);
        let bucket = &mut self.buckets[at];
        let (same, free) = (bucket.having(tag(hash)), bucket.having(0));
        let way = if same != 0 {
            same.trailing_zeros() as usize
        } else if free != 0 {
            free.trailing_zeros() as usize
        } else {
            self.full += 1;
            bucket.victim()
        };
        bucket.tags[way] = tag(hash);
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
        self.buckets.iter().map(|bucket| WAYS - bucket.having(0).count_ones() as usize).sum()
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
