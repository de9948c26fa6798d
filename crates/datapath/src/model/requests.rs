//! What is said to a datapath, and what it answers: plain data.

use super::poll::PollMode;
use super::tcam::TcamConfig;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::{Bucket, Flow, FlowMod, Group, GroupId, Meter, MeterId, PortNo, TableId, ToController};
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
    /// How workers wait for packets.
    pub poll: PollMode,
    /// The table that classifies in front of each queue, if there is to be one: the port's own where it
    /// has one, otherwise emulated.
    pub tcam: Option<TcamConfig>,
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

/// One change of the tables. A list of them is done as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Flow entries.
    Flow(FlowMod),
    /// A group is added, or replaced.
    SetGroup(Group),
    /// A group is added; it is refused if it is there.
    AddGroup(Group),
    /// A group is replaced; it is refused if it is not there.
    ModifyGroup(Group),
    /// Buckets are put into a group.
    InsertBuckets(GroupId, BucketPlace, Vec<Bucket>),
    /// Buckets of a group go.
    RemoveBuckets(GroupId, BucketPlace),
    /// A group goes, and the flows that use it; all groups if none is named.
    DeleteGroup(Option<GroupId>),
    /// A meter is added, or replaced.
    SetMeter(Meter),
    /// A meter is added; it is refused if it is there.
    AddMeter(Meter),
    /// A meter is replaced; it is refused if it is not there.
    ModifyMeter(Meter),
    /// A meter goes, and the flows that use it; all meters if none is named.
    DeleteMeter(Option<MeterId>),
    /// Whether entries of a table (all tables if none is named) make room for others when there are too many, and
    /// which.
    SetEviction(Option<TableId>, Option<Evict>),
}

/// By what entries are chosen that go to make room for others (OpenFlow 1.4.1, section 7.3.4.1); of
/// equals the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evict {
    /// The least important first, and never one for another that is less important.
    pub importance: bool,
    /// First what goes soonest by itself.
    pub lifetime: bool,
}

/// Where buckets are put into a group, or which of them go (OpenFlow 1.5.1, section 7.3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// Before the first; the first.
    First,
    /// Behind the last; the last.
    Last,
    /// All of them go.
    All,
    /// Behind the bucket of this number; that bucket.
    Number(u32),
}

/// What is wrong with a change of the tables, for whoever has to name it by a number. [`Refused`] has the
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such table.
    NoTable,
    /// The table to go to is not a later one.
    BadGoto,
    /// No packet can have what is matched.
    BadMatch,
    /// The flow overlaps another, which it forbids.
    Overlap,
    /// No more flow entries.
    TableFull,
    /// Nothing can be sent to this port.
    BadPort,
    /// An action names a group that is not there.
    NoGroup,
    /// An action or instruction names a meter that is not there.
    NoMeter,
    /// There is no such service.
    NoService,
    /// An action that cannot be done, or not here.
    BadAction,
    /// The group to be added is there.
    GroupExists,
    /// The group to be changed is not there.
    GroupUnknown,
    /// An impossible group.
    GroupInvalid,
    /// Groups would lead in a circle.
    GroupLoop,
    /// A group would lead to too many others.
    GroupsChained,
    /// No more groups.
    GroupsExhausted,
    /// No more buckets in this group.
    BucketsExhausted,
    /// The bucket to be put in is there.
    BucketExists,
    /// The bucket that is named is not there.
    BucketUnknown,
    /// The meter to be added is there.
    MeterExists,
    /// The meter to be changed is not there.
    MeterUnknown,
    /// An impossible meter.
    MeterInvalid,
    /// No more meters.
    MetersExhausted,
}

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// What is wrong.
    pub why: Refusal,
    /// The same for people, with what and where.
    pub text: String,
}

/// Why a list of changes was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// One of them cannot be done: its place in the list, and why.
    #[error("{1}")]
    Refused(usize, Refused),
    /// The datapath.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// What became of a list of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// Those that were refused, by their places in the list; all others were done.
    pub refused: Vec<(usize, Refused)>,
    /// What became of flow entries, in order, where that was asked for.
    pub entries: Vec<EntryChange>,
}

