//! A run of a figure's plan as one small table, for a page: what the paper has on an axis stands across.
//!
//! Rows are told apart by all that differs between points and is not across: function, device, wiring, trace, frame size. A point measured
//! on two devices in turns (`against`) has both numbers and their ratio with its 95 % interval, as `weir compare` forms it.

use crate::cmd::rescore::plan_of;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weir_methods::compare::{Row, Side, compare, words};
use weir_trial::run::{CpuUse, Point, PointKey, PointResult, Run};

/// What stands across.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Across {
    /// The function
    Nf,
    /// The device, with its settings and where it runs
    Dut,
    /// The trace
    Trace,
    /// The frame size
    Size,
}

/// Which number of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum What {
    /// The greatest forwarded rate, the mean of its trials, in Mpps
    #[default]
    Rate,
    /// Cycles of the device's cores for each packet
    Cycles,
    /// The device's CPU time at the greatest load, in percent of a core, and what that comes to for a packet
    Cpu,
    /// Cycles a packet by step of the switch's ledger
    Steps,
    /// Megaflows that the switch held
    Megaflows,
    /// Median delay at each load
    Delay,
}

/// What tells points apart, in words, by column.
const HEADS: [&str; 5] = ["function", "device", "wiring", "trace", "frame"];
/// The column of the frame size.
const FRAME: usize = 4;

impl Across {
    const fn place(self) -> usize {
        match self {
            Self::Nf => 0,
            Self::Dut => 1,
            Self::Trace => 3,
            Self::Size => FRAME,
        }
    }
}

impl What {
    const fn words(self) -> &'static str {
        match self {
            Self::Rate => "Mpps",
            Self::Cycles => "cycles a packet",
            Self::Cpu => "percent of a core, and cycles a packet",
            Self::Steps => "cycles a packet by step",
            Self::Megaflows => "megaflows",
            Self::Delay => "median delay at each load",
        }
    }
}

/// A cell of the table: where it stands, and what stands there.
struct Cell {
    of: [String; HEADS.len()],
    text: String,
}

/// The table.
pub(super) fn table(run: &Run, across: Across, what: What) -> String {
    let cells = match what {
        What::Rate => in_turns(run).unwrap_or_else(|| each(run, rate)),
        What::Cycles => each(run, cycles),
        What::Cpu => each(run, |point| cpu(run, point)),
        What::Steps => each(run, steps),
        What::Megaflows => each(run, megaflows),
        What::Delay => each(run, delay),
    };
    let mut text = drawn(&cells, across, what);
    for (number, line) in lost(run).iter().enumerate() {
        let before = if number == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{before}- not there: {line}");
    }
    let _ = writeln!(
        text,
        "\nIn {}. From run {} ({}), measured by {}.",
        what.words(),
        run.name,
        run.uuid,
        run.weir
    );
    text
}

fn of(key: &PointKey) -> [String; HEADS.len()] {
    [key.nf.to_string(), key.device(), key.wiring.clone(), key.trace.clone(), key.frame()]
}

/// One number a point.
fn each(run: &Run, number: impl Fn(&Point) -> Option<String>) -> Vec<Cell> {
    let cell = |point: &Point| Some(Cell { of: of(&point.key), text: number(point)? });
    run.points.iter().filter_map(cell).collect()
}

