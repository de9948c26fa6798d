//! What the results of a bundle were judged by, and the documents of a bundle as a schema.

use super::rescore::plan_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_campaign::plan::ThroughputPlan;
use weir_methods::mlrsearch::Goal;
use weir_store::bundle::{Head, Manifest, PointHead, Signature};
use weir_trial::run::{PointResult, Run, Session, StoredTrial};

/// The part `thresholds.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Thresholds {
    /// Goals of the throughput search, with all their numbers; presets that the plan names are written out.
    goals: Vec<Goal>,
    /// Limits that trials were judged by: ratios from 0 to 1, times in nanoseconds, counts.
    verdicts: BTreeMap<String, f64>,
}

impl Thresholds {
    /// Those of a run's plan, and of this Weir. A plan that this Weir cannot read has no goals.
    pub(super) fn of(run: &Run) -> Self {
        let plan = plan_of(run).ok();
        let throughput = plan.as_ref().and_then(|plan| plan.method::<ThroughputPlan>());
        let goals = throughput.map(|throughput| throughput.goals.clone()).unwrap_or_default();
        let verdicts = weir_trial::verdict::stated();
        let verdicts = verdicts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { goals, verdicts }
    }
}

/// Every document of a bundle, one a property: schema of the part that it is named after.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is never made: its schema is what is asked for")]
pub(super) struct Documents {
    /// `manifest.json`.
    manifest: Manifest,
    /// `signature.json`, where the bundle is signed.
    signature: Option<Signature>,
    /// `run.json`.
    run: Head,
    /// `thresholds.json`.
    thresholds: Thresholds,
    /// `segments.json`: the run's beginning, then every time it was taken up again, each with its build and environment.
    segments: Vec<Session>,
    /// `texts.json`: what configured the devices, each text once, by its SHA-256 in hexadecimal.
    texts: BTreeMap<String, String>,
    /// `points/N/point.json`.
    point: PointHead,
    /// `points/N/configuration.json`: the name of each file that configured the device, and the SHA-256 of its text.
    configuration: BTreeMap<String, String>,
    /// `points/N/results.json`: the verdicts of the methods.
    results: Vec<PointResult>,
    /// A line of `points/N/trials.jsonl`, with its histograms in it.
    trial: StoredTrial,
}
