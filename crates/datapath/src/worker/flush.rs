//! The stats flush: what megaflows, the fast path's targets and edges counted goes to flow entries, tables and groups.
//!
//! Packets count where they are anyway; a flush adds that up when somebody asks. It takes some cache misses for each
//! megaflow that was used, milliseconds for ten thousand, which packets cannot wait for: a ring overflows meanwhile. So
//! the worker flushes a little at a time between bursts, and answers when all that was counted before the question has
//! been flushed. A snapshot without counts of entries, tables or groups needs no flush: with a million flows a flush
//! costs each of their packets some 70 cycles if somebody asks ten times a second.
//!
//! Threads: the worker's.

use crate::worker::Worker;
use crate::worker::command::Snapshot;
use weir_cpu::Ticks;
use weir_units::Nanos;

/// Time between two bursts that goes to a flush: what the smallest ring in use (256 packets) takes in at 10
/// million packets a second is 25 µs.
const TURN: Nanos = Nanos(10_000);

/// Megaflows between two looks at the clock.
const STEP: usize = 8;

impl Worker {
    /// Gives some time to a flush, if somebody waits for it. Says whether anybody did.
    #[inline]
    pub(super) fn flush_stats(&mut self) -> bool {
        let asked = !self.flushes.asked.is_empty() || !self.flushes.waiting.is_empty();
        if asked {
            self.flush_for(TURN);
        }
        asked
    }

    #[cold]
    fn flush_for(&mut self, time: Nanos) {
        if self.flushes.waiting.is_empty() {
            self.flushes.waiting.append(&mut self.flushes.asked);
            self.tiers.caches.begin_flush();
            self.tiers.table_walk.begin_flush();
        }
        let start = Ticks::now();
        self.time.now = self.time.clock.at(start);
        while !self.flush_some(STEP) {
            let taken = Ticks::now().since(start) as f64 * self.time.clock.nanos_per_tick;
            if taken > time.0 as f64 {
                return;
            }
        }
        let snapshot = self.snapshot();
        for answer in self.flushes.waiting.drain(..) {
            // Who does not wait any more is not told.
            let _ = answer.send(snapshot.clone());
        }
    }

    fn flush_some(&mut self, most: usize) -> bool {
        self.tiers.caches.flush_some(most, &self.pipeline)
            && self.tiers.table_walk.flush_some(most, &self.pipeline.table_counts, self.time.now)
    }

    /// Flushes everything, at the end.
    pub(super) fn last_flush(&mut self) -> Snapshot {
        self.tiers.caches.begin_flush();
        self.tiers.table_walk.begin_flush();
        while !self.flush_some(usize::MAX / 2) {}
        let last = self.snapshot();
        for answer in self.flushes.waiting.drain(..).chain(self.flushes.asked.drain(..)) {
            let _ = answer.send(last.clone());
        }
        last
    }

    /// Counts each port's megaflows; those of ports that have gone are nobody's.
    fn report_ports(&mut self) {
        let Self { tiers, counters, pipeline, .. } = self;
        counters.ports.iter_mut().for_each(|port| port.megaflows = 0);
        for (port, megaflows) in tiers.caches.ports() {
            let place = pipeline.ports.get(&port).map(|info| usize::from(info.index));
            if let Some(counts) = place.and_then(|place| counters.ports.get_mut(place)) {
                counts.megaflows = megaflows;
            }
        }
    }

    /// Copies the ledger.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.time.settle_busy(&mut self.counters);
        self.tiers.caches.report(&mut self.counters.caches);
        self.report_ports();
        self.report_hints();
        self.counters.caches.cleared = self.tiers.table_walk.cleared();
        self.counters.caches.edges = self.tiers.table_walk.len() as u64;
        self.counters.caches.memory += self.tiers.table_walk.memory() as u64;
        Snapshot { counters: self.counters.clone(), services: self.services.report() }
    }
}
