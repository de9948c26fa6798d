//! Devices under test: one adapter a file, and the wirings that reach them.
//!
//! An [`Adapter`] translates an [`Nf`] into its dataplane's own language, starts it (a process of
//! its own, if it is a program), reads its counters and stops it. Adding a dataplane is one file and one line in
//! [`ADAPTERS`]. What a dataplane cannot do is refused with the reason ([`DutError::Unsupported`]),
//! never imitated.
//!
//! - [`wiring`]: how the lab's ports reach the DUT's;
//! - [`process`]: a supervised child that cannot outlive the lab;
//! - `guest`: a function in a virtual machine;
//! - [`folder`]: sockets and files of one DUT, gone when it is;
//! - [`namespace`]: a network namespace that goes with its owner.
//!
//! Threads: each child has one thread that waits for its end and two that read what it prints;
//! all three sleep while the DUT forwards in silence.

mod bess;
pub mod chain;
mod controlled;
mod counters;
mod cpu;
mod eal;
mod error;
mod example;
mod external;
mod fastclick;
pub mod folder;
mod found;
mod guest;
mod ip_pipeline;
mod l2fwd;
mod l3fwd;
mod linux;
mod lpm;
pub mod namespace;
mod nf;
mod openflow;
mod outside;
mod ovs;
pub mod process;
pub mod server;
mod simulated;
mod telemetry;
mod testpmd;
pub mod vhost_events;
mod vpp;
mod weir;
pub mod wiring;
mod xdp;

pub use counters::{Counters, PortCounts};
pub use cpu::{core_of, thread_cpu};
pub use eal::SPARE_BUFFERS;
pub use error::DutError;
pub use guest::lacks as guest_lacks;
pub use openflow::churn::{Changed, Churn, FlowChannel};
pub use outside::Command;
pub use simulated::is_made_of_parts;

use chain::HostPaths;
use folder::Folder;
use namespace::Namespace;
use process::Process;
use server::Far;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_trial::{Conduct, Nf, Server, Split};
use weir_units::{FrameSize, Nanos};
use wiring::{External, Side, WiringKind};

/// A dataplane that the lab can start.
pub trait Adapter: Sync {
    /// The name people type.
    fn name(&self) -> &'static str;

    /// One line of what it is.
    fn about(&self) -> &'static str;

    /// How it comes to be there.
    fn kind(&self) -> Kind {
        Kind::Started
    }

    /// The wirings it can be reached by.
    fn wirings(&self) -> &'static [WiringKind];

    /// Whether it can be this network function; the reason where it cannot.
    fn supports(&self, nf: Nf) -> Result<(), String>;

    /// The version found on this machine; an error that says how to install it where it is missing.
    fn version(&self) -> Result<String, DutError>;

    /// Whether this variant is a program that somebody else has started: nothing of it need be installed here.
    fn already_runs(&self, _variant: &str) -> bool {
        false
    }

    /// Why this variant cannot be started here, its program being one that has to be built by hand and is nowhere; found
    /// out without starting anything. Nothing of a device that Debian has, or that is part of Weir.
    fn unbuilt(&self, _variant: &str) -> Option<DutError> {
        None
    }

    /// Whether it comes in this variant (what stands behind `:` in a device's name); what variants
    /// there are where not.
    fn takes(&self, variant: &str) -> Result<(), String> {
        if variant.is_empty() { Ok(()) } else { Err(format!("{} has no variants", self.name())) }
    }

    /// Whether this variant is found by a search while it forwards, so that it needs the `fed` wiring.
    fn is_searched(&self, _variant: &str) -> bool {
        false
    }

    /// Whether the kernel forwards for it, in interrupts, so that no thread of it can be held back.
    fn forwards_in_kernel(&self) -> bool {
        false
    }

    /// Whether its packets reach the lab's ends of `veth` only if these are polled ([`wiring::VethPairs::poll_lab`]).
    fn wants_polled_ends(&self) -> bool {
        false
    }

    /// Queues of each port in this variant, one a forwarding thread.
    fn queues(&self, _variant: &str) -> usize {
        1
    }

    /// Whether its ports can have several queues ([`StartRequest::queues`]); the reason where not.
    fn serves_queues(&self) -> Result<(), String> {
        Err(format!(
            "{} is started with one queue a port; nf, weir, testpmd and ovs-dpdk take more",
            self.name()
        ))
    }

