//! Bundles: changes that take effect together or not at all (OpenFlow 1.4.1, section 6.9; ONF's extension 230
//! to 1.3).
//!
//! Messages are kept as they came and checked when the bundle is committed, against the tables of that moment:
//! the datapath does them in one go, between two bursts of each worker. Atomic and ordered is what all bundles
//! are, whether they asked for it or not.

use super::changes::{buffer_of, change};
use super::{Agent, refusal};
use crate::agent::ConnectionId;
use crate::plane::Plane;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_codec::{Body, BundleAdd, BundleControl, BundleFlags, BundleStep, Code, Message, PortMod};
use weir_datapath::{ApplyError, Change, PortFlags};
use weir_openflow::PortNo;

/// Bundles of a controller, at most.
const MOST: usize = 16;

/// Messages in the bundles of a controller, at most.
const MOST_MESSAGES: usize = 1 << 20;

/// How long a bundle may be left alone.
const PATIENCE: Duration = Duration::from_secs(10);

struct Bundle {
    flags: BundleFlags,
    closed: bool,
    /// Whether a message was refused that was to be in it.
    spoilt: bool,
    messages: Vec<Message>,
    touched: Instant,
}

/// What bundles that were committed have left behind: freeing a hundred thousand messages takes a while, which
/// nobody should have to wait for.
#[derive(Default)]
pub(super) struct Spent {
    bundles: Vec<Bundle>,
    changes: Vec<Vec<Change>>,
}

/// The bundles of a controller.
#[derive(Default)]
pub(super) struct Bundles {
    open: BTreeMap<u32, Bundle>,
    messages: usize,
}

impl Bundles {
    fn open(&mut self, id: u32, flags: BundleFlags) -> Result<(), Code> {
        if self.open.contains_key(&id) {
            self.forget(id);
            return Err(Code::BundleExists);
        }
        if self.open.len() >= MOST {
            return Err(Code::BundlesExhausted);
        }
        let bundle =
            Bundle { flags, closed: false, spoilt: false, messages: Vec::new(), touched: Instant::now() };
        self.open.insert(id, bundle);
        Ok(())
    }

    fn forget(&mut self, id: u32) -> Option<Bundle> {
        let bundle = self.open.remove(&id)?;
        self.messages -= bundle.messages.len();
        Some(bundle)
    }

    /// The bundle of a number, if it was opened with the same flags.
    fn get(&mut self, id: u32, flags: BundleFlags) -> Result<&mut Bundle, Code> {
        match self.open.get(&id) {
            None => Err(Code::BundleUnknown),
            Some(bundle) if bundle.flags != flags => {
                self.forget(id);
                Err(Code::BundleFlags)
            }
            Some(_) => self.open.get_mut(&id).ok_or(Code::BundleUnknown),
        }
    }

    /// Whether a message may become part of a bundle, which is opened if there is none of its number.
    fn admit(&mut self, add: &BundleAdd) -> Result<(), Code> {
        let BundleAdd { id, flags, ref message } = *add;
        if self.messages >= MOST_MESSAGES {
            return Err(Code::BundleTooMany);
        }
        if !self.open.contains_key(&id) {
            self.open(id, flags)?;
        }
        let bundle = self.get(id, flags)?;
        if bundle.closed {
            self.forget(id);
            return Err(Code::BundleClosed);
        }
        let can = matches!(
            message.body,
            Body::FlowMod(_) | Body::GroupMod(_) | Body::MeterMod(_) | Body::PortMod(_) | Body::PacketOut(_)
        );
        if !can {
            bundle.spoilt = true;
            return Err(Code::BundleUnsupported);
        }
        bundle.touched = Instant::now();
        Ok(())
    }

    fn put(&mut self, add: BundleAdd) {
        if let Some(bundle) = self.open.get_mut(&add.id) {
            bundle.messages.push(*add.message);
            self.messages += 1;
        }
    }

    /// A message was refused that was to be in it: it must not be committed.
    pub(super) fn spoil(&mut self, id: u32) {
        if let Some(bundle) = self.open.get_mut(&id) {
            bundle.spoilt = true;
        }
    }

    /// Forgets bundles that were left alone for too long; their numbers.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<u32> {
        let late = |bundle: &Bundle| now.saturating_duration_since(bundle.touched) > PATIENCE;
        let late: Vec<u32> = self.open.iter().filter(|(_, bundle)| late(bundle)).map(|(id, _)| *id).collect();
        late.iter().for_each(|id| drop(self.forget(*id)));
        late
    }
}

