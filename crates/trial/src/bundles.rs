//! Bundles beside one another on one machine: the rate of each, their sum, and how fairly they share.
//!
//! Directions of a trial are listed bundle by bundle, as many of each. Fairness is Jain's index (Jain, Chiu and Hawe, DEC
//! Research Report TR-301, 1984): 1 where all have the same, 1/n where one has all.

use crate::run::{Point, Purpose, StoredTrial};
use crate::{TrialResult, Windows};
use weir_units::{Pps, Spread};

/// What came of one bundle in one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BundleCounts {
    /// Packets forwarded a second, where they count.
    pub rate: Pps,
    /// Packets that were to be sent, where they count.
    pub intended: u64,
    /// Of these, packets that never came back.
    pub lost: u64,
    /// Mean delay of its packets in nanoseconds, and how many were timed; nothing where none was.
    pub delay: Option<(f64, u64)>,
}

/// One bundle over several trials of the same load.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleRate {
    /// Packets forwarded a second.
    pub rate: Spread,
    /// Share of all bundles' forwarded packets.
    pub share: f64,
    /// Share of its packets that never came back.
    pub loss: f64,
    /// Mean delay of its packets, in nanoseconds.
    pub delay: Option<f64>,
}

/// All bundles of a point at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleRates {
    /// The load, over all bundles.
    pub load: Pps,
    /// Trials that it is of: the valid ones, and where there is none all.
    pub trials: usize,
    /// Whether none of them is valid, so that nothing here may be ranked.
    pub invalid: bool,
    /// Bundle by bundle.
    pub each: Vec<BundleRate>,
    /// All together, in packets a second.
    pub sum: Spread,
    /// Jain's index over the bundles of each trial.
    pub fairness: Option<Spread>,
}

impl TrialResult {
    /// What came of each of so many bundles; nothing where no tester was at the wire.
    pub fn bundles(&self, count: u32) -> Vec<BundleCounts> {
        let count = count.max(1) as usize;
        let each = self.directions.len() / count;
        if each == 0 || each * count != self.directions.len() {
            return Vec::new();
        }
        let (windows, time) = (self.windows.as_ref(), self.counted_time().seconds());
        let kept = windows.filter(|windows| {
            windows.total().intended() > 0 && windows.counts.len() == self.directions.len()
        });
        let counted = |direction: usize| match kept.map(|Windows { counts, .. }| &counts[direction]) {
            Some(counts) => [counts.received, counts.intended(), counts.lost()],
            None => {
                let counts = &self.directions[direction];
                [counts.received, counts.intended, counts.lost()]
            }
        };
        let of = |bundle: usize| {
            let own = bundle * each..(bundle + 1) * each;
            let delays = self.account.as_ref().and_then(|account| account.delays.get(own.clone()));
            let timed = delays.into_iter().flatten().flatten().filter(|delay| delay.count > 0);
            let (sum, packets) =
                timed.fold((0.0, 0), |sum, one| (sum.0 + one.mean * one.count as f64, sum.1 + one.count));
            let [received, intended, lost] = own
                .map(counted)
                .reduce(|sum, one| std::array::from_fn(|place| sum[place] + one[place]))
                .unwrap_or_default();
            BundleCounts {
                rate: Pps(if time > 0.0 { received as f64 / time } else { 0.0 }),
                intended,
                lost,
                delay: (packets > 0).then(|| (sum / packets as f64, packets)),
            }
        };
        (0..count).map(of).collect()
    }
}

/// Jain's index of fairness; nothing of nothing, and where none has any.
pub fn fairness(rates: &[f64]) -> Option<f64> {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |sum, rate| (sum.0 + rate, sum.1 + rate * rate));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

impl BundleRates {
    /// Of a point with several bundles, at two loads at most: the greatest at which no packet was lost, and the greatest of
    /// all. Nothing of a point with one.
    pub fn of(point: &Point) -> Vec<Self> {
        let count = point.key.placement.bundles;
        if count < 2 {
            return Vec::new();
        }
        let mut trials: Vec<&StoredTrial> = point.trials.iter().filter(|trial| decides(trial)).collect();
        trials.sort_by(|a, b| a.result.spec.load.0.total_cmp(&b.result.spec.load.0));
        let greatest = |trials: &mut dyn DoubleEndedIterator<Item = &&StoredTrial>| {
            trials.next_back().map(|trial| trial.result.spec.load)
        };
        let whole = greatest(&mut trials.iter().filter(|trial| trial.result.counted().lost() == 0));
        let mut loads: Vec<Pps> = whole.into_iter().chain(greatest(&mut trials.iter())).collect();
        loads.dedup_by_key(|load| load.0.to_bits());
        loads.into_iter().filter_map(|load| Self::at(load, &trials, count)).collect()
    }

