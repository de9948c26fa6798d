//! Data connections that are expected, and what becomes of them when they come.

use super::super::Place;
use super::super::entry::{RELATED as RELATED_FLAG, TRANSLATED};
use super::super::nat::TRIED;
use super::super::packet::Look;
use super::super::reason::{Event, Reason};
use super::super::tracker::Tracker;
use super::super::tracking::own_tuple;
use super::super::tuple::{IndexKey, Tuple};
use super::super::wheel::Tick;
use super::{PATIENCE, RELATED, Related};

/// What the first packet of an expected connection has. Its source's port may be any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    v6: bool,
    source: u128,
    destination: u128,
    port: u16,
    protocol: u8,
    zone: u16,
}

impl Wanted {
    fn of(tuple: &Tuple, zone: u16) -> Self {
        let Tuple { v6, source, destination, protocol, .. } = *tuple;
        Self { v6, source, destination, port: tuple.destination_port, protocol, zone }
    }

    /// As a tuple from no port.
    fn tuple(&self) -> Tuple {
        let Self { v6, source, destination, port, protocol, .. } = *self;
        let ports = (0, port);
        Tuple {
            v6,
            source,
            destination,
            source_port: ports.0,
            destination_port: ports.1,
            protocol,
            kind: 0,
            answer: false,
        }
    }
}

/// An expected connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    wanted: Wanted,
    /// What its answers have once it is translated, but for the port that they go to.
    answers: Tuple,
    deadline: Tick,
}

impl Tracker {
    /// Expects a data connection to whoever sends `sent`, which the other side sees as `seen`: to the first port,
    /// which the other side knows as the second. False where another control connection expects the same.
    pub(super) fn await_one(
        &mut self,
        place: Place,
        (sent, seen): (&Tuple, &Tuple),
        (port, shown): (u16, u16),
        now: Tick,
    ) -> bool {
        let hot = self.entries.hot(place.at);
        let (zone, translated) = (IndexKey::zone_of(hot.b), hot.flags & TRANSLATED != 0);
        let wanted = Wanted::of(&Tuple { destination_port: shown, ..seen.reversed() }, zone);
        let answers = Tuple { source_port: port, destination_port: 0, ..*sent };
        if let Some(&other) = self.helpers.expected.get(&wanted).filter(|other| **other != place.at) {
            // Of the same two hosts, the later announcement holds.
            if translated && !self.has_waited(other, now) {
                return false;
            }
            self.expect_no_more(other);
        }
        self.expect_no_more(place.at);
        if let Some((owners, worker)) = &self.owners
            && !owners.insert_expected(&wanted.tuple(), *worker)
        {
            return false;
        }
        let Some(control) = self.helpers.controls.get_mut(&place.at) else { return false };
        let deadline = now.after(Tick::seconds(PATIENCE));
        control.expected = Some(Expectation { wanted, answers, deadline });
        self.helpers.expected.insert(wanted, place.at);
        self.counters.count(Event::HelperExpected);
        true
    }

    /// Whether a control connection has waited for its data connection for long enough.
    fn has_waited(&self, at: u32, now: Tick) -> bool {
        let expected = self.helpers.controls.get(&at).and_then(|control| control.expected.as_ref());
        expected.is_none_or(|expected| expected.deadline.reached(now))
    }

    /// A control connection expects nothing any more; what it expected.
    pub(super) fn expect_no_more(&mut self, at: u32) -> Option<Expectation> {
        let expected = self.helpers.controls.get_mut(&at)?.expected.take()?;
        self.helpers.expected.remove(&expected.wanted);
        if let Some((owners, worker)) = &self.owners {
            owners.remove_expected(&expected.wanted.tuple(), *worker);
        }
        Some(expected)
    }

    /// The control connection that expects the one of a packet.
    pub(in super::super) fn awaited(&mut self, look: &Look, now: Tick) -> Option<u32> {
        if self.helpers.expected.is_empty() {
            return None;
        }
        let wanted = Wanted::of(&own_tuple(look)?, look.zone);
        let at = *self.helpers.expected.get(&wanted)?;
        if self.has_waited(at, now) {
            self.expect_no_more(at);
            return None;
        }
        Some(at)
    }

    /// A connection that was just made is the one that a control connection expected.
    #[cold]
    pub(in super::super) fn adopt(&mut self, at: u32, control: u32) -> Result<(), Reason> {
        if self.helpers.related.len() >= RELATED {
            return Err(Reason::LimitHelper);
        }
        let places = (self.entries.place(at), self.entries.place(control));
        let (Some((original, _)), Some((parent, _))) = (self.tuples(places.0), self.tuples(places.1)) else {
            return Err(Reason::LimitHelper);
        };
        let Some(expected) = self.expect_no_more(control) else { return Err(Reason::LimitHelper) };
        if let Some((owners, worker)) = &self.owners
            && !owners.insert(&IndexKey::of(&original, 0, owners.seed()), *worker)
        {
            return Err(Reason::LimitHelper);
        }
        self.helpers.related.insert(at, Related { parent, answers: expected.answers });
        self.entries.hot_mut(at).flags |= RELATED_FLAG;
        if let Some((mark, label)) = self.marks(places.1) {
            self.set_mark(places.0, mark, u32::MAX);
            self.set_label(places.0, label, u128::MAX);
        }
        self.counters.count(Event::HelperRelated);
        Ok(())
    }

    /// Nobody owns the original tuple of a data connection any more.
    pub(super) fn disown(&self, at: u32) {
        if let Some((owners, worker)) = &self.owners
            && let Some((original, _)) = self.tuples(self.entries.place(at))
        {
            owners.remove(&IndexKey::of(&original, 0, owners.seed()), *worker);
        }
    }

    /// Translates a data connection as its control connection is. False if no port is left.
    #[cold]
    pub(in super::super) fn follow_control(&mut self, place: Place, now: Tick) -> bool {
        let Some(related) = self.helpers.related.get(&place.at).copied() else { return true };
        let Some((original, _)) = self.tuples(place) else { return false };
        let plain = original.reversed();
        let own = original.source_port;
        let least = if own < 1024 { 1 } else { 1024 };
        let count = if own < 1024 { 1023 } else { u32::from(u16::MAX) - 1023 };
        for step in 0..TRIED.min(count) {
            if !self.search.goes_on(step, now) {
                return false;
            }
            let port = least + ((u32::from(own.saturating_sub(least)) + step) % count) as u16;
            let reply = Tuple { destination_port: port, answer: plain.answer, ..related.answers };
            if let Some(done) = self.take(place, &plain, &reply, now) {
                return done;
            }
        }
        false
    }
}