/// What became of a flow entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryChange {
    /// The place of the change that did it.
    pub at: usize,
    /// The entry; as it was, if it went.
    pub flow: Flow,
    /// What became of it.
    pub what: EntryEvent,
}

/// What became of a flow entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryEvent {
    /// It is new.
    Added,
    /// It was changed, or took the place of another.
    Modified,
    /// It went.
    Removed(Removal),
}

/// What a port is told (OpenFlow 1.3.5, section 7.2.1: `ofp_port_config`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFlags {
    /// It neither receives nor sends.
    pub down: bool,
    /// What it receives is dropped.
    pub no_receive: bool,
    /// What is sent to it is dropped.
    pub no_forward: bool,
    /// What it receives goes to no controller.
    pub no_packet_in: bool,
    /// It takes no part in floods (OpenFlow 1.0).
    pub no_flood: bool,
}

/// A port, for a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAbout {
    /// Its number.
    pub number: PortNo,
    /// Its name.
    pub name: String,
    /// Its address; all zero where it has none.
    pub mac: [u8; 6],
    /// Whether its link is up.
    pub link_up: bool,
    /// What it was told.
    pub flags: PortFlags,
    /// How long it has been there.
    pub age: Duration,
}

/// What controllers want to have that no action sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Packets for which no flow entry is found (OpenFlow 1.0).
    pub misses: bool,
    /// Packets whose time to live is used up.
    pub expired: bool,
}

/// A packet from a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOut {
    /// The port it is taken to have come in by.
    pub in_port: PortNo,
    /// Further fields that it has (OpenFlow 1.5).
    pub fields: weir_flow::Match,
    /// What is done with it.
    pub actions: Vec<weir_openflow::Action>,
    /// Its bytes.
    pub frame: Vec<u8>,
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

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ControlError(pub String);

/// An error of what Weir is made of, as the datapath's owner is told it.
pub(crate) fn told(error: impl std::fmt::Display) -> ControlError {
    ControlError(error.to_string())
}

/// A flow entry with what it counted.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowStats {
    /// The entry.
    pub flow: Flow,
    /// Packets.
    pub packets: u64,
    /// Bytes, without FCS.
    pub bytes: u64,
    /// Time since it was added.
    pub age: Duration,
    /// Time since its last packet.
    pub idle: Duration,
}

/// What several flow entries counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSum {
    /// How many they are.
    pub flows: usize,
    /// Packets.
    pub packets: u64,
    /// Bytes, without FCS.
    pub bytes: u64,
}

/// Why a flow entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Idle timeout.
    Idle,
    /// Hard timeout.
    Hard,
    /// Somebody deleted it.
    Delete,
    /// The group that it used was deleted.
    Group,
    /// The meter that it used was deleted.
    Meter,
    /// It made room for another.
    Eviction,
}

/// What happened by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A flow entry went: by itself, or, if it was added with `send_flow_rem`, because it was deleted.
    /// One that another takes the place of is not told (OpenFlow 1.3.5, section 6.4).
    FlowRemoved(FlowStats, Removal),
    /// A port's link changed.
    Link(PortNo, bool),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A service was put in quarantine: its name and why.
    Quarantined(String, String),
}

/// A packet for the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketIn {
    /// The port it came in by.
    pub in_port: PortNo,
    /// OpenFlow's reason: 0 a table-miss entry or no entry, 1 an action, 2 an invalid TTL, 3 the action set, 4 a
    /// group, 5 a packet-out (OpenFlow 1.4.1, section 7.4.1).
    pub reason: u8,
    /// The table that sent it.
    pub table: u8,
    /// The cookie of the entry that sent it; all ones if none did.
    pub cookie: u64,
    /// Who gets it, and how much of it. Nobody in particular for a packet without an entry.
    pub to: ToController,
    /// Fields that do not show in its bytes: port, metadata, registers and the like, those that are not 0.
    pub fields: weir_flow::Match,
    /// Its bytes as they were then, all of them.
    pub frame: Vec<u8>,
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
