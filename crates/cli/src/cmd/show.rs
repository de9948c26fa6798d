//! `weir show`: a run on the terminal, with what to beware of.

mod bundles;
mod counts;
mod cpu;
mod own_time;
mod stages;
mod trust;

use super::cells::{self, cell, count, size};
use super::layout::table;
use super::stored::{Database, when};
use std::fmt::Write as _;
use std::process::ExitCode;
use weir_store::Selector;
use weir_trial::run::{Point, PointResult, Purpose, Run, RunState, StoredTrial, ThroughputResult};
use weir_units::Nanos;

/// RFC 2544, section 24: a trial lasts at least 60 seconds.
const RFC_TRIAL: Nanos = Nanos(60 * Nanos::PER_SECOND);

/// Points listed by their place before the rest is counted.
const POINTS_NAMED: usize = 5;

const LONG_ABOUT: &str = "\
Show a run: a row a point with the verdicts of the methods, then what to beware of.

Throughput is the rate forwarded at the lower bound, then [lower bound, upper bound]: the greatest \
load that met the goal and the least that did not. Rates are totals over all directions; the share \
is of what the line rate carries at that size, preamble and gap included. Percentiles of latency \
are one-way delays. The line `tester` says how long after its time a packet was sent, how long a receive \
ring was not polled, and what of the trials was left out. The line `packets` says what the untimed pass before the trials came to: its \
packets, compared with what the network function must make of them.

Each point says who limits its results, as far as the self-check of its wiring tells: the device, the \
tester, or the line. Results whose trials the machine or the tester spoilt are marked INVALID. Curves, frame \
loss, bursts and soaks are listed load by load under the table. Chains beside one another (`bundles`) have a table with the rate of each, \
their sum and Jain's index of fairness. A table of CPU time says how many cores each device had in \
use at its greatest load, and the cycles that a packet took; of the kernel it counts soft and hard interrupts.";

const EXAMPLES: &str = "\
Examples:
  The last run, and the machine it was measured on:
    weir show --environment
  Run again what was measured then:
    weir show 2026-11-21-otter --plan > again.toml && weir bench again.toml
  How many megaflows the switches of the last run held:
    weir show --counts=megaflows";

