//! Latency at a load.

use super::{Cell, Delays};
use weir_trial::Latency;
use weir_trial::run::{LatencyResult, PointKey};

impl Cell for LatencyResult {
    fn cell(&self, _key: &PointKey, latency: Delays<'_, '_>) -> String {
        let Self { label, load, trial, floor } = self;
        let floor = floor.map_or_else(String::new, |floor| format!(" · floor p50 {}", floor.p50));
        format!("latency  {}{floor} at {label} ({load})", percentiles(latency(*trial)))
    }
}

fn percentiles(latency: Option<&Latency>) -> String {
    latency.map_or_else(
        || "nothing received".to_owned(),
        |latency| {
            let [p50, _, p99, p99_9, _] = latency.percentiles;
            format!("p50 {p50} · p99 {p99} · p99.9 {p99_9} · max {}", latency.max)
        },
    )
}
