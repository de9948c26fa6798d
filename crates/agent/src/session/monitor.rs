//! Flow monitors: controllers that hear what becomes of flow entries (OpenFlow 1.4.1, section 7.3.5.19; ONF's
//! extension to 1.3 and Nicira's, of which it was made).
//!
//! A monitor that missed something would be worse than none. So a controller that is too slow to be told loses
//! its connection: when it comes back, it begins with what there is then.

use super::packets::removal;
use super::{Agent, Peer};
use crate::ConnectionId;
use std::collections::BTreeSet;
use weir_codec::{
    Body, Code, FlowUpdate, MonitorCommand, MonitorRequest, MultipartReply, Reply, UpdateEvent, Version,
};
use weir_openflow::{EntryChange, EntryEvent, Flow, Instructions, Removal, Select, Tables};

/// Monitors of a controller, at most.
pub(super) const MOST: usize = 1024;

/// Updates in one message to a controller, before it is encoded: some kilobytes.
const TOGETHER: usize = 256;

impl Agent {
    /// Monitors come, change or go; what there is for those that come is the answer.
    pub(super) fn monitor(
        &mut self,
        from: ConnectionId,
        xid: u32,
        wanted: Vec<MonitorRequest>,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        check(peer, &wanted)?;
        let part =
            |more, updates| Body::MultipartReply(MultipartReply { more, reply: Reply::Monitor(updates) });
        for request in wanted {
            if request.command == MonitorCommand::Delete {
                peer.monitors.remove(&request.id);
                continue;
            }
            // Each monitor's beginning is a part by itself: of all together there may be far too much to be kept.
            if request.flags & MonitorRequest::INITIAL != 0 && !peer.is_gone() {
                let found = plane.flows_of(&select(&request)).map_err(|_| Code::BadMultipart)?;
                let updates = found.iter().map(|stats| full(&stats.flow, UpdateEvent::Initial, &request));
                let updates: Vec<FlowUpdate> = updates.collect();
                if !updates.is_empty() {
                    peer.answer(xid, part(true, updates));
                }
            }
            peer.monitors.insert(request.id, request);
        }
        peer.answer(xid, part(false, Vec::new()));
        Ok(())
    }

    pub(super) fn cancel_monitor(&mut self, from: ConnectionId, id: u32) -> Result<(), Code> {
        let gone = self.peers.get_mut(&from).and_then(|peer| peer.monitors.remove(&id));
        gone.map(drop).ok_or(Code::MonitorUnknown)
    }

    /// Tells monitors what became of entries. `asked` says who asked for a change, and by which transaction.
    pub(super) fn tell_monitors(
        &self,
        entries: &[EntryChange],
        asked: impl Fn(usize) -> Option<(ConnectionId, u32)>,
    ) {
        for (id, peer) in self.peers.iter().filter(|(_, peer)| !peer.monitors.is_empty()) {
            let mut updates: Vec<FlowUpdate> = Vec::new();
            for change in entries {
                let own = asked(change.at).filter(|(from, _)| from == id).map(|(_, xid)| xid);
                if let Some(update) = update(peer, change, own)
                    // Of all entries that one of its own messages changed, a controller is told once.
                    && (!matches!(update, FlowUpdate::Abbreviated(_)) || updates.last() != Some(&update))
                {
                    updates.push(update);
                }
            }
            for some in updates.chunks(TOGETHER) {
                let reply = Reply::Monitor(some.to_vec());
                if !peer.tell(Body::MultipartReply(MultipartReply { more: false, reply })) {
                    peer.close();
                    break;
                }
            }
        }
    }

    /// The same of an entry that went by itself.
    pub(super) fn tell_monitors_of_removal(&self, flow: &Flow, why: Removal) {
        let change = EntryChange { at: 0, flow: flow.clone(), what: EntryEvent::Removed(why) };
        self.tell_monitors(&[change], |_| None);
    }
}

fn check(peer: &Peer, wanted: &[MonitorRequest]) -> Result<(), Code> {
    let mut count = peer.monitors.len();
    let mut earlier = BTreeSet::new();
    for request in wanted {
        let there = !earlier.insert(request.id) || peer.monitors.contains_key(&request.id);
        match request.command {
            MonitorCommand::Add if there => return Err(Code::MonitorExists),
            MonitorCommand::Modify | MonitorCommand::Delete if !there => return Err(Code::MonitorUnknown),
            MonitorCommand::Add => count += 1,
            MonitorCommand::Modify | MonitorCommand::Delete => {}
        }
    }
    if count > MOST { Err(Code::MonitorFlags) } else { Ok(()) }
}

fn select(request: &MonitorRequest) -> Select {
    Select {
        table: request.table,
        matching: request.matching.clone(),
        out_port: request.out_port,
        out_group: request.out_group,
        ..Select::default()
    }
}

/// What a controller is told of a change, if one of its monitors wants to know.
fn update(peer: &Peer, change: &EntryChange, own: Option<u32>) -> Option<FlowUpdate> {
    let flag = match change.what {
        EntryEvent::Added => MonitorRequest::ADD,
        EntryEvent::Modified => MonitorRequest::MODIFY,
        EntryEvent::Removed(_) => MonitorRequest::REMOVED,
    };
    let wants = |request: &&MonitorRequest| {
        request.flags & flag != 0
            && (request.flags & MonitorRequest::ONLY_OWN == 0 || own.is_some())
            && select(request).is_meant(&change.flow)
    };
    let mut wanting = peer.monitors.values().filter(wants).peekable();
    wanting.peek()?;
    // What all of them want together.
    let flags = wanting.clone().fold(0, |all, request| all | request.flags);
    let request = MonitorRequest { flags, ..(*wanting.peek()?).clone() };
    if let Some(xid) = own.filter(|_| flags & MonitorRequest::NO_ABBREV == 0) {
        return Some(FlowUpdate::Abbreviated(xid));
    }
    let event = match change.what {
        EntryEvent::Added => UpdateEvent::Added,
        EntryEvent::Modified => UpdateEvent::Modified,
        EntryEvent::Removed(why) => UpdateEvent::Removed(removal(why, peer.version.max(Version::V13))),
    };
    Some(full(&change.flow, event, &request))
}

fn full(flow: &Flow, event: UpdateEvent, request: &MonitorRequest) -> FlowUpdate {
    let with = request.flags & MonitorRequest::INSTRUCTIONS != 0;
    FlowUpdate::Full {
        event,
        table: flow.table,
        priority: flow.priority,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        cookie: flow.cookie,
        matching: flow.matching.clone(),
        instructions: if with { flow.instructions.clone() } else { Instructions::default() },
    }
}