/// What a bundle asks beside changes of the tables.
#[derive(Default)]
struct Rest<'a> {
    ports: Vec<(PortNo, PortFlags)>,
    packets: Vec<&'a Message>,
}

impl Agent {
    /// A message becomes part of a bundle.
    pub(super) fn add_to_bundle(&mut self, from: ConnectionId, message: Message) {
        let Message { version, xid, body } = message;
        let (Body::BundleAdd(add), Some(peer)) = (body, self.peers.get_mut(&from)) else { return };
        match peer.bundles.admit(&add) {
            Ok(()) => peer.bundles.put(add),
            Err(code) => peer.refuse(&Message::new(version, xid, Body::BundleAdd(add)), code),
        }
    }

    /// A bundle is opened, closed, committed or discarded.
    pub(super) fn bundle_control(
        &mut self,
        from: ConnectionId,
        xid: u32,
        control: BundleControl,
        plane: &mut impl Plane,
    ) -> Result<(), Code> {
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        let BundleControl { id, step, flags } = control;
        let bundles = &mut peer.bundles;
        let step = match step {
            BundleStep::OpenRequest => {
                bundles.open(id, flags)?;
                BundleStep::OpenReply
            }
            BundleStep::CloseRequest => {
                let bundle = bundles.get(id, flags)?;
                if std::mem::replace(&mut bundle.closed, true) {
                    bundles.forget(id);
                    return Err(Code::BundleClosed);
                }
                bundle.touched = Instant::now();
                BundleStep::CloseReply
            }
            BundleStep::CommitRequest => {
                bundles.get(id, flags)?;
                let bundle = bundles.forget(id).ok_or(Code::BundleUnknown)?;
                let committed = self.commit(from, &bundle, plane);
                self.spent.bundles.push(bundle);
                committed?;
                BundleStep::CommitReply
            }
            BundleStep::DiscardRequest => {
                bundles.forget(id).ok_or(Code::BundleUnknown)?;
                BundleStep::DiscardReply
            }
            _ => return Err(Code::BundleType),
        };
        self.reply(from, xid, Body::BundleControl(BundleControl { id, step, flags }));
        Ok(())
    }

    /// Does all that a bundle asks, or nothing.
    fn commit(&mut self, from: ConnectionId, bundle: &Bundle, plane: &mut impl Plane) -> Result<(), Code> {
        if bundle.spoilt {
            return Err(Code::BundleFailed);
        }
        let failed = |agent: &Self, message: &Message, code: Code| {
            agent.refuse(from, message, code);
            Code::BundleFailed
        };
        let (mut changes, mut asked): (Vec<Change>, Vec<&Message>) = (Vec::new(), Vec::new());
        let mut rest = Rest::default();
        for message in &bundle.messages {
            match &message.body {
                Body::PortMod(change) => {
                    let flags = self.port_flags(change).map_err(|code| failed(self, message, code))?;
                    let PortMod { number, .. } = *change;
                    rest.ports.push((number, flags));
                }
                Body::PacketOut(_) => rest.packets.push(message),
                _ => {
                    if let Some(change) = change(message).map_err(|code| failed(self, message, code))? {
                        changes.push(change);
                        asked.push(message);
                    }
                }
            }
        }
        let watched = self.peers.values().any(|peer| !peer.monitors.is_empty());
        let applied = plane.apply_all(&changes, watched).map_err(|error| match error {
            ApplyError::Refused(at, refused) => match asked.get(at) {
                Some(message) => failed(self, message, refusal::code(refused.why)),
                None => Code::BundleFailed,
            },
            ApplyError::Control(_) => Code::BundleUnknownError,
        })?;
        self.tell_what_happened(plane);
        self.tell_monitors(&applied.entries, |at| asked.get(at).map(|message| (from, message.xid)));
        for message in asked {
            if let Some(buffer) = buffer_of(message) {
                self.send_buffer(from, message, buffer, plane);
            }
        }
        self.do_rest(from, rest, plane);
        self.spent.changes.push(changes);
        Ok(())
    }

    /// Frees what nobody waits for. To be called when answers are on their way.
    pub(crate) fn free_spent(&mut self) {
        self.spent = Spent::default();
    }

    fn do_rest(&mut self, from: ConnectionId, rest: Rest<'_>, plane: &mut impl Plane) {
        for (number, flags) in rest.ports {
            // The port was there when it was looked for, on this thread.
            let _ = plane.configure_port(number, flags);
        }
        self.look_at_ports(plane);
        for message in rest.packets {
            if let Body::PacketOut(packet) = &message.body
                && let Err(code) = self.packet_out(message.version, packet, plane)
            {
                self.refuse(from, message, code);
            }
        }
    }
}
