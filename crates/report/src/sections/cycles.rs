//! Cycles per packet: the CPU time of the device's forwarding threads over the packets they received.
//!
//! Such threads poll, so that at low load the time they wait counts as work. Only a load that the
//! device cannot carry tells what a packet costs: MRR, or the upper bound of a search. Where the device
//! carried even that, the number is an upper limit and says so.

use super::found::{Found, Greatest};
use super::{Part, by_function, rates, series, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::number;
use weir_trial::Nf;

/// What a packet cost at one point.
#[derive(Clone)]
pub(crate) struct Cost {
    pub(crate) cycles: f64,
    /// Which load it was taken at, in words.
    pub(crate) load: String,
    trials: usize,
    /// Whether the device carried that load, so that its waiting is in the number: it costs at most this.
    pub(crate) idle: bool,
}

/// A device that forwards this share of what is offered had time to wait.
const CARRIED: f64 = 0.999;
/// Costs that differ by more than this factor are drawn by ratio, or the lesser could not be read.
const FAR_APART: f64 = 8.0;

impl Cost {
    /// From the MRR trials, else from the search's trials at the upper bound of its first goal.
    pub(crate) fn of(entry: &Entry<'_>) -> Option<Self> {
        let mrr = entry.point.results.iter().filter_map(Greatest::of).find_map(|mrr| {
            let load =
                mrr.load.map_or("MRR, source in the device".to_owned(), |load| format!("MRR at {load}"));
            let idle = mrr.load.is_some_and(|load| mrr.mean.0 >= load.0 * CARRIED);
            Some(Self { cycles: mrr.cycles?, load, trials: mrr.rates.len(), idle })
        });
        mrr.or_else(|| {
            entry.point.results.iter().filter_map(Found::of).find_map(|found| {
                let trials = entry.at(found.upper?);
                let mut cycles: Vec<f64> =
                    trials.iter().filter_map(|trial| trial.result.dut.as_ref()?.cycles_per_packet).collect();
                cycles.sort_by(f64::total_cmp);
                let median = *cycles.get(cycles.len() / 2)?;
                Some(Self {
                    cycles: median,
                    load: format!("upper bound of {}", found.goal),
                    trials: cycles.len(),
                    idle: false,
                })
            })
        })
    }
}

/// The whole section; nothing where no device told its CPU time.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let pick = |entry: Entry<'_>| {
        let cost = Cost::of(&entry)?;
        Some(Sample {
            x: entry.bytes(),
            x_name: entry.size_name(),
            y: Some(cost.cycles),
            interval: None,
            suspect: cost.idle,
            hollow: false,
            detail: format!(
                "{} · {}\n{}{} cycles per packet\n{}, median of {} trials",
                digest.subjects[entry.subject],
                entry.size(),
                if cost.idle { "at most " } else { "" },
                number(cost.cycles, 1),
                cost.load,
                cost.trials
            ),
        })
    };
    let series = series(digest, nf, str::to_owned, 0, pick);
    let costs = || series.iter().flat_map(|series: &Series| &series.samples).filter_map(|sample| sample.y);
    let (least, most) = (costs().fold(f64::INFINITY, f64::min), costs().fold(0.0, f64::max));
    let (label, spacing) = if least > 0.0 && most > FAR_APART * least {
        ("TSC cycles per packet, logarithmic", Spacing::Log)
    } else {
        ("TSC cycles per packet", Spacing::Linear)
    };
    (!series.is_empty()).then(|| Figure {
        id: format!("cycles-{}", slug(&nf.to_string())),
        title: format!("{nf}: cycles per packet"),
        caption: "CPU time of the forwarding threads in cycles of the time-stamp counter (TSC) for each packet they \
                  received, at the greatest load. Forwarding threads poll, and their waiting counts: a ring marks where \
                  the device carried the whole load, so that a packet costs at most this."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: rates::size_axis(),
            y: Axis { label: label.into(), quantity: Quantity::Cycles, spacing },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let row = |entry: Entry<'_>| {
        let cost = Cost::of(&entry)?;
        Some(Row {
            cells: vec![
                Cell::Text(entry.size()),
                Cell::Text(digest.subjects[entry.subject].clone()),
                Cell::Number(number(cost.cycles, 1), cost.cycles),
                Cell::Text(cost.load),
                Cell::count(cost.trials as u64),
                Cell::Text(
                    if cost.idle {
                        "at most: the device carried this load, and its waiting is counted"
                    } else {
                        ""
                    }
                    .to_owned(),
                ),
            ],
            suspect: cost.idle,
        })
    };
    Table {
        id: format!("cycles-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: TSC cycles of CPU time per packet received"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Cycles per packet", "cycles_per_packet", Kind::Number),
            column("Taken at", "taken_at", Kind::Text),
            column("Trials", "trials", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows: digest.of(nf).into_iter().filter_map(row).collect(),
    }
}
