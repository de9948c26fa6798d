//! Multiparts: questions whose answers may be long (OpenFlow 1.3.5, section 7.3.5).

use super::{Agent, bytes, describe, features, monitor};
use crate::ConnectionId;
use crate::channel::{Held, Line};
use std::collections::BTreeMap;
use weir_codec::{
    ALL_GROUPS, ALL_METERS, ALL_QUEUES, Aggregate, Body, Code, FlowForm, FlowQuery, FlowStats, GroupStats,
    MeterStats, MonitorRequest, MultipartReply, MultipartRequest, PortStats, QueueQuery, Reply, Request,
    TableDesc, TableStats, Version,
};
use weir_openflow::{
    Action, FlowSum, Group, GroupId, MOST_FLOWS, MeterId, PortCounts, PortNo, TableId, Tables,
};

/// Monitors that a request in parts may be about: each that there may be, and as many that go before.
const MOST_ASKED: usize = 2 * monitor::MOST;

/// All that OpenFlow 1.0 can leave open (`OFPFW_ALL`).
const WILDCARDS10: u32 = (1 << 22) - 1;

/// A counter that is not kept.
const NOT_KEPT: u64 = u64::MAX;

/// A request that is not whole yet: its transaction, what came of it, and what it takes.
pub(super) struct Parts {
    waiting: Option<(u32, Request, Held)>,
    line: Line,
}

impl Parts {
    pub(super) fn new(line: &Line) -> Self {
        Self { waiting: None, line: line.clone() }
    }

    /// Adds a part; the request, if it is whole.
    fn add(&mut self, xid: u32, part: &MultipartRequest) -> Result<Option<Request>, Code> {
        let (request, mut held) = match self.waiting.take() {
            Some((waiting, mut request, held)) if waiting == xid => {
                match (&mut request, &part.request) {
                    // What tables are to be is refused whatever it is: the first of them says so.
                    (Request::TableFeatures(all), Request::TableFeatures(more)) => {
                        all.extend(more.first().filter(|_| all.is_empty()).cloned());
                    }
                    (Request::Monitor(all), Request::Monitor(more)) => all.extend_from_slice(more),
                    _ => return Err(Code::BadMultipart),
                }
                (request, held)
            }
            _ if !part.more => return Ok(Some(part.request.clone())),
            _ => {
                let mut request = part.request.clone();
                if let Request::TableFeatures(all) = &mut request {
                    all.truncate(1);
                }
                (request, self.line.hold())
            }
        };
        let asked = if let Request::Monitor(all) = &request { all.len() } else { 0 };
        if asked > MOST_ASKED || !held.add(weight(&part.request)) {
            return Err(Code::MultipartOverflow);
        }
        if part.more {
            self.waiting = Some((xid, request, held));
            return Ok(None);
        }
        Ok(Some(request))
    }
}

/// Bytes that a part of a request takes while it waits, about.
fn weight(part: &Request) -> usize {
    let of = |monitor: &MonitorRequest| size_of::<MonitorRequest>() + size_of_val(monitor.matching.terms());
    size_of::<Request>() + if let Request::Monitor(all) = part { all.iter().map(of).sum() } else { 0 }
}

impl Agent {
    /// Answers a question.
    pub(super) fn multipart(
        &mut self,
        from: ConnectionId,
        xid: u32,
        part: &MultipartRequest,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        let version = peer.version;
        let Some(request) = peer.parts.add(xid, part)? else { return Ok(()) };
        let reply = match request {
            Request::Monitor(wanted) => return self.monitor(from, xid, wanted, plane),
            other => self.answer_to(other, version, plane)?,
        };
        self.reply(from, xid, Body::MultipartReply(MultipartReply { more: false, reply }));
        Ok(())
    }

