//! The methods of a plan: their goals, loads, durations and budgets.

use super::{Checker, Span, placed, unit};
use crate::plan::file::{GoalTable, LatencyTable, MrrTable, SimulatedTable, ThroughputTable};
use crate::plan::text::Text;
use crate::plan::{MrrPlan, ThroughputPlan};
use std::collections::BTreeMap;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_methods::latency::LatencyAt;
use weir_methods::mlrsearch::{Goal, Search, SearchConfig, SearchError};
use weir_trial::simulated::SimulatedDut;
use weir_units::{Nanos, Pps, Ratio};

/// Most trials of one MRR measurement.
const MAX_MRR_TRIALS: u32 = 1000;

impl Checker<'_> {
    pub(super) fn throughput(
        &mut self,
        table: Option<ThroughputTable>,
        tables: BTreeMap<Spanned<String>, GoalTable>,
    ) -> Option<ThroughputPlan> {
        let wanted = table.as_ref().map(|table| placed(&table.goals)).unwrap_or_default();
        for name in tables.keys() {
            if self.whole && !wanted.iter().any(|(_, wanted)| wanted == name.as_ref()) {
                let cure = "add it to `goals` of [throughput], or leave the table out";
                self.refuse(
                    &name.span(),
                    format!("the goal `{}` is not searched for; {cure}", name.as_ref()),
                );
            }
        }
        let table = table?;
        let goals_span = table.goals.span();
        let goals: Vec<Goal> = self
            .axis("goals", table.goals)
            .iter()
            .filter_map(|(span, name)| self.goal(span, name, &tables))
            .collect();
        let shortest = goals.iter().map(|goal| goal.final_trial_duration).min().unwrap_or_default();
        let plan = ThroughputPlan {
            min_load: table.min_load.as_ref().map_or(SearchConfig::DEFAULT_MIN_LOAD, unit),
            max_load: table.max_load.as_ref().map(unit),
            budget: table.budget.as_ref().map_or(SearchConfig::DEFAULT_BUDGET, unit),
            warm_up: table.warm_up.map_or(SearchConfig::DEFAULT_WARM_UP.min(shortest), |text| text.0),
            goals,
        };
        // What the line carries differs from point to point; here any load above the least will do.
        if self.found.is_empty()
            && let Err(error) = Search::new(plan.config(Pps(plan.min_load.0 * 2.0)))
        {
            let span = match error {
                SearchError::Loads { .. } => table.max_load.or(table.min_load).map(|load| load.span()),
                SearchError::Budget { .. } => table.budget.map(|budget| budget.span()),
                _ => None,
            };
            self.refuse(&span.unwrap_or(goals_span), error.to_string());
        }
        Some(plan)
    }

    fn goal(
        &mut self,
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
            self.found.push(unknown);
            return None;
        }
        let empty = GoalTable::default();
        let (place, table) = table.map_or((span.clone(), &empty), |(key, table)| (key.span(), table));
        let like = match &table.like {
            None => Goal::preset(name).unwrap_or_else(Goal::ndr),
            Some(like) => match Goal::preset(like.as_ref()) {
                Some(goal) => goal,
                None => {
                    self.found.push(Diagnostic::unknown(
                        like.span(),
                        "preset",
                        like.as_ref(),
                        &Goal::PRESETS,
                    ));
                    return None;
                }
            },
        };
        let goal = overridden(like, name, table);
        if let Err(error) = goal.check() {
            self.refuse(&place, error.to_string());
        }
        Some(goal)
    }

    pub(super) fn mrr(&mut self, table: MrrTable) -> MrrPlan {
        let trials = match table.trials {
            None => 10,
            trials => self.within("trials", trials, 1, MAX_MRR_TRIALS),
        };
        if let Some(load) = &table.load
            && unit(load).0 <= 0.0
        {
            self.refuse(&load.span(), "`load` is zero; write a rate, for example \"10Mpps\"");
        }
        let from_start = table.from_start.as_ref().is_some_and(|from_start| *from_start.as_ref());
        if let Some(place) = table.from_start.filter(|_| from_start && trials > 1) {
            let why = "a device starts once a repeat: write `trials = 1`, and `repeats` for more";
            self.refuse(&place.span(), format!("`from_start`: {why}"));
        }
        MrrPlan {
            from_start,
            trials,
            duration: self.duration(table.duration, Nanos(Nanos::PER_SECOND)),
            load: table.load.as_ref().map(unit),
        }
    }

    pub(super) fn latency(&mut self, table: LatencyTable, throughput: Option<&ThroughputPlan>) -> LatencyAt {
        let whole = table.loads.span();
        let mut loads = Vec::new();
        for (span, Text(load)) in table.loads.into_inner().0 {
            let span = span.unwrap_or_else(|| whole.clone());
            self.known_goal("loads", span, &load, throughput);
            loads.push(load);
        }
        if loads.is_empty() {
            self.refuse(
                &whole,
                "`loads` is an empty list; give it at least one load, for example \"50% ndr\"",
            );
        }
        LatencyAt { loads, duration: self.duration(table.duration, Nanos(5 * Nanos::PER_SECOND)) }
    }
}

/// A goal as its table changes it.
pub(in crate::plan) fn overridden(like: Goal, name: &str, table: &GoalTable) -> Goal {
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

/// The simulated device's numbers, where the table has none the usual ones.
pub(super) fn simulated(table: SimulatedTable, seed: u64) -> SimulatedDut {
    let usual = SimulatedDut::default();
    let share = |text: Option<Text<Ratio>>, default| text.map_or(default, |text| text.0);
    SimulatedDut {
        capacity: table.capacity.map_or(usual.capacity, |text| text.0),
        queue: table.queue.unwrap_or(usual.queue),
        noise: share(table.noise, usual.noise),
        loss: share(table.loss, usual.loss),
        disturbed: share(table.disturbed, usual.disturbed),
        seed: table.seed.unwrap_or(seed),
    }
}
