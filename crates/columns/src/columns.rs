//! Every column: its name, its kind, and how a row comes by it.

use crate::{Cell, Kind};
use weir_trial::DirectionCounts;
use weir_trial::run::{Point, Run, RunState, StoredTrial};
use weir_units::{Nanos, PERCENTILES};

/// Where a row stands.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) run: &'a Run,
    pub(crate) point: Option<&'a Point>,
    pub(crate) trial: Option<&'a StoredTrial>,
}

/// How a row comes by a cell.
type Get = Box<dyn Fn(&At<'_>) -> Option<Cell>>;

/// A column, and how it is filled.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) get: Get,
}

fn made(name: &str, kind: Kind, get: impl Fn(&At<'_>) -> Option<Cell> + 'static) -> Made {
    Made { name: name.to_owned(), kind, get: Box::new(get) }
}

/// A column of each kind, of the run.
fn of_run(name: &str, get: fn(&Run) -> Option<String>) -> Made {
    made(name, Kind::Text, move |at| get(at.run).map(Cell::Text))
}

fn of_point(name: &str, get: fn(&Point) -> Option<String>) -> Made {
    made(name, Kind::Text, move |at| get(at.point?).map(Cell::Text))
}

fn counted(name: &str, get: fn(&Point) -> u64) -> Made {
    made(name, Kind::Integer, move |at| Some(integer(get(at.point?))))
}

fn number(name: &str, get: fn(&Point) -> f64) -> Made {
    made(name, Kind::Number, move |at| Some(Cell::Number(get(at.point?))))
}

fn truth(name: &str, get: fn(&Point) -> bool) -> Made {
    made(name, Kind::Truth, move |at| Some(Cell::Truth(get(at.point?))))
}

/// A count. What was measured is far below the greatest; seeds may be above it and are texts.
fn integer(count: u64) -> Cell {
    Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn state(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}

/// What names a run in other tables.
pub(crate) fn run_key() -> Vec<Made> {
    vec![of_run("run_uuid", |run| Some(run.uuid.clone()))]
}

/// A row of `runs`.
pub(crate) fn run() -> Vec<Made> {
    let fact = |column: &str, fact: &'static str| {
        made(column, Kind::Text, move |at| at.run.environment.get(fact).cloned().map(Cell::Text))
    };
    let mut columns = run_key();
    columns.extend([
        of_run("run", |run| Some(run.name.clone())),
        made("started_unix_ms", Kind::Integer, |at| Some(Cell::Integer(at.run.started_ms))),
        made("ended_unix_ms", Kind::Integer, |at| at.run.ended_ms.map(Cell::Integer)),
        of_run("state", |run| Some(state(run.state).to_owned())),
        of_run("weir", |run| Some(run.weir.clone())),
        made("points", Kind::Integer, |at| Some(integer(at.run.points.len() as u64))),
        fact("machine_id", "machine.id"),
        fact("cpu_model", "cpu.model"),
        fact("kernel_release", "kernel.release"),
        fact("dpdk_version", "dpdk.version"),
        of_run("plan", |run| Some(run.plan.clone())),
    ]);
    columns
}

/// What names a point in other tables, beside its run.
pub(crate) fn point_key() -> Vec<Made> {
    vec![counted("point", |point| u64::from(point.index))]
}

/// A row of `points`, but for its run.
pub(crate) fn point() -> Vec<Made> {
    let mut columns = point_key();
    columns.extend([
        truth("finished", |point| point.finished),
        of_point("error", |point| point.error.clone()),
        of_point("nf", |point| Some(point.key.nf.to_string())),
        of_point("dut", |point| Some(point.key.dut.clone())),
        of_point("device", |point| Some(point.key.device())),
        of_point("dut_version", |point| point.dut_version.clone()),
    ]);
    columns.extend(identity());
    columns.extend([
        of_point("seed", |point| Some(point.seed.to_string())),
        of_point("trace_hashes", |point| Some(point.trace_hashes.join(" "))),
        counted("trials", |point| point.trials.len() as u64),
        made("packets_compared", Kind::Integer, |at| Some(integer(at.point?.packets.as_ref()?.compared))),
    ]);
    columns
}

/// What a point is, as far as a device does not say it.
fn identity() -> Vec<Made> {
    vec![
        of_point("wiring", |point| Some(point.key.wiring.clone())),
        of_point("trace", |point| Some(point.key.trace.clone())),
        of_point("size", |point| Some(point.key.size.clone())),
        number("mean_frame_bytes", |point| point.key.mean_frame_bytes),
        counted("directions", |point| u64::from(point.key.directions)),
        truth("huge_pages", |point| point.key.huge_pages),
        number("line_rate_bps", |point| point.key.line_rate.0.0),
    ]
}

/// What stands beside each trial in a table of trials alone.
pub(crate) fn about() -> Vec<Made> {
    let mut columns = vec![
        of_run("run", |run| Some(run.name.clone())),
        counted("point", |point| u64::from(point.index)),
        truth("point_finished", |point| point.finished),
        of_point("point_error", |point| point.error.clone()),
        of_point("nf", |point| Some(point.key.nf.to_string())),
        of_point("dut", |point| Some(point.key.dut.clone())),
        of_point("dut_version", |point| point.dut_version.clone()),
    ];
    columns.extend(identity());
    columns
}

/// A trial, but for its run and point.
pub(crate) fn trial() -> Vec<Made> {
    let mut columns = judged();
    columns.extend(counts());
    columns.extend(delays());
    columns.extend(of_device());
    columns.extend(PERCENTILES.iter().enumerate().map(|(place, percent)| {
        delay(&format!("latency_p{percent}_ns"), move |latency| nanos(latency.percentiles[place]))
    }));
    columns
}

fn of_trial(name: &str, kind: Kind, get: fn(&StoredTrial) -> Cell) -> Made {
    made(name, kind, move |at| Some(get(at.trial?)))
}

fn nanos(time: Nanos) -> Cell {
    integer(time.0)
}

/// What it was, and whether its numbers may be believed.
fn judged() -> Vec<Made> {
    let findings = |trial: &StoredTrial| {
        let names: Vec<&str> = trial.verdict.findings.iter().map(|finding| finding.code.name()).collect();
        Cell::Text(names.join(" "))
    };
    vec![
        of_trial("trial", Kind::Integer, |trial| integer(u64::from(trial.sequence))),
        of_trial("purpose", Kind::Text, |trial| Cell::Text(trial.purpose.name().to_owned())),
        of_trial("superseded", Kind::Truth, |trial| Cell::Truth(trial.superseded)),
        of_trial("valid", Kind::Truth, |trial| Cell::Truth(trial.verdict.is_valid())),
        of_trial("findings", Kind::Text, findings),
        of_trial("started_unix_ms", Kind::Integer, |trial| Cell::Integer(trial.started_ms)),
        of_trial("load_pps", Kind::Number, |trial| Cell::Number(trial.result.spec.load.0)),
        of_trial("duration_ns", Kind::Integer, |trial| nanos(trial.result.spec.duration)),
        of_trial("elapsed_ns", Kind::Integer, |trial| nanos(trial.result.elapsed)),
        of_trial("forwarded_pps", Kind::Number, |trial| Cell::Number(trial.result.forwarded_rate().0)),
        made("loss_ratio", Kind::Number, |at| Some(Cell::Number(at_wire(at)?.result.loss_ratio().0))),
    ]
}

/// The trial, if it had a tester at the wire. `fed` has none: no counts, which is not the same as counts of nothing.
fn at_wire<'a>(at: &At<'a>) -> Option<&'a StoredTrial> {
    at.trial.filter(|trial| !trial.result.directions.is_empty())
}

