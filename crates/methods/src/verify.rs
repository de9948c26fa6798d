//! Every result of a point derived again from its trials, and every trial's summary from its parts.
//!
//! What was stored when a point was measured must follow from the trials beside it: verdicts from
//! counts, percentiles from histograms, rates and bounds from trials. Where one does not, the store was
//! changed, or this Weir derives it otherwise than the one that measured.

use crate::mlrsearch::SearchConfig;
use crate::registry::{entry, stored};
use schemars::JsonSchema;
use serde::Serialize;
use weir_trial::run::{Method, Point, PointResult, StoredTrial};
use weir_trial::{Latency, judge};
use weir_units::{LatencyHistogram, Pps};

/// Rates nearer than this are the same: they went through a file as text.
pub(crate) const SAME: f64 = 1e-9;

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
    derived.extend(Method::ALL.into_iter().flat_map(|method| (entry(method).together)(point, search)));
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

/// What does not hold of a result that names its trials; nothing for one that was derived together with others.
fn of_trials(point: &Point, result: &PointResult) -> Option<Derived> {
    let mut named = Named { point, differs: Vec::new() };
    let what = result.name().to_owned();
    stored(result).holds(&mut named).then_some(Derived { what, differs: named.differs })
}

/// The trials that a result names, and what of it does not hold.
pub(crate) struct Named<'a> {
    point: &'a Point,
    pub(crate) differs: Vec<String>,
}

impl<'a> Named<'a> {
    /// A trial of the result, which is to be there, to count, and to have offered this load where one is given.
    pub(crate) fn trial(&mut self, number: u32, load: Option<Pps>) -> Option<&'a StoredTrial> {
        let Some(trial) = self.point.trial(number) else {
            self.differs.push(format!("its trial {number} is not there"));
            return None;
        };
        if trial.superseded {
            self.differs.push(format!("its trial {number} was superseded"));
        }
        let load = load.and_then(|load| {
            rate(&format!("load of trial {number}"), Some(trial.result.spec.load), Some(load))
        });
        self.differs.extend(load);
        Some(trial)
    }
}

/// How a rate differs from the stored one.
pub(crate) fn rate(what: &str, now: Option<Pps>, stored: Option<Pps>) -> Option<String> {
    let same = match (now, stored) {
        (Some(now), Some(stored)) => (now.0 - stored.0).abs() <= stored.0.abs().max(1.0) * SAME,
        (None, None) => true,
        _ => false,
    };
    let said = |rate: Option<Pps>| rate.map_or("none".to_owned(), |rate| rate.to_string());
    (!same).then(|| format!("{what}: {} by the trials, {} stored", said(now), said(stored)))
}
