//! Helpers: connections that announce others (`alg=ftp`, `alg=tftp` of `ct`, `ovs-actions(7)`).
//!
//! A connection that is kept with a helper is its *control connection*. What its sides say is read, and the
//! *data connection* that they announce is *expected*: when it comes, it is `+rel` for all of its life, and has
//! the mark, the label and, in `ct_nw_src` and the like, the original tuple of its control connection.
//!
//! Where the control connection is translated, who reads an announcement needs another address in it, and
//! perhaps another port: the text is replaced ([`Splice`]), numbers follow (`shift.rs`), and the data
//! connection, if its own `ct` has `nat`, is translated to match, whatever range that names.
//!
//! What is refused, for the sake of those behind a firewall: an announcement of another host's address (FTP's
//! bounce attack) or of a port below [`LEAST_PORT`] (RFC 2577, sections 3 and 5); it goes on as it is,
//! and nothing is expected (`helper-ignored`). A control connection has one expectation, its latest, for
//! [`PATIENCE`] seconds: so there are as many as control connections, of which a worker has [`CONTROLS`] at
//! most; data connections, [`RELATED`]. One more is refused (`limit-helper`).
//!
//! Cost: a flag for all other connections. A control connection's packets, and those of data connections, do
//! not go the quick way, and find what is known of them by a hash. Nothing is allocated once the tracker is
//! built. Threads: none; of an expectation whose packets would come to another worker, `owners.rs` knows.

mod expect;
mod ftp;
mod shift;

use super::entry::{HELPED, Place, RELATED as RELATED_FLAG, TRANSLATED};
use super::nat::TRIED;
use super::packet::{Kind, Look, Packet};
use super::reason::{Event, Reason};
use super::segment::{Segment, flag};
use super::tracker::Tracker;
use super::tuple::{TCP, Tuple, UDP};
use super::wheel::Tick;
use expect::{Expectation, Wanted};
use shift::Shift;
use std::collections::HashMap;
use weir_flow::{Layout, MOST_SPLICED, Splice};
use weir_openflow::Helper;

/// Control connections of a worker, at most.
pub(super) const CONTROLS: usize = 1 << 14;

/// Data connections of a worker, at most: those that ended stay for a while, as all do.
pub(super) const RELATED: usize = 1 << 16;

/// How long a data connection is expected, in seconds: as long as by Linux.
const PATIENCE: u32 = 300;

/// The least port that is believed.
const LEAST_PORT: u16 = 1024;

/// What one side of a control connection said.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    shift: Shift,
    /// The sequence number behind its last line, or its SYN; none where it was met in the middle.
    line: Option<u32>,
    /// Its last announcement: the segment's sequence number, the port, and the one that was written for it.
    last: Option<(u32, u16, u16)>,
}

/// What is known of a control connection.
#[derive(Debug)]
struct Control {
    helper: Helper,
    /// The originator's first.
    sides: [Side; 2],
    expected: Option<Expectation>,
}

/// What is known of a data connection.
#[derive(Clone, Copy, Debug)]
struct Related {
    /// The control connection's original tuple.
    parent: Tuple,
    /// What the answers have, if it is translated, but for the port that they go to.
    answers: Tuple,
}

/// All that a tracker knows for helpers, by connections' numbers.
#[derive(Debug)]
pub(super) struct Helpers {
    controls: HashMap<u32, Control>,
    expected: HashMap<Wanted, u32>,
    related: HashMap<u32, Related>,
}

/// What is done to a packet of a control connection.
#[derive(Clone, Debug, Default)]
pub struct Help {
    own: Shift,
    other: Shift,
    /// What is replaced in it.
    pub splice: Option<Splice>,
}

impl Help {
    /// Numbers the packet as its receiver counts.
    pub fn renumber(&self, frame: &mut [u8], layout: Layout) {
        let segment = usize::from(layout.transport)..usize::from(layout.end);
        if let Some(segment) = frame.get_mut(segment) {
            shift::renumber(segment, &self.own, &self.other);
        }
    }
}

