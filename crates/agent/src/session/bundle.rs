//! Bundles: changes that take effect together or not at all (OpenFlow 1.4.1, section 6.9; ONF's extension 230
//! to 1.3).
//!
//! Messages are kept as bytes and checked when the bundle is committed, against the tables of that moment: the
//! datapath does them in one go, between two bursts of each worker. Atomic and ordered is what all bundles are,
//! whether they asked for it or not. So that a commit need not be long, one bundle at a time has its changes done
//! to a copy of the tables while its messages come ([`Ahead`]); only where that copy is out of date by then they
//! are done at the commit.
//!
//! Memory: what a controller's bundles hold counts as what waits for it does ([`crate::channel::Held`]).

use super::changes::{buffer_of, change};
use super::pile::Pile;
use super::{Agent, refusal};
use crate::ConnectionId;
use crate::channel::Line;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_codec::{Body, BundleAdd, BundleControl, BundleFlags, BundleStep, Code, Message};
use weir_openflow::{Ahead, ApplyError, Change, Tables};

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
    messages: Pile,
    /// Whether one of them is more than a change of the tables: it is about a port, or sends a packet.
    more: bool,
    /// The tables with all of its changes done, if that is so.
    ahead: Option<Box<dyn Ahead>>,
    touched: Instant,
}

impl Bundle {
    fn new(flags: BundleFlags, messages: Pile) -> Self {
        let touched = Instant::now();
        Self { flags, closed: false, spoilt: false, messages, more: false, ahead: None, touched }
    }

    /// Takes a message; false if there is no room for it.
    fn push(&mut self, message: &Message) -> bool {
        let done = |ahead: &mut Box<dyn Ahead>| match change(message) {
            Ok(Some(change)) => ahead.change(change),
            Ok(None) => true,
            Err(_) => false,
        };
        // What is wrong with it is told when it is committed.
        self.ahead = self.ahead.take().and_then(|mut ahead| done(&mut ahead).then_some(ahead));
        self.more |=
            matches!(message.body, Body::PortMod(_) | Body::PacketOut(_)) || buffer_of(message).is_some();
        self.messages.push(message)
    }
}

/// The bundles of a controller.
pub(super) struct Bundles {
    /// What their bytes are counted with.
    line: Line,
    open: BTreeMap<u32, Bundle>,
    messages: usize,
}

impl Bundles {
    pub(super) const fn new(line: Line) -> Self {
        Self { line, open: BTreeMap::new(), messages: 0 }
    }

