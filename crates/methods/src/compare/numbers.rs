//! The numbers of one side of a comparison: from the stored results of a point to what is compared.

use super::validity::Objection;
use super::{Better, Of, Unit};
use crate::registry::entry;
use weir_trial::run::{Method, Point, StoredTrial};
use weir_units::Pps;

/// What one side says about one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// Independent numbers, each with when its measuring began (milliseconds since 1970); nothing in
    /// the place of one that the machine or the tester spoilt.
    pub(crate) slots: Vec<(Option<f64>, i64)>,
    /// Why the last one was spoilt.
    pub(crate) spoilt: Option<String>,
    /// What one number is.
    pub(crate) of: Of,
    /// How far the truth may lie above a number, as a factor: the width of a search's bounds.
    pub(crate) width: Option<f64>,
    /// Load at which it was measured, over all directions.
    pub(crate) load: Option<Pps>,
    /// Why the quantity is not what it should be.
    pub(crate) not_this: Option<String>,
}

/// A quantity that both sides may have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

impl Numbers {
    /// The numbers that stand.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.slots.iter().filter_map(|(value, _)| *value).collect()
    }

    /// Why it must not be ranked.
    pub(crate) fn objection(&self) -> Option<String> {
        let nothing_left =
            || self.spoilt.clone().filter(|_| self.values().is_empty()).map(|why| format!("invalid: {why}"));
        self.not_this.clone().or_else(nothing_left)
    }

    /// Takes a number in, unless there is an objection.
    pub(crate) fn take(&mut self, number: Option<f64>, began: i64, objection: Option<Objection>) {
        match objection {
            None => self.slots.extend(number.map(|number| (Some(number), began))),
            Some(Objection::Spoilt(why)) => {
                self.slots.push((None, began));
                self.spoilt = Some(why);
            }
            Some(Objection::NotThis(why)) => {
                self.slots.extend(number.map(|number| (Some(number), began)));
                self.not_this.get_or_insert(why);
            }
        }
    }
}

/// Everything a point says, in the order of its results.
pub(crate) fn of_point(point: &Point) -> Vec<(Quantity, Numbers)> {
    let mut found = Found::default();
    Method::ALL.into_iter().for_each(|method| (entry(method).compared)(point, &mut found));
    found.0
}

/// What a point says so far.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<(Quantity, Numbers)>);

impl Found {
    /// The numbers of a quantity, of which there may be none yet.
    pub(crate) fn numbers(&mut self, quantity: Quantity) -> &mut Numbers {
        let place = match self.0.iter().position(|(known, _)| *known == quantity) {
            Some(place) => place,
            None => {
                self.0.push((quantity, Numbers::default()));
                self.0.len() - 1
            }
        };
        &mut self.0[place].1
    }
}

/// When the first of some trials began.
pub(crate) fn began(trials: &[&StoredTrial]) -> i64 {
    trials.first().map_or(0, |trial| trial.started_ms)
}
