//! Numbers of a bundle that nobody could have counted.

use super::error::{BundleResult, part};
use serde::Serialize;
use serde_json::Value;
use weir_trial::run::Run;

/// The greatest whole number that every reader of JSON has exactly (RFC 7493, section 2.2). A counter that stood at it
/// would have counted ten million packets a second for 28 years.
const MOST: u64 = 1 << 53;

/// Whether every count and time can be counted with. Seeds and the run's version are no quantities.
pub(super) fn hold(run: &Run) -> BundleResult<()> {
    let refused = |what: String, number: &str| {
        Err(part(&what, format!("it has the number {number}, and none above 2^53 can be counted with")))
    };
    for (place, point) in run.points.iter().enumerate() {
        if let Some(number) = beyond(&point.results) {
            return refused(format!("points/{place}/results.json"), &number);
        }
        if let Some(number) = beyond(&point.packets) {
            return refused(format!("points/{place}/point.json"), &number);
        }
        for (line, trial) in point.trials.iter().enumerate() {
            if let Some(number) = beyond(trial) {
                return refused(format!("points/{place}/trials.jsonl, line {}", line + 1), &number);
            }
        }
    }
    match beyond(&run.self_checks).or_else(|| beyond(&run.advice)) {
        Some(number) => refused("run.json".to_owned(), &number),
        None => Ok(()),
    }
}

fn beyond<T: Serialize>(document: &T) -> Option<String> {
    serde_json::to_value(document).ok().as_ref().and_then(found)
}

fn found(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let whole = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            whole.filter(|whole| *whole > MOST).map(|whole| whole.to_string())
        }
        Value::Array(items) => items.iter().find_map(found),
        Value::Object(fields) => fields.values().find_map(found),
        _ => None,
    }
}
