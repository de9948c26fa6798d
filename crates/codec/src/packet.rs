//! Packets to and from a controller.

use weir_flow::Match;
use weir_openflow::{Action, PortNo, TableId};

/// How packet-ins are written (Nicira's `NXT_SET_PACKET_IN_FORMAT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketInForm {
    /// As the version of OpenFlow has it.
    #[default]
    Standard,
    /// `NXT_PACKET_IN`.
    Nicira,
    /// `NXT_PACKET_IN2`.
    Nicira2,
}

/// A packet for the controller (OpenFlow 1.3.5, section 7.4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketIn {
    /// How it is written.
    pub form: PacketInForm,
    /// Where the switch keeps the packet.
    pub buffer: Option<u32>,
    /// Bytes of the whole packet.
    pub total_len: u32,
    /// Why, by OpenFlow's number: 0 no match, 1 action, 2 invalid TTL; 3 action set, 4 group, 5 packet-out,
    /// which are 1 until OpenFlow 1.3.
    pub reason: u8,
    /// The table that sent it. Not in OpenFlow 1.0's own form.
    pub table: TableId,
    /// The cookie of the entry that sent it. Not in OpenFlow 1.0's own form.
    pub cookie: u64,
    /// The fields that do not show in the packet: port, metadata, tunnel, registers. In OpenFlow 1.0's own
    /// form, the port only.
    pub fields: Match,
    /// What the action said (`userdata`). Only in `NXT_PACKET_IN2`.
    pub userdata: Vec<u8>,
    /// The packet, or its beginning.
    pub data: Vec<u8>,
}

/// A packet from the controller (section 7.3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Where the switch keeps the packet; else it is `data`.
    pub buffer: Option<u32>,
    /// The port it is taken to have come in by: a port, [`PortNo::CONTROLLER`], or [`PortNo::ANY`] for none.
    pub in_port: PortNo,
    /// Further fields that it has (OpenFlow 1.5).
    pub fields: Match,
    /// What is done to it.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Vec<u8>,
}
