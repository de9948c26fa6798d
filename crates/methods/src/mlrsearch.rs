//! Throughput by MLRsearch (draft-ietf-bmwg-mlrsearch-15): several goals in one search.
//!
//! A goal says which loads pass: of all trials long enough at a load, at most a stated share of
//! their time may see more loss than a stated ratio. So one trial that a shared machine disturbed
//! cannot decide a result, while RFC 2544's unconditional throughput is the goal whose share is
//! zero. All goals of a search share their trials.
//!
//! The parts, one file each: goals and their targets (`goal`), the loads that may be offered
//! (`ladder`), what trials at a load prove (`load`), all trials and the bounds they prove (`book`),
//! what a goal wants measured next (`seek`), what is left (`estimate`), the answer (`outcome`), and the
//! same answer from stored trials (`rescore`); what is asked of stored answers (`kept`).
//!
//! Where several goals want a trial, the least load goes first, and of those the longest trial:
//! a lossy trial settles several goals at once, and the answer stays on the careful side.
//!
//! Every duration is a parameter. A search ends: bounds move monotonically while trials agree, and
//! its time budget ends it when the device keeps changing its mind.

mod book;
mod estimate;
mod goal;
mod kept;
mod ladder;
mod load;
mod outcome;
mod rescore;
mod seek;

pub use goal::{Goal, GoalError};
pub use load::{LoadClass, Requirement, Sample, classify, conditional_loss, conditional_throughput};
pub use outcome::{GoalOutcome, GoalState, SearchOutcome};
pub use rescore::{Missing, Rescored};

use crate::observe::{GoalBounds, Next, Observer, Remaining};
use book::{Book, Bounds};
use ladder::{Ladder, Rung};
use schemars::JsonSchema;
use seek::{Seeker, Want, settled};
use serde::{Deserialize, Serialize};
use weir_trial::run::{Estimate, Purpose};
use weir_trial::{Measurer, TrialResult, TrialSpec, judge};
use weir_units::{Nanos, Pps, Ratio};

/// What to search for, and within which limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchConfig {
    /// The goals; at least one, names unique.
    pub goals: Vec<Goal>,
    /// Least load offered, over all directions. Above zero.
    pub min_load: Pps,
    /// Greatest load offered, over all directions. Above the least.
    pub max_load: Pps,
    /// Time the trials of the search may take, set-up and drain included.
    pub budget: Nanos,
    /// One trial of this length before the search, at the load where it begins, discarded; zero for none.
    pub warm_up: Nanos,
    /// The load of the first trial, where the greatest one is known to be beyond what can be offered or
    /// forwarded; nothing for the greatest.
    #[serde(default)]
    pub first_load: Option<Pps>,
    /// Whether set-up and drain time count towards a goal's duration sum, as in the Python library
    /// that FD.io CSIT uses (the draft leaves it to the tester).
    pub overhead_counts: bool,
}

/// A search that cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// No goals.
    #[error("a search needs a goal, for example ndr")]
    NoGoal,
    /// A goal cannot be searched for.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// Two goals share a name.
    #[error("two goals are named `{0}`; rename one")]
    SameName(String),
    /// The loads are not an interval.
    #[error("the loads {min} to {max} are no interval; both must be above zero, and the first the smaller")]
    Loads {
        /// Least load.
        min: Pps,
        /// Greatest load.
        max: Pps,
    },
    /// The budget is less than the trials that any answer needs.
    #[error(
        "a time budget of {budget} is less than the warm-up and one final trial, {needed}; raise it or shorten the trials"
    )]
    Budget {
        /// As asked for.
        budget: Nanos,
        /// The least that makes sense.
        needed: Nanos,
    },
    /// Stored trials that are not of the search they are said to be of.
    #[error(
        "a trial at {load} is none that this search offers; is the plan stored with the run the one it was measured by?"
    )]
    Foreign {
        /// Its load.
        load: Pps,
    },
}

impl SearchConfig {
    /// Least load when none is stated: what FD.io CSIT uses, in packets a second.
    pub const DEFAULT_MIN_LOAD: Pps = Pps(9001.0);
    /// Time budget when none is stated.
    pub const DEFAULT_BUDGET: Nanos = Nanos(1200 * Nanos::PER_SECOND);
    /// Warm-up when none is stated.
    pub const DEFAULT_WARM_UP: Nanos = Nanos(Nanos::PER_SECOND);

