//! The numbers of one side of a comparison: from the stored results of a point to what is compared.

use super::validity::objection;
use super::{Better, Of, Unit};
use crate::stored;
use weir_trial::run::{Point, PointResult, StoredTrial};
use weir_units::{PERCENTILES, Pps};

/// The percentiles of latency that are compared, in per cent.
const COMPARED: [f64; 2] = [50.0, 99.0];

/// What one side says about one quantity.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Independent numbers, each with when its measuring began (milliseconds since 1970).
    pub(super) values: Vec<(f64, i64)>,
    /// What one number is.
    pub(super) of: Of,
    /// How far the truth may lie above a number, as a factor: the width of a search's bounds.
    pub(super) width: Option<f64>,
    /// Load at which it was measured, over all directions.
    pub(super) load: Option<Pps>,
    /// Why it must not be ranked.
    pub(super) objection: Option<String>,
}

/// A quantity that both sides may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
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
            let PointResult::Throughput { goal, throughput, lower, upper, .. } = result else { continue };
            let name = format!("throughput {goal}");
            let numbers = entry(found, Quantity { name, unit: Unit::Pps, better: Better::Higher });
            numbers.of = Of::Repeat;
            if let Some(objection) = objection(result, &search.trials) {
                numbers.objection.get_or_insert(objection);
            }
            numbers.values.extend(throughput.map(|rate| (rate.0, began(&search.trials))));
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
        let PointResult::Mrr { load, rates, .. } = result else { continue };
        let quantity =
            Quantity { name: "forwarded rate".to_owned(), unit: Unit::Pps, better: Better::Higher };
        let numbers = entry(found, quantity);
        numbers.load = *load;
        if let Some(objection) = objection(result, trials) {
            numbers.objection.get_or_insert(objection);
        }
        let rates: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
        if repeats.len() == 1 {
            let starts = trials.iter().map(|trial| trial.started_ms).chain(std::iter::repeat(0));
            numbers.values.extend(rates.into_iter().zip(starts));
        } else {
            numbers.of = Of::RepeatCentre;
            numbers.values.extend(super::gap::centre(&rates).map(|rate| (rate, began(trials))));
        }
    }
}

fn latency(point: &Point, found: &mut Vec<(Quantity, Numbers)>) {
    for result in &point.results {
        let PointResult::Latency { label, load, .. } = result else { continue };
        let trial = stored::latency_trial(point, result);
        let trials: Vec<&StoredTrial> = trial.into_iter().collect();
        for percent in COMPARED {
            let name = format!("p{percent} latency at {label}");
            let numbers = entry(found, Quantity { name, unit: Unit::Nanoseconds, better: Better::Lower });
            numbers.of = Of::Repeat;
            // Loads that follow from a search differ a little from repeat to repeat.
            numbers.load = Some(numbers.load.map_or(*load, |other| Pps((other.0 * load.0).sqrt())));
            if let Some(objection) = objection(result, &trials) {
                numbers.objection.get_or_insert(objection);
            }
            let place = PERCENTILES.iter().position(|known| *known == percent);
            let latency = trial.and_then(|trial| Some((trial.result.latency.as_ref()?, trial.started_ms)));
            if let (Some(place), Some((latency, began))) = (place, latency) {
                numbers.values.push((latency.percentiles[place].0 as f64, began));
            }
        }
    }
}
