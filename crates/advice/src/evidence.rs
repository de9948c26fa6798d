//! What a run's points say: rates and delays that may be built on, and why others may not.

use std::collections::BTreeMap;
use weir_trial::run::advice::{Quantity, Statistic};
use weir_trial::run::{MrrResult, Point, PointKey, PointResult, Run, StoredTrial, ThroughputResult};
use weir_trial::{Limiter, StageReading};
use weir_units::Ratio;

/// A device that forwards this share of all that was offered may be faster than that.
const ALL_OF_IT: f64 = 0.995;
/// Loss from which on the delay at a load says nothing of a load that is carried.
pub const CARRIED: f64 = 0.001;
/// The fact that says how fast the counter of cycles ticks.
const CLOCK: &str = "clock.tsc-frequency";

/// What one number of [`Rates`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One trial; all are of one start of the device.
    Trial,
    /// One start of the device, the mean of its trials.
    Start,
}

/// Rates of one kind at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Packets a second, over all directions, above zero.
    pub values: Vec<f64>,
    /// What each is.
    pub unit: Unit,
}

/// The delays at one load.
#[derive(Clone, Copy, Debug)]
pub struct At<'r> {
    /// The load, over all directions, in packets a second.
    pub load: f64,
    /// What was lost.
    pub loss: f64,
    /// The trial.
    pub trial: &'r StoredTrial,
}

/// What one point says.
#[derive(Clone, Debug)]
pub struct Evidence<'r> {
    /// The point.
    pub point: &'r Point,
    /// Rates forwarded at the greatest load, where the device set them.
    pub forwarded: Option<Rates>,
    /// The same of every trial, whichever start it is of.
    pub of_trials: Vec<f64>,
    /// Throughput of the goal that tolerates most of the loss that was asked for, with the goal's name.
    pub throughput: Option<(String, Rates)>,
    /// Delays by load, rising.
    pub delays: Vec<At<'r>>,
}

/// Everything that a run says.
#[derive(Clone, Debug)]
pub struct View<'r> {
    /// The run.
    pub run: &'r Run,
    /// Points that say something.
    pub evidence: Vec<Evidence<'r>>,
    /// Points that do not, or not all they could: number and reason.
    pub left_out: Vec<(u32, String)>,
}

/// Which rates a model is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Evidence::forwarded`].
    Forwarded,
    /// [`Evidence::throughput`] of this goal.
    Throughput(String),
}

impl Kind {
    /// The quantity.
    pub fn quantity(&self) -> Quantity {
        match self {
            Self::Forwarded => Quantity::Forwarded,
            Self::Throughput(goal) => Quantity::Throughput { goal: goal.clone() },
        }
    }

    /// What is said where a rate at overload stands for what is carried without loss.
    pub fn caution(&self, loss: Ratio) -> Option<String> {
        (*self == Self::Forwarded).then(|| {
            format!(
                "rates are what was forwarded at the greatest load, which a load with a loss of at most {loss} may not reach; \
                 `[throughput]` in the plan measures that"
            )
        })
    }
}

impl<'r> View<'r> {
    /// What a run says of loads that may lose so much.
    pub fn of(run: &'r Run, loss: Ratio) -> Self {
        let mut view = Self { run, evidence: Vec::new(), left_out: Vec::new() };
        for point in &run.points {
            if let Some(error) = &point.error {
                view.left_out.push((point.index, format!("not measured: {error}")));
            } else if !point.finished {
                view.left_out.push((point.index, "not finished".to_owned()));
            } else {
                let evidence = view.point(point, loss);
                view.evidence.push(evidence);
            }
        }
        view
    }

    fn point(&mut self, point: &'r Point, loss: Ratio) -> Evidence<'r> {
        let mut usable = |result: &PointResult| {
            let why = unusable(point, result);
            if let Some(why) = &why {
                let said = (point.index, format!("{}: {why}", result.name()));
                if !self.left_out.contains(&said) {
                    self.left_out.push(said);
                }
            }
            why.is_none()
        };
        let good: Vec<&PointResult> = point.results.iter().filter(|result| usable(result)).collect();
        let mrr: Vec<&MrrResult> = good
            .iter()
            .filter_map(|result| match result {
                PointResult::Mrr(mrr) => Some(mrr),
                _ => None,
            })
            .collect();
        let searched = good.iter().filter_map(|result| match result {
            PointResult::Throughput(found) if found.loss_ratio.0 <= loss.0 => Some(found),
            _ => None,
        });
        let searched: Vec<&ThroughputResult> = searched.collect();
        let most = searched.iter().max_by(|a, b| a.loss_ratio.0.total_cmp(&b.loss_ratio.0));
        let throughput = most.and_then(|most| {
            let of_goal = searched.iter().filter(|found| found.goal == most.goal);
            let values: Vec<f64> = of_goal.filter_map(|found| Some(found.throughput?.0)).collect();
            Some((most.goal.clone(), rates(values, Unit::Start)?))
        });
        let mut delays: Vec<At<'r>> = good.iter().flat_map(|result| delays(point, result)).collect();
        let of_trials = mrr.iter().flat_map(|one| &one.rates).map(|rate| rate.0).collect();
        delays.sort_by(|a, b| a.load.total_cmp(&b.load));
        Evidence { point, forwarded: forwarded(&mrr), of_trials, throughput, delays }
    }

    /// Points that differ in nothing but what `strip` takes away, in order of the first.
    pub fn groups(&self, strip: impl Fn(&mut PointKey)) -> Vec<(PointKey, Vec<&Evidence<'r>>)> {
        let mut groups: Vec<(PointKey, Vec<&Evidence<'r>>)> = Vec::new();
        for evidence in &self.evidence {
            let mut key = evidence.point.key.clone();
            strip(&mut key);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(evidence),
                None => groups.push((key, vec![evidence])),
            }
        }
        groups
    }

    /// Ticks a second of the counter that cycles are counted by.
    pub fn hertz(&self) -> Option<f64> {
        let gigahertz: f64 = self.run.environment.get(CLOCK)?.trim_end_matches(" GHz").parse().ok()?;
        (gigahertz > 0.0).then_some(gigahertz * 1e9)
    }
}

impl Evidence<'_> {
    /// Its rates of a kind.
    pub fn rates(&self, kind: &Kind) -> Option<&Rates> {
        match kind {
            Kind::Forwarded => self.forwarded.as_ref(),
            Kind::Throughput(goal) => {
                self.throughput.as_ref().filter(|(known, _)| known == goal).map(|(_, rates)| rates)
            }
        }
    }

