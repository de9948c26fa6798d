//! `weir export`: a run for other programs, as JSON or as a table of trials.

use super::stored::{Database, bundle_file};
use super::thresholds::Thresholds;
use super::verify::unexplained;
use super::{BadUse, store_error};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_columns::Table;
use weir_store::Selector;
use weir_store::bundle::{self, Seal, Signature, SigningKey, Written};
use weir_trial::run::Run;

const LONG_ABOUT: &str = "\
Write a run for other programs.

--json is everything: plan, environment, points, results, every trial with its latency histogram \
(HdrHistogram V2, compressed, base64). `weir schema run` describes it.

--csv is one row a trial, in the order they were run, with units in the column names (RFC 4180, \
header first, UTF-8). Counts are totals over both directions; `lost` counts what the schedule \
called for and never came back. Trials with `superseded` true decided nothing. A point without \
trials has one row, with the trial's columns empty and the reason in `point_error`.

--csv=FOLDER and --parquet=FOLDER write tables for notebooks instead, of any number of runs: runs, points, \
environment (a row a fact) and trials, which refer to each other by run_uuid and point. Types are the same in \
both; Parquet keeps them. A `weir` without the feature `parquet` says how to build one that has it. python/trials.py reads either in pandas.

--bundle is one file that travels: the same run gives the same bytes on every machine, and `weir import` \
takes it into another store after checking the hash of every part, and whether the results follow from the \
trials. docs/bundles.md has the format; `weir schema bundle` describes its documents. --sign takes a private \
key of `openssl genpkey -algorithm ed25519`.";

const EXAMPLES: &str = "\
Examples:
  Every trial of the last run, in a spreadsheet:
    weir export --csv -o trials.csv
  Tables of two runs, for a notebook:
    weir export @last~1 @last --csv=tables
  The verdicts, one point a line:
    weir export --json | jq -c '.points[] | [.key.nf, .key.size, .results]'
  For somebody else's machine, signed:
    weir export @last --bundle --sign lab.pem -o otter.weir";

/// Write a run as JSON, as CSV, or as a bundle for other machines
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("format").required(true).args(["json", "csv", "parquet", "bundle"])))]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1; tables take several
    #[arg(value_name = "RUN", default_value = "@last")]
    runs: Vec<Selector>,
    /// Everything, as JSON
    #[arg(long)]
    json: bool,
    /// One row a trial, as CSV; with a folder, tables of runs, points, environments and trials
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    csv: Option<Option<PathBuf>>,
    /// The same tables as Parquet files in this folder
    #[arg(long, value_name = "FOLDER", require_equals = true, conflicts_with = "output")]
    parquet: Option<PathBuf>,
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
    if let Some(Some(folder)) = &args.csv {
        return tables(&args, folder, "csv", &|table, _| Ok(table.csv()));
    }
    if let Some(folder) = &args.parquet {
        return tables(&args, folder, "parquet", &parquet);
    }
    let [selector] = args.runs.as_slice() else {
        return Err(BadUse::new("one run at a time; --csv=FOLDER and --parquet=FOLDER take several").into());
    };
    if let Some(path) = args.output.as_deref().filter(|_| args.bundle) {
        return bundled(&args, selector, path);
    }
    let run = args.database.load(selector)?;
    let text = match &args.csv {
        Some(_) => csv(&run)?,
        None => format!("{}\n", run.to_json()?),
    };
    match &args.output {
        None if args.csv.is_some() => super::print_file(&text)?,
        None => super::print(&text)?,
        Some(path) => {
            write(path, text.as_bytes())?;
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

/// How a table becomes a file; the text names its runs.
type Encode<'a> = &'a dyn Fn(&Table, &str) -> anyhow::Result<Vec<u8>>;

/// Writes the tables of runs into a folder, which is made where it is not there.
fn tables(args: &Args, folder: &Path, ending: &str, encode: Encode<'_>) -> anyhow::Result<ExitCode> {
    if args.output.is_some() {
        return Err(BadUse::new("the folder says where tables go; leave out -o").into());
    }
    let runs = super::plot::loaded(&args.runs, &args.database)?;
    let names: Vec<String> = runs.iter().map(|run| format!("{} ({})", run.name, run.uuid)).collect();
    let names = names.join(", ");
    let refused = |error: std::io::Error| {
        BadUse::new(format!("folder {}: {error}; name another one", folder.display()))
    };
    let tables = weir_columns::tables(&runs);
    // What may be refused comes before anything is written.
    let files = tables.iter().map(|table| encode(table, &names)).collect::<anyhow::Result<Vec<_>>>()?;
    std::fs::create_dir_all(folder).map_err(refused)?;
    let mut text = String::new();
    for (table, bytes) in tables.iter().zip(&files) {
        let path = folder.join(format!("{}.{ending}", table.name));
        write(&path, bytes)?;
        text.push_str(&format!("wrote {} rows to {}\n", table.rows.len(), path.display()));
    }
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "parquet")]
fn parquet(table: &Table, runs: &str) -> anyhow::Result<Vec<u8>> {
    Ok(weir_parquet::parquet(table, runs)?)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_table: &Table, _runs: &str) -> anyhow::Result<Vec<u8>> {
    Err(BadUse::new(
        "this weir was built without Parquet; build one with `cargo build --release --locked --bin weir --features parquet`, \
         or take --csv=FOLDER, which has the same tables",
    )
    .into())
}

/// Writes a bundle, which appears whole or not at all.
fn bundled(args: &Args, selector: &Selector, path: &Path) -> anyhow::Result<ExitCode> {
    let key = args.sign.as_deref().map(SigningKey::read).transpose().map_err(BadUse::new)?;
    let (run, written) = sealed(&args.database, selector, key.as_ref())?;
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

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).map_err(|error| {
        BadUse::new(format!("export to {}: {error}; name another file with -o", path.display())).into()
    })
}

/// One row a trial, as `--csv` writes it.
pub(super) fn csv(run: &Run) -> anyhow::Result<String> {
    Ok(String::from_utf8(weir_columns::trials_alone(run).csv())?)
}
