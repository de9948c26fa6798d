//! `weir port-helper`: the processes that `weir switch` starts for ports of untrusted peers. Nobody else does.

use super::BadUse;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use weir_switch::apart::{GiveUp, HelperConfig, confine_helper, confine_keeper, keep, serve};
use weir_units::FrameSize;

/// Serve one port of an untrusted peer, or start those that do (weir switch starts it)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start helpers, as the switch on standard input asks
    #[arg(long, conflicts_with = "port")]
    keep: bool,
    /// Become this user first
    #[arg(long, value_name = "NAME", requires = "keep")]
    user: Option<String>,
    /// Filter no system calls
    #[arg(long)]
    no_seccomp: bool,
    /// Cores of the switch's workers, to whom it gives way
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    workers: Vec<usize>,
    /// Queues of the port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    /// Descriptors of each queue
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(64..=32_768))]
    descriptors: u16,
    /// The largest frame, in bytes with FCS
    #[arg(long, value_name = "BYTES", default_value_t = 1522)]
    max_frame: u32,
    /// The core to run on [default: the first that it may use and no worker has]
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// The port, as DPDK writes it
    #[arg(required_unless_present = "keep")]
    port: Option<String>,
}

/// Runs `weir port-helper`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(port) = args.port else {
        confine_keeper(args.user.as_deref(), &args.workers).map_err(BadUse::new)?;
        let workers: Vec<String> = args.workers.iter().map(usize::to_string).collect();
        let helper = || {
            let mut command = Command::new("/proc/self/exe");
            command.arg0("weir").arg("port-helper").args(args.no_seccomp.then_some("--no-seccomp"));
            command.args(["--workers", &workers.join(",")]);
            command
        };
        keep(helper)?;
        return Ok(ExitCode::SUCCESS);
    };
    let config = HelperConfig {
        port,
        queues: args.queues,
        descriptors: args.descriptors,
        max_frame: FrameSize::new(args.max_frame).map_err(BadUse::new)?,
        core: args.core,
        workers: args.workers,
    };
    let give_up: GiveUp = if args.no_seccomp {
        |_| Ok(())
    } else {
        |step| confine_helper(step).map_err(|error| error.to_string())
    };
    // Why not was told to the switch.
    Ok(serve(&config, give_up).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}
