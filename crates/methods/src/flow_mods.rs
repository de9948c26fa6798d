//! Changes of flow entries a second: how many a device takes while it forwards, and what that costs the load.
//!
//! Trials of one load in pairs: one with a controller that is connected and silent, one in which it adds, modifies and
//! deletes entries in batches, each with a barrier, as fast as the device takes them. The rate is that of changes
//! that came to their barrier; its interval is over the pairs. The cost is the loss of the second trial less that of
//! the first, pair by pair, so that a machine that drifts hits both. In both, packets are sent for one entry, which the
//! last change of some batches turns to another port: they say whether a barrier's reply was true
//! ([`weir_trial::changes`]).

use crate::ask::Asker;
use crate::compare::numbers::Quantity;
use crate::compare::validity::{Objection, of_result, of_trial};
use crate::compare::{Better, Found, Unit};
use crate::latency::LoadSpec;
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::verify::{Named, SAME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_trial::run::{ChangePair, FlowModsResult, Point, PointResult, Purpose};
use weir_trial::{ChangesMade, Control, Measurer, TrialResult, TrialSpec};
use weir_units::{Nanos, Pps};

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowMods {
    /// The load.
    pub load: LoadSpec,
    /// Changes before each barrier; at least 1.
    pub batch: u32,
    /// Pairs of trials; at least 1.
    pub pairs: u32,
    /// Length of each trial.
    pub duration: Nanos,
}

/// What came of the pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowModsOutcome {
    label: String,
    load: Pps,
    batch: u32,
    pairs: Vec<ChangePair>,
    changes: BTreeMap<u32, ChangesMade>,
}

impl FlowMods {
    /// Trials and their time under load.
    pub fn most(&self) -> Remaining {
        let trials = self.pairs.max(1).saturating_mul(2);
        Remaining { trials, time: Nanos(self.duration.0.saturating_mul(u64::from(trials))) }
    }

    /// Runs the pairs at a load.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        load: Pps,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<FlowModsOutcome, M::Error> {
        let mut asker = Asker::new(measurer, observer, Purpose::FlowMods);
        let (label, batch) = (self.load.to_string(), self.batch.max(1));
        let mut outcome = FlowModsOutcome { label, load, batch, pairs: Vec::new(), changes: BTreeMap::new() };
        let spec = TrialSpec { load, duration: self.duration };
        let mut left = self.most();
        for _ in 0..self.pairs.max(1) {
            let [without, with] = [Control::Idle, Control::Changes { batch }].map(|control| {
                let kept = asker.ask_under(spec, left, Some(control));
                left.trials = left.trials.saturating_sub(1);
                left.time = Nanos(left.time.0.saturating_sub(self.duration.0));
                kept
            });
            let (without, with) = (without?, with?);
            outcome.pairs.push(pair((without.sequence, &without.result), (with.sequence, &with.result)));
            outcome.changes.extend(with.result.changes.map(|changes| (with.sequence, changes)));
        }
        Ok(outcome)
    }
}

/// What two trials say.
fn pair((without, idle): (u32, &TrialResult), (with, busy): (u32, &TrialResult)) -> ChangePair {
    ChangePair {
        without,
        with,
        rate: busy.changes.as_ref().and_then(ChangesMade::rate),
        loss_without: idle.loss_ratio(),
        loss_with: busy.loss_ratio(),
        lag: busy.changes.as_ref().and_then(ChangesMade::lag),
    }
}

impl FlowModsOutcome {
    /// The outcome in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        let Self { label, load, batch, pairs, changes } = self;
        let asked = (label.clone(), *load, *batch);
        PointResult::FlowMods(FlowModsResult::of(asked, pairs.clone(), |trial| changes.get(&trial)))
    }
}

impl Stored for FlowModsResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        let mut now = Vec::new();
        let mut changes = BTreeMap::new();
        for stored in &self.pairs {
            let both = [stored.without, stored.with].map(|trial| trials.trial(trial, Some(self.load)));
            let [Some(without), Some(with)] = both else { continue };
            now.push(pair((stored.without, &without.result), (stored.with, &with.result)));
            changes.extend(with.result.changes.as_ref().map(|made| (stored.with, made)));
        }
        if now.len() < self.pairs.len() {
            return true; // what is missing was said
        }
        let asked = (self.label.clone(), self.load, self.batch);
        let now = Self::of(asked, now, |trial| changes.get(&trial).copied());
        let differs = differences(&now, self);
        trials.differs.extend(differs);
        true
    }

    /// Each trial with changes is a number.
    fn compared(point: &Point, found: &mut Found) {
        for result in &point.results {
            let PointResult::FlowMods(result) = result else { continue };
            let name = "changes of flow entries".to_owned();
            let numbers =
                found.numbers(Quantity { name, unit: Unit::ChangesPerSecond, better: Better::Higher });
            numbers.load = Some(result.load);
            let trials: Vec<_> = result.pairs.iter().filter_map(|pair| point.trial(pair.with)).collect();
            if let Some(Objection::NotThis(why)) = of_result(result.limit.as_ref(), &trials, &[]) {
                numbers.not_this.get_or_insert(why);
            }
            for pair in &result.pairs {
                let trial = point.trial(pair.with);
                let began = trial.map_or(0, |trial| trial.started_ms);
                numbers.take(pair.rate, began, trial.and_then(of_trial));
            }
        }
    }
}

