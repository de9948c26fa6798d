//! Latency against load.

use super::{Cell, Delays, count, remark};
use crate::cmd::layout::table;
use weir_trial::Latency;
use weir_trial::run::{CurveResult, CurveStep, Point, PointKey, Saturation};

impl Cell for CurveResult {
    fn cell(&self, _key: &PointKey, latency: Delays<'_, '_>) -> String {
        let knee = self.knee.map_or_else(
            || "no knee".to_owned(),
            |load| {
                let step = self.steps.iter().find(|step| step.load == load);
                let median = step.and_then(|step| latency(step.trial)).map(|latency| latency.percentiles[0]);
                let median = median.map_or_else(String::new, |median| format!(" (p50 {median})"));
                format!("knee at {load}{median}")
            },
        );
        format!("curve    {knee} · {} · {}", saturates(&self.saturation), count(self.steps.len()))
    }

    fn details(&self, point: &Point) -> Option<(&'static str, String)> {
        let rows: Vec<_> = self.steps.iter().filter_map(|step| row(self, point, step)).collect();
        let headings = ["load", "loss", "p50", "p90", "p99", "p99.9", "max", "samples", ""];
        Some(("latency against load", table(&headings, &[0, 1, 2, 3, 4, 5, 6, 7], &rows)))
    }
}

/// A load in detail; nothing where its trial is not there.
fn row(curve: &CurveResult, point: &Point, step: &CurveStep) -> Option<Vec<String>> {
    let trial = point.trial(step.trial)?;
    let times = trial.result.latency.as_ref().map_or_else(
        || vec!["–".to_owned(); 5],
        |latency| {
            let at = |place: usize| shown_percentile(latency, place);
            vec![at(0), at(1), at(2), at(3), latency.max.to_string()]
        },
    );
    let samples = trial.result.latency.as_ref().map_or(0, |latency| latency.count);
    let mut cells = vec![step.load.to_string(), trial.result.loss_ratio().to_string()];
    cells.extend(times);
    cells.push(samples.to_string());
    let marks = [
        (curve.knee == Some(step.load)).then(|| "← knee".to_owned()),
        (curve.tail == Some(step.load))
            .then(|| format!("← p99 stays above {} × its level", CurveResult::TAIL)),
        remark(trial),
    ];
    cells.push(marks.into_iter().flatten().collect::<Vec<_>>().join("; "));
    Some(cells)
}

/// Where a curve begins to lose packets, in words.
fn saturates(saturation: &Saturation) -> String {
    match (saturation.lower, saturation.upper) {
        (Some(lower), Some(upper)) => format!("saturates in [{lower}, {upper}]"),
        (Some(lower), None) => format!("not saturated at {lower}"),
        (None, Some(least)) => format!("loses more than {} from {least} on", saturation.loss_ratio),
        (None, None) => "no loads".to_owned(),
    }
}

/// A percentile, or a dash where fewer packets were timed than it takes to tell it from the greatest.
fn shown_percentile(latency: &Latency, place: usize) -> String {
    if latency.tells(place) { latency.percentiles[place].to_string() } else { "–".to_owned() }
}
