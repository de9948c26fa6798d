//! One-way delay: the percentiles of every load, and the whole distributions from the histograms.

use super::{Folded, Part, rates, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units;
use weir_trial::run::{LatencyResult, PointResult};
use weir_trial::{Floor, Latency, Nf};
use weir_units::{LatencyHistogram, Nanos, PERCENTILES, Pps};

/// Marks that one curve of a distribution is thinned to, at most.
const CURVE_SAMPLES: usize = 90;
/// Where in [`PERCENTILES`] the bar of the overview ends: 99.9.
const BAR_END: usize = 3;

/// Latency at one load of one point.
#[derive(Clone, Copy)]
struct Taken<'a> {
    label: &'a str,
    load: Pps,
    /// Nothing where the trial is missing or none of its stamped packets came back.
    latency: Option<&'a Latency>,
    floor: Option<Floor>,
}

fn taken<'a>(entry: &Entry<'a>) -> Vec<Taken<'a>> {
    let of = |result: &'a PointResult| {
        let PointResult::Latency(LatencyResult { label, load, trial, floor }) = result else { return None };
        let stored = entry.trials().find(|stored| stored.sequence == *trial);
        let latency = stored.and_then(|stored| stored.result.latency.as_ref());
        Some(Taken { label, load: *load, latency, floor: *floor })
    };
    entry.point.results.iter().filter_map(of).collect()
}

/// The loads of one network function, in the order in which they first appear.
fn labels<'a>(digest: &Digest<'a>, nf: Nf) -> Vec<&'a str> {
    let mut labels = Vec::new();
    for taken in digest.of(nf).iter().flat_map(taken) {
        if !labels.contains(&taken.label) {
            labels.push(taken.label);
        }
    }
    labels
}

/// The whole section; nothing where no latency was taken.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for nf in digest.functions().into_iter().filter(|nf| !labels(digest, *nf).is_empty()) {
        parts.push(Part::plot(overview(digest, nf), table(digest, nf)));
        parts.extend(distributions(digest, nf));
    }
    parts
}

/// Median and spread of every load against frame size.
fn overview(digest: &Digest<'_>, nf: Nf) -> Figure {
    let mut series = Vec::new();
    for (stroke, label) in labels(digest, nf).into_iter().enumerate() {
        let pick = |entry: Entry<'_>| {
            let taken = taken(&entry).into_iter().find(|taken| taken.label == label)?;
            Some(sample(&entry, &taken, &digest.subjects[entry.subject]))
        };
        series.extend(super::series(digest, nf, |subject| format!("{subject} · {label}"), stroke, pick));
    }
    series.sort_by_key(|series| (series.hue, series.stroke));
    Figure {
        id: format!("latency-{}", slug(&nf.to_string())),
        title: format!("{nf}: one-way delay against frame size"),
        caption: "Each mark is the median delay of the stamped packets at a load; its bar reaches from the least to \
                  the 99.9th percentile. The scale is logarithmic. Sender and sink read one clock."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: rates::size_axis(),
            y: Axis { label: "One-way delay".into(), quantity: Quantity::Time, spacing: Spacing::Log },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    }
}

fn sample(entry: &Entry<'_>, taken: &Taken<'_>, subject: &str) -> Sample {
    let mut lines =
        vec![format!("{subject} · {} · {}", taken.label, entry.size()), format!("at {} offered", taken.load)];
    match taken.latency {
        Some(latency) => {
            lines.push(format!("least {}, mean {}", latency.min, Nanos(latency.mean.round() as u64)));
            lines.extend(
                PERCENTILES
                    .iter()
                    .zip(latency.percentiles)
                    .map(|(percent, time)| format!("p{percent} {time}")),
            );
            lines.push(format!("greatest {}, {} packets", latency.max, units::count(latency.count)));
        }
        None => lines.push("no stamped packet came back".to_owned()),
    }
    if let Some(floor) = taken.floor {
        lines.push(format!("the bare wiring at {}: p50 {}, p99 {}", floor.load, floor.p50, floor.p99));
    }
    Sample {
        x: entry.bytes(),
        x_name: entry.size_name(),
        y: taken.latency.map(|latency| latency.percentiles[0].0.max(1) as f64),
        interval: taken
            .latency
            .map(|latency| (latency.min.0.max(1) as f64, latency.percentiles[BAR_END].0.max(1) as f64)),
        suspect: taken.latency.is_none(),
        hollow: false,
        detail: lines.join("\n"),
    }
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for taken in taken(&entry) {
            let mut cells = vec![
                Cell::Text(entry.size()),
                Cell::Text(digest.subjects[entry.subject].clone()),
                Cell::Text(taken.label.to_owned()),
                Cell::rate(Some(taken.load), entry.bytes()),
            ];
            match taken.latency {
                Some(latency) => {
                    cells.push(Cell::time(latency.min));
                    cells.extend(latency.percentiles.map(Cell::time));
                    cells.push(Cell::time(latency.max));
                    cells.push(Cell::count(latency.count));
                }
                None => cells.extend(std::iter::repeat_n(Cell::None, PERCENTILES.len() + 3)),
            }
            cells.push(taken.floor.map_or(Cell::None, |floor| Cell::time(floor.p50)));
            rows.push(Row { cells, suspect: taken.latency.is_none() });
        }
    }
    Table {
        id: format!("latency-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: one-way delay of the stamped packets"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Load", "load", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Least", "least_ns", Kind::Number),
            column("p50", "p50_ns", Kind::Number),
            column("p90", "p90_ns", Kind::Number),
            column("p99", "p99_ns", Kind::Number),
            column("p99.9", "p99.9_ns", Kind::Number),
            column("p99.99", "p99.99_ns", Kind::Number),
            column("Greatest", "greatest_ns", Kind::Number),
            column("Packets", "packets", Kind::Number),
            column("Floor, p50", "floor_p50_ns", Kind::Number),
        ],
        rows,
    }
}

