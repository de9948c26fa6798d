//! `weir`: Weir's own switch, run as a process of its own (`weir switch`).
//!
//! Every network function becomes a file of flows ([`crate::openflow`]) and, for the pipelines, services;
//! the program that is running now is started with them. It is driven like `weir nf`: the first line it
//! prints says that it is ready, `stats` on its standard input is answered in JSON, `stop` or the end of its
//! input ends it. OpenFlow ports are numbered in the order they are given, from 1.
//!
//! Its variants ([`variant`]) are settings joined by `+`, such as `weir:workers=2+nocoalesce`. Where the table
//! of `weir:tcam=N` is emulated, the emulation runs on the switch's own core: its time is taken out of the
//! device's CPU time, and so out of its cycles per packet, but a rate has it in it. Against [`Nf::L3Fwd`]: OpenFlow cannot ask for
//! the checksum of a header; a router made of flows lowers the TTL of a packet whose checksum is wrong, and
//! leaves it wrong by as much.
//!
//! Cost of a reading: one line each way. No thread of our own.

mod answers;
mod variant;

use crate::chain::HostPaths;
use crate::eal::{self, PATIENCE};
use crate::nf::{self, first, program};
use crate::openflow::entries::idle_routes;
use crate::openflow::feed::Feed;
use crate::openflow::{self, Dialect};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, FlowChannel, RunningDut, Sharing, StartRequest, cpu};
use answers::{Ready, Stats};
use std::path::{Path, PathBuf};
use std::time::Duration;
use variant::Variant;
use weir_trial::{BACKENDS, Nf, Server, Split};
use weir_units::Nanos;

const NAME: &str = "weir";

/// Its socket for controllers, in the device's folder, its flow entries, and its services that have a key.
const SOCKET: &str = "openflow.sock";
const FLOWS: &str = "flows.txt";
const SERVICES: &str = "services.toml";
/// The program of a start, where it is a copy.
const COPY: &str = "weir";

/// What counts the changes of its flow entries, among its details.
const CHANGES: &str = "changes";

/// Flow entries that it takes in a second, at least, beside another device.
const ENTRIES_A_SECOND: u64 = 20_000;

/// Most packets that it feeds itself with: each takes some 2.4 KiB of DPDK's memory.
const MOST_FED: u32 = 1_000_000;

/// The adapter.
pub(crate) struct Weir;

struct Running {
    /// Changes its flow entries, where its variant says so.
    feed: Option<Feed>,
    process: Process,
    channel: FlowChannel,
    version: String,
    threads: Vec<u32>,
}

impl Adapter for Weir {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Weir's switch: OpenFlow tables and SoftFlow services (weir switch); weir:nocoalesce without coalescing, \
         weir:adaptive gives an idle core back, weir:tcam=N has a table that names megaflows, weir:workers=N on N \
         cores, weir:room=N has room for N bytes of a frame in each of its packet buffers, weir:idle=N has N more \
         routes that no packet takes, weir:changes=N has N changes of such routes a second, weir:exact=off, fast-path=off, misses=SHARE, \
         coalesced=SHARE, hints=ip-id and offloaded=SHARE are for experiments, weir:at=PATH another build of it, weir:copied \
         a copy of it made for each start"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        openflow::flows(nf, Dialect::Weir).map(drop)
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        Variant::parse(variant).map(drop)
    }

    fn queues(&self, variant: &str) -> usize {
        Variant::parse(variant).map_or(1, |variant| variant.workers)
    }

    fn serves_queues(&self) -> Result<(), String> {
        Ok(())
    }

    fn runs_on(&self, _server: &Server) -> Result<(), String> {
        Ok(())
    }

    fn takes_changes(&self, nf: Nf) -> Result<(), String> {
        self.supports(nf)
    }

    fn most_fed(&self) -> u32 {
        MOST_FED
    }

    fn makes_laps(&self) -> Result<(), String> {
        Ok(())
    }

    fn version(&self) -> Result<String, DutError> {
        Ok(format!("weir {}", env!("CARGO_PKG_VERSION")))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        launch(request, openflow::flows(request.nf, Dialect::Weir).map_err(unsupported)?)
    }

    fn hosts(&self) -> Option<Side> {
        Some(Side::Dut)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        launch(request, openflow::crossed(request.ports.len()))
    }

    fn splits(&self, _split: Split) -> Result<(), String> {
        Ok(())
    }

    fn start_splitter(
        &self,
        request: &StartRequest<'_>,
        paths: &HostPaths,
    ) -> Result<Box<dyn RunningDut>, DutError> {
        let (groups, flows) = openflow::split(paths, Dialect::Weir);
        let groups = request.folder.write("groups.txt", &groups)?;
        let groups = ["--groups".to_owned(), groups.display().to_string()];
        let selection = ["--selection", paths.split.name()].map(str::to_owned);
        launch_with(request, flows, [groups, selection].concat())
    }
}

