//! How much of a search is left.
//!
//! Loads still to settle follow from the widths: one bisection halves an interval. Each load takes
//! the share of its duration sum that an unambiguous load needs. Goals share trials, so only the
//! longest counts in full, and the others by [`SHARED`].

use super::Session;
use super::goal::Target;
use super::seek::{Seeker, settled};
use crate::observe::Remaining;
use weir_units::Nanos;

/// Share of a further goal's trials that its neighbours do not take for it.
const SHARED: f64 = 0.5;
/// Loads that a target starting from the one before it has to settle: the middle and an end.
const LOADS_PER_TARGET: f64 = 2.0;

/// Cost of some trials.
#[derive(Clone, Copy, Default)]
struct Cost {
    trials: f64,
    seconds: f64,
}

impl Session<'_> {
    /// What is left, by the bounds so far and what trials have cost beyond their duration.
    pub(super) fn remaining(&self) -> Remaining {
        let mut goals: Vec<Cost> = self.seekers.iter().map(|seeker| self.cost_of(seeker)).collect();
        goals.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut total = Cost::default();
        for (place, cost) in goals.iter().enumerate() {
            let share = if place == 0 { 1.0 } else { SHARED };
            total.trials += cost.trials * share;
            total.seconds += cost.seconds * share;
        }
        let left = self.config.budget.0.saturating_sub(self.spent.0);
        let time = Nanos::from_seconds(total.seconds);
        let cut = if time.0 > left && time.0 > 0 { left as f64 / time.0 as f64 } else { 1.0 };
        Remaining { trials: (total.trials * cut).ceil() as u32, time: time.min(Nanos(left)) }
    }

    fn cost_of(&self, seeker: &Seeker) -> Cost {
        let mut cost = Cost::default();
        for (place, target) in seeker.ahead().iter().enumerate() {
            let bounds = self.book.bounds(&target.requirement);
            if settled(bounds, target.width, self.ladder.top()) {
                continue;
            }
            let loads = match (bounds.lower, bounds.upper) {
                (Some(lower), Some(upper)) if place == 0 => {
                    (f64::from(upper.above(lower)) / f64::from(target.width)).log2().ceil().max(1.0)
                }
                (None, None) => LOADS_PER_TARGET,
                _ => LOADS_PER_TARGET - 1.0,
            };
            let one = self.cost_of_load(target);
            cost.trials += loads * one.trials;
            cost.seconds += loads * one.seconds;
        }
        cost
    }

    fn cost_of_load(&self, target: &Target) -> Cost {
        let requirement = &target.requirement;
        let overhead = self.mean_overhead().seconds();
        let trial = requirement.trial_duration.seconds() + overhead;
        let weight = if self.config.overhead_counts { trial } else { requirement.trial_duration.seconds() };
        let needed = requirement.duration_sum.seconds() * (1.0 - requirement.exceed_ratio.0);
        let trials = (needed / weight).ceil().max(1.0);
        Cost { trials, seconds: trials * trial }
    }
}
