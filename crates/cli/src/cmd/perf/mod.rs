//! `weir perf`: the table of speed, Weir beside its peers.

mod aa;
mod kept;
mod runs;
mod text;

use super::BadUse;
use runs::Runs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_campaign::now_ms;
use weir_campaign::perf::{Effort, Measured, Perf, ROWS, Row, SCHEMA_VERSION, find, regressions};
use weir_campaign::plan::HugePages;
use weir_store::Store;
use weir_units::Nanos;

const LONG_ABOUT: &str = "\
Measure the table of docs/performance.md: each row a work, Weir's switch beside a peer on it, what is \
to be reached, and whether it is.

Both sides of a row get the same packets in the same way (`fed`: each device's own source replays the \
trace from memory, its sink discards), huge pages and one forwarding core; all packets of each are \
compared with what they must be first; then trials are taken in turns, and both are started anew \
several times. The ratio has a 95 % interval from the pairs. What cannot be measured on this machine \
says why. Figures that are quoted, not measured, say so.

Every row is one or more runs of `weir bench`, stored like all others: `weir show`, `compare` and \
`report` read them. The table itself is kept as NAME.perf.json beside the database; --stored prints \
it again.

Both sides are started anew until a difference of 5 % would be seen in four of five cases, at least five \
times and for three minutes a pair of devices; --repeats asks for a fixed number instead.

With --aa N, devices are compared with themselves, N comparisons in all shared among nf, weir and ovs-dpdk, \
fed and vhost: every winner is a false one.

With --quick, a subset in shorter trials. With --against, that subset compares this program's switch \
with another build's instead of peers, for half an hour at most: exit code 1 when it is slower beyond chance in any \
row. Beside each row stands the smallest effect that it could see.";

const EXAMPLES: &str = "\
Examples:
  The whole table, two to three hours; with --repeats 3 --duration 300ms about an hour and a half:
    weir perf
  Two rows:
    weir perf --only port,a-1000
  Is this build slower than that one?
    weir perf --quick --against ../base/target/release/weir
  How often are devices told apart from themselves?
    weir perf --aa 100
  The last table again, for a page:
    weir perf --stored perf-2026-11-21-140512 --markdown
  The table measured in pieces, then printed as one:
    weir perf --name monday --only port,mac
    weir perf --name tuesday --only a-1000
    weir perf --stored monday,tuesday

Exit codes: 0 measured, and nothing slower than the base; 1 slower than the base beyond chance, no row could \
be measured, or interrupted; 2 bad use.";

/// Measure the table of speed: Weir's switch beside its peers
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rows, by name (see --list)
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// A subset in shorter trials
    #[arg(long)]
    quick: bool,
    /// Of the peers of a row only these, as its table names them; a target beside others is not judged then
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', conflicts_with_all = ["against", "stored", "list"])]
    peers: Vec<String>,
    /// Another build of weir: compare the switch with it instead of with peers
    #[arg(long, value_name = "PROGRAM", conflicts_with = "stored")]
    against: Option<PathBuf>,
    /// Compare devices with themselves, so many comparisons in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000),
          conflicts_with_all = ["only", "peers", "quick", "against", "stored", "list", "markdown"])]
    aa: Option<u32>,
    /// How often both sides are started anew, exactly [default: until a difference of 5 % would be seen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,
    /// Length of each trial [default: 1s, with --quick 250ms]
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,
    /// Huge pages: true, auto, or false, whose figures are others
    #[arg(long, value_name = "WHETHER", default_value = "true")]
    huge_pages: HugePagesWord,
    /// Name of the table [default: perf, date and time]
    #[arg(long, value_name = "NAME", conflicts_with = "stored")]
    name: Option<String>,
    /// The database: a file, or postgres://USER@HOST/NAME [default: in the per-user data folder]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
    /// Print tables measured before, by their names or files: of a row in several, the newest
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    stored: Vec<PathBuf>,
    /// Print the rows' names, works and targets, and measure nothing
    #[arg(long, conflicts_with_all = ["stored", "against"])]
    list: bool,
    /// Print GitHub's Markdown
    #[arg(long)]
    markdown: bool,
    /// Print JSON; `weir schema perf` describes it
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HugePagesWord {
    True,
    Auto,
    False,
}

