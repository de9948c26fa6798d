//! The `weir` program: one subcommand a file, under `cmd/`.
//!
//! Exit codes: 0 fine, 1 a measurement failed or a goal was missed, 2 bad use (arguments, plans,
//! files that are not there or not what they claim).

mod cmd;

use clap::Parser;
use std::process::ExitCode;

/// The whole command line.
#[derive(Parser)]
#[command(name = "weir", version, about, long_about = LONG_ABOUT, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

/// Counts what services of the switch allocate.
#[global_allocator]
static ALLOCATOR: weir_cpu::CountingAllocator = weir_cpu::CountingAllocator;

const LONG_ABOUT: &str = "\
Weir measures software dataplanes: how fast is this network function, on this dataplane, on this \
machine, and what holds it back?

Run it in an isolated lab only. RFC 6815 keeps tests of this kind off production networks.

Exit codes: 0 fine; 1 a measurement failed or a goal was missed; 2 bad use.";

fn main() -> ExitCode {
    weir_cpu::Tsc::begin(); // what needs the clock's frequency waits for less of the measurement
    match cmd::run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", cmd::shown(&format!("{error:#}")));
            if error.is::<cmd::BadUse>() { ExitCode::from(2) } else { ExitCode::from(1) }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_services_allocate_is_counted_in_this_program() {
        assert!(weir_cpu::Heap::is_counted());
    }
}
