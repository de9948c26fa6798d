//! Connections a second and at a time: the rate against the frame size's devices, and the table behind it.

use super::{Part, by_function, series, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use weir_trial::Nf;
use weir_trial::run::{ConnectionsResult, PointResult, changes};

/// The results of a point.
fn results<'a>(entry: &Entry<'a>) -> impl Iterator<Item = &'a ConnectionsResult> {
    entry.point.results.iter().filter_map(|result| match result {
        PointResult::Connections(result) => Some(result),
        _ => None,
    })
}

/// The whole section; nothing where no connection was opened.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let series = series(digest, nf, str::to_owned, 0, |entry| sample(&entry));
    (!series.is_empty()).then(|| Figure {
        id: format!("connections-{}", slug(&nf.to_string())),
        title: format!("{nf}: new connections a second"),
        caption: "The greatest rate of new TCP connections of which every packet came as it must (RFC 3511, section 5.3); bars \
                  are the 95 % interval of the mean over the searches. How many were tracked at a time (section 5.2) \
                  stands in the table."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis { label: "Frame size".into(), quantity: Quantity::FrameBytes, spacing: Spacing::Linear },
            y: Axis { label: "Connections a second".into(), quantity: Quantity::Plain, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn sample(entry: &Entry<'_>) -> Option<Sample> {
    let result = results(entry).next()?;
    let rate = result.rate?;
    let mut lines = vec![changes(rate.mean)];
    lines.extend(result.limit.as_ref().map(|limit| format!("limited by {}: {}", limit.by.name(), limit.why)));
    Some(Sample {
        x: entry.bytes(),
        x_name: Some(entry.size()),
        y: Some(rate.mean),
        interval: rate.interval.map(|interval| (interval.low, interval.high)),
        suspect: false,
        hollow: false,
        detail: lines.join("\n"),
    })
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for result in results(&entry) {
            let rate =
                |value: Option<f64>| value.map_or(Cell::None, |value| Cell::Number(changes(value), value));
            let count = |value: Option<u64>| value.map_or(Cell::None, Cell::count);
            let interval = result.rate.and_then(|rate| rate.interval);
            let held = result.held.as_ref();
            let setup = |place: usize| {
                let passed = result.rate.map_or(0.0, |rate| rate.mean);
                let trials = result.searches.iter().flat_map(|search| &search.trials);
                let of = trials.filter_map(|trial| entry.point.trial(*trial)?.result.connections.as_ref());
                let near = of.filter(|made| made.passed() && made.asked.rate <= passed * 1.05);
                let last = near.max_by(|a, b| a.asked.rate.total_cmp(&b.asked.rate));
                last.and_then(|made| Some(Cell::time(made.setup.as_ref()?.percentiles[place])))
                    .unwrap_or(Cell::None)
            };
            rows.push(Row {
                suspect: result.rate.is_none(),
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    rate(result.rate.map(|rate| rate.mean)),
                    rate(interval.map(|interval| interval.low)),
                    rate(interval.map(|interval| interval.high)),
                    Cell::count(result.searches.len() as u64),
                    count(held.and_then(|held| held.passed)),
                    count(held.and_then(|held| held.failed)),
                    rate(held.map(|held| held.opened_at)),
                    setup(0),
                    setup(2),
                    Cell::Text(result.limit.as_ref().map_or(String::new(), |limit| {
                        format!("limited by {}: {}", limit.by.name(), limit.why)
                    })),
                ],
            });
        }
    }
    Table {
        id: format!("connections-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: new connections a second, and connections at a time"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Connections", "connections_per_second", Kind::Number),
            column("Interval from", "interval_low", Kind::Number),
            column("Interval to", "interval_high", Kind::Number),
            column("Searches", "searches", Kind::Number),
            column("At a time", "held", Kind::Number),
            column("Failed from", "held_failed", Kind::Number),
            column("Opened at", "held_opened_at", Kind::Number),
            column("Open P50", "setup_p50_ns", Kind::Number),
            column("Open P99", "setup_p99_ns", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}
