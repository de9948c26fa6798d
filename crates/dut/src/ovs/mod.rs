//! `ovs-dpdk`: Open vSwitch over DPDK, from Debian's `openvswitch-switch-dpdk`.
//!
//! A private instance ([`instance`]) with one bridge of the userspace datapath, whose flows are the
//! network function ([`openflow`]). One forwarding thread (PMD), pinned; everything else on the control
//! core. Its caches are left as they come (exact-match cache on, one insertion in a hundred;
//! signature-match cache off) unless the variant turns them ([`knobs`]). Over `vhost` it has the back end by its own kind of port, or the front end
//! by DPDK's virtio-user driver. Huge pages are not needed. It forwards a burst flow by flow, so packets
//! of different flows overtake each other. Against [`Nf`]: it checks no header checksum.
//!
//! Cost of a reading: two tools run to their end, about 10 ms; the forwarding thread is not disturbed.

mod callers;
mod instance;
mod knobs;
mod plain;
mod splitter;
mod stats;

use crate::chain::HostPaths;
use crate::eal::{self, Vdev};
use crate::openflow::{self, Dialect};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, FlowChannel, Learning, PortCounts, RunningDut, StartRequest, cpu};
use callers::{Caller, Callers};
use instance::{BRIDGE, Instance, Plan};
use knobs::Knobs;
pub(crate) use plain::Ovs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_trial::{Nf, Split};
use weir_units::Nanos;

const NAME: &str = "ovs-dpdk";
const PACKAGE: &str = "openvswitch-switch-dpdk";
const DAEMON: &str = "ovs-vswitchd";

/// The daemon with DPDK: Debian's own place, then whatever the system calls by its name.
const DAEMONS: [&str; 2] = ["/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", DAEMON];

/// Packet buffers of a port that has a pool of its own: 16,384, both rings of 2048 and bursts.
const PORT_BUFFERS: u64 = 24_576;

/// Of these, how many a fed trace may hold.
const PORT_TRACE: u32 = 16_000;

/// Packet buffers of each further queue of such a port: both its rings of 2048, and bursts.
const QUEUE_BUFFERS: u64 = 8_192;

/// Packet buffers of a pool that all ports share.
const SHARED_BUFFERS: u64 = 262_144;

/// Bytes of a packet buffer beside its room: DPDK's headers and Open vSwitch's own.
const HEADERS: u64 = 1024;

/// What the EAL wants for itself, in MiB.
const OWN_MEGABYTES: u64 = 128;

/// Bytes of a frame that do not count as its MTU: Ethernet header and FCS.
const BESIDE_MTU: u16 = 18;

/// MTU of a port that is not told another.
const MTU: u16 = 1500;

/// The userspace datapath, by the name it has in every instance.
const DATAPATH: &str = "netdev@ovs-netdev";

/// Its counter of flows that found no place.
const LIMIT_HIT: &str = "upcall_flow_limit_hit";

/// How long it may take a port to forward once its peer is there.
const LINKS_PATIENCE: Duration = Duration::from_secs(10);

/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The adapter.
pub(crate) struct OvsDpdk;

struct Running {
    /// Ends before the daemons.
    callers: Callers,
    instance: Instance,
    channel: FlowChannel,
    version: String,
    ports: Vec<Port>,
    threads: Vec<u32>,
    /// Its variant, and the flows that it may hold.
    variant: String,
    most_flows: u64,
    /// Whether all ports have been seen to be up: a vhost port is not before its peer is there.
    forwards: bool,
}

impl Adapter for OvsDpdk {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Open vSwitch, userspace datapath, from Debian's openvswitch-switch-dpdk"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        openflow::flows(nf, Dialect::OpenVSwitch).map(drop)
    }

    fn version(&self) -> Result<String, DutError> {
        daemon().map(|(_, version)| version)
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        Knobs::parse(variant).map(drop)
    }

    fn serves_queues(&self) -> Result<(), String> {
        Ok(())
    }

    fn takes_changes(&self, nf: Nf) -> Result<(), String> {
        self.supports(nf)
    }

    fn is_searched(&self, variant: &str) -> bool {
        knobs::is_searched(variant)
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        launch(request, openflow::flows(request.nf, Dialect::OpenVSwitch).map_err(unsupported)?, "")
    }

    fn hosts(&self) -> Option<Side> {
        // A port that makes its socket has no counters in this version.
        Some(Side::Lab)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        launch(request, openflow::crossed(request.ports.len()), "")
    }

    fn splits(&self, split: Split) -> Result<(), String> {
        splitter::splits(split)
    }

    fn start_splitter(
        &self,
        request: &StartRequest<'_>,
        paths: &HostPaths,
    ) -> Result<Box<dyn RunningDut>, DutError> {
        splitter::start(request, paths)
    }
}

