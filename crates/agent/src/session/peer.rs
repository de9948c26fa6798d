//! What is known of one controller.

use super::bundle::Bundles;
use super::bytes;
use super::stats::{Parts, without_unsayable};
use crate::ConnectionId;
use crate::channel::Line;
use std::collections::BTreeMap;
use weir_codec::{
    AsyncConfig, AsyncKind, Body, Code, ERROR_DATA, ErrorMessage, FlowForm, Message, MonitorRequest,
    PacketInForm, Role, Version, encode, refuse,
};

/// Bytes of a packet that a table miss sends where nobody said how many (OpenFlow 1.3.5, section 7.3.2).
const MISS_SEND_LEN: u16 = 128;

/// A controller.
pub(super) struct Peer {
    pub(super) version: Version,
    called: bool,
    line: Line,
    pub(super) role: Role,
    /// What it said of asynchronous messages.
    pub(super) asked: AsyncConfig,
    /// How it wants packets to be written.
    pub(super) packet_form: PacketInForm,
    /// How it wants flow entries to be written in OpenFlow 1.0.
    pub(super) flow_form: FlowForm,
    /// The number by which actions name it.
    pub(super) controller_id: u16,
    pub(super) miss_send_len: u16,
    /// Whether it said so itself.
    pub(super) configured: bool,
    /// Whether it wants packets with an invalid TTL (OpenFlow 1.0).
    pub(super) wants_expired: bool,
    pub(super) monitors: BTreeMap<u32, MonitorRequest>,
    pub(super) bundles: Bundles,
    pub(super) parts: Parts,
}

impl Peer {
    pub(super) fn new(version: Version, called: bool, line: Line) -> Self {
        Self {
            version,
            called,
            bundles: Bundles::new(line.clone()),
            parts: Parts::new(&line),
            line,
            role: Role::Equal,
            asked: AsyncConfig::default(),
            packet_form: PacketInForm::Standard,
            flow_form: FlowForm::Standard,
            controller_id: 0,
            miss_send_len: MISS_SEND_LEN,
            // Whoever the switch called hears of packets without an entry by default, as Open vSwitch has it; a
            // tool that looks in for a moment does not.
            configured: called,
            wants_expired: false,
            monitors: BTreeMap::new(),
        }
    }

    /// Answers a request. Of an answer that the version cannot say, what it can.
    pub(super) fn answer(&self, xid: u32, body: Body) {
        let mut out = Vec::new();
        let message = Message::new(self.version, xid, body);
        if encode(&message, &mut out).is_err() {
            let body = without_unsayable(self.version, message.body);
            if encode(&Message::new(self.version, xid, body), &mut out).is_err() {
                return self.error(xid, Code::BadType, &[]);
            }
        }
        self.line.answer(out);
    }

    /// Refuses a request.
    pub(super) fn refuse(&self, request: &Message, code: Code) {
        let mut start = Vec::new();
        // What was read can be written; otherwise the error goes without it.
        let _ = encode(request, &mut start);
        self.error(request.xid, code, &start);
    }

    /// Refuses the request that began with these bytes.
    pub(super) fn error(&self, xid: u32, code: Code, request: &[u8]) {
        let mut out = Vec::new();
        if encode(&refuse(self.version, xid, code, request), &mut out).is_ok() {
            self.line.answer(out);
        }
    }

    /// Says something that nobody asked for; whether it was taken.
    pub(super) fn tell(&self, body: Body) -> bool {
        bytes(self.version, 0, body).is_some_and(|message| self.line.tell(message))
    }

    /// Whether nothing that is said reaches it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.line.is_over()
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        self.line.close();
    }

    /// A bundle was forgotten because nothing came for it.
    pub(super) fn say_bundle_expired(&self, _: ConnectionId, bundle: u32) {
        let mut data = bundle.to_be_bytes().to_vec();
        data.truncate(ERROR_DATA);
        let number = Code::BundleTimeout.number(self.version);
        self.tell(Body::Error(ErrorMessage { number, data }));
    }

    /// Whether the switch called it, and it is one of those that the switch is to obey.
    pub(super) const fn was_called(&self) -> bool {
        self.called
    }

    pub(super) fn is_secondary(&self) -> bool {
        self.role == Role::Secondary
    }

    /// Which asynchronous messages it gets.
    pub(super) fn asynchronous(&self) -> AsyncConfig {
        self.asked.over(&defaults(self.version))
    }

    /// Whether it gets a message of this kind for this reason.
    pub(super) fn hears(&self, kind: AsyncKind, reason: u8) -> bool {
        let mask = self.asynchronous().mask(kind, self.is_secondary()).unwrap_or(0);
        mask >> reason.min(31) & 1 == 1
    }
}

/// What a controller gets that said nothing (OpenFlow 1.3.5, section 6.3.6; 1.4.1, section 6.3.6).
fn defaults(version: Version) -> AsyncConfig {
    let late = version >= Version::V14;
    let mut config = AsyncConfig::default();
    // All but packets with an invalid TTL.
    config.set(AsyncKind::PacketIn, false, if late { 0b11_1011 } else { 0b1_1011 & 0b11 });
    config.set(AsyncKind::PacketIn, true, 0);
    config.set(AsyncKind::PortStatus, false, 0b111);
    config.set(AsyncKind::PortStatus, true, 0b111);
    config.set(AsyncKind::FlowRemoved, false, if late { 0b11_1111 } else { 0b1111 });
    config.set(AsyncKind::FlowRemoved, true, 0);
    if late {
        config.set(AsyncKind::RoleStatus, false, 0b111);
        config.set(AsyncKind::RoleStatus, true, 0b111);
        for kind in [AsyncKind::TableStatus, AsyncKind::RequestForward] {
            config.set(kind, false, 0);
            config.set(kind, true, 0);
        }
    }
    config
}
