//! How much of a worker's time goes into ending what is over.
//!
//! Why by time: counted by rounds of the worker it would starve where rounds are long, which is under full load. The
//! TSC is read every few connections, so that a step ends soon after its time is over, whatever was in the caches.

use weir_cpu::Ticks;
use weir_units::Nanos;

/// Cycles of the TSC that a step takes, about: some 20 µs.
const CYCLES: u64 = 50_000;

/// From one step to the next: together, no more than about 2 % of a worker's time.
const EVERY: Nanos = Nanos(1_000_000);

/// A step that has begun.
#[derive(Debug)]
pub(crate) struct Step(Ticks);

impl Step {
    pub(crate) fn begin() -> Self {
        Self(Ticks::now())
    }

    /// Whether its time is not over.
    pub(crate) fn has_time(&self) -> bool {
        Ticks::now().since(self.0) < CYCLES
    }
}

/// When a worker swept last.
#[derive(Debug, Default)]
pub(crate) struct Pace(Nanos);

impl Pace {
    /// Whether it is time to sweep.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        let due = now.0.saturating_sub(self.0.0) >= EVERY.0;
        if due {
            self.0 = now;
        }
        due
    }
}
