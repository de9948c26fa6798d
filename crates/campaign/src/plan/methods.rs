//! What a plan says about the latency curve, before a point gives it its greatest load.

use weir_methods::curve::LatencyCurve;
use weir_units::{Nanos, Pps, Ratio};

/// Latency against load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePlan {
    /// Least load, over all directions.
    pub from: Pps,
    /// Greatest load, over all directions; nothing for the greatest of the search, or of the line.
    pub to: Option<Pps>,
    /// Loads a decade far below saturation.
    pub per_decade: u32,
    /// Loads around saturation.
    pub dense: u32,
    /// Shortest trial.
    pub duration: Nanos,
    /// Delays a trial is made longer for.
    pub samples: u64,
    /// Longest trial.
    pub longest: Nanos,
    /// Loss ratio from which a load is too much.
    pub loss_ratio: Ratio,
}

impl CurvePlan {
    /// The measurement at a point, where a share of the packets carries stamps.
    pub fn method(&self, max_load: Pps, stamped: Ratio) -> LatencyCurve {
        LatencyCurve {
            from: self.from,
            to: self.to.unwrap_or(max_load),
            per_decade: self.per_decade,
            dense: self.dense,
            duration: self.duration,
            packets: (self.samples as f64 / stamped.0.max(1e-6)).ceil() as u64,
            longest: self.longest,
            loss_ratio: self.loss_ratio,
        }
    }
}
