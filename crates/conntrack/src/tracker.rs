//! The tracker: every connection of one worker, and the judgement of a packet by them.
//!
//! A packet is judged in three steps, which the service runs over a burst so that memory is there when
//! it is needed: [`Packet::look`] names its tuple, [`Tracker::expect`] and [`Tracker::approach`] have
//! the index and the entry fetched, [`Tracker::judge`] decides (`quick.rs` what nearly all packets are). Whoever has one packet only calls
//! [`Tracker::track`].
//!
//! The tracker knows nothing of services or flow entries: OpenFlow's `ct()` uses it as well (`tracking.rs`),
//! with a zone, `commit`, mark and label, and addresses that are translated (`nat.rs`, `rewrite.rs`).
//!
//! Costs: no lock and no allocation; see [`super::entry`] for cache lines. Both directions of a
//! connection must come to the same worker.

use super::entry::{Entries, FLIPPED, HALF_OPEN, HELPED, Hot, Place, RELATED, REPLIED, State, TRANSLATED};
use super::fragments::Fragments;
use super::helper::Helpers;
use super::index::Index;
use super::nat::Search;
use super::owners::Owners;
use super::packet::{Kind, Look, Packet, Quote};
use super::reason::{Counters, Event, Reason};
use super::segment::{Segment, flag};
use super::settings::{Checksums, Settings};
use super::tcp::{Step, Tcp};
use super::tuple::{IndexKey, Tuple};
use super::wheel::{NONE, Tick, Wheel};
use std::sync::Arc;
use weir_flow::{Pairs, Seed};

/// Bits of `ct_state`, as OVS numbers them.
pub mod ct {
    /// The connection begins with this packet, or was not answered yet.
    pub const NEW: u8 = 0x01;
    /// Part of a connection that was answered.
    pub const EST: u8 = 0x02;
    /// An ICMP error about a connection, or part of one that a helper expected.
    pub const REL: u8 = 0x04;
    /// In the direction of the answers.
    pub const RPL: u8 = 0x08;
    /// Invalid.
    pub const INV: u8 = 0x10;
    /// Tracked.
    pub const TRK: u8 = 0x20;
    /// Its source was translated.
    pub const SNAT: u8 = 0x40;
    /// Its destination was translated.
    pub const DNAT: u8 = 0x80;
}

/// What the tracker says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// `ct_state`; 0 for what is not tracked.
    pub state: u8,
    /// The connection that it belongs to, if there is one.
    pub place: Option<Place>,
    /// Why it is not allowed; none if it is.
    pub refused: Option<Reason>,
}

impl Judgement {
    /// Nothing is known, and nothing was asked.
    pub const UNTRACKED: Self = Self { state: 0, place: None, refused: None };

    fn refuse(reason: Reason) -> Self {
        let state = match reason {
            _ if reason.is_invalid() => ct::INV | ct::TRK,
            _ => ct::NEW | ct::TRK,
        };
        Self { state, place: None, refused: Some(reason) }
    }
}

/// Every connection of one worker.
#[derive(Debug)]
pub struct Tracker {
    pub(super) settings: Settings,
    pub(super) timeouts: [u32; State::ALL.len()],
    pub(super) unacknowledged: u32,
    /// Whether packets may be judged by [`Self::quick`]: nothing is counted, and no checksum verified, of
    /// each of them.
    pub(super) may_be_quick: bool,
    pub(super) seed: Seed,
    pub(super) index: Index,
    pub(super) entries: Entries,
    pub(super) wheel: Wheel,
    pub(super) fragments: Fragments,
    pub(super) helpers: Helpers,
    pub(super) search: Search,
    /// Connections of each zone, up to the highest that ever had one.
    pub(super) zones: Vec<u32>,
    pub(super) counters: Counters,
    /// Who has which translated connection, and which worker this is; nothing with one worker.
    pub(super) owners: Option<(Arc<Owners>, usize)>,
    /// Of which pairs of addresses it says that it knows connections; nothing with one worker.
    pub(super) pairs: Option<(Arc<Pairs>, usize)>,
}

impl Tracker {
    /// A tracker without connections, at this moment.
    pub fn new(settings: Settings, seed: Seed, now: Tick) -> Self {
        let capacity = settings.connections as usize;
        Self {
            timeouts: settings.timeouts.ticks(),
            unacknowledged: Tick::seconds(settings.timeouts.tcp_unacknowledged),
            may_be_quick: !settings.accounting && settings.checksums != Checksums::All,
            // A connection whose addresses are translated stands in the index twice.
            index: Index::new(capacity * 2, settings.prefault),
            entries: Entries::new(capacity, settings.accounting, settings.prefault, seed),
            wheel: Wheel::new(now),
            fragments: Fragments::new(settings.fragments, seed),
            helpers: Helpers::new(capacity),
            search: Search::new(seed, 0),
            zones: Vec::with_capacity(1 << 16),
            counters: Counters::default(),
            owners: None,
            pairs: None,
            settings,
            seed,
        }
    }

