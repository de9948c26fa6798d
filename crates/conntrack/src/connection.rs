//! What is told of a connection, and what may be said of it: mark, label, translated answers, its end.

use super::entry::{Counts, FLIPPED, HALF_OPEN, HELPED, MARKED, Place, RELATED, REPLIED, State, TRANSLATED};
use super::reason::Event;
use super::shares::Tenant;
use super::tracker::Tracker;
use super::tuple::{IndexKey, TCP, Tuple};
use super::wheel::Tick;
use weir_openflow::Helper;

/// A connection, as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// What the originator's packets have.
    pub original: Tuple,
    /// What the answers have.
    pub reply: Tuple,
    /// Zone.
    pub zone: u16,
    /// How far it is.
    pub state: State,
    /// An answer was seen.
    pub replied: bool,
    /// Half-open: may give way to a younger one.
    pub half_open: bool,
    /// `ct_mark`.
    pub mark: u32,
    /// `ct_label`.
    pub label: u128,
    /// Seconds until it times out if nothing comes.
    pub timeout: u64,
    /// Packets and bytes (of the network packet) of both directions, the originator's first, where they
    /// are counted.
    pub counts: Option<Counts>,
    /// TCP: for each side its window scaling and whether it takes selective acknowledgements.
    pub tcp: Option<[(Option<u8>, bool); 2]>,
    /// What reads its data and expects other connections.
    pub helper: Option<Helper>,
    /// Where a helper expected it: the original tuple of the connection that announced it.
    pub parent: Option<Tuple>,
}

/// What a zone's connections that one port began have of a worker's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantShare {
    /// Zone and port.
    pub tenant: Tenant,
    /// Connections.
    pub connections: u32,
    /// Those of them that are half-open.
    pub half_open: u32,
    /// Fragmented packets that are remembered.
    pub fragments: u32,
    /// Connections and fragmented packets of it that made room for others, ever.
    pub evicted: u64,
}

impl Tracker {
    /// The shares of all zones and ports, the greatest first.
    pub fn shares(&self) -> Vec<TenantShare> {
        let share = |(number, tenant, evicted)| {
            let [half_open, settled] = self.entries.of(number);
            let fragments = self.fragments.of(number);
            TenantShare { tenant, connections: half_open + settled, half_open, fragments, evicted }
        };
        let mut shares: Vec<TenantShare> = self.entries.tenants.all().map(share).collect();
        shares.sort_by_key(|share| (std::cmp::Reverse((share.connections, share.evicted)), share.tenant));
        shares
    }

    /// What is known of a connection, if it lives.
    pub fn connection(&self, place: Place, now: Tick) -> Option<Connection> {
        let at = self.entries.alive(place)?;
        let hot = self.entries.hot(at);
        let (original, reply) = self.tuples(place)?;
        Some(Connection {
            original,
            reply,
            zone: IndexKey::zone_of(hot.b),
            state: hot.tcp.state,
            replied: hot.flags & REPLIED != 0,
            half_open: hot.flags & HALF_OPEN != 0,
            mark: self.entries.marks[at as usize],
            label: self.entries.labels[at as usize],
            timeout: hot.deadline.seconds_from(now),
            counts: self.entries.counts.get(at as usize).copied(),
            tcp: (original.protocol == TCP).then(|| hot.tcp.options()),
            helper: self.helper(at).filter(|_| hot.flags & HELPED != 0),
            parent: self.parent(at).filter(|_| hot.flags & RELATED != 0),
        })
    }