    fn answer_to(&self, request: Request, version: Version, plane: &mut impl Tables) -> Result<Reply, Code> {
        Ok(match request {
            Request::Desc => Reply::Desc(describe::desc(&self.settings)),
            Request::Flow(query) => Reply::Flow(query.form, flows(query, version, plane)?),
            Request::FlowStats(query) => Reply::FlowStats(flows(query, version, plane)?),
            Request::Aggregate(query) => Reply::Aggregate(query.form, aggregate(query, plane)?),
            Request::Table => Reply::Table(tables(plane)?),
            Request::Port(port) => Reply::Port(self.port_stats(port, plane)?),
            Request::Queue(query) => {
                self.check_queue(query)?;
                Reply::Queue(Vec::new())
            }
            Request::QueueDesc(query) => {
                self.check_queue(query)?;
                Reply::QueueDesc(Vec::new())
            }
            Request::Group(group) => Reply::Group(groups(group, plane)?),
            Request::GroupDesc(group) => Reply::GroupDesc(group_descs(group, plane)?),
            Request::GroupFeatures => Reply::GroupFeatures(describe::group_features(version)),
            Request::Meter(meter) => Reply::Meter(meters(meter, plane)?),
            Request::MeterConfig(meter) => {
                let found = plane.meters().into_iter().map(|stats| stats.meter);
                Reply::MeterConfig(one_or_all(meter, found.collect(), |meter| meter.id)?)
            }
            Request::MeterFeatures => Reply::MeterFeatures(describe::meter_features()),
            Request::TableFeatures(wanted) if wanted.is_empty() => {
                Reply::TableFeatures(features::tables(version))
            }
            Request::TableFeatures(_) => return Err(Code::FeaturesNotPermitted),
            Request::PortDesc(port) => {
                let wanted = |of: &PortNo| port == PortNo::ANY || *of == port;
                if port != PortNo::ANY && !self.has_port(port) {
                    return Err(Code::BadPort);
                }
                Reply::PortDesc(
                    self.described_ports().into_iter().filter(|port| wanted(&port.number)).collect(),
                )
            }
            Request::TableDesc => Reply::TableDesc(
                all_tables().map(|table| TableDesc { table, config: self.table_config(table) }).collect(),
            ),
            Request::Monitor(_) => return Err(Code::BadMultipart),
        })
    }

    fn port_stats(&self, wanted: PortNo, plane: &mut impl Tables) -> Result<Vec<PortStats>, Code> {
        let reports = plane.port_counts().map_err(|_| Code::BadMultipart)?;
        let found: Vec<PortStats> = reports
            .iter()
            .filter(|report| wanted == PortNo::ANY || report.number == wanted)
            .map(|report| self.port_stat(report))
            .collect();
        if found.is_empty() && wanted != PortNo::ANY { Err(Code::BadPort) } else { Ok(found) }
    }

    fn port_stat(&self, report: &PortCounts) -> PortStats {
        let number = report.number;
        let age = self.ports.iter().find(|port| port.number == number).map(|port| port.age);
        PortStats {
            number,
            rx_packets: report.received,
            tx_packets: report.sent,
            rx_bytes: report.received_bytes,
            tx_bytes: report.sent_bytes,
            rx_dropped: report.missed,
            tx_dropped: report.send_dropped,
            rx_errors: NOT_KEPT,
            tx_errors: NOT_KEPT,
            rx_frame_err: NOT_KEPT,
            rx_over_err: NOT_KEPT,
            rx_crc_err: NOT_KEPT,
            collisions: NOT_KEPT,
            duration: age,
        }
    }

    /// Ports have no queues that could be named.
    fn check_queue(&self, query: QueueQuery) -> Result<(), Code> {
        if query.port != PortNo::ANY && !self.has_port(query.port) {
            return Err(Code::QueuePort);
        }
        if query.queue != ALL_QUEUES { Err(Code::QueueBad) } else { Ok(()) }
    }
}

fn all_tables() -> impl Iterator<Item = TableId> {
    (0..=TableId::LAST.0).map(TableId)
}

/// An age in whole seconds, as far as 16 bits go.
fn seconds(of: std::time::Duration) -> u16 {
    u16::try_from(of.as_secs()).unwrap_or(u16::MAX)
}

fn flows(query: FlowQuery, version: Version, plane: &mut impl Tables) -> Result<Vec<FlowStats>, Code> {
    let ages = query.form == FlowForm::Nxm || version == Version::V15;
    let found = plane.flows_of(&query.select()).map_err(|_| Code::BadMultipart)?;
    let of = |stats: weir_openflow::FlowStats| FlowStats {
        duration: stats.age,
        idle_age: ages.then(|| seconds(stats.idle)),
        hard_age: ages.then(|| seconds(stats.age)),
        packets: stats.packets,
        bytes: stats.bytes,
        flow: stats.flow,
    };
    Ok(found.into_iter().map(of).collect())
}

