//! Throughput against frame size under the theoretical line: what the searches found, and the
//! greatest rate (MRR) where it was taken.

use super::{rate_words, shown, slug};
use crate::digest::{Digest, Entry, sum};
use crate::figure::{self, Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::percent;
use maud::{Markup, html};
use weir_trial::run::PointResult;
use weir_trial::{Limit, Limiter, Nf};
use weir_units::{Nanos, Pps, Ratio};

/// Trials of RFC 2544 (section 24) last this long; shorter ones say so.
pub(crate) const STANDARD_TRIAL: Nanos = Nanos(60 * Nanos::PER_SECOND);

/// Share of a trial's packets from which a late tester is named.
pub(crate) const TESTER_LATE: f64 = 0.001;

/// One goal's answer about one point.
#[derive(Clone)]
pub(crate) struct Found<'a> {
    pub(crate) goal: &'a str,
    pub(crate) loss_ratio: Ratio,
    pub(crate) throughput: Option<Pps>,
    pub(crate) lower: Option<Pps>,
    pub(crate) upper: Option<Pps>,
    pub(crate) trial_duration: Nanos,
    pub(crate) trials: u32,
    irregular: Option<&'a str>,
    result: &'a PointResult,
}

impl<'a> Found<'a> {
    pub(crate) fn of(result: &'a PointResult) -> Option<Self> {
        let PointResult::Throughput {
            goal,
            loss_ratio,
            throughput,
            lower,
            upper,
            irregular,
            trial_duration,
            trials,
            ..
        } = result
        else {
            return None;
        };
        Some(Self {
            goal,
            loss_ratio: *loss_ratio,
            throughput: *throughput,
            lower: *lower,
            upper: *upper,
            trial_duration: *trial_duration,
            trials: *trials,
            irregular: irregular.as_deref(),
            result,
        })
    }

    /// What a reader must be told beside the number.
    pub(crate) fn warnings(&self, entry: &Entry<'_>) -> Vec<String> {
        let mut warnings: Vec<String> = doubted(entry, self.result).into_iter().collect();
        warnings.extend(self.irregular.map(|why| format!("irregular: {why}")));
        if let Some(share) = self.tester_late(entry) {
            warnings.push(format!(
                "the tester was late with {} of the packets at the upper bound: the device may be faster",
                percent(share)
            ));
        }
        warnings
    }

    /// Whether a bound is missing.
    pub(crate) fn is_irregular(&self) -> bool {
        self.irregular.is_some()
    }

    /// Who limits it, where that is known.
    pub(crate) fn limit(&self) -> Option<&'a Limit> {
        self.result.limit()
    }

    /// Whether its trials forbid to rank it.
    pub(crate) fn is_invalid(&self, entry: &Entry<'_>) -> bool {
        entry.point.doubt(self.result).is_some_and(|doubt| doubt.invalid)
    }

    /// Share of the packets at the upper bound that the tester was too late to offer, where it matters.
    pub(crate) fn tester_late(&self, entry: &Entry<'_>) -> Option<f64> {
        let counts = sum(&entry.at(self.upper?));
        let share = counts.unsent as f64 / counts.intended.max(1) as f64;
        (share >= TESTER_LATE.max(self.loss_ratio.0)).then_some(share)
    }

    fn length(&self) -> String {
        let short = if self.trial_duration < STANDARD_TRIAL { ", under 60\u{a0}s" } else { "" };
        format!("{}{short}", self.trial_duration)
    }

    fn detail(&self, entry: &Entry<'_>, subject: &str) -> String {
        let bytes = entry.bytes();
        let mut lines = vec![format!("{} · {} · {}", subject, self.goal, entry.size())];
        match self.throughput {
            Some(rate) => {
                lines.push(rate_words(rate.0, bytes));
                lines.push(format!("{} of {}", percent(entry.of_theoretical(rate)), entry.wire_name()));
            }
            None => lines.push("no throughput found".to_owned()),
        }
        lines.push(format!("bounds {}", bounds(self.lower, self.upper)));
        lines.push(format!("{} trials, the last of {}", self.trials, self.length()));
        lines.extend(self.limit().map(limited));
        lines.extend(self.warnings(entry));
        lines.join("\n")
    }
}

/// What the trials of a result say against it.
fn doubted(entry: &Entry<'_>, result: &PointResult) -> Option<String> {
    let doubt = entry.point.doubt(result)?;
    Some(if doubt.invalid { format!("INVALID, not ranked: {}", doubt.why) } else { doubt.why })
}

/// Who limits a result, in words.
fn limited(limit: &Limit) -> String {
    format!("limited by the {}: {}", limiter(limit.by), limit.why)
}