/// Starts it with these flows, and with the services of its function.
fn launch(request: &StartRequest<'_>, flows: String) -> Result<Box<dyn RunningDut>, DutError> {
    launch_with(request, flows, Vec::new())
}

/// The same with further options.
fn launch_with(
    request: &StartRequest<'_>,
    flows: String,
    options: Vec<String>,
) -> Result<Box<dyn RunningDut>, DutError> {
    let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
    let variant = Variant::parse(request.variant).map_err(unsupported)?;
    let changing = (variant.idle > 0 || variant.changes > 0).then(|| openflow::routes(request.nf));
    let table = changing.transpose().map_err(unsupported)?.unwrap_or_default();
    let flows = flows + &idle_routes(table, variant.idle);
    let patience = patience(&flows);
    let files = Files {
        flows: request.folder.write(FLOWS, &flows)?,
        keyed: keyed(request.nf).map(|text| request.folder.write(SERVICES, &text)).transpose()?,
        socket: Some(request.folder.file(SOCKET)),
    };
    let cores = variant.cores(request).map_err(unsupported)?;
    let arguments = [arguments(request, &variant, &cores, &files), options].concat();
    let apart = variant.program.is_some() || variant.copied || variant.changes > 0;
    if let Some(server) = request.far.filter(|_| apart) {
        let reason = format!(
            "`at=PATH`, `copied` and `changes=N` are of a switch on this machine, and this one is at {server}"
        );
        return Err(unsupported(reason));
    }
    let program = variant.program.clone().map_or_else(program, Ok)?;
    let program = if variant.copied { request.folder.copy(COPY, &program)? } else { program };
    let process = request.start_own(NAME, &program, arguments)?;
    let ready: Ready = process.wait_for(0, "open its ports", patience, first)?;
    if !ready.ready {
        return Err(DutError::Answer { dut: NAME, answer: "not ready".into(), expected: "ready" });
    }
    let feed = match variant.changes {
        0 => None,
        rate => Some(Feed::start(NAME, &request.folder.file(SOCKET), (table, rate), request.control_core)?),
    };
    let channel = FlowChannel::new(NAME, request.folder.file(SOCKET), request.nf, request.control_core);
    let (version, mut threads) = (ready.version, Vec::from(ready.tid));
    if request.far.is_some() {
        // They are none of this kernel's, and its socket is none of this machine's.
        threads.clear();
    }
    Ok(Box::new(Running { feed, process, channel, version, threads }))
}

/// How long it may take to open its ports, which it does once it has read these flow entries.
fn patience(flows: &str) -> Duration {
    PATIENCE + Duration::from_secs(flows.lines().count() as u64 / ENTRIES_A_SECOND)
}

/// The switch in a guest: what is written there, by path, and the words behind the program's name.
pub(crate) struct InGuest {
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) words: Vec<String>,
}

/// How it is started in a guest, where it has files in a folder and no controller.
pub(crate) fn in_guest(request: &StartRequest<'_>, folder: &Path) -> Result<InGuest, DutError> {
    let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
    let variant = Variant::parse(request.variant).map_err(unsupported)?;
    if variant.program.is_some()
        || variant.copied
        || variant.idle > 0
        || variant.changes > 0
        || variant.workers > 1
    {
        let settings = "`at=PATH`, `copied`, `idle=N`, `changes=N` and `workers=N`";
        return Err(unsupported(format!(
            "{settings} are of a switch on this machine, and this one is in a guest"
        )));
    }
    let flows = openflow::flows(request.nf, Dialect::Weir).map_err(unsupported)?;
    let keyed = keyed(request.nf);
    let files = Files {
        flows: folder.join(FLOWS),
        keyed: keyed.as_ref().map(|_| folder.join(SERVICES)),
        socket: None,
    };
    let words = arguments(request, &variant, &request.workers(), &files);
    let keyed = files.keyed.zip(keyed);
    Ok(InGuest { files: std::iter::once((files.flows, flows)).chain(keyed).collect(), words })
}

/// What it says that it is, once it forwards.
pub(crate) fn forwards(lines: &[&str]) -> Option<String> {
    first::<Ready>(lines).filter(|ready| ready.ready).map(|ready| ready.version)
}

/// Asks it for its counters; its CPU time is what it says.
pub(crate) fn ask(process: &mut Process) -> Result<Counters, DutError> {
    let (stats, at): (Stats, _) = nf::stats(process)?;
    let details = stats.details();
    let cpu = Nanos(details.get("cpu_ns").copied().unwrap_or(0));
    let counters = Counters::new(stats.received, stats.sent, cpu, at);
    Ok(Counters { details, ports: stats.ports(), states: stats.states, ..counters })
}

