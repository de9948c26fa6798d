//! A message to whoever answers it.

use super::{Agent, Peer, connections};
use crate::ConnectionId;
use weir_codec::{
    AsyncConfig, Body, Code, Config, CtFlush, FlowForm, Message, QueueConfig, Request, ServiceAbout,
    ServiceList, TableConfig, TableMod, Version,
};
use weir_openflow::{Change, Evict, PortNo, TableId, Tables};

/// Fragments are matched as such, first ones with their ports: nothing special.
const FRAGMENTS_NORMAL: u16 = 0;
/// The same by Nicira's name.
const FRAGMENTS_MATCHED: u16 = 3;
/// Which bits of the configuration's flags are about fragments.
const FRAGMENTS: u16 = 3;
/// Packets with an invalid TTL are wanted (OpenFlow 1.0 and 1.1).
const EXPIRED: u16 = 4;

/// By what entries are chosen that make room (OpenFlow 1.4.1, section 7.3.4.1: `OFPTMPEF_*`).
const BY_OTHER: u32 = 1;
const BY_IMPORTANCE: u32 = 2;
const BY_LIFETIME: u32 = 4;

/// Whether a message changes something, so that a secondary controller may not send it (OpenFlow 1.3.5,
/// section 6.3.6).
fn writes(body: &Body) -> bool {
    match body {
        Body::PacketOut(_)
        | Body::FlowMod(_)
        | Body::GroupMod(_)
        | Body::PortMod(_)
        | Body::TableMod(_)
        | Body::MeterMod(_)
        | Body::BundleControl(_)
        | Body::BundleAdd(_)
        | Body::CtFlush(_)
        | Body::CtFlushZone(_) => true,
        Body::MultipartRequest(request) => {
            matches!(&request.request, Request::TableFeatures(wanted) if !wanted.is_empty())
        }
        _ => false,
    }
}

impl Agent {
    /// Does what a message asks, and answers it.
    pub(super) fn message(&mut self, from: ConnectionId, message: Message, plane: &mut impl Tables) {
        let secondary = self.peers.get(&from).is_some_and(Peer::is_secondary);
        if secondary && writes(&message.body) {
            self.flush(plane);
            self.refuse(from, &message, Code::IsSecondary);
            return;
        }
        if matches!(message.body, Body::FlowMod(_) | Body::GroupMod(_) | Body::MeterMod(_)) {
            self.gather(from, message, plane);
            return;
        }
        if let Body::BundleAdd(_) = message.body {
            self.add_to_bundle(from, message, plane);
            return;
        }
        self.flush(plane);
        if let Err(code) = self.request(from, &message, plane) {
            self.refuse(from, &message, code);
        }
    }

    /// Answers a request that is no change of flows, groups or meters.
    fn request(
        &mut self,
        from: ConnectionId,
        message: &Message,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let xid = message.xid;
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        match &message.body {
            Body::FeaturesRequest => {
                let features = self.features(message.version);
                self.reply(from, xid, Body::FeaturesReply(features));
            }
            Body::GetConfigRequest => {
                let expired = if peer.wants_expired { EXPIRED } else { 0 };
                let config = Config { flags: self.fragments | expired, miss_send_len: peer.miss_send_len };
                self.reply(from, xid, Body::GetConfigReply(config));
            }
            Body::SetConfig(config) => return self.set_config(from, *config, plane),
            Body::BarrierRequest => {
                if std::mem::take(&mut self.sent_out) {
                    plane.settled().map_err(|_| Code::BadType)?;
                }
                self.reply(from, xid, Body::BarrierReply);
            }
            Body::MultipartRequest(request) => return self.multipart(from, xid, request, plane),
            Body::PacketOut(packet) => return self.packet_out(message.version, packet, plane),
            Body::PortMod(change) => return self.port_mod(change, plane),
            Body::TableMod(change) => return self.table_mod(message.version, change, plane),
            Body::RoleRequest(role) => return self.role_request(from, xid, *role),
            Body::GetAsyncRequest => {
                let config = peer.asynchronous();
                self.reply(from, xid, Body::GetAsyncReply(config));
            }
            Body::SetAsync(config) => self.set_async(from, config, plane),
            Body::QueueConfigRequest(port) => {
                let port = *port;
                if port != PortNo::ANY && !self.has_port(port) {
                    return Err(Code::QueuePort);
                }
                let queues = Vec::new();
                self.reply(from, xid, Body::QueueConfigReply(QueueConfig { port, queues }));
            }
            Body::BundleControl(control) => return self.bundle_control(from, xid, *control, plane),
            Body::SetFlowFormat(form) => peer.flow_form = *form,
            Body::SetPacketInFormat(form) => peer.packet_form = *form,
            Body::SetControllerId(id) => peer.controller_id = *id,
            // Tables are named to the channel, which reads flow-mods; ages are in every reply that has room.
            Body::FlowModTableId(_) | Body::FlowAge => {}
            Body::FlowMonitorCancel(id) => return self.cancel_monitor(from, *id),
            // A controller's complaint; nobody waits for an answer.
            Body::Error(_) | Body::EchoReply(_) | Body::EchoRequest(_) | Body::Hello(_) => {}
            Body::CtFlush(wanted) => return connections::forget(wanted, plane),
            Body::CtFlushZone(zone) => {
                let wanted = CtFlush { zone: Some(*zone), ..CtFlush::default() };
                return connections::forget(&wanted, plane);
            }
            Body::ServicesRequest(first) => {
                let about = |(number, name, kind)| ServiceAbout { number, name, kind };
                let list = ServiceList::from(*first, plane.services().into_iter().map(about));
                self.reply(from, xid, Body::ServicesReply(list));
            }
            // Messages that only a switch sends.
            _ => return Err(Code::BadType),
        }
        Ok(())
    }