/// The name of a limiter.
pub(crate) fn limiter(by: Limiter) -> &'static str {
    match by {
        Limiter::Dut => "device",
        Limiter::Tester => "tester",
        Limiter::Line => "load asked for",
    }
}

fn limit_cell(limit: Option<&Limit>) -> Cell {
    limit.map_or(Cell::None, |limit| Cell::Text(limiter(limit.by).to_owned()))
}

/// Why the device is not what limits a result, for the note; nothing where it is.
fn not_the_device(limit: Option<&Limit>) -> Option<String> {
    limit.filter(|limit| limit.by != Limiter::Dut).map(limited)
}

/// Bounds as they are written everywhere: `[2.401 Mpps, 2.423 Mpps]`.
pub(crate) fn bounds(lower: Option<Pps>, upper: Option<Pps>) -> String {
    let text = |bound: Option<Pps>| bound.map_or("none".to_owned(), |pps| pps.to_string());
    format!("[{}, {}]", text(lower), text(upper))
}

/// The greatest forwarded rate of one point.
#[derive(Clone)]
pub(crate) struct Greatest<'a> {
    pub(crate) load: Option<Pps>,
    pub(crate) rates: &'a [Pps],
    pub(crate) mean: Pps,
    pub(crate) deviation: Pps,
    pub(crate) cycles: Option<f64>,
    result: &'a PointResult,
}

impl<'a> Greatest<'a> {
    pub(crate) fn of(result: &'a PointResult) -> Option<Self> {
        let PointResult::Mrr { load, rates, mean, deviation, cycles_per_packet, .. } = result else {
            return None;
        };
        let cycles = *cycles_per_packet;
        Some(Self { load: *load, rates, mean: *mean, deviation: *deviation, cycles, result })
    }

    /// Who limits it, where that is known.
    pub(crate) fn limit(&self) -> Option<&'a Limit> {
        self.result.limit()
    }

    /// Whether its trials forbid to rank it.
    pub(crate) fn is_invalid(&self, entry: &Entry<'_>) -> bool {
        entry.point.doubt(self.result).is_some_and(|doubt| doubt.invalid)
    }

    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let low = self.rates.iter().map(|rate| rate.0).fold(f64::INFINITY, f64::min);
        let high = self.rates.iter().map(|rate| rate.0).fold(f64::NEG_INFINITY, f64::max);
        (low <= high).then_some((low, high))
    }

    fn detail(&self, entry: &Entry<'_>, subject: &str) -> String {
        let mut lines = vec![
            format!("{subject} · MRR · {}", entry.size()),
            format!("mean {}", rate_words(self.mean.0, entry.bytes())),
        ];
        if let Some((low, high)) = self.spread() {
            lines.push(format!(
                "{} to {} in {} trials, deviation {}",
                Pps(low),
                Pps(high),
                self.rates.len(),
                self.deviation
            ));
        }
        lines.push(match self.load {
            Some(load) => format!("at {load} offered"),
            None => "the source is in the device: no wire".to_owned(),
        });
        if let Some(cycles) = self.cycles {
            lines.push(format!("{cycles:.1} cycles per packet"));
        }
        lines.extend(self.limit().map(limited));
        lines.extend(doubted(entry, self.result));
        lines.join("\n")
    }
}

/// The whole section.
pub(crate) fn section(digest: &Digest<'_>) -> Markup {
    html! { @for nf in digest.functions() { (function(digest, nf)) } }
}

/// The plots of one function and the tables that are not empty, each table under its plot if there is one.
fn function(digest: &Digest<'_>, nf: Nf) -> Markup {
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
    html! {
        @match &wired {
            Some(figure) => (shown(figure, &under_wired)),
            None => @for table in &under_wired { (table.html()) },
        }
        @if let Some(figure) = &fed { (shown(figure, &under_fed)) }
    }
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
        let (title, caption) = match self {
            Self::Wired => (
                format!("{nf}: throughput against frame size"),
                "Each mark is the forwarded rate over all directions at the greatest load that met the goal; its bar \
                 spans the bounds of the search, [greatest load that met the goal, least load that did not]. MRR is the \
                 mean at the greatest load, its bar the spread over its trials. A ring warns of a result; a cross on the \
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
            plot: Plot::Lines(Lines {
                x: size_axis(),
                y: Axis { label: "Forwarded".into(), quantity: Quantity::Rate, spacing: Spacing::Linear },
                limits: limits(digest, nf),
                markers: Vec::new(),
                series,
            }),
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
            y: found.throughput.map(|pps| pps.0),
            interval: found.lower.zip(found.upper).map(|(lower, upper)| (lower.0, upper.0)),
            suspect: !found.warnings(&entry).is_empty(),
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
        Cell::rate(found.lower, bytes),
        Cell::rate(found.upper, bytes),
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
                    Cell::percent(entry.of_theoretical(mrr.mean)),
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
