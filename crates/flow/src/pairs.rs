//! Pairs of addresses that services keep state of, so that nobody else is given them.
//!
//! Why: a worker is chosen by the two addresses of a packet (`crates/datapath/src/worker/steer.rs`), and who has a pair keeps it
//! while a service of it knows a connection between them. A pair that is not held and that no packet came of
//! for a while may have another owner.
//!
//! Cost: 4 bytes a bucket and worker; a write a connection that begins or ends, where there are several workers.
//! Threads: each worker writes its own counts; all read.

use crate::Seed;
use std::sync::atomic::{AtomicU32, Ordering};

/// Connections between pairs of addresses, by the buckets that pairs fall into.
#[derive(Debug)]
pub struct Pairs {
    seed: Seed,
    /// By worker.
    held: Vec<Box<[AtomicU32]>>,
}

impl Pairs {
    /// Buckets that pairs fall into; fewer under Miri, which has to make each.
    pub const BUCKETS: usize = if cfg!(miri) { 1 << 10 } else { 1 << 19 };

    /// None held, for so many workers that steer by this seed.
    pub fn new(workers: usize, seed: Seed) -> Self {
        let none = || (0..Self::BUCKETS).map(|_| AtomicU32::new(0)).collect();
        Self { seed, held: (0..workers).map(|_| none()).collect() }
    }

    /// A hash of two IPv4 addresses, whichever comes first.
    #[inline]
    pub const fn v4(seed: Seed, (a, b): (u32, u32)) -> u64 {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        seed.fold(low as u64, high as u64)
    }

    /// A hash of two IPv6 addresses, whichever comes first.
    #[inline]
    pub const fn v6(seed: Seed, a: u128, b: u128) -> u64 {
        let one = seed.fold((a >> 64) as u64, a as u64);
        // Addition does not mind the order.
        seed.finish(one.wrapping_add(seed.fold((b >> 64) as u64, b as u64)))
    }

    /// The bucket of a hash.
    #[inline]
    pub const fn bucket(hash: u64) -> usize {
        hash as usize % Self::BUCKETS
    }

    fn of(&self, v6: bool, [a, b]: [u128; 2]) -> usize {
        Self::bucket(if v6 { Self::v6(self.seed, a, b) } else { Self::v4(self.seed, (a as u32, b as u32)) })
    }

    fn count(&self, worker: usize, bucket: usize, by: i32) {
        if let Some(count) = self.held.get(worker).map(|held| &held[bucket]) {
            // Nobody else writes it.
            let now = count.load(Ordering::Relaxed).wrapping_add_signed(by);
            count.store(now, Ordering::Release);
        }
    }

    /// A worker knows one connection more between these addresses.
    pub fn hold(&self, worker: usize, v6: bool, ends: [u128; 2]) {
        self.count(worker, self.of(v6, ends), 1);
    }

    /// A worker knows one connection less.
    pub fn let_go(&self, worker: usize, v6: bool, ends: [u128; 2]) {
        self.count(worker, self.of(v6, ends), -1);
    }

    /// A worker begins without connections.
    pub fn clear(&self, worker: usize) {
        for count in self.held.get(worker).into_iter().flatten() {
            count.store(0, Ordering::Release);
        }
    }

    /// Whether any worker knows a connection of a bucket's pairs.
    pub fn is_held(&self, bucket: usize) -> bool {
        self.held.iter().any(|held| held[bucket].load(Ordering::Acquire) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_held_while_a_connection_of_any_worker_is_between_its_addresses() {
        let seed = Seed::new(5);
        let pairs = Pairs::new(2, seed);
        for (v6, ends) in [(false, [1_u128, 2]), (true, [1 << 100, 7])] {
            let [a, b] = ends;
            let hash = if v6 { Pairs::v6(seed, b, a) } else { Pairs::v4(seed, (b as u32, a as u32)) };
            let bucket = Pairs::bucket(hash);
            assert!(!pairs.is_held(bucket));
            pairs.hold(1, v6, ends);
            pairs.hold(1, v6, [b, a]);
            pairs.hold(0, v6, ends);
            pairs.let_go(1, v6, ends);
            assert!(pairs.is_held(bucket));
            pairs.clear(0);
            assert!(pairs.is_held(bucket));
            pairs.let_go(1, v6, ends);
            assert!(!pairs.is_held(bucket));
        }
    }
}
