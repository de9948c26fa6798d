//! How connections begin and end: limits, zones, the wheel, and what else knows of them.
//!
//! **Room.** What is over gives its room back whatever the load: a packet that opens a connection pays for looking
//! at [`LOOKS_PAID`] whose time has come, and so much of a worker's time goes into it besides as `pace.rs` says.
//! Where there is no room even so, the oldest makes room for the newcomer (`shares.rs`): a half-open
//! connection of the tenant with the most of them; where there is none, of the tenant with the most settled ones,
//! the one of [`SAMPLE`] by turns that was idle for the longest time.
//!
//! Cost: as the tracker's (`tracker.rs`). Threads: the tracker's.

use super::entry::{HELPED, Hot, RELATED, REPLIED, State, TRANSLATED};
use super::packet::Look;
use super::reason::{Event, Reason};
use super::shares::Tenant;
use super::tracker::Tracker;
use super::tuple::{IndexKey, Tuple};
use super::wheel::{Linked as _, Links, Tick};

/// Connections that were due and are looked at for each one that is made: as long as it is more than one, what is
/// over is gone before as many new ones came.
pub const LOOKS_PAID: usize = 2;

/// Connections that [`Tracker::sweep`] ends before it looks at what it may spend again.
pub(super) const SWEPT: usize = 16;

/// Settled connections of which the one that was idle for the longest time makes room.
const SAMPLE: usize = 8;

impl Tracker {
    /// Makes a connection, within the limits.
    #[inline]
    pub(super) fn add(&mut self, hot: Hot, look: &Look, port: u32, now: Tick) -> Result<u32, Reason> {
        let zone = usize::from(look.zone);
        if zone >= self.zones.len() {
            self.zones.resize(zone + 1, 0);
        }
        let tenant = self.entries.tenants.join(Tenant { zone: look.zone, port });
        let room = self.make_room(look.zone, tenant, now);
        let added = room.and_then(|()| self.entries.add(hot, tenant).ok_or(Reason::LimitConnections));
        let Ok(at) = added else {
            self.entries.tenants.leave(tenant);
            return added;
        };
        if !self.index.insert(look.key.hash, at) {
            self.entries.free(at);
            return Err(Reason::LimitConnections);
        }
        if look.key.v6() {
            self.entries.addresses[at as usize] = look.key.addresses;
        }
        self.zones[zone] += 1;
        self.wheel.insert(&mut self.entries, at, hot.deadline);
        self.counters.count(Event::Created);
        if let Some((pairs, worker)) = &self.pairs {
            pairs.hold(*worker, look.key.v6(), self.addresses(at));
        }
        Ok(at)
    }

    /// The two addresses of a connection, of IPv4 in the lowest bits.
    fn addresses(&self, at: u32) -> [u128; 2] {
        let hot = self.entries.hot(at);
        if hot.is_v6() {
            return self.entries.addresses[at as usize];
        }
        [u128::from(hot.a >> 32), u128::from(hot.a as u32)]
    }

    /// Has a place for a connection of this tenant.
    #[inline]
    fn make_room(&mut self, zone: u16, tenant: u16, now: Tick) -> Result<(), Reason> {
        let zone_is_full =
            |tracker: &Self| tracker.zones[usize::from(zone)] >= tracker.settings.most_in_zone(zone);
        let no_room = |tracker: &Self| {
            tracker.entries.is_full() || tracker.entries.half_open() >= tracker.settings.most_half_open()
        };
        if !zone_is_full(self) && !no_room(self) {
            return Ok(());
        }
        self.sweep_some(now, SWEPT);
        if zone_is_full(self) {
            let victim = self.oldest_of_zone(zone).ok_or(Reason::LimitZone)?;
            self.evict(victim);
        }
        if no_room(self) {
            let victim = self.oldest(tenant, now).ok_or(Reason::LimitConnections)?;
            self.evict(victim);
        }
        Ok(())
    }

