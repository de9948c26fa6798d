//! Losses: where the packets went that the schedule called for and that did not come back.
//!
//! A search offers more than a device can carry on purpose, so losses are shown load by load: at the
//! bounds of each goal, at MRR, and at the loads of the latency trials.

use super::found::{Found, TESTER_LATE};
use super::{Part, by_function, slug};
use crate::digest::{Digest, Entry, sum};
use crate::figure::{Bar, Bars, Figure, Plot};
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::count;
use weir_trial::run::At;
use weir_trial::{DirectionCounts, Nf};
use weir_units::Nanos;

/// The ways of a packet that did not come back, in the order of the bars.
const PARTS: [&str; 3] = [
    "refused: the device's receive ring was full",
    "lost: sent and never back",
    "unsent: the tester was late",
];

/// How long the trials at a load took together.
fn time(at: &At<'_>) -> Nanos {
    Nanos(at.trials.iter().map(|trial| trial.result.spec.duration.0).sum())
}

/// The loads of a point that are worth a line.
fn loads<'a>(entry: &Entry<'a>) -> Vec<At<'a>> {
    let results = entry.point.results.iter();
    let mut loads: Vec<At<'a>> =
        results.flat_map(|result| result.of_method().told_losses(entry.point)).collect();
    // Repeats share their loads: one line tells of all their trials.
    let mut told: Vec<(String, f64)> = Vec::new();
    loads.retain(|at| {
        let new = !told.contains(&(at.what.clone(), at.load.0)) || !at.of_repeats;
        told.push((at.what.clone(), at.load.0));
        new
    });
    loads.retain(|at| at.trials.iter().any(|trial| !trial.result.directions.is_empty()));
    loads
}

/// Sent and never back: neither refused nor unsent.
fn lost_inside(counts: &DirectionCounts) -> u64 {
    counts.sent.saturating_sub(counts.received)
}

/// The whole section; nothing where no tester stood at a wire.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let bar = |entry: Entry<'_>| {
        let found = entry.point.results.iter().filter_map(Found::of).find(|found| found.upper.is_some());
        let (what, trials) = match found {
            Some(found) => (format!("{}, upper bound", found.goal), entry.at(found.upper?)),
            None => loads(&entry).into_iter().find(|at| at.what == "MRR").map(|at| (at.what, at.trials))?,
        };
        let counts = sum(&trials);
        (counts.intended > 0).then(|| {
            let share = |part: u64| part as f64 / counts.intended as f64;
            let subject = &digest.subjects[entry.subject];
            Bar {
                label: format!("{subject} · {}", entry.size()),
                shares: vec![share(counts.refused), share(lost_inside(&counts)), share(counts.unsent)],
                detail: format!(
                    "{subject} · {} · {what}\nof {} packets to send\n{} refused, {} lost, {} unsent by the tester",
                    entry.size(),
                    count(counts.intended),
                    count(counts.refused),
                    count(lost_inside(&counts)),
                    count(counts.unsent)
                ),
            }
        })
    };
    let bars: Vec<_> = digest.of(nf).into_iter().filter_map(bar).collect();
    (!bars.is_empty()).then(|| Figure {
        id: format!("losses-{}", slug(&nf.to_string())),
        title: format!("{nf}: where packets were lost"),
        caption: "At the least load that missed a goal, where the device gives way (or at MRR, where every load met \
                  them): the packets of the schedule that did not come back, by what became of them."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Bars(Bars {
            label: "Share of the packets to be sent".to_owned(),
            parts: PARTS.map(str::to_owned).to_vec(),
            bars,
        }),
    })
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for at in loads(&entry) {
            let counts = sum(&at.trials);
            let tester = counts.unsent as f64 > counts.intended as f64 * TESTER_LATE;
            rows.push(Row {
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::Text(at.what.clone()),
                    Cell::rate(Some(at.load), entry.bytes()),
                    Cell::time(time(&at)),
                    Cell::count(counts.intended),
                    Cell::count(counts.received),
                    Cell::percent(counts.lost() as f64 / counts.intended.max(1) as f64),
                    Cell::count(counts.refused),
                    Cell::count(lost_inside(&counts)),
                    Cell::count(counts.unsent),
                    Cell::count(counts.duplicated),
                    Cell::count(counts.reordered),
                    Cell::count(counts.late),
                    Cell::count(counts.foreign),
                ],
                suspect: tester || counts.foreign > 0,
            });
        }
    }
    Table {
        id: format!("losses-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: packets by what became of them, over all directions"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("At", "at", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Time", "time_ns", Kind::Number),
            column("To send", "intended", Kind::Number),
            column("Came back", "received", Kind::Number),
            column("Loss", "loss_ratio", Kind::Number),
            column("Refused", "refused", Kind::Number),
            column("Lost", "lost_after_sending", Kind::Number),
            column("Unsent", "unsent", Kind::Number),
            column("Twice", "duplicated", Kind::Number),
            column("Overtaken", "reordered", Kind::Number),
            column("Of an earlier trial", "late", Kind::Number),
            column("Foreign", "foreign", Kind::Number),
        ],
        rows,
    }
}
