//! Every result of a point derived again from its trials, and every trial's summary from its parts.
//!
//! What was stored when a point was measured must follow from the trials beside it: verdicts from
//! counts, percentiles from histograms, rates and bounds from trials. Where one does not, the store was
//! changed, or this Weir derives it otherwise than the one that measured.

use crate::mlrsearch::SearchConfig;
use crate::repeat::Spread;
use crate::stored::{forwarded_rates, searches};
use schemars::JsonSchema;
use serde::Serialize;
use weir_trial::run::{
    BackToBackResult, CurveResult, FrameLossResult, LatencyResult, MrrResult, Point, PointResult, Purpose,
    SoakResult, StoredTrial, ThroughputResult,
};
use weir_trial::{Latency, TrialResult, judge};
use weir_units::{LatencyHistogram, Pps};

/// Rates nearer than this are the same: they went through a file as text.
const SAME: f64 = 1e-9;

/// Something that was derived again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Derived {
    /// What: `trial 7`, `ndr`, `mrr`.
    pub what: String,
    /// How it differs from what is stored, each difference in a sentence; empty where it does not.
    pub differs: Vec<String>,
}

/// Derives everything again that stands with a point. `search` is what its plan searched for.
pub fn derive(point: &Point, search: Option<&SearchConfig>) -> Vec<Derived> {
    let mut derived: Vec<Derived> = point.trials.iter().map(of_trial).collect();
    derived.extend(of_searches(point, search));
    derived.extend(of_forwarded_rates(point));
    derived.extend(point.results.iter().filter_map(|result| of_trials(point, result)));
    derived
}

