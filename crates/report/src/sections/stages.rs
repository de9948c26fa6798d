//! Stages: where in a chain of processes packets are lost, and who limits it.
//!
//! Of each chain two trials are told, as far as they differ: the one of the least load that lost anything, and the one
//! of the greatest load.

use super::{by_function, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Bar, Bars, Figure, Plot};
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::count;
use maud::Markup;
use weir_trial::run::{Purpose, StoredTrial};
use weir_trial::{Nf, StageLoss, Waterfall};
use weir_units::Nanos;

/// What a stage loses, in the order of the bars.
const PARTS: [&str; 3] = ["found its queue full", "it dropped", "left the stage before and never came"];

/// The whole section; nothing where no device is a chain of processes.
pub(crate) fn section(digest: &Digest<'_>) -> Option<Markup> {
    by_function(digest, figure, table)
}

/// The trials of a chain that are told.
fn told<'a>(entry: &Entry<'a>) -> Vec<(&'a StoredTrial, Waterfall)> {
    let mut trials: Vec<&StoredTrial> =
        entry.trials().filter(|trial| trial.purpose != Purpose::WarmUp).collect();
    trials.sort_by(|a, b| a.result.spec.load.0.total_cmp(&b.result.spec.load.0));
    let begins = trials.iter().copied().find(|trial| trial.result.counted().lost() > 0);
    let mut told: Vec<&StoredTrial> = begins.into_iter().chain(trials.last().copied()).collect();
    told.dedup_by_key(|trial| trial.result.spec.load.0.to_bits());
    told.into_iter().filter_map(|trial| Some((trial, Waterfall::of(&trial.result)?))).collect()
}

/// What a stage lost of the packets to be sent, part by part.
fn parts(stage: &StageLoss) -> [u64; 3] {
    [stage.waited_in_vain, stage.dropped, stage.vanished]
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let mut bars = Vec::new();
    for entry in digest.of(nf) {
        let Some((trial, waterfall)) = told(&entry).pop() else { continue };
        let intended = trial.result.total().intended.max(1);
        let subject = &digest.subjects[entry.subject];
        for (place, stage) in waterfall.stages.iter().enumerate() {
            let lost = parts(stage);
            let each: Vec<String> =
                PARTS.iter().zip(lost).map(|(part, lost)| format!("{}: {part}", count(lost))).collect();
            bars.push(Bar {
                label: format!("{subject} · {} · {} {}", entry.size(), place + 1, stage.name),
                shares: lost.map(|lost| lost as f64 / intended as f64).to_vec(),
                detail: format!(
                    "{subject} · {} · stage {}, {}\n{} packets came in\n{}\n{}",
                    entry.size(),
                    place + 1,
                    stage.name,
                    count(stage.received),
                    each.join("\n"),
                    limited(&waterfall)
                ),
            });
        }
    }
    (!bars.is_empty()).then(|| Figure {
        id: format!("stages-{}", slug(&nf.to_string())),
        title: format!("{nf}: where the chain loses packets"),
        caption: "At the greatest load: of the packets to be sent those that were lost, stage by stage from the chain's \
                  port 0 on. A packet that finds a stage's queue full is lost for that stage, whoever sent it there."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Bars(Bars {
            label: "Share of the packets to be sent".to_owned(),
            parts: PARTS.map(str::to_owned).to_vec(),
            bars,
        }),
    })
}

/// Who limits the chain, in words.
fn limited(waterfall: &Waterfall) -> String {
    match &waterfall.limit {
        Some((name, share)) => format!("limited by {name}: {:.0} % of the losses", share * 100.0),
        None => "no packet was lost".to_owned(),
    }
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for (trial, waterfall) in told(&entry) {
            for stage in &waterfall.stages {
                let lost = parts(stage);
                rows.push(Row {
                    cells: vec![
                        Cell::Text(entry.size()),
                        Cell::Text(digest.subjects[entry.subject].clone()),
                        Cell::rate(Some(trial.result.spec.load), entry.bytes()),
                        Cell::Text(stage.name.clone()),
                        Cell::count(stage.received),
                        Cell::count(lost[0]),
                        Cell::count(lost[1]),
                        Cell::count(lost[2]),
                        stage.time.map_or(Cell::None, |time| Cell::time(Nanos(time.max(0.0) as u64))),
                        Cell::Text(limited(&waterfall)),
                    ],
                    suspect: false,
                });
            }
        }
    }
    Table {
        id: format!("stages-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: packets by stage, over both directions"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Offered", "offered_pps", Kind::Rate),
            column("Stage", "stage", Kind::Text),
            column("Came in", "received", Kind::Number),
            column("Found its queue full", "queue_full", Kind::Number),
            column("It dropped", "dropped", Kind::Number),
            column("Never came", "vanished", Kind::Number),
            column("Mean time", "mean_time_ns", Kind::Number),
            column("The chain is", "limit", Kind::Text),
        ],
        rows,
    }
}