/// The files that a command line names.
struct Files {
    flows: PathBuf,
    /// Of the services that have a key, where there are some.
    keyed: Option<PathBuf>,
    /// For controllers.
    socket: Option<PathBuf>,
}

/// The command line behind the program's name.
fn arguments(request: &StartRequest<'_>, variant: &Variant, cores: &[usize], files: &Files) -> Vec<String> {
    let mut arguments = vec!["switch".to_owned()];
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    if let Some(keyed) = &files.keyed {
        add("--config", keyed.display().to_string());
    }
    add("--flows", files.flows.display().to_string());
    for (number, port) in (1..).zip(request.ports) {
        add("--port", format!("p{number}={port}"));
    }
    for service in services(request.nf, variant) {
        add("--service", service);
    }
    for core in cores {
        add("--core", core.to_string());
    }
    if request.queues > 1 {
        add("--queues", request.queues.to_string());
    }
    add("--max-frame", request.max_frame.bytes().to_string());
    add("--control", "stdio".to_owned());
    if let Some(socket) = &files.socket {
        add("--listen", format!("punix:{}", socket.display()));
    }
    match request.sharing {
        Some(Sharing { folder, .. }) => {
            arguments.extend(["--attach".to_owned(), folder.display().to_string()]);
        }
        None => {
            arguments.extend(["--buffers".to_owned(), eal::buffers(request).to_string()]);
            arguments.extend(request.huge_pages.then(|| "--huge-pages".to_owned()));
        }
    }
    let waits = variant.options.iter().any(|option| option == "--poll");
    if request.shared_core && !waits {
        arguments.extend(["--poll", "yield"].map(str::to_owned));
    }
    arguments.extend(variant.options.iter().cloned());
    arguments
}

/// The configuration of the services of a function that have a key: it stands in a file of the lab's own folder,
/// which nobody else can enter, and on no command line.
fn keyed(nf: Nf) -> Option<String> {
    let hex = |bytes: [u8; weir_cipher::BLOCK]| format!("{:032x}", u128::from_be_bytes(bytes));
    matches!(nf, Nf::PipelineB { .. }).then(|| {
        let (key, iv) = (hex(weir_cipher::KEY), hex(weir_cipher::VECTOR));
        format!("[service.transcoder]\nsettings = {{ key = \"{key}\", iv = \"{iv}\" }}\n")
    })
}

