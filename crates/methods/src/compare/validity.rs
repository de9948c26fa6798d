//! Which numbers may be ranked. Asked in this one place for every method.

use weir_trial::run::{PointResult, StoredTrial, ThroughputResult};
use weir_trial::verdict::Weight;
use weir_trial::{Limit, Limiter};

/// Why a number must not be ranked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Objection {
    /// The machine or the tester spoilt this one: it is left out, the others stand.
    Spoilt(String),
    /// The quantity is not what it should be, however often it is measured.
    NotThis(String),
}

/// Why a result must not be ranked; nothing when it may. `trials` are those it was made of. A
/// forwarded rate stands on each of its trials by itself, so ask [`of_trial`] about them, too.
pub(super) fn of_result(result: &PointResult, trials: &[&StoredTrial]) -> Option<Objection> {
    let not_this = |why: &str| Some(Objection::NotThis(why.to_owned()));
    match result {
        PointResult::Throughput(ThroughputResult { irregular: Some(reason), .. }) => {
            return not_this(&format!("irregular: {reason}"));
        }
        PointResult::Throughput(ThroughputResult { throughput, .. })
            if throughput.is_none_or(|rate| rate.0 <= 0.0) =>
        {
            return not_this("nothing was forwarded");
        }
        _ => {}
    }
    if let Some(Limit { by: Limiter::Tester | Limiter::Line | Limiter::Time, why }) = result.limit() {
        return not_this(&format!("not limited by the device: {why}"));
    }
    let wrong = trials.iter().find(|trial| trial.verdict.worst() == Some(Weight::Wrong));
    match (wrong, result) {
        (Some(trial), _) => Some(Objection::NotThis(finding(trial))),
        (None, PointResult::Throughput(ThroughputResult { lower, upper, .. })) => {
            // Whatever happened at other loads, these two decided.
            let decides = |trial: &&&StoredTrial| {
                let load = Some(trial.result.spec.load);
                load == *lower || load == *upper
            };
            trials.iter().filter(decides).find_map(|trial| of_trial(trial))
        }
        (None, PointResult::Latency(_)) => trials.iter().find_map(|trial| of_trial(trial)),
        (None, _) => None,
    }
}

/// Why a single trial must not be ranked; nothing when it may.
pub(super) fn of_trial(trial: &StoredTrial) -> Option<Objection> {
    match trial.verdict.worst() {
        Some(Weight::Wrong) => Some(Objection::NotThis(finding(trial))),
        Some(Weight::Invalid) => Some(Objection::Spoilt(finding(trial))),
        Some(Weight::Note) | None => None,
    }
}

fn finding(trial: &StoredTrial) -> String {
    trial.verdict.findings.first().map_or_else(String::new, |finding| finding.says.clone())
}
