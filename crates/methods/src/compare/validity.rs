//! Which numbers may be ranked. Asked in this one place for every method.

use weir_trial::run::StoredTrial;
use weir_trial::verdict::Weight;
use weir_trial::{Limit, Limiter};

/// Why a number must not be ranked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Objection {
    /// The machine or the tester spoilt this one: it is left out, the others stand.
    Spoilt(String),
    /// The quantity is not what it should be, however often it is measured.
    NotThis(String),
}

/// Why a result must not be ranked; nothing when it may. `trials` are those it was made of, `deciding` those of
/// them that alone would spoil it. A forwarded rate stands on each of its trials by itself: none of them decides,
/// and [`of_trial`] is asked about each.
pub(crate) fn of_result(
    limit: Option<&Limit>,
    trials: &[&StoredTrial],
    deciding: &[&StoredTrial],
) -> Option<Objection> {
    if let Some(Limit { by: Limiter::Tester | Limiter::Line | Limiter::Time, why }) = limit {
        return Some(Objection::NotThis(format!("not limited by the device: {why}")));
    }
    let wrong = trials.iter().find(|trial| trial.verdict.worst() == Some(Weight::Wrong));
    match wrong {
        Some(trial) => Some(Objection::NotThis(finding(trial))),
        None => deciding.iter().find_map(|trial| of_trial(trial)),
    }
}

/// Why a single trial must not be ranked; nothing when it may.
pub(crate) fn of_trial(trial: &StoredTrial) -> Option<Objection> {
    match trial.verdict.worst() {
        Some(Weight::Wrong) => Some(Objection::NotThis(finding(trial))),
        Some(Weight::Invalid) => Some(Objection::Spoilt(finding(trial))),
        Some(Weight::Note) | None => None,
    }
}

fn finding(trial: &StoredTrial) -> String {
    trial.verdict.findings.first().map_or_else(String::new, |finding| finding.says.clone())
}
