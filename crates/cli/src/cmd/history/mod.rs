//! `weir history`: the same point over time, where it changed, and what changed then.

pub(super) mod plot;
mod text;

use super::stored::Database;
use super::{BadUse, store_error};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_methods::history::{Document, History, KEY, RunNumbers};
use weir_store::Selector;
use weir_trial::run::PointKey;

const LONG_ABOUT: &str = "\
Show how a point changed over time: every run of the same network function, device and place where it runs, wiring, \
trace, size, directions, huge pages and line rate on the same machine, by its start, the version of Weir and the \
device's; one number a run, the centre that `weir compare` would take.

Where the numbers jump from one level to another is found by the division of the runs into levels that takes the \
fewest bits to tell (the method of FD.io CSIT's jumpavg); nothing has to be set. Each change is marked with what differs between \
the last run before it and the first one after: kernel, CPU, DPDK, device, Weir, plan. docs/history.md says how \
often a change is seen where there is none, and how large one must be to be seen.

Several series are listed, one a line; --series N, or options that leave one, show its runs. Runs whose numbers may \
not be ranked are left out, and named.";

const EXAMPLES: &str = "\
Examples:
  What changed, of everything in the store:
    weir history
  One point, run by run, and its plot:
    weir history --nf l2fwd --dut weir --size 64 --quantity 'forwarded rate' -o rate.svg
  Of runs that other machines sent, without a store:
    weir history january.weir february.weir march.weir";

/// Show a point over time: every run, where it changed, and what changed then
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs: names, numbers, bundles, files of `weir export --json` [default: all in the store]
    #[arg(value_name = "RUN")]
    runs: Vec<Selector>,
    /// Only this network function, as `weir show` prints it
    #[arg(long, value_name = "NF")]
    nf: Option<String>,
    /// Only this device; with where it runs (`nf in vhost on weir`) or without
    #[arg(long, value_name = "DUT")]
    dut: Option<String>,
    /// Only this wiring
    #[arg(long, value_name = "WIRING")]
    wiring: Option<String>,
    /// Only this trace
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Only this size: 64, imix
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Only this quantity: 'forwarded rate', 'throughput ndr'
    #[arg(long, value_name = "WHAT")]
    quantity: Option<String>,
    /// Only the series with this number in the list
    #[arg(long, value_name = "N")]
    series: Option<usize>,
    /// Draw the series into this file (SVG)
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Print everything as JSON; `weir schema history` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Args {
    fn wants(&self, key: &PointKey) -> bool {
        let is = |asked: &Option<String>, value: &str| asked.as_deref().is_none_or(|asked| asked == value);
        is(&self.nf, &key.nf.to_string())
            && (is(&self.dut, &key.dut) || is(&self.dut, &key.device()))
            && is(&self.wiring, &key.wiring)
            && is(&self.trace, &key.trace)
            && is(&self.size, &key.size)
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut document = collected(&args)?;
    if let Some(quantity) = &args.quantity {
        let there: Vec<String> = document.series.iter().map(|series| series.quantity.clone()).collect();
        document.series.retain(|series| series.quantity == *quantity);
        if document.series.is_empty() && !there.is_empty() {
            let mut there = there;
            there.sort();
            there.dedup();
            let why = format!("--quantity {quantity}: there is none such; there are {}", there.join(", "));
            return Err(BadUse::new(why).into());
        }
    }
    if let Some(number) = args.series {
        let count = document.series.len();
        let one = document.series.into_iter().nth(number).ok_or_else(|| {
            BadUse::new(format!(
                "--series {number}: there are {count}, numbered from 0; `weir history` lists them"
            ))
        })?;
        document.series = vec![one];
    }
    if args.json {
        super::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let flag = args.database.flag();
    match document.series.as_slice() {
        [] => super::print(&format!(
            "nothing was measured yet that is wanted; one series has the same {KEY}\n"
        ))?,
        [one] => {
            super::print(&text::series(one))?;
            if let Some(path) = &args.output {
                std::fs::write(path, plot::trend(one).svg()).map_err(|error| {
                    BadUse::new(format!("{}: {error}; name another file with -o", path.display()))
                })?;
                super::print(&format!("\nplot      {}\n", path.display()))?;
            }
        }
        _ if args.output.is_some() => {
            let why = format!(
                "-o draws one series, and {} are left; name one with --series N, or say more of it",
                document.series.len()
            );
            return Err(BadUse::new(why).into());
        }
        several => super::print(&text::list(several, &flag))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All runs that are meant, one in memory at a time; of those in the store, what counts here and no more.
fn collected(args: &Args) -> anyhow::Result<Document> {
    let mut history = History::default();
    let wanted = |key: &PointKey| args.wants(key);
    if args.runs.is_empty() {
        let store = args.database.open()?;
        for known in store.outline().map_err(store_error)? {
            let id = store.find(&Selector::Number(known.id)).map_err(store_error)?;
            if let Some(run) = store.load_points(id, &wanted).map_err(store_error)? {
                history.take(&RunNumbers::of(&run, &wanted));
            }
        }
        return Ok(history.document());
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    for selector in &args.runs {
        let run = args.database.load(selector)?;
        let identity = (run.uuid.clone(), run.name.clone());
        if seen.contains(&identity) {
            return Err(BadUse::new(format!("run {} is named twice; name each run once", run.name)).into());
        }
        seen.push(identity);
        history.take(&RunNumbers::of(&run, &wanted));
    }
    Ok(history.document())
}
