//! Latency against load: percentiles over the whole range of loads, with the knees.

use super::{Part, curve_cpu, sizes, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Marker, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units;
use weir_trial::Nf;
use weir_trial::run::{CurveResult, CurveStep, PointResult, Saturation, StoredTrial};
use weir_units::{PERCENTILES, Pps};

/// How many of [`PERCENTILES`] are drawn, each with a stroke of its own: 50, 90, 99, 99.9.
const DRAWN: usize = 4;

/// Places of those whose loads are marked: 50 and 99.
const MARKED: [usize; 2] = [0, 2];

/// One curve of a point.
pub(super) struct Curve<'a> {
    pub(super) steps: Vec<(CurveStep, &'a StoredTrial)>,
    saturation: &'a Saturation,
    knee: Option<Pps>,
    tail: Option<Pps>,
}

pub(super) fn curves<'a>(entry: &Entry<'a>) -> Vec<Curve<'a>> {
    let of = |result: &'a PointResult| {
        let PointResult::LatencyCurve(CurveResult { steps, saturation, knee, tail, .. }) = result else {
            return None;
        };
        let steps = steps.iter().filter_map(|step| Some((*step, entry.point.trial(step.trial)?)));
        Some(Curve { steps: steps.collect(), saturation, knee: *knee, tail: *tail })
    };
    entry.point.results.iter().filter_map(of).collect()
}

/// The whole section; nothing where no curve was taken.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    digest.functions().into_iter().flat_map(|nf| of_function(digest, nf)).collect()
}

fn of_function(digest: &Digest<'_>, nf: Nf) -> Vec<Part> {
    let entries: Vec<_> = digest.of(nf).into_iter().filter(|entry| !curves(entry).is_empty()).collect();
    let mut parts = Vec::new();
    for (index, (_, size)) in sizes(&entries).iter().enumerate() {
        let latency = figure(digest, nf, size, &entries);
        parts.push(Part::folded(format!("{nf}: latency against load at {size}"), index == 0, latency));
        let cpu = curve_cpu::figure(digest, nf, size, &entries);
        let cpu_title = format!("{nf}: CPU time against load at {size}");
        parts.extend(cpu.map(|cpu| Part::folded(cpu_title, index == 0, cpu)));
    }
    if !entries.is_empty() {
        parts.extend([knees(digest, nf, &entries), table(digest, nf, &entries)].map(Part::Table));
    }
    parts
}

fn figure(digest: &Digest<'_>, nf: Nf, size: &str, entries: &[Entry<'_>]) -> Figure {
    let (mut series, mut markers) = (Vec::new(), Vec::new());
    for entry in entries.iter().filter(|entry| entry.size() == size) {
        let subject = &digest.subjects[entry.subject];
        let Some(curve) = curves(entry).into_iter().next() else { continue };
        let first = series.len();
        for (place, percent) in PERCENTILES.iter().enumerate().take(DRAWN) {
            series.push(Series {
                label: format!("{subject} · p{percent}"),
                hue: entry.subject,
                stroke: place,
                marks: false,
                samples: samples(entry, &curve, place, subject),
            });
        }
        let marker =
            |x: Pps, what: &str| Marker { x: x.0, label: format!("{what} {x} · {subject}"), series: first };
        markers.extend(curve.knee.map(|knee| marker(knee, "knee")));
    }
    Figure {
        id: format!("curve-{}-{}", slug(&nf.to_string()), slug(size)),
        title: format!("{nf}: one-way delay against load at {size}"),
        caption: "Percentiles of the delay of the stamped packets at each load, both scales logarithmic. The vertical \
                  line is the knee: the load of greatest power, forwarded rate over median delay (Kleinrock, 1979). \
                  Below it more load costs less than its share in delay, above it more. A ring marks a load at which \
                  packets were lost beyond the limit of the curve, or a trial that is not valid. Where a point was \
                  measured repeatedly the first curve is drawn; the tables hold all."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis {
                label: "Offered load, packets a second over all directions".into(),
                quantity: Quantity::Load,
                spacing: Spacing::Log,
            },
            y: Axis { label: "One-way delay".into(), quantity: Quantity::Time, spacing: Spacing::Log },
            limits: Vec::new(),
            markers,
            series,
        }),
    }
}

