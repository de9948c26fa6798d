//! CPU time against load: what a device takes of its cores to answer as fast as the curves say.
//!
//! A device that polls takes its whole core whatever the load; one that waits takes less, and its curve of
//! delays says what that costs.

use super::curve::{Curve, curves};
use super::slug;
use crate::digest::{Digest, Entry};
use crate::figure::{Axis, Figure, Lines, Plot, Quantity, Sample, Series};
use crate::scale::Spacing;
use weir_trial::run::StoredTrial;

/// CPU time of the device's forwarding threads over the time of a trial: 1 is a whole core. Nothing where
/// the device does not tell.
pub(super) fn share(trial: &StoredTrial) -> Option<f64> {
    let dut = trial.result.dut.as_ref().filter(|dut| dut.elapsed.0 > 0 && dut.cpu.0 > 0)?;
    Some(dut.cpu.0 as f64 / dut.elapsed.0 as f64)
}

/// The figure for one frame size; nothing where no device told its CPU time.
pub(super) fn figure(
    digest: &Digest<'_>,
    nf: weir_trial::Nf,
    size: &str,
    entries: &[Entry<'_>],
) -> Option<Figure> {
    let of_size = entries.iter().filter(|entry| entry.size() == size);
    let series: Vec<Series> = of_size
        .filter_map(|entry| {
            let subject = &digest.subjects[entry.subject];
            let samples = samples(&curves(entry).into_iter().next()?, subject);
            let label = subject.clone();
            let series = Series { label, hue: entry.subject, stroke: 0, marks: true, samples };
            Some(series).filter(|series| !series.samples.is_empty())
        })
        .collect();
    (!series.is_empty()).then(|| Figure {
        id: format!("curve-cpu-{}-{}", slug(&nf.to_string()), slug(size)),
        title: format!("{nf}: CPU time against load at {size}"),
        caption: "CPU time of the device's forwarding threads over the time of each trial of the curve above: 100 % is \
                  one core. A trial's time begins and ends with a reading of the device's counters, which is somewhat \
                  longer than its load."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Lines(Lines {
            x: Axis {
                label: "Offered load, packets a second over all directions".into(),
                quantity: Quantity::Load,
                spacing: Spacing::Log,
            },
            y: Axis { label: "CPU time".into(), quantity: Quantity::Share, spacing: Spacing::Linear },
            limits: Vec::new(),
            markers: Vec::new(),
            series,
        }),
    })
}

fn samples(curve: &Curve<'_>, subject: &str) -> Vec<Sample> {
    let sample = |(step, trial): &(weir_trial::run::CurveStep, &StoredTrial)| {
        let share = share(trial)?;
        Some(Sample {
            x: step.load.0,
            x_name: None,
            y: Some(share),
            interval: None,
            suspect: !trial.verdict.is_valid(),
            hollow: false,
            detail: format!("{subject} · {}\n{:.1} % of a core", step.load, share * 100.0),
        })
    };
    curve.steps.iter().filter_map(sample).collect()
}
