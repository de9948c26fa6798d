//! The numbers of one side of a comparison: from the stored results of a point to what is compared.

use super::validity::{Objection, of_result, of_trial};
use super::{Better, Of, Unit};
use crate::stored;
use weir_trial::run::{LatencyResult, MrrResult, Point, PointResult, StoredTrial, ThroughputResult};
use weir_units::{PERCENTILES, Pps};

/// The percentiles of latency that are compared, in per cent.
const COMPARED: [f64; 2] = [50.0, 99.0];

/// What one side says about one quantity.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Independent numbers, each with when its measuring began (milliseconds since 1970); nothing in
    /// the place of one that the machine or the tester spoilt.
    pub(super) slots: Vec<(Option<f64>, i64)>,
    /// Why the last one was spoilt.
    spoilt: Option<String>,
    /// What one number is.
    pub(super) of: Of,
    /// How far the truth may lie above a number, as a factor: the width of a search's bounds.
    pub(super) width: Option<f64>,
    /// Load at which it was measured, over all directions.
    pub(super) load: Option<Pps>,
    not_this: Option<String>,
}

/// A quantity that both sides may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
}

impl Numbers {
    /// The numbers that stand.
    pub(super) fn values(&self) -> Vec<f64> {
        self.slots.iter().filter_map(|(value, _)| *value).collect()
    }

    /// Why it must not be ranked.
    pub(super) fn objection(&self) -> Option<String> {
        let nothing_left =
            || self.spoilt.clone().filter(|_| self.values().is_empty()).map(|why| format!("invalid: {why}"));
        self.not_this.clone().or_else(nothing_left)
    }

    /// Takes a number in, unless there is an objection.
    fn take(&mut self, number: Option<f64>, began: i64, objection: Option<Objection>) {
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
pub(super) fn of_point(point: &Point) -> Vec<(Quantity, Numbers)> {
    let mut found: Vec<(Quantity, Numbers)> = Vec::new();
    throughput(point, &mut found);
    forwarded(point, &mut found);
    latency(point, &mut found);
    found
}

fn entry(found: &mut Vec<(Quantity, Numbers)>, quantity: Quantity) -> &mut Numbers {
    let place = match found.iter().position(|(known, _)| *known == quantity) {
        Some(place) => place,
        None => {
            found.push((quantity, Numbers::default()));
            found.len() - 1
        }
    };
    &mut found[place].1
}

fn began(trials: &[&StoredTrial]) -> i64 {
    trials.first().map_or(0, |trial| trial.started_ms)
}

fn throughput(point: &Point, found: &mut Vec<(Quantity, Numbers)>) {
    for search in stored::searches(point) {
        for result in search.results {
            let PointResult::Throughput(ThroughputResult { goal, throughput, lower, upper, .. }) = result
            else {
                continue;
            };
            let name = format!("throughput {goal}");
            let numbers = entry(found, Quantity { name, unit: Unit::Pps, better: Better::Higher });
            numbers.of = Of::Repeat;
            let rate = throughput.map(|rate| rate.0);
            numbers.take(rate, began(&search.trials), of_result(result, &search.trials));
            if let (Some(lower), Some(upper)) = (lower, upper) {
                let width = upper.0 / lower.0;
                numbers.width = Some(numbers.width.map_or(width, |widest| widest.max(width)));
            }
        }
    }
}

/// One repeat's trials are the numbers; of several repeats each counts once, by its centre, as
/// trials of one repeat have more in common than the repeats have.
fn forwarded(point: &Point, found: &mut Vec<(Quantity, Numbers)>) {
    let repeats = stored::forwarded_rates(point);
    for (result, trials) in &repeats {
        let PointResult::Mrr(MrrResult { load, rates, .. }) = result else { continue };
        let quantity =
            Quantity { name: "forwarded rate".to_owned(), unit: Unit::Pps, better: Better::Higher };
        let numbers = entry(found, quantity);
        numbers.load = *load;
        if let Some(Objection::NotThis(why)) = of_result(result, trials) {
            numbers.not_this.get_or_insert(why);
        }
        let mut own = Numbers::default();
        for (place, rate) in rates.iter().enumerate() {
            let trial = trials.get(place);
            let began = trial.map_or(0, |trial| trial.started_ms);
            own.take(Some(rate.0), began, trial.and_then(|trial| of_trial(trial)));
        }
        let of_own = own.values();
        numbers.spoilt = own.spoilt.or(numbers.spoilt.take());
        if repeats.len() == 1 {
            numbers.slots.extend(own.slots);
        } else {
            numbers.of = Of::RepeatCentre;
            numbers.slots.push((super::gap::centre(&of_own), began(trials)));
        }
        if of_own.iter().any(|rate| *rate <= 0.0) {
            numbers.not_this.get_or_insert("nothing was forwarded".to_owned());
        }
    }
}

fn latency(point: &Point, found: &mut Vec<(Quantity, Numbers)>) {
    for result in &point.results {
        let PointResult::Latency(LatencyResult { label, load, .. }) = result else { continue };
        let trial = stored::latency_trial(point, result);
        let trials: Vec<&StoredTrial> = trial.into_iter().collect();
        for percent in COMPARED {
            let name = format!("p{percent} latency at {label}");
            let numbers = entry(found, Quantity { name, unit: Unit::Nanoseconds, better: Better::Lower });
            numbers.of = Of::Repeat;
            // Loads that follow from a search differ a little from repeat to repeat.
            numbers.load = Some(numbers.load.map_or(*load, |other| Pps((other.0 * load.0).sqrt())));
            let place = PERCENTILES.iter().position(|known| *known == percent);
            let latency = trial.and_then(|trial| trial.result.latency.as_ref());
            let number = place.zip(latency).map(|(place, latency)| latency.percentiles[place].0 as f64);
            numbers.take(number, began(&trials), of_result(result, &trials));
        }
    }
}
