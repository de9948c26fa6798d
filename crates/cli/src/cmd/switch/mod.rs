//! `weir switch`: OpenFlow tables and stateful services over DPDK ports.

mod bench;
mod capture;
mod controllers;
mod ctl;
mod options;
mod run;
mod stats;
mod stdio;
mod trace;
mod view;
mod watch;

use super::BadUse;
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_switch::{Client, ClientError};

const LONG_ABOUT: &str = "\
Run Weir's switch: OpenFlow tables and stateful services over DPDK ports, on one core a worker.

Flows are written as ovs-ofctl writes them: a file of flows for Open vSwitch loads unchanged. What is \
not supported is refused by name and line. Ports are any of DPDK's, by EAL string or PCI address, \
captures that are replayed and written (trace:RX.pcap,tx=TX.pcap), or null. The switch runs until \
Ctrl-C, and then prints what it received, sent and dropped, with the reasons. SIGHUP makes it read its \
configuration again, without losing a packet.

While it runs, `weir switch stats`, `trace`, `capture` and `ctl` speak to it through its control \
socket, which only its owner may use.";

const EXAMPLES: &str = "\
Examples:
  Two vhost-user ports, what comes in by one leaves by the other:
    weir switch --port left=net_vhost0,iface=/tmp/a --port right=net_vhost1,iface=/tmp/b \\
      --flow in_port=left,actions=output:right --flow in_port=right,actions=output:left
  Flows of Open vSwitch over a capture, and what comes of it as another:
    weir switch --flows my.flows --port trace:in.pcap --port trace:,tx=out.pcap
  From a configuration (docs/switch.md), on two cores:
    weir switch --config switch.toml --core 2 --core 3
  Commanded by OpenFlow, from this machine alone:
    weir switch --listen punix:/tmp/of.sock --port left=net_vhost0,iface=/tmp/a
  What it does, second by second:
    weir switch stats --watch
  Why a packet goes where it goes:
    weir switch trace in_port=left,tcp,nw_dst=198.18.0.1,tcp_dst=80

With --control stdio every line on standard output is a JSON object: one when packets flow, one for
each line `stats` on standard input, and the last after `stop` or the end of the input.

Exit codes: 0 fine; 1 the switch failed, or packet buffers are missing at the end; 2 bad use.";

/// Run Weir's switch, or speak to one that runs
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: options::Options,
}

#[derive(Subcommand)]
enum Action {
    Stats(stats::Args),
    Trace(trace::Args),
    Capture(capture::Args),
    Ctl(ctl::Args),
    Bench(bench::Args),
}

/// Runs `weir switch`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        None => run::run(args.run),
        Some(Action::Stats(args)) => stats::run(&args),
        Some(Action::Trace(args)) => trace::run(args),
        Some(Action::Capture(args)) => capture::run(args),
        Some(Action::Ctl(args)) => ctl::run(args),
        Some(Action::Bench(args)) => bench::run(args),
    }
}

/// Which switch is spoken to.
#[derive(clap::Args)]
pub(super) struct Socket {
    /// Control socket of the switch [default: switch.sock in the user's runtime folder]
    #[arg(long = "control", value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

impl Socket {
    fn connect(&self) -> anyhow::Result<Client> {
        let path = self.control.clone().unwrap_or_else(weir_switch::default_path);
        Client::connect(&path).map_err(client_error)
    }
}

/// A client's error, with the exit code it deserves.
fn client_error(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Connect { .. } | ClientError::Refused(_) => BadUse::new(error).into(),
        ClientError::Broken(_) => error.into(),
    }
}
