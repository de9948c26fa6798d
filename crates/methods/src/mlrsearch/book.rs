//! The trials of a search, by load, and the bounds they prove.

use super::ladder::Rung;
use super::load::{LoadClass, Requirement, Sample, classify};
use std::collections::BTreeMap;

/// Trials, each under its load. Shared by all goals.
#[derive(Debug, Default)]
pub(super) struct Book(BTreeMap<Rung, Vec<Sample>>);

/// The relevant bounds under one requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Greatest load that passes, of those below [`Self::upper`].
    pub(super) lower: Option<Rung>,
    /// Least load that fails.
    pub(super) upper: Option<Rung>,
}

impl Bounds {
    /// Whether a trial at `load` could still move a bound.
    pub(super) fn inside(&self, load: Rung) -> bool {
        self.lower.is_none_or(|lower| load > lower) && self.upper.is_none_or(|upper| load < upper)
    }
}

impl Book {
    pub(super) fn add(&mut self, load: Rung, sample: Sample) {
        self.0.entry(load).or_default().push(sample);
    }

    pub(super) fn samples(&self, load: Rung) -> &[Sample] {
        self.0.get(&load).map_or(&[], Vec::as_slice)
    }

    /// How many trials there are.
    pub(super) fn trials(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Bounds under a requirement. Loads that pass above one that fails prove nothing: a device that
    /// loses packets at a load has not earned any load above it.
    pub(super) fn bounds(&self, requirement: &Requirement) -> Bounds {
        let mut bounds = Bounds::default();
        for (&load, samples) in &self.0 {
            match classify(samples, requirement) {
                LoadClass::Lower => bounds.lower = Some(load),
                LoadClass::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
                LoadClass::Undecided => {}
            }
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlrsearch::Goal;
    use weir_units::{Nanos, Ratio};

    #[test]
    fn a_load_that_passes_above_one_that_fails_is_no_bound() {
        let requirement = Goal::rfc2544().with_trial(Nanos(1)).requirement();
        let mut book = Book::default();
        for (load, loss) in [(10, 0.0), (20, 0.0), (30, 0.1), (40, 0.0), (50, 0.2)] {
            book.add(Rung(load), Sample { duration: Nanos(1), effective: Nanos(1), loss: Ratio(loss) });
        }
        let bounds = book.bounds(&requirement);
        assert_eq!(bounds, Bounds { lower: Some(Rung(20)), upper: Some(Rung(30)) });
        assert!(bounds.inside(Rung(25)) && !bounds.inside(Rung(20)) && !bounds.inside(Rung(30)));
    }
}
