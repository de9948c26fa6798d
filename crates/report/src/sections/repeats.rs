//! Measurements repeated at a point, summed up: median, interval and count.

use super::slug;
use crate::digest::Digest;
use crate::table::{Cell, Kind, Row, Table, column};
use weir_trial::Nf;
use weir_trial::run::{Unit, changes, repeats};
use weir_units::{Nanos, Pps};

/// A row for each number that was measured more than once at a point; no rows where none was.
pub(super) fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for summary in repeats(&entry.point.results) {
            let cell = |value: f64| match summary.unit {
                Unit::PacketsPerSecond => Cell::rate(Some(Pps(value)), entry.bytes()),
                Unit::ChangesPerSecond | Unit::ConnectionsPerSecond => Cell::Number(changes(value), value),
                Unit::Nanoseconds => Cell::time(Nanos(value.max(0.0).round() as u64)),
            };
            let spread = summary.spread;
            let (low, high) = spread.interval.map(|interval| (interval.low, interval.high)).unzip();
            rows.push(Row {
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::Text(summary.name.clone()),
                    Cell::count(u64::from(spread.count)),
                    cell(spread.median),
                    low.map_or(Cell::None, cell),
                    high.map_or(Cell::None, cell),
                    cell(spread.min),
                    cell(spread.max),
                ],
                suspect: false,
            });
        }
    }
    Table {
        id: format!("repeats-{}-table", slug(&nf.to_string())),
        caption: format!(
            "{nf}: repeats of a measurement; the interval holds the mean at 95 % confidence (Student's t)"
        ),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Number", "number", Kind::Text),
            column("Repeats", "repeats", Kind::Number),
            column("Median", "median", Kind::Rate),
            column("Interval from", "interval_low", Kind::Rate),
            column("Interval to", "interval_high", Kind::Rate),
            column("Least", "least", Kind::Rate),
            column("Greatest", "greatest", Kind::Rate),
        ],
        rows,
    }
}
