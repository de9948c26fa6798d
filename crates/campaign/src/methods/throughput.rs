//! Throughput by MLRsearch: the tables `[throughput]` and `[goal.NAME]`, the search at a point, who limits it.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::limit::{Evidence, NEAR_CEILING, near};
use crate::plan::check::{Checker, Span, placed, unit};
use crate::plan::text::{List, Text};
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_methods::mlrsearch::{Goal, Search, SearchConfig, SearchError};
use weir_methods::{Observer, Remaining};
use weir_trial::run::{Purpose, ThroughputResult};
use weir_trial::{Measurer, SelfCheck};
use weir_units::{Nanos, Pps, Ratio};

/// A throughput search over several goals.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputPlan {
    /// The goals.
    pub goals: Vec<Goal>,
    /// Least load offered, over all directions.
    pub min_load: Pps,
    /// Greatest load offered, over all directions; nothing for what the line carries.
    pub max_load: Option<Pps>,
    /// Time that the trials of one search may take; the searches of a plan share theirs ([`Self::config`]
    /// has the plain share).
    pub budget: Nanos,
    /// Discarded trial before each search.
    pub warm_up: Nanos,
}

/// Throughput by MLRsearch (draft-ietf-bmwg-mlrsearch-15). All goals share one search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThroughputTable {
    /// Presets (rfc2544, bswlv, ndr, pdr) or names of [goal.NAME] tables.
    #[schemars(with = "List<String>")]
    goals: Spanned<List<String>>,
    /// Least load offered, over all directions. Default: 9001pps.
    #[schemars(with = "Option<Text<Pps>>")]
    min_load: Option<Spanned<Text<Pps>>>,
    /// Greatest load offered, over all directions. Default: what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    max_load: Option<Spanned<Text<Pps>>>,
    /// Time that the trials of one search may take, set-up and drain included. Default: 20min. What a search leaves goes to the searches after it, and one that a disturbed machine makes hard may take up to three times this of what the later ones are likely to leave; all together never take more than this each.
    #[schemars(with = "Option<Text<Nanos>>")]
    budget: Option<Spanned<Text<Nanos>>>,
    /// Discarded trial at the greatest load before each search; 0s for none. Default: 1s, and never longer than a goal's final trial.
    warm_up: Option<Text<Nanos>>,
}

/// A goal of the throughput search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoalTable {
    /// Preset that gives what is left out here. Default: the preset of the goal's own name, else ndr.
    #[schemars(with = "Option<String>")]
    pub(crate) like: Option<Spanned<String>>,
    /// A trial with more loss speaks against its load.
    loss_ratio: Option<Text<Ratio>>,
    /// Share of the duration sum that such trials may take at a load that still passes.
    exceed_ratio: Option<Text<Ratio>>,
    /// Duration of the first, shortest trials.
    initial_trial_duration: Option<Text<Nanos>>,
    /// Duration of the trials that decide. Without duration_sum, that is scaled in proportion.
    final_trial_duration: Option<Text<Nanos>>,
    /// Trial time that settles a load.
    duration_sum: Option<Text<Nanos>>,
    /// Distance of the bounds at which the search ends, (upper - lower) / upper.
    width: Option<Text<Ratio>>,
    /// Coarser, shorter targets before the goal's own, 0 to 8.
    preceding_targets: Option<u32>,
}

impl ThroughputPlan {
    /// The search at a point whose line carries at most `theoretical`, over all directions.
    pub fn config(&self, theoretical: Pps) -> SearchConfig {
        SearchConfig {
            min_load: self.min_load,
            budget: self.budget,
            warm_up: self.warm_up,
            // Only time under load proves anything about a load.
            overhead_counts: false,
            ..SearchConfig::new(self.goals.clone(), self.max_load.unwrap_or(theoretical))
        }
    }
}

impl PlannedMethod for ThroughputPlan {
    type Table = ThroughputTable;

    fn checked(checker: &mut Checker<'_>, table: ThroughputTable) -> Self {
        let goals_span = table.goals.span();
        let (names, tables) = (checker.axis("goals", table.goals), std::mem::take(&mut checker.goals));
        let goals: Vec<Goal> =
            names.iter().filter_map(|(span, name)| goal(checker, span, name, &tables)).collect();
        let shortest = goals.iter().map(|goal| goal.final_trial_duration).min().unwrap_or_default();
        let plan = Self {
            min_load: table.min_load.as_ref().map_or(SearchConfig::DEFAULT_MIN_LOAD, unit),
            max_load: table.max_load.as_ref().map(unit),
            budget: table.budget.as_ref().map_or(SearchConfig::DEFAULT_BUDGET, unit),
            warm_up: table.warm_up.map_or(SearchConfig::DEFAULT_WARM_UP.min(shortest), |text| text.0),
            goals,
        };
        // What the line carries differs from point to point; here any load above the least will do.
        if checker.found.is_empty()
            && let Err(error) = Search::new(plan.config(Pps(plan.min_load.0 * 2.0)))
        {
            let span = match error {
                SearchError::Loads { .. } => table.max_load.or(table.min_load).map(|load| load.span()),
                SearchError::Budget { .. } => table.budget.map(|budget| budget.span()),
                _ => None,
            };
            checker.refuse(&span.unwrap_or(goals_span), error.to_string());
        }
        checker.searched = plan.goals.iter().map(|goal| goal.name.clone()).collect();
        plan
    }