fn aggregate(query: FlowQuery, plane: &mut impl Tables) -> Result<Aggregate, Code> {
    let FlowSum { flows, packets, bytes } = plane.sum_of(&query.select()).map_err(|_| Code::BadMultipart)?;
    Ok(Aggregate { packets, bytes, flows: u32::try_from(flows).unwrap_or(u32::MAX) })
}

/// All tables, those without an entry too.
fn tables(plane: &mut impl Tables) -> Result<Vec<TableStats>, Code> {
    let reports = plane.table_counts().map_err(|_| Code::BadMultipart)?;
    let known: BTreeMap<TableId, _> = reports.iter().map(|report| (report.table, report)).collect();
    let of = |table: TableId| {
        let report = known.get(&table);
        TableStats {
            table,
            name: features::name(table.0),
            wildcards: WILDCARDS10,
            most: MOST_FLOWS as u32,
            active: report.map_or(0, |report| u32::try_from(report.entries).unwrap_or(u32::MAX)),
            lookups: report.map_or(0, |report| report.lookups),
            matched: report.map_or(0, |report| report.matched),
        }
    };
    Ok(all_tables().map(of).collect())
}

fn groups(wanted: GroupId, plane: &mut impl Tables) -> Result<Vec<GroupStats>, Code> {
    let all = plane.groups().map_err(|_| Code::BadMultipart)?;
    let leads = |from: &Group, to: GroupId| {
        from.buckets.iter().flat_map(|bucket| &bucket.actions).any(|action| *action == Action::Group(to))
    };
    let of = |stats: &weir_openflow::GroupStats| {
        let id = stats.group.id;
        let from = all.iter().filter(|other| leads(&other.group, id)).count();
        GroupStats {
            group: id,
            references: u32::try_from(stats.flows + from).unwrap_or(u32::MAX),
            packets: stats.packets,
            bytes: stats.bytes,
            duration: stats.age,
            buckets: stats.buckets.clone(),
        }
    };
    Ok(all.iter().filter(|stats| wanted == ALL_GROUPS || stats.group.id == wanted).map(of).collect())
}

fn group_descs(wanted: GroupId, plane: &mut impl Tables) -> Result<Vec<Group>, Code> {
    let all = plane.groups().map_err(|_| Code::BadMultipart)?;
    let groups = all.into_iter().map(|stats| stats.group);
    Ok(groups.filter(|group| wanted == ALL_GROUPS || group.id == wanted).collect())
}

fn meters(wanted: MeterId, plane: &mut impl Tables) -> Result<Vec<MeterStats>, Code> {
    let of = |stats: weir_openflow::MeterStats| MeterStats {
        meter: stats.meter.id,
        flows: u32::try_from(stats.flows).unwrap_or(u32::MAX),
        packets: stats.packets,
        bytes: stats.bytes,
        duration: stats.age,
        bands: stats.bands,
    };
    one_or_all(wanted, plane.meters().into_iter().map(of).collect(), |stats| stats.meter)
}

/// All meters, or the one that is asked for.
fn one_or_all<T>(wanted: MeterId, all: Vec<T>, id: impl Fn(&T) -> MeterId) -> Result<Vec<T>, Code> {
    if wanted == ALL_METERS {
        return Ok(all);
    }
    let one: Vec<T> = all.into_iter().filter(|meter| id(meter) == wanted).collect();
    if one.is_empty() { Err(Code::MeterUnknown) } else { Ok(one) }
}

/// An answer without the parts that a version cannot say: entries that newer ones made.
pub(super) fn without_unsayable(version: Version, body: Body) -> Body {
    let Body::MultipartReply(MultipartReply { more, reply }) = body else { return body };
    let can =
        |reply: Reply| bytes(version, 0, Body::MultipartReply(MultipartReply { more, reply })).is_some();
    let reply = match reply {
        Reply::FlowStats(mut all) => {
            all.retain(|stats| can(Reply::FlowStats(vec![stats.clone()])));
            Reply::FlowStats(all)
        }
        Reply::GroupDesc(mut all) => {
            all.retain(|group| can(Reply::GroupDesc(vec![group.clone()])));
            Reply::GroupDesc(all)
        }
        Reply::Monitor(mut all) => {
            all.retain(|update| can(Reply::Monitor(vec![update.clone()])));
            Reply::Monitor(all)
        }
        other => other,
    };
    Body::MultipartReply(MultipartReply { more, reply })
}
