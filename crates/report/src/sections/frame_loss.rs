//! Frame loss against load (RFC 2544, section 26.3), as the RFC wants it drawn.

use super::{Part, by_function, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::{count, percent};
use weir_trial::Nf;
use weir_trial::run::{FrameLossResult, LossStep, PointResult, StoredTrial};

type Steps<'a> = Vec<(LossStep, &'a StoredTrial)>;

/// The steps of every frame loss curve of a point.
fn curves<'a>(entry: &Entry<'a>) -> Vec<Steps<'a>> {
    let of = |result: &'a PointResult| {
        let PointResult::FrameLoss(FrameLossResult { steps, .. }) = result else { return None };
        Some(steps.iter().filter_map(|step| Some((*step, entry.point.trial(step.trial)?))).collect())
    };
    entry.point.results.iter().filter_map(of).collect()
}

/// The whole section; nothing where no curve was taken.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let entries = digest.of(nf);
    let sizes = super::sizes(&entries);
    let mut series = Vec::new();
    for entry in &entries {
        let label = format!("{} · {}", digest.subjects[entry.subject], entry.size());
        let stroke = sizes.iter().position(|(_, size)| *size == entry.size()).unwrap_or(0);
        if let Some(steps) = curves(entry).first() {
            series.push(Series {
                samples: steps.iter().rev().map(|(step, trial)| sample(step, trial, &label)).collect(),
                label,
                hue: entry.subject,
                stroke,
                marks: true,
            });
        }
    }
    (!series.is_empty()).then(|| Figure {
        id: format!("frame-loss-{}", slug(&nf.to_string())),
        title: format!("{nf}: frame loss against load"),
        caption: "Share of the packets of the schedule that did not come back, by load as a share of the line rate \
                  (RFC 2544, section 26.3): from 100 % down until two successive trials lost nothing. Packets that the \
                  tester could not send count as lost; a ring marks such a trial, and any other that is not valid."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis { label: "Load, of the line rate".into(), quantity: Quantity::Share, spacing: Spacing::Linear },
            y: Axis { label: "Frames lost".into(), quantity: Quantity::Share, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn sample(step: &LossStep, trial: &StoredTrial, label: &str) -> Sample {
    let total = trial.result.total();
    let mut lines = vec![
        label.to_owned(),
        format!("at {} of the line, {}", percent(step.share.0), step.load),
        format!("{} lost", percent(step.loss_ratio.0)),
        format!(
            "{} of {} packets, {} unsent",
            count(total.lost()),
            count(total.intended),
            count(total.unsent)
        ),
    ];
    lines.extend(super::invalid(trial));
    Sample {
        x: step.share.0,
        x_name: None,
        y: Some(step.loss_ratio.0),
        interval: None,
        suspect: !trial.verdict.is_valid(),
        hollow: false,
        detail: lines.join("\n"),
    }
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for (step, trial) in curves(&entry).into_iter().flatten() {
            let total = trial.result.total();
            let invalid = super::invalid(trial);
            rows.push(Row {
                suspect: invalid.is_some(),
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    Cell::percent(step.share.0),
                    Cell::rate(Some(step.load), entry.bytes()),
                    Cell::percent(step.loss_ratio.0),
                    Cell::count(total.intended),
                    Cell::count(total.lost()),
                    Cell::count(total.unsent),
                    Cell::time(trial.result.spec.duration),
                    Cell::Text(invalid.unwrap_or_default()),
                ],
            });
        }
    }
    Table {
        id: format!("frame-loss-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: frame loss by load"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Of the line", "share_of_line", Kind::Number),
            column("Offered", "offered_pps", Kind::Rate),
            column("Loss", "loss_ratio", Kind::Number),
            column("To send", "intended", Kind::Number),
            column("Lost", "lost", Kind::Number),
            column("Unsent", "unsent", Kind::Number),
            column("Trial", "trial_ns", Kind::Number),
            column("Note", "note", Kind::Text),
        ],
        rows,
    }
}