    fn line(&self) -> (&'static str, String) {
        let goals: Vec<&str> = self.goals.iter().map(|goal| goal.name.as_str()).collect();
        ("throughput", format!("{}, at most {} a search", goals.join(", "), self.budget))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(Search::new(self.config(assumed.line)).ok()?.estimate(assumed.overhead))
    }

    fn budget(&self) -> Option<Nanos> {
        Some(self.budget)
    }

    fn warnings(&self) -> Vec<String> {
        self.goals.iter().flat_map(Goal::warnings).collect()
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        let mut config = self.config(at.line);
        at.max_load = config.max_load;
        config.first_load = at.ceiling;
        if let Some(purse) = &at.purse {
            config.budget = purse.allows(config.least_budget());
        }
        let outcome = Search::new(config)?.run(measurer, observer)?;
        if let Some(purse) = &mut at.purse {
            purse.take(outcome.spent);
        }
        at.results.extend(outcome.point_results());
        at.goals = outcome.goals;
        Ok(())
    }
}

impl Limited for ThroughputResult {
    fn limit(&mut self, evidence: &Evidence<'_>) {
        let rate = self.throughput.or(self.lower);
        self.limit = match self.upper {
            Some(upper) => evidence.of_failure(rate, upper, self.loss_ratio, Purpose::Search),
            None => self.lower.map(|lower| evidence.of_no_failure(lower)),
        };
    }

    fn near_ceiling(&self, check: &SelfCheck) -> Option<Pps> {
        self.upper.filter(|_| self.throughput.is_some_and(|rate| near(check, rate, NEAR_CEILING)))
    }
}

/// Refuses tables of goals that nobody searches for. `table` is the search, where there is one.
pub(crate) fn check_goals(checker: &mut Checker<'_>, table: Option<&ThroughputTable>) {
    let wanted = table.map(|table| placed(&table.goals)).unwrap_or_default();
    let names: Vec<(Span, String)> =
        checker.goals.keys().map(|name| (name.span(), name.as_ref().clone())).collect();
    for (span, name) in names {
        if checker.whole && !wanted.iter().any(|(_, wanted)| *wanted == name) {
            let cure = "add it to `goals` of [throughput], or leave the table out";
            checker.refuse(&span, format!("the goal `{name}` is not searched for; {cure}"));
        }
    }
}

/// A goal by its name: of the plan's tables, else a preset.
fn goal(
    checker: &mut Checker<'_>,
    span: &Span,
    name: &str,
    tables: &BTreeMap<Spanned<String>, GoalTable>,
) -> Option<Goal> {
    let table = tables.iter().find(|(key, _)| key.as_ref() == name);
    if table.is_none() && Goal::preset(name).is_none() {
        let mut choices = Goal::PRESETS.to_vec();
        choices.extend(tables.keys().map(|key| key.as_ref().as_str()));
        let mut unknown = Diagnostic::unknown(span.clone(), "goal", name, &choices);
        unknown.allowed.push(format!("a goal of your own, in a table [goal.{name}]"));
        checker.found.push(unknown);
        return None;
    }
    let empty = GoalTable::default();
    let (place, table) = table.map_or((span.clone(), &empty), |(key, table)| (key.span(), table));
    let like = match &table.like {
        None => Goal::preset(name).unwrap_or_else(Goal::ndr),
        Some(like) => match Goal::preset(like.as_ref()) {
            Some(goal) => goal,
            None => {
                checker.found.push(Diagnostic::unknown(like.span(), "preset", like.as_ref(), &Goal::PRESETS));
                return None;
            }
        },
    };
    let goal = overridden(like, name, table);
    if let Err(error) = goal.check() {
        checker.refuse(&place, error.to_string());
    }
    Some(goal)
}

/// A goal as its table changes it.
pub(crate) fn overridden(like: Goal, name: &str, table: &GoalTable) -> Goal {
    let mut goal = Goal { name: name.to_owned(), ..like };
    match (&table.final_trial_duration, &table.duration_sum) {
        (Some(trial), Some(sum)) => goal = goal.with_durations(trial.0, sum.0),
        (Some(trial), None) => goal = goal.with_trial(trial.0),
        (None, Some(sum)) => goal.duration_sum = sum.0,
        (None, None) => {}
    }
    let set = |value: &mut Ratio, text: &Option<Text<Ratio>>| {
        if let Some(text) = text {
            *value = text.0;
        }
    };
    set(&mut goal.loss_ratio, &table.loss_ratio);
    set(&mut goal.exceed_ratio, &table.exceed_ratio);
    set(&mut goal.relative_width, &table.width);
    if let Some(initial) = &table.initial_trial_duration {
        goal.initial_trial_duration = initial.0;
    }
    goal.preceding_targets = table.preceding_targets.unwrap_or(goal.preceding_targets);
    goal
}