    /// A search for `goals` up to `max_load`, the rest by default.
    pub fn new(goals: Vec<Goal>, max_load: Pps) -> Self {
        Self {
            goals,
            min_load: Self::DEFAULT_MIN_LOAD,
            max_load,
            budget: Self::DEFAULT_BUDGET,
            warm_up: Self::DEFAULT_WARM_UP,
            first_load: None,
            overhead_counts: true,
        }
    }

    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<(), SearchError> {
        if self.goals.is_empty() {
            return Err(SearchError::NoGoal);
        }
        for (place, goal) in self.goals.iter().enumerate() {
            goal.check()?;
            if self.goals[..place].iter().any(|earlier| earlier.name == goal.name) {
                return Err(SearchError::SameName(goal.name.clone()));
            }
        }
        let (min, max) = (self.min_load, self.max_load);
        if !(min.0 > 0.0 && min.0 < max.0 && max.0.is_finite() && max.0 / min.0 <= 1e12) {
            return Err(SearchError::Loads { min, max });
        }
        let needed = self.least_budget();
        if self.budget < needed {
            return Err(SearchError::Budget { budget: self.budget, needed });
        }
        Ok(())
    }
}

/// A search that can be run, as often as wanted.
#[derive(Clone, Debug)]
pub struct Search {
    config: SearchConfig,
}

impl SearchConfig {
    /// The least time that any answer needs: the warm-up and one final trial.
    pub fn least_budget(&self) -> Nanos {
        let longest = self.goals.iter().map(|goal| goal.final_trial_duration).max().unwrap_or_default();
        Nanos(longest.0.saturating_add(self.warm_up.0))
    }
}

impl Search {
    /// A search whose configuration has been checked.
    pub fn new(config: SearchConfig) -> Result<Self, SearchError> {
        config.check()?;
        Ok(Self { config })
    }

    /// The configuration.
    pub fn config(&self) -> &SearchConfig {
        &self.config
    }

    /// What the search takes if nothing surprises it, each trial with so much set-up and drain time.
    pub fn estimate(&self, overhead: Nanos) -> Remaining {
        let mut session = Session::new(&self.config);
        session.expect(Bounds::default());
        (session.trials, session.overhead) = (1, overhead);
        let warm_up = match self.config.warm_up {
            Nanos(0) => Remaining::default(),
            length => Remaining { trials: 1, time: Nanos(length.0.saturating_add(overhead.0)) },
        };
        let search = session.remaining();
        let time = Nanos(warm_up.time.0.saturating_add(search.time.0)).min(self.config.budget);
        Remaining { trials: warm_up.trials + search.trials, time }
    }

    /// Searches. An error of the measurer ends the search and is returned as it is.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<SearchOutcome, M::Error> {
        let mut session = Session::new(&self.config);
        session.start(measurer, observer)?;
        while let Some(want) = session.want() {
            if !session.affords(want.duration) {
                break;
            }
            session.measure(want, measurer, observer)?;
            session.tell_bounds(observer);
        }
        Ok(session.outcome())
    }
}

/// From this part of the budget on, spent on disturbed trials in a row, a search goes on by what they say.
const HOPELESS: u64 = 4;

/// A search being run.
struct Session<'a> {
    config: &'a SearchConfig,
    ladder: Ladder,
    /// The trials that count.
    book: Book,
    /// Those and the disturbed ones, which something beside their load spoilt: they prove nothing.
    all: Book,
    /// Time of the disturbed trials since the last one that counted.
    fruitless: Nanos,
    seekers: Vec<Seeker>,
    /// What the observer was last told of each goal: stage and bounds.
    told: Vec<Option<(u32, Bounds)>>,
    trials: u32,
    spent: Nanos,
    overhead: Nanos,
}

