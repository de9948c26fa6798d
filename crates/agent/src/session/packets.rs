//! Packets to controllers and from them.

use super::buffers::Missing;
use super::{Agent, Peer, refusal};
use crate::ConnectionId;
use std::time::Instant;
use weir_codec::{self as codec, AsyncKind, Body, Code, Message, PacketInForm, Version};
use weir_flow::{Field, Match};
use weir_openflow::{Action, FlowStats, PacketIn, PacketOut, PortNo, Removal, TableId, Tables, Wants};

/// No entry matched, or a table-miss entry: OpenFlow's reason.
const NO_MATCH: u8 = 0;
/// An action said so.
const BY_ACTION: u8 = 1;
/// The time to live is used up.
const EXPIRED: u8 = 2;
/// The cookie of packets that no entry sent.
const NO_ENTRY: u64 = u64::MAX;
/// The length that stands for all of a packet, which is then not kept (OpenFlow 1.3.5, section 7.2.5:
/// `OFPCML_NO_BUFFER`).
const WHOLE: u16 = u16::MAX;
/// The shortest packet: an Ethernet header.
const SHORTEST: usize = 14;

impl Agent {
    /// Gives a packet to the controllers that want it.
    pub(super) fn packet_in(&mut self, packet: &PacketIn) {
        let now = Instant::now();
        let takers: Vec<ConnectionId> =
            self.peers.iter().filter(|(_, peer)| takes(peer, packet)).map(|(id, _)| *id).collect();
        if takers.is_empty() || !self.limits.admit(packet.in_port, now) {
            return;
        }
        let mut buffer = None;
        for id in takers {
            let Some(peer) = self.peers.get(&id) else { continue };
            let most = most_bytes(peer, packet);
            let cut = most != WHOLE && usize::from(most) < packet.frame.len();
            if cut && buffer.is_none() {
                buffer = self.buffers.keep(packet.in_port, &packet.frame, now);
            }
            let buffer = buffer.filter(|_| cut);
            // Whatever cannot be kept is sent whole.
            let sent = if buffer.is_some() { usize::from(most) } else { packet.frame.len() };
            peer.tell(Body::PacketIn(codec::PacketIn {
                form: peer.packet_form,
                buffer,
                total_len: u32::try_from(packet.frame.len()).unwrap_or(u32::MAX),
                reason: packet.reason,
                table: TableId(packet.table),
                cookie: packet.cookie,
                fields: fields(peer, &packet.fields),
                userdata: packet.to.userdata.clone(),
                data: packet.frame[..sent].to_vec(),
            }));
        }
    }

    /// A packet from a controller.
    pub(super) fn packet_out(
        &mut self,
        version: Version,
        packet: &codec::PacketOut,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let in_port = packet.in_port;
        let special = matches!(in_port, PortNo::CONTROLLER | PortNo::LOCAL | PortNo::ANY);
        if in_port.0 == 0 && version != Version::V10 || in_port.is_reserved() && !special {
            return Err(Code::BadPort);
        }
        let frame = match packet.buffer {
            Some(number) => self.buffers.fetch(number).map_err(missing)?.frame,
            None => packet.data.clone(),
        };
        if frame.len() < SHORTEST {
            return Err(Code::BadPacket);
        }
        let (fields, actions) = (packet.fields.clone(), packet.actions.clone());
        self.send(PacketOut { in_port, fields, actions, frame }, plane)
    }

    fn send(&mut self, packet: PacketOut, plane: &mut impl Tables) -> Result<(), Code> {
        plane.packet_out(packet).map_err(|refused| refusal::code(refused.why))?;
        self.sent_out = true;
        Ok(())
    }

    /// A flow-mod is done that names a packet: it goes through the tables (OpenFlow 1.3.5, section 6.4).
    pub(super) fn send_buffer(
        &mut self,
        from: ConnectionId,
        message: &Message,
        number: u32,
        plane: &mut impl Tables,
    ) {
        let sent = self.buffers.fetch(number).map_err(missing).and_then(|kept| {
            let actions = vec![Action::Output(PortNo::TABLE)];
            let packet =
                PacketOut { in_port: kept.in_port, fields: Match::any(), actions, frame: kept.frame };
            self.send(packet, plane)
        });
        if let Err(code) = sent {
            self.refuse(from, message, code);
        }
    }