/// Starts it with these flows, and the groups that they name.
fn launch(request: &StartRequest<'_>, flows: String, groups: &str) -> Result<Box<dyn RunningDut>, DutError> {
    let (program, version) = daemon()?;
    let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
    let knobs = Knobs::parse(request.variant).map_err(unsupported)?;
    let file = request.folder.write("flows.txt", &flows)?;
    let plan = Plan { dut: NAME, program: program.as_ref(), namespace: None };
    let instance = Instance::start(plan, request, &settings(request, knobs))?;
    // Groups, then the flows that name them, then ports: no packet ever misses them.
    splitter::add_groups(&instance, request, groups)?;
    instance.add_flows(&file, &flows)?;
    let ports: Vec<Port> =
        request.ports.iter().enumerate().map(|(index, port)| Port::new(index, port, request)).collect();
    let words: Vec<&str> = ports.iter().flat_map(|port| &port.words).map(String::as_str).collect();
    instance.configure(&words[1..])?; // without the first `--`
    let callers = Callers::start(ports.iter().filter_map(Port::caller).collect(), instance.writer());
    let pid = instance.daemon().map(crate::process::Process::pid).unwrap_or_default();
    let threads = cpu::threads_named(pid, &["pmd-"]);
    let (variant, most_flows) = (request.variant.to_owned(), u64::from(knobs.limit));
    // Its own, at which `ovs-ofctl` asks, too.
    let socket = request.folder.file(&format!("{BRIDGE}.mgmt"));
    let channel = FlowChannel::new(NAME, socket, request.nf, request.control_core);
    Ok(Box::new(Running {
        callers,
        instance,
        channel,
        version,
        ports,
        threads,
        variant,
        most_flows,
        forwards: false,
    }))
}

/// The daemon and its version, provided it has DPDK.
fn daemon() -> Result<(&'static str, String), DutError> {
    let with_dpdk = |program: &'static str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        version(&String::from_utf8_lossy(&output.stdout)).map(|version| (program, version))
    };
    DAEMONS.into_iter().find_map(with_dpdk).ok_or(DutError::Missing {
        dut: NAME,
        program: "ovs-vswitchd-dpdk",
        package: PACKAGE,
    })
}

/// Both versions, out of what `--version` prints; nothing without DPDK.
fn version(text: &str) -> Option<String> {
    let switch = text.lines().next()?.rsplit(' ').next()?;
    let dpdk = text.lines().find(|line| line.starts_with("DPDK "))?;
    Some(format!("OVS {switch}, {dpdk}"))
}

/// Whether each port has packet buffers of its own. A longer trace needs the shared pool, which is larger.
fn own_pools(request: &StartRequest<'_>) -> bool {
    request.buffers <= PORT_TRACE
}

/// The MTU that the largest frame asks for.
fn mtu(request: &StartRequest<'_>) -> u16 {
    (request.max_frame.bytes() - BESIDE_MTU).max(MTU)
}

fn megabytes(request: &StartRequest<'_>) -> u64 {
    let buffers = match own_pools(request) {
        true => {
            let further = QUEUE_BUFFERS * u64::from(eal::further_queues(request));
            (PORT_BUFFERS + further) * request.ports.len() as u64
        }
        false => SHARED_BUFFERS,
    };
    // It rounds the room up, to a multiple of 1024.
    let room = u64::from(mtu(request)).next_multiple_of(1024) + eal::HEADROOM;
    eal::pool_megabytes(request, buffers, room + HEADERS) + OWN_MEGABYTES
}

