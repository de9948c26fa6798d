//! `weir export`: a run for other programs, as JSON or as a table of trials.

use super::BadUse;
use super::stored::Database;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_store::Selector;
use weir_trial::run::{Point, Run, StoredTrial};
use weir_units::{Nanos, PERCENTILES};

const LONG_ABOUT: &str = "\
Write a run for other programs.

--json is everything: plan, environment, points, results, every trial with its latency histogram \
(HdrHistogram V2, compressed, base64). `weir schema run` describes it.

--csv is one row a trial, in the order they were run, with units in the column names (RFC 4180, \
header first, UTF-8). Counts are totals over both directions; `lost` counts what the schedule \
called for and never came back. Trials with `superseded` true decided nothing. A point without \
trials has one row, with the trial's columns empty and the reason in `point_error`.";

const EXAMPLES: &str = "\
Examples:
  Every trial of the last run, in a spreadsheet:
    weir export --csv -o trials.csv
  The verdicts, one point a line:
    weir export --json | jq -c '.points[] | [.key.nf, .key.size, .results]'";

/// Write a run as JSON or CSV
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("format").required(true).args(["json", "csv"])))]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1
    #[arg(value_name = "RUN", default_value = "@last")]
    run: Selector,
    /// Everything, as JSON
    #[arg(long)]
    json: bool,
    /// One row a trial, as CSV
    #[arg(long)]
    csv: bool,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let run = args.database.load(&args.run)?;
    let text = if args.csv { csv(&run)? } else { format!("{}\n", serde_json::to_string_pretty(&run)?) };
    match &args.output {
        None => super::print(&text)?,
        Some(path) => {
            write(path, &text)?;
            let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
            let flag = args.database.flag();
            super::print(&format!(
                "wrote {trials} trials of {name} to {path}\n\nNext: weir report {name} -o {name}.html{flag}\n",
                name = run.name,
                path = path.display()
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).map_err(|error| {
        BadUse::new(format!("export to {}: {error}; name another file with -o", path.display())).into()
    })
}

const POINT_COLUMNS: [&str; 14] = [
    "run",
    "point",
    "point_finished",
    "point_error",
    "nf",
    "dut",
    "dut_version",
    "wiring",
    "trace",
    "size",
    "mean_frame_bytes",
    "directions",
    "huge_pages",
    "line_rate_bps",
];

const TRIAL_COLUMNS: [&str; 33] = [
    "trial",
    "purpose",
    "superseded",
    "valid",
    "findings",
    "started_unix_ms",
    "load_pps",
    "duration_ns",
    "elapsed_ns",
    "forwarded_pps",
    "loss_ratio",
    "intended",
    "sent",
    "refused",
    "unsent",
    "received",
    "lost",
    "duplicated",
    "reordered",
    "late",
    "foreign",
    "damaged",
    "stamped",
    "latency_count",
    "latency_min_ns",
    "latency_mean_ns",
    "latency_max_ns",
    "dut_received",
    "dut_sent",
    "dut_elapsed_ns",
    "dut_cpu_ns",
    "cycles_per_packet",
    "overhead_ns",
];

fn csv(run: &Run) -> anyhow::Result<String> {
    let mut lines = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let percentiles = PERCENTILES.iter().map(|percent| format!("latency_p{percent}_ns"));
    let headings = POINT_COLUMNS.iter().chain(&TRIAL_COLUMNS).map(|name| (*name).to_owned());
    lines.write_record(headings.chain(percentiles))?;
    for point in &run.points {
        let about = about(run, point);
        for trial in &point.trials {
            lines.write_record(about.iter().cloned().chain(cells(trial)))?;
        }
        if point.trials.is_empty() {
            let empty = vec![String::new(); TRIAL_COLUMNS.len() + PERCENTILES.len()];
            lines.write_record(about.into_iter().chain(empty))?;
        }
    }
    Ok(String::from_utf8(lines.into_inner()?)?)
}

fn about(run: &Run, point: &Point) -> Vec<String> {
    let key = &point.key;
    vec![
        run.name.clone(),
        point.index.to_string(),
        point.finished.to_string(),
        point.error.clone().unwrap_or_default(),
        key.nf.to_string(),
        key.dut.clone(),
        point.dut_version.clone().unwrap_or_default(),
        key.wiring.clone(),
        key.trace.clone(),
        key.size.clone(),
        key.mean_frame_bytes.to_string(),
        key.directions.to_string(),
        key.huge_pages.to_string(),
        key.line_rate.0.0.to_string(),
    ]
}

fn cells(trial: &StoredTrial) -> Vec<String> {
    let result = &trial.result;
    let total = result.total();
    // `fed` has no tester at the wire: no counts, which is not the same as counts of nothing.
    let at_wire = |number: String| if result.directions.is_empty() { String::new() } else { number };
    let latency = result.latency.as_ref();
    let nanos = |value: Option<Nanos>| value.map_or_else(String::new, |value| value.0.to_string());
    let dut = result.dut.as_ref();
    let dut_number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let float = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    let findings: Vec<&str> = trial.verdict.findings.iter().map(|finding| finding.code.name()).collect();
    let mut cells = vec![
        trial.sequence.to_string(),
        trial.purpose.name().to_owned(),
        trial.superseded.to_string(),
        trial.verdict.is_valid().to_string(),
        findings.join(" "),
        trial.started_ms.to_string(),
        result.spec.load.0.to_string(),
        result.spec.duration.0.to_string(),
        result.elapsed.0.to_string(),
        result.forwarded_rate().0.to_string(),
        at_wire(result.loss_ratio().0.to_string()),
    ];
    let counts = [
        total.intended,
        total.sent,
        total.refused,
        total.unsent,
        total.received,
        total.lost(),
        total.duplicated,
        total.reordered,
        total.late,
        total.foreign,
        total.damaged,
        total.stamped,
    ];
    cells.extend(counts.map(|count| at_wire(count.to_string())));
    cells.extend([
        dut_number(latency.map(|latency| latency.count)),
        nanos(latency.map(|latency| latency.min)),
        float(latency.map(|latency| latency.mean)),
        nanos(latency.map(|latency| latency.max)),
        dut_number(dut.map(|dut| dut.received)),
        dut_number(dut.map(|dut| dut.sent)),
        nanos(dut.map(|dut| dut.elapsed)),
        nanos(dut.map(|dut| dut.cpu)),
        float(dut.and_then(|dut| dut.cycles_per_packet)),
        result.overhead.0.to_string(),
    ]);
    cells
        .extend((0..PERCENTILES.len()).map(|place| nanos(latency.map(|latency| latency.percentiles[place]))));
    cells
}
