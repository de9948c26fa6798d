//! A worker's time: what its clock says, how long it was busy, and what the steps of a burst took.
//!
//! Cost: nothing per packet; one burst of [`SAMPLE`] reads the clock at each step. Threads: the worker's.

use crate::model::clock::Clock;
use crate::stats::counters::{Counters, Step};
use weir_cpu::Ticks;
use weir_units::Nanos;

/// Of so many bursts one is timed step by step.
const SAMPLE: u64 = 64;

/// What time it is for a worker, and what it spends its time on.
pub(super) struct Time {
    pub(super) clock: Clock,
    /// As of the burst at hand.
    pub(super) now: Nanos,
    /// When the next round of what is due is to be, however many packets come.
    pub(super) due: Nanos,
    /// When the steps of the burst at hand are timed, the last reading.
    step: Option<Ticks>,
    /// Since when it has been busy, as far as that is not counted yet.
    busy_since: Option<Ticks>,
    /// Cycles since then that are not its work: emulation of what a port would do.
    apart: u64,
    /// Of a worker that shares its core, when it had the core again: what others do there is not its work.
    round: Option<Ticks>,
}

impl Time {
    /// `shares` is whether others have the core between two rounds ([`Self::come_back`]).
    pub(super) fn new(clock: Clock, shares: bool) -> Self {
        let round = shares.then(Ticks::now);
        Self { clock, now: Nanos(0), due: Nanos(0), step: None, busy_since: None, apart: 0, round }
    }

    /// Reads the clock.
    #[inline]
    pub(super) fn look(&mut self) {
        self.now = self.clock.at(Ticks::now());
    }

    /// Reads the clock when work begins or ends, so that under full load it is never read; where the core is shared, at
    /// the end of each round that found packets.
    #[inline]
    pub(super) fn clock_in(&mut self, busy: bool, counters: &mut Counters) {
        if let Some(begin) = self.round {
            if busy {
                counters.busy_cycles += Ticks::now().since(begin).saturating_sub(self.apart);
            }
            return;
        }
        match (busy, self.busy_since) {
            (true, None) => {
                self.apart = 0;
                self.busy_since = Some(Ticks::now());
            }
            (false, Some(_)) => {
                self.settle_busy(counters);
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// A round begins. Where the core is shared it was others' until now.
    #[inline]
    pub(super) fn come_back(&mut self) {
        if let Some(begin) = &mut self.round {
            *begin = Ticks::now();
            self.apart = 0;
        }
    }

    /// Counts the cycles of the work at hand up to now, for whoever reads the ledger before it ends.
    pub(super) fn settle_busy(&mut self, counters: &mut Counters) {
        let Some(begin) = self.busy_since else { return };
        let now = Ticks::now();
        let apart = std::mem::take(&mut self.apart);
        counters.busy_cycles += now.since(begin).saturating_sub(apart);
        self.busy_since = Some(now);
    }

    /// A burst is about to be received, which follows so many.
    #[inline]
    pub(super) fn begin_burst(&mut self, bursts: u64) {
        if bursts.is_multiple_of(SAMPLE) {
            self.step = Some(Ticks::now());
        }
    }

    /// Notes what a step took, when this burst is timed.
    #[inline]
    pub(super) fn lap(&mut self, step: Step, packets: usize, counters: &mut Counters) {
        if let Some(before) = self.step {
            let now = Ticks::now();
            counters.step(step, packets as u64, now.since(before));
            self.step = Some(now);
        }
    }

    /// The burst is done.
    #[inline]
    pub(super) fn end_burst(&mut self) {
        self.step = None;
    }

    /// These cycles count neither as a step's nor as the worker's work.
    pub(super) fn set_apart(&mut self, cycles: u64) {
        self.apart += cycles;
        if let Some(before) = &mut self.step {
            *before = Ticks(before.0 + cycles);
        }
    }
}
