//! Asking for trials of one purpose, one after the other: the observer is told of each, and what a
//! trial costs beside its load is learnt for the estimate of what is left.

use crate::observe::{Next, Observer, Remaining};
use weir_trial::run::Purpose;
use weir_trial::{Measurer, TrialResult, TrialSpec};
use weir_units::Nanos;

/// A method's hand on the measurer.
pub(crate) struct Asker<'a, M, O> {
    measurer: &'a mut M,
    observer: &'a mut O,
    purpose: Purpose,
    asked: usize,
    /// Set-up, drain and accounting of the latest trial.
    overhead: Nanos,
}

impl<'a, M: Measurer, O: Observer> Asker<'a, M, O> {
    pub(crate) fn new(measurer: &'a mut M, observer: &'a mut O, purpose: Purpose) -> Self {
        Self { measurer, observer, purpose, asked: 0, overhead: Nanos(0) }
    }

    /// Runs a trial. `left` is what is left with it: trials, and their time under load. Returns the
    /// trial's place among those asked for, from 0, and what came of it.
    pub(crate) fn ask(&mut self, spec: TrialSpec, left: Remaining) -> Result<(usize, TrialResult), M::Error> {
        let time = left.time.0.saturating_add(self.overhead.0.saturating_mul(u64::from(left.trials)));
        let remaining = Remaining { trials: left.trials, time: Nanos(time) };
        self.observer.next(&Next { purpose: self.purpose, spec, remaining });
        let result = self.measurer.measure(spec)?;
        self.observer.trial(self.purpose, &result);
        self.overhead = result.overhead;
        self.asked += 1;
        Ok((self.asked - 1, result))
    }

    /// Sends nothing for so long.
    pub(crate) fn rest(&mut self, time: Nanos) -> Result<(), M::Error> {
        self.measurer.rest(time)
    }
}

/// The number under which a trial was kept, by its place among those asked for.
pub(crate) fn numbered(sequences: &[u32], asked: usize) -> Option<u32> {
    sequences.get(asked).copied()
}
