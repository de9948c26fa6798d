//! One load over a long time.

use super::{Method, MethodResult};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps, Ratio};

/// One load over a long time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SoakResult {
    /// How the load was stated: `90% ndr`, `1Mpps`.
    pub label: String,
    /// Load offered, over all directions.
    pub load: Pps,
    /// Length of a slice.
    pub slice: Nanos,
    /// What came of the slices.
    #[serde(flatten)]
    pub found: Soaked,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// What a soak found in the slices that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soaked {
    /// Every slice, in order of time.
    pub trials: Vec<u32>,
    /// Slices that the machine or the tester spoilt: they count nowhere below.
    pub invalid: Vec<u32>,
    /// Slices that lost packets.
    pub lossy: Vec<u32>,
    /// Packets to send.
    pub intended: u64,
    /// Packets that did not come back.
    pub lost: u64,
    /// Longest time under load without a loss or a spoilt slice.
    pub longest_clean: Nanos,
    /// Time under load, of the time from the first slice's start to the last one's end. The rest
    /// went into draining and counting: the load pauses between slices.
    pub under_load: Ratio,
    /// Latency in the first and in the last quarter; nothing where too few slices have latencies.
    pub drift: Option<Drift>,
}

/// Latency early and late in a soak: medians over the slices of a quarter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Median delay in the first quarter.
    pub p50_first: Nanos,
    /// Median delay in the last quarter.
    pub p50_last: Nanos,
    /// 99th percentile in the first quarter.
    pub p99_first: Nanos,
    /// 99th percentile in the last quarter.
    pub p99_last: Nanos,
}

impl MethodResult for SoakResult {
    fn method(&self) -> Method {
        Method::Soak
    }

    fn name(&self) -> &str {
        "soak"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&self.found.trials)
    }

    fn greatest(&self) -> Option<Pps> {
        Some(self.load)
    }

    /// A soak counts its invalid slices.
    fn leaves_invalid_out(&self) -> bool {
        true
    }
}
