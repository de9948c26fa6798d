//! One line of the table of owners: up to eight words that several workers write and read without a lock.
//!
//! `crates/models` has this very file, and goes through all orders in which two workers' steps can be seen.

use super::atomics::{AtomicU64, Ordering};

/// Bits of an entry that name the worker, counted from 1; 0 is no entry. The others are the name of what it has.
const WORKER: u64 = 0xffff;

/// Entries whose names fall into one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct OwnerLine([AtomicU64; 8]);

const fn is_named(entry: u64, name: u64) -> bool {
    entry & !WORKER == name & !WORKER && entry != 0
}

const fn entry(name: u64, worker: usize) -> u64 {
    name & !WORKER | (worker as u64 + 1)
}

impl OwnerLine {
    /// The worker that has what is named so.
    pub(super) fn find(&self, name: u64) -> Option<usize> {
        let entries = self.0.iter().map(|entry| entry.load(Ordering::Acquire));
        let found = entries.into_iter().find(|entry| is_named(*entry, name))?;
        Some((found & WORKER) as usize - 1)
    }

    /// Says that a worker has what is named so. False if another has it, or there is no room.
    ///
    /// Two workers may say so at the same moment. Each writes first and looks for the other then, in an order that
    /// all agree on, so that one of them at least finds the other, and takes its word back.
    pub(super) fn insert(&self, name: u64, worker: usize) -> bool {
        let own = entry(name, worker);
        let another_has_it = || {
            let others = self.0.iter().map(|other| other.load(Ordering::SeqCst));
            others.into_iter().any(|other| is_named(other, name) && other != own)
        };
        let write =
            |place: &AtomicU64| place.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if another_has_it() || !self.0.iter().any(write) {
            return false;
        }
        let alone = !another_has_it();
        if !alone {
            self.remove(name, worker);
        }
        alone
    }

    /// Takes one such word back.
    pub(super) fn remove(&self, name: u64, worker: usize) {
        let own = entry(name, worker);
        self.0
            .iter()
            .any(|place| place.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    }

    /// Takes all of a worker's words back.
    pub(super) fn clear(&self, worker: usize) {
        for place in &self.0 {
            if place.load(Ordering::Relaxed) & WORKER == worker as u64 + 1 {
                place.store(0, Ordering::Release);
            }
        }
    }
}
