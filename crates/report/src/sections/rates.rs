//! Throughput against frame size under the theoretical line: what the searches found, and the
//! greatest rate (MRR) where it was taken.

use super::found::{Found, Greatest, doubted, limit_cell, not_the_device};
use super::{Part, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{self, Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use weir_trial::Nf;
use weir_units::Pps;

/// The whole section; it is there even where no rate was found.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    digest.functions().into_iter().flat_map(|nf| of_function(digest, nf)).collect()
}

/// The plots of one function and the tables that are not empty, each table under its plot if there is one.
fn of_function(digest: &Digest<'_>, nf: Nf) -> Vec<Part> {
    let (wired, fed) = (Which::Wired.figure(digest, nf), Which::Fed.figure(digest, nf));
    let full = |table: Table| (!table.rows.is_empty()).then_some(table);
    let mut under_wired: Vec<Table> = full(table(digest, nf)).into_iter().collect();
    under_wired.extend(full(super::repeats::table(digest, nf)));
    let greatest: Vec<Table> = full(greatest_table(digest, nf)).into_iter().collect();
    let under_fed = if fed.is_some() {
        greatest
    } else {
        under_wired.extend(greatest);
        Vec::new()
    };
    let mut parts: Vec<Part> = match wired {
        Some(figure) => vec![Part::Plot { figure, tables: under_wired }],
        None => under_wired.into_iter().map(Part::Table).collect(),
    };
    parts.extend(fed.map(|figure| Part::Plot { figure, tables: under_fed }));
    parts
}

/// Results over a wire, and those of a source inside the device, are pictures apart: the one is
/// limited by the wire and the tester, the other is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Wired,
    Fed,
}

impl Which {
    fn figure(self, digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
        let mut series = Vec::new();
        if self == Self::Wired {
            for (stroke, goal) in digest.goals.iter().enumerate() {
                series.extend(goal_series(digest, nf, goal, stroke));
            }
        }
        series.extend(self.greatest_series(digest, nf));
        if self == Self::Wired {
            series.extend(failed_series(digest, nf, &series));
        }
        if series.is_empty() {
            return None;
        }
        series.sort_by_key(|series: &Series| (series.hue, series.stroke));
        let lines = Lines {
            x: size_axis(),
            y: Axis { label: "Forwarded".into(), quantity: Quantity::Rate, spacing: Spacing::Linear },
            limits: limits(digest, nf),
            markers: Vec::new(),
            series,
        };
        let (title, caption) = match self {
            Self::Wired => (
                format!("{nf}: throughput{}", if lines.is_by_row() { "" } else { " against frame size" }),
                "Each mark is the forwarded rate over all directions at the greatest load that met the goal; its bar \
                 spans the bounds of the search, [greatest load that met the goal, least load that did not]. MRR is the \
                 mean at the greatest load, its bar the spread over its trials. A hollow mark is an estimate: the search \
                 was not settled, and the mark stands at the bound that is known. A ring warns of a result; a cross on the \
                 axis is a point that could not be measured. The dashed line is what the wire carries at most.",
            ),
            Self::Fed => (
                format!("{nf}: greatest rate without a wire"),
                "The packets' source and sink are in the device itself, so neither wire nor tester limits it: each mark \
                 is the mean forwarded rate (MRR), its bar the spread over its trials. The dashed line is there for \
                 comparison only.",
            ),
        };
        Some(Figure {
            id: format!(
                "{}-{}",
                if self == Self::Wired { "throughput" } else { "fed" },
                slug(&nf.to_string())
            ),
            title,
            caption: caption.to_owned(),
            provenance: digest.provenance.clone(),
            plot: Plot::Lines(lines),
        })
    }

    fn greatest_series(self, digest: &Digest<'_>, nf: Nf) -> Vec<Series> {
        let pick = |entry: Entry<'_>| {
            let mrr = entry.point.results.iter().find_map(Greatest::of)?;
            ((self == Self::Fed) == mrr.load.is_none()).then(|| Sample {
                x: entry.bytes(),
                x_name: entry.size_name(),
                y: Some(mrr.mean.0),
                interval: mrr.spread(),
                suspect: doubted(&entry, mrr.result).is_some(),
                hollow: false,
                detail: mrr.detail(&entry, &digest.subjects[entry.subject]),
            })
        };
        let stroke = if self == Self::Wired { digest.goals.len() } else { 0 };
        super::series(digest, nf, |subject| format!("{subject} · MRR"), stroke, pick)
    }
}

pub(super) fn size_axis() -> Axis {
    Axis { label: "Frame size, bytes with FCS".into(), quantity: Quantity::FrameBytes, spacing: Spacing::Log }
}

fn goal_series(digest: &Digest<'_>, nf: Nf, goal: &str, stroke: usize) -> Vec<Series> {
    let pick = |entry: Entry<'_>| {
        let found = entry.point.results.iter().filter_map(Found::of).find(|found| found.goal == goal)?;
        Some(Sample {
            x: entry.bytes(),
            x_name: entry.size_name(),
            y: found.known().map(|pps| pps.0),
            interval: found.interval(),
            suspect: !found.warnings(&entry).is_empty(),
            hollow: found.is_estimate(),
            detail: found.detail(&entry, &digest.subjects[entry.subject]),
        })
    };
    super::series(digest, nf, |subject| format!("{subject} · {goal}"), stroke, pick)
}

