//! Frame loss rate (RFC 2544, section 26.3): loss against load, from the line rate down.
//!
//! The first trial offers 100 % of the line rate, each further one a step less, until two successive
//! trials lose nothing. The RFC allows steps of at most 10 % and trials of at least 60 s; shorter
//! trials are reported with a warning. A packet that the tester could not send counts as lost, and the
//! verdict on its trial says so.

use crate::ask::Asker;
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::verify::{Named, SAME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{FrameLossResult, LossStep, PointResult, Purpose};
use weir_trial::{KeptTrial, Measurer, TrialSpec};
use weir_units::{Nanos, Pps, Ratio};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameLoss {
    /// Distance of two loads, as a share of the line rate; at most [`Self::WIDEST_STEP`].
    pub step: Ratio,
    /// Length of each trial.
    pub duration: Nanos,
}

/// Loss at the loads that were offered.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameLossOutcome {
    /// The line rate over all directions.
    pub line: Pps,
    /// The trials, in the order offered.
    pub steps: Vec<LossStep>,
    /// Share of the first of two successive trials without loss.
    pub zero_loss: Option<Ratio>,
}

impl FrameLoss {
    /// The widest step that RFC 2544 allows (section 26.3).
    pub const WIDEST_STEP: Ratio = Ratio(0.1);
    /// The narrowest step that makes sense: a hundred loads.
    pub const NARROWEST_STEP: Ratio = Ratio(0.01);
    /// Trial duration that RFC 2544 asks for (section 24).
    pub const RFC2544_TRIAL: Nanos = Nanos(60 * Nanos::PER_SECOND);

    /// What a reader of the results must be told.
    pub fn warnings(&self) -> Vec<String> {
        let short = self.duration < Self::RFC2544_TRIAL;
        let (duration, asked) = (self.duration, Self::RFC2544_TRIAL);
        let warning =
            || format!("frame loss: trials of {duration} are shorter than RFC 2544's {asked} (section 24)");
        short.then(warning).into_iter().collect()
    }

    /// Most trials and their time under load.
    pub fn most(&self) -> Remaining {
        let trials = self.shares().count() as u32;
        Remaining { trials, time: Nanos(self.duration.0.saturating_mul(u64::from(trials))) }
    }

    /// Shares of the line rate, falling from 100 %.
    fn shares(&self) -> impl Iterator<Item = Ratio> {
        let step = self.step.0.clamp(Self::NARROWEST_STEP.0, Self::WIDEST_STEP.0);
        (0..).map(move |n| Ratio(1.0 - f64::from(n) * step)).take_while(move |share| share.0 > step * 1e-6)
    }

    /// Runs the trials. `line` is the line rate over all directions.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        line: Pps,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<FrameLossOutcome, M::Error> {
        let mut asker = Asker::new(measurer, observer, Purpose::FrameLoss);
        let mut left = self.most();
        let mut outcome = FrameLossOutcome { line, steps: Vec::new(), zero_loss: None };
        let mut last_clean = None;
        for share in self.shares() {
            let load = Pps(line.0 * share.0);
            let KeptTrial { sequence, result } =
                asker.ask(TrialSpec { load, duration: self.duration }, left)?;
            left.trials -= 1;
            left.time = Nanos(left.time.0 - self.duration.0);
            outcome.steps.push(LossStep { share, load, loss_ratio: result.loss_ratio(), trial: sequence });
            let clean = result.counted().lost() == 0;
            match last_clean.filter(|_| clean) {
                Some(first) => {
                    outcome.zero_loss = Some(first);
                    break;
                }
                None => last_clean = clean.then_some(share),
            }
        }
        Ok(outcome)
    }
}

impl FrameLossOutcome {
    /// The outcome in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        PointResult::FrameLoss(FrameLossResult {
            line: self.line,
            steps: self.steps.clone(),
            zero_loss: self.zero_loss,
            limit: None,
        })
    }
}

impl Stored for FrameLossResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        let mut losses = Vec::new();
        for step in &self.steps {
            if let Some(trial) = trials.trial(step.trial, Some(step.load)) {
                losses.push((trial.result.loss_ratio(), step));
            }
        }
        for (now, step) in losses.iter().filter(|(now, step)| (now.0 - step.loss_ratio.0).abs() > SAME) {
            let (number, stored) = (step.trial, step.loss_ratio);
            trials.differs.push(format!("loss of trial {number}: {now} by its counts, {stored} stored"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_simulated::SimulatedDut;

    const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

    fn measured(dut: SimulatedDut, step: f64) -> FrameLossOutcome {
        let method = FrameLoss { step: Ratio(step), duration: SECOND };
        method.run(Pps(10e6), &mut dut.start(), &mut Silent).unwrap()
    }

    #[test]
    fn loss_falls_with_the_load_until_two_trials_lose_nothing() {
        let outcome = measured(SimulatedDut { capacity: Pps(5e6), queue: 0, ..Default::default() }, 0.1);
        let shares: Vec<i64> =
            outcome.steps.iter().map(|step| (step.share.0 * 100.0).round() as i64).collect();
        assert_eq!(shares, [100, 90, 80, 70, 60, 50, 40]);
        for LossStep { share, load, loss_ratio: loss, .. } in &outcome.steps {
            assert!((load.0 / 10e6 - share.0).abs() < 1e-9);
            assert!((loss.0 - (1.0 - 0.5 / share.0).max(0.0)).abs() < 1e-3, "{share}: {loss}");
        }
        assert!((outcome.zero_loss.unwrap().0 - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_device_as_fast_as_the_line_takes_two_trials() {
        let outcome = measured(SimulatedDut { capacity: Pps(20e6), ..Default::default() }, 0.1);
        assert_eq!((outcome.steps.len(), outcome.zero_loss), (2, Some(Ratio(1.0))));
    }

    #[test]
    fn a_device_that_always_loses_is_offered_every_step_and_has_no_end() {
        let outcome = measured(SimulatedDut { loss: Ratio(0.01), ..Default::default() }, 0.05);
        assert_eq!((outcome.steps.len(), outcome.zero_loss), (20, None));
        assert!(outcome.steps.iter().all(|step| step.loss_ratio.0 >= 0.009));
    }

    #[test]
    fn one_clean_trial_between_two_lossy_ones_does_not_end_it() {
        /// Loses nothing at 90 %, and again from 60 % down.
        struct Odd;
        impl Measurer for Odd {
            type Error = std::convert::Infallible;
            fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
                let percent = (spec.load.0 / 1e5).round() as u64;
                let lost = u64::from(percent != 90 && percent > 60);
                let counts =
                    weir_trial::DirectionCounts { intended: 10, received: 10 - lost, ..Default::default() };
                let result = weir_trial::TrialResult {
                    directions: vec![counts],
                    ..weir_trial::TrialResult::new(spec)
                };
                Ok(KeptTrial { sequence: 0, result })
            }
        }
        let method = FrameLoss { step: Ratio(0.1), duration: SECOND };
        let outcome = method.run(Pps(10e6), &mut Odd, &mut Silent).unwrap();
        assert_eq!(outcome.steps.len(), 6);
        assert!((outcome.zero_loss.unwrap().0 - 0.6).abs() < 1e-9);
    }

    #[test]
    fn steps_carry_the_numbers_of_their_trials() {
        let outcome = measured(SimulatedDut { capacity: Pps(20e6), ..Default::default() }, 0.1);
        let PointResult::FrameLoss(FrameLossResult { steps, .. }) = outcome.point_result() else { panic!() };
        assert_eq!(steps.iter().map(|step| step.trial).collect::<Vec<_>>(), [0, 1]);
    }
}
