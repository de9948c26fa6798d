//! Messages: all that can be said, in one type.

use crate::*;
use weir_openflow::PortNo;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The version of its header. A [`Body::Hello`] says its own.
    pub version: Version,
    /// What pairs replies with requests.
    pub xid: u32,
    /// What it says.
    pub body: Body,
}

impl Message {
    /// A message.
    pub const fn new(version: Version, xid: u32, body: Body) -> Self {
        Self { version, xid, body }
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Versions.
    Hello(Hello),
    /// Something failed.
    Error(ErrorMessage),
    /// Are you there?
    EchoRequest(Vec<u8>),
    /// Yes, with the same bytes.
    EchoReply(Vec<u8>),
    /// What are you?
    FeaturesRequest,
    /// The switch.
    FeaturesReply(Features),
    /// How are you configured?
    GetConfigRequest,
    /// The configuration.
    GetConfigReply(Config),
    /// Be configured so.
    SetConfig(Config),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow entry went.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Flow entries change.
    FlowMod(FlowMod),
    /// A group changes.
    GroupMod(GroupMod),
    /// A port is configured.
    PortMod(PortMod),
    /// A table is configured.
    TableMod(TableMod),
    /// A meter changes.
    MeterMod(MeterMod),
    /// A question whose answer may be long.
    MultipartRequest(MultipartRequest),
    /// A part of its answer.
    MultipartReply(MultipartReply),
    /// Is all done that was asked before?
    BarrierRequest,
    /// It is.
    BarrierReply,
    /// Which queues does a port have? (Until OpenFlow 1.3.)
    QueueConfigRequest(PortNo),
    /// These.
    QueueConfigReply(QueueConfig),
    /// A controller wants a role.
    RoleRequest(RoleMessage),
    /// Its role.
    RoleReply(RoleMessage),
    /// Its role was changed (OpenFlow 1.4; ONF's extension to 1.3).
    RoleStatus(RoleStatus),
    /// Which asynchronous messages does this controller get?
    GetAsyncRequest,
    /// These.
    GetAsyncReply(AsyncConfig),
    /// It shall get these.
    SetAsync(AsyncConfig),
    /// A bundle is opened, closed, committed or discarded (OpenFlow 1.4; ONF's extension to 1.3).
    BundleControl(BundleControl),
    /// A message becomes part of a bundle.
    BundleAdd(BundleAdd),
    /// Nicira: whether flow messages of OpenFlow 1.0 use NXM.
    SetFlowFormat(FlowForm),
    /// Nicira: the form of packet-ins.
    SetPacketInFormat(PacketInForm),
    /// Nicira: whether flow-mods of OpenFlow 1.0 name a table ([`Context::flow_mod_table_id`]).
    FlowModTableId(bool),
    /// Nicira: the number by which `controller(id=…)` names this connection.
    SetControllerId(u16),
    /// Nicira: flow statistics shall say how long ago an entry was used.
    FlowAge,
    /// Nicira and ONF: a flow monitor ends.
    FlowMonitorCancel(u32),
    /// Nicira and ONF: monitors pause, because the controller reads too slowly.
    FlowMonitorPaused,
    /// Nicira and ONF: they go on.
    FlowMonitorResumed,
    /// Nicira: tracked connections are forgotten.
    CtFlush(CtFlush),
    /// Nicira: those of a zone are.
    CtFlushZone(u16),
    /// Weir: which services are there, from this number on?
    ServicesRequest(u16),
    /// Weir: these.
    ServicesReply(ServiceList),
}

/// Something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What.
    pub number: ErrorNumber,
    /// At least the first 64 bytes of the message that failed, if it was that long; for
    /// [`Code::HelloIncompatible`], words.
    pub data: Vec<u8>,
}

/// What a connection agreed on that changes how its messages are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Flow-mods of OpenFlow 1.0 name a table in the upper half of their command
    /// (`NXT_FLOW_MOD_TABLE_ID`).
    pub flow_mod_table_id: bool,
}

/// A message that could not be read, and how to answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {xid:#x} is refused with {:?}: {}", fault.code, fault.what)]
pub struct DecodeError {
    /// What is wrong.
    pub fault: Fault,
    /// The version to answer in.
    pub version: Version,
    /// The message's transaction.
    pub xid: u32,
    /// The bundle that the message was to be part of; with this, it must not be committed.
    pub bundle: Option<u32>,
    /// The first bytes of the message, at most [`ERROR_DATA`].
    pub data: Vec<u8>,
}

/// Bytes of a failed message that an error carries.
pub const ERROR_DATA: usize = 64;

impl DecodeError {
    /// The message to answer with.
    pub fn reply(self) -> Message {
        let number = self.fault.code.number(self.version);
        Message::new(self.version, self.xid, Body::Error(ErrorMessage { number, data: self.data }))
    }
}

/// The error message for a request that was read but cannot be done.
pub fn refuse(version: Version, xid: u32, code: Code, request: &[u8]) -> Message {
    let data = request[..request.len().min(ERROR_DATA)].to_vec();
    Message::new(version, xid, Body::Error(ErrorMessage { number: code.number(version), data }))
}