/// How a stored result differs from what its trials say now.
fn differences(now: &FlowModsResult, stored: &FlowModsResult) -> Vec<String> {
    let mut differs = Vec::new();
    let mut number = |what: &str, now: Option<f64>, stored: Option<f64>| {
        let same = match (now, stored) {
            (Some(now), Some(stored)) => (now - stored).abs() <= SAME * stored.abs().max(1.0),
            (now, stored) => now == stored,
        };
        if !same {
            let said = |number: Option<f64>| number.map_or("none".to_owned(), |number| number.to_string());
            differs.push(format!("{what}: {} by the trials, {} stored", said(now), said(stored)));
        }
    };
    number("changes a second", now.rate.map(|rate| rate.mean), stored.rate.map(|rate| rate.mean));
    number("cost in loss", now.cost.map(|cost| cost.mean), stored.cost.map(|cost| cost.mean));
    number("lag in ns", now.lag.map(|lag| lag.0 as f64), stored.lag.map(|lag| lag.0 as f64));
    for (what, now, stored) in [
        ("changes checked", now.checked, stored.checked),
        ("changes in force late", now.late, stored.late),
        ("changes never in force", now.never, stored.never),
    ] {
        number(what, Some(f64::from(now)), Some(f64::from(stored)));
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_trial::changes::EntryCheck;
    use weir_trial::{DirectionCounts, KeptTrial};

    /// A device that takes so many changes a second, more in each trial, and loses a packet in ten thousand more
    /// while it does.
    struct Changing(u32);

    impl Measurer for Changing {
        type Error = std::convert::Infallible;

        fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
            self.0 += 1;
            let counts =
                DirectionCounts { intended: 10_000, sent: 10_000, received: 9_998, ..Default::default() };
            let result = TrialResult { directions: vec![counts], ..TrialResult::new(spec) };
            Ok(KeptTrial { sequence: self.0, result })
        }

        fn measure_under(
            &mut self,
            purpose: Purpose,
            spec: TrialSpec,
            control: Control,
        ) -> Result<KeptTrial, Self::Error> {
            let mut kept = self.measure(purpose, spec)?;
            if let Control::Changes { batch } = control {
                let stale = u32::from(self.0 == 4);
                let lag = Nanos(u64::from(stale) * 700);
                let check = EntryCheck { probes: 9, stale, lag, in_force: true };
                let made = 1000 * u64::from(self.0);
                let elapsed = Nanos(Nanos::PER_SECOND / 2);
                kept.result.changes = Some(ChangesMade { batch, made, elapsed, checks: vec![check] });
                kept.result.directions[0].received -= 1;
            }
            Ok(kept)
        }
    }

    fn method(pairs: u32) -> FlowMods {
        FlowMods { load: LoadSpec::Absolute(Pps(1e6)), batch: 50, pairs, duration: Nanos(Nanos::PER_SECOND) }
    }

    fn found(outcome: &FlowModsOutcome) -> FlowModsResult {
        let PointResult::FlowMods(result) = outcome.point_result() else { panic!("another method's") };
        result
    }

    #[test]
    fn the_rate_is_that_of_the_trials_with_changes_and_the_cost_pair_by_pair() {
        let outcome = method(3).run(Pps(1e6), &mut Changing(0), &mut Silent).unwrap();
        let result = found(&outcome);
        assert_eq!(
            result.pairs.iter().map(|pair| (pair.without, pair.with)).collect::<Vec<_>>(),
            [(1, 2), (3, 4), (5, 6)]
        );
        let rate = result.rate.unwrap();
        assert_eq!((rate.mean, rate.count, result.batch), (8000.0, 3, 50));
        // 4000, 8000 and 12,000: Student's t with two degrees of freedom is 4.303.
        let below = rate.mean - rate.interval.unwrap().low;
        assert!((below - 4.303 * 4000.0 / 3_f64.sqrt()).abs() < 2.0, "{below}");
        assert!((result.cost.unwrap().mean - 1e-4).abs() < 1e-12, "{:?}", result.cost);
        assert_eq!((result.lag, result.checked, result.late, result.never), (Some(Nanos(700)), 3, 1, 0));
        assert_eq!(result.certain_cost().map(|cost| (cost.0 * 1e6).round()), Some(100.0));
    }

    #[test]
    fn a_device_without_a_controller_has_no_rate_and_says_so() {
        let mut device = weir_simulated::SimulatedDut::default().start();
        let result = found(&method(0).run(Pps(1e6), &mut device, &mut Silent).unwrap());
        assert_eq!((result.pairs.len(), result.rate, result.lag), (1, None, None));
        assert!(weir_trial::run::MethodResult::says_invalid(&result).is_some());
    }

    #[test]
    fn what_was_stored_otherwise_than_its_trials_say_is_told() {
        let result = found(&method(2).run(Pps(1e6), &mut Changing(0), &mut Silent).unwrap());
        assert_eq!(differences(&result, &result), Vec::<String>::new());
        let mut changed = result.clone();
        changed.rate.as_mut().unwrap().mean *= 2.0;
        changed.late = 0;
        let told = differences(&result, &changed);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("6000 by the trials, 12000 stored"), "{told:?}");
    }
}
