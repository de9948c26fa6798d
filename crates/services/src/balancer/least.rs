//! `least-loaded`: a new connection goes to the bucket that has taken the fewest bytes (SoftFlow,
//! section 4.2).
//!
//! The byte counts belong to the group. Each worker writes only its own row of them, with plain stores
//! to cache lines that nobody else writes, and adds up all rows when it needs the load: once a burst in
//! which a connection is new. With counters that all workers add to atomically, each burst of each
//! worker would pull those lines from core to core; so it is only where connections are new, and only
//! for reading. Within a burst, a worker does not see what others add meanwhile: the loads that it
//! compares are late by a burst at most.

use super::Choice;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters a line: two cache lines, as CPUs fetch them in pairs.
const LINE: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Line([AtomicU64; LINE]);

/// Bytes by worker and bucket.
pub(super) struct Loads {
    lines: Vec<Line>,
    /// Lines a worker.
    stride: usize,
    buckets: usize,
}

impl Loads {
    pub(super) fn new(buckets: usize, workers: usize) -> Self {
        let stride = buckets.div_ceil(LINE);
        let lines = (0..stride * workers.max(1)).map(|_| Line::default()).collect();
        Self { lines, stride, buckets }
    }

    fn row(&self, worker: usize) -> &[Line] {
        let workers = self.lines.len() / self.stride;
        let from = worker.min(workers - 1) * self.stride;
        &self.lines[from..from + self.stride]
    }

    /// Adds to a count; only the row's own worker may.
    #[inline]
    fn add(&self, worker: usize, bucket: usize, bytes: u64) {
        let count = &self.row(worker)[bucket / LINE].0[bucket % LINE];
        count.store(count.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Bytes by bucket, of all workers.
    fn sum(&self, sums: &mut [u64]) {
        sums.fill(0);
        for row in self.lines.chunks_exact(self.stride) {
            let counts = row.iter().flat_map(|line| &line.0);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
    }
}

/// One worker's choice.
pub(super) struct Least {
    loads: Arc<Loads>,
    worker: usize,
    /// Bytes by bucket as this worker knows them.
    known: Vec<u64>,
    /// Whether they were added up in this burst.
    fresh: bool,
}

impl Least {
    pub(super) fn new(loads: Arc<Loads>, worker: usize) -> Self {
        Self { known: vec![0; loads.buckets], loads, worker, fresh: false }
    }
}

impl Choice for Least {
    fn begin(&mut self) {
        self.fresh = false;
    }

    fn lives(&self, home: u32) -> bool {
        (home as usize) < self.known.len()
    }

    fn choose(&mut self, _fingerprint: u64) -> Option<u32> {
        if !self.fresh {
            self.loads.sum(&mut self.known);
            self.fresh = true;
        }
        // The first of those with the fewest.
        (0..).zip(&self.known).min_by_key(|(_, bytes)| **bytes).map(|(bucket, _)| bucket)
    }

    fn steady(&self, fingerprint: u64) -> Option<u32> {
        Some(((u128::from(fingerprint) * self.known.len() as u128) >> 64) as u32)
    }

    #[inline]
    fn carry(&mut self, home: u32, bytes: u64) {
        self.loads.add(self.worker, home as usize, bytes);
        self.known[home as usize] += bytes;
    }

    fn dump(&self, connections: &dyn Fn(u32) -> u64) -> Value {
        let row = self.loads.row(self.worker).iter().flat_map(|line| &line.0);
        let buckets: Vec<Value> = (0_u32..)
            .zip(row.take(self.loads.buckets))
            .map(|(bucket, bytes)| {
                let bytes = bytes.load(Ordering::Relaxed);
                json!({"bucket": bucket, "bytes": bytes, "connections": connections(bucket)})
            })
            .collect();
        json!({ "buckets": buckets })
    }
}
