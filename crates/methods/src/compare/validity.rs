//! Which results may be ranked. Asked in this one place for every method.

use weir_trial::run::{PointResult, StoredTrial};

/// Why a result must not be ranked; nothing when it may. `trials` are those it was made of.
pub(super) fn objection(result: &PointResult, trials: &[&StoredTrial]) -> Option<String> {
    let nothing_forwarded = || "nothing was forwarded".to_owned();
    match result {
        PointResult::Throughput { irregular: Some(reason), .. } => Some(format!("irregular: {reason}")),
        PointResult::Throughput { throughput, .. } => {
            throughput.is_none_or(|rate| rate.0 <= 0.0).then(nothing_forwarded)
        }
        PointResult::Mrr { rates, .. } => {
            (rates.is_empty() || rates.iter().any(|rate| rate.0 <= 0.0)).then(nothing_forwarded)
        }
        PointResult::Latency { .. } => {
            trials.iter().all(|trial| trial.result.latency.is_none()).then(nothing_forwarded)
        }
    }
}
