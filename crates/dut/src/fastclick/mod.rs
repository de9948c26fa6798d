//! `fastclick`: Click with DPDK ports, a configuration made from the function.
//!
//! Debian has no package of it. The program is `click` on the PATH, or the path in `WEIR_FASTCLICK`. It reads a
//! configuration ([`config`]) and is asked for its counters over its control socket ([`control`]). The main thread has
//! the control core; one more thread polls all ports and runs each packet to its end.
//!
//! Against [`Nf`]: a router cuts off padding behind the IP packet, and `firewall` and `l3fwd` drop what is no IPv4.

mod config;
mod control;

use crate::eal::{self, Lcores};
use crate::example::holds_frames;
use crate::found::Found;
use crate::outside::{counted, forwarding};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, PortCounts, RunningDut, StartRequest};
use config::Lookup;
use control::Control;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use weir_trial::{Nf, NfKind};

const NAME: &str = "fastclick";

const PROGRAM: Found = Found { dut: NAME, program: "click", variable: "WEIR_FASTCLICK" };

/// How long it may take to build its tables and to open its ports.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that each packet buffer may have beside DPDK's own, as FastClick is built (`--enable-dpdk-packet`).
const ANNOTATIONS: u64 = 192;

/// The adapter.
pub(crate) struct FastClick;

struct Running {
    process: Process,
    control: Control,
    version: String,
    ports: usize,
    threads: Vec<(u32, u32)>,
}

impl Adapter for FastClick {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Click with DPDK ports (FastClick), built by you; fastclick:direct routes by DirectIPLookup"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        let wrong = nf
            .members()
            .into_iter()
            .find(|member| !matches!(member.kind(), NfKind::L2Fwd | NfKind::L3Fwd | NfKind::Firewall));
        wrong.map_or(Ok(()), |member| Err(crate::wants_tables(NAME, member)))
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        Lookup::of(variant).map(drop)
    }

    fn version(&self) -> Result<String, DutError> {
        version(&PROGRAM.path()?)
    }

    fn unbuilt(&self, _variant: &str) -> Option<DutError> {
        PROGRAM.path().err()
    }

    /// It forwards between its ports in pairs.
    fn hosts(&self) -> Option<Side> {
        Some(Side::Dut)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        self.start(&StartRequest { nf: Nf::L2Fwd, ..request.clone() })
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        holds_frames(request).map_err(unsupported)?;
        run(&PROGRAM.path()?, request, PATIENCE)
    }
}

/// What the program says of itself; an error where it is another one of this name.
///
/// FastClick of 2026 prints its version and then goes on, and ends by a signal; only a whole line at a time is not lost.
fn version(program: &Path) -> Result<String, DutError> {
    let mut command = std::process::Command::new("timeout");
    command
        .args(["--kill-after=1", "10", "stdbuf", "-oL"])
        .arg(program)
        .arg("--version")
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| DutError::Spawn {
        program: program.display().to_string(),
        reason: format!("{error} (it is started through `timeout`, of Debian's coreutils)"),
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim();
    match line.strip_prefix("click (FastClick) ") {
        Some(version) => Ok(format!("FastClick {version}")),
        None => Err(DutError::Answer { dut: NAME, answer: line.to_owned(), expected: "FastClick's version" }),
    }
}

fn run(
    program: &Path,
    request: &StartRequest<'_>,
    patience: Duration,
) -> Result<Box<dyn RunningDut>, DutError> {
    let version = version(program)?;
    let socket = request.folder.file("control.sock");
    let file = request.folder.write("fastclick.click", &config::text(request, &socket)?)?;
    let (program, arguments) = request.command(program.as_os_str(), arguments(request, &file));
    let process = Process::start(NAME, &program, &arguments, request.alarm.clone())?;
    let control = Control::open(&socket, &process, request, patience)?;
    let threads = forwarding(process.pid(), &[], request.core);
    Ok(Box::new(Running { process, control, version, ports: request.ports.len(), threads }))
}

fn arguments(request: &StartRequest<'_>, file: &Path) -> Vec<String> {
    let annotations = (u64::from(eal::buffers(request)) * ANNOTATIONS).div_ceil(1 << 20);
    let mut arguments = vec!["--dpdk".to_owned()];
    arguments.extend(eal::arguments(request, Lcores::MainAndWorker, annotations, false));
    arguments.extend(["--".to_owned(), file.display().to_string()]);
    arguments
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let (mut ports, mark) = (Vec::new(), self.process.mark());
        for number in 0..self.ports {
            let mut count = |what: String| self.control.count(&what);
            let counted = count(format!("in{number}.count")).and_then(|received| {
                let sent = count(format!("out{number}.count"))?;
                let refused = Some(count(format!("out{number}.dropped"))?);
                Ok(PortCounts { received, sent, refused })
            });
            ports.push(counted.map_err(|error| self.process.reason(mark, error))?);
        }
        let at = asked + asked.elapsed() / 2;
        Ok(counted(ports, &self.threads, at))
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.clone()
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

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
