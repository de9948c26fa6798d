//! `vpp`: FD.io's vector packet processor, without DPDK: its own memif and vhost-user ports, and its packet generator.
//!
//! Debian has no package of it. The program is `vpp` on the PATH, or the path in `WEIR_VPP`. The lab writes its start-up file and
//! makes ports and function ([`config`]) over its command line's socket ([`cli`]). One worker forwards on the forwarding core,
//! its main thread is on the control core. It makes memory for its clients in `/dev/shm` under names of its own, so it gets one that goes
//! with it.
//!
//! Against [`Nf`]: a router takes what is addressed to it, here the lab's packets as they are made and what other routers of a
//! chain send, and answers a packet whose TTL is used up, of which the lab sends none; a firewall drops IPv6.

mod cli;
mod config;
mod counts;

use crate::eal::Vdev;
use crate::folder::Folder;
use crate::found::Found;
use crate::outside::{counted, forwarding};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, RunningDut, StartRequest};
use cli::Cli;
use config::{Named, Step};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_trial::Nf;

const NAME: &str = "vpp";

const PROGRAM: Found = Found { dut: NAME, program: "vpp", variable: "WEIR_VPP" };

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// First letters of the names of its workers' threads, and of its main thread, which forwards where there are none.
const WORKERS: [&str; 1] = ["vpp_wk"];
const MAIN: [&str; 1] = ["vpp_main"];

/// Longest frame without FCS: its interfaces' MTU and a header.
const LONGEST_FRAME: u16 = 9000 + 14;

/// What gives it a `/dev/shm` of its own.
const PRIVATE: &str = "mount -t tmpfs weir /dev/shm && exec setpriv --pdeathsig KILL -- \"$0\" \"$@\"";

/// What captures begin with whose times are in nanoseconds, and in microseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MICROSECONDS: u32 = 0xa1b2_c3d4;

/// What the line of its version begins with.
const VERSION: &str = "vpp v";

/// The adapter.
pub(crate) struct Vpp;

struct Running {
    process: Process,
    cli: Cli,
    version: String,
    interfaces: Vec<String>,
    threads: Vec<(u32, u32)>,
}

impl Adapter for Vpp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "FD.io's vector packet processor with its own ports, built by you"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        config::supports(nf)
    }

    fn version(&self) -> Result<String, DutError> {
        version(&PROGRAM.path()?, PATIENCE)
    }

    fn unbuilt(&self, _variant: &str) -> Option<DutError> {
        PROGRAM.path().err()
    }

    /// It connects its interfaces in pairs.
    fn hosts(&self) -> Option<Side> {
        Some(Side::Dut)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        self.start(&StartRequest { nf: Nf::L2Fwd, ..request.clone() })
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        request.ports.iter().try_for_each(|port| config::can_have(port)).map_err(unsupported)?;
        if request.max_frame.without_fcs() > LONGEST_FRAME {
            let reason = format!("its interfaces take frames of {LONGEST_FRAME} bytes without FCS at most");
            return Err(unsupported(reason));
        }
        run(&PROGRAM.path()?, request, PATIENCE)
    }
}

