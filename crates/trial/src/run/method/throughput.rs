//! A throughput search's answer to one goal.

use super::{At, Method, MethodResult, Purpose, Unit, at_load, deciding};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use weir_units::{Nanos, Pps, Ratio};

/// A throughput search's answer to one goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ThroughputResult {
    /// Goal name: `ndr`, `pdr`, `rfc2544`, `bswlv` or the plan's own.
    pub goal: String,
    /// Loss ratio the goal tolerates.
    pub loss_ratio: Ratio,
    /// Conditional throughput: forwarded packets a second at the lower bound.
    pub throughput: Option<Pps>,
    /// Greatest load that meets the goal.
    pub lower: Option<Pps>,
    /// Least load that does not.
    pub upper: Option<Pps>,
    /// Set when a bound is missing: the least load failed, the greatest passed, or time ran out.
    pub irregular: Option<String>,
    /// What is known all the same, where the search did not settle the goal.
    #[serde(default)]
    pub estimate: Option<Estimate>,
    /// Length of the goal's final trials.
    pub trial_duration: Nanos,
    /// Sum of trial durations the goal asks for.
    pub duration_sum: Nanos,
    /// Trials the search took, over all its goals.
    pub trials: u32,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

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

impl MethodResult for ThroughputResult {
    fn method(&self) -> Method {
        Method::Throughput
    }

    fn name(&self) -> &str {
        &self.goal
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        let Some(lower) = self.lower else { return Vec::new() };
        searched_at(point, lower)
    }

    fn forwards(&self) -> Option<Pps> {
        self.throughput
    }

    fn greatest(&self) -> Option<Pps> {
        self.throughput.or(self.upper)
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some((&self.goal, Unit::PacketsPerSecond, self.throughput?.0))
    }

    fn told_losses<'a>(&self, point: &'a Point) -> Vec<At<'a>> {
        let bounds = [("lower", self.lower), ("upper", self.upper)];
        let at = |(bound, load): (&str, Option<Pps>)| {
            let (what, trials) = (format!("{}, {bound} bound", self.goal), searched_at(point, load?));
            Some(At { what, load: load?, trials, of_repeats: true })
        };
        bounds.into_iter().filter_map(at).collect()
    }
}

/// The search's trials at one load, those of all repeats.
fn searched_at(point: &Point, load: Pps) -> Vec<&StoredTrial> {
    deciding(point).filter(|trial| trial.purpose == Purpose::Search && at_load(load, trial)).collect()
}
