//! Stored trials judged again, under the goals they were taken for or under others.
//!
//! The same book, classification and conditional throughput as in a search, over trials that are
//! there already: for the goals of the search that took them the answer is the search's own, to the
//! last digit. Under another goal some loads may stay undecided; then the answer says what the goal
//! would want measured next, and its state is [`GoalState::OutOfTime`].

use super::book::{Book, Bounds};
use super::ladder::{Ladder, Rung};
use super::load::{LoadClass, classify};
use super::outcome::{GoalOutcome, GoalState};
use super::seek::Seeker;
use super::{Goal, SearchConfig, SearchError, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::TrialResult;
use weir_units::{Nanos, Pps};

/// Loads nearer than this are the same rung: its load went through a file as text.
const SAME_LOAD: f64 = 1e-9;

/// What a goal makes of stored trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rescored {
    /// The answer; out of time where the trials do not settle it.
    pub outcome: GoalOutcome,
    /// What would have to be measured next; nothing where the goal is settled.
    pub missing: Option<Missing>,
}

/// Trials that a goal would want.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// Load, over all directions.
    pub load: Pps,
    /// Length of each trial.
    pub duration: Nanos,
    /// Trial time of at least that length that is there already.
    pub there: Nanos,
    /// Trial time after which any load is settled.
    pub needed: Nanos,
    /// Whether any stored trial is long enough for this goal; none settles it where not.
    pub long_enough: bool,
}

impl SearchConfig {
    /// Judges the trials of a search of this configuration under goals. Warm-up trials must not be
    /// among them.
    pub fn rescore(&self, goals: &[Goal], trials: &[&TrialResult]) -> Result<Vec<Rescored>, SearchError> {
        self.check()?;
        let narrowest = self.goals.iter().map(|goal| goal.relative_width.0).fold(1.0, f64::min);
        let ladder = Ladder::new(self.min_load, self.max_load, weir_units::Ratio(narrowest));
        let mut loads: Vec<f64> = trials.iter().map(|trial| trial.spec.load.0).collect();
        loads.sort_by(f64::total_cmp);
        let off = loads.iter().find(|load| rung_of(&ladder, Pps(**load)).is_none());
        if let Some(load) = off {
            return Err(SearchError::Foreign { load: Pps(*load) });
        }
        goals.iter().map(|goal| self.rescore_one(goal, &ladder, trials)).collect()
    }

    fn rescore_one(
        &self,
        goal: &Goal,
        ladder: &Ladder,
        trials: &[&TrialResult],
    ) -> Result<Rescored, SearchError> {
        goal.check()?;
        let config = Self { goals: vec![goal.clone()], ..self.clone() };
        let mut session = Session::new(&config);
        session.ladder = *ladder;
        for trial in trials {
            if let Some(rung) = rung_of(ladder, trial.spec.load) {
                session.take(rung, trial);
            }
        }
        let seeker = Seeker::new(goal, ladder, Bounds::default());
        let outcome = session.goal_outcome(goal, &seeker);
        let unsettled = outcome.state == GoalState::OutOfTime;
        let missing = unsettled.then(|| missing(goal, ladder, &session.book, trials)).flatten();
        Ok(Rescored { outcome, missing })
    }
}

/// The rung of a load; nothing where the search can never have offered it.
fn rung_of(ladder: &Ladder, load: Pps) -> Option<Rung> {
    let below = ladder.at_or_below(load);
    [below, below.up(1)].into_iter().find(|rung| (ladder.load(*rung).0 / load.0 - 1.0).abs() < SAME_LOAD)
}

/// What the goal wants next: a load between its bounds that was begun and not settled, or else
/// what a search would ask for.
fn missing(goal: &Goal, ladder: &Ladder, book: &Book, trials: &[&TrialResult]) -> Option<Missing> {
    let requirement = goal.requirement();
    let bounds = book.bounds(&requirement);
    let time = |rung: Rung| -> u64 {
        let full = book.samples(rung).iter().filter(|sample| sample.duration >= requirement.trial_duration);
        full.map(|sample| sample.effective.0).sum()
    };
    let begun = trials
        .iter()
        .filter_map(|trial| rung_of(ladder, trial.spec.load))
        .filter(|rung| bounds.inside(*rung))
        .filter(|rung| classify(book.samples(*rung), &requirement) == LoadClass::Undecided)
        .max_by_key(|rung| (time(*rung), std::cmp::Reverse(*rung)));
    // Without the targets before its own, what the goal wants is what it lacks.
    let direct = Goal { preceding_targets: 0, ..goal.clone() };
    let wanted = || Seeker::new(&direct, ladder, Bounds::default()).want(book, ladder).map(|want| want.load);
    let rung = begun.or_else(wanted)?;
    Some(Missing {
        load: ladder.load(rung),
        duration: requirement.trial_duration,
        there: Nanos(time(rung)),
        needed: requirement.duration_sum,
        long_enough: trials.iter().any(|trial| trial.spec.duration >= requirement.trial_duration),
    })
}
