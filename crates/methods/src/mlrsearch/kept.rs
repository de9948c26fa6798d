//! Throughput as stored: its searches derived again from their trials, and its part in a comparison.

use super::SearchConfig;
use crate::compare::numbers::{Quantity, began};
use crate::compare::validity::{Objection, of_result};
use crate::compare::{Better, Found, Of, Unit};
use crate::registry::Stored;
use crate::stored::searches;
use crate::verify::{Derived, Named, rate};
use weir_trial::TrialResult;
use weir_trial::run::{Point, PointResult, Purpose, StoredTrial, ThroughputResult};

impl Stored for ThroughputResult {
    /// The answers of every search, from its trials.
    fn together(point: &Point, search: Option<&SearchConfig>) -> Vec<Derived> {
        let mut derived = Vec::new();
        for stored in searches(point).into_iter().filter(|search| !search.results.is_empty()) {
            let trials: Vec<&TrialResult> = stored
                .trials
                .iter()
                .filter(|trial| trial.purpose == Purpose::Search)
                .map(|trial| &trial.result)
                .collect();
            for result in stored.results {
                let PointResult::Throughput(ThroughputResult {
                    goal: name, throughput, lower, upper, ..
                }) = result
                else {
                    continue;
                };
                let config = search
                    .and_then(|config| Some((config, config.goals.iter().find(|goal| goal.name == *name)?)));
                let differs = match config {
                    None => vec!["the stored plan does not search for it".to_owned()],
                    Some((config, goal)) => match config.rescore(std::slice::from_ref(goal), &trials) {
                        Err(error) => vec![error.to_string()],
                        Ok(answers) => answers
                            .iter()
                            .flat_map(|answer| {
                                let now = &answer.outcome;
                                [
                                    rate("lower bound", now.lower, *lower),
                                    rate("upper bound", now.upper, *upper),
                                    rate("throughput", now.throughput, *throughput),
                                ]
                            })
                            .flatten()
                            .collect(),
                    },
                };
                derived.push(Derived { what: name.clone(), differs });
            }
        }
        derived
    }

    fn holds(&self, _trials: &mut Named<'_>) -> bool {
        false
    }

    fn compared(point: &Point, found: &mut Found) {
        for search in searches(point) {
            for result in &search.results {
                let PointResult::Throughput(result) = result else { continue };
                let name = format!("throughput {}", result.goal);
                let numbers = found.numbers(Quantity { name, unit: Unit::Pps, better: Better::Higher });
                numbers.of = Of::Repeat;
                let rate = result.throughput.map(|rate| rate.0);
                numbers.take(rate, began(&search.trials), objection(result, &search.trials));
                if let (Some(lower), Some(upper)) = (result.lower, result.upper) {
                    let width = upper.0 / lower.0;
                    numbers.width = Some(numbers.width.map_or(width, |widest| widest.max(width)));
                }
            }
        }
    }
}

/// Why an answer must not be ranked; nothing when it may.
fn objection(result: &ThroughputResult, trials: &[&StoredTrial]) -> Option<Objection> {
    if let Some(reason) = &result.irregular {
        return Some(Objection::NotThis(format!("irregular: {reason}")));
    }
    if result.throughput.is_none_or(|rate| rate.0 <= 0.0) {
        return Some(Objection::NotThis("nothing was forwarded".to_owned()));
    }
    // Whatever happened at other loads, these two decided.
    let bounds = [result.lower, result.upper];
    let deciding = trials.iter().copied().filter(|trial| bounds.contains(&Some(trial.result.spec.load)));
    of_result(result.limit.as_ref(), trials, &deciding.collect::<Vec<_>>())
}
