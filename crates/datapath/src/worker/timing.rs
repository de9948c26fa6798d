//! A worker's time: what its clock says, how long it was busy, and what the steps of a burst took.
//!
//! Cost: nothing per packet; one burst of [`SAMPLE`] reads the clock at each step. Threads: the worker's.

use crate::stats::counters::Step;
use crate::worker::Worker;
use weir_dpdk::Ticks;
use weir_units::Nanos;

/// Of so many bursts one is timed step by step.
const SAMPLE: u64 = 64;

/// How a clock's ticks become time since the datapath started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: Ticks,
    pub(crate) nanos_per_tick: f64,
}

impl Clock {
    #[inline]
    pub(crate) fn at(&self, ticks: Ticks) -> Nanos {
        Nanos((ticks.since(self.start) as f64 * self.nanos_per_tick) as u64)
    }
}

impl Worker {
    /// Reads the clock when work begins or ends, so that under full load it is never read.
    #[inline]
    pub(crate) fn clock_in(&mut self, busy: bool) {
        match (busy, self.busy_since) {
            (true, None) => {
                self.hinted.emulated = 0;
                self.busy_since = Some(Ticks::now());
            }
            (false, Some(_)) => {
                self.settle_busy();
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// Counts the cycles of the work at hand up to now, for whoever reads the ledger before it ends.
    pub(crate) fn settle_busy(&mut self) {
        let Some(begin) = self.busy_since else { return };
        let now = Ticks::now();
        let emulated = std::mem::take(&mut self.hinted.emulated);
        self.counters.busy_cycles += now.since(begin).saturating_sub(emulated);
        self.busy_since = Some(now);
    }

    #[inline]
    pub(crate) fn begin_timing(&mut self) {
        if self.counters.bursts.is_multiple_of(SAMPLE) {
            self.timing = Some(Ticks::now());
        }
    }

    /// Notes what a step took, when this burst is timed.
    #[inline]
    pub(crate) fn lap(&mut self, step: Step, packets: usize) {
        if let Some(before) = self.timing {
            let now = Ticks::now();
            self.counters.step(step, packets as u64, now.since(before));
            self.timing = Some(now);
        }
    }
}