    fn at(load: Pps, trials: &[&StoredTrial], count: u32) -> Option<Self> {
        let at_load = || trials.iter().filter(|trial| trial.result.spec.load == load);
        let invalid = !at_load().any(|trial| trial.verdict.is_valid());
        let at_load = at_load().filter(|trial| invalid || trial.verdict.is_valid());
        let all: Vec<Vec<BundleCounts>> =
            at_load.map(|trial| trial.result.bundles(count)).filter(|bundles| !bundles.is_empty()).collect();
        if all.is_empty() {
            return None;
        }
        let rates: Vec<Vec<f64>> =
            all.iter().map(|trial| trial.iter().map(|bundle| bundle.rate.0).collect()).collect();
        let sums: Vec<f64> = rates.iter().map(|trial| trial.iter().sum()).collect();
        let sum = Spread::of(&sums)?;
        let each = (0..count as usize).map(|bundle| {
            let own: Vec<&BundleCounts> = all.iter().map(|trial| &trial[bundle]).collect();
            let rate = Spread::of(&own.iter().map(|one| one.rate.0).collect::<Vec<_>>())?;
            let intended: u64 = own.iter().map(|one| one.intended).sum();
            let lost: u64 = own.iter().map(|one| one.lost).sum();
            let timed = own.iter().filter_map(|one| one.delay);
            let (delay, packets) =
                timed.fold((0.0, 0), |sum, (mean, count)| (sum.0 + mean * count as f64, sum.1 + count));
            Some(BundleRate {
                rate,
                share: if sum.mean > 0.0 { rate.mean / sum.mean } else { 0.0 },
                loss: lost as f64 / intended.max(1) as f64,
                delay: (packets > 0).then(|| delay / packets as f64),
            })
        });
        let each = each.collect::<Option<_>>()?;
        let indices: Vec<f64> = rates.iter().filter_map(|trial| fairness(trial)).collect();
        Some(Self { load, trials: all.len(), invalid, each, sum, fairness: Spread::of(&indices) })
    }
}

/// Whether a trial decided something.
fn decides(trial: &StoredTrial) -> bool {
    !trial.superseded && trial.purpose != Purpose::WarmUp
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::PointKey;
    use crate::windows::WindowCounts;
    use crate::{DirectionCounts, TrialSpec};
    use weir_units::{Bps, LineRate, Nanos};

    fn trial(received: &[u64]) -> TrialResult {
        let counts = |received: &u64| DirectionCounts {
            intended: 100,
            sent: 100,
            received: *received,
            ..DirectionCounts::default()
        };
        let spec = TrialSpec { load: Pps(1e3), duration: Nanos(500_000_000) };
        TrialResult { directions: received.iter().map(counts).collect(), ..TrialResult::new(spec) }
    }

    #[test]
    fn each_bundle_has_the_rate_and_the_losses_of_its_own_directions() {
        let result = trial(&[100, 80, 50, 50]);
        let bundles = result.bundles(2);
        let told: Vec<_> = bundles.iter().map(|one| (one.rate.0, one.intended, one.lost)).collect();
        assert_eq!(told, [(360.0, 200, 20), (200.0, 200, 100)]);
        let one_way = result.bundles(4);
        assert_eq!(one_way.iter().map(|one| one.lost).collect::<Vec<_>>(), [0, 20, 50, 50]);
        assert_eq!(result.bundles(1)[0].rate, result.forwarded_rate());
        assert!(result.bundles(3).is_empty(), "four directions are not three bundles'");
    }

    #[test]
    fn where_windows_are_left_out_the_others_decide_over_their_time() {
        let mut result = trial(&[100, 80]);
        let counts = |received| WindowCounts { sent: 40, received, ..WindowCounts::default() };
        result.windows = Some(Windows {
            kept: Nanos(200_000_000),
            counts: vec![counts(40), counts(30)],
            ..Windows::default()
        });
        let bundles = result.bundles(2);
        assert_eq!(
            bundles.iter().map(|one| (one.intended, one.lost)).collect::<Vec<_>>(),
            [(40, 0), (40, 10)]
        );
        let rates: Vec<f64> = bundles.iter().map(|one| one.rate.0).collect();
        assert_eq!(rates, [200.0, 150.0]);
        assert_eq!(rates.iter().sum::<f64>(), result.forwarded_rate().0);
    }

    #[test]
    fn valid_trials_alone_are_told_where_there_is_one_and_else_that_there_is_none() {
        let placement =
            crate::Placement { deployment: crate::Deployment::Vale, bundles: 2, ..Default::default() };
        let key = PointKey {
            nf: crate::Nf::L2Fwd,
            dut: "nf".to_owned(),
            placement,
            wiring: "vhost".to_owned(),
            trace: "flows:10".to_owned(),
            size: "64".to_owned(),
            mean_frame_bytes: 64.0,
            directions: 1,
            huge_pages: false,
            line_rate: LineRate(Bps(10e9)),
        };
        let stored = |sequence: u32, received: &[u64], is_valid: bool| {
            let mut one = StoredTrial::new(sequence, Purpose::Mrr, 0, trial(received));
            let finding = crate::verdict::Finding {
                code: crate::verdict::Code::LateSent,
                weight: crate::verdict::Weight::Invalid,
                says: "late".to_owned(),
            };
            one.verdict.findings = if is_valid { Vec::new() } else { vec![finding] };
            one
        };
        let point = |trials: Vec<StoredTrial>| Point {
            index: 0,
            key: key.clone(),
            dut_version: None,
            configuration: Default::default(),
            trace_hashes: Vec::new(),
            seed: 1,
            packets: None,
            error: None,
            finished: true,
            results: Vec::new(),
            trials,
        };
        let mixed = BundleRates::of(&point(vec![stored(0, &[90, 10], false), stored(1, &[50, 50], true)]));
        let [rates] = mixed.as_slice() else { panic!("{mixed:?}") };
        assert_eq!((rates.trials, rates.invalid, rates.fairness.unwrap().mean), (1, false, 1.0));
        let spoilt = BundleRates::of(&point(vec![stored(0, &[90, 10], false)]));
        assert!(spoilt[0].invalid && (spoilt[0].each[0].share - 0.9).abs() < 1e-9, "{spoilt:?}");
        let mut alone = point(vec![stored(0, &[90], true)]);
        alone.key.placement.bundles = 1;
        assert_eq!(BundleRates::of(&alone), []);
    }

    #[test]
    fn the_index_is_one_where_all_have_the_same_and_falls_to_one_of_so_many() {
        assert_eq!(fairness(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(fairness(&[3.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!((fairness(&[0.0, 0.0]), fairness(&[])), (None, None));
    }
}