impl Helpers {
    /// Of a tracker that has so many connections at most: no more of them can have a helper.
    pub(super) fn new(connections: usize) -> Self {
        let [controls, related] = [CONTROLS, RELATED].map(|most| most.min(connections));
        Self {
            controls: HashMap::with_capacity(controls),
            expected: HashMap::with_capacity(controls),
            related: HashMap::with_capacity(related),
        }
    }

    /// Bytes of what is in use.
    pub(super) fn memory(&self) -> usize {
        self.controls.len() * size_of::<Control>()
            + self.expected.len() * size_of::<Wanted>()
            + self.related.len() * size_of::<Related>()
    }
}

impl Tracker {
    /// Gives a connection that was just made a helper.
    #[cold]
    pub(super) fn assign(&mut self, place: Place, helper: Helper, look: &Look) -> Result<(), Reason> {
        let protocol = if look.kind == Kind::Tcp { TCP } else { UDP };
        if !matches!(look.kind, Kind::Tcp | Kind::Udp) || protocol != helper.protocol() {
            return Ok(());
        }
        if self.helpers.controls.len() >= CONTROLS {
            return Err(Reason::LimitHelper);
        }
        let control = Control { helper, sides: [Side::default(); 2], expected: None };
        self.helpers.controls.insert(place.at, control);
        self.entries.hot_mut(place.at).flags |= HELPED;
        Ok(())
    }

    /// The helper of a connection.
    pub(super) fn helper(&self, at: u32) -> Option<Helper> {
        self.helpers.controls.get(&at).map(|control| control.helper)
    }

    /// A segment of a control connection with what it acknowledges as the other side has sent it.
    #[cold]
    pub(super) fn as_sent(&self, at: u32, side: usize, segment: &Segment) -> Segment {
        let ack =
            self.helpers.controls.get(&at).map(|control| control.sides[1 - side].shift.back(segment.ack));
        match ack {
            Some(ack) if segment.has(flag::ACK) => Segment { ack, ..*segment },
            _ => *segment,
        }
    }

    /// A sequence number that an ICMP error quotes, as the side that sent it counts.
    pub(super) fn quoted_as_sent(&self, at: u32, side: usize, seq: u32) -> u32 {
        self.helpers.controls.get(&at).map_or(seq, |control| control.sides[side].shift.back(seq))
    }

    /// Reads what a packet of a control connection says, and tells what becomes of it. `turned` says whether
    /// its addresses change.
    #[cold]
    pub fn help(
        &mut self,
        packet: &Packet<'_>,
        (place, side): (Place, usize),
        turned: bool,
        now: Tick,
    ) -> Help {
        let Some(control) = self.helpers.controls.get(&place.at) else { return Help::default() };
        let splice = match control.helper {
            _ if packet.is_first_fragment() => None,
            Helper::Ftp => self.hear_ftp(packet, (place, side), turned, now),
            Helper::Tftp => {
                self.hear_tftp(packet, (place, side), now);
                None
            }
        };
        let Some(control) = self.helpers.controls.get(&place.at).filter(|_| turned) else {
            return Help::default();
        };
        Help { own: control.sides[side].shift, other: control.sides[1 - side].shift, splice }
    }

    /// A TFTP request: the answer comes from any port to where the request came from.
    fn hear_tftp(&mut self, packet: &Packet<'_>, (place, side): (Place, usize), now: Tick) {
        let asks = packet.transport().is_ok_and(|bytes| matches!(bytes.get(8..10), Some([0, 1 | 2])));
        let Some((sent, seen)) = self.both_ways(place, side).filter(|_| asks && side == 0) else { return };
        self.await_one(place, (&sent, &seen), (sent.source_port, seen.source_port), now);
    }

    /// The tuple of a side's packets as they come, and as they leave.
    fn both_ways(&self, place: Place, side: usize) -> Option<(Tuple, Tuple)> {
        let (original, reply) = self.tuples(place)?;
        Some(if side == 0 { (original, reply.reversed()) } else { (reply, original.reversed()) })
    }

