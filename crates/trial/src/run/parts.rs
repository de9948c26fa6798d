//! Parts of the results that rest on many trials. Each names its trials by
//! [`StoredTrial::sequence`](super::StoredTrial::sequence): counts and histograms stand there, once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use weir_units::{Nanos, Pps, Ratio};

/// What is known of a throughput that could not be settled. It is no result: it is not ranked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Greatest load that passed; nothing where no load did.
    pub lower: Option<Pps>,
    /// Least load above it that failed; nothing where none did.
    pub upper: Option<Pps>,
    /// Time under load of the trials at the lower of these loads, all together.
    pub measured: Nanos,
    /// Why it is no result: `time ran out`.
    pub reason: String,
}

/// `at least 3.2 Mpps`, `between 3.2 Mpps and 3.9 Mpps`, `at most 3.9 Mpps`.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => write!(f, "between {lower} and {upper}"),
            (Some(lower), None) => write!(f, "at least {lower}"),
            (None, Some(upper)) => write!(f, "at most {upper}"),
            (None, None) => f.write_str("unknown"),
        }
    }
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

/// Burst lengths of a back-to-back measurement, in frames over all directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Longest burst without loss of each complete search.
    pub frames: Vec<u64>,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Greatest.
    pub max: u64,
    /// Sample standard deviation; zero for a single search.
    pub deviation: f64,
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
