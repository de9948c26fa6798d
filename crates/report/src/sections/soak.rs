//! Soak: loss and delay over the time of each, and when each loss was.

use super::{Part, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::count;
use weir_trial::Nf;
use weir_trial::run::{PointResult, SoakResult, Soaked, StoredTrial};
use weir_units::{Nanos, Pps, utc};

/// Places on a line of loss at most; slices beyond that share places.
const LOSS_PLACES: usize = 300;
/// The same for lines of delay, where each is marked.
const DELAY_PLACES: usize = 80;

/// One soak of a point.
struct Soak<'a> {
    entry: Entry<'a>,
    /// Device, size and load, in words.
    name: String,
    load: Pps,
    slice: Nanos,
    found: &'a Soaked,
    slices: Vec<&'a StoredTrial>,
}

fn soaks<'a>(digest: &Digest<'a>, nf: Nf) -> Vec<Soak<'a>> {
    let mut soaks = Vec::new();
    for entry in digest.of(nf) {
        for result in &entry.point.results {
            let PointResult::Soak(SoakResult { label, load, slice, found, .. }) = result else { continue };
            let slices = found.trials.iter().filter_map(|trial| entry.point.trial(*trial)).collect();
            let name = format!("{} · {} · {label}", digest.subjects[entry.subject], entry.size());
            soaks.push(Soak { entry, name, load: *load, slice: *slice, found, slices });
        }
    }
    soaks
}

/// The whole section; nothing where nothing was soaked.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    digest.functions().into_iter().flat_map(|nf| of_function(digest, nf)).collect()
}

fn of_function(digest: &Digest<'_>, nf: Nf) -> Vec<Part> {
    let soaks = soaks(digest, nf);
    let entries: Vec<_> = soaks.iter().map(|soak| soak.entry).collect();
    let mut parts = Vec::new();
    for (_, size) in super::sizes(&entries) {
        let soaks: Vec<&Soak<'_>> = soaks.iter().filter(|soak| soak.entry.size() == size).collect();
        let figures = [loss(digest, (nf, &size), &soaks), delay(digest, (nf, &size), &soaks)];
        parts.extend(figures.map(|figure| Part::Plot { figure, tables: Vec::new() }));
    }
    if !soaks.is_empty() {
        parts.extend([table(digest, nf, &soaks), losses(digest, nf, &soaks)].map(Part::Table));
    }
    parts
}

/// Slices that share a mark, and how far into the soak the last of them ended.
struct Mark<'a> {
    seconds: f64,
    slices: &'a [&'a StoredTrial],
}

impl Soak<'_> {
    fn marks(&self, places: usize) -> Vec<Mark<'_>> {
        let start = self.slices.first().map_or(0, |trial| trial.started_ms);
        let together = self.slices.len().div_ceil(places).max(1);
        self.slices
            .chunks(together)
            .map(|slices| {
                let last = slices.last().map_or(start, |trial| trial.started_ms);
                let seconds = last.saturating_sub(start).max(0) as f64 / 1e3 + self.slice.seconds();
                Mark { seconds, slices }
            })
            .collect()
    }
}

impl Mark<'_> {
    fn valid(&self) -> impl Iterator<Item = &StoredTrial> {
        self.slices.iter().copied().filter(|trial| !trial.verdict.is_worth_repeating())
    }

    /// Packets lost and to send.
    fn lost(&self) -> (u64, u64) {
        let totals = self.valid().map(|trial| trial.result.total());
        totals.fold((0, 0), |(lost, intended), total| (lost + total.lost(), intended + total.intended))
    }

    fn sample(&self, unit: &Unit, name: &str, y: Option<f64>, says: String) -> Sample {
        let spoilt = self.slices.len() - self.valid().count();
        let began = self.slices.first().map_or_else(String::new, |trial| utc(trial.started_ms, utc::SECOND));
        let mut lines = vec![name.to_owned(), format!("from {began}"), says];
        if spoilt > 0 {
            lines.push(format!("{spoilt} of {} slices invalid, left out", self.slices.len()));
        }
        Sample {
            x: self.seconds / unit.seconds,
            x_name: None,
            y,
            interval: None,
            suspect: spoilt > 0,
            hollow: false,
            detail: lines.join("\n"),
        }
    }
}

/// In what time is counted: the longest soak is some tens of it.
struct Unit {
    name: &'static str,
    seconds: f64,
}

impl Unit {
    fn of(soaks: &[&Soak<'_>]) -> Self {
        let end = |soak: &&Soak<'_>| Some(soak.marks(1).last()?.seconds);
        let longest = soaks.iter().filter_map(end).fold(0.0, f64::max);
        match longest {
            long if long >= 3.0 * 3600.0 => Self { name: "hours", seconds: 3600.0 },
            long if long >= 180.0 => Self { name: "minutes", seconds: 60.0 },
            _ => Self { name: "seconds", seconds: 1.0 },
        }
    }

    fn axis(&self) -> Axis {
        Axis {
            label: format!("Time into the soak, {}", self.name),
            quantity: Quantity::Plain,
            spacing: Spacing::Linear,
        }
    }
}

fn loss(digest: &Digest<'_>, (nf, size): (Nf, &str), soaks: &[&Soak<'_>]) -> Figure {
    let unit = Unit::of(soaks);
    let sample = |soak: &Soak<'_>, mark: &Mark<'_>| {
        let (lost, intended) = mark.lost();
        let says = format!("{} of {} packets lost", count(lost), count(intended));
        let ratio = (intended > 0).then(|| lost as f64 / intended as f64);
        let mut sample = mark.sample(&unit, &soak.name, ratio, says);
        if lost == 0 && !sample.suspect {
            // Nothing happened, and nothing is marked.
            sample.detail.clear();
        }
        sample
    };
    let series = |soak: &&Soak<'_>| Series {
        label: soak.name.clone(),
        hue: soak.entry.subject,
        stroke: 0,
        marks: false,
        samples: soak.marks(LOSS_PLACES).iter().map(|mark| sample(soak, mark)).collect(),
    };
    Figure {
        id: format!("soak-loss-{}-{}", slug(&nf.to_string()), slug(size)),
        title: format!("{nf}: loss over the time of the soak at {size}"),
        caption: "Share of the packets lost, slice by slice; slices that lost some are marked. A ring or a cross marks \
                  slices that the machine or the tester spoilt: they count nowhere."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: unit.axis(),
            y: Axis { label: "Packets lost".into(), quantity: Quantity::Share, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series: soaks.iter().map(series).collect(),
        }),
    }
}