    /// The connection that makes room for one of this tenant.
    fn oldest(&mut self, tenant: u16, now: Tick) -> Option<u32> {
        if let Some(at) = self.entries.oldest_half_open(tenant) {
            return Some(at);
        }
        let most = self.entries.most_settled(tenant)?;
        let idle = |tracker: &Self, at: u32| now.0.wrapping_sub(tracker.last_use(at).0);
        let mut longest: Option<(u32, u32)> = None;
        for _ in 0..SAMPLE {
            let at = self.entries.next_settled(most)?;
            let found = (idle(self, at), at);
            if longest.is_none_or(|known| known.0 < found.0) {
                longest = Some(found);
            }
        }
        longest.map(|(_, at)| at)
    }

    /// The connection of a zone that makes room for another of it: a half-open one of the port with the most.
    fn oldest_of_zone(&self, zone: u16) -> Option<u32> {
        let tenants = self.entries.tenants.of_zone(zone);
        let most = tenants.max_by_key(|tenant| self.entries.of(*tenant)[0])?;
        self.entries.oldest_half_open_of(most)
    }

    /// When a connection was used last: its deadline follows from that.
    fn last_use(&self, at: u32) -> Tick {
        let hot = self.entries.hot(at);
        Tick(hot.deadline.0.wrapping_sub(self.patience(hot)))
    }

    /// For how long a connection is kept from its last packet on, in ticks.
    #[inline]
    pub(super) fn patience(&self, hot: &Hot) -> u32 {
        let state = hot.tcp.state;
        let length = self.timeouts[state as usize];
        match state {
            // One that is met in its middle and not answered yet is not kept as long as one that is.
            State::Established if hot.flags & REPLIED == 0 => self.timeouts[State::SynSent as usize],
            State::Established if hot.tcp.waits() => length.min(self.unacknowledged),
            _ => length,
        }
    }

    /// Ends a connection that makes room before its time.
    fn evict(&mut self, at: u32) {
        self.entries.tenants.evicted(self.entries.tenant(at));
        let settled = self.entries.hot(at).flags & super::entry::HALF_OPEN == 0;
        self.counters.count(if settled { Event::EvictedSettled } else { Event::Evicted });
        self.remove(at);
    }

    /// Ends a connection that is in the wheel.
    #[inline(never)]
    pub(super) fn remove(&mut self, at: u32) {
        self.wheel.remove(&mut self.entries, at);
        self.forget(at);
    }

    /// Ends a connection that the wheel has given out.
    pub(super) fn forget(&mut self, at: u32) {
        let hot = *self.entries.hot(at);
        if hot.flags & (HELPED | RELATED) != 0 {
            self.part(at);
        }
        if hot.flags & TRANSLATED != 0 {
            let reply = Tuple::unpack(self.entries.replies[at as usize]);
            self.index.remove(IndexKey::of(&reply, IndexKey::zone_of(hot.b), self.seed).hash, at);
            if let Some((owners, worker)) = &self.owners {
                owners.remove(&IndexKey::of(&reply, 0, owners.seed()), *worker);
            }
        }
        if let Some((pairs, worker)) = &self.pairs {
            pairs.let_go(*worker, hot.is_v6(), self.addresses(at));
        }
        self.index.remove(IndexKey::hash_of(hot.a, hot.b, self.seed), at);
        self.zones[usize::from(IndexKey::zone_of(hot.b))] -= 1;
        *self.entries.links(at) = Links::NONE;
        self.entries.free(at);
    }

    /// Ends what timed out: looks at so many at most whose time has come. How many it looked at.
    pub fn sweep_some(&mut self, now: Tick, looks: usize) -> usize {
        let mut over = [0_u32; SWEPT];
        let (mut count, mut looked) = (0, 0);
        self.wheel.due(&mut self.entries, now, looks.min(SWEPT), |entries, at, _| {
            looked += 1;
            let deadline = entries.hot(at).deadline;
            if !deadline.reached(now) {
                return Some(deadline);
            }
            over[count] = at;
            count += 1;
            None
        });
        for &at in &over[..count] {
            self.counters.count(Event::Expired);
            self.forget(at);
        }
        looked
    }

    /// Ends what timed out, as long as `may_go_on` says so, which is asked every `SWEPT` connections.
    pub fn sweep(&mut self, now: Tick, mut may_go_on: impl FnMut() -> bool) {
        while self.sweep_some(now, SWEPT) == SWEPT && may_go_on() {}
    }
}