    /// A segment of an FTP control connection.
    fn hear_ftp(
        &mut self,
        packet: &Packet<'_>,
        (place, side): (Place, usize),
        turned: bool,
        now: Tick,
    ) -> Option<Splice> {
        let bytes = packet.transport().ok()?;
        let segment = Segment::read(bytes).ok()?;
        // What its receiver refuses was not said.
        if !packet.checksum_is_right(bytes, TCP) {
            return None;
        }
        let data = &bytes[bytes.len() - segment.length as usize..];
        let said = &mut self.helpers.controls.get_mut(&place.at)?.sides[side];
        let again = said.last.filter(|last| last.0 == segment.seq);
        let begins = said.line.is_none_or(|line| line == segment.seq) || again.is_some();
        let end = segment.seq.wrapping_add(segment.length + u32::from(segment.has(flag::SYN)));
        let ends = segment.has(flag::SYN) || data.last() == Some(&b'\n');
        if ends && said.line.is_none_or(|line| !shift::up_to(end, line)) {
            said.line = Some(end);
        }
        let announced = ftp::read(data, side == 0).filter(|_| begins)?;
        let (sent, seen) = self.both_ways(place, side)?;
        let own = sent.source_address();
        if announced.port < LEAST_PORT || announced.address.is_some_and(|address| address != own) {
            self.counters.count(Event::HelperIgnored);
            return None;
        }
        let shown = match again {
            Some((_, port, shown)) if port == announced.port => shown,
            _ => self.announce(place, (&sent, &seen), announced.port, now)?,
        };
        let said = &mut self.helpers.controls.get_mut(&place.at)?.sides[side];
        said.last = Some((segment.seq, announced.port, shown));
        if !turned || (own, announced.port) == (seen.source_address(), shown) {
            return None;
        }
        let data_at = usize::from(packet.layout.transport) + bytes.len() - data.len();
        let text = announced.write::<MOST_SPLICED>(seen.source_address(), shown);
        let at = data_at + announced.place.start;
        let splice = Splice { at, removed: announced.place.len(), bytes: text };
        let behind = segment.seq.wrapping_add(announced.place.end as u32);
        said.shift.add(behind, splice.grows());
        Some(splice)
    }

    /// Expects what was announced, at a port that nobody else expects something at; the port.
    fn announce(
        &mut self,
        place: Place,
        (sent, seen): (&Tuple, &Tuple),
        port: u16,
        now: Tick,
    ) -> Option<u16> {
        let translated = self.entries.hot(place.at).flags & TRANSLATED != 0;
        let attempts = if translated { TRIED } else { 1 };
        let above = u32::from(u16::MAX - LEAST_PORT) + 1;
        let mut shown = None;
        for step in 0..attempts {
            if shown.is_some() || !self.search.goes_on(step, now) {
                break;
            }
            let next = LEAST_PORT + ((u32::from(port - LEAST_PORT) + step) % above) as u16;
            shown = self.await_one(place, (sent, seen), (port, next), now).then_some(next);
        }
        if shown.is_none() {
            self.counters.count(Event::HelperIgnored);
        }
        shown
    }

    /// What stands in a key of a data connection that is not kept yet: the control connection.
    pub(super) fn control_of(&mut self, look: &Look, now: Tick) -> Option<Place> {
        let at = self.awaited(look, now)?;
        Some(self.entries.place(at))
    }

    /// The original tuple of the control connection, of a data connection.
    #[cold]
    pub(super) fn parent(&self, at: u32) -> Option<Tuple> {
        self.helpers.related.get(&at).map(|related| related.parent)
    }

    /// Forgets what helpers know of a connection that ends.
    #[cold]
    pub(super) fn part(&mut self, at: u32) {
        let flags = self.entries.hot(at).flags;
        if flags & HELPED != 0 {
            self.expect_no_more(at);
            self.helpers.controls.remove(&at);
        }
        if flags & RELATED_FLAG != 0 {
            self.disown(at);
            self.helpers.related.remove(&at);
        }
    }
}
