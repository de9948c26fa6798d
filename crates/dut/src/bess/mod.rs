//! `bess`: Berkeley's switch of modules, spoken to by its control protocol.
//!
//! Debian has no package of it. The program is `bessd` on the PATH, or the path in `WEIR_BESSD`; `bess:unix:PATH` and
//! `bess:tcp:HOST:PORT` are one that already runs on this machine and in which there is nothing. The lab makes ports, modules
//! ([`pipeline`]) and one worker on the forwarding core by gRPC ([`grpc`], [`messages`]), and takes all of it out at the end.
//! Everything else of `bessd` runs on the control core.
//!
//! Against [`Nf`]: it reads addresses at fixed offsets, so a router takes every packet for IPv4 without options, and checks no
//! more of a header than its checksum; Weir's traces hold no such packet.

mod grpc;
mod messages;
mod pipeline;
mod session;

use crate::eal::{self, HEADROOM, Vdev, is_virtual};
use crate::example::holds_frames;
use crate::found::Found;
use crate::outside::{counted, forwarding, printed};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, RunningDut, StartRequest};
use grpc::Place;
use session::Session;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_trial::Nf;

const NAME: &str = "bess";

/// The service of its control protocol.
const SERVICE: &str = "bess.pb.BESSControl";

const PROGRAM: Found = Found { dut: NAME, program: "bessd", variable: "WEIR_BESSD" };

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a packet buffer (`SNBUF_SIZE` and what a pool keeps), rounded up.
const BUFFER: u64 = 2048 + HEADROOM + 1024;

/// The driver of a port whose memory the process opposite maps.
const FRONT_END: &str = "net_virtio_user";

/// What it wants for itself and its tables, in MiB.
const OWN_MEGABYTES: u64 = 384;

/// What gives it a file system of huge pages of its own: its DPDK takes them from files, and a machine need have none mounted.
const WITH_HUGE_PAGES: &str = "mount -t hugetlbfs weir \"$0\" && exec setpriv --pdeathsig KILL -- \"$@\"";

/// The adapter.
pub(crate) struct Bess;

struct Running {
    session: Session,
    description: String,
    ports: usize,
    threads: Vec<(u32, u32)>,
}

impl Adapter for Bess {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Berkeley's switch of modules, built by you; bess:unix:PATH and bess:tcp:HOST:PORT are a bessd that runs"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        pipeline::supports(nf)
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        if variant.is_empty() { Ok(()) } else { variant.parse::<Place>().map(drop) }
    }

    fn version(&self) -> Result<String, DutError> {
        version(&PROGRAM.path()?)
    }

    fn already_runs(&self, variant: &str) -> bool {
        !variant.is_empty()
    }

    fn unbuilt(&self, variant: &str) -> Option<DutError> {
        PROGRAM.path().err().filter(|_| !self.already_runs(variant))
    }

    fn drives_vhost(&self) -> Result<(), String> {
        Err("its packet buffers lie where no other process can have them mapped, so that it has the vhost-user back end alone, \
             or memif, as in `vale`"
            .to_owned())
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
        if request.ports.iter().any(|port| Vdev::new(port).driver() == FRONT_END) {
            self.drives_vhost().map_err(unsupported)?;
        }
        if request.variant.is_empty() {
            started(&PROGRAM.path()?, request, PATIENCE)
        } else {
            running(&request.variant.parse().map_err(unsupported)?, request)
        }
    }
}

/// What the program says of itself.
fn version(program: &Path) -> Result<String, DutError> {
    let text = printed(NAME, &[program.into(), "--version".into()])?;
    let line = text.lines().next().unwrap_or_default().trim();
    match line.split_once("version ") {
        Some((_, version)) if line.contains("bessd") => Ok(format!("BESS {version}")),
        _ => Err(DutError::Answer { dut: NAME, answer: line.to_owned(), expected: "bessd's version" }),
    }
}

/// One of the lab's own.
fn started(
    program: &Path,
    request: &StartRequest<'_>,
    patience: Duration,
) -> Result<Box<dyn RunningDut>, DutError> {
    let socket = request.folder.file("bess.sock");
    let (program, arguments) = command(request, arguments(request, program, &socket))?;
    let (program, arguments) = request.command(program, arguments);
    let process = Process::start(NAME, &program, &arguments, request.alarm.clone())?;
    let mut session = Session::open(&Place::Unix(socket), Some(process), &request.alarm, patience)?;
    session.set_up(request)?;
    let (mut threads, mut command) = (Vec::new(), String::new());
    if let Some(process) = &session.process {
        threads = forwarding(process.pid(), &[], request.core);
        process.command().clone_into(&mut command);
    }
    let description = format!("BESS {}; {command}", session.version);
    Ok(Box::new(Running { session, description, ports: request.ports.len(), threads }))
}

/// One that already runs.
fn running(place: &Place, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
    let mut session = Session::open(place, None, &request.alarm, grpc::PATIENCE)?;
    session.take_over()?;
    if let Err(error) = session.set_up(request) {
        // The reason is what went wrong, not that it cannot be mended.
        let _ = session.reset();
        return Err(error);
    }
    let description = format!("BESS {} at {place}", session.version);
    Ok(Box::new(Running { session, description, ports: request.ports.len(), threads: Vec::new() }))
}

/// What `taskset` gets, behind it, or behind what mounts huge pages for it.
fn command(
    request: &StartRequest<'_>,
    arguments: Vec<String>,
) -> Result<(&'static OsStr, Vec<String>), DutError> {
    let taskset = "taskset";
    if !request.huge_pages {
        return Ok((OsStr::new(taskset), arguments));
    }
    let path = request.folder.file("huge");
    std::fs::create_dir(&path)
        .map_err(|error| DutError::File { path: path.clone(), reason: error.to_string() })?;
    let place = path.display().to_string();
    let mut words =
        ["--mount", "--", "sh", "-c", WITH_HUGE_PAGES, &place, taskset].map(str::to_owned).to_vec();
    words.extend(arguments);
    Ok((OsStr::new("unshare"), words))
}

fn arguments(request: &StartRequest<'_>, program: &Path, socket: &Path) -> Vec<String> {
    let buffers = u64::from(eal::buffers(request)).next_power_of_two();
    let megabytes = if request.huge_pages { (buffers * BUFFER).div_ceil(1 << 20) + OWN_MEGABYTES } else { 0 };
    let mut arguments = vec![
        "-c".to_owned(),
        request.control_core.to_string(),
        program.display().to_string(),
        "-f".to_owned(),
        "-skip_root_check".to_owned(),
        "-no_crashlog".to_owned(),
        "-logtostderr".to_owned(),
        "-colorlogtostderr=false".to_owned(),
        format!("-i={}", request.folder.file("bessd.pid").display()),
        format!("-grpc_url=unix:{}", socket.display()),
        format!("-m={megabytes}"),
        format!("-buffers={buffers}"),
    ];
    // Its tables want huge pages that lie in a row. By physical addresses, which a device of the machine needs, they seldom do.
    if request.huge_pages && request.ports.iter().all(|port| is_virtual(port)) {
        arguments.push("-iova=va".to_owned());
    }
    arguments
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let (ports, details) = self.session.counters(self.ports)?;
        let at = asked + asked.elapsed() / 2;
        Ok(Counters { details, ..counted(ports, &self.threads, at) })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.clone()
    }

    fn processes(&self) -> Vec<&Process> {
        self.session.process.iter().collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        let process = self.session.process.as_ref()?;
        process.ended().map(|error| session::with_reason(process, error))
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        match self.session.process.take() {
            Some(process) => process.terminate(),
            None => self.session.reset()?,
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
