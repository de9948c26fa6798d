//! What is said to a datapath, and what it answers: plain data. What OpenFlow says of it is in `crates/openflow`.

use super::experiment::Experiment;
use super::poll::PollMode;
use super::selection::Selection;
use super::tcam::TcamConfig;
use std::collections::BTreeMap;
use weir_openflow::PortNo;
pub use weir_openflow::{
    Applied, ApplyError, BucketPlace, Change, ControlError, EntryChange, EntryEvent, Event, Evict, FlowStats,
    FlowSum, PacketIn, PacketOut, PortAbout, PortFlags, Refusal, Refused, Removal, Wants,
};
use weir_services::Limits;

/// How a datapath is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cores of its workers, one each.
    pub cores: Vec<usize>,
    /// Packet buffers for all ports.
    pub buffers: u32,
    /// The largest frame, in bytes with FCS.
    pub max_frame: weir_units::FrameSize,
    /// Bytes of a frame that a packet buffer has room for at least; the largest frame always has.
    pub room: u16,
    /// Services by the name that flows call them by; kinds that are not named here are there under
    /// their own name with default settings.
    pub services: BTreeMap<String, ServiceConfig>,
    /// Whether stages are coalesced.
    pub coalescing: bool,
    /// How a select group chooses a bucket.
    pub selection: Selection,
    /// How workers wait for packets.
    pub poll: PollMode,
    /// The table that classifies in front of each queue, if there is to be one: the port's own where it
    /// has one, otherwise emulated.
    pub tcam: Option<TcamConfig>,
    /// What is done otherwise than usual.
    pub experiment: Experiment,
    /// Megaflows that each port's new flows may have made in a second, on each worker.
    pub upcalls: u32,
    /// Draws of hashes and groups; a number makes them repeatable.
    pub seed: u64,
}

impl Config {
    /// [`Self::upcalls`] where nothing else is said: at most a quarter of a core for a port, or thereabouts.
    pub const UPCALLS: u32 = 100_000;

    /// [`Self::room`] where nothing else is said: what drivers expect.
    pub const ROOM: u16 = weir_dpdk::Pool::ROOM;
}

/// A service, as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// Its kind in the registry.
    pub kind: String,
    /// Its settings: a JSON object.
    pub settings: serde_json::Value,
    /// How much it may do wrong.
    pub limits: Limits,
}

impl ServiceConfig {
    /// A service of a kind as it is without a configuration.
    pub fn of_kind(kind: &str) -> Self {
        let settings = serde_json::Value::Object(serde_json::Map::new());
        Self { kind: kind.to_owned(), settings, limits: Limits::default() }
    }
}

/// A port to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Its name in text.
    pub name: String,
    /// Its OpenFlow number; the next free one if none.
    pub number: Option<PortNo>,
    /// An EAL vdev string, a PCI address, `null`, or `trace:RX.pcap[,tx=TX.pcap][,loop]`.
    pub spec: String,
    /// Queues; as many workers poll it at most.
    pub queues: u16,
    /// Descriptors a queue.
    pub descriptors: u16,
}

/// Everything that is to be different, in one go.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Services that come, in the order of their numbers.
    pub add_services: Vec<(String, ServiceConfig)>,
    /// Services that are built anew under their name and number, with other settings of the same kind.
    pub replace_services: Vec<(String, ServiceConfig)>,
    /// Services that go.
    pub remove_services: Vec<String>,
    /// Ports that are opened.
    pub open_ports: Vec<PortSpec>,
    /// Ports that are closed; before others are opened where these take their name or number.
    pub close_ports: Vec<PortNo>,
    /// Changes of the tables.
    pub changes: Vec<Change>,
}

/// An error of what Weir is made of, as the datapath's owner is told it.
pub(crate) fn told(error: impl std::fmt::Display) -> ControlError {
    ControlError(error.to_string())
}

/// Which packets are captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureFilter {
    /// At this port only.
    pub port: Option<PortNo>,
    /// That match this only, as they came in.
    pub matching: weir_flow::Match,
    /// Those that come in.
    pub received: bool,
    /// Those that go out.
    pub sent: bool,
    /// Bytes kept of each; 0 for all.
    pub snap: usize,
}

/// A packet that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The port.
    pub port: PortNo,
    /// Whether it went out there, rather than in.
    pub sent: bool,
    /// The time, in nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Bytes it had.
    pub length: usize,
    /// Its bytes, as many as are kept.
    pub bytes: Vec<u8>,
}