    fn open(&mut self, id: u32, flags: BundleFlags) -> Result<(), Code> {
        if self.open.contains_key(&id) {
            self.forget(id);
            return Err(Code::BundleExists);
        }
        if self.open.len() >= MOST {
            return Err(Code::BundlesExhausted);
        }
        self.open.insert(id, Bundle::new(flags, Pile::new(self.line.hold())));
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
            self.spoil(id);
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

    /// Whether a bundle has no message yet.
    fn is_empty(&self, id: u32) -> bool {
        self.open.get(&id).is_some_and(|bundle| bundle.messages.len() == 0)
    }

    /// Whether the changes of one are done ahead.
    fn are_ahead(&self) -> bool {
        self.open.values().any(|bundle| bundle.ahead.is_some())
    }

    /// Has the changes of a bundle done ahead from now on.
    fn go_ahead(&mut self, id: u32, ahead: Option<Box<dyn Ahead>>) {
        if let Some(bundle) = self.open.get_mut(&id) {
            bundle.ahead = ahead;
        }
    }

    /// Takes a message that was admitted.
    fn put(&mut self, add: &BundleAdd) -> Result<(), Code> {
        let Some(bundle) = self.open.get_mut(&add.id) else { return Ok(()) };
        if !bundle.push(&add.message) {
            (bundle.spoilt, bundle.ahead) = (true, None);
            return Err(Code::BundleTooMany);
        }
        self.messages += 1;
        Ok(())
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

impl Agent {
    /// A message becomes part of a bundle.
    pub(super) fn add_to_bundle(&mut self, from: ConnectionId, message: Message, plane: &mut impl Tables) {
        let Message { version, xid, body } = message;
        let (Body::BundleAdd(add), Some(peer)) = (body, self.peers.get_mut(&from)) else { return };
        if let Err(code) = peer.bundles.admit(&add) {
            peer.refuse(&Message::new(version, xid, Body::BundleAdd(add)), code);
            return;
        }
        if peer.bundles.is_empty(add.id) {
            self.begin_ahead(from, add.id, plane);
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if let Err(code) = peer.bundles.put(&add) {
            peer.refuse(&Message::new(version, xid, Body::BundleAdd(add)), code);
        }
    }

    /// Has a bundle's changes done ahead, unless those of another are: the first that is committed makes what was
    /// done for others useless, and copies of tables cost memory.
    fn begin_ahead(&mut self, from: ConnectionId, id: u32, plane: &mut impl Tables) {
        if self.peers.values().any(|peer| peer.bundles.are_ahead()) {
            return;
        }
        // What was asked for before is in the tables of which the copy is made.
        self.flush(plane);
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.bundles.go_ahead(id, plane.ahead());
        }
    }

    /// A bundle is opened, closed, committed or discarded.
    pub(super) fn bundle_control(
        &mut self,
        from: ConnectionId,
        xid: u32,
        control: BundleControl,
        plane: &mut impl Tables,
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
                let mut bundle = bundles.forget(id).ok_or(Code::BundleUnknown)?;
                let ahead = bundle.ahead.take();
                self.commit(from, &bundle, ahead, plane)?;
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

    /// Does all that a bundle asks, or nothing. Changes that were done ahead have only to take effect.
    fn commit(
        &mut self,
        from: ConnectionId,
        bundle: &Bundle,
        ahead: Option<Box<dyn Ahead>>,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        if bundle.spoilt {
            return Err(Code::BundleFailed);
        }
        if bundle.more {
            self.check_ports(from, bundle)?;
        }
        let watched = self.peers.values().any(|peer| !peer.monitors.is_empty());
        match ahead.filter(|_| !watched).map(|ahead| plane.apply_ahead(ahead)) {
            Some(Err(_)) => return Err(Code::BundleUnknownError),
            Some(Ok(true)) => self.tell_what_happened(plane),
            Some(Ok(false)) | None => self.apply_all(from, bundle, watched, plane)?,
        }
        if bundle.more {
            self.do_rest(from, bundle, plane);
        }
        Ok(())
    }

    /// Whether the ports that a bundle is about can be told what it says.
    fn check_ports(&self, from: ConnectionId, bundle: &Bundle) -> Result<(), Code> {
        for message in bundle.messages.iter() {
            if let Body::PortMod(change) = &message.body {
                self.port_flags(change).map_err(|code| self.fails(from, &message, code))?;
            }
        }
        Ok(())
    }

    /// Does changes to the tables as they are, all or none.
    fn apply_all(
        &mut self,
        from: ConnectionId,
        bundle: &Bundle,
        tell: bool,
        plane: &mut impl Tables,
    ) -> Result<(), Code> {
        let mut changes: Vec<Change> = Vec::with_capacity(bundle.messages.len());
        let mut asked: Vec<u32> = Vec::with_capacity(bundle.messages.len());
        for message in bundle.messages.iter() {
            let change = change(&message).map_err(|code| self.fails(from, &message, code))?;
            asked.extend(change.is_some().then_some(message.xid));
            changes.extend(change);
        }
        let applied = plane.apply_all(changes, tell).map_err(|error| match error {
            ApplyError::Refused(at, refused) => {
                let mut those =
                    bundle.messages.iter().filter(|message| matches!(change(message), Ok(Some(_))));
                match those.nth(at) {
                    Some(message) => self.fails(from, &message, refusal::code(refused.why)),
                    None => Code::BundleFailed,
                }
            }
            ApplyError::Control(_) => Code::BundleUnknownError,
        })?;
        self.tell_what_happened(plane);
        self.tell_monitors(&applied.entries, |at| asked.get(at).map(|xid| (from, *xid)));
        Ok(())
    }

    /// Tells what is wrong with a message for which a bundle fails.
    fn fails(&self, from: ConnectionId, message: &Message, code: Code) -> Code {
        self.refuse(from, message, code);
        Code::BundleFailed
    }

    /// Does what is not about the tables: packets that were kept, ports, packets that are sent out.
    fn do_rest(&mut self, from: ConnectionId, bundle: &Bundle, plane: &mut impl Tables) {
        for message in bundle.messages.iter() {
            if let Some(buffer) = buffer_of(&message) {
                self.send_buffer(from, &message, buffer, plane);
            }
        }
        for message in bundle.messages.iter() {
            if let Body::PortMod(change) = &message.body
                && let Ok(flags) = self.port_flags(change)
            {
                // The port was there when it was looked for, on this thread.
                let _ = plane.configure_port(change.number, flags);
            }
        }
        self.look_at_ports(plane);
        for message in bundle.messages.iter() {
            if let Body::PacketOut(packet) = &message.body
                && let Err(code) = self.packet_out(message.version, packet, plane)
            {
                self.refuse(from, &message, code);
            }
        }
    }
}
