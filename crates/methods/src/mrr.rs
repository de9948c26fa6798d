//! Maximum receive rate (FD.io CSIT's MRR): what comes out while the greatest load goes in.
//!
//! A rate under overload, not a throughput: it says nothing about loss. Some trials of equal length
//! at one load; the forwarded rate of each, their mean and their sample standard deviation.

use crate::compare::gap::centre;
use crate::compare::numbers::{Numbers, Quantity, began};
use crate::compare::validity::{Objection, of_result, of_trial};
use crate::compare::{Better, Found, Of, Unit};
use crate::mlrsearch::SearchConfig;
use crate::observe::{Next, Observer, Remaining};
use crate::registry::Stored;
use crate::repeat::Spread;
use crate::stored::forwarded_rates;
use crate::verify::{Derived, Named, rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{MrrResult, Point, PointResult, Purpose, StoredTrial};
use weir_trial::{Measurer, TrialSpec};
use weir_units::{Nanos, Pps};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mrr {
    /// Trials; at least 1.
    pub trials: u32,
    /// Length of each.
    pub duration: Nanos,
    /// Load offered, over all directions. The `fed` wiring ignores it.
    pub load: Pps,
}

/// Forwarded rates under the greatest load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MrrOutcome {
    /// Load offered; nothing where no tester offered one (the `fed` wiring).
    pub load: Option<Pps>,
    /// Forwarded rate of each trial.
    pub rates: Vec<Pps>,
    /// Median, mean, deviation and interval of the rates.
    pub spread: Spread,
    /// TSC cycles per packet of the DUT's forwarding threads: median of the trials that have them.
    pub cycles_per_packet: Option<f64>,
}

impl Mrr {
    /// CSIT's numbers: ten trials of one second.
    pub fn standard(load: Pps) -> Self {
        Self { trials: 10, duration: Nanos(Nanos::PER_SECOND), load }
    }

    /// Runs the trials. Zero trials are taken for one.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<MrrOutcome, M::Error> {
        let spec = TrialSpec { load: self.load, duration: self.duration };
        let trials = self.trials.max(1);
        let (mut rates, mut cycles) = (Vec::new(), Vec::new());
        let (mut offered, mut cost) = (false, self.duration);
        for done in 0..trials {
            let left = trials - done;
            let time = Nanos(cost.0.saturating_mul(u64::from(left)));
            observer.next(&Next { purpose: Purpose::Mrr, spec, remaining: Remaining { trials: left, time } });
            let kept = measurer.measure(Purpose::Mrr, spec)?;
            observer.trial(Purpose::Mrr, &kept);
            let result = kept.result;
            cost = result.cost();
            offered |= !result.directions.is_empty();
            rates.push(result.forwarded_rate());
            cycles.extend(result.dut.and_then(|dut| dut.cycles_per_packet));
        }
        let values: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
        Ok(MrrOutcome {
            load: offered.then_some(self.load),
            spread: Spread::of(&values).expect("at least one trial was run"),
            rates,
            cycles_per_packet: Spread::of(&cycles).map(|spread| spread.median),
        })
    }
}

impl MrrOutcome {
    /// The outcome in the form it is stored in. The deviation of a single trial is stored as zero.
    pub fn point_result(&self) -> PointResult {
        PointResult::Mrr(MrrResult {
            load: self.load,
            rates: self.rates.clone(),
            mean: Pps(self.spread.mean),
            deviation: Pps(self.spread.deviation.unwrap_or(0.0)),
            cycles_per_packet: self.cycles_per_packet,
            limit: None,
        })
    }
}

impl Stored for MrrResult {
    /// The forwarded rates, from their trials.
    fn together(point: &Point, _search: Option<&SearchConfig>) -> Vec<Derived> {
        forwarded_rates(point).into_iter().map(|(result, trials)| derived(result, &trials)).collect()
    }

    fn holds(&self, _trials: &mut Named<'_>) -> bool {
        false
    }

