//! Asking for trials of one purpose, one after the other: the observer is told of each, and what a
//! trial costs beside its load is learnt for the estimate of what is left.

use crate::observe::{Next, Observer, Remaining};
use weir_trial::run::Purpose;
use weir_trial::{ConnectionSpec, Control, KeptTrial, Measurer, TrialSpec};
use weir_units::Nanos;

/// A method's hand on the measurer.
pub(crate) struct Asker<'a, M, O> {
    measurer: &'a mut M,
    observer: &'a mut O,
    purpose: Purpose,
    /// Numbers of the trials asked for, in order.
    sequences: Vec<u32>,
    /// Set-up, drain and accounting of the latest trial.
    overhead: Nanos,
}

impl<'a, M: Measurer, O: Observer> Asker<'a, M, O> {
    pub(crate) fn new(measurer: &'a mut M, observer: &'a mut O, purpose: Purpose) -> Self {
        Self { measurer, observer, purpose, sequences: Vec::new(), overhead: Nanos(0) }
    }

    /// Runs a trial. `left` is what is left with it: trials, and their time under load.
    pub(crate) fn ask(&mut self, spec: TrialSpec, left: Remaining) -> Result<KeptTrial, M::Error> {
        self.ask_under(spec, left, None)
    }

    /// The same with a controller connected to the device, where one is named.
    pub(crate) fn ask_under(
        &mut self,
        spec: TrialSpec,
        left: Remaining,
        control: Option<Control>,
    ) -> Result<KeptTrial, M::Error> {
        let time = left.time.0.saturating_add(self.overhead.0.saturating_mul(u64::from(left.trials)));
        let remaining = Remaining { trials: left.trials, time: Nanos(time) };
        self.observer.next(&Next { purpose: self.purpose, spec, remaining });
        let kept = match control {
            None => self.measurer.measure(self.purpose, spec)?,
            Some(control) => self.measurer.measure_under(self.purpose, spec, control)?,
        };
        self.observer.trial(self.purpose, &kept);
        self.overhead = kept.result.overhead;
        self.sequences.push(kept.sequence);
        Ok(kept)
    }

    /// The same with connections in place of packets.
    pub(crate) fn ask_connections(
        &mut self,
        asked: ConnectionSpec,
        left: Remaining,
    ) -> Result<KeptTrial, M::Error> {
        self.observer.next(&Next { purpose: self.purpose, spec: asked.trial(), remaining: left });
        let kept = self.measurer.measure_connections(self.purpose, asked)?;
        self.observer.trial(self.purpose, &kept);
        self.sequences.push(kept.sequence);
        Ok(kept)
    }

    /// Numbers of the trials asked for, in order.
    pub(crate) fn into_sequences(self) -> Vec<u32> {
        self.sequences
    }

    /// Sends nothing for so long.
    pub(crate) fn rest(&mut self, time: Nanos) -> Result<(), M::Error> {
        self.measurer.rest(time)
    }
}