/// The other services that a function's flows call, as `NAME=KIND[:JSON]`.
fn services(nf: Nf, variant: &Variant) -> Vec<String> {
    let mut services = Vec::new();
    if nf.is_stateful() {
        services.push("conntrack=conntrack".to_owned());
    }
    match nf {
        Nf::PipelineC { .. } => {
            let settings = serde_json::json!({ "mode": "least-loaded", "buckets": BACKENDS });
            services.push(format!("balancer=balancer:{settings}"));
        }
        Nf::PipelineD { noops: 1.. } => services.push(match variant.reads {
            None => "noop=noop".to_owned(),
            Some(reads) => format!("noop=memory:{}", serde_json::json!({ "reads": reads })),
        }),
        _ => {}
    }
    services
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let mut counters = ask(&mut self.process)?;
        // On another machine it says itself what it took.
        if !self.threads.is_empty() {
            let pid = self.process.pid();
            let used = self.threads.iter().filter_map(|thread| cpu::thread_cpu(pid, *thread));
            counters.cpu = Nanos(used.map(|cpu| cpu.0).sum());
        }
        if let Some(feed) = &self.feed {
            let refused = |why: &str| DutError::Answer {
                dut: NAME,
                answer: why.to_owned(),
                expected: "that it takes each change of its flow entries",
            };
            counters.details.insert(CHANGES.to_owned(), feed.done().map_err(refused)?);
        }
        // What stands for a NIC's work is none of the switch's.
        let emulated = counters.details.get("hints emulated_ns").copied().unwrap_or(0);
        counters.cpu = Nanos(counters.cpu.0.saturating_sub(emulated));
        Ok(counters)
    }

    fn pace(&self) -> Option<(&'static str, f64)> {
        self.feed.as_ref().map(|feed| (CHANGES, f64::from(feed.rate())))
    }

    fn flow_channel(&self) -> Option<FlowChannel> {
        (!self.threads.is_empty()).then(|| self.channel.clone())
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.iter().map(|thread| (self.process.pid(), *thread)).collect()
    }

    fn processes(&self) -> Vec<&Process> {
        if self.threads.is_empty() { Vec::new() } else { vec![&self.process] }
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended()
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        self.feed = None;
        self.process.stop(&["stop"]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;
    use weir_trial::NfKind;

    fn line(nf: &str, variant: &str) -> String {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let request = request(nf.parse().unwrap(), &ports, &folder);
        let variant = Variant::parse(variant).unwrap();
        let cores = variant.cores(&request).unwrap();
        let files = Files {
            flows: "/f/flows.txt".into(),
            keyed: keyed(request.nf).map(|_| "/f/services.toml".into()),
            socket: Some(folder.file(SOCKET)),
        };
        let line = arguments(&request, &variant, &cores, &files).join(" ");
        line.replace(&folder.path().display().to_string(), "/f")
    }

    #[test]
    fn ports_cores_and_memory_are_told_on_the_command_line() {
        assert_eq!(
            line("l2fwd", "nocoalesce"),
            "switch --flows /f/flows.txt --port p1=net_null0 --port p2=net_null1 \
             --core 3 --max-frame 64 --control stdio --listen punix:/f/openflow.sock --buffers 16384 --no-coalescing"
        );
    }

    #[test]
    fn a_function_without_routes_has_none_that_change() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let mut request = request("firewall".parse().unwrap(), &ports, &folder);
        request.variant = "changes=1000";
        let refused = Weir.start(&request).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("a table of routes, which firewall has not"), "{refused}");
        assert_eq!(openflow::routes("pipeline-a".parse().unwrap()), Ok(1));
    }

    #[test]
    fn a_table_of_half_a_million_entries_is_given_more_time_than_one_of_few() {
        assert_eq!(patience("in_port=1,actions=output:2\nin_port=2,actions=output:1\n"), PATIENCE);
        let many = "ip,nw_dst=198.18.0.0/24,actions=output:2\n".repeat(500_000);
        assert_eq!(patience(&many), PATIENCE + Duration::from_secs(25));
    }

    #[test]
    fn services_of_the_pipelines_are_named_with_what_their_function_fixes() {
        assert!(line("pipeline-a", "").contains(" --service conntrack=conntrack --core"));
        let b = line("pipeline-b", "");
        assert!(
            b.contains("--config /f/services.toml") && b.contains("--service conntrack=conntrack --core")
        );
        assert!(!b.contains("2b7e"), "keys stand on no command line");
        let text = keyed("pipeline-b".parse().unwrap()).unwrap();
        assert_eq!(
            text,
            "[service.transcoder]\nsettings = { key = \"2b7e151628aed2a6abf7158809cf4f3c\", \
             iv = \"000102030405060708090a0b0c0d0e0f\" }\n"
        );
        assert!(
            line("pipeline-c", "").contains("balancer=balancer:{\"buckets\":8,\"mode\":\"least-loaded\"}")
        );
        assert!(line("pipeline-d:3", "").contains("--service noop=noop"));
        assert!(line("pipeline-d:1", "reads=7").contains("--service noop=memory:{\"reads\":7}"));
        assert!(!line("pipeline-d:0", "").contains("--service") && !line("l2", "").contains("--service"));
    }

    #[test]
    fn it_can_be_every_function_and_knows_its_variants() {
        for kind in NfKind::ALL.into_iter().filter(|kind| !matches!(kind, NfKind::Flows | NfKind::Chain)) {
            assert_eq!(Weir.supports(kind.name().parse().unwrap()), Ok(()));
        }
        assert_eq!(crate::check_variant("weir"), Ok(()));
        assert_eq!(crate::check_variant("weir:nocoalesce"), Ok(()));
        let experiment = "exact=off+misses=10%+hints=ip-id+offloaded=0.5";
        assert!(
            line("l2fwd", experiment)
                .ends_with(" --experiment exact=off,misses=10%,hints=ip-id,offloaded=0.5")
        );
        for variant in ["adaptive", "adaptive=50us", "tcam=1024", "tcam=8,latency=0us+nocoalesce", experiment]
        {
            assert_eq!(crate::check_variant(&format!("weir:{variant}")), Ok(()));
        }
        assert_eq!(crate::check_variant("weir:idle=499000+changes=1000"), Ok(()));
        for wrong in ["fast", "tcam", "tcam=", "nocoalesce=1", "adaptive+adaptive=1ms", "+"] {
            assert!(crate::check_variant(&format!("weir:{wrong}")).is_err(), "{wrong}");
        }
        assert_eq!((Weir.queues("workers=2"), Weir.queues("")), (2, 1));
        assert!(crate::check_variant("weir:fast").unwrap_err().contains("nocoalesce"));
        assert!(
            line("l2fwd", "tcam=8+adaptive=50us").ends_with(" --buffers 16384 --tcam 8 --poll adaptive:50us")
        );
    }
}