    /// Most packets that it can feed itself with, in the `fed` wiring.
    fn most_fed(&self) -> u32 {
        wiring::Fed::MOST_PACKETS
    }

    /// Whether, in the `fed` wiring, it makes the packets of a lap from templates, with client ports that change from lap to lap
    /// ([`weir_wire::lap`]); the reason where not.
    fn makes_laps(&self) -> Result<(), String> {
        Err(format!(
            "over `fed`, {} replays a capture, in which connections would come again with the ports they had; weir makes the packets of \
             this trace itself, and over `vhost` the lab sends them",
            self.name()
        ))
    }

    /// Whether a controller can change the flow entries of a function while it forwards; the reason where not.
    fn takes_changes(&self, _nf: Nf) -> Result<(), String> {
        Err(format!("{} has no flow entries that a controller could change", self.name()))
    }

    /// What it does with packets that have no route, where that is not to drop them: they are left out
    /// when its packets are compared, and the reader is told.
    fn deviates(&self, _nf: Nf) -> Option<&'static str> {
        None
    }

    /// What has to be connected beside its ports, in words, where somebody else starts it.
    fn to_connect(&self, _variant: &str) -> Option<String> {
        None
    }

    /// Starts it. It must have its ports open and forward before this returns.
    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError>;

    /// Whether it can run on another machine; the reason where not.
    fn runs_on(&self, server: &Server) -> Result<(), String> {
        Err(format!("{} is started on this machine alone; nf and weir run at {server}", self.name()))
    }

    /// As a function behind a host: whether it has the driver's side of vhost-user (`net_virtio_user`); the reason where not.
    fn drives_vhost(&self) -> Result<(), String> {
        Ok(())
    }

    /// As the host of other processes: which side makes the sockets between it and them; nothing of a dataplane
    /// that cannot be one.
    fn hosts(&self) -> Option<Side> {
        None
    }

    /// Starts it as a host: it forwards between its ports 0 and 1, 2 and 3, and so on.
    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let reason = format!("{} hosts no other processes", self.name());
        Err(DutError::Unsupported { dut: self.name(), nf: request.nf, reason })
    }

    /// As a host: whether it can split packets so among copies of a chain; the reason where not.
    fn splits(&self, _split: Split) -> Result<(), String> {
        Err(format!(
            "{} forwards between pairs of ports and splits no packets; weir does, and ovs-dpdk by flow",
            self.name()
        ))
    }

    /// Starts it as a host that splits packets, in a way that it [can](Self::splits).
    fn start_splitter(
        &self,
        request: &StartRequest<'_>,
        paths: &HostPaths,
    ) -> Result<Box<dyn RunningDut>, DutError> {
        let reason = self.splits(paths.split).err().unwrap_or_else(|| "it splits no packets".to_owned());
        Err(DutError::Unsupported { dut: self.name(), nf: request.nf, reason })
    }
}

/// How a device comes to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lab starts it.
    Started,
    /// Somebody else started it: the lab makes its end of the wiring, and waits.
    OnTheWire,
    /// Its trials are computed: it has no ports, takes no core, and its wiring in a result is its own name.
    Arithmetic,
}

/// What an adapter needs to know to start its dataplane.
#[derive(Clone, Debug)]
pub struct StartRequest<'a> {
    /// The network function.
    pub nf: Nf,
    /// The variant, one that [`Adapter::takes`]; empty for the usual one.
    pub variant: &'a str,
    /// The DUT's ports, in order, as EAL `--vdev` strings or PCI addresses.
    pub ports: &'a [String],
    /// The core that forwards.
    pub core: usize,
    /// Receive queues of each port, and as many transmit queues: one, unless it [serves more](Adapter::serves_queues).
    pub queues: u16,
    /// The cores of further forwarding threads, which share out the queues with the first: fewer than queues.
    pub further: &'a [usize],
    /// The core for everything else of the DUT.
    pub control_core: usize,
    /// Whether it takes its memory from huge pages.
    pub huge_pages: bool,
    /// Packet buffers that the ports need beside those in flight (a `fed` source keeps its trace in them).
    pub buffers: u32,
    /// The largest frame.
    pub max_frame: FrameSize,
    /// Where it may put files.
    pub folder: &'a Folder,
    /// The network namespace that its ports are in, where the wiring has one; the interfaces there
    /// are [`wiring::INTERFACES`].
    pub namespace: Option<&'a Arc<Namespace>>,
    /// What the plan says of a device that somebody else started.
    pub external: &'a External,
    /// Whether other forwarding threads take turns with it on its core.
    pub shared_core: bool,
    /// Whether it gets namespaces of its own (mount, network, processes).
    pub contained: bool,
    /// Its part in memory that several processes have in common; nothing where it has its own.
    pub sharing: Option<Sharing<'a>>,
    /// The machine on which it runs, over ssh; nothing for this one.
    pub far: Option<&'a Server>,
    /// Raised when the DUT ends by itself.
    pub alarm: Arc<AtomicBool>,
}

