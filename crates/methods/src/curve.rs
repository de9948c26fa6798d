//! Latency against load as a whole curve: from next to nothing to beyond saturation.
//!
//! Loads rise by equal ratios up to 60 % of the capacity, then by equal steps to 110 %,
//! and on by tenths until packets are lost. The capacity comes from a throughput search of the same plan,
//! else some trials bracket it first (they are loads of the curve like the others). Trials at small loads last
//! longer, for a percentile needs packets. What the curve says stands in `knee`.
//!
//! Cost: a trial a load; about 40 seconds with the usual numbers and durations.

mod knee;

pub use knee::{Operating, knee, tail};

use crate::ask::Asker;
use crate::observe::{Observer, Remaining};
use crate::registry::Stored;
use crate::verify::Named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{CurveResult, CurveStep, PointResult, Purpose, Saturation};
use weir_trial::{KeptTrial, Measurer, TrialSpec};
use weir_units::{Nanos, Pps, Ratio};

/// Share of the capacity from which loads stand close.
const DENSE_FROM: f64 = 0.6;
/// Share of the capacity to which they do.
const DENSE_TO: f64 = 1.1;
/// Trials that may go on above that until packets are lost.
const BEYOND: u32 = 8;
/// Trials that may bracket the capacity.
const BRACKET: u32 = 10;
/// Ratio of carried and lost load at which the bracket is narrow enough.
const NARROW: f64 = 1.1;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyCurve {
    /// Least load, over all directions.
    pub from: Pps,
    /// Greatest load, over all directions.
    pub to: Pps,
    /// Loads a decade up to where they stand close.
    pub per_decade: u32,
    /// Loads around saturation; at least 2.
    pub dense: u32,
    /// Shortest trial.
    pub duration: Nanos,
    /// Packets that a trial is made longer for.
    pub packets: u64,
    /// Longest trial, however few packets it has.
    pub longest: Nanos,
    /// Loss ratio from which a load is too much.
    pub loss_ratio: Ratio,
}

/// One load of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Load offered.
    pub load: Pps,
    /// Packets that came back, a second.
    pub forwarded: Pps,
    /// Loss ratio.
    pub loss_ratio: Ratio,
    /// Median and 99th percentile of the delay; nothing where no stamped packet came back.
    pub delay: Option<(Nanos, Nanos)>,
    /// Number of its trial.
    pub trial: u32,
}

/// The curve.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveOutcome {
    /// The loads, rising.
    pub points: Vec<CurvePoint>,
    /// Between which of them packets begin to be lost.
    pub saturation: Saturation,
}

impl LatencyCurve {
    /// Length of the trial at a load.
    pub fn trial_duration(&self, load: Pps) -> Nanos {
        let needed = Nanos((self.packets as f64 / load.0.max(1e-9) * 1e9).min(1e18) as u64);
        needed.max(self.duration).min(self.longest.max(self.duration))
    }

    /// Loads for a device of that capacity, rising: by ratio, then by steps.
    pub fn loads(&self, capacity: Pps) -> Vec<Pps> {
        let dense_from = (capacity.0 * DENSE_FROM).clamp(self.from.0, self.to.0);
        let dense_to = (capacity.0 * DENSE_TO).clamp(dense_from, self.to.0);
        let per_decade = f64::from(self.per_decade.max(1));
        let sparse = (0..).map(|n| self.from.0 * 10_f64.powf(f64::from(n) / per_decade));
        let mut loads: Vec<f64> = sparse.take_while(|load| *load < dense_from * 0.999).collect();
        let steps = self.dense.max(2) - 1;
        loads.extend(
            (0..=steps).map(|n| dense_from + (dense_to - dense_from) * f64::from(n) / f64::from(steps)),
        );
        loads.dedup_by(|a, b| *a <= *b * (1.0 + 1e-9));
        loads.into_iter().map(Pps).collect()
    }

    fn left(&self, loads: &[Pps]) -> Remaining {
        let time = loads.iter().fold(0_u64, |sum, load| sum.saturating_add(self.trial_duration(*load).0));
        Remaining { trials: loads.len() as u32, time: Nanos(time) }
    }

    /// Trials and their time under load, for a device that saturates at half the greatest load.
    pub fn usual(&self, bracketed: bool) -> Remaining {
        let mut usual = self.left(&self.loads(Pps(self.to.0 / 2.0)));
        if !bracketed {
            usual.trials += BRACKET / 2;
            usual.time =
                Nanos(usual.time.0.saturating_add(self.duration.0.saturating_mul(u64::from(BRACKET / 2))));
        }
        usual
    }

