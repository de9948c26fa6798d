//! What each OpenFlow message means for the switch.
//!
//! - `peer`: what is known of one controller: version, role, what it wants to hear;
//! - `dispatch`: a message to whoever answers it;
//! - `changes`: flow-mods and the like as changes of the tables, many at once; `refusal`: errors by number;
//! - `bundle`, `pile`: changes that take effect together, and how they are kept until then; `monitor`: what became of flow entries;
//! - `describe`, `features`, `stats`: multiparts;
//! - `packets`, `buffers`, `limit`: packets in and out;
//! - `standalone`, `addresses`: a learning switch while no controller is there; `ports`, `roles`: the rest.
//!
//! Why so: flow-mods that come in a row, from whomever, are done in one go when something else is asked or
//! nothing more has come, so that the tables are published once for thousands of them. Each is refused by
//! itself, with its own transaction. Everything else is answered in its order, after what came before.
//!
//! Costs and threads: the switch's thread, which also answers the control socket. Nothing here waits for a
//! controller: what is said to it is queued ([`crate::channel::Line`]).

mod addresses;
mod buffers;
mod bundle;
mod changes;
mod connections;
mod describe;
mod dispatch;
mod features;
mod limit;
mod monitor;
mod packets;
mod peer;
mod pile;
mod ports;
mod refusal;
mod roles;
mod standalone;
mod stats;

use crate::{ConnectionId, Heard};
use buffers::Buffers;
use changes::Pending;
use limit::Limits;
use peer::Peer;
use standalone::Standalone;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_codec::{Body, Message, Version, encode};
use weir_openflow::{Event, Evict, PortAbout, Removal, TableId, Tables, Wants};

/// How often packets for controllers are looked for while one is connected.
pub const PACKET_INS_EVERY: Duration = Duration::from_millis(1);

/// What the agent is told of the switch.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// The switch's number; that of a port's address if none, or drawn.
    pub datapath_id: Option<u64>,
    /// Whether the switch learns addresses by itself while none of its controllers is connected: there are
    /// controllers, and `fail-mode` is `standalone`.
    pub standalone: bool,
    /// What runs: Weir and its version.
    pub software: String,
    /// On what: DPDK and its version.
    pub hardware: String,
}

/// The agent, as the switch's thread has it.
pub struct Agent {
    settings: SessionSettings,
    /// The switch's number, once somebody asked for it.
    datapath_id: Option<u64>,
    peers: BTreeMap<ConnectionId, Peer>,
    /// The greatest number of an election (OpenFlow 1.3.5, section 6.3.6).
    generation: Option<u64>,
    /// How fragments are treated, as a controller said it.
    fragments: u16,
    pending: Pending,
    buffers: Buffers,
    limits: Limits,
    /// The ports, as controllers know them.
    ports: Vec<PortAbout>,
    wants: Wants,
    standalone: Standalone,
    /// Tables whose entries make room for others.
    evicting: BTreeMap<TableId, Evict>,
    /// Whether packets were sent out since workers were last seen to have done so.
    sent_out: bool,
    /// What happened, for other listeners.
    pub seen: Vec<Event>,
}

impl Agent {
    /// An agent without a connection.
    pub fn new(settings: SessionSettings) -> Self {
        Self {
            datapath_id: settings.datapath_id,
            peers: BTreeMap::new(),
            generation: None,
            fragments: 0,
            pending: Pending::default(),
            buffers: Buffers::default(),
            limits: Limits::default(),
            ports: Vec::new(),
            wants: Wants::default(),
            standalone: Standalone::new(settings.standalone),
            evicting: BTreeMap::new(),
            sent_out: false,
            seen: Vec::new(),
            settings,
        }
    }

    /// Whether packets for controllers have a taker.
    pub fn is_awake(&self) -> bool {
        !self.peers.is_empty() || self.standalone.is_on()
    }

    /// Takes what a channel heard.
    pub fn hear(&mut self, heard: Heard, plane: &mut impl Tables) {
        match heard {
            Heard::Opened { connection, version, peer: _, called, line } => {
                self.look_at_ports(plane);
                self.peers.insert(connection, Peer::new(version, called, line));
                self.look_at_wants(plane);
                self.controllers_changed(plane);
            }
            Heard::Message { connection, message } => {
                if self.peers.contains_key(&connection) {
                    self.message(connection, message, plane);
                }
            }
            Heard::Changes { connection, messages } => {
                for message in messages {
                    if self.peers.contains_key(&connection) {
                        self.message(connection, message, plane);
                    }
                }
            }
            Heard::Spoilt { connection, bundle } => {
                if let Some(peer) = self.peers.get_mut(&connection) {
                    peer.bundles.spoil(bundle);
                }
            }
            Heard::Closed { connection, why: _ } => {
                self.flush(plane);
                self.peers.remove(&connection);
                self.look_at_wants(plane);
                self.controllers_changed(plane);
            }
        }
    }

    /// Does what is due: ports that changed, bundles and buffers that are too old, the learning switch.
    pub fn tick(&mut self, plane: &mut impl Tables, now: Instant) {
        self.look_at_ports(plane);
        for (connection, peer) in &mut self.peers {
            for bundle in peer.bundles.expire(now) {
                peer.say_bundle_expired(*connection, bundle);
            }
        }
        self.buffers.expire(now);
        self.learning_is_due(plane, now);
    }

    /// Tells controllers what happened.
    pub fn happened(&mut self, event: &Event, plane: &mut impl Tables) {
        match event {
            Event::FlowRemoved(stats, why) => {
                self.forget(&stats.flow, plane);
                self.flow_removed(stats, *why);
                // Monitors were told of what somebody deleted when it was done.
                if matches!(why, Removal::Idle | Removal::Hard) {
                    self.tell_monitors_of_removal(&stats.flow, *why);
                }
            }
            Event::PacketIn(packet) => self.packet_in(packet),
            Event::Link(..) | Event::Quarantined(..) => {}
        }
    }

    /// Gives packets for controllers to them.
    pub fn take_packet_ins(&mut self, plane: &mut impl Tables) {
        let packets = plane.packet_ins();
        self.learn(&packets, plane);
        for packet in packets {
            self.packet_in(&packet);
            self.seen.push(Event::PacketIn(packet));
        }
    }

    /// Answers a request.
    fn reply(&self, to: ConnectionId, xid: u32, body: Body) {
        if let Some(peer) = self.peers.get(&to) {
            peer.answer(xid, body);
        }
    }
}

/// A message as bytes; nothing if the version cannot say it.
fn bytes(version: Version, xid: u32, body: Body) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    encode(&Message::new(version, xid, body), &mut out).ok().map(|()| out)
}
