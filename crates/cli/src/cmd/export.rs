//! `weir export`: a run for other programs, as JSON or as a table of trials.

use super::stored::{Database, bundle_file};
use super::thresholds::Thresholds;
use super::verify::unexplained;
use super::{BadUse, store_error};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_store::Selector;
use weir_store::bundle::{self, Seal, Signature, SigningKey, Written};
use weir_trial::run::{Point, Run, StoredTrial};
use weir_units::{Nanos, PERCENTILES};

const LONG_ABOUT: &str = "\
Write a run for other programs.

--json is everything: plan, environment, points, results, every trial with its latency histogram \
(HdrHistogram V2, compressed, base64). `weir schema run` describes it.

--csv is one row a trial, in the order they were run, with units in the column names (RFC 4180, \
header first, UTF-8). Counts are totals over both directions; `lost` counts what the schedule \
called for and never came back. Trials with `superseded` true decided nothing. A point without \
trials has one row, with the trial's columns empty and the reason in `point_error`.

--bundle is one file that travels: the same run gives the same bytes on every machine, and `weir import` \
takes it into another store after checking the hash of every part, and whether the results follow from the \
trials. docs/bundles.md has the format; `weir schema bundle` describes its documents. --sign takes a private \
key of `openssl genpkey -algorithm ed25519`.";

const EXAMPLES: &str = "\
Examples:
  Every trial of the last run, in a spreadsheet:
    weir export --csv -o trials.csv
  The verdicts, one point a line:
    weir export --json | jq -c '.points[] | [.key.nf, .key.size, .results]'
  For somebody else's machine, signed:
    weir export @last --bundle --sign lab.pem -o otter.weir";

/// Write a run as JSON, as CSV, or as a bundle for other machines
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("format").required(true).args(["json", "csv", "bundle"])))]
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
    /// One file with hashes, for `weir import` on another machine
    #[arg(long, requires = "output")]
    bundle: bool,
    /// Sign the bundle with this private key (PEM)
    #[arg(long, value_name = "KEY", requires = "bundle")]
    sign: Option<PathBuf>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = args.output.as_deref().filter(|_| args.bundle) {
        return bundled(&args, path);
    }
    let run = args.database.load(&args.run)?;
    let text = if args.csv { csv(&run)? } else { format!("{}\n", serde_json::to_string_pretty(&run)?) };
    match &args.output {
        None if args.csv => super::print_file(&text)?,
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

/// Writes a bundle, which appears whole or not at all.
fn bundled(args: &Args, path: &Path) -> anyhow::Result<ExitCode> {
    let key = args.sign.as_deref().map(SigningKey::read).transpose().map_err(BadUse::new)?;
    let (run, written) = sealed(&args.database, &args.run, key.as_ref())?;
    save(path, &written.bytes)?;
    super::print(&told(&run, &written, path)?)?;
    Ok(ExitCode::SUCCESS)
}

/// A run and its bundle: signed with the key, or else with the signature that it came with. A run that is being
/// measured has none.
pub(super) fn sealed(
    database: &Database,
    selector: &Selector,
    key: Option<&SigningKey>,
) -> anyhow::Result<(Run, Written)> {
    let mut run = database.load(selector)?;
    if database.is_live(&run, selector)? {
        return Err(
            BadUse::new(format!("run {} is being measured; export it when it has ended", run.name)).into()
        );
    }
    let kept = kept_signature(database, selector, &mut run)?;
    let seal = match (key, &kept) {
        (Some(key), _) => Seal::Sign(key),
        (None, Some(kept)) => Seal::Kept(kept),
        (None, None) => Seal::None,
    };
    let thresholds = serde_json::to_value(Thresholds::of(&run))?;
    let written = bundle::write(&run, &thresholds, seal)
        .map_err(|error| BadUse::new(format!("run {}: {error}", run.name)))?;
    Ok((run, written))
}

/// Gives a run that was imported the name it had where it was measured, and finds the signature it came with.
fn kept_signature(
    database: &Database,
    selector: &Selector,
    run: &mut Run,
) -> anyhow::Result<Option<Signature>> {
    if let Some(path) = bundle_file(selector) {
        return Ok(super::stored::open_bundle(path)?.signed.map(|(signature, _)| signature));
    }
    if run.id == 0 || matches!(selector, Selector::Name(name) if Path::new(name).is_file()) {
        return Ok(None);
    }
    let store = database.open()?;
    let id = store.find(selector).map_err(store_error)?;
    let Some(origin) = store.origin(id).map_err(store_error)? else { return Ok(None) };
    run.name = origin.name;
    Ok(origin.signature.and_then(|text| serde_json::from_str(&text).ok()))
}

fn told(run: &Run, written: &Written, path: &Path) -> anyhow::Result<String> {
    let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
    let signed = if written.signed { "signed" } else { "not signed" };
    let mut text = format!(
        "wrote {trials} trials of {} to {}, {} bytes, {signed}\n{}\n",
        run.name,
        path.display(),
        written.bytes.len(),
        written.address
    );
    let differences = unexplained(run)?;
    if !differences.is_empty() {
        text.push_str(&format!(
            "note: {} of its results do not follow from its trials, and `weir import` will refuse it; `weir verify \
             {}` lists them\n",
            differences.len(),
            path.display()
        ));
    }
    text.push_str(&format!("\nNext, on the other machine: weir import {}\n", path.display()));
    Ok(text)
}

/// Writes a file beside its place and moves it there.
fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let refused = |error: std::io::Error| {
        BadUse::new(format!("export to {}: {error}; name another file with -o", path.display()))
    };
    if path.exists() && !path.is_file() {
        // A pipe or a device.
        return std::fs::write(path, bytes).map_err(|error| refused(error).into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".weir-bundle-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(refused)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(refused)?;
    file.persist(path).map_err(|error| refused(error.error))?;
    Ok(())
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
