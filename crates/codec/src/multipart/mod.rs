//! Multiparts (statistics, in OpenFlow 1.0): questions whose answers may need several messages.

mod foreign;
mod monitor;
mod number;
pub(crate) mod reply;
pub(crate) mod request;
mod stats;

use crate::*;
use weir_flow::Match;
use weir_openflow::{Group, GroupId, Instructions, Meter, MeterId, PortNo, TableId};

/// A question (OpenFlow 1.3.5, section 7.3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRequest {
    /// Whether another message continues it.
    pub more: bool,
    /// What is asked.
    pub request: Request,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Who made the switch.
    Desc,
    /// Flow entries. In OpenFlow 1.5, without counters but with their instructions.
    Flow(FlowQuery),
    /// Counters of flow entries, without their instructions (OpenFlow 1.5).
    FlowStats(FlowQuery),
    /// The sum of their counters.
    Aggregate(FlowQuery),
    /// Tables' counters.
    Table,
    /// A port's counters; [`PortNo::ANY`] for all.
    Port(PortNo),
    /// Queues' counters.
    Queue(QueueQuery),
    /// A group's counters; [`ALL_GROUPS`] for all.
    Group(GroupId),
    /// Groups; all but in OpenFlow 1.5.
    GroupDesc(GroupId),
    /// What groups can do.
    GroupFeatures,
    /// A meter's counters; [`ALL_METERS`] for all.
    Meter(MeterId),
    /// A meter; [`ALL_METERS`] for all.
    MeterConfig(MeterId),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; or, if not empty, that they shall do this.
    TableFeatures(Vec<TableFeatures>),
    /// Ports; all but in OpenFlow 1.5.
    PortDesc(PortNo),
    /// Tables' configuration (OpenFlow 1.4).
    TableDesc,
    /// Queues (OpenFlow 1.4).
    QueueDesc(QueueQuery),
    /// Changes of flow entries from now on (OpenFlow 1.4; ONF's and Nicira's extensions before).
    Monitor(Vec<MonitorRequest>),
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartReply {
    /// Whether another message continues it.
    pub more: bool,
    /// What is answered.
    pub reply: Reply,
}

/// What is answered. Lists of any length can be encoded: they become as many messages as they need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Who made the switch.
    Desc(Desc),
    /// Flow entries.
    Flow(FlowForm, Vec<FlowStats>),
    /// Counters of flow entries (OpenFlow 1.5).
    FlowStats(Vec<FlowStats>),
    /// The sum of their counters.
    Aggregate(FlowForm, Aggregate),
    /// Tables' counters.
    Table(Vec<TableStats>),
    /// Ports' counters.
    Port(Vec<PortStats>),
    /// Queues' counters.
    Queue(Vec<QueueStats>),
    /// Groups' counters.
    Group(Vec<GroupStats>),
    /// Groups.
    GroupDesc(Vec<Group>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Meters' counters.
    Meter(Vec<MeterStats>),
    /// Meters.
    MeterConfig(Vec<Meter>),
    /// What meters can do.
    MeterFeatures(MeterFeatures),
    /// What tables can do.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    PortDesc(Vec<Port>),
    /// Tables' configuration.
    TableDesc(Vec<TableDesc>),
    /// Queues.
    QueueDesc(Vec<Queue>),
    /// Changes of flow entries.
    Monitor(Vec<FlowUpdate>),
}

/// Who made the switch (section 7.3.5.1). At most 255 bytes each are sent, of the serial number 31.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Who made it.
    pub manufacturer: String,
    /// What it runs on.
    pub hardware: String,
    /// What it runs.
    pub software: String,
    /// Its number.
    pub serial: String,
    /// What it is here.
    pub datapath: String,
}

/// What is done with a flow monitor (OpenFlow 1.4.1, section 7.3.5.19); before, one can only be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MonitorCommand {
    /// It is added.
    Add = 0,
    /// It is changed.
    Modify = 1,
    /// It goes.
    Delete = 2,
}

/// Which changes a controller wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    /// The monitor's number, chosen by the controller.
    pub id: u32,
    /// What is done with it.
    pub command: MonitorCommand,
    /// What is told: [`MonitorRequest::INITIAL`] and so on.
    pub flags: u16,
    /// Of entries of this table; none for all.
    pub table: Option<TableId>,
    /// That send to this port.
    pub out_port: Option<PortNo>,
    /// That send to this group. OpenFlow 1.4.
    pub out_group: Option<GroupId>,
    /// That this covers.
    pub matching: Match,
}

impl MonitorRequest {
    /// Entries that are there when the monitor begins.
    pub const INITIAL: u16 = 1 << 0;
    /// Entries that are added.
    pub const ADD: u16 = 1 << 1;
    /// Entries that go.
    pub const REMOVED: u16 = 1 << 2;
    /// Entries that change.
    pub const MODIFY: u16 = 1 << 3;
    /// With their instructions.
    pub const INSTRUCTIONS: u16 = 1 << 4;
    /// Also the controller's own changes in full.
    pub const NO_ABBREV: u16 = 1 << 5;
    /// Only the controller's own changes (OpenFlow 1.4 and ONF).
    pub const ONLY_OWN: u16 = 1 << 6;
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateEvent {
    /// It was there when the monitor began; before OpenFlow 1.4, the same as `Added`.
    Initial,
    /// It was added.
    Added,
    /// It went, for this reason (as in [`FlowRemoved`]).
    Removed(u8),
    /// It was changed.
    Modified,
}

/// A change of flow entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// In full.
    Full {
        /// What happened.
        event: UpdateEvent,
        /// The entry's table.
        table: TableId,
        /// Its priority.
        priority: u16,
        /// Its idle timeout in seconds.
        idle_timeout: u16,
        /// Its hard timeout in seconds.
        hard_timeout: u16,
        /// Its cookie.
        cookie: u64,
        /// What it matches.
        matching: Match,
        /// What it does, if that was asked for.
        instructions: Instructions,
    },
    /// The controller's own change, by its transaction.
    Abbreviated(u32),
    /// Nothing is told for now (OpenFlow 1.4).
    Paused,
    /// It is again (OpenFlow 1.4).
    Resumed,
}
