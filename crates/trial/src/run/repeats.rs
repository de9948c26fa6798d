//! A measurement repeated at a point, summed up: the spread of each number beside the single results.

use super::PointResult;
use weir_units::{Nanos, Pps, Spread};

/// What the numbers of a summary count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets a second.
    PacketsPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Changes of flow entries a second.
    ChangesPerSecond,
    /// New connections a second.
    ConnectionsPerSecond,
}

/// One number of all repeats of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeats {
    /// Which: a goal's name, `mrr`, `knee`, `buffer`.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// How it scatters.
    pub spread: Spread,
}

impl Repeats {
    /// A value with its unit.
    pub fn show(&self, value: f64) -> String {
        match self.unit {
            Unit::PacketsPerSecond => Pps(value).to_string(),
            Unit::Nanoseconds => Nanos(value.max(0.0).round() as u64).to_string(),
            Unit::ChangesPerSecond | Unit::ConnectionsPerSecond => changes(value),
        }
    }
}

/// A rate of changes, or of connections: `12,300/s`.
pub fn changes(rate: f64) -> String {
    let whole = (rate.max(0.0).round() as u64).to_string();
    let first = whole.len() % 3;
    let (front, back) = whole.split_at(first);
    let groups = back.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let groups: Vec<_> = Some(front.into()).filter(|_| first > 0).into_iter().chain(groups).collect();
    format!("{}/s", groups.join(","))
}

/// The spread of every number that was measured more than once, in order of first appearance.
pub fn repeats(results: &[PointResult]) -> Vec<Repeats> {
    let mut groups: Vec<(&str, Unit, Vec<f64>)> = Vec::new();
    let numbers = results.iter().filter_map(|result| result.of_method().number());
    for (name, unit, value) in numbers.filter(|(.., value)| value.is_finite()) {
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., values)) => values.push(value),
            None => groups.push((name, unit, vec![value])),
        }
    }
    let summary = |(name, unit, values): (&str, Unit, Vec<f64>)| {
        let spread = Spread::of(&values).filter(|spread| spread.count > 1)?;
        Some(Repeats { name: name.to_owned(), unit, spread })
    };
    groups.into_iter().filter_map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::MrrResult;

    fn mrr(mean: f64) -> PointResult {
        PointResult::Mrr(MrrResult {
            load: None,
            rates: Vec::new(),
            mean: Pps(mean),
            deviation: Pps(0.0),
            cycles_per_packet: None,
            limit: None,
        })
    }

    #[test]
    fn repeats_have_a_median_an_interval_and_a_count() {
        let summaries = repeats(&[mrr(1e6), mrr(3e6), mrr(2e6)]);
        let [summary] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!((summary.name.as_str(), summary.spread.count, summary.spread.median), ("mrr", 3, 2e6));
        // 2 ± 4.303 × 1 / √3
        assert_eq!(summary.show(summary.spread.interval.unwrap().high), "4.484 Mpps");
    }

    #[test]
    fn what_was_measured_once_has_no_summary() {
        assert!(repeats(&[mrr(1e6)]).is_empty());
        assert!(repeats(&[mrr(1e6), mrr(f64::NAN)]).is_empty());
    }
}
