//! Stages: where in a chain of processes packets are lost and where their time goes, and who limits it.
//!
//! Of each chain two trials are told, as far as they differ: the one of the least load that lost anything, and the one
//! of the greatest load. Bars of time are drawn of the first trial at the least load of all: what packets wait for when
//! there is no queue that overflows.

use super::{Part, by_function, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Bar, Bars, Figure, Plot};
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::{count, number};
use maud::html;
use weir_trial::run::{Purpose, StoredTrial};
use weir_trial::{Nf, StageLoss, Waterfall};
use weir_units::Nanos;

/// What a stage loses, in the order of the bars.
const PARTS: [&str; 3] = ["found its queue full", "it dropped", "left the stage before and never came"];

/// Where time goes, in the order of the bars.
const TIMES: [&str; 2] = ["before it, in its queue", "inside it"];

/// The whole section; nothing where no device is a chain of processes.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    let losses = by_function(digest, figure, table);
    if losses.is_empty() {
        return losses;
    }
    let said = html! {
        ul {
            @for nf in digest.functions() { @for entry in digest.of(nf) { @if let Some(said) = summary(digest, nf, &entry) {
                li { (said) }
            } } }
        }
    };
    let times = digest.functions().into_iter().filter_map(|nf| times(digest, nf));
    let times = times.map(|figure| Part::folded(figure.title.clone(), true, figure));
    std::iter::once(Part::Text(said)).chain(losses).chain(times).collect()
}

/// What limits a chain at the greatest load, in a sentence.
fn summary(digest: &Digest<'_>, nf: Nf, entry: &Entry<'_>) -> Option<String> {
    let (trial, waterfall) = told(entry).pop()?;
    let (subject, load) = (&digest.subjects[entry.subject], trial.result.spec.load);
    let limited = limited(&waterfall);
    let longest = Some(longest(&waterfall)).filter(|longest| !longest.is_empty());
    let longest = longest.map_or(String::new(), |longest| format!("; {longest}"));
    Some(format!("{nf}, {subject}, {}, at {load}: {limited}{longest}", entry.size()))
}

/// The heading of a device's bars.
fn heading(digest: &Digest<'_>, entry: &Entry<'_>) -> Bar {
    let label = format!("{} · {}", digest.subjects[entry.subject], entry.size());
    Bar { label, shares: Vec::new(), detail: String::new() }
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
fn lost_parts(stage: &StageLoss) -> [u64; 3] {
    [stage.waited_in_vain, stage.dropped, stage.vanished]
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let mut bars = Vec::new();
    for entry in digest.of(nf) {
        let Some((trial, waterfall)) = told(&entry).pop() else { continue };
        let intended = trial.result.total().intended.max(1);
        bars.push(heading(digest, &entry));
        let subject = &digest.subjects[entry.subject];
        for (place, stage) in waterfall.stages.iter().enumerate() {
            let lost = lost_parts(stage);
            let each: Vec<String> =
                PARTS.iter().zip(lost).map(|(part, lost)| format!("{}: {part}", count(lost))).collect();
            bars.push(Bar {
                label: format!("{} {}", place + 1, stage.name),
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

fn time(nanos: Option<f64>) -> Cell {
    nanos.map_or(Cell::None, |time| Cell::time(Nanos(time.max(0.0) as u64)))
}

/// Who limits the chain, in words.
fn limited(waterfall: &Waterfall) -> String {
    match &waterfall.limit {
        Some((name, share)) => format!("limited by {name}: {:.0} % of the losses", share * 100.0),
        None => "no packet was lost".to_owned(),
    }
}

/// Where the time of packets goes, at the least load that was measured.
fn times(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let mut bars = Vec::new();
    for entry in digest.of(nf) {
        let trials = entry.trials().filter(|trial| trial.purpose != Purpose::WarmUp);
        let least = trials.min_by(|a, b| a.result.spec.load.0.total_cmp(&b.result.spec.load.0));
        let Some((trial, waterfall)) = least.and_then(|trial| Some((trial, Waterfall::of(&trial.result)?)))
        else {
            continue;
        };
        let whole: f64 = waterfall.stages.iter().filter_map(|stage| stage.time).sum();
        if whole <= 0.0 {
            continue;
        }
        bars.push(heading(digest, &entry));
        let subject = &digest.subjects[entry.subject];
        for (place, stage) in waterfall.stages.iter().enumerate() {
            let Some(time) = stage.time else { continue };
            let inside = stage.inside.unwrap_or(0.0).clamp(0.0, time.max(0.0));
            let before = (time - inside).max(0.0);
            let nanos = |time: f64| Nanos(time.max(0.0) as u64);
            bars.push(Bar {
                label: format!("{} {}", place + 1, stage.name),
                shares: vec![before / whole, inside / whole],
                detail: format!(
                    "{subject} · {} · stage {}, {}, at {}\n{}: {}\n{}: {}\n{}",
                    entry.size(),
                    place + 1,
                    stage.name,
                    trial.result.spec.load,
                    nanos(before),
                    TIMES[0],
                    nanos(inside),
                    TIMES[1],
                    longest(&waterfall)
                ),
            });
        }
    }
    (!bars.is_empty()).then(|| Figure {
        id: format!("times-{}", slug(&nf.to_string())),
        title: format!("{nf}: where the time of packets goes"),
        caption: "At the least load: of the mean delay the share of each stage from the chain's port 0 on, over both \
                  directions. Of a host without taps the queues of its neighbours are part."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Bars(Bars {
            label: "Share of the mean delay".to_owned(),
            parts: TIMES.map(str::to_owned).to_vec(),
            bars,
        }),
    })
}

/// Where packets are longest, in words.
fn longest(waterfall: &Waterfall) -> String {
    waterfall.longest.as_ref().map_or(String::new(), |(name, inside)| {
        format!("longest inside {name}: {}", Nanos(inside.max(0.0) as u64))
    })
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for (trial, waterfall) in told(&entry) {
            for stage in &waterfall.stages {
                let lost = lost_parts(stage);
                rows.push(Row {
                    cells: vec![
                        Cell::Text(entry.size()),
                        Cell::Text(digest.subjects[entry.subject].clone()),
                        Cell::rate(Some(trial.result.spec.load), entry.bytes()),
                        Cell::Text(stage.name.clone()),
                        Cell::count(stage.received),
                        stage.share.map_or(Cell::None, Cell::percent),
                        Cell::count(lost[0]),
                        Cell::count(lost[1]),
                        Cell::count(lost[2]),
                        stage.queued.map_or(Cell::None, |queued| Cell::Number(number(queued, 1), queued)),
                        time(stage.time),
                        time(stage.inside),
                        stage.cycles.map_or(Cell::None, |cycles| Cell::Number(number(cycles, 0), cycles)),
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
            column("Its share of copies", "copy_share", Kind::Number),
            column("Found its queue full", "queue_full", Kind::Number),
            column("It dropped", "dropped", Kind::Number),
            column("Never came", "vanished", Kind::Number),
            column("In its queue", "queued_packets", Kind::Number),
            column("Mean time", "mean_time_ns", Kind::Number),
            column("Inside", "inside_ns", Kind::Number),
            column("Cycles/packet", "cycles_per_packet", Kind::Number),
            column("The chain is", "limit", Kind::Text),
        ],
        rows,
    }
}
