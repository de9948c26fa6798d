//! Soak: one load for minutes to hours, with the time of each loss.
//!
//! The load is offered as trials of a slice each, one behind the other, so that each slice is kept
//! with its own time, counts and latencies. Between slices the tester drains and counts and the
//! load pauses: [`Soaked::under_load`] says for how much of the time, and longer slices make it
//! less. Slices that the machine or the tester spoilt ([`weir_trial::judge`]) say nothing about the device:
//! they are counted, and left out of every number.

use crate::ask::Asker;
use crate::latency::LoadSpec;
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::repeat::Spread;
use crate::verify::Named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{Drift, PointResult, Purpose, SoakResult, Soaked};
use weir_trial::{KeptTrial, Latency, Measurer, TrialSpec, judge};
use weir_units::{Nanos, Pps, Ratio};

/// Slices with latencies from which first and last quarter are compared.
const DRIFT_SLICES: usize = 8;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soak {
    /// The load.
    pub load: LoadSpec,
    /// Time under load: whole slices, at least one.
    pub time: Nanos,
    /// Length of a slice.
    pub slice: Nanos,
}

/// What is kept of a slice; its counts and histogram stand in its trial.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Number of its trial.
    trial: u32,
    invalid: bool,
    intended: u64,
    lost: u64,
    /// Median and 99th percentile.
    delay: Option<(Nanos, Nanos)>,
}

/// Every slice, and the time they took.
#[derive(Clone, Debug)]
pub struct SoakOutcome {
    label: String,
    load: Pps,
    length: Nanos,
    slices: Vec<Slice>,
    /// Time under load, and with draining and counting.
    busy: Nanos,
    whole: Nanos,
}

impl Soak {
    /// Slices that make up the time.
    pub fn slices(&self) -> u32 {
        u32::try_from(self.time.0.div_ceil(self.slice.0.max(1)).max(1)).unwrap_or(u32::MAX)
    }

    /// Trials and their time under load.
    pub fn most(&self) -> Remaining {
        let trials = self.slices();
        Remaining { trials, time: Nanos(self.slice.0.saturating_mul(u64::from(trials))) }
    }

    /// Offers the load, which was resolved to `load`, slice by slice.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        load: Pps,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<SoakOutcome, M::Error> {
        let mut asker = Asker::new(measurer, observer, Purpose::Soak);
        let mut outcome = SoakOutcome {
            label: self.load.to_string(),
            load,
            length: self.slice,
            slices: Vec::new(),
            busy: Nanos(0),
            whole: Nanos(0),
        };
        let mut left = self.most();
        while left.trials > 0 {
            let kept = asker.ask(TrialSpec { load, duration: self.slice }, left)?;
            left.trials -= 1;
            left.time = Nanos(left.time.0.saturating_sub(self.slice.0));
            outcome.add(&kept);
        }
        Ok(outcome)
    }
}

impl SoakOutcome {
    fn add(&mut self, KeptTrial { sequence, result }: &KeptTrial) {
        let counted = result.counted();
        let delay = |latency: &Latency| (latency.percentiles[0], latency.percentiles[2]);
        self.slices.push(Slice {
            trial: *sequence,
            invalid: judge(result).is_worth_repeating(),
            intended: counted.intended(),
            lost: counted.lost(),
            delay: result.latency.as_ref().map(delay),
        });
        self.busy.0 += result.spec.duration.0;
        self.whole.0 += result.cost().0;
    }

    /// The longest time under load in a row without a loss or a spoilt slice.
    fn longest_clean(&self) -> Nanos {
        let (mut longest, mut present) = (0, 0);
        for slice in &self.slices {
            present = if slice.invalid || slice.lost > 0 { 0 } else { present + 1 };
            longest = longest.max(present);
        }
        Nanos(self.length.0.saturating_mul(longest))
    }

    /// Medians of the first and the last quarter of the slices that have latencies.
    fn drift(&self) -> Option<Drift> {
        let delays: Vec<_> =
            self.slices.iter().filter(|slice| !slice.invalid).filter_map(|slice| slice.delay).collect();
        if delays.len() < DRIFT_SLICES {
            return None;
        }
        let quarter = delays.len() / 4;
        let median = |part: &[(Nanos, Nanos)], pick: fn(&(Nanos, Nanos)) -> Nanos| {
            let numbers: Vec<f64> = part.iter().map(|delay| pick(delay).0 as f64).collect();
            Nanos(Spread::of(&numbers).map_or(0.0, |spread| spread.median).round() as u64)
        };
        let (first, last) = (&delays[..quarter], &delays[delays.len() - quarter..]);
        Some(Drift {
            p50_first: median(first, |delay| delay.0),
            p50_last: median(last, |delay| delay.0),
            p99_first: median(first, |delay| delay.1),
            p99_last: median(last, |delay| delay.1),
        })
    }

    /// The outcome in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        let those = |pick: fn(&Slice) -> bool| {
            self.slices.iter().filter(|slice| pick(slice)).map(|slice| slice.trial).collect::<Vec<_>>()
        };
        let counted = || self.slices.iter().filter(|slice| !slice.invalid);
        PointResult::Soak(SoakResult {
            label: self.label.clone(),
            load: self.load,
            slice: self.length,
            found: Soaked {
                trials: those(|_| true),
                invalid: those(|slice| slice.invalid),
                lossy: those(|slice| !slice.invalid && slice.lost > 0),
                intended: counted().map(|slice| slice.intended).sum(),
                lost: counted().map(|slice| slice.lost).sum(),
                longest_clean: self.longest_clean(),
                under_load: Ratio(self.busy.0 as f64 / self.whole.0.max(1) as f64),
                drift: self.drift(),
            },
            limit: None,
        })
    }
}