/// Both numbers and their ratio, where the plan names a second device.
fn in_turns(run: &Run) -> Option<Vec<Cell>> {
    let plan = plan_of(run).ok()?;
    let ([dut], Some(against)) = (plan.duts.as_slice(), &plan.against) else { return None };
    let side = |dut| Side { run, dut: Some(dut) };
    // Over the device that the plan compares with.
    let comparison = compare(side(against), side(dut), None);
    let cell = |row: &Row| {
        let mut of = of(&row.key);
        of[1] = format!("{dut} over {against}");
        let [a, b] = [row.a, row.b].map(|part| words::number(row.unit, part));
        Cell { of, text: format!("{a}, {b}: {} {}", words::ratio(row), words::interval(row)) }
    };
    Some(comparison.rows.iter().map(cell).collect())
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0_u32), |(sum, count), number| (sum + number, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Three digits that count.
fn short(number: f64) -> String {
    match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

fn greatest(point: &Point) -> impl Iterator<Item = &weir_trial::run::MrrResult> {
    point.results.iter().filter_map(|result| match result {
        PointResult::Mrr(mrr) => Some(mrr),
        _ => None,
    })
}

fn rate(point: &Point) -> Option<String> {
    let rates = || greatest(point).flat_map(|mrr| &mrr.rates).map(|rate| rate.0 / 1e6);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    Some(format!("{} ({} to {})", short(mean(rates())?), short(least), short(most)))
}

fn cycles(point: &Point) -> Option<String> {
    mean(greatest(point).filter_map(|mrr| mrr.cycles_per_packet)).map(short)
}

/// A device that polls and carried the load may have waited: a packet costs at most that.
fn cpu(run: &Run, point: &Point) -> Option<String> {
    let used = CpuUse::of(point, &run.environment)?;
    let most = if used.waits { "at most " } else { "" };
    let cycles = used.cycles.map_or_else(String::new, |cycles| format!(", {most}{:.0}", cycles.mean));
    Some(format!("{:.0} %{cycles}", used.cores.mean * 100.0))
}

/// What the device's ledger says, summed over the trials that count.
fn details(point: &Point) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for trial in point.trials.iter().filter(|trial| !trial.superseded) {
        for (name, count) in trial.result.dut.iter().flat_map(|dut| &dut.details) {
            *sums.entry(name.as_str()).or_default() += *count;
        }
    }
    sums
}

fn steps(point: &Point) -> Option<String> {
    let sums = details(point);
    let packets = sums.get("steps receive packets").copied().filter(|packets| *packets > 0)?;
    let mut each: Vec<(&str, f64)> = sums
        .iter()
        .filter_map(|(name, cycles)| {
            let step = name.strip_prefix("steps ")?.strip_suffix(" cycles")?;
            Some((step, *cycles as f64 / packets as f64))
        })
        .filter(|(_, cycles)| *cycles >= 0.5)
        .collect();
    each.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = each.iter().map(|(_, cycles)| cycles).sum();
    let said =
        each.iter().map(|(step, cycles)| format!("{step} {cycles:.0} ({:.0} %)", cycles / sum * 100.0));
    Some(format!("{} · sum {sum:.0}", said.collect::<Vec<_>>().join(" · ")))
}

/// Held at the end of the last trial that counts.
fn megaflows(point: &Point) -> Option<String> {
    let last = point.trials.iter().rfind(|trial| !trial.superseded)?;
    Some(last.result.dut.as_ref()?.details.get("megaflows")?.to_string())
}

fn delay(point: &Point) -> Option<String> {
    let of = |result: &PointResult| {
        let PointResult::Latency(latency) = result else { return None };
        let trial = point.trials.iter().find(|trial| trial.sequence == latency.trial)?;
        let spoilt = if trial.spoilt_by().is_some() { " (spoilt)" } else { "" };
        let median = trial
            .result
            .latency
            .as_ref()
            .map_or_else(|| "none came".to_owned(), |of| of.percentiles[0].to_string());
        Some(format!("{}: {median}{spoilt}", latency.label))
    };
    let all: Vec<String> = point.results.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(" · "))
}

/// The points that were not measured, and why: in a line those that are alike but for the frame.
fn lost(run: &Run) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
    for point in &run.points {
        let why = match &point.error {
            Some(error) => error.clone(),
            None if !point.finished => "not reached".to_owned(),
            None => continue,
        };
        let mut of = of(&point.key);
        let frame = std::mem::take(&mut of[FRAME]);
        let place = of[..FRAME].join(" · ");
        match lines.iter_mut().find(|line| line.0 == place && line.2 == why) {
            Some((_, frames, _)) => frames.push(frame),
            None => lines.push((place, vec![frame], why)),
        }
    }
    lines.iter().map(|(place, frames, why)| format!("{place} · {}: {why}", frames.join(", "))).collect()
}

/// In Markdown: rows by what differs, in the points' order.
fn drawn(cells: &[Cell], across: Across, what: What) -> String {
    if cells.is_empty() {
        return format!("No point has a number: {}.\n", what.words());
    }
    let place = across.place();
    let differs = |column: &usize| cells.iter().any(|cell| cell.of[*column] != cells[0].of[*column]);
    let down: Vec<usize> = (0..HEADS.len()).filter(|column| *column != place).filter(differs).collect();
    let key = |cell: &Cell| down.iter().map(|column| cell.of[*column].clone()).collect::<Vec<_>>();
    let (mut columns, mut rows): (Vec<&str>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    for cell in cells {
        if !columns.contains(&cell.of[place].as_str()) {
            columns.push(&cell.of[place]);
        }
        if !rows.contains(&key(cell)) {
            rows.push(key(cell));
        }
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = down.iter().map(|column| HEADS[*column].to_owned());
    let mut text = line(heads.chain(columns.iter().map(|column| (*column).to_owned())).collect());
    text.push_str(&line(vec!["---".to_owned(); down.len() + columns.len()]));
    for row in rows {
        let at = |column: &&str| {
            let found = cells.iter().find(|cell| key(cell) == row && cell.of[place] == *column);
            found.map_or_else(|| "–".to_owned(), |cell| cell.text.clone())
        };
        let numbers: Vec<String> = columns.iter().map(at).collect();
        text.push_str(&line(row.into_iter().chain(numbers).collect()));
    }
    text.replace('`', "")
}
