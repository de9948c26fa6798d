//! Where packets are lost in a chain of processes, and who limits it.

use crate::cmd::layout::table;
use weir_trial::run::{Point, StoredTrial};
use weir_trial::{Waterfall, grouped};
use weir_units::Nanos;

/// The trials of a chain that say most: the one of the least load that lost anything, and the one of the greatest.
fn telling(point: &Point) -> Vec<&StoredTrial> {
    let mut trials: Vec<&StoredTrial> =
        super::deciding(point).filter(|trial| !trial.result.stages.is_empty()).collect();
    trials.sort_by(|a, b| a.result.spec.load.0.total_cmp(&b.result.spec.load.0));
    let begins = trials.iter().copied().find(|trial| trial.result.counted().lost() > 0);
    let ends = trials.last().copied();
    let mut told: Vec<&StoredTrial> = begins.into_iter().chain(ends).collect();
    told.dedup_by_key(|trial| trial.result.spec.load.0.to_bits());
    told
}

/// The tables of a point; empty where it is no chain of processes.
pub(super) fn text(point: &Point, heading: &str) -> String {
    telling(point).into_iter().filter_map(|trial| one(trial, heading)).collect()
}

fn one(trial: &StoredTrial, heading: &str) -> Option<String> {
    let waterfall = Waterfall::of(&trial.result)?;
    let elapsed = trial.result.dut.as_ref().map_or(trial.result.elapsed, |dut| dut.elapsed);
    let has_copies = waterfall.stages.iter().any(|stage| stage.share.is_some());
    let mut processes: Vec<u32> = Vec::new();
    let mut rows = Vec::new();
    for (place, stage) in waterfall.stages.iter().enumerate() {
        // A host is a process of several stages: its time stands once.
        let reading = trial.result.stages.get(place).filter(|reading| !processes.contains(&reading.process));
        let cpu = reading.map_or(String::new(), |reading| {
            processes.push(reading.process);
            share(reading.cpu, elapsed)
        });
        let counts = [stage.received, stage.waited_in_vain, stage.dropped, stage.vanished].map(number);
        let queued = stage.queued.map_or("–".to_owned(), |queued| format!("{queued:.1}"));
        let cycles =
            stage.cycles.filter(|_| reading.is_some()).map_or(String::new(), |one| format!("{one:.0}"));
        let more = [queued, time(stage.time), time(stage.inside), cycles, cpu];
        let mut row: Vec<String> = std::iter::once(stage.name.clone()).chain(counts).chain(more).collect();
        if has_copies {
            row.insert(1, stage.share.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share)));
        }
        rows.push(row);
    }
    let mut columns = vec![
        "stage",
        "came in",
        "found its queue full",
        "it dropped",
        "never came",
        "in its queue",
        "mean time",
        "inside",
        "cycles/packet",
        "CPU time",
    ];
    if has_copies {
        columns.insert(1, "its share");
    }
    let numbers: Vec<usize> = (1..columns.len()).collect();
    let limit = match &waterfall.limit {
        Some((name, share)) => {
            format!("limited by: {name}, for which {:.0} % of the lost packets were lost", share * 100.0)
        }
        None => "no packet was lost".to_owned(),
    };
    let longest = waterfall.longest.as_ref().map_or(String::new(), |(name, inside)| {
        format!("; packets are longest inside {name}: {}", time(Some(*inside)))
    });
    let load = trial.result.spec.load;
    Some(format!(
        "{heading} · where packets go, at {load}\n{}{limit}{longest}\n\n",
        table(&columns, &numbers, &rows)
    ))
}

/// A mean time, given in nanoseconds; a dash where there is none.
fn time(nanos: Option<f64>) -> String {
    nanos.map_or("–".to_owned(), |nanos| Nanos(nanos.max(0.0) as u64).to_string())
}

/// Packets; a dash for none.
fn number(packets: u64) -> String {
    if packets == 0 { "–".to_owned() } else { grouped(packets) }
}

/// Share of a core.
fn share(cpu: Nanos, elapsed: Nanos) -> String {
    format!("{:.0} %", 100.0 * cpu.seconds() / elapsed.seconds().max(1e-9))
}