    /// Measures the curve. `capacity` is what a search found that the device carries, if one was made.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        capacity: Option<Pps>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<CurveOutcome, M::Error> {
        let asker = Asker::new(measurer, observer, Purpose::Latency);
        let mut sweep = Sweep { curve: self, asker, points: Vec::new() };
        let capacity = match capacity {
            Some(capacity) => capacity,
            None => sweep.bracket()?,
        };
        let loads = self.loads(capacity);
        for (done, load) in loads.iter().enumerate() {
            sweep.trial(*load, self.left(&loads[done..]))?;
        }
        for _ in 0..BEYOND {
            let greatest = sweep.points.iter().max_by(|a, b| a.load.0.total_cmp(&b.load.0));
            let Some(greatest) = greatest.filter(|one| self.carried(one) && one.load.0 < self.to.0) else {
                break;
            };
            let load = Pps((greatest.load.0 * NARROW).min(self.to.0));
            sweep.trial(load, self.left(&[load]))?;
        }
        let mut points = sweep.points;
        points.sort_by(|a, b| a.load.0.total_cmp(&b.load.0));
        let saturation = self.saturation(&points);
        Ok(CurveOutcome { points, saturation })
    }

    fn carried(&self, point: &CurvePoint) -> bool {
        point.loss_ratio <= self.loss_ratio
    }

    fn saturation(&self, points: &[CurvePoint]) -> Saturation {
        let last = points.iter().rposition(|point| self.carried(point));
        Saturation {
            loss_ratio: self.loss_ratio,
            lower: last.map(|place| points[place].load),
            upper: points.get(last.map_or(0, |place| place + 1)).map(|point| point.load),
        }
    }
}

/// A curve being measured.
struct Sweep<'a, M, O> {
    curve: &'a LatencyCurve,
    asker: Asker<'a, M, O>,
    points: Vec<CurvePoint>,
}

impl<M: Measurer, O: Observer> Sweep<'_, M, O> {
    fn trial(&mut self, load: Pps, left: Remaining) -> Result<CurvePoint, M::Error> {
        let spec = TrialSpec { load, duration: self.curve.trial_duration(load) };
        let point = CurvePoint::new(load, &self.asker.ask(spec, left)?);
        self.points.push(point);
        Ok(point)
    }

    /// About the greatest load that is carried: down from the greatest load by what came through
    /// there, then by halving the ratio.
    fn bracket(&mut self) -> Result<Pps, M::Error> {
        let curve = self.curve;
        let mut left = curve.usual(false);
        let first = self.trial(curve.to, left)?;
        if curve.carried(&first) {
            return Ok(curve.to);
        }
        let (mut carried, mut lost) = (None, curve.to);
        let mut load = first.forwarded;
        for _ in 1..BRACKET {
            load = Pps(load.0.clamp(curve.from.0, lost.0));
            left.trials = left.trials.saturating_sub(1).max(1);
            let point = self.trial(load, left)?;
            if curve.carried(&point) {
                carried = Some(load);
            } else {
                lost = load;
            }
            load = match carried {
                Some(carried) if lost.0 / carried.0 <= NARROW => return Ok(carried),
                Some(carried) => Pps((carried.0 * lost.0).sqrt()),
                None if lost.0 <= curve.from.0 => break,
                None => Pps(lost.0 * 0.75),
            };
        }
        Ok(carried.unwrap_or(lost))
    }
}

impl CurvePoint {
    fn new(load: Pps, KeptTrial { sequence, result }: &KeptTrial) -> Self {
        let delay = result.latency.as_ref().map(|latency| (latency.percentiles[0], latency.percentiles[2]));
        let (forwarded, loss_ratio) = (result.forwarded_rate(), result.loss_ratio());
        Self { load, forwarded, loss_ratio, delay, trial: *sequence }
    }
}

impl CurveOutcome {
    fn operating(&self, pick: fn((Nanos, Nanos)) -> Nanos) -> Vec<Operating> {
        let point = |point: &CurvePoint| {
            let delay = pick(point.delay?).0.max(1) as f64;
            Some(Operating { load: point.load.0, throughput: point.forwarded.0, delay })
        };
        self.points.iter().filter_map(point).collect()
    }

    /// The knee of the median delay.
    pub fn knee(&self) -> Option<Pps> {
        knee(&self.operating(|delay| delay.0)).map(Pps)
    }

    /// Load from which on the 99th percentile stays high.
    pub fn tail(&self) -> Option<Pps> {
        tail(&self.operating(|delay| delay.1), CurveResult::TAIL).map(Pps)
    }

    /// The curve in the form it is stored in.
    pub fn point_result(&self) -> PointResult {
        let step = |point: &CurvePoint| CurveStep { load: point.load, trial: point.trial };
        PointResult::LatencyCurve(CurveResult {
            steps: self.points.iter().map(step).collect(),
            saturation: self.saturation,
            knee: self.knee(),
            tail: self.tail(),
            limit: None,
        })
    }
}