/// A process's part in memory that several have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing<'a> {
    /// Where they meet.
    pub folder: &'a Path,
    /// Pairs of rings that it makes, as the owner; nothing of one that attaches.
    pub links: Option<usize>,
}

impl StartRequest<'_> {
    /// The cores of all forwarding threads.
    pub fn workers(&self) -> Vec<usize> {
        std::iter::once(self.core).chain(self.further.iter().copied()).collect()
    }

    /// Starts Weir's own program as this device, here or on the machine where it is to run.
    pub(crate) fn start_own(
        &self,
        dut: &'static str,
        program: &Path,
        arguments: Vec<String>,
    ) -> Result<Process, DutError> {
        if let Some(server) = self.far {
            let program = server::own_program(server)?;
            let far = Far { server, program: &program, arguments: &arguments, folder: self.folder.path() };
            return far.start(dut, self.alarm.clone());
        }
        let (program, arguments) = self.command(program.as_os_str(), arguments);
        weir_cpu::Tsc::get(); // so that it is known, and told
        Process::start(dut, &program, &arguments, self.alarm.clone())
    }

    /// A command line, moved into the namespace of the ports where there is one.
    pub fn command(&self, program: &OsStr, arguments: Vec<String>) -> (OsString, Vec<OsString>) {
        let arguments = arguments.into_iter().map(OsString::from);
        if self.contained {
            let words = chain::CONTAIN.iter().map(OsString::from).chain([program.to_owned()]);
            return (chain::CONTAINER.into(), words.chain(arguments).collect());
        }
        let Some(namespace) = self.namespace else { return (program.to_owned(), arguments.collect()) };
        let mut inside = OsString::from("--net=");
        inside.push(namespace.path());
        let inside = [inside, "--".into(), program.to_owned()];
        ("nsenter".into(), inside.into_iter().chain(arguments).collect())
    }
}

/// What a dataplane says of the flows it learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Flows it holds.
    pub flows: u64,
    /// Flows that it allows itself now.
    pub limit: u64,
    /// Flows that it may ever allow itself: what is configured.
    pub most: u64,
    /// Flows that found no place since its start.
    pub refused: u64,
    /// How long its last look at all of them took.
    pub round: Nanos,
}

/// A dataplane at work.
pub trait RunningDut: Send {
    /// Version and command line, for the record.
    fn description(&self) -> String;

    /// Whether it has counters at all; a box that nobody started has none.
    fn has_counters(&self) -> bool {
        true
    }

    /// Reads the counters. Never called while a trial runs.
    fn counters(&mut self) -> Result<Counters, DutError>;

    /// Has it read the tester's stamps, scrambled with this key, where packets come in and leave; whether it can.
    fn tap(&mut self, _key: &str) -> Result<bool, DutError> {
        Ok(false)
    }

    /// What it says of the flows it learns; nothing for one that does not say, or learns none.
    fn learning(&mut self) -> Result<Option<Learning>, DutError> {
        Ok(None)
    }