impl From<HugePagesWord> for HugePages {
    fn from(word: HugePagesWord) -> Self {
        match word {
            HugePagesWord::True => Self::On,
            HugePagesWord::Auto => Self::Auto,
            HugePagesWord::False => Self::Off,
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        super::print(&text::list(&ROWS))?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    if let Some(comparisons) = args.aa {
        return aa::run(&args, comparisons, &interrupted);
    }
    if let [stored] = args.stored.as_slice()
        && let Some(aa) = aa::stored(&args, stored)?
    {
        super::print(&aa)?;
        return Ok(ExitCode::SUCCESS);
    }
    let tables =
        if args.stored.is_empty() { vec![measure(&args, &interrupted)?] } else { kept::read(&args)? };
    super::print(&match (tables.as_slice(), args.markdown) {
        ([table], _) if args.json => format!("{}\n", serde_json::to_string_pretty(table)?),
        (tables, true) => text::markdown(tables),
        (tables, false) => text::terminal(tables),
    })?;
    let measured = tables.iter().flat_map(|table| &table.rows).any(|row| !row.pairs.is_empty());
    let slower = tables.iter().any(|table| table.base.is_some() && !regressions(&table.rows).is_empty());
    let fine = measured && !slower && !interrupted.load(Ordering::Relaxed);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rows that are asked for.
fn rows(args: &Args) -> Result<Vec<&'static Row>, BadUse> {
    if args.only.is_empty() {
        let subset = args.quick || args.against.is_some();
        return Ok(ROWS.iter().filter(|row| row.quick || !subset).collect());
    }
    let names = || ROWS.iter().map(|row| row.id).collect::<Vec<_>>().join(", ");
    let row = |name: &String| {
        find(name)
            .ok_or_else(|| BadUse::new(format!("--only: there is no row `{name}`; the rows are {}", names())))
    };
    args.only.iter().map(row).collect()
}

/// Refuses a peer that none of the rows has.
fn check_peers(peers: &[String], rows: &[&Row]) -> Result<(), BadUse> {
    let known: BTreeSet<&str> = rows.iter().flat_map(|row| row.peers()).collect();
    match peers.iter().find(|peer| !known.contains(peer.as_str())) {
        None => Ok(()),
        Some(peer) => {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(BadUse::new(format!(
                "--peers: no row that is asked for has a peer `{peer}`; they have {known}"
            )))
        }
    }
}

fn measure(args: &Args, interrupted: &Arc<AtomicBool>) -> anyhow::Result<Perf> {
    let rows = rows(args)?;
    check_peers(&args.peers, &rows)?;
    let usual = if args.quick || args.against.is_some() { Effort::QUICK } else { Effort::WHOLE };
    let effort = effort(args, usual);
    let base = args.against.as_deref().map(program).transpose()?;
    let store = Store::open(args.db.as_deref()).map_err(super::store_error)?;
    let started_ms = now_ms();
    let name = args.name.clone().unwrap_or_else(|| default_name(started_ms));
    let (db, kept) = (store.named().to_owned(), file(&store, &name));
    drop(store); // the rows' own processes write to it
    if kept.exists() {
        return Err(BadUse::new(format!(
            "{}: a table of that name is there; choose another --name",
            kept.display()
        ))
        .into());
    }
    let flag = Arc::clone(interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))?;
    let folder = kept.parent().unwrap_or(Path::new(""));
    let (huge_pages, base_path) = (args.huge_pages.into(), base.as_deref());
    let runs = Runs { db: &db, folder, name: &name, effort, huge_pages, base: base_path, peers: &args.peers };
    let mut perf = Perf {
        schema: SCHEMA_VERSION,
        name: name.clone(),
        started_ms,
        weir: super::WEIR.to_owned(),
        base: base.clone(),
        effort,
        environment: super::environment(),
        rows: Vec::new(),
    };
    for (number, row) in (1..).zip(&rows) {
        eprintln!("[{number}/{}] {}: {}", rows.len(), row.id, row.work);
        let measured = if interrupted.load(Ordering::Relaxed) {
            Measured::unavailable(row, "interrupted")
        } else {
            runs.measure(row)?
        };
        let measured = if base.is_some() { measured.without_target() } else { measured };
        eprintln!("{}", text::progress(&measured));
        perf.rows.push(measured);
        // Kept after every row: what was measured outlives whatever comes.
        let document = serde_json::to_string_pretty(&perf)?;
        std::fs::write(&kept, document)
            .map_err(|error| BadUse::new(format!("{}: {error}; name another --db", kept.display())))?;
    }
    eprintln!("kept as {name}; print it again with: weir perf --stored {}", kept.display());
    Ok(perf)
}

/// How much is measured: a stated number of starts is kept to.
fn effort(args: &Args, usual: Effort) -> Effort {
    Effort {
        repeats: args.repeats.unwrap_or(usual.repeats),
        until: usual.until.filter(|_| args.repeats.is_none()),
        duration: args.duration.unwrap_or(usual.duration),
        ..usual
    }
}

/// Another build, by its full path: devices are started elsewhere.
fn program(path: &Path) -> Result<String, BadUse> {
    let wrong = |why: String| BadUse::new(format!("--against {}: {why}; name a built weir", path.display()));
    let full = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let text = full.to_str().filter(|text| full.is_file() && !text.contains(['"', '\\', '+']));
    text.map(str::to_owned).ok_or_else(|| wrong("it is no program whose path can stand in a plan".into()))
}

fn default_name(ms: i64) -> String {
    weir_units::utc(ms, "perf-%Y-%m-%d-%H%M%S")
}

/// Where a table is kept.
fn file(store: &Store, name: &str) -> PathBuf {
    store.beside(&format!("{name}.perf.json"))
}