/// How a count is read.
type Count = fn(&DirectionCounts) -> u64;

/// Packets over all directions.
fn counts() -> Vec<Made> {
    let counts: [(&str, Count); 12] = [
        ("intended", |total| total.intended),
        ("sent", |total| total.sent),
        ("refused", |total| total.refused),
        ("unsent", |total| total.unsent),
        ("received", |total| total.received),
        ("lost", DirectionCounts::lost),
        ("duplicated", |total| total.duplicated),
        ("reordered", |total| total.reordered),
        ("late", |total| total.late),
        ("foreign", |total| total.foreign),
        ("damaged", |total| total.damaged),
        ("stamped", |total| total.stamped),
    ];
    let column = |(name, get): (&str, Count)| {
        made(name, Kind::Integer, move |at| Some(integer(get(&at_wire(at)?.result.total()))))
    };
    counts.into_iter().map(column).collect()
}

fn delay(name: &str, get: impl Fn(&weir_trial::Latency) -> Cell + 'static) -> Made {
    let kind = if name.contains("mean") { Kind::Number } else { Kind::Integer };
    made(name, kind, move |at| at.trial?.result.latency.as_ref().map(&get))
}

fn delays() -> Vec<Made> {
    vec![
        delay("latency_count", |latency| integer(latency.count)),
        delay("latency_min_ns", |latency| nanos(latency.min)),
        delay("latency_mean_ns", |latency| Cell::Number(latency.mean)),
        delay("latency_max_ns", |latency| nanos(latency.max)),
    ]
}

/// What the device says, and the trial's overhead.
fn of_device() -> Vec<Made> {
    fn dut(name: &str, kind: Kind, get: fn(&weir_trial::DutReading) -> Option<Cell>) -> Made {
        made(name, kind, move |at| at.trial?.result.dut.as_ref().and_then(get))
    }
    vec![
        dut("dut_received", Kind::Integer, |dut| Some(integer(dut.received))),
        dut("dut_sent", Kind::Integer, |dut| Some(integer(dut.sent))),
        dut("dut_elapsed_ns", Kind::Integer, |dut| Some(nanos(dut.elapsed))),
        dut("dut_cpu_ns", Kind::Integer, |dut| Some(nanos(dut.cpu))),
        dut("cycles_per_packet", Kind::Number, |dut| dut.cycles_per_packet.map(Cell::Number)),
        of_trial("overhead_ns", Kind::Integer, |trial| nanos(trial.result.overhead)),
    ]
}