/// The marks of one percentile. Those of the median and the 99th tell all of their load; the others are lines only.
fn samples(entry: &Entry<'_>, curve: &Curve<'_>, place: usize, subject: &str) -> Vec<Sample> {
    let sample = |(step, trial): &(CurveStep, &StoredTrial)| {
        let latency = trial.result.latency.as_ref()?;
        let loss = trial.result.loss_ratio();
        let told = latency.tells(place);
        let mut lines = vec![format!("{subject} · {} · {}", step.load, entry.size()), format!("{loss} lost")];
        let percentiles = PERCENTILES.iter().enumerate().filter(|(place, _)| latency.tells(*place));
        lines.extend(percentiles.map(|(at, percent)| format!("p{percent} {}", latency.percentiles[at])));
        let seconds = trial.result.spec.duration;
        lines.push(format!("greatest {}, {} packets in {seconds}", latency.max, units::count(latency.count)));
        lines.extend(super::invalid(trial));
        let invalid = !trial.verdict.is_valid();
        Some(Sample {
            x: step.load.0,
            x_name: None,
            y: Some(latency.percentiles[place].0.max(1) as f64),
            interval: None,
            suspect: place == 0 && (loss > curve.saturation.loss_ratio || invalid),
            hollow: false,
            detail: if MARKED.contains(&place) { lines.join("\n") } else { String::new() },
        })
        .filter(|_| told)
    };
    curve.steps.iter().filter_map(sample).collect()
}

/// What each curve says in a row.
fn knees(digest: &Digest<'_>, nf: Nf, entries: &[Entry<'_>]) -> Table {
    let mut rows = Vec::new();
    for entry in entries {
        let bytes = entry.bytes();
        for curve in curves(entry) {
            let at_knee = curve.steps.iter().find(|(step, _)| Some(step.load) == curve.knee);
            let latency = at_knee.and_then(|(_, trial)| trial.result.latency.as_ref());
            let time =
                |place: usize| latency.map_or(Cell::None, |latency| Cell::time(latency.percentiles[place]));
            rows.push(Row {
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::rate(curve.knee, bytes),
                    time(0),
                    time(2),
                    Cell::rate(curve.tail, bytes),
                    Cell::rate(curve.saturation.lower, bytes),
                    Cell::rate(curve.saturation.upper, bytes),
                    Cell::percent(curve.saturation.loss_ratio.0),
                    Cell::Text(if curve.knee.is_none() { "the curve does not turn" } else { "" }.to_owned()),
                ],
                suspect: false,
            });
        }
    }
    Table {
        id: format!("knees-{}-table", slug(&nf.to_string())),
        caption: format!(
            "{nf}: knee, tail (p99 stays above {} times its level at small loads) and saturation",
            CurveResult::TAIL
        ),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Knee", "knee_pps", Kind::Rate),
            column("p50 there", "knee_p50_ns", Kind::Number),
            column("p99 there", "knee_p99_ns", Kind::Number),
            column("Tail from", "tail_pps", Kind::Rate),
            column("Carried", "carried_pps", Kind::Rate),
            column("Too much", "too_much_pps", Kind::Rate),
            column("Loss limit", "loss_ratio", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}

fn table(digest: &Digest<'_>, nf: Nf, entries: &[Entry<'_>]) -> Table {
    let mut rows = Vec::new();
    for entry in entries {
        for curve in curves(entry) {
            rows.extend(curve.steps.iter().map(|(step, trial)| {
                let mut cells = vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::rate(Some(step.load), entry.bytes()),
                    Cell::percent(trial.result.loss_ratio().0),
                ];
                match &trial.result.latency {
                    Some(latency) => {
                        let percentile = |place: usize| match latency.tells(place) {
                            true => Cell::time(latency.percentiles[place]),
                            false => Cell::None,
                        };
                        cells.extend((0..DRAWN).map(percentile));
                        cells.extend([Cell::time(latency.max), Cell::count(latency.count)]);
                    }
                    None => cells.extend(std::iter::repeat_n(Cell::None, DRAWN + 2)),
                }
                cells.push(curve_cpu::share(trial).map_or(Cell::None, Cell::percent));
                cells.push(Cell::time(trial.result.spec.duration));
                let invalid = super::invalid(trial);
                let suspect = invalid.is_some();
                cells.push(Cell::Text(invalid.unwrap_or_default()));
                Row { cells, suspect }
            }));
        }
    }
    Table {
        id: format!("curve-{}-table", slug(&nf.to_string())),
        caption: format!(
            "{nf}: one-way delay and loss at every load; a dash where too few packets tell the percentile"
        ),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Loss", "loss_ratio", Kind::Number),
            column("p50", "p50_ns", Kind::Number),
            column("p90", "p90_ns", Kind::Number),
            column("p99", "p99_ns", Kind::Number),
            column("p99.9", "p99.9_ns", Kind::Number),
            column("Greatest", "greatest_ns", Kind::Number),
            column("Packets", "packets", Kind::Number),
            column("CPU", "cpu_share", Kind::Number),
            column("Trial", "trial_ns", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}