/// What does not hold within one trial.
fn of_trial(trial: &StoredTrial) -> Derived {
    let mut differs = Vec::new();
    for (direction, counts) in trial.result.directions.iter().enumerate() {
        let sum = counts.sent + counts.refused + counts.unsent;
        if sum != counts.intended {
            differs.push(format!(
                "direction {direction}: {} sent, {} refused and {} unsent are {sum}, not the {} intended",
                counts.sent, counts.refused, counts.unsent, counts.intended
            ));
        }
    }
    let (now, then) = (judge(&trial.result), &trial.verdict);
    if now != *then {
        let names = |verdict: &weir_trial::Verdict| {
            let names: Vec<&str> = verdict.findings.iter().map(|finding| finding.code.name()).collect();
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        differs.push(format!("its counts say {}, its verdict says {}", names(&now), names(then)));
    }
    differs.extend(trial.result.latency.as_ref().and_then(of_latency));
    Derived { what: format!("trial {}", trial.sequence), differs }
}

/// How a latency's summary differs from its histogram.
fn of_latency(stored: &Latency) -> Option<String> {
    let histogram = match LatencyHistogram::from_base64(&stored.histogram) {
        Ok(histogram) => histogram,
        Err(error) => return Some(format!("its latency histogram cannot be read: {error}")),
    };
    let now = Latency::of(&histogram);
    let same = now.as_ref().is_some_and(|now| {
        (now.count, now.percentiles, now.min, now.max)
            == (stored.count, stored.percentiles, stored.min, stored.max)
    });
    (!same).then(|| {
        let median = now.map_or("nothing".to_owned(), |now| now.percentiles[0].to_string());
        format!("its histogram has a median of {median}, its summary {}", stored.percentiles[0])
    })
}

/// The answers of every search, from its trials.
fn of_searches(point: &Point, search: Option<&SearchConfig>) -> Vec<Derived> {
    let mut derived = Vec::new();
    for stored in searches(point).into_iter().filter(|search| !search.results.is_empty()) {
        let trials: Vec<&TrialResult> = stored
            .trials
            .iter()
            .filter(|trial| trial.purpose == Purpose::Search)
            .map(|trial| &trial.result)
            .collect();
        for result in stored.results {
            let PointResult::Throughput(ThroughputResult { goal: name, throughput, lower, upper, .. }) =
                result
            else {
                continue;
            };
            let config = search
                .and_then(|config| Some((config, config.goals.iter().find(|goal| goal.name == *name)?)));
            let differs = match config {
                None => vec!["the stored plan does not search for it".to_owned()],
                Some((config, goal)) => match config.rescore(std::slice::from_ref(goal), &trials) {
                    Err(error) => vec![error.to_string()],
                    Ok(answers) => answers
                        .iter()
                        .flat_map(|answer| {
                            let now = &answer.outcome;
                            [
                                rate("lower bound", now.lower, *lower),
                                rate("upper bound", now.upper, *upper),
                                rate("throughput", now.throughput, *throughput),
                            ]
                        })
                        .flatten()
                        .collect(),
                },
            };
            derived.push(Derived { what: name.clone(), differs });
        }
    }
    derived
}

/// The forwarded rates, from their trials.
fn of_forwarded_rates(point: &Point) -> Vec<Derived> {
    let one = |(result, trials): (&PointResult, Vec<&StoredTrial>)| {
        let PointResult::Mrr(MrrResult { rates, mean, .. }) = result else { return None };
        let mut differs = Vec::new();
        if trials.len() != rates.len() {
            differs.push(format!("{} rates of {} trials", rates.len(), trials.len()));
        }
        for (stored, trial) in rates.iter().zip(&trials) {
            let now = trial.result.forwarded_rate();
            differs.extend(rate(&format!("rate of trial {}", trial.sequence), Some(now), Some(*stored)));
        }
        let values: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
        let now = Spread::of(&values).map(|spread| Pps(spread.mean));
        differs.extend(rate("mean", now, Some(*mean)));
        Some(Derived { what: "mrr".to_owned(), differs })
    };
    forwarded_rates(point).into_iter().filter_map(one).collect()
}

/// Results that name their trials: whether these are there, and say what the result says.
fn of_trials(point: &Point, result: &PointResult) -> Option<Derived> {
    let mut differs = Vec::new();
    let mut there = |number: u32, load: Option<Pps>| {
        let Some(trial) = point.trial(number) else {
            differs.push(format!("its trial {number} is not there"));
            return None;
        };
        if trial.superseded {
            differs.push(format!("its trial {number} was superseded"));
        }
        if let Some(load) = load {
            differs.extend(rate(
                &format!("load of trial {number}"),
                Some(trial.result.spec.load),
                Some(load),
            ));
        }
        Some(trial)
    };
    match result {
        PointResult::Throughput(_) | PointResult::Mrr(_) => return None,
        PointResult::Latency(LatencyResult { load, trial, .. }) => {
            there(*trial, Some(*load));
        }
        PointResult::LatencyCurve(CurveResult { steps, .. }) => {
            for step in steps {
                there(step.trial, Some(step.load));
            }
        }
        PointResult::FrameLoss(FrameLossResult { steps, .. }) => {
            let mut losses = Vec::new();
            for step in steps {
                if let Some(trial) = there(step.trial, Some(step.load)) {
                    losses.push((trial.result.loss_ratio(), step));
                }
            }
            for (now, step) in losses.iter().filter(|(now, step)| (now.0 - step.loss_ratio.0).abs() > SAME) {
                let (number, stored) = (step.trial, step.loss_ratio);
                differs.push(format!("loss of trial {number}: {now} by its counts, {stored} stored"));
            }
        }
        PointResult::BackToBack(BackToBackResult { trials, .. }) => {
            for trial in trials {
                there(*trial, None);
            }
        }
        PointResult::Soak(SoakResult { found, .. }) => {
            let (mut intended, mut lost) = (0, 0);
            for number in &found.trials {
                if let Some(trial) = there(*number, None).filter(|_| !found.invalid.contains(number)) {
                    let total = trial.result.total();
                    (intended, lost) = (intended + total.intended, lost + total.lost());
                }
            }
            if (intended, lost) != (found.intended, found.lost) {
                differs.push(format!(
                    "its slices lost {lost} of {intended} packets, stored are {} of {}",
                    found.lost, found.intended
                ));
            }
        }
    }
    Some(Derived { what: result.name().to_owned(), differs })
}

/// How a rate differs from the stored one.
fn rate(what: &str, now: Option<Pps>, stored: Option<Pps>) -> Option<String> {
    let same = match (now, stored) {
        (Some(now), Some(stored)) => (now.0 - stored.0).abs() <= stored.0.abs().max(1.0) * SAME,
        (None, None) => true,
        _ => false,
    };
    let said = |rate: Option<Pps>| rate.map_or("none".to_owned(), |rate| rate.to_string());
    (!same).then(|| format!("{what}: {} by the trials, {} stored", said(now), said(stored)))
}
