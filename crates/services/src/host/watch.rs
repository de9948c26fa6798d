//! Seen from outside: which service a worker is inside of, and since when.
//!
//! A service that never returns holds its worker for good: nothing inside the worker can end it. But
//! another thread can see it: before each call the worker stores the time in a word that it shares with
//! whoever holds the [`Watch`], and a nought after it. Cost: two plain stores a burst, to a cache line
//! that only the worker writes.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_cpu::Ticks;

/// What a control thread holds to see whether an instance hangs.
#[derive(Debug)]
#[repr(align(128))]
pub struct Watch {
    since: AtomicU64,
    name: String,
    worker: usize,
}

impl Watch {
    pub(super) fn new(name: &str, worker: usize) -> Self {
        Self { since: AtomicU64::new(0), name: name.to_owned(), worker }
    }

    /// The service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The worker whose instance it is.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// When the worker entered the service that it is inside of now; `None` when it is outside.
    pub fn running_since(&self) -> Option<Ticks> {
        Some(self.since.load(Ordering::Relaxed)).filter(|&since| since != 0).map(Ticks)
    }

    /// The call that is going on, if it has taken more than `cycles` of the TSC.
    pub fn hangs(&self, now: Ticks, cycles: u64) -> Option<u64> {
        self.running_since().map(|since| now.since(since)).filter(|&taken| taken > cycles)
    }

    /// Notes that a call begins.
    #[inline]
    pub(super) fn enter(&self, now: Ticks) {
        self.since.store(now.0.max(1), Ordering::Relaxed);
    }

    /// Notes that it has ended.
    #[inline]
    pub(super) fn leave(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}