impl<'a> Session<'a> {
    fn new(config: &'a SearchConfig) -> Self {
        let narrowest = config.goals.iter().map(|goal| goal.relative_width.0).fold(1.0, f64::min);
        Self {
            config,
            ladder: Ladder::new(config.min_load, config.max_load, Ratio(narrowest)),
            book: Book::default(),
            all: Book::default(),
            fruitless: Nanos(0),
            seekers: Vec::new(),
            told: Vec::new(),
            trials: 0,
            spent: Nanos(0),
            overhead: Nanos(0),
        }
    }

    /// Warm-up, then the trial that tells the goals where to look: a load that is likely too great, and the
    /// rate that the device forwarded of it.
    fn start<M: Measurer, O: Observer>(
        &mut self,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), M::Error> {
        let first = self.config.first_load.map_or(self.ladder.top(), |load| self.ladder.at_or_below(load));
        self.expect(Bounds { lower: Some(first), upper: Some(first) });
        if self.config.warm_up.0 > 0 {
            let spec = TrialSpec { load: self.ladder.load(first), duration: self.config.warm_up };
            self.run_trial(Purpose::WarmUp, spec, measurer, observer)?;
        }
        let targets = self.seekers.iter().map(|seeker| seeker.target());
        let duration =
            targets.clone().map(|target| target.requirement.trial_duration).max().unwrap_or_default();
        let width = targets.map(|target| target.width).max().unwrap_or(1);
        let tolerated = self.config.goals.iter().map(|goal| goal.loss_ratio.0).fold(1.0, f64::min);

        let result = self.measure(Want { load: first, duration }, measurer, observer)?;
        let loss = result.loss_ratio().0;
        if loss > tolerated {
            let forwarded = Pps(self.ladder.load(first).0 * (1.0 - loss) / (1.0 - tolerated));
            let upper = self.ladder.at_or_below(forwarded).up(width).min(first);
            self.expect(Bounds { lower: Some(upper.down(width)), upper: Some(upper) });
        }
        self.tell_bounds(observer);
        Ok(())
    }

    /// Starts all goals from where they should expect their bounds.
    fn expect(&mut self, expected: Bounds) {
        let seeker = |goal| Seeker::new(goal, &self.ladder, expected);
        self.seekers = self.config.goals.iter().map(seeker).collect();
    }

    /// The trial to run next: of those the goals want the least load, and of those the longest.
    fn want(&mut self) -> Option<Want> {
        // Where nearly all trials are disturbed, they lead to an estimate at least.
        let hopeless = self.fruitless.0 > self.config.budget.0 / HOPELESS;
        let Self { seekers, book, all, ladder, .. } = self;
        let book = if hopeless { all } else { book };
        seekers
            .iter_mut()
            .filter_map(|seeker| seeker.want(book, ladder))
            .min_by_key(|want| (want.load, std::cmp::Reverse(want.duration)))
    }

    fn mean_overhead(&self) -> Nanos {
        Nanos(self.overhead.0.checked_div(u64::from(self.trials)).unwrap_or(0))
    }

