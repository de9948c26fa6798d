//! `weir switch stats`: the ledger.

use super::{Socket, client_error, view, watch};
use crate::cmd::print;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use weir_switch::{Request, Stats};

const LONG_ABOUT: &str = "\
Show what a running switch does: its ports, and for each worker what it received and what became of \
it, with the sum checked; why packets were dropped; where lookups were answered; what each step of a \
packet's life costs; services and tables.

Cycles are ticks of the time stamp counter. Steps are timed on a sample of the bursts.";

/// Show what a running switch does
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT)]
pub(super) struct Args {
    #[command(flatten)]
    socket: Socket,
    /// Print JSON; `weir schema switch-stats` describes it
    #[arg(long)]
    json: bool,
    /// Show again every second, as rates; on a terminal with rates over time, until q or Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Seconds between two readings with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, requires = "watch")]
    every: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut client = args.socket.connect()?;
    let mut read =
        || client.ask_for::<Stats>(&Request::Stats { without_tables: false }).map_err(client_error);
    let every = Duration::from_secs_f64(args.every.clamp(0.1, 3600.0));
    if args.watch && !args.json && std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return watch::run(read, every).map(|()| ExitCode::SUCCESS);
    }
    let mut before: Option<Stats> = None;
    loop {
        let now = read()?;
        let text = match (args.json, args.watch) {
            (true, true) => format!("{}\n", serde_json::to_string(&now)?),
            (true, false) => format!("{}\n", serde_json::to_string_pretty(&now)?),
            (false, _) => view::render(&now, before.as_ref()),
        };
        print(&text)?;
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(now);
        std::thread::sleep(every);
    }
}
