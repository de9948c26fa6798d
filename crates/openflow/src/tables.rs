//! What a switch with OpenFlow tables is asked, and what it answers: plain data, and [`Tables`], who is asked.
//!
//! Why so: an agent that speaks with controllers needs no datapath, and a datapath needs no agent.

use crate::{
    Action, Bucket, Flow, FlowMod, Group, GroupId, Meter, MeterId, PortNo, Select, TableId, ToController,
};
use std::any::Any;
use std::time::Duration;
use weir_flow::Match;

/// Flow entries of all tables together, at most: a controller that floods changes does not take all memory.
pub const MOST_FLOWS: usize = 1 << 20;

/// Groups, at most.
pub const MOST_GROUPS: usize = 1 << 16;

/// Meters, at most.
pub const MOST_METERS: usize = 1 << 16;

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
    /// The service cannot be told this.
    BadArgument,
    /// An action that cannot be done, or not here.
    BadAction,
    /// `conjunction` beside other actions, or with impossible numbers.
    BadConjunction,
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
    pub fields: Match,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ControlError(pub String);

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
    pub fields: Match,
    /// Its bytes as they were then, all of them.
    pub frame: Vec<u8>,
}

/// A group with what it counted.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStats {
    /// The group.
    pub group: Group,
    /// Packets.
    pub packets: u64,
    /// Bytes, without FCS.
    pub bytes: u64,
    /// Packets and bytes by bucket.
    pub buckets: Vec<(u64, u64)>,
    /// Time since it was added.
    pub age: Duration,
    /// Flow entries that send to it.
    pub flows: usize,
}

/// A meter with what it counted.
#[derive(Clone, Debug, PartialEq)]
pub struct MeterStats {
    /// The meter.
    pub meter: Meter,
    /// Packets that met it.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Packets and bytes that each band acted on, in the order of the meter's bands.
    pub bands: Vec<(u64, u64)>,
    /// Time since it was added, or changed.
    pub age: Duration,
    /// Flow entries whose packets it polices.
    pub flows: usize,
}

/// What a port counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounts {
    /// Its number.
    pub number: PortNo,
    /// Packets received.
    pub received: u64,
    /// Bytes received, without FCS.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, without FCS.
    pub sent_bytes: u64,
    /// Packets that it could not take.
    pub send_dropped: u64,
    /// Packets that were lost before the switch saw them.
    pub missed: u64,
}

/// What a table counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSum {
    /// Its number.
    pub table: TableId,
    /// Flow entries.
    pub entries: u64,
    /// Packets looked up in it.
    pub lookups: u64,
    /// Packets for which an entry was found.
    pub matched: u64,
}

/// A copy of the tables to which changes are done before they are asked for.
pub trait Ahead: std::fmt::Debug + Send {
    /// Does a change, if it is one that can be done ahead of its time. If not, this is of no use any more.
    #[must_use]
    fn change(&mut self, change: Change) -> bool;

    /// Itself, for the switch that made it.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A switch's tables, ports and packets, as a controller asks for them.
pub trait Tables {
    /// Changes the tables, as a whole or not at all. When it returns, the new ones are in use.
    ///
    /// # Errors
    /// Which change cannot be done and why; nothing was changed.
    fn apply(&mut self, changes: Vec<Change>) -> Result<(), ControlError>;
    /// The same, for whoever wants to know which change was refused and why, and (`tell`) what became of flow entries.
    ///
    /// # Errors
    /// As above.
    fn apply_all(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ApplyError>;
    /// Does those changes that can be done, all at once: as if each had been applied by itself, at the cost of one.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn apply_each(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ControlError>;
    /// A copy of the tables, for changes ahead of their time; nothing where that is not done now.
    fn ahead(&self) -> Option<Box<dyn Ahead>>;
    /// Has changes that were done ahead take effect. False, and nothing is done, if the tables are no longer those that
    /// it is a copy of.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn apply_ahead(&mut self, ahead: Box<dyn Ahead>) -> Result<bool, ControlError>;
    /// The services that flows can call, rising by number: number, name and kind.
    fn services(&self) -> Vec<(u16, String, String)> {
        Vec::new()
    }
    /// All groups, with what they counted.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn groups(&mut self) -> Result<Vec<GroupStats>, ControlError>;
    /// All meters, with what they counted.
    fn meters(&mut self) -> Vec<MeterStats>;
    /// All flow entries, with what they counted.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn flows(&mut self) -> Result<Vec<FlowStats>, ControlError>;
    /// The flow entries that are selected, with what they counted.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn flows_of(&mut self, select: &Select) -> Result<Vec<FlowStats>, ControlError>;
    /// What the selected flow entries counted together.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn sum_of(&mut self, select: &Select) -> Result<FlowSum, ControlError>;
    /// The ports.
    fn ports(&self) -> Vec<PortAbout>;
    /// What ports counted.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn port_counts(&mut self) -> Result<Vec<PortCounts>, ControlError>;
    /// What tables counted; one without an entry may be left out.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn table_counts(&mut self) -> Result<Vec<TableSum>, ControlError>;
    /// Tells a port what it is to do.
    ///
    /// # Errors
    /// No such port.
    fn configure_port(&mut self, number: PortNo, flags: PortFlags) -> Result<(), ControlError>;
    /// Says what controllers want to have that no action sends them.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn set_wants(&mut self, wants: Wants) -> Result<(), ControlError>;
    /// Does actions to a packet. It is on its way when this returns, and gone after [`Self::settled`].
    ///
    /// # Errors
    /// What cannot be done with it.
    fn packet_out(&mut self, packet: PacketOut) -> Result<(), Refused>;
    /// Waits until all packets that were sent out are gone.
    ///
    /// # Errors
    /// A worker that does not answer.
    fn settled(&mut self) -> Result<(), ControlError>;
    /// Packets for controllers that wait.
    fn packet_ins(&mut self) -> Vec<PacketIn>;
    /// What happened by itself since it was asked last.
    fn happened(&mut self) -> Vec<Event>;
    /// Asks all instances of a service something; an answer an instance.
    ///
    /// # Errors
    /// No such service, or one that does not understand.
    fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<Vec<serde_json::Value>, ControlError>;
}
