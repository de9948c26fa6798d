//! Flow-mods, group-mods and meter-mods as changes of the tables, gathered and done together.

use super::{Agent, refusal};
use crate::ConnectionId;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use weir_codec::{
    ALL_GROUPS, ALL_METERS, Body, BucketAt, Code, FlowCommand, GroupCommand, GroupMod, Message, MeterCommand,
    MeterMod, Version,
};
use weir_openflow::{Action, BucketPlace, Change, Ct, MeterId, Tables};

/// Changes that are gathered at most before they are done.
const MOST: usize = 8192;

/// Bytes that they may take meanwhile.
const MOST_BYTES: usize = 16 << 20;

/// How long a change may wait for others: as long as doing those before it took, within these bounds. A few
/// changes may cost as much as thousands, because each part of a table that any of them touches is copied
/// once. Whoever asks for something else, such as a barrier, does not wait.
const GATHERING: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(100);

/// Meters above this stand for something else (OpenFlow 1.3.5, section 7.3.4.4: `OFPM_MAX`).
const LAST_METER: MeterId = MeterId(0xffff_0000);

/// Changes that were asked for, and are not done yet.
#[derive(Default)]
pub(super) struct Pending {
    changes: Vec<Change>,
    /// Who asked for each.
    from: Vec<(ConnectionId, Message)>,
    /// Bytes that they take, about.
    bytes: usize,
    /// When the first was asked for.
    since: Option<Instant>,
    /// How long doing those before took.
    took: Duration,
}

/// What a message asks of the tables; nothing if it is about something else.
///
/// # Errors
/// What is wrong with it whatever there is.
pub(super) fn change(message: &Message) -> Result<Option<Change>, Code> {
    let version = message.version;
    Ok(Some(match &message.body {
        Body::FlowMod(flow) => {
            let adds = matches!(flow.command, FlowCommand::Add);
            if adds && flow.table.is_none() && version != Version::V10 {
                return Err(Code::FlowTable);
            }
            Change::Flow(flow.clone().change(version))
        }
        Body::GroupMod(change) => group_change(change),
        Body::MeterMod(change) => meter_change(change)?,
        _ => return Ok(None),
    }))
}

fn group_change(change: &GroupMod) -> Change {
    let GroupMod { command, group } = change;
    let place = |at: BucketAt| match at {
        BucketAt::First => BucketPlace::First,
        BucketAt::Last => BucketPlace::Last,
        BucketAt::All => BucketPlace::All,
        BucketAt::Number(number) => BucketPlace::Number(number),
    };
    match command {
        GroupCommand::Add => Change::AddGroup(group.clone()),
        GroupCommand::Modify => Change::ModifyGroup(group.clone()),
        GroupCommand::AddOrModify => Change::SetGroup(group.clone()),
        GroupCommand::Delete => Change::DeleteGroup((group.id != ALL_GROUPS).then_some(group.id)),
        GroupCommand::InsertBucket(at) => Change::InsertBuckets(group.id, place(*at), group.buckets.clone()),
        GroupCommand::RemoveBucket(at) => Change::RemoveBuckets(group.id, place(*at)),
    }
}

fn meter_change(change: &MeterMod) -> Result<Change, Code> {
    let MeterMod { command, meter } = change;
    let all = meter.id == ALL_METERS && *command == MeterCommand::Delete;
    if !all && (meter.id.0 == 0 || meter.id > LAST_METER) {
        return Err(Code::MeterInvalid);
    }
    Ok(match command {
        MeterCommand::Add => Change::AddMeter(meter.clone()),
        MeterCommand::Modify => Change::ModifyMeter(meter.clone()),
        MeterCommand::Delete => Change::DeleteMeter((!all).then_some(meter.id)),
    })
}