/// Show a run on the terminal
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1, or a file of `weir export --json`
    #[arg(value_name = "RUN", default_value = "@last")]
    run: Selector,
    /// Show the machine as it was captured, too
    #[arg(long)]
    environment: bool,
    /// Print the run's plan, as TOML, and nothing else
    #[arg(long, conflicts_with_all = ["json", "environment"])]
    plan: bool,
    /// Print everything as JSON; `weir schema run` describes it
    #[arg(long, conflicts_with = "environment")]
    json: bool,
    /// Print what else the devices counted and held, in the last trial of each point and by packet, and nothing else; of names with TEXT in them where it is given
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with_all = ["json", "plan", "environment"])]
    counts: Option<String>,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let run = args.database.load(&args.run)?;
    if args.plan {
        super::print_file(&run.plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = if args.json {
        format!("{}\n", run.to_json()?)
    } else if let Some(named) = &args.counts {
        counts::text(&run, named)
    } else {
        let live = args.database.is_live(&run, &args.run)?;
        let mut text = heading(&run, live);
        if args.environment {
            text.push_str(&environment(&run));
        }
        text.push_str(&trust::self_checks(&run.self_checks));
        text.push_str(&points(&run));
        text.push_str(&cpu::text(&run));
        run.points.iter().for_each(|point| text.push_str(&details(point)));
        text.push_str(&super::advise::of_run(&run));
        for warning in warnings(&run) {
            let _ = writeln!(text, "note: {warning}");
        }
        text.push_str(&next(&run, live, &args.database.flag()));
        text
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn heading(run: &Run, live: bool) -> String {
    let took = run.ended_ms.map_or_else(String::new, |ended| {
        let ms = u64::try_from(ended.saturating_sub(run.started_ms)).unwrap_or(0);
        format!(" in {}", Nanos(ms.saturating_mul(1_000_000)))
    });
    let state = super::runs::state(run.state, live);
    let started = when(run.started_ms);
    let machine = run.environment.get("machine.id").map_or_else(String::new, |id| format!(" · machine {id}"));
    // A run in a file has no number.
    let number = if run.id == 0 { String::new() } else { format!(" (#{})", run.id) };
    format!("run {}{number} · {started} · {state}{took} · {}\n{}{machine}\n\n", run.name, run.weir, run.uuid)
}

fn environment(run: &Run) -> String {
    let rows: Vec<_> =
        run.environment.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    format!("{}\n", table(&["environment", ""], &[], &rows))
}

fn points(run: &Run) -> String {
    let mut rows = Vec::new();
    for point in &run.points {
        let key = &point.key;
        let about = [
            point.index.to_string(),
            key.nf.to_string(),
            key.device(),
            key.wiring.clone(),
            key.trace.clone(),
            size(key),
        ];
        for (place, result) in results(point).into_iter().enumerate() {
            // A point's further results stand under its first, without its name again.
            let about = about.iter().map(|cell| if place == 0 { cell.clone() } else { String::new() });
            rows.push(about.chain([result]).collect());
        }
    }
    if rows.is_empty() {
        return "no point was begun\n\n".to_owned();
    }
    format!("{}\n", table(&["#", "NF", "DUT", "wiring", "trace", "size", "results"], &[0, 5], &rows))
}

fn results(point: &Point) -> Vec<String> {
    if let Some(error) = &point.error {
        return vec![format!("not measured: {error}")];
    }
    if !point.finished {
        return vec![format!("not finished: {} kept", count(point.trials.len()))];
    }
    if point.results.is_empty() {
        return vec!["no results".to_owned()];
    }
    let latency = |trial: u32| point.trial(trial)?.result.latency.as_ref();
    let mut lines = Vec::new();
    for result in &point.results {
        lines.push(cell(&point.key, result, &latency));
        // One that says by itself why it is not valid has said so.
        let says_so = result.of_method().says_invalid().is_some();
        if let Some(doubt) = point.doubt(result).filter(|doubt| doubt.invalid && !says_so) {
            lines.push(format!("         INVALID, not to be ranked: {}", doubt.why));
        }
    }
    lines.extend(super::repeats::lines(&point.results));
    lines.extend(trust::limits(&point.results));
    lines.extend(point.packets.iter().map(|check| format!("packets  {check}")));
    lines.extend(own_time::lines(point));
    lines
}

/// The results that have many loads, as tables of their own under the points; empty where there are none.
fn details(point: &Point) -> String {
    let key = &point.key;
    let told = |(what, text)| {
        format!("point {} · {} · {} · {} · {what}\n{text}\n", point.index, key.nf, key.device(), size(key))
    };
    let heading = format!("point {} · {} · {} · {}", point.index, key.nf, key.device(), size(key));
    let of_results = point.results.iter().filter_map(|result| cells::of(result).details(point)).map(told);
    of_results.chain([bundles::text(point, &heading), stages::text(point, &heading)]).collect()
}

/// What a reader must know before believing a number.
fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut note = |points: Vec<u32>, what: &str| {
        if !points.is_empty() {
            warnings.push(format!("{what} ({})", named(&points)));
        }
    };
    let those = |test: &dyn Fn(&Point) -> bool| {
        run.points.iter().filter(|point| test(point)).map(|point| point.index).collect::<Vec<_>>()
    };
    note(those(&|point| point.error.is_some()), "not measured");
    note(those(&|point| !point.finished), "not finished, so without verdicts");
    note(those(&is_irregular), "irregular: a bound is missing, so the number is no throughput");
    let short = those(&|point| shortest(point).is_some_and(|duration| duration < RFC_TRIAL));
    if let Some(duration) = run.points.iter().filter_map(shortest).min()
        && !short.is_empty()
    {
        let what =
            format!("final trials of {duration}, shorter than the {RFC_TRIAL} of RFC 2544, section 24");
        note(short, &what);
    }
    note(
        those(&|point| deciding(point).any(|trial| trial.result.counted().unsent > 0)),
        "the tester itself was late to offer packets; they count as lost",
    );
    note(
        those(&|point| deciding(point).any(|trial| trial.result.total().foreign > 0)),
        "packets came that the tester never sent",
    );
    let mix = run.mix();
    if !mix.is_empty() {
        let what = super::stored::mixed(&mix);
        warnings.push(format!("a mix: taken up again under other conditions: {what}"));
    }
    warnings.extend(trust::findings(run));
    let aside = run.points.iter().flat_map(|point| &point.trials).filter(|trial| trial.superseded).count();
    if aside > 0 {
        warnings
            .push(format!("{} kept that decided nothing, as the measurement was run again", count(aside)));
    }
    warnings
}

fn deciding(point: &Point) -> impl Iterator<Item = &StoredTrial> {
    point.trials.iter().filter(|trial| !trial.superseded && trial.purpose != Purpose::WarmUp)
}

fn is_irregular(point: &Point) -> bool {
    point
        .results
        .iter()
        .any(|result| matches!(result, PointResult::Throughput(ThroughputResult { irregular: Some(_), .. })))
}

/// The shortest final trials among the goals of a point.
fn shortest(point: &Point) -> Option<Nanos> {
    let durations = point.results.iter().filter_map(|result| match result {
        PointResult::Throughput(ThroughputResult { trial_duration, .. }) => Some(*trial_duration),
        _ => None,
    });
    durations.min()
}

/// `points 0, 3 and 7`, counted when there are many.
fn named(points: &[u32]) -> String {
    let first: Vec<_> = points.iter().take(POINTS_NAMED).map(u32::to_string).collect();
    match (points.len(), first.as_slice()) {
        (1, [only]) => format!("point {only}"),
        (n, first) if n > POINTS_NAMED => {
            format!("points {} and {} more", first.join(", "), n - POINTS_NAMED)
        }
        (_, [most @ .., last]) => format!("points {} and {last}", most.join(", ")),
        _ => String::new(),
    }
}

fn next(run: &Run, live: bool, flag: &str) -> String {
    let name = &run.name;
    match (run.state, live) {
        (RunState::Finished, _) | (RunState::Running, true) => {
            format!("\nNext: weir report {name} -o {name}.html{flag}\n")
        }
        (RunState::Interrupted | RunState::Running, _) => {
            format!("\nNext: weir bench --resume {name}{flag}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::{BackToBackResult, PointKey};
    use weir_trial::verdict::{Code, Finding, Weight};
    use weir_trial::{Nf, TrialResult, TrialSpec, Verdict};
    use weir_units::{Bps, LineRate, Pps};

    #[test]
    fn points_are_named_until_there_are_many() {
        assert_eq!(named(&[3]), "point 3");
        assert_eq!(named(&[0, 3, 7]), "points 0, 3 and 7");
        assert_eq!(named(&[0, 1, 2, 3, 4, 5, 6]), "points 0, 1, 2, 3, 4 and 2 more");
    }

    /// A point whose only result is of bursts, that rest on one trial spoilt by the machine.
    fn of_bursts(invalid: Option<&str>) -> Point {
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(Nanos::PER_SECOND) };
        let finding =
            Finding { code: Code::TesterPreempted, weight: Weight::Invalid, says: "no core".to_owned() };
        let trial = StoredTrial {
            verdict: Verdict { findings: vec![finding] },
            ..StoredTrial::new(0, Purpose::BackToBack, 0, TrialResult::new(spec))
        };
        let result = BackToBackResult {
            line: Pps(1e6),
            throughput: Some(Pps(5e5)),
            goal: "ndr".to_owned(),
            bursts: None,
            implied: None,
            corrected: None,
            step: 10,
            ceiling: 1000,
            invalid: invalid.map(str::to_owned),
            trials: vec![0],
            limit: None,
            sending: None,
        };
        let key = PointKey {
            nf: Nf::L2Fwd,
            dut: "nf".to_owned(),
            wiring: "vhost".to_owned(),
            trace: "tr3i".to_owned(),
            size: "64".to_owned(),
            mean_frame_bytes: 64.0,
            directions: 1,
            placement: weir_trial::Placement::default(),
            huge_pages: false,
            line_rate: LineRate(Bps(1e10)),
        };
        Point {
            index: 0,
            key,
            dut_version: None,
            configuration: Default::default(),
            trace_hashes: Vec::new(),
            seed: 1,
            packets: None,
            error: None,
            finished: true,
            results: vec![PointResult::BackToBack(result)],
            trials: vec![trial],
        }
    }

    #[test]
    fn bursts_on_spoilt_trials_are_called_invalid_unless_they_say_so_themselves() {
        let says_invalid = |invalid| results(&of_bursts(invalid)).iter().any(|line| line.contains("INVALID"));
        assert!(says_invalid(None), "{:?}", results(&of_bursts(None)));
        assert!(!says_invalid(Some("skipped")), "{:?}", results(&of_bursts(Some("skipped"))));
    }
}
