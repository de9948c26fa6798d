//! `weir report`: runs as one page that opens offline.

use super::stored::Database;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_store::Selector;

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
    /// Runs: a name, the beginning of one, a number, @last, @last~1, or a file that `weir export --json` wrote
    #[arg(value_name = "RUN", default_value = "@last")]
    runs: Vec<Selector>,
    /// Where to write the page [default: RUN.html in this folder, by the first run's name]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runs = super::plot::loaded(&args.runs, &args.database)?;
    let named = || PathBuf::from(format!("{}.html", runs[0].name));
    let output = args.output.unwrap_or_else(named);
    super::write_page(&runs, &output)?;
    super::print(&format!("page      {}\n", output.display()))?;
    Ok(ExitCode::SUCCESS)
}