    fn affords(&self, duration: Nanos) -> bool {
        let after = [self.spent, duration, self.mean_overhead()]
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(part.0));
        after <= self.config.budget.0
    }

    fn measure<M: Measurer, O: Observer>(
        &mut self,
        want: Want,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<TrialResult, M::Error> {
        let spec = TrialSpec { load: self.ladder.load(want.load), duration: want.duration };
        let result = self.run_trial(Purpose::Search, spec, measurer, observer)?;
        self.take(want.load, &result);
        Ok(result)
    }

    /// Keeps a trial, as one that counts where nothing disturbed it.
    fn take(&mut self, load: Rung, result: &TrialResult) {
        let sample = Sample::of(result, self.config.overhead_counts);
        self.all.add(load, sample);
        if judge(result).is_disturbed() {
            self.fruitless.0 = self.fruitless.0.saturating_add(sample.effective.0);
        } else {
            self.book.add(load, sample);
            self.fruitless = Nanos(0);
        }
    }

    fn run_trial<M: Measurer, O: Observer>(
        &mut self,
        purpose: Purpose,
        spec: TrialSpec,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<TrialResult, M::Error> {
        observer.next(&Next { purpose, spec, remaining: self.remaining() });
        let kept = measurer.measure(purpose, spec)?;
        observer.trial(purpose, &kept);
        let result = kept.result;
        let cost = Sample::of(&result, true).effective;
        self.trials += 1;
        self.spent = Nanos(self.spent.0.saturating_add(cost.0));
        self.overhead = Nanos(self.overhead.0.saturating_add(cost.0.saturating_sub(spec.duration.0)));
        Ok(result)
    }

    fn load(&self, rung: Option<Rung>) -> Option<Pps> {
        rung.map(|rung| self.ladder.load(rung))
    }

    fn tell_bounds<O: Observer>(&mut self, observer: &mut O) {
        self.told.resize(self.seekers.len(), None);
        for place in 0..self.seekers.len() {
            let seeker = &self.seekers[place];
            let (stage, stages) = seeker.progress();
            let bounds = self.book.bounds(&seeker.target().requirement);
            let news = Some((stage, bounds));
            if self.told[place] != news {
                self.told[place] = news;
                observer.bounds(&GoalBounds {
                    goal: &self.config.goals[place].name,
                    lower: self.load(bounds.lower),
                    upper: self.load(bounds.upper),
                    stage,
                    stages,
                });
            }
        }
    }

    fn outcome(&self) -> SearchOutcome {
        let goals = self.config.goals.iter().zip(&self.seekers);
        SearchOutcome {
            goals: goals.map(|(goal, seeker)| self.goal_outcome(goal, seeker)).collect(),
            trials: self.trials,
            spent: self.spent,
            warnings: self.config.goals.iter().flat_map(Goal::warnings).collect(),
        }
    }

    fn goal_outcome(&self, goal: &Goal, seeker: &Seeker) -> GoalOutcome {
        let target = seeker.goal();
        let bounds = self.book.bounds(&target.requirement);
        let state = match bounds {
            _ if !settled(bounds, target.width, self.ladder.top()) => GoalState::OutOfTime,
            Bounds { upper: None, .. } => GoalState::MaxLoadPassed,
            Bounds { lower: None, .. } => GoalState::MinLoadFailed,
            _ => GoalState::Reached,
        };
        let throughput = bounds.lower.map(|lower| {
            conditional_throughput(self.ladder.load(lower), self.book.samples(lower), &target.requirement)
        });
        GoalOutcome {
            goal: goal.clone(),
            state,
            lower: self.load(bounds.lower),
            upper: self.load(bounds.upper),
            throughput,
            estimate: (state == GoalState::OutOfTime).then(|| self.estimate(seeker)).flatten(),
        }
    }

    /// What the trials say of a goal that they do not settle: the bounds of the finest target that has
    /// a lower one; where none has, what most of the time at each load says; then the same of all
    /// trials, the disturbed ones among them. Nothing where no trial says anything.
    fn estimate(&self, seeker: &Seeker) -> Option<Estimate> {
        let weakest =
            Requirement { trial_duration: Nanos(0), duration_sum: Nanos(0), ..seeker.goal().requirement };
        let requirements = seeker.finest_first().map(|target| target.requirement).chain([weakest]);
        let counted = requirements.map(|requirement| (&self.book, self.book.bounds(&requirement)));
        let proven: Vec<(&Book, Bounds)> = counted.chain([(&self.all, self.all.bounds(&weakest))]).collect();
        let passed = proven.iter().find(|(_, bounds)| bounds.lower.is_some());
        let (book, best) = passed.or(proven.iter().find(|(_, bounds)| bounds.upper.is_some()))?;
        // What fails by few trials still says where to look, above what passes by more.
        let above = |upper: &Rung| best.lower.is_none_or(|lower| *upper > lower);
        let upper = best.upper.or_else(|| proven.iter().filter_map(|(_, bounds)| bounds.upper).find(above));
        let time = book.samples(best.lower.or(upper)?).iter().map(|sample| sample.effective.0).sum();
        let (all, disturbed) = (self.all.trials(), self.all.trials() - self.book.trials());
        let reason = match disturbed {
            0 => "time ran out".to_owned(),
            _ => format!("time ran out; {disturbed} of {all} trials were disturbed"),
        };
        let (lower, upper) = (self.load(best.lower), self.load(upper));
        Some(Estimate { lower, upper, measured: Nanos(time), reason })
    }
}
