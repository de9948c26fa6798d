//! Loss against load.

use super::{Method, MethodResult};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Pps, Ratio};

/// Loss against load, from the line rate down (RFC 2544, section 26.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct FrameLossResult {
    /// The line rate over all directions: 100 %.
    pub line: Pps,
    /// Loads in the order offered, the greatest first.
    pub steps: Vec<LossStep>,
    /// Share of the line rate of the first of two successive trials without loss; nothing where
    /// the loads came to an end before.
    pub zero_loss: Option<Ratio>,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// One load of a frame loss curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossStep {
    /// Share of the line rate.
    pub share: Ratio,
    /// Load offered, over all directions.
    pub load: Pps,
    /// Loss ratio; unsent and refused packets count as lost.
    pub loss_ratio: Ratio,
    /// The trial.
    pub trial: u32,
}

impl MethodResult for FrameLossResult {
    fn method(&self) -> Method {
        Method::FrameLoss
    }

    fn name(&self) -> &str {
        "frame loss"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&self.steps.iter().map(|step| step.trial).collect::<Vec<_>>())
    }
}
