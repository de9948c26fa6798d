//! Latency and loss against load.

use super::{Method, MethodResult, Unit};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Pps, Ratio};

/// Latency and loss from the least load to beyond saturation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CurveResult {
    /// Loads and their trials, the least load first.
    pub steps: Vec<CurveStep>,
    /// Between which loads packets begin to be lost.
    pub saturation: Saturation,
    /// Load at which forwarded rate over median delay is greatest (Kleinrock's power): beyond
    /// it delay grows faster than the rate does. Nothing for a curve that never turns.
    pub knee: Option<Pps>,
    /// Load from which on the 99th percentile stays above [`Self::TAIL`] times what it is at the
    /// least loads; nothing where it never does.
    pub tail: Option<Pps>,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// One load of a latency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveStep {
    /// Load offered, over all directions.
    pub load: Pps,
    /// The trial that offered it.
    pub trial: u32,
}

/// Between which loads a device begins to lose packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Loss ratio from which a load counts as too much.
    pub loss_ratio: Ratio,
    /// Greatest load that was carried; nothing where every load was too much.
    pub lower: Option<Pps>,
    /// The load tried next above it; nothing where the greatest load was carried.
    pub upper: Option<Pps>,
}

impl CurveResult {
    /// How many times its level at the least loads the 99th percentile may reach before a curve's
    /// tail counts as risen.
    pub const TAIL: f64 = 10.0;
}

impl MethodResult for CurveResult {
    fn method(&self) -> Method {
        Method::LatencyCurve
    }

    fn name(&self) -> &str {
        "curve"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&self.steps.iter().map(|step| step.trial).collect::<Vec<_>>())
    }

    fn greatest(&self) -> Option<Pps> {
        self.steps.last().map(|step| step.load)
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some(("knee", Unit::PacketsPerSecond, self.knee?.0))
    }
}