    fn set_config(
        &mut self,
        from: ConnectionId,
        config: Config,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let fragments = config.flags & FRAGMENTS;
        let known = if fragments == FRAGMENTS { FRAGMENTS } else { FRAGMENTS | EXPIRED };
        if !matches!(fragments, FRAGMENTS_NORMAL | FRAGMENTS_MATCHED) || config.flags & !known != 0 {
            return Err(Code::ConfigFlags);
        }
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.miss_send_len = config.miss_send_len;
            peer.configured = true;
            peer.wants_expired = config.flags & EXPIRED != 0;
            if !peer.is_secondary() {
                self.fragments = fragments;
            }
        }
        self.look_at_wants(plane);
        Ok(())
    }

    fn set_async(&mut self, from: ConnectionId, config: &AsyncConfig, plane: &mut impl Tables) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.asked = config.over(&peer.asked);
        }
        self.look_at_wants(plane);
    }

    /// Whether entries of a table make room for others, and which go first. Vacancy events there are none.
    fn table_mod(
        &mut self,
        version: Version,
        change: &TableMod,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        if change.table.is_some_and(|table| table > TableId::LAST) {
            return Err(Code::TableBad);
        }
        let TableConfig { flags, eviction, vacancy: _ } = change.config;
        let evicts = flags & TableConfig::EVICTION != 0;
        if flags & TableConfig::VACANCY_EVENTS != 0 || (evicts && version < Version::V14) {
            return Err(Code::TableConfig);
        }
        let by = evicts.then(|| evict(eviction)).transpose()?;
        plane.apply(vec![Change::SetEviction(change.table, by)]).map_err(|_| Code::TableConfig)?;
        for table in (0..=TableId::LAST.0).map(TableId) {
            if change.table.is_none_or(|one| one == table) {
                match by {
                    Some(by) => drop(self.evicting.insert(table, by)),
                    None => drop(self.evicting.remove(&table)),
                }
            }
        }
        Ok(())
    }

    /// How a table is configured, as `table_mod` says it.
    pub(super) fn table_config(&self, table: TableId) -> TableConfig {
        let Some(by) = self.evicting.get(&table) else { return TableConfig::default() };
        let bit = |bit: u32, set: bool| if set { bit } else { 0 };
        let eviction = BY_OTHER | bit(BY_IMPORTANCE, by.importance) | bit(BY_LIFETIME, by.lifetime);
        TableConfig { flags: TableConfig::EVICTION, eviction: Some(eviction), vacancy: None }
    }

    pub(super) fn has_port(&self, number: PortNo) -> bool {
        self.ports.iter().any(|port| port.number == number)
    }

    /// How a controller wants flow entries to be written.
    pub(super) fn flow_form(&self, of: ConnectionId) -> FlowForm {
        self.peers
            .get(&of)
            .filter(|peer| peer.version == Version::V10)
            .map_or(FlowForm::Standard, |peer| peer.flow_form)
    }
}

/// What is asked by these bits; by everything if nothing is said.
fn evict(bits: Option<u32>) -> Result<Evict, Code> {
    let bits = bits.unwrap_or(BY_OTHER | BY_IMPORTANCE | BY_LIFETIME);
    if bits & !(BY_OTHER | BY_IMPORTANCE | BY_LIFETIME) != 0 {
        return Err(Code::TableConfig);
    }
    Ok(Evict { importance: bits & BY_IMPORTANCE != 0, lifetime: bits & BY_LIFETIME != 0 })
}