/// Bytes that a change takes in memory, about: it and its actions.
fn weight(message: &Message) -> usize {
    let mut bytes = size_of::<Message>();
    let mut add = |action: &Action| {
        bytes += size_of::<Action>();
        bytes += match action {
            Action::Note(words) => words.len(),
            Action::Controller(to) => to.userdata.len(),
            Action::DecTtl(ids) => size_of_val(ids.as_slice()),
            Action::Ct(ct) => size_of::<Ct>() + size_of_val(ct.steps.as_slice()),
            _ => 0,
        };
    };
    match &message.body {
        Body::FlowMod(flow) => flow.instructions.each(&mut add),
        Body::GroupMod(change) => {
            change.group.buckets.iter().flat_map(|bucket| &bucket.actions).for_each(&mut add);
            bytes += size_of_val(change.group.buckets.as_slice());
        }
        Body::MeterMod(change) => bytes += size_of_val(change.meter.bands.as_slice()),
        _ => {}
    }
    bytes
}

/// The packet that a flow-mod sends through the tables when it is done.
pub(super) fn buffer_of(message: &Message) -> Option<u32> {
    match &message.body {
        Body::FlowMod(flow) if !matches!(flow.command, FlowCommand::Delete | FlowCommand::DeleteStrict) => {
            flow.buffer
        }
        _ => None,
    }
}

impl Agent {
    /// Notes a change; it is done with those that follow at once.
    pub(super) fn gather(&mut self, from: ConnectionId, message: Message, plane: &mut impl Tables) {
        match change(&message) {
            Ok(Some(change)) => {
                self.pending.since.get_or_insert_with(Instant::now);
                self.pending.bytes += 2 * weight(&message);
                self.pending.changes.push(change);
                self.pending.from.push((from, message));
                if self.pending.changes.len() >= MOST || self.pending.bytes >= MOST_BYTES {
                    self.flush(plane);
                }
            }
            Ok(None) => {}
            Err(code) => {
                // Errors come in the order of what they are about.
                self.flush(plane);
                self.refuse(from, &message, code);
            }
        }
    }

    /// When what was gathered is to be done, if anything was.
    pub fn due(&self) -> Option<Instant> {
        let wait = self.pending.took.clamp(*GATHERING.start(), *GATHERING.end());
        self.pending.since.map(|since| since + wait)
    }

    /// Does what was gathered.
    pub fn flush(&mut self, plane: &mut impl Tables) {
        if self.pending.changes.is_empty() {
            return;
        }
        let Pending { changes, from, .. } = std::mem::take(&mut self.pending);
        let began = Instant::now();
        let watched = self.peers.values().any(|peer| !peer.monitors.is_empty());
        let applied = match plane.apply_each(changes, watched) {
            Ok(applied) => applied,
            Err(_) => {
                for (connection, message) in &from {
                    self.refuse(*connection, message, failed(message));
                }
                return;
            }
        };
        self.pending.took = began.elapsed();
        self.tell_what_happened(plane);
        for (at, refused) in &applied.refused {
            if let Some((connection, message)) = from.get(*at) {
                self.refuse(*connection, message, refusal::code(refused.why));
            }
        }
        let asked: Vec<(ConnectionId, u32)> = if watched {
            from.iter().map(|(connection, message)| (*connection, message.xid)).collect()
        } else {
            Vec::new()
        };
        self.tell_monitors(&applied.entries, |at| asked.get(at).copied());
        let refused = |at: usize| applied.refused.binary_search_by_key(&at, |(place, _)| *place).is_ok();
        for (at, (connection, message)) in from.iter().enumerate() {
            if let Some(buffer) = buffer_of(message).filter(|_| !refused(at)) {
                self.send_buffer(*connection, message, buffer, plane);
            }
        }
    }

    /// Tells what happened by changes of the tables, here and to other listeners.
    pub(super) fn tell_what_happened(&mut self, plane: &mut impl Tables) {
        for event in plane.happened() {
            self.happened(&event, plane);
            self.seen.push(event);
        }
    }

    pub(super) fn refuse(&self, to: ConnectionId, message: &Message, code: Code) {
        if let Some(peer) = self.peers.get(&to) {
            peer.refuse(message, code);
        }
    }
}

/// The error of a change that could not be done for no fault of its own.
pub(super) const fn failed(message: &Message) -> Code {
    match &message.body {
        Body::GroupMod(_) => Code::GroupInvalid,
        Body::MeterMod(_) => Code::MeterUnknownError,
        _ => Code::FlowUnknown,
    }
}