impl Stored for SoakResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        let found = &self.found;
        let (mut intended, mut lost) = (0, 0);
        for number in &found.trials {
            let trial = trials.trial(*number, None);
            if let Some(trial) = trial.filter(|_| !found.invalid.contains(number)) {
                let total = trial.result.total();
                (intended, lost) = (intended + total.intended, lost + total.lost());
            }
        }
        if (intended, lost) != (found.intended, found.lost) {
            trials.differs.push(format!(
                "its slices lost {lost} of {intended} packets, stored are {} of {}",
                found.lost, found.intended
            ));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_simulated::SimulatedDut;
    use weir_trial::{DirectionCounts, TrialResult};
    use weir_units::LatencyHistogram;

    const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

    fn soak(slices: u64) -> Soak {
        Soak { load: "1Mpps".parse().unwrap(), time: Nanos(SECOND.0 * slices), slice: SECOND }
    }

    fn found(result: PointResult) -> Soaked {
        match result {
            PointResult::Soak(SoakResult { found, .. }) => found,
            other => panic!("not a soak: {other:?}"),
        }
    }

    /// Slices by a list: packets lost, packets unsent, delay in microseconds.
    struct Listed(Vec<(u64, u64, u64)>, u32);

    impl Listed {
        /// Numbered from 100.
        fn new(slices: Vec<(u64, u64, u64)>) -> Self {
            Self(slices, 100)
        }
    }

    impl Measurer for Listed {
        type Error = std::convert::Infallible;

        fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            self.1 += 1;
            let (lost, unsent, delay) = self.0.remove(0);
            let mut histogram = LatencyHistogram::default();
            histogram.record_many(Nanos(delay * 1000), 100);
            let counts = DirectionCounts {
                intended: 1_000_000,
                sent: 1_000_000 - unsent,
                unsent,
                received: 1_000_000 - unsent - lost,
                ..Default::default()
            };
            let result = TrialResult {
                directions: vec![counts],
                latency: Latency::of(&histogram),
                overhead: Nanos(SECOND.0 / 4),
                ..TrialResult::new(spec)
            };
            Ok(KeptTrial { sequence: self.1 - 1, result })
        }
    }

    #[test]
    fn each_loss_has_its_slice_and_spoilt_slices_count_nowhere() {
        let mut slices = vec![(0, 0, 10); 12];
        slices[2] = (7, 0, 10);
        slices[8] = (0, 500_000, 10);
        let outcome = soak(12).run(Pps(1e6), &mut Listed::new(slices), &mut Silent).unwrap();
        let found = found(outcome.point_result());
        assert_eq!((found.lossy, found.invalid), (vec![102], vec![108]));
        assert_eq!((found.intended, found.lost), (11_000_000, 7));
        // Slices 3 to 7, between the loss and the spoilt slice.
        assert_eq!(found.longest_clean, Nanos(5 * SECOND.0));
        assert!((found.under_load.0 - 0.8).abs() < 1e-9, "{}", found.under_load);
    }

    #[test]
    fn latency_that_creeps_up_shows_as_drift() {
        let slices = (0..40).map(|n| (0, 0, 100 + n)).collect();
        let outcome = soak(40).run(Pps(1e6), &mut Listed::new(slices), &mut Silent).unwrap();
        let drift = found(outcome.point_result()).drift.unwrap();
        let micros = |time: Nanos| (time.0 as f64 / 1e3).round() as u64;
        assert!((104..=106).contains(&micros(drift.p50_first)), "{drift:?}");
        assert!((134..=136).contains(&micros(drift.p99_last)), "{drift:?}");
        let few = soak(3).run(Pps(1e6), &mut Listed::new(vec![(0, 0, 1); 3]), &mut Silent).unwrap();
        assert_eq!(found_drift(few), None);
    }

    fn found_drift(outcome: SoakOutcome) -> Option<Drift> {
        found(outcome.point_result()).drift
    }

    #[test]
    fn a_disturbed_device_loses_in_about_as_many_slices_as_it_is_disturbed() {
        let dut = SimulatedDut { disturbed: Ratio(0.1), queue: 100, ..Default::default() };
        let outcome = soak(500).run(Pps(1e6), &mut dut.start(), &mut Silent).unwrap();
        let found = found(outcome.point_result());
        assert!((30..=70).contains(&found.lossy.len()), "{}", found.lossy.len());
        assert_eq!(found.lost, found.lossy.len() as u64 * (5_000 - 100));
        assert_eq!(found.trials.len(), 500);
    }

    #[test]
    fn a_time_that_is_no_multiple_of_the_slice_is_rounded_up() {
        assert_eq!(Soak { time: Nanos(SECOND.0 * 5 / 2), ..soak(1) }.slices(), 3);
        assert_eq!(Soak { time: Nanos(0), ..soak(1) }.slices(), 1);
    }
}