/// Points without any result: crosses in their device's first series, or in one of their own.
fn failed_series(digest: &Digest<'_>, nf: Nf, drawn: &[Series]) -> Vec<Series> {
    let pick = |entry: Entry<'_>| {
        let why = entry.failure()?;
        Some(Sample {
            x: entry.bytes(),
            x_name: entry.size_name(),
            y: None,
            interval: None,
            suspect: true,
            hollow: false,
            detail: format!("{} · {}\nnot measured: {why}", digest.subjects[entry.subject], entry.size()),
        })
    };
    if drawn.is_empty() {
        return Vec::new();
    }
    let stroke = digest.goals.len() + 1;
    super::series(digest, nf, |subject| format!("{subject} · not measured"), stroke, pick)
}

fn limits(digest: &Digest<'_>, nf: Nf) -> Vec<figure::Limit> {
    let mut limits: Vec<figure::Limit> = Vec::new();
    for entry in digest.of(nf) {
        let wire = entry.wire();
        if !limits.iter().any(|limit| limit.wire == wire) {
            let at = |bytes: f64| Pps(wire.0 / (8.0 * (bytes + f64::from(weir_units::WIRE_OVERHEAD_BYTES))));
            let label = format!(
                "theoretical, {}: {} at 64\u{a0}B, {} at 1500\u{a0}B",
                entry.wire_name(),
                at(64.0),
                at(1500.0)
            );
            limits.push(figure::Limit { label, wire });
        }
    }
    limits
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        let subject = &digest.subjects[entry.subject];
        let lead = [Cell::Text(entry.size()), Cell::Text(subject.clone())];
        for found in entry.point.results.iter().filter_map(Found::of) {
            rows.push(found_row(&entry, &found, lead.clone()));
        }
        if let Some(why) = entry.failure() {
            let mut cells = lead.to_vec();
            cells.extend(std::iter::repeat_n(Cell::None, 8));
            cells.push(Cell::Text(format!("not measured: {why}")));
            rows.push(Row { cells, suspect: true });
        }
    }
    Table {
        id: format!("throughput-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: throughput by goal, over all directions"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Goal (loss ≤)", "goal", Kind::Text),
            column("Throughput", "throughput_pps", Kind::Rate),
            column("Lower bound", "lower_pps", Kind::Rate),
            column("Upper bound", "upper_pps", Kind::Rate),
            column("Of theoretical", "share_of_theoretical", Kind::Number),
            column("Trials", "trials", Kind::Number),
            column("Final trial", "final_trial_ns", Kind::Number),
            column("Limited by", "limited_by", Kind::Text),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}

fn found_row(entry: &Entry<'_>, found: &Found<'_>, lead: [Cell; 2]) -> Row {
    let warnings = found.warnings(entry);
    let mut cells = lead.to_vec();
    let bytes = entry.bytes();
    cells.extend([
        Cell::Text(format!("{} ({})", found.goal, found.loss_ratio)),
        Cell::rate(found.throughput, bytes),
        Cell::rate_or(found.lower, found.estimate.and_then(|estimate| estimate.lower), bytes),
        Cell::rate_or(found.upper, found.estimate.and_then(|estimate| estimate.upper), bytes),
        found.throughput.map_or(Cell::None, |rate| Cell::percent(entry.of_theoretical(rate))),
        Cell::count(u64::from(found.trials)),
        Cell::Number(found.length().replace(' ', "\u{a0}"), found.trial_duration.0 as f64),
        limit_cell(found.limit()),
        Cell::Text(
            warnings.iter().cloned().chain(not_the_device(found.limit())).collect::<Vec<_>>().join("; "),
        ),
    ]);
    Row { cells, suspect: !warnings.is_empty() }
}

fn greatest_table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        let bytes = entry.bytes();
        for mrr in entry.point.results.iter().filter_map(Greatest::of) {
            let spread = mrr.spread();
            let doubt = doubted(&entry, mrr.result);
            rows.push(Row {
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::rate(mrr.load, bytes),
                    Cell::rate(Some(mrr.mean), bytes),
                    Cell::rate(Some(mrr.deviation), bytes),
                    Cell::rate(spread.map(|(low, _)| Pps(low)), bytes),
                    Cell::rate(spread.map(|(_, high)| Pps(high)), bytes),
                    Cell::count(mrr.rates.len() as u64),
                    // A source inside the device has no load, and no wire whose rate it could be held against.
                    mrr.load.map_or(Cell::None, |_| Cell::percent(entry.of_theoretical(mrr.mean))),
                    limit_cell(mrr.limit()),
                    Cell::Text(
                        doubt
                            .iter()
                            .cloned()
                            .chain(not_the_device(mrr.limit()))
                            .collect::<Vec<_>>()
                            .join("; "),
                    ),
                ],
                suspect: doubt.is_some(),
            });
        }
    }
    Table {
        id: format!("mrr-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: greatest forwarded rate (MRR), over all directions"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Mean", "mean_pps", Kind::Rate),
            column("Deviation", "deviation_pps", Kind::Rate),
            column("Least", "least_pps", Kind::Rate),
            column("Greatest", "greatest_pps", Kind::Rate),
            column("Trials", "trials", Kind::Number),
            column("Of theoretical", "share_of_theoretical", Kind::Number),
            column("Limited by", "limited_by", Kind::Text),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}