/// The command line that starts it with a start-up file and a `/dev/shm` of its own: program and arguments.
fn command(program: &Path, file: &Path) -> (&'static OsStr, Vec<String>) {
    let mut arguments = vec!["--mount"];
    if !nix::unistd::geteuid().is_root() {
        arguments.push("--map-root-user");
    }
    arguments.extend(["--", "sh", "-c", PRIVATE]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.extend([program.display().to_string(), "-c".to_owned(), file.display().to_string()]);
    (OsStr::new("unshare"), arguments)
}

/// What the program says of itself: it has no option for that, so it is started, reads a command that prints it, and is ended.
fn version(program: &Path, patience: Duration) -> Result<String, DutError> {
    let folder = Folder::new()?;
    let commands = folder.write("version.cli", "show version\n")?;
    let file = folder.write("startup.conf", &config::start_up_for_version(folder.path(), &commands))?;
    let (unshare, arguments) = command(program, &file);
    let process = Process::start(NAME, unshare, &arguments, Arc::default())?;
    let said = process
        .wait_for(0, "say its version", patience, |lines| lines.iter().find_map(|line| version_in(line)));
    process.terminate();
    said
}

/// The version in a line, if that is one.
fn version_in(line: &str) -> Option<String> {
    let version = line.trim().strip_prefix(VERSION)?.split_whitespace().next()?;
    Some(format!("VPP {version}"))
}

fn run(
    program: &Path,
    request: &StartRequest<'_>,
    patience: Duration,
) -> Result<Box<dyn RunningDut>, DutError> {
    let socket = request.folder.file("cli.sock");
    let file = request.folder.write("startup.conf", &config::start_up(request, &socket))?;
    let (unshare, arguments) = command(program, &file);
    let (unshare, arguments) = request.command(unshare, arguments);
    let process = Process::start(NAME, &unshare, &arguments, request.alarm.clone())?;
    let mut cli = Cli::open(&socket, &process, &request.alarm, patience)?;
    let set_up = set_up(&mut cli, request);
    let (version, interfaces) = set_up.map_err(|error| cli::cause(&process, error))?;
    let names = if request.core == request.control_core { MAIN } else { WORKERS };
    let threads = forwarding(process.pid(), &names, request.core);
    Ok(Box::new(Running { process, cli, version, interfaces, threads }))
}

/// Makes ports and function, and keeps the commands beside the other files; the version, and the interfaces' names.
fn set_up(cli: &mut Cli, request: &StartRequest<'_>) -> Result<(String, Vec<String>), DutError> {
    let said = cli.run("show version")?;
    let version = said.lines().find_map(version_in).ok_or_else(|| DutError::Answer {
        dut: NAME,
        answer: said.clone(),
        expected: "VPP's version",
    })?;
    let (mut interfaces, mut feeds, mut done) = (Vec::new(), Vec::new(), String::new());
    let mut command = |command: &str, expected: fn(&str) -> bool| {
        done += &format!("{command}\n");
        cli.set(command, expected)
    };
    let is_name: fn(&str) -> bool = |text| text.split_whitespace().count() == 1;
    for (number, text) in request.ports.iter().enumerate() {
        let port = config::port(number, text, request.nf);
        if let Some(trace) = Vdev::new(text).option("rx_pcap") {
            in_microseconds(Path::new(trace))?;
        }
        for one in &port.commands {
            command(one, str::is_empty)?;
        }
        interfaces.push(match port.named {
            Named::As(name) => name,
            Named::By(last) => command(&last, is_name)?,
        });
        feeds.extend(port.feed);
        if let Some(sink) = Vdev::new(text).option("tx_pcap") {
            let path = PathBuf::from(config::capture(sink));
            symlink(sink, &path).map_err(|error| DutError::File { path, reason: error.to_string() })?;
        }
    }
    let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
    for step in config::function(request.nf, &interfaces).map_err(unsupported)? {
        match step {
            Step::Command(text) => command(&text, str::is_empty)?,
            Step::File(name, text) => {
                let file = request.folder.write(&name, &text)?;
                command(&format!("exec {}", file.display()), str::is_empty)?
            }
        };
    }
    for feed in &feeds {
        command(feed, str::is_empty)?;
    }
    request.folder.write("commands.cli", &done)?;
    Ok((version, interfaces))
}

/// Says of a capture in nanoseconds, which VPP does not read, that it is one in microseconds: when a packet was captured
/// means nothing to a source that replays as fast as it can.
fn in_microseconds(trace: &Path) -> Result<(), DutError> {
    let patched = || {
        let mut file = File::options().read(true).write(true).open(trace)?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic)?;
        if magic == NANOSECONDS.to_ne_bytes() {
            file.rewind()?;
            file.write_all(&MICROSECONDS.to_ne_bytes())?;
        }
        Ok(())
    };
    patched().map_err(|error: io::Error| DutError::File { path: trace.to_owned(), reason: error.to_string() })
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let mut ask = |command| self.cli.run(command).map_err(|error| cli::cause(&self.process, error));
        let details = counts::reasons(&ask("show errors")?);
        let asked = Instant::now();
        let text = ask("show interface")?;
        let at = asked + asked.elapsed() / 2;
        let ports = counts::ports(&text, &self.interfaces, &details).ok_or_else(|| DutError::Answer {
            dut: NAME,
            answer: text.clone(),
            expected: "the counters of its interfaces",
        })?;
        Ok(Counters { details, ..counted(ports, &self.threads, at) })
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
