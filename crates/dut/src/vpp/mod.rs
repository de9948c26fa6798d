//! `vpp`: FD.io's vector packet processor, without DPDK: its own memif and vhost-user ports, and its packet generator.
//!
//! Debian has no package of it. The program is `vpp` on the PATH, or the path in `WEIR_VPP`; `vpp:unix:PATH` is one that already runs
//! on this machine, by the socket of its command line, and in which there is nothing: it is left so ([`mod@undo`]). Of its own one the lab writes its start-up file and
//! makes ports and function ([`config`]) over its command line's socket ([`cli`]). One worker forwards on the forwarding core,
//! its main thread is on the control core. It makes memory for its clients in `/dev/shm` under names of its own, so it gets one that goes
//! with it.
//!
//! Against [`Nf`]: a router takes what is addressed to it, here the lab's packets as they are made and what other routers of a
//! chain send, and answers a packet whose TTL is used up, of which the lab sends none; a firewall drops IPv6.

mod cli;
mod config;
mod counts;
mod undo;

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
use undo::Done;
use weir_trial::Nf;

const NAME: &str = "vpp";

const PROGRAM: Found = Found { dut: NAME, program: "vpp", variable: "WEIR_VPP" };

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one that already runs may.
const RUNNING_PATIENCE: Duration = Duration::from_secs(5);

/// The interface that every VPP has.
const OWN_INTERFACE: &str = "local0";

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
    /// None where it was there before.
    process: Option<Process>,
    cli: Cli,
    description: String,
    interfaces: Vec<String>,
    /// What leaves one as it was that was there before.
    undo: Vec<String>,
    threads: Vec<(u32, u32)>,
}

/// What was made in it.
#[derive(Default)]
struct Made {
    version: String,
    interfaces: Vec<String>,
    done: Vec<Done>,
}

impl Adapter for Vpp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "FD.io's vector packet processor with its own ports, built by you; vpp:unix:PATH is one that runs, by its command line"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        config::supports(nf)
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        place(variant).map(drop)
    }

    fn version(&self) -> Result<String, DutError> {
        version(&PROGRAM.path()?, PATIENCE)
    }

    fn already_runs(&self, variant: &str) -> bool {
        !variant.is_empty()
    }

    fn unbuilt(&self, variant: &str) -> Option<DutError> {
        PROGRAM.path().err().filter(|_| !self.already_runs(variant))
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
        match place(request.variant).map_err(unsupported)? {
            None => run(&PROGRAM.path()?, request, PATIENCE),
            Some(_) if request.ports.iter().any(|port| Vdev::new(port).option("rx_pcap").is_some()) => {
                let reason =
                    "one that already runs is reached over vhost and memif, and does not feed itself"
                        .to_owned();
                Err(unsupported(reason))
            }
            Some(socket) => take_over(socket, request),
        }
    }
}

/// The socket of one that already runs; nothing for one of the lab's own.
fn place(variant: &str) -> Result<Option<&Path>, String> {
    match variant.split_once(':') {
        None if variant.is_empty() => Ok(None),
        Some(("unix", path)) if !path.is_empty() => Ok(Some(Path::new(path))),
        _ => Err(format!(
            "`{variant}` is no place of a VPP that runs; write unix:PATH, the socket of its command line"
        )),
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
    let (mark, mut made) = (process.mark(), Made::default());
    set_up(&mut cli, request, &mut made).map_err(|error| process.reason(mark, error))?;
    let Made { version, interfaces, .. } = made;
    let names = if request.core == request.control_core { MAIN } else { WORKERS };
    let threads = forwarding(process.pid(), &names, request.core);
    let description = format!("{version}; {}", process.command());
    let process = Some(process);
    Ok(Box::new(Running { process, cli, description, interfaces, undo: Vec::new(), threads }))
}

/// One that already runs, with nothing in it.
fn take_over(socket: &Path, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
    let mut cli = Cli::connect(socket, &request.alarm, RUNNING_PATIENCE)?;
    let interfaces = cli.run("show interface")?;
    // A line of an interface begins with its name, and further ones of it with space; above them stands a heading.
    let names =
        interfaces.lines().filter(|line| !line.starts_with(char::is_whitespace) && !line.contains(" Idx"));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let mut others = names.filter(|name| *name != OWN_INTERFACE);
    // Without the plugin it does not know the command, and has none.
    let lists = Some(cli.run("show acl-plugin acl")?).filter(|lists| !lists.contains("unknown input"));
    let list = lists.as_deref().and_then(|lists| lists.lines().find(|line| !line.trim().is_empty()));
    if let Some(other) = others.next().or(list) {
        return Err(DutError::Refused {
            dut: NAME,
            command: format!("take over the VPP at {}", socket.display()),
            reason: format!(
                "somebody has made `{other}` in it; the lab takes one that has {OWN_INTERFACE} alone and no lists of its ACL plugin"
            ),
            last_words: String::new(),
        });
    }
    let mut made = Made::default();
    let set_up = set_up(&mut cli, request, &mut made);
    let undo = undo(request, &made.done);
    if let Err(error) = set_up {
        // The reason is what went wrong, not that it cannot be mended.
        undo.iter().for_each(|command| drop(cli.run(command)));
        return Err(error);
    }
    let description = format!("{} at unix:{}", made.version, socket.display());
    let interfaces = made.interfaces;
    Ok(Box::new(Running { process: None, cli, description, interfaces, undo, threads: Vec::new() }))
}

/// What undoes what was done; files of commands have one beside them that does.
fn undo(request: &StartRequest<'_>, done: &[Done]) -> Vec<String> {
    undo::commands(done, |file| {
        let text = std::fs::read_to_string(file).ok()?;
        let name = Path::new(file).file_name()?.to_str()?;
        let number = name.trim_start_matches("rules").trim_end_matches(".cli").parse().unwrap_or(0);
        let path = request.folder.write(&format!("undo-{name}"), &undo::file(&text, number)).ok()?;
        Some(format!("exec {}", path.display()))
    })
}

/// Makes ports and function, and keeps the commands beside the other files.
fn set_up(cli: &mut Cli, request: &StartRequest<'_>, made: &mut Made) -> Result<(), DutError> {
    let said = cli.run("show version")?;
    made.version = said.lines().find_map(version_in).ok_or_else(|| DutError::Answer {
        dut: NAME,
        answer: said.clone(),
        expected: "VPP's version",
    })?;
    let (interfaces, done, mut feeds) = (&mut made.interfaces, &mut made.done, Vec::new());
    let mut command = |command: &str, expected: fn(&str) -> bool| {
        let printed = cli.set(command, expected);
        done.extend(printed.iter().map(|printed| (command.to_owned(), printed.clone())));
        printed
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
    for step in config::function(request.nf, interfaces).map_err(unsupported)? {
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
    let text: String = done.iter().map(|(command, _)| format!("{command}\n")).collect();
    request.folder.write("commands.cli", &text).map(drop)
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
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let process = self.process.as_ref();
        let mark = process.map_or(0, Process::mark);
        let because = |error| match process {
            Some(process) => process.reason(mark, error),
            None => error,
        };
        let mut ask = |command| self.cli.run(command).map_err(because);
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
        self.process.iter().collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        match &self.process {
            Some(process) => process.ended(),
            None => self.cli.ended(),
        }
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        if let Some(process) = self.process.take() {
            process.terminate();
        }
        std::mem::take(&mut self.undo)
            .iter()
            .try_for_each(|command| self.cli.set(command, str::is_empty).map(drop))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