    /// One repeat's trials are the numbers; of several repeats each counts once, by its centre, as
    /// trials of one repeat have more in common than the repeats have.
    fn compared(point: &Point, found: &mut Found) {
        let repeats = forwarded_rates(point);
        for (result, trials) in &repeats {
            let name = "forwarded rate".to_owned();
            let numbers = found.numbers(Quantity { name, unit: Unit::Pps, better: Better::Higher });
            numbers.load = result.load;
            if let Some(Objection::NotThis(why)) = of_result(result.limit.as_ref(), trials, &[]) {
                numbers.not_this.get_or_insert(why);
            }
            let mut own = Numbers::default();
            for (place, rate) in result.rates.iter().enumerate() {
                let trial = trials.get(place);
                let began = trial.map_or(0, |trial| trial.started_ms);
                own.take(Some(rate.0), began, trial.and_then(|trial| of_trial(trial)));
            }
            let of_own = own.values();
            numbers.spoilt = own.spoilt.or(numbers.spoilt.take());
            if repeats.len() == 1 {
                numbers.slots.extend(own.slots);
            } else {
                numbers.of = Of::RepeatCentre;
                numbers.slots.push((centre(&of_own), began(trials)));
            }
            if of_own.iter().any(|rate| *rate <= 0.0) {
                numbers.not_this.get_or_insert("nothing was forwarded".to_owned());
            }
        }
    }
}

/// A stored result derived again from its trials.
fn derived(stored: &MrrResult, trials: &[&StoredTrial]) -> Derived {
    let MrrResult { rates, mean, .. } = stored;
    let mut differs = Vec::new();
    if trials.len() != rates.len() {
        differs.push(format!("{} rates of {} trials", rates.len(), trials.len()));
    }
    for (stored, trial) in rates.iter().zip(trials) {
        let now = trial.result.forwarded_rate();
        differs.extend(rate(&format!("rate of trial {}", trial.sequence), Some(now), Some(*stored)));
    }
    let values: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
    let now = Spread::of(&values).map(|spread| Pps(spread.mean));
    differs.extend(rate("mean", now, Some(*mean)));
    Derived { what: "mrr".to_owned(), differs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_simulated::SimulatedDut;
    use weir_trial::{DutReading, KeptTrial, TrialResult};
    use weir_units::Ratio;

    #[test]
    fn the_mean_rate_under_overload_is_the_capacity() {
        let mut device = SimulatedDut { noise: Ratio(0.02), queue: 0, ..SimulatedDut::default() }.start();
        let outcome = Mrr::standard(Pps(20e6)).run(&mut device, &mut Silent).unwrap();
        assert_eq!((outcome.rates.len(), outcome.load), (10, Some(Pps(20e6))));
        assert!((outcome.spread.mean / 5e6 - 1.0).abs() < 0.02, "{outcome:?}");
        let deviation = outcome.spread.deviation.unwrap() / 5e6;
        assert!((0.01..0.04).contains(&deviation), "{deviation}");
    }

    /// A dataplane that feeds itself: no tester at the wire.
    struct Fed(u64);

    impl Measurer for Fed {
        type Error = std::convert::Infallible;

        fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            self.0 += 1;
            let dut = DutReading {
                sent: self.0 * 1000,
                elapsed: spec.duration,
                cycles_per_packet: Some(self.0 as f64),
                ..DutReading::default()
            };
            let result = TrialResult { dut: Some(dut), ..TrialResult::new(spec) };
            Ok(KeptTrial { sequence: self.0 as u32, result })
        }
    }

    #[test]
    fn a_fed_device_has_no_load_and_the_median_of_its_cycles() {
        let mrr = Mrr { trials: 3, duration: Nanos(Nanos::PER_SECOND), load: Pps(1.0) };
        let outcome = mrr.run(&mut Fed(0), &mut Silent).unwrap();
        assert_eq!(outcome.load, None);
        assert_eq!(outcome.rates, [Pps(1000.0), Pps(2000.0), Pps(3000.0)]);
        assert_eq!(outcome.cycles_per_packet, Some(2.0));
    }
}
