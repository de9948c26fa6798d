//! The loads a search may offer, as rungs of a logarithmic ladder.
//!
//! Loads are compared and halved as whole numbers, so two goals that want the same load want
//! exactly the same load and share its trials. Neighbouring rungs differ by the same ratio; the
//! narrowest goal width is [`Ladder::RUNGS_PER_WIDTH`] rungs or a little more.

use weir_units::{Pps, Ratio};

/// One load of the ladder; 0 is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rung(pub(super) u32);

/// A distance between two rungs.
pub(super) type Rungs = u32;

impl Rung {
    pub(super) fn up(self, rungs: Rungs) -> Self {
        Self(self.0.saturating_add(rungs))
    }

    pub(super) fn down(self, rungs: Rungs) -> Self {
        Self(self.0.saturating_sub(rungs))
    }

    /// Distance from a lower rung.
    pub(super) fn above(self, lower: Self) -> Rungs {
        self.0.saturating_sub(lower.0)
    }
}

/// All loads between the least and the greatest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ladder {
    min: Pps,
    max: Pps,
    /// Natural logarithm of the ratio of two neighbouring rungs.
    step: f64,
    top: Rung,
}

/// The logarithmic size of a relative width `(upper - lower) / upper`.
fn log_width(width: Ratio) -> f64 {
    -(-width.0).ln_1p()
}

impl Ladder {
    /// Rungs in the narrowest width: fine enough that rounding a width down to whole rungs costs
    /// under 2 %, and a power of two so that halving stays exact.
    pub(super) const RUNGS_PER_WIDTH: Rungs = 64;

    /// A ladder from `min` to `max` (0 < min < max) whose narrowest wanted width is `width`.
    pub(super) fn new(min: Pps, max: Pps, width: Ratio) -> Self {
        let range = (max.0 / min.0).ln();
        let count = (range * f64::from(Self::RUNGS_PER_WIDTH) / log_width(width)).ceil().max(1.0);
        Self { min, max, step: range / count, top: Rung(count as u32) }
    }

    /// The greatest load's rung.
    pub(super) fn top(&self) -> Rung {
        self.top
    }

    /// The load of a rung.
    pub(super) fn load(&self, rung: Rung) -> Pps {
        match rung.0 {
            0 => self.min,
            _ if rung >= self.top => self.max,
            rungs => Pps((self.min.0 * (self.step * f64::from(rungs)).exp()).clamp(self.min.0, self.max.0)),
        }
    }

    /// The greatest rung whose load does not exceed `load`, or the lowest one.
    pub(super) fn at_or_below(&self, load: Pps) -> Rung {
        if load >= self.max {
            return self.top;
        }
        let rungs = ((load.0 / self.min.0).ln() / self.step).floor();
        Rung(rungs.max(0.0) as u32).min(self.top)
    }

    /// A relative width in rungs, rounded down, at least one.
    pub(super) fn rungs(&self, width: Ratio) -> Rungs {
        // The tolerance only undoes the rounding of the division: a width that is a whole number of
        // rungs must not lose one.
        ((log_width(width) / self.step + 1e-9).floor() as Rungs).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder::new(Pps(9001.0), Pps(14_880_952.0), Ratio(0.005))
    }

    #[test]
    fn the_ends_are_exactly_the_least_and_the_greatest_load() {
        let ladder = ladder();
        assert_eq!(ladder.load(Rung(0)), Pps(9001.0));
        assert_eq!(ladder.load(ladder.top()), Pps(14_880_952.0));
        assert_eq!(ladder.at_or_below(Pps(1.0)), Rung(0));
        assert_eq!(ladder.at_or_below(Pps(1e9)), ladder.top());
    }

    #[test]
    fn loads_rise_with_rungs_and_a_width_is_never_exceeded() {
        let ladder = ladder();
        let width = ladder.rungs(Ratio(0.005));
        assert!(width >= Ladder::RUNGS_PER_WIDTH);
        for rung in (0..ladder.top().0 - width).step_by(997) {
            let (low, high) = (ladder.load(Rung(rung)), ladder.load(Rung(rung).up(width)));
            let relative = (high.0 - low.0) / high.0;
            assert!(relative <= 0.005 + 1e-12 && relative > 0.0049, "{relative}");
        }
    }

    #[test]
    fn a_load_lies_between_its_rung_and_the_next() {
        let ladder = ladder();
        for load in [9002.0, 1e5, 123_456.7, 5e6, 14.8e6] {
            let rung = ladder.at_or_below(Pps(load));
            assert!(ladder.load(rung).0 <= load * (1.0 + 1e-12));
            assert!(ladder.load(rung.up(1)).0 > load * (1.0 - 1e-12));
        }
    }
}