    /// Has other workers know of its translated connections.
    pub fn share(&mut self, owners: Arc<Owners>, worker: usize) {
        self.owners = Some((owners, worker));
    }

    /// Says of which pairs of addresses it knows connections.
    pub fn hold_pairs(&mut self, pairs: Arc<Pairs>, worker: usize) {
        self.pairs = Some((pairs, worker));
    }

    /// Draws its random numbers from another stream of them than other trackers with the same seed do.
    pub fn draw_from(&mut self, stream: u64) {
        self.search = Search::new(self.seed, stream);
    }

    /// Tuples that were tried for translations, ever.
    pub fn tried(&self) -> u64 {
        self.search.tried()
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The hash's seed, for [`Packet::look`].
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// What it counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections that live.
    pub fn connections(&self) -> u32 {
        self.entries.live()
    }

    /// Those of them that are half-open.
    pub fn half_open(&self) -> u32 {
        self.entries.half_open()
    }

    /// Bytes of state in use.
    pub fn memory(&self) -> usize {
        let tables = self.index.memory() + self.entries.memory() + self.fragments.memory();
        tables + self.helpers.memory() + self.zones.len() * 4
    }

    /// Has the part of the index fetched where this packet's connection stands.
    #[inline]
    pub fn expect(&self, look: &Look) {
        if look.is_flow() {
            self.index.prefetch(look.key.hash);
        }
    }

    /// Has the connection itself fetched, and remembers where it probably is.
    #[inline]
    pub fn approach(&self, look: &mut Look) {
        if look.is_flow() {
            let v6 = look.key.v6();
            let found = self.index.find(look.key.hash, |at| {
                self.entries.prefetch(at, v6);
                true
            });
            look.at = found.unwrap_or(NONE);
        }
    }

    /// Has the connection fetched that a packet's megaflow has a note of. Whether it is the packet's own is
    /// verified when that is judged.
    #[inline]
    pub fn expect_at(&self, at: u32) {
        self.entries.prefetch_hot(at);
    }

    /// Whether the packet's own tuple leads to the connection at this place.
    pub fn is_at(&self, place: Place, look: &Look) -> bool {
        self.entries.is(place.at, &look.key)
    }

    /// Judges one packet. With `commit` it may open a connection.
    pub fn track(&mut self, packet: &Packet<'_>, zone: u16, commit: bool, now: Tick) -> Judgement {
        let mut look = packet.look(zone, self.seed);
        self.approach(&mut look);
        self.judge(packet, &look, commit, now)
    }

    /// Judges a packet that was looked at. With `commit` it may open a connection.
    #[inline(always)]
    pub fn judge(&mut self, packet: &Packet<'_>, look: &Look, commit: bool, now: Tick) -> Judgement {
        match self.quick(packet, look, now) {
            Some(judgement) => judgement,
            None => self.judge_closely(*packet, look, commit, now),
        }
    }

    /// Judges a packet that may be anything. Within its caller, as what [`Self::open`] returns would be
    /// copied on otherwise, and that copy waits for the pieces it was made of.
    #[inline(always)]
    pub(super) fn judge_closely(
        &mut self,
        packet: Packet<'_>,
        look: &Look,
        commit: bool,
        now: Tick,
    ) -> Judgement {
        let packet = &packet;
        let judged = match look.kind {
            Kind::Tcp | Kind::Udp | Kind::Icmp | Kind::Other => self.flow(packet, look, commit, now),
            Kind::Report => self.report(packet, look, now),
            Kind::Later => self.later_fragment(packet, look, now),
            Kind::Vital => Ok(Judgement::UNTRACKED),
            Kind::Foreign if commit => Ok(Judgement::UNTRACKED),
            Kind::Foreign => Ok(Judgement { refused: Some(Reason::NotCommitted), ..Judgement::UNTRACKED }),
            Kind::Bad(reason) => Err(reason),
        };
        let judgement = judged.unwrap_or_else(Judgement::refuse);
        match judgement.refused {
            Some(reason) => self.counters.refuse(reason),
            None => self.counters.count(match judgement.state {
                0 => Event::Untracked,
                state if state & ct::REL != 0 => Event::Related,
                state if state & ct::EST != 0 => Event::Established,
                _ => Event::New,
            }),
        }
        judgement
    }

    /// A packet with a tuple.
    #[inline(always)]
    fn flow(
        &mut self,
        packet: &Packet<'_>,
        look: &Look,
        commit: bool,
        now: Tick,
    ) -> Result<Judgement, Reason> {
        let mut segment = self.inspect(packet, look)?;
        if let Some((at, side)) = self.find(&look.key, now) {
            if self.entries.hot(at).flags & HELPED != 0 {
                segment = self.as_sent(at, side, &segment);
            }
            if packet.is_first_fragment() {
                return self.first_fragment(packet, (at, side), &segment, false, now);
            }
            if let Some(judgement) = self.follow(at, side, &segment, now)? {
                self.count(packet, at, side);
                return Ok(judgement);
            }
            if !commit {
                return Ok(Judgement::refuse(Reason::NotCommitted));
            }
            self.counters.count(Event::Reopened);
            self.remove(at);
        }
        self.open(packet, look, &segment, commit, now)
    }

    /// The headers behind the tuple: the TCP segment (of other protocols an empty one).
    #[inline(always)]
    fn inspect(&self, packet: &Packet<'_>, look: &Look) -> Result<Segment, Reason> {
        let (segment, bytes, changes) = match look.kind {
            Kind::Tcp => {
                let bytes = packet.transport()?;
                let segment = Segment::read(bytes)?;
                let changes = segment.flags & (flag::SYN | flag::FIN | flag::RST) != 0;
                (segment, bytes, changes)
            }
            Kind::Udp => {
                let bytes = packet.transport()?;
                let header: &[u8; 8] = bytes.first_chunk().ok_or(Reason::Truncated)?;
                let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
                if length < 8 || length > bytes.len() && !packet.is_first_fragment() {
                    return Err(Reason::Truncated);
                }
                let unsummed = header[6..] == [0, 0];
                if unsummed || self.settings.checksums != Checksums::All {
                    return Ok(Segment::default());
                }
                (Segment::default(), bytes.get(..length).unwrap_or(bytes), false)
            }
            Kind::Icmp => (Segment::default(), packet.transport()?, true),
            _ => return Ok(Segment::default()),
        };
        let verify = match self.settings.checksums {
            Checksums::None => false,
            Checksums::State => changes,
            Checksums::All => true,
        };
        if verify && !packet.is_first_fragment() && !packet.checksum_is_right(bytes, packet.protocol()) {
            return Err(Reason::Checksum);
        }
        Ok(segment)
    }

    /// The connection with this tuple, and the side that speaks. One that timed out is removed.
    #[inline(always)]
    pub(super) fn find(&mut self, key: &IndexKey, now: Tick) -> Option<(u32, usize)> {
        let entries = &self.entries;
        let mut translated = false;
        let at = self.index.find(key.hash, |at| {
            entries.is(at, key) || {
                translated = is_reply(entries, at, key, self.seed);
                translated
            }
        })?;
        let hot = self.entries.hot(at);
        if hot.deadline.reached(now) {
            self.counters.count(Event::Expired);
            self.remove(at);
            return None;
        }
        let side = if translated { 1 } else { usize::from(key.flipped != (hot.flags & FLIPPED != 0)) };
        Some((at, side))
    }

    /// A packet of a connection that lives; none if the connection must give way to a new one.
    #[inline(always)]
    pub(super) fn follow(
        &mut self,
        at: u32,
        side: usize,
        segment: &Segment,
        now: Tick,
    ) -> Result<Option<Judgement>, Reason> {
        let hot = self.entries.hot_mut(at);
        let before = hot.tcp.state;
        let answered = side == 1;
        let state = match before {
            State::UdpSingle if answered => State::UdpMultiple,
            State::OtherSingle if answered => State::OtherMultiple,
            State::UdpSingle
            | State::UdpMultiple
            | State::Icmp
            | State::OtherSingle
            | State::OtherMultiple => before,
            _ => match hot.tcp.step(side, segment)? {
                Step::Lives(state) => state,
                Step::Reopens => return Ok(None),
                Step::Passes => {
                    self.counters.count(Event::Challenged);
                    return Ok(Some(self.passes(at, side)));
                }
            },
        };
        hot.tcp.state = state;
        if answered {
            hot.flags |= REPLIED;
        }
        let (due, flags) = (hot.due(), hot.flags);
        let deadline = now.after(self.patience(self.entries.hot(at)));
        self.entries.hot_mut(at).deadline = deadline;
        if flags & HALF_OPEN != 0
            && flags & REPLIED != 0
            && !matches!(state, State::SynSent | State::SynReceived)
        {
            self.entries.settle(at);
        }
        if !due.reached(deadline) {
            self.wheel.hasten(&mut self.entries, at, deadline);
        }
        Ok(Some(self.passes(at, side)))
    }

    /// The judgement of a packet that passes as part of a connection.
    #[inline(always)]
    pub(super) fn passes(&self, at: u32, side: usize) -> Judgement {
        let flags = self.entries.hot(at).flags;
        let state = ct::TRK
            | if flags & REPLIED != 0 || side == 1 { ct::EST } else { ct::NEW }
            | if side == 1 { ct::RPL } else { 0 }
            | if flags & RELATED != 0 { ct::REL } else { 0 };
        Judgement { state, place: Some(self.entries.place(at)), refused: None }
    }

    /// A packet that belongs to no connection.
    #[inline(never)]
    fn open(
        &mut self,
        packet: &Packet<'_>,
        look: &Look,
        segment: &Segment,
        commit: bool,
        now: Tick,
    ) -> Result<Judgement, Reason> {
        let tcp = match look.kind {
            Kind::Tcp => Tcp::open(segment, self.settings.loose)?,
            Kind::Udp => Tcp::only(State::UdpSingle),
            Kind::Icmp if packet.answers() => return Err(Reason::NotOpening),
            Kind::Icmp => Tcp::only(State::Icmp),
            _ => Tcp::only(State::OtherSingle),
        };
        let control = self.awaited(look, now);
        let related = if control.is_some() { ct::REL } else { 0 };
        if !commit {
            let refused = Judgement::refuse(Reason::NotCommitted);
            return Ok(Judgement { state: refused.state | related, ..refused });
        }
        let mut hot = Hot::new(&look.key, tcp, now);
        hot.deadline = now.after(self.patience(&hot));
        let at = self.add(hot, look, packet.in_port(), now)?;
        if let Some(control) = control
            && let Err(reason) = self.adopt(at, control)
        {
            self.remove(at);
            return Err(reason);
        }
        if packet.is_first_fragment() {
            let judged = self.first_fragment(packet, (at, 0), segment, true, now);
            if judged.is_err() {
                self.remove(at);
            }
            return judged;
        }
        self.count(packet, at, 0);
        let place = Some(self.entries.place(at));
        Ok(Judgement { state: ct::NEW | ct::TRK | related, place, refused: None })
    }

    /// An ICMP error.
    #[inline(never)]
    fn report(&mut self, packet: &Packet<'_>, look: &Look, now: Tick) -> Result<Judgement, Reason> {
        let bytes = packet.transport()?;
        let whole = !packet.is_first_fragment();
        if whole
            && self.settings.checksums != Checksums::None
            && !packet.checksum_is_right(bytes, packet.protocol())
        {
            return Err(Reason::Checksum);
        }
        let quote =
            Quote::read(bytes.get(8..).ok_or(Reason::Truncated)?, packet.v6()).ok_or(Reason::IcmpError)?;
        // It goes to whoever sent the packet that it is about.
        if packet.addresses().destination != quote.tuple.source {
            return Err(Reason::IcmpError);
        }
        // It travels against that packet: where addresses are translated, they are those of this direction.
        let key = IndexKey::of(&quote.tuple.reversed(), look.zone, self.seed);
        let (at, side) = self.find(&key, now).ok_or(Reason::IcmpError)?;
        let Hot { tcp, flags, .. } = self.entries.hot(at);
        let helped = flags & HELPED != 0;
        let seq = quote.seq.map(|seq| if helped { self.quoted_as_sent(at, 1 - side, seq) } else { seq });
        if seq.is_some_and(|seq| !tcp.may_be_on_its_way(1 - side, seq)) {
            return Err(Reason::IcmpError);
        }
        let state = ct::TRK | ct::REL | if side == 1 { ct::RPL } else { 0 };
        Ok(Judgement { state, place: Some(self.entries.place(at)), refused: None })
    }
}

/// Whether this is the connection whose translated answers the key names.
pub(super) fn is_reply(entries: &Entries, at: u32, key: &IndexKey, seed: Seed) -> bool {
    let hot = entries.hot(at);
    if hot.flags & TRANSLATED == 0 {
        return false;
    }
    let reply = Tuple::unpack(entries.replies[at as usize]);
    let wanted = IndexKey::of(&reply, IndexKey::zone_of(hot.b), seed);
    let same = (wanted.a, wanted.b, wanted.flipped) == (key.a, key.b, key.flipped);
    // Of an IPv4 packet, the key may still have addresses of one before it.
    same && (!wanted.v6() || wanted.addresses == key.addresses)
}