/// What stands in the database before the daemon starts.
fn settings(request: &StartRequest<'_>, knobs: Knobs) -> Vec<String> {
    let pages = if request.huge_pages { "--in-memory" } else { "--no-huge --legacy-mem --no-shconf" };
    let pci = if request.ports.iter().all(|port| eal::is_virtual(port)) { " --no-pci" } else { "" };
    let extra = format!("{pages}{pci} --no-telemetry -m {}", megabytes(request));
    let settings = [
        ("dpdk-init", "true".to_owned()),
        ("dpdk-lcore-mask", format!("{:#x}", 1_u128 << request.control_core)),
        (
            "pmd-cpu-mask",
            format!("{:#x}", request.workers().iter().fold(0_u128, |mask, core| mask | 1 << core)),
        ),
        ("per-port-memory", own_pools(request).to_string()),
        ("dpdk-extra", format!("\"{extra}\"")),
    ];
    let settings = settings.map(|(key, value)| format!("other_config:{key}={value}"));
    settings.into_iter().chain(knobs.settings()).collect()
}

/// What a port of the bridge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// vhost-user back end that connects to its peer's socket.
    VhostClient,
    /// vhost-user back end that makes the socket.
    VhostServer,
    /// Any port of DPDK.
    Dpdk,
}

impl Kind {
    /// The type of its interface.
    const fn name(self) -> &'static str {
        match self {
            Self::VhostClient => "dpdkvhostuserclient",
            Self::VhostServer => "dpdkvhostuser",
            Self::Dpdk => "dpdk",
        }
    }

    const fn is_vhost(self) -> bool {
        !matches!(self, Self::Dpdk)
    }
}

/// A port of the bridge.
struct Port {
    name: String,
    kind: Kind,
    /// What it connects to.
    socket: Option<PathBuf>,
    /// How `ovs-vsctl` is told to add it.
    words: Vec<String>,
}

impl Port {
    fn new(index: usize, port: &str, request: &StartRequest<'_>) -> Self {
        let vdev = Vdev::new(port);
        let mut calls = None;
        let (name, kind, option) = match (vdev.driver(), vdev.option("iface"), vdev.option("client")) {
            ("net_vhost", Some(socket), Some("1")) => {
                calls = Some(PathBuf::from(socket));
                (format!("p{index}"), Kind::VhostClient, None)
            }
            // Its socket is named after the port and lies in the run folder, which is the DUT's.
            ("net_vhost", Some(socket), _) => (file_name(socket), Kind::VhostServer, None),
            _ => (format!("p{index}"), Kind::Dpdk, Some(("dpdk-devargs", port))),
        };
        let mut words: Vec<String> =
            ["--", "add-port", BRIDGE, &name, "--", "set", "Interface", &name].map(str::to_owned).to_vec();
        words.extend([
            format!("type={}", kind.name()),
            format!("ofport_request={}", index + 1),
            format!("mtu_request={}", mtu(request)),
        ]);
        words.extend(option.map(|(key, value)| format!("options:{key}=\"{value}\"")));
        // A vhost port has as many as its peer.
        let several = request.queues > 1 && kind == Kind::Dpdk;
        words.extend(several.then(|| format!("options:n_rxq={}", request.queues)));
        Self { name, kind, socket: calls, words }
    }

