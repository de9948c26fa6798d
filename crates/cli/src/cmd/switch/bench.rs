//! `weir switch bench`: a service by itself.

use crate::cmd::{BadUse, print};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;
use weir_switch::bench::{BURST, Bench, Benched, Work};
use weir_units::Spread;

const LONG_ABOUT: &str = "\
Measure what a packet costs in a service by itself, on one core, without ports, tables and caches \
around it: bursts of TCP packets of many connections, the same in every round, or with --new each \
the first of its connection.

Cycles are ticks of the time stamp counter, of the service's call alone. Pin it to a core that does \
nothing else, as `taskset -c 1` does.";

const EXAMPLES: &str = "\
Examples:
  weir switch bench transcoder --payload 928
  weir switch bench conntrack --settings '{\"connections\": 4000000}' --argument 1 --new --connections 4000000";

/// Measure a service by itself
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// Kind of service
    #[arg(value_name = "KIND")]
    kind: String,
    /// Its settings, in JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    settings: String,
    /// What flows tell it: the number behind softflow:NAME:
    #[arg(long, value_name = "N", default_value_t = 0)]
    argument: u32,
    /// Bytes of TCP payload in each packet
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    payload: u16,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: u32,
    /// Let each packet open a connection
    #[arg(long)]
    new: bool,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: u32,
    /// Print JSON; `weir schema switch-bench` describes it
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings: Value = serde_json::from_str(&args.settings)
        .map_err(|error| BadUse::new(format!("--settings: {error}; give a JSON object")))?;
    let work = if args.new { Work::New } else { Work::Again };
    let Args { kind, argument, payload, connections, rounds, .. } = args;
    let bench = Bench { kind, settings, argument, payload, connections, work, rounds };
    let benched = bench.run().map_err(BadUse::new)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&benched)?))?;
    } else {
        print(&text(&benched))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(benched: &Benched) -> String {
    let Benched { kind, payload, connections, cycles, tsc_hz, dropped, packets, .. } = benched;
    let mut text = format!("{kind}: {connections} connections, {payload} B of payload, bursts of {BURST}\n");
    if *dropped > 0 {
        let all = packets * cycles.len() as u64;
        let _ =
            writeln!(text, "{dropped} of {all} packets were dropped by it: their cost is in these figures");
    }
    if let Some(spread) = Spread::of(cycles) {
        let Spread { median, min, max, count, .. } = spread;
        let nanoseconds = median / tsc_hz * 1e9;
        let _ = writeln!(
            text,
            "{median:.1} cycles a packet ({min:.1} to {max:.1} in {count} rounds), {nanoseconds:.1} ns, {:.2} Mpps",
            tsc_hz / median / 1e6
        );
        if *payload > 0 {
            let rate = f64::from(*payload) * 8.0 * tsc_hz / median;
            let _ = writeln!(text, "{:.2} Gb/s of payload", rate / 1e9);
        }
    }
    text
}