impl Stored for CurveResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        for step in &self.steps {
            trials.trial(step.trial, Some(step.load));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use weir_simulated::SimulatedDut;

    fn curve() -> LatencyCurve {
        LatencyCurve {
            from: Pps(100.0),
            to: Pps(20e6),
            per_decade: 3,
            dense: 12,
            duration: Nanos(Nanos::PER_SECOND),
            packets: 1000,
            longest: Nanos(10 * Nanos::PER_SECOND),
            loss_ratio: Ratio(0.001),
        }
    }

    fn measured(capacity: Option<Pps>, dut: SimulatedDut) -> CurveOutcome {
        curve().run(capacity, &mut dut.start(), &mut Silent).unwrap()
    }

    #[test]
    fn trials_at_small_loads_last_until_they_have_their_packets_or_are_long_enough() {
        let seconds = |load: f64| curve().trial_duration(Pps(load)).seconds();
        assert_eq!((seconds(10.0), seconds(100.0), seconds(500.0), seconds(1e6)), (10.0, 10.0, 2.0, 1.0));
    }

    #[test]
    fn loads_rise_by_ratio_and_then_stand_close_around_the_capacity() {
        let loads: Vec<f64> = curve().loads(Pps(5e6)).iter().map(|load| load.0).collect();
        assert_eq!(loads[0], 100.0);
        assert!((loads[3] - 1000.0).abs() < 1e-6, "three a decade: {loads:?}");
        assert!(loads.windows(2).all(|pair| pair[0] < pair[1]), "{loads:?}");
        let close = loads.iter().filter(|load| (3e6 - 1.0..=5.5e6 + 1.0).contains(*load)).count();
        assert_eq!(close, 12);
        // A capacity at the least load still makes sense.
        assert!(!curve().loads(Pps(1.0)).is_empty());
    }

    #[test]
    fn the_curve_brackets_saturation_by_itself_and_passes_it() {
        for capacity in [3e3, 2e5, 5e6] {
            let dut = SimulatedDut { capacity: Pps(capacity), queue: 0, ..Default::default() };
            let outcome = measured(None, dut);
            let (lower, upper) = (outcome.saturation.lower.unwrap(), outcome.saturation.upper.unwrap());
            assert!(lower.0 <= capacity * 1.002 && upper.0 >= capacity, "{capacity}: {lower} {upper}");
            assert!(upper.0 / lower.0 < 1.1, "{capacity}: {lower} {upper}");
            assert!(outcome.points.len() < 45, "{} trials", outcome.points.len());
            assert_eq!(outcome.points[0].load, Pps(100.0));
        }
    }

    #[test]
    fn a_capacity_that_is_known_needs_no_bracket_and_one_too_low_is_passed_all_the_same() {
        let dut = SimulatedDut { capacity: Pps(5e6), queue: 0, ..Default::default() };
        let known = measured(Some(Pps(5e6)), dut);
        assert!(known.points.len() < measured(None, dut).points.len());
        let low = measured(Some(Pps(3e6)), dut);
        assert!(low.saturation.upper.unwrap().0 > 5e6, "{:?}", low.saturation);
    }

    #[test]
    fn a_device_that_carries_everything_has_no_saturation_and_one_that_always_loses_only_that() {
        let fast = measured(None, SimulatedDut { capacity: Pps(1e9), ..Default::default() });
        assert_eq!((fast.saturation.lower, fast.saturation.upper), (Some(Pps(20e6)), None));
        let lossy = measured(None, SimulatedDut { loss: Ratio(0.1), ..Default::default() });
        assert_eq!((lossy.saturation.lower, lossy.saturation.upper), (None, Some(Pps(100.0))));
    }

    #[test]
    fn knee_and_tail_of_a_queueing_device_lie_below_its_capacity() {
        let dut = SimulatedDut { capacity: Pps(5e6), noise: Ratio(0.005), ..Default::default() };
        let outcome = measured(None, dut);
        let knee = outcome.knee().unwrap().0 / 5e6;
        assert!((0.4..1.0).contains(&knee), "{knee}");
        let tail = outcome.tail().unwrap().0 / 5e6;
        assert!((0.6..=1.05).contains(&tail), "{tail}");
    }

    #[test]
    fn every_step_names_its_own_trial() {
        let outcome = measured(None, SimulatedDut::default());
        let PointResult::LatencyCurve(CurveResult { steps, .. }) = outcome.point_result() else { panic!() };
        let mut trials: Vec<u32> = steps.iter().map(|step| step.trial).collect();
        trials.sort_unstable();
        assert_eq!(trials, (0..outcome.points.len() as u32).collect::<Vec<_>>());
        let first = steps.iter().find(|step| step.trial == 0).unwrap();
        assert_eq!(first.load, Pps(20e6), "the bracket begins at the greatest load");
    }
}
