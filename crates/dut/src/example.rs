//! DPDK's example programs, built on this machine from the sources that Debian's `dpdk-doc` installs.
//!
//! `./x setup --peers` builds them (`crates/dut/examples.sh`) and puts each beside a file that says
//! of which DPDK it is; here they are only found. They are nobody's package, hence the folder of
//! one's own: `$XDG_CACHE_HOME/weir/peers`, or `~/.cache/weir/peers`.

use crate::process::Process;
use crate::telemetry::Telemetry;
use crate::{Counters, DutError, RunningDut, StartRequest, cpu};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_units::Nanos;

/// An example program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example(pub(crate) &'static str);

/// Environment variable that tells a changed program how many packet buffers to have.
pub(crate) const BUFFERS_VARIABLE: &str = "WEIR_BUFFERS";

/// Largest frame without FCS that a forwarder's packet buffers hold, in bytes.
const LONGEST_FRAME: u16 = 2048;

/// Says why a program with packet buffers of [`LONGEST_FRAME`] bytes cannot take what is to be sent, if it cannot.
pub(crate) fn holds_frames(request: &StartRequest<'_>) -> Result<(), String> {
    match request.max_frame.without_fcs() <= LONGEST_FRAME {
        true => Ok(()),
        false => Err(format!("its packet buffers hold frames of {LONGEST_FRAME} bytes without FCS at most")),
    }
}

/// How long a forwarder may look for its links before it forwards; it gives up after 9 s itself.
pub(crate) const LINKS_PATIENCE: Duration = Duration::from_secs(12);

/// An example that forwards on its main thread and counts by telemetry.
pub(crate) struct Forwarder {
    pub(crate) process: Process,
    pub(crate) telemetry: Telemetry,
    pub(crate) version: String,
    pub(crate) ports: usize,
    /// Whether it has been seen to forward: it does so once all its links are up.
    pub(crate) forwards: bool,
}

impl Example {
    /// Where it is, built or not.
    pub(crate) fn path(self) -> PathBuf {
        folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")).join(self.0)
    }

    /// The DPDK it was built from.
    pub(crate) fn version(self) -> Result<String, DutError> {
        let path = self.path();
        let version = std::fs::read_to_string(path.with_added_extension("version")).ok();
        match version {
            Some(version) if path.is_file() => Ok(format!("DPDK {}", dpdk(&version))),
            _ => Err(DutError::Unbuilt { dut: self.0, program: path }),
        }
    }
}

impl RunningDut for Forwarder {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        if !self.forwards {
            let enters =
                |lines: &[&str]| lines.iter().any(|line| line.contains("entering main loop")).then_some(());
            self.process.wait_for(0, "begin to forward", LINKS_PATIENCE, enters)?;
            self.forwards = true;
        }
        let asked = Instant::now();
        let totals = self.telemetry.totals(self.ports)?;
        let at = asked + asked.elapsed() / 2;
        let pid = self.process.pid();
        let cpu = cpu::thread_cpu(pid, pid).unwrap_or(Nanos(0));
        Ok(Counters { details: totals.details, ..Counters::new(totals.received, totals.sent, cpu, at) })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        vec![(self.process.pid(), self.process.pid())]
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process]
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        self.process.terminate();
        Ok(())
    }
}

/// The version of DPDK; behind it stands the state of the script that built the program.
fn dpdk(version: &str) -> &str {
    version.split_whitespace().next().unwrap_or("of unknown version")
}

/// The folder, from the values of `XDG_CACHE_HOME` and `HOME`.
fn folder(cache: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let cache = cache.map(PathBuf::from).filter(|path| path.is_absolute());
    cache.unwrap_or_else(|| PathBuf::from(home.unwrap_or_default()).join(".cache")).join("weir/peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_the_cache_of_the_user() {
        let of = |cache: Option<&str>| folder(cache.map(Into::into), Some("/home/a".into()));
        assert_eq!(of(None), PathBuf::from("/home/a/.cache/weir/peers"));
        assert_eq!(of(Some("/var/c")), PathBuf::from("/var/c/weir/peers"));
        assert_eq!(of(Some("relative")), of(None), "the XDG specification ignores relative paths");
    }

    #[test]
    fn the_version_is_that_of_dpdk() {
        assert_eq!(dpdk("22.11.11 3054811372\n"), "22.11.11");
    }

    #[test]
    fn a_program_that_is_not_built_says_what_builds_it() {
        let error = Example("no-such-example").version().unwrap_err().to_string();
        assert!(error.contains("no-such-example") && error.contains("./x setup --peers"), "{error}");
    }
}