/// One plot a frame size, folded but for the first: every curve of every device and load.
fn distributions(digest: &Digest<'_>, nf: Nf) -> Vec<Part> {
    let entries = digest.of(nf);
    let sizes = super::sizes(&entries);
    let plots = sizes.iter().filter_map(|(_, size)| Some((size, distribution(digest, nf, size)?)));
    let folded = |(index, (size, (figure, warnings)))| {
        let summary = format!("{nf}: the whole distribution at {size}");
        Part::Folded(Folded { summary, open: index == 0, figure, warnings })
    };
    plots.enumerate().map(folded).collect()
}

/// The distributions at one frame size, and what of them could not be read.
fn distribution(digest: &Digest<'_>, nf: Nf, size: &str) -> Option<(Figure, Vec<String>)> {
    let labels = labels(digest, nf);
    let (mut series, mut damaged) = (Vec::new(), Vec::new());
    for entry in digest.of(nf).into_iter().filter(|entry| entry.size() == size) {
        for taken in taken(&entry) {
            let Some(latency) = taken.latency else { continue };
            let label = format!("{} · {}", digest.subjects[entry.subject], taken.label);
            match LatencyHistogram::from_base64(&latency.histogram) {
                Ok(histogram) => series.push(Series {
                    samples: curve(&histogram, &label),
                    label,
                    hue: entry.subject,
                    stroke: labels.iter().position(|known| *known == taken.label).unwrap_or(0),
                    marks: false,
                }),
                Err(error) => damaged.push(format!("{label}: {error}")),
            }
        }
    }
    let figure = Figure {
        id: format!("distribution-{}-{}", slug(&nf.to_string()), slug(size)),
        title: format!("{nf}: distribution of the one-way delay at {size}"),
        caption: "How many per cent of the stamped packets took at most how long. Both scales are logarithmic: each \
                  step across is one more nine."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis { label: "Percentile of the packets".into(), quantity: Quantity::Tail, spacing: Spacing::Log },
            y: Axis { label: "One-way delay".into(), quantity: Quantity::Time, spacing: Spacing::Log },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    };
    let Plot::Lines(plot) = &figure.plot else { return None };
    (!plot.series.is_empty() || !damaged.is_empty()).then_some((figure, damaged))
}

/// The distribution over its tail, thinned evenly over what is drawn, with marks at the percentiles
/// that the table shows.
fn curve(histogram: &LatencyHistogram, label: &str) -> Vec<Sample> {
    let total = histogram.count() as f64;
    let tail = |share: f64| (1.0 / (1.0 - share).max(0.5 / total)).min(total.max(1.0));
    let sample = |x: f64, time: Nanos, detail: String| Sample {
        x,
        x_name: None,
        y: Some(time.0.max(1) as f64),
        interval: None,
        suspect: false,
        hollow: false,
        detail,
    };
    let mut samples: Vec<Sample> = Vec::new();
    if let Some(least) = histogram.min() {
        samples.push(sample(1.0, least, format!("{label}\nleast {least}")));
    }
    let step = total.max(10.0).ln() / CURVE_SAMPLES as f64;
    let (mut next, mut last) = (f64::NEG_INFINITY, None);
    for (time, share) in histogram.distribution() {
        let x = tail(share.0);
        last = Some((x, time));
        if x.ln() >= next {
            samples.push(sample(x, time, String::new()));
            next = x.ln() + step;
        }
    }
    for percent in PERCENTILES.into_iter().filter(|percent| 100.0 / (100.0 - percent) <= total) {
        if let Some(time) = histogram.percentile(percent) {
            samples.push(sample(100.0 / (100.0 - percent), time, format!("{label}\np{percent} {time}")));
        }
    }
    if let Some((x, time)) = last {
        samples.push(sample(
            x,
            time,
            format!("{label}\ngreatest {time}, {} packets", units::count(histogram.count())),
        ));
    }
    samples
        .sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.partial_cmp(&b.y).unwrap_or(std::cmp::Ordering::Equal)));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_rises_and_keeps_its_ends() {
        let mut histogram = LatencyHistogram::default();
        (1..=100_000).for_each(|n| histogram.record(Nanos(1_000 + n)));
        let samples = curve(&histogram, "x");
        assert!(samples.len() < 2 * CURVE_SAMPLES, "{}", samples.len());
        assert!(samples.windows(2).all(|pair| pair[0].x <= pair[1].x && pair[0].y <= pair[1].y));
        assert_eq!((samples[0].x, samples[0].y), (1.0, Some(1_001.0)));
        let last = samples.last().unwrap();
        assert_eq!(last.x, 100_000.0);
        assert!((last.y.unwrap() / 101_000.0 - 1.0).abs() < 0.001);
    }
}
