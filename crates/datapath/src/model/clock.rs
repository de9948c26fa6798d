//! Time since the datapath started, by the time stamp counter.

use weir_cpu::Ticks;
use weir_units::Nanos;

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
