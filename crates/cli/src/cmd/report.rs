//! `weir report`: runs as one page that opens offline.

use super::BadUse;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_store::{Selector, Store};

const LONG_ABOUT: &str = "\
Write runs as one self-contained page: throughput against packet size under the theoretical line, \
latency percentiles and distributions, cycles per packet, where packets were lost, and the table \
behind each plot. The page asks nothing of any network and can be read without scripts.

Several runs are drawn into the same plots, to be compared.";

const EXAMPLES: &str = "\
Examples:
  The last run:
    weir report
  The last two runs side by side:
    weir report @last~1 @last -o comparison.html";

/// Write runs as one page that opens offline
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Runs: a name, the beginning of one, a number, @last, @last~1
    #[arg(value_name = "RUN", default_value = "@last")]
    runs: Vec<Selector>,
    /// Where to write the page [default: RUN.html in this folder, by the first run's name]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The database [default: in the per-user data folder]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(args.db.as_deref()).map_err(super::store_error)?;
    let mut runs = Vec::new();
    for selector in &args.runs {
        let run = store.find(selector).map_err(super::store_error)?;
        runs.push(store.load(run).map_err(super::store_error)?);
    }
    if let Some(twice) =
        runs.iter().enumerate().find(|(place, run)| runs[..*place].iter().any(|r| r.id == run.id))
    {
        return Err(BadUse::new(format!("run {} is named twice; name each run once", twice.1.name)).into());
    }
    let named = || PathBuf::from(format!("{}.html", runs[0].name));
    let output = args.output.unwrap_or_else(named);
    super::write_page(&runs, &output)?;
    super::print(&format!("page      {}\n", output.display()))?;
    Ok(ExitCode::SUCCESS)
}
