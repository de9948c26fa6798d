//! Changes of flow entries a second, under load.

use super::{Method, MethodResult, Unit};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Interval, Nanos, Pps, Ratio, Spread};

/// Changes of flow entries a second that a device takes while it forwards a load, what they cost that load, and
/// whether they were in force once it said so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct FlowModsResult {
    /// How the load was stated: `50% mrr`, `100kpps`.
    pub label: String,
    /// Load offered, over all directions.
    pub load: Pps,
    /// Changes before each barrier.
    pub batch: u32,
    /// Trials in pairs, without changes and with them.
    pub pairs: Vec<ChangePair>,
    /// Mean rate of changes, in changes a second, and its interval; nothing where no trial has one.
    pub rate: Option<Spread>,
    /// How much more of the load was lost with changes than without, pair by pair: mean and interval, as a share of
    /// the load.
    pub cost: Option<Spread>,
    /// The longest time in which a confirmed change was not in force; nothing where no packet told.
    pub lag: Option<Nanos>,
    /// Confirmed changes that packets were sent for.
    pub checked: u32,
    /// Of these, those that were not in force at once.
    pub late: u32,
    /// Of these, those that packets never saw in force: the entry changed again, or the trial ended, before.
    pub never: u32,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// Two trials of the same load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePair {
    /// The trial without changes.
    pub without: u32,
    /// The trial with them.
    pub with: u32,
    /// Changes a second that came to their barrier.
    pub rate: Option<f64>,
    /// Loss without changes.
    pub loss_without: Ratio,
    /// Loss with them.
    pub loss_with: Ratio,
    /// The longest time in which a confirmed change was not in force.
    pub lag: Option<Nanos>,
}

impl FlowModsResult {
    /// The result of these pairs, whose trials can be looked up.
    pub fn of<'a>(
        (label, load, batch): (String, Pps, u32),
        pairs: Vec<ChangePair>,
        changes: impl Fn(u32) -> Option<&'a crate::ChangesMade>,
    ) -> Self {
        let rates: Vec<f64> = pairs.iter().filter_map(|pair| pair.rate).collect();
        let costs: Vec<f64> = pairs.iter().map(|pair| pair.loss_with.0 - pair.loss_without.0).collect();
        let checks: Vec<_> =
            pairs.iter().filter_map(|pair| changes(pair.with)).flat_map(|made| &made.checks).collect();
        let count = |of: fn(&crate::changes::EntryCheck) -> bool| {
            checks.iter().filter(|check| check.probes > 0 && of(check)).count() as u32
        };
        Self {
            label,
            load,
            batch,
            rate: Spread::of(&rates),
            cost: Spread::of(&costs),
            lag: pairs.iter().filter_map(|pair| pair.lag).max(),
            checked: count(|_| true),
            late: count(|check| check.stale > 0),
            never: count(|check| !check.in_force),
            pairs,
            limit: None,
        }
    }

    /// The interval of the rate.
    pub fn interval(&self) -> Option<Interval> {
        self.rate.and_then(|rate| rate.interval)
    }

    /// What was lost more with changes, where its interval leaves chance out.
    pub fn certain_cost(&self) -> Option<Ratio> {
        let cost = self.cost?;
        cost.interval.filter(|interval| interval.low > 0.0).map(|_| Ratio(cost.mean))
    }
}

impl MethodResult for FlowModsResult {
    fn method(&self) -> Method {
        Method::FlowMods
    }

    fn name(&self) -> &str {
        "flow mods"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(&self.pairs.iter().flat_map(|pair| [pair.without, pair.with]).collect::<Vec<_>>())
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some(("flow mods", Unit::ChangesPerSecond, self.rate?.mean))
    }

    fn says_invalid(&self) -> Option<&str> {
        self.rate.is_none().then_some("no change of a flow entry came to its barrier")
    }
}
