//! Which load one goal wants measured next.
//!
//! A goal passes through its targets from the coarsest to its own. Each target starts from the
//! interval that the one before it found (the first from the forwarding rate at the greatest
//! load) and:
//!
//! 1. measures that interval's middle, then its ends, as far as they can still move a bound;
//! 2. if both ends turn out on one side, gallops away from them, the step growing each time, but
//!    never past the middle of what is known;
//! 3. halves the interval between the bounds until it is as narrow as the target asks.
//!
//! Loads are wanted again until their trials classify them; the next want follows from the bounds
//! alone, so trials that another goal asked for are used as if they were this goal's own.

use super::book::{Book, Bounds};
use super::goal::{Goal, Target};
use super::ladder::{Ladder, Rung, Rungs};
use weir_units::Nanos;

/// One goal on its way.
#[derive(Debug)]
pub(super) struct Seeker {
    targets: Vec<Target>,
    expansion: u32,
    stage: usize,
    /// Where this target expects its bounds.
    expected: Bounds,
    /// Length of the next step outside the expected interval.
    step: Rungs,
    /// Where the last such step went.
    probe: Option<Rung>,
}

/// A trial that a goal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) load: Rung,
    pub(super) duration: Nanos,
}

impl Seeker {
    /// A goal whose bounds are first expected in `expected`.
    pub(super) fn new(goal: &Goal, ladder: &Ladder, expected: Bounds) -> Self {
        let targets = goal.targets(ladder);
        let mut seeker =
            Self { targets, expansion: goal.expansion, stage: 0, expected, step: 0, probe: None };
        seeker.expect(expected);
        seeker
    }

    pub(super) fn target(&self) -> &Target {
        &self.targets[self.stage]
    }

    /// The goal's own target.
    pub(super) fn goal(&self) -> &Target {
        &self.targets[self.targets.len() - 1]
    }

    /// Targets still to come, the present one first.
    pub(super) fn ahead(&self) -> &[Target] {
        &self.targets[self.stage..]
    }

    /// All targets, the goal's own first.
    pub(super) fn finest_first(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().rev()
    }

    /// Present stage and number of stages, from 1.
    pub(super) fn progress(&self) -> (u32, u32) {
        (self.stage as u32 + 1, self.targets.len() as u32)
    }

    fn expect(&mut self, expected: Bounds) {
        let interval = match (expected.lower, expected.upper) {
            (Some(lower), Some(upper)) => upper.above(lower),
            _ => 0,
        };
        self.expected = expected;
        self.step = interval.max(self.target().width);
        self.probe = None;
    }

    /// The trial this goal wants next; nothing when it is reached, or cannot be.
    pub(super) fn want(&mut self, book: &Book, ladder: &Ladder) -> Option<Want> {
        loop {
            let bounds = book.bounds(&self.target().requirement);
            if let Some(load) = self.next_load(bounds, ladder.top()) {
                return Some(Want { load, duration: self.target().requirement.trial_duration });
            }
            if self.stage + 1 == self.targets.len() {
                return None;
            }
            self.stage += 1;
            self.expect(bounds);
        }
    }

    fn next_load(&mut self, bounds: Bounds, top: Rung) -> Option<Rung> {
        if settled(bounds, self.target().width, top) {
            return None;
        }
        if let Some(load) = self.expected_load(bounds) {
            return Some(load);
        }
        self.widen(bounds);
        let Bounds { lower, upper } = bounds;
        let load = match (lower, upper) {
            (Some(lower), upper) if upper.is_none() || self.passed_above(lower) => {
                self.probe_up(lower, upper, top)
            }
            (lower, Some(upper)) if lower.is_none() || self.passed_below(upper) => {
                self.probe_down(lower, upper)
            }
            (Some(lower), Some(upper)) => middle(lower, upper),
            // No bound although the expected loads are measured: nothing was expected.
            _ => top,
        };
        Some(load)
    }

    /// The middle of the expected interval if halving it is enough, then its lower end, then its
    /// upper end: the first that is worth a trial.
    fn expected_load(&self, bounds: Bounds) -> Option<Rung> {
        let Bounds { lower, upper } = self.expected;
        let width = self.target().width;
        let half = match (lower, upper) {
            (Some(lower), Some(upper)) if (width + 1..=2 * width).contains(&upper.above(lower)) => {
                Some(middle(lower, upper))
            }
            _ => None,
        };
        [half, lower, upper].into_iter().flatten().find(|&load| bounds.inside(load))
    }

    /// Whether all expected loads pass, so that the border lies above them.
    fn passed_above(&self, lower: Rung) -> bool {
        self.expected.upper.or(self.expected.lower).is_some_and(|expected| lower >= expected)
    }

    /// Whether all expected loads fail, so that the border lies below them.
    fn passed_below(&self, upper: Rung) -> bool {
        self.expected.lower.or(self.expected.upper).is_some_and(|expected| upper <= expected)
    }

    /// Lengthens the step if the last one did not reach the border.
    fn widen(&mut self, bounds: Bounds) {
        if self.probe.is_some() && (self.probe == bounds.lower || self.probe == bounds.upper) {
            self.step = self.step.saturating_mul(self.expansion);
            self.probe = None;
        }
    }

    fn probe_up(&mut self, lower: Rung, upper: Option<Rung>, top: Rung) -> Rung {
        let load = match upper {
            Some(upper) => lower.up(self.step).min(middle(lower, upper)),
            // A step that would end just short of the greatest load goes all the way.
            None if lower.up(self.step).up(self.target().width) >= top => top,
            None => lower.up(self.step),
        };
        self.probe = Some(load);
        load
    }

    fn probe_down(&mut self, lower: Option<Rung>, upper: Rung) -> Rung {
        let load = match lower {
            Some(lower) => upper.down(self.step).max(middle(lower, upper)),
            None if upper.down(self.step) <= Rung(0).up(self.target().width) => Rung(0),
            None => upper.down(self.step),
        };
        self.probe = Some(load);
        load
    }
}

/// Whether the bounds answer a target: near enough, or at the end of the ladder.
pub(super) fn settled(bounds: Bounds, width: Rungs, top: Rung) -> bool {
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) => upper.above(lower) <= width,
        (Some(lower), None) => lower >= top,
        (None, Some(upper)) => upper == Rung(0),
        (None, None) => false,
    }
}

fn middle(lower: Rung, upper: Rung) -> Rung {
    lower.up(upper.above(lower) / 2)
}