    /// The original tuple of a connection, or of the one that a helper expected it for, as words of a key hold it:
    /// IPv4 addresses; protocol and ports, or ICMP's type and code; IPv6 addresses.
    #[inline(always)]
    pub(super) fn original(&self, place: Place) -> (u64, u64, Option<[u128; 2]>) {
        let hot = self.entries.hot(place.at);
        if hot.flags & RELATED != 0
            && let Some(parent) = self.parent(place.at)
        {
            return parent.as_words();
        }
        let flipped = hot.flags & FLIPPED != 0;
        let protocol = (hot.b >> 16 & 0xff) << 56;
        let turn = if flipped { 32 } else { 0 };
        if hot.tcp.state == State::Icmp || hot.is_v6() {
            let addresses = self.entries.addresses[place.at as usize];
            let tuple = IndexKey::tuple_of(hot.a, hot.b, addresses, flipped);
            return tuple.as_words();
        }
        let ports = ((hot.b >> 32) as u32).rotate_left(turn / 2);
        (hot.a.rotate_left(turn), protocol | u64::from(ports), None)
    }

    /// `ct_mark` and `ct_label`; none where both are zero.
    #[inline]
    pub(super) fn marks(&self, place: Place) -> Option<(u32, u128)> {
        let marked = self.entries.hot(place.at).flags & MARKED != 0;
        marked.then(|| (self.entries.marks[place.at as usize], self.entries.labels[place.at as usize]))
    }

    /// Writes the bits of a connection's `ct_mark` that `mask` names. False if it no longer lives.
    pub fn set_mark(&mut self, place: Place, mark: u32, mask: u32) -> bool {
        let Some(at) = self.entries.alive(place) else { return false };
        self.entries.hot_mut(at).flags |= MARKED;
        let old = &mut self.entries.marks[at as usize];
        *old = *old & !mask | mark & mask;
        true
    }

    /// Writes the bits of a connection's `ct_label` that `mask` names. False if it no longer lives.
    pub fn set_label(&mut self, place: Place, label: u128, mask: u128) -> bool {
        let Some(at) = self.entries.alive(place) else { return false };
        self.entries.hot_mut(at).flags |= MARKED;
        let old = &mut self.entries.labels[at as usize];
        *old = *old & !mask | label & mask;
        true
    }

    /// Says that a connection's addresses are translated: answers will have this tuple and no longer the
    /// original's reverse. False, and nothing changes, if the connection no longer lives, is translated
    /// already, or another one has that tuple.
    pub fn translate(&mut self, place: Place, reply: &Tuple, now: Tick) -> bool {
        let Some(at) = self.entries.alive(place) else { return false };
        let hot = *self.entries.hot(at);
        let key = IndexKey::of(reply, IndexKey::zone_of(hot.b), self.seed);
        if hot.flags & TRANSLATED != 0 || self.find(&key, now).is_some() {
            return false;
        }
        if !self.index.insert(key.hash, at) {
            return false;
        }
        self.entries.replies[at as usize] = reply.pack();
        self.entries.hot_mut(at).flags |= TRANSLATED;
        true
    }

    /// Every connection from a number on, in no particular order, each with the number it has. Numbers
    /// end before [`Self::reach`], and are used again.
    pub fn all(&self, from: u32) -> impl Iterator<Item = (u32, Place)> + '_ {
        let numbers = from..self.entries.reach();
        numbers.filter(|&at| self.entries.lives(at)).map(|at| (at, self.entries.place(at)))
    }

    /// The connection that has this number, if one has and it is in this zone.
    pub(super) fn at(&self, number: u32, zone: Option<u16>) -> Option<Place> {
        let zone_of = || IndexKey::zone_of(self.entries.hot(number).b);
        let there = self.entries.lives(number) && zone.is_none_or(|zone| zone == zone_of());
        there.then(|| self.entries.place(number))
    }

    /// One more than the highest number that a connection ever had.
    pub fn reach(&self) -> u32 {
        self.entries.reach()
    }

    /// Ends a connection. Records of fragments do not outlive it. False if it no longer lives.
    pub fn end(&mut self, place: Place) -> bool {
        let Some(at) = self.entries.alive(place) else { return false };
        self.remove(at);
        self.counters.count(Event::Flushed);
        true
    }
}