    /// One of its details that is to grow by so many a second while it is measured; nothing where none is.
    fn pace(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// Where its flow entries are changed while it forwards; nothing where they cannot be.
    fn flow_channel(&self) -> Option<FlowChannel> {
        None
    }

    /// What a search for its best variant tries, knob by knob, beside the default; nothing where its variant
    /// asks for no search.
    fn choices(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Turns its knobs while it forwards: those of the variant as it says, all others back to the default.
    /// Called with what [`Self::choices`] has, joined by `+`.
    fn tune(&mut self, variant: &str) -> Result<(), DutError> {
        unreachable!("a device without choices was asked for `{variant}`")
    }

    /// Its forwarding threads, as process and thread ids; empty where there are none to name.
    fn threads(&self) -> Vec<(u32, u32)>;

    /// What it did so far beside forwarding.
    fn conduct(&self) -> Conduct {
        let all = self.processes().into_iter().map(process::Process::conduct);
        all.reduce(|sum, one| sum + one).unwrap_or_default()
    }

    /// The processes that forward: frozen while another device is measured on their core, and asked for
    /// their conduct. None of a device that is no process of ours.
    fn processes(&self) -> Vec<&process::Process>;

    /// Files that configured its parts, where these have folders of their own: name and text.
    fn texts(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Why it is not running any more, with its last words; nothing while it runs.
    fn ended(&mut self) -> Option<DutError>;

    /// Stops it and waits for its end. Dropping does the same, less politely.
    fn stop(self: Box<Self>) -> Result<(), DutError>;
}

/// The flow entries that make a network function of Weir's switch, as `ovs-ofctl add-flows` reads them; the reason
/// where it has none.
pub fn flow_entries(nf: Nf) -> Result<String, String> {
    openflow::flows(nf, openflow::Dialect::Weir)
}

/// Every adapter, in the order of the tables people read.
pub const ADAPTERS: &[&dyn Adapter] = &[
    &nf::NfProgram::EARNEST,
    &weir::Weir,
    &testpmd::Testpmd,
    &ovs::OvsDpdk,
    &ovs::Ovs,
    &l2fwd::L2Fwd,
    &l3fwd::L3Fwd,
    &ip_pipeline::IpPipeline,
    &fastclick::FastClick,
    &bess::Bess,
    &vpp::Vpp,
    &linux::Linux,
    &xdp::Xdp,
    &external::SomebodyElses,
    &controlled::OpenFlow,
    &outside::Undescribed,
    &nf::NfProgram::FAULTY,
    &simulated::Simulated,
];

/// Why a dataplane without OpenFlow tables cannot be a function that is made of them.
pub(crate) fn wants_tables(dut: &str, nf: Nf) -> String {
    match nf.translates() {
        Some(_) => {
            format!("{dut} tracks no connections, whose addresses {} would translate", nf.kind().name())
        }
        None => format!("{dut} has no OpenFlow tables, of which {} is made", nf.kind().name()),
    }
}

/// The names that a plan's `dut` may hold.
pub fn names() -> Vec<&'static str> {
    ADAPTERS.iter().map(|adapter| adapter.name()).collect()
}

/// What stands between the devices of a chain's functions, where they are not all the same.
pub const BETWEEN: char = '|';

/// The devices of a chain's functions, in order; one, if all are the same.
pub fn devices(text: &str) -> Vec<&str> {
    text.split(BETWEEN).collect()
}

/// The adapter of a device's name, `NAME` or `NAME:VARIANT`; of several devices in a row, the first one's.
pub fn adapter(device: &str) -> Option<&'static dyn Adapter> {
    let (name, variant) = split(devices(device)[0]);
    if name == outside::NAME
        && let Ok(described) = outside::described(variant)
    {
        return Some(described);
    }
    ADAPTERS.iter().copied().find(|adapter| adapter.name() == name)
}

/// How a device comes to be there; one of an unknown name would have to be started.
pub fn kind(device: &str) -> Kind {
    adapter(device).map_or(Kind::Started, Adapter::kind)
}

/// Whether a device of a known name comes in the variant it is named with; the mistake where not.
pub fn check_variant(device: &str) -> Result<(), String> {
    match (adapter(device), split(device)) {
        (Some(adapter), (_, variant)) => adapter.takes(variant),
        (None, (_, "")) => Ok(()),
        (None, (name, _)) => Err(format!("{name} has no variants")),
    }
}

/// What stands behind a device's name where it is measured against itself (an A/A comparison): the same device
/// under another name.
pub const AGAIN: &str = "#2";

/// Name and variant of a device; the variant is empty where none is named.
pub fn split(device: &str) -> (&str, &str) {
    let device = device.strip_suffix(AGAIN).unwrap_or(device);
    device.split_once(':').unwrap_or((device, ""))
}
