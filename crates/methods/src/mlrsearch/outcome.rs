//! What a search answers, per goal.

use super::goal::Goal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::{Estimate, PointResult, ThroughputResult};
use weir_units::{Nanos, Pps};

/// How a goal's search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GoalState {
    /// Both bounds are there, as near as the goal's width asks.
    Reached,
    /// Irregular: the greatest load passed, so the border lies above it.
    MaxLoadPassed,
    /// Irregular: the least load failed, so the border lies below it.
    MinLoadFailed,
    /// The search's time ran out first; the bounds are what is proven so far.
    OutOfTime,
}

/// A search's answer to one goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalOutcome {
    /// The goal, with all its numbers.
    pub goal: Goal,
    /// How its search ended.
    pub state: GoalState,
    /// Relevant lower bound: the greatest load that passes, below the relevant upper bound.
    pub lower: Option<Pps>,
    /// Relevant upper bound: the least load that fails.
    pub upper: Option<Pps>,
    /// Conditional throughput: forwarding rate at the lower bound.
    pub throughput: Option<Pps>,
    /// Where time ran out before the goal was settled: the bounds of the finest target that had a lower
    /// one.
    pub estimate: Option<Estimate>,
}

/// A search's answer to all its goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOutcome {
    /// Per goal, in the order of the configuration.
    pub goals: Vec<GoalOutcome>,
    /// Trials taken, the warm-up included.
    pub trials: u32,
    /// Time the trials took, set-up and drain included.
    pub spent: Nanos,
    /// What a reader of the results must be told, such as trials shorter than RFC 2544's.
    pub warnings: Vec<String>,
}

impl GoalOutcome {
    /// Why a bound is missing or wide; nothing for a goal that was reached.
    pub fn irregular(&self) -> Option<String> {
        match self.state {
            GoalState::Reached => None,
            GoalState::MaxLoadPassed => {
                Some("the greatest load passed: the tester or the line is the limit".to_owned())
            }
            GoalState::MinLoadFailed => Some("the least load failed".to_owned()),
            GoalState::OutOfTime => Some(match &self.estimate {
                Some(estimate) => format!("the search's time ran out; by what was measured it is {estimate}"),
                None => "the search's time ran out".to_owned(),
            }),
        }
    }

    /// The best load known to pass: the lower bound, or where time ran out the estimated one.
    pub fn best_lower(&self) -> Option<Pps> {
        self.lower.or_else(|| self.estimate.as_ref().and_then(|estimate| estimate.lower))
    }
}

impl SearchOutcome {
    /// The answer to the goal of that name.
    pub fn goal(&self, name: &str) -> Option<&GoalOutcome> {
        self.goals.iter().find(|outcome| outcome.goal.name == name)
    }

    /// The answers in the form they are stored in.
    pub fn point_results(&self) -> Vec<PointResult> {
        let result = |outcome: &GoalOutcome| {
            PointResult::Throughput(ThroughputResult {
                goal: outcome.goal.name.clone(),
                loss_ratio: outcome.goal.loss_ratio,
                throughput: outcome.throughput,
                lower: outcome.lower,
                upper: outcome.upper,
                irregular: outcome.irregular(),
                estimate: outcome.estimate.clone(),
                trial_duration: outcome.goal.final_trial_duration,
                duration_sum: outcome.goal.duration_sum,
                trials: self.trials,
                limit: None,
            })
        };
        self.goals.iter().map(result).collect()
    }
}
