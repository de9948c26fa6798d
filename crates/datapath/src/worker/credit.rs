//! Crediting: what megaflows, targets and edges counted goes to the entries, tables and groups it belongs to.
//!
//! Packets count where they are anyway; what was counted is added up when somebody asks. That takes some cache
//! misses for each megaflow that was used, milliseconds for ten thousand, which packets cannot wait for: a
//! ring overflows meanwhile. So it is done a little at a time between bursts, and the answer is given when
//! all that was counted before the question is credited. Who does not ask about entries, tables or groups gets the
//! ledger without that: with a million flows it would cost each of their packets some 70 cycles if somebody looked ten
//! times a second.
//!
//! Threads: the worker's.

use crate::worker::Worker;
use crate::worker::command::Snapshot;
use std::sync::mpsc::Sender;
use weir_dpdk::Ticks;
use weir_units::Nanos;

/// Time between two bursts that goes to crediting: what the smallest ring in use (256 packets) takes in at 10
/// million packets a second is 25 µs.
const TURN: Nanos = Nanos(10_000);

/// Megaflows between two looks at the clock.
const STEP: usize = 8;

/// Who asked, and waits for the answer.
#[derive(Default)]
pub(super) struct Accounts {
    /// Those whose question came since the round at hand began.
    asked: Vec<Sender<Snapshot>>,
    /// Those who get their answer at its end.
    waiting: Vec<Sender<Snapshot>>,
}

impl Accounts {
    /// Somebody wants to know.
    pub(super) fn ask(&mut self, answer: Sender<Snapshot>) {
        self.asked.push(answer);
    }
}

impl Worker {
    /// Gives some time to crediting, if somebody waits for it. Says whether anybody did.
    #[inline]
    pub(crate) fn credit(&mut self) -> bool {
        let asked = !self.accounts.asked.is_empty() || !self.accounts.waiting.is_empty();
        if asked {
            self.credit_for(TURN);
        }
        asked
    }

    #[cold]
    fn credit_for(&mut self, time: Nanos) {
        if self.accounts.waiting.is_empty() {
            self.accounts.waiting.append(&mut self.accounts.asked);
            self.tiers.caches.begin_crediting();
            self.tiers.direct.begin_crediting();
        }
        let start = Ticks::now();
        self.time.now = self.time.clock.at(start);
        while !self.credit_some(STEP) {
            let taken = Ticks::now().since(start) as f64 * self.time.clock.nanos_per_tick;
            if taken > time.0 as f64 {
                return;
            }
        }
        let snapshot = self.snapshot();
        for answer in self.accounts.waiting.drain(..) {
            // Who does not wait any more is not told.
            let _ = answer.send(snapshot.clone());
        }
    }

    fn credit_some(&mut self, most: usize) -> bool {
        self.tiers.caches.credit_some(most, &self.pipeline)
            && self.tiers.direct.credit_some(most, &self.pipeline.table_counts, self.time.now)
    }

    /// Credits everything, at the end.
    pub(super) fn last_accounts(&mut self) -> Snapshot {
        self.tiers.caches.begin_crediting();
        self.tiers.direct.begin_crediting();
        while !self.credit_some(usize::MAX / 2) {}
        let last = self.snapshot();
        for answer in self.accounts.waiting.drain(..).chain(self.accounts.asked.drain(..)) {
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
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.time.settle_busy(&mut self.counters);
        self.tiers.caches.report(&mut self.counters.caches);
        self.report_ports();
        self.report_hints();
        self.counters.caches.edges = self.tiers.direct.len() as u64;
        self.counters.caches.memory += self.tiers.direct.memory() as u64;
        Snapshot { counters: self.counters.clone(), services: self.services.report() }
    }
}
