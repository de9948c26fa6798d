//! The results that have many loads, as tables of their own under the points.

use super::super::cells::{length, percent};
use super::super::layout::table;
use super::super::stored::clock;
use weir_trial::Latency;
use weir_trial::run::{
    BackToBackResult, CurveResult, CurveStep, FrameLossResult, LossStep, Point, PointResult, SoakResult,
    Soaked, StoredTrial,
};
use weir_units::{Nanos, Pps};

/// Lossy slices of a soak that are listed before the rest is counted.
const LOSSES_LISTED: usize = 20;

/// The tables of a point; empty where its results have none.
pub(super) fn of(point: &Point) -> String {
    let key = &point.key;
    let head = |what: &str| {
        let size = super::super::cells::size(key);
        format!("point {} · {} · {} · {size} · {what}\n", point.index, key.nf, key.dut)
    };
    let tables = point.results.iter().filter_map(|result| match result {
        PointResult::LatencyCurve(CurveResult { steps, knee, tail, .. }) => {
            Some(format!("{}{}", head("latency against load"), curve(point, steps, *knee, *tail)))
        }
        PointResult::FrameLoss(FrameLossResult { steps, .. }) => {
            Some(format!("{}{}", head("frame loss, RFC 2544 section 26.3"), frame_loss(point, steps)))
        }
        PointResult::BackToBack(BackToBackResult { bursts: Some(bursts), step, ceiling, .. }) => {
            let frames: Vec<String> = bursts.frames.iter().map(u64::to_string).collect();
            let (min, max) = (bursts.min, bursts.max);
            Some(format!(
                "{}longest bursts: {} frames; {min} to {max}, in steps of {step}, ceiling {ceiling}\n",
                head("back-to-back, RFC 9004"),
                frames.join(", ")
            ))
        }
        PointResult::Soak(SoakResult { found, .. }) => {
            Some(format!("{}{}", head("soak"), soak(point, found)))
        }
        _ => None,
    });
    tables.map(|text| text + "\n").collect()
}

/// `invalid: …` for a trial that is not as it should be.
fn remark(trial: &StoredTrial) -> Option<String> {
    Some(format!("invalid: {}", trial.spoilt_by()?.says))
}

fn curve(point: &Point, steps: &[CurveStep], knee: Option<Pps>, tail: Option<Pps>) -> String {
    let row = |step: &CurveStep| {
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
            (knee == Some(step.load)).then(|| "← knee".to_owned()),
            (tail == Some(step.load)).then(|| format!("← p99 stays above {} × its level", CurveResult::TAIL)),
            remark(trial),
        ];
        cells.push(marks.into_iter().flatten().collect::<Vec<_>>().join("; "));
        Some(cells)
    };
    let rows: Vec<_> = steps.iter().filter_map(row).collect();
    table(
        &["load", "loss", "p50", "p90", "p99", "p99.9", "max", "samples", ""],
        &[0, 1, 2, 3, 4, 5, 6, 7],
        &rows,
    )
}

/// A percentile, or a dash where fewer packets were timed than it takes to tell it from the greatest.
fn shown_percentile(latency: &Latency, place: usize) -> String {
    if latency.tells(place) { latency.percentiles[place].to_string() } else { "–".to_owned() }
}

fn frame_loss(point: &Point, steps: &[LossStep]) -> String {
    let row = |step: &LossStep| {
        let trial = point.trial(step.trial)?;
        let total = trial.result.total();
        Some(vec![
            percent(step.share),
            step.load.to_string(),
            step.loss_ratio.to_string(),
            total.intended.to_string(),
            total.lost().to_string(),
            total.unsent.to_string(),
            remark(trial).unwrap_or_default(),
        ])
    };
    let rows: Vec<_> = steps.iter().filter_map(row).collect();
    table(&["line", "load", "loss", "to send", "lost", "unsent", ""], &[0, 1, 2, 3, 4, 5], &rows)
}

fn soak(point: &Point, found: &Soaked) -> String {
    let mut text = format!(
        "{} of the time under load; between slices the tester drains and counts\nlongest time without loss: {}\n",
        found.under_load,
        length(found.longest_clean)
    );
    if let Some(drift) = found.drift {
        text.push_str(&format!(
            "first quarter: p50 {}, p99 {}; last quarter: p50 {}, p99 {}\n",
            drift.p50_first, drift.p99_first, drift.p50_last, drift.p99_last
        ));
    }
    let first = found.trials.first().and_then(|trial| point.trial(*trial));
    let row = |sequence: &u32| {
        let trial = point.trial(*sequence)?;
        let into = trial.started_ms.saturating_sub(first?.started_ms).max(0).unsigned_abs();
        let total = trial.result.total();
        Some(vec![
            clock(trial.started_ms),
            length(Nanos(into.saturating_mul(1_000_000))),
            total.lost().to_string(),
            total.intended.to_string(),
        ])
    };
    let rows: Vec<_> = found.lossy.iter().take(LOSSES_LISTED).filter_map(row).collect();
    if !rows.is_empty() {
        text.push_str(&table(&["slice began", "into the soak", "lost", "to send"], &[1, 2, 3], &rows));
    }
    if found.lossy.len() > LOSSES_LISTED {
        text.push_str(&format!("and {} slices more with loss\n", found.lossy.len() - LOSSES_LISTED));
    }
    if !found.invalid.is_empty() {
        text.push_str(&format!("{} slices were invalid and count nowhere\n", found.invalid.len()));
    }
    text
}
