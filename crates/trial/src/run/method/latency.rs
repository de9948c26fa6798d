//! Latency at one load.

use super::{At, Method, MethodResult};
use crate::run::{Point, StoredTrial};
use crate::{Floor, Limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Pps;

/// Latency at one load. The trial's histogram stands in the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LatencyResult {
    /// How the load was stated: `50% ndr`, `1Mpps`.
    pub label: String,
    /// Load offered, over all directions.
    pub load: Pps,
    /// The point's trial that measured it ([`StoredTrial::sequence`]).
    pub trial: u32,
    /// What the bare wiring takes at about this load; nothing where it was not checked.
    #[serde(default)]
    pub floor: Option<Floor>,
}

impl MethodResult for LatencyResult {
    fn method(&self) -> Method {
        Method::Latency
    }

    fn name(&self) -> &str {
        "latency"
    }

    /// A delay at a chosen load has no limit.
    fn limit(&self) -> Option<&Limit> {
        None
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&[self.trial])
    }

    fn greatest(&self) -> Option<Pps> {
        Some(self.load)
    }

    fn told_losses<'a>(&self, point: &'a Point) -> Vec<At<'a>> {
        let mut trials = self.rests_on(point);
        trials.retain(|trial| !trial.superseded);
        vec![At { what: format!("latency at {}", self.label), load: self.load, trials, of_repeats: false }]
    }
}