    /// Nanoseconds of each process of a chain for a packet of the chain, the host first, from its thread's cycles at the greatest
    /// load; nothing where a process does not say.
    pub fn processes(&self, hertz: f64) -> Option<Vec<f64>> {
        let of = |trial: &&StoredTrial| {
            !trial.superseded && trial.spoilt_by().is_none() && !trial.result.stages.is_empty()
        };
        let greatest = self
            .point
            .trials
            .iter()
            .filter(of)
            .max_by(|a, b| a.result.spec.load.0.total_cmp(&b.result.spec.load.0))?;
        let mut processes: BTreeMap<u32, Vec<&StageReading>> = BTreeMap::new();
        for stage in &greatest.result.stages {
            processes.entry(stage.process).or_default().push(stage);
        }
        let time = |stages: &Vec<&StageReading>| {
            let busy = stages.iter().find_map(|stage| stage.busy)? as f64;
            let packets: u64 = stages.iter().map(|stage| stage.received[0] + stage.received[1]).sum();
            // A packet of the chain comes into a host once a stage of one copy; a copy has its share of the packets.
            let through = greatest.result.forwarded().max(1);
            let visits = (packets as f64 / through as f64).min(stages.len() as f64);
            (packets > 0).then(|| busy / packets as f64 * visits / hertz * 1e9)
        };
        processes.values().map(time).collect()
    }
}

/// The kind that most of these points have: throughput where all that have any rate have it.
pub fn kind_of(group: &[&Evidence<'_>]) -> Option<Kind> {
    let with_any = || group.iter().filter(|one| one.forwarded.is_some() || one.throughput.is_some());
    let goal = with_any().find_map(|one| one.throughput.as_ref().map(|(goal, _)| goal.clone()));
    if let Some(goal) = goal {
        let kind = Kind::Throughput(goal);
        if with_any().all(|one| one.rates(&kind).is_some()) {
            return Some(kind);
        }
    }
    with_any().any(|one| one.forwarded.is_some()).then_some(Kind::Forwarded)
}

fn rates(values: Vec<f64>, unit: Unit) -> Option<Rates> {
    let good = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    good.then_some(Rates { values, unit })
}

/// Of several starts their means, of one its trials.
fn forwarded(results: &[&MrrResult]) -> Option<Rates> {
    match results {
        [] => None,
        [one] => rates(one.rates.iter().map(|rate| rate.0).collect(), Unit::Trial),
        many => rates(many.iter().map(|one| one.mean.0).collect(), Unit::Start),
    }
}

/// Why a result is no evidence of what the device can do.
fn unusable(point: &Point, result: &PointResult) -> Option<String> {
    if let Some(doubt) = point.doubt(result).filter(|doubt| doubt.invalid) {
        return Some(doubt.why);
    }
    match result {
        PointResult::Mrr(mrr) => {
            let all = mrr.load.is_some_and(|load| mrr.mean.0 >= ALL_OF_IT * load.0);
            all.then(|| "all that was offered was forwarded, so the device may be faster".to_owned())
                .or_else(|| not_the_device(result))
        }
        PointResult::Throughput(found) => match (&found.irregular, found.throughput) {
            (Some(why), _) => Some(format!("the search was not settled: {why}")),
            (None, None) => Some("the search found no throughput".to_owned()),
            (None, Some(_)) => not_the_device(result),
        },
        _ => None,
    }
}

/// Who else than the device limits a rate.
fn not_the_device(result: &PointResult) -> Option<String> {
    let limit = result.limit().filter(|limit| limit.by != Limiter::Dut)?;
    Some(format!("limited by {}, not by the device ({})", limit.by.name(), limit.why))
}

/// The delays that a result names, of trials whose numbers hold.
fn delays<'r>(point: &'r Point, result: &PointResult) -> Vec<At<'r>> {
    let numbers: Vec<u32> = match result {
        PointResult::Latency(latency) => vec![latency.trial],
        PointResult::LatencyCurve(curve) => curve.steps.iter().map(|step| step.trial).collect(),
        _ => return Vec::new(),
    };
    let trials = numbers.into_iter().filter_map(|number| point.trial(number));
    trials
        .filter(|trial| trial.spoilt_by().is_none() && trial.result.latency.is_some())
        .map(|trial| At { load: trial.result.spec.load.0, loss: trial.result.loss_ratio().0, trial })
        .collect()
}

impl At<'_> {
    /// One number of its delays, in nanoseconds.
    pub fn delay(&self, statistic: Statistic) -> Option<f64> {
        statistic.of(self.trial.result.latency.as_ref()?).filter(|delay| *delay > 0.0)
    }
}