    /// What it is told later.
    fn caller(&self) -> Option<Caller> {
        Some(Caller { port: self.name.clone(), socket: self.socket.clone()? })
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Running {
    /// Waits until every port forwards: those over vhost when their peers are there.
    fn wait_for_peers(&mut self) -> Result<(), DutError> {
        let vhost = self.ports.iter().filter(|port| port.kind.is_vhost()).count();
        let added = |lines: &[&str]| {
            let added = lines.iter().filter(|line| line.contains("has been added on numa node"));
            (added.count() >= vhost).then_some(())
        };
        if let Some(daemon) = self.instance.daemon() {
            let met = daemon.wait_for(0, "meet the peers of its ports", LINKS_PATIENCE, added);
            met.map_err(|error| match self.callers.failed() {
                Some(reason) => self.instance.refused("set Interface", reason.to_owned()),
                None => error,
            })?;
        }
        // Its threads take new ports up a moment later; from then on these have counters.
        let end = Instant::now() + LINKS_PATIENCE;
        while let Err(error) = self.totals() {
            // Only a refusal may be a matter of time.
            if Instant::now() > end || !matches!(error, DutError::Refused { .. }) {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
        self.forwards = true;
        Ok(())
    }

    /// Packets received and sent. Ports that are a vhost-user server keep no counters in this version:
    /// then it is what the forwarding thread took from all ports and handed to all.
    fn totals(&self) -> Result<Totals, DutError> {
        let (question, found) = if self.ports.iter().any(|port| port.kind == Kind::VhostServer) {
            let question = ["dpif-netdev/pmd-perf-show", "-nh"];
            let totals = stats::thread_totals(&self.instance.ask(&question)?);
            (question, totals.map(|totals| Totals { totals, ports: Vec::new(), megaflows: None }))
        } else {
            let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
            let question = ["dpctl/show", "-s"];
            let text = self.instance.ask(&[question[0], question[1], DATAPATH])?;
            let of = |ports: Vec<PortCounts>| Totals {
                totals: PortCounts::totals(&ports),
                ports,
                megaflows: stats::megaflows(&text),
            };
            (question, stats::by_port(&text, &names).map(of))
        };
        found.ok_or_else(|| self.instance.refused(&question.join(" "), "it shows no counters".to_owned()))
    }
}

/// What it counted over all ports, by port, and the megaflows it holds, where it says so.
struct Totals {
    totals: (u64, u64),
    ports: Vec<PortCounts>,
    megaflows: Option<u64>,
}

impl RunningDut for Running {
    fn description(&self) -> String {
        let variant = match self.variant.as_str() {
            "" => "its defaults",
            variant => variant,
        };
        format!("{}, {variant}; {}", self.version, self.instance.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        if !self.forwards {
            self.wait_for_peers()?;
        }
        let asked = Instant::now();
        let Totals { totals: (received, sent), ports, megaflows } = self.totals()?;
        let at = asked + asked.elapsed() / 2;
        let details = stats::details(&self.instance.ask(&["dpif-netdev/pmd-stats-show"])?);
        let pid = self.instance.daemon().map(Process::pid).unwrap_or_default();
        let cpu =
            self.threads.iter().filter_map(|thread| cpu::thread_cpu(pid, *thread)).map(|cpu| cpu.0).sum();
        let states = megaflows.map(|megaflows| ("megaflows".to_owned(), megaflows)).into_iter().collect();
        Ok(Counters { details, states, ports, ..Counters::new(received, sent, Nanos(cpu), at) })
    }

    fn learning(&mut self) -> Result<Option<Learning>, DutError> {
        let question = "upcall/show";
        let (flows, limit, milliseconds) =
            stats::upcalls(&self.instance.ask(&[question])?).ok_or_else(|| {
                self.instance.refused(question, "it shows no flows, no limit or no duration".to_owned())
            })?;
        // A counter that never rose is unknown to the daemon, which says so as an error.
        let refused = self.instance.ask(&["coverage/read-counter", LIMIT_HIT]);
        let refused = refused.ok().and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        let round = Nanos(milliseconds * 1_000_000);
        Ok(Some(Learning { flows, limit, most: self.most_flows, refused, round }))
    }

    fn flow_channel(&self) -> Option<FlowChannel> {
        Some(self.channel.clone())
    }

    fn choices(&self) -> &'static [&'static [&'static str]] {
        knobs::choices(&self.variant)
    }

    fn tune(&mut self, variant: &str) -> Result<(), DutError> {
        let refused = |why| self.instance.refused(variant, why);
        let knobs = Knobs::parse(variant).map_err(refused)?;
        let settings = knobs.settings();
        let words = ["set", "Open_vSwitch", "."].into_iter().chain(settings.iter().map(String::as_str));
        self.instance.configure(&words.collect::<Vec<_>>())?;
        self.most_flows = u64::from(knobs.limit);
        Ok(())
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        let pid = self.instance.daemon().map(Process::pid).unwrap_or_default();
        self.threads.iter().map(|thread| (pid, *thread)).collect()
    }

    fn processes(&self) -> Vec<&Process> {
        self.instance.daemon().into_iter().collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        self.instance.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        self.instance.stop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;
    use crate::wiring::{Fed, Side, Vhost};
    use weir_units::FrameSize;

    fn ports_of(ports: &[String], folder: &Folder) -> Vec<Port> {
        let request = request(Nf::L2Fwd, ports, folder);
        ports.iter().enumerate().map(|(index, port)| Port::new(index, port, &request)).collect()
    }

    fn words(ports: &[String], folder: &Folder) -> Vec<String> {
        ports_of(ports, folder).iter().map(|port| port.words.join(" ")).collect()
    }

    #[test]
    fn each_side_of_the_vhost_wiring_is_its_own_kind_of_port() {
        let folder = Folder::new().unwrap();
        let kinds = [
            (Side::Dut, Side::Lab, "-- add-port weir p1 -- set Interface p1 type=dpdkvhostuserclient"),
            (
                Side::Dut,
                Side::Dut,
                "-- add-port weir link1.sock -- set Interface link1.sock type=dpdkvhostuser ",
            ),
            (Side::Lab, Side::Lab, "-- add-port weir p1 -- set Interface p1 type=dpdk "),
        ];
        for (backend, server, expected) in kinds {
            let ports = Vhost { backend, server }.ports(Side::Dut, &folder, 0, 2);
            let words = words(&ports, &folder);
            assert!(words[1].starts_with(expected), "{words:?}");
            assert!(words[1].contains(" ofport_request=2 mtu_request=1500"), "{words:?}");
        }
    }

    #[test]
    fn a_port_that_connects_is_told_of_its_socket_once_that_is_there() {
        let folder = Folder::new().unwrap();
        let clients = Vhost { backend: Side::Dut, server: Side::Lab }.ports(Side::Dut, &folder, 0, 2);
        let ports = ports_of(&clients, &folder);
        assert!(ports.iter().all(|port| !port.words.concat().contains("link")), "{:?}", ports[0].words);
        let callers: Vec<Caller> = ports.iter().filter_map(Port::caller).collect();
        let of = |port: &str, socket: &str| Caller { port: port.to_owned(), socket: folder.file(socket) };
        assert_eq!(callers, [of("p0", "link0.sock"), of("p1", "link1.sock")]);
        let servers = Vhost { backend: Side::Dut, server: Side::Dut }.ports(Side::Dut, &folder, 0, 2);
        assert_eq!(ports_of(&servers, &folder).iter().find_map(Port::caller), None);
    }

    #[test]
    fn a_fed_port_is_given_to_dpdk_as_it_is() {
        let folder = Folder::new().unwrap();
        let words = words(&Fed::new(vec![vec!["/t/a.pcap".into()]], 10, 10).unwrap().ports(), &folder);
        assert!(
            words[0].ends_with("options:dpdk-devargs=\"net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1\""),
            "{words:?}"
        );
    }

    #[test]
    fn cores_and_memory_stand_in_the_database() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let mut request = request(Nf::L2Fwd, &ports, &folder);
        let line = settings(&request, Knobs::parse("").unwrap()).join(" ");
        for part in [
            "dpdk-lcore-mask=0x4",
            "pmd-cpu-mask=0x8",
            "per-port-memory=true",
            "--no-huge --legacy-mem",
            "--no-pci",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let little = megabytes(&request);
        request.buffers = 100_000;
        request.huge_pages = true;
        let line = settings(&request, Knobs::parse("").unwrap()).join(" ");
        assert!(line.contains("per-port-memory=false") && !line.contains("--no-huge"), "{line}");
        assert!(little < 400 && megabytes(&request) > 800, "{little}");
        request.max_frame = FrameSize::MAX;
        assert_eq!(mtu(&request), 9_004);
    }

    #[test]
    fn a_daemon_without_dpdk_is_none_of_ours() {
        let text = "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.11\n";
        assert_eq!(version(text).unwrap(), "OVS 3.1.0, DPDK 22.11.11");
        assert_eq!(version("ovs-vswitchd (Open vSwitch) 3.1.0\n"), None);
    }
}