    /// What controllers want beside what actions send them.
    pub(super) fn look_at_wants(&mut self, plane: &mut impl Tables) {
        let misses = |peer: &Peer| {
            peer.version == Version::V10
                && peer.configured
                && peer.miss_send_len > 0
                && peer.hears(AsyncKind::PacketIn, NO_MATCH)
        };
        let wants = Wants {
            misses: self.peers.values().any(misses),
            expired: self.peers.values().any(|peer| hears_packet(peer, EXPIRED)),
        };
        if wants != self.wants && plane.set_wants(wants).is_ok() {
            self.wants = wants;
        }
    }

    /// A flow entry went.
    pub(super) fn flow_removed(&self, stats: &FlowStats, why: Removal) {
        if !stats.flow.flags.send_flow_rem {
            return;
        }
        for (id, peer) in &self.peers {
            let reason = removal(why, peer.version);
            if !peer.hears(AsyncKind::FlowRemoved, reason) {
                continue;
            }
            let flow = &stats.flow;
            peer.tell(Body::FlowRemoved(codec::FlowRemoved {
                form: self.flow_form(*id),
                table: flow.table,
                matching: flow.matching.clone(),
                cookie: flow.cookie,
                priority: flow.priority,
                reason,
                duration: stats.age,
                idle_timeout: flow.idle_timeout,
                hard_timeout: flow.hard_timeout,
                packets: stats.packets,
                bytes: stats.bytes,
            }));
        }
    }
}

/// Whether a controller wants a packet.
fn takes(peer: &Peer, packet: &PacketIn) -> bool {
    let of_no_entry = packet.cookie == NO_ENTRY && packet.reason == NO_MATCH;
    if of_no_entry && (peer.version != Version::V10 || !peer.configured) {
        return false;
    }
    packet.to.id == peer.controller_id && hears_packet(peer, packet.reason)
}

fn hears_packet(peer: &Peer, reason: u8) -> bool {
    let reason = if peer.version < Version::V14 && reason > EXPIRED { BY_ACTION } else { reason };
    reason == EXPIRED && peer.wants_expired || peer.hears(AsyncKind::PacketIn, reason)
}

/// Bytes of a packet that a controller gets at most.
fn most_bytes(peer: &Peer, packet: &PacketIn) -> u16 {
    let by_itself = packet.reason == EXPIRED || packet.cookie == NO_ENTRY && packet.reason == NO_MATCH;
    if by_itself { peer.miss_send_len } else { packet.to.max_len }
}

/// The fields that a controller is told, as far as its form has them.
fn fields(peer: &Peer, of: &Match) -> Match {
    if peer.packet_form != PacketInForm::Standard || peer.version == Version::V15 {
        return of.clone();
    }
    // Port, metadata and tunnel (OpenFlow 1.3.5, section 7.4.1).
    let mut out = Match::any();
    for field in [Field::InPort, Field::Metadata, Field::TunId] {
        let (value, mask) = of.field(field);
        if mask != 0 {
            out.demand(field, value, mask);
        }
    }
    out
}

fn missing(why: Missing) -> Code {
    match why {
        Missing::Fetched => Code::BufferEmpty,
        Missing::Unknown => Code::BufferUnknown,
    }
}

/// Why an entry went, by number, as far as a version has one (OpenFlow 1.4.1, section 7.4.2).
pub(super) fn removal(why: Removal, version: Version) -> u8 {
    match why {
        Removal::Idle => 0,
        Removal::Hard => 1,
        Removal::Group if version >= Version::V13 => 3,
        Removal::Meter if version >= Version::V14 => 4,
        Removal::Eviction if version >= Version::V14 => 5,
        Removal::Delete | Removal::Group | Removal::Meter | Removal::Eviction => 2,
    }
}
