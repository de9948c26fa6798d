//! What a method tells on its way. All calls come between trials, from the method's own thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::Purpose;
use weir_trial::{KeptTrial, TrialSpec};
use weir_units::{Nanos, Pps};

/// The trial about to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// What it is for.
    pub purpose: Purpose,
    /// Load and duration.
    pub spec: TrialSpec,
    /// What is left, this trial included.
    pub remaining: Remaining,
}

/// An estimate of what is left of a method. A search's can rise when the device surprises it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remaining {
    /// Trials.
    pub trials: u32,
    /// Time, set-up and drain included.
    pub time: Nanos,
}

/// How far a search has narrowed one goal down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalBounds<'a> {
    /// Name of the goal.
    pub goal: &'a str,
    /// Greatest load known to pass under the present target.
    pub lower: Option<Pps>,
    /// Least load known to fail under the present target.
    pub upper: Option<Pps>,
    /// Present target, from 1: the earlier ones are shorter and coarser than the goal.
    pub stage: u32,
    /// Targets of the goal; at `stage == stages` the bounds are the goal's own.
    pub stages: u32,
}

/// Somebody who watches a method: a progress line, a store. Every function may be left out.
pub trait Observer {
    /// A trial is about to run.
    fn next(&mut self, _next: &Next) {}

    /// A trial is over. Warm-up trials come too; they decide nothing.
    fn trial(&mut self, _purpose: Purpose, _kept: &KeptTrial) {}

    /// A goal's bounds have changed.
    fn bounds(&mut self, _bounds: &GoalBounds<'_>) {}
}

/// An observer that wants to know nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
