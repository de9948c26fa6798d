//! Changes of flow entries a second under a load: the rate against the load, and the table behind it.

use super::{Part, by_function, series, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::{number, percent};
use weir_trial::Nf;
use weir_trial::run::{FlowModsResult, PointResult, changes};

/// The results of a point.
fn results<'a>(entry: &Entry<'a>) -> impl Iterator<Item = &'a FlowModsResult> {
    entry.point.results.iter().filter_map(|result| match result {
        PointResult::FlowMods(result) => Some(result),
        _ => None,
    })
}

/// The whole section; nothing where no entry was changed.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let series = series(digest, nf, str::to_owned, 0, |entry| sample(&entry));
    (!series.is_empty()).then(|| Figure {
        id: format!("flow-mods-{}", slug(&nf.to_string())),
        title: format!("{nf}: changes of flow entries a second"),
        caption: "Changes that came to their barrier, each a second, while the load below was forwarded; bars are the \
                  95 % interval of the mean over the pairs of trials. What they cost that load, and for how long a \
                  confirmed change was not in force, stands in the table."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis { label: "Frame size".into(), quantity: Quantity::FrameBytes, spacing: Spacing::Linear },
            y: Axis { label: "Changes a second".into(), quantity: Quantity::Plain, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn sample(entry: &Entry<'_>) -> Option<Sample> {
    let result = results(entry).next()?;
    let rate = result.rate?;
    let lines = [format!("{} at {}", changes(rate.mean), result.load), cost(result), force(result)];
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

fn cost(result: &FlowModsResult) -> String {
    result.certain_cost().map_or("no loss more than without changes, beyond chance".to_owned(), |cost| {
        format!("{} of the load lost more than without changes", percent(cost.0))
    })
}

fn force(result: &FlowModsResult) -> String {
    let FlowModsResult { checked, late, never, .. } = result;
    format!("{checked} confirmed changes looked for: {late} in force late, {never} not at all")
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for result in results(&entry) {
            let of =
                |value: Option<f64>| value.map_or(Cell::None, |value| Cell::Number(changes(value), value));
            let mean = |pick: fn(&weir_trial::run::ChangePair) -> f64| {
                result.pairs.iter().map(pick).sum::<f64>() / result.pairs.len().max(1) as f64
            };
            let cost =
                result.cost.map_or(Cell::None, |cost| Cell::Number(number(cost.mean * 100.0, 4), cost.mean));
            rows.push(Row {
                suspect: result.late > 0 || result.rate.is_none(),
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::rate(Some(result.load), entry.bytes()),
                    of(result.rate.map(|rate| rate.mean)),
                    of(result.interval().map(|interval| interval.low)),
                    of(result.interval().map(|interval| interval.high)),
                    Cell::percent(mean(|pair| pair.loss_without.0)),
                    Cell::percent(mean(|pair| pair.loss_with.0)),
                    cost,
                    result.lag.map_or(Cell::None, Cell::time),
                    Cell::Text(force(result)),
                ],
            });
        }
    }
    Table {
        id: format!("flow-mods-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: changes of flow entries a second, and what they cost the load"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Load", "load_pps", Kind::Rate),
            column("Changes", "changes_per_second", Kind::Number),
            column("Interval from", "interval_low", Kind::Number),
            column("Interval to", "interval_high", Kind::Number),
            column("Loss without", "loss_without", Kind::Number),
            column("Loss with", "loss_with", Kind::Number),
            column("Cost, % of the load", "cost", Kind::Number),
            column("Not in force for", "lag_ns", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}