fn delay(digest: &Digest<'_>, (nf, size): (Nf, &str), soaks: &[&Soak<'_>]) -> Figure {
    let unit = Unit::of(soaks);
    let mut series = Vec::new();
    for soak in soaks {
        for (stroke, (place, what)) in [(0, "p50"), (2, "p99")].into_iter().enumerate() {
            let sample = |mark: &Mark<'_>| {
                let worst =
                    mark.valid().filter_map(|trial| Some(trial.result.latency.as_ref()?.percentiles[place]));
                let worst = worst.max();
                let says = worst.map_or("no delays".to_owned(), |time| format!("{what} {time}"));
                mark.sample(&unit, &soak.name, worst.map(|time| time.0.max(1) as f64), says)
            };
            series.push(Series {
                label: format!("{} · {what}", soak.name),
                hue: soak.entry.subject,
                stroke,
                marks: true,
                samples: soak.marks(DELAY_PLACES).iter().map(sample).collect(),
            });
        }
    }
    Figure {
        id: format!("soak-delay-{}-{}", slug(&nf.to_string()), slug(size)),
        title: format!("{nf}: delay over the time of the soak at {size}"),
        caption:
            "Median and 99th percentile of the one-way delay, slice by slice; where slices share a mark, the \
                  greatest of them. A line that rises says that the device slows down with time."
                .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: unit.axis(),
            y: Axis { label: "One-way delay".into(), quantity: Quantity::Time, spacing: Spacing::Log },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    }
}

fn table(digest: &Digest<'_>, nf: Nf, soaks: &[Soak<'_>]) -> Table {
    let row = |soak: &Soak<'_>| {
        let found = soak.found;
        let drift = found.drift.map_or_else(String::new, |drift| {
            format!(
                "p50 {} → {}, p99 {} → {}",
                drift.p50_first, drift.p50_last, drift.p99_first, drift.p99_last
            )
        });
        Row {
            cells: vec![
                Cell::Text(soak.entry.size()),
                Cell::Text(digest.subjects[soak.entry.subject].clone()),
                Cell::rate(Some(soak.load), soak.entry.bytes()),
                Cell::count(found.trials.len() as u64),
                Cell::time(soak.slice),
                Cell::percent(found.under_load.0),
                // Without a valid slice there is no loss ratio, not one of zero.
                if found.intended == 0 {
                    Cell::None
                } else {
                    Cell::percent(found.lost as f64 / found.intended as f64)
                },
                Cell::count(found.lost),
                Cell::count(found.lossy.len() as u64),
                Cell::count(found.invalid.len() as u64),
                Cell::time(found.longest_clean),
                Cell::Text(drift),
            ],
            suspect: !found.invalid.is_empty(),
        }
    };
    Table {
        id: format!("soak-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: soaks; between slices the tester drains and counts, and the load pauses"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Slices", "slices", Kind::Number),
            column("Of", "slice_ns", Kind::Number),
            column("Under load", "under_load", Kind::Number),
            column("Loss", "loss_ratio", Kind::Number),
            column("Lost", "lost", Kind::Number),
            column("Slices with loss", "lossy_slices", Kind::Number),
            column("Invalid", "invalid_slices", Kind::Number),
            column("Longest without", "longest_clean_ns", Kind::Number),
            column("First and last quarter", "drift", Kind::Text),
        ],
        rows: soaks.iter().map(row).collect(),
    }
}

/// When each loss was.
fn losses(digest: &Digest<'_>, nf: Nf, soaks: &[Soak<'_>]) -> Table {
    let mut rows = Vec::new();
    for soak in soaks {
        let lossy = soak.slices.iter().filter(|trial| soak.found.lossy.contains(&trial.sequence));
        rows.extend(lossy.map(|trial| {
            let total = trial.result.total();
            let ratio = total.lost() as f64 / total.intended.max(1) as f64;
            Row {
                cells: vec![
                    Cell::Text(soak.entry.size()),
                    Cell::Text(digest.subjects[soak.entry.subject].clone()),
                    Cell::Text(utc(trial.started_ms, utc::SECOND)),
                    Cell::time(trial.result.spec.duration),
                    Cell::count(total.lost()),
                    Cell::count(total.intended),
                    Cell::percent(ratio),
                ],
                suspect: false,
            }
        }));
    }
    Table {
        id: format!("soak-losses-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: the slices that lost packets, and when they began"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Began", "began", Kind::Text),
            column("Lasted", "lasted_ns", Kind::Number),
            column("Lost", "lost", Kind::Number),
            column("To send", "intended", Kind::Number),
            column("Loss", "loss_ratio", Kind::Number),
        ],
        rows,
    }
}
