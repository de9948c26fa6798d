//! How connections begin and end: limits, zones, the wheel, and what else knows of them.
//!
//! Cost: as the tracker's (`tracker.rs`). Threads: the tracker's.

use super::entry::{HELPED, Hot, RELATED, TRANSLATED};
use super::packet::Look;
use super::reason::{Event, Reason};
use super::tracker::Tracker;
use super::tuple::{Sight, Tuple};
use super::wheel::{Linked as _, Links, Tick};

/// Entries that [`Tracker::tick`] looks at, at most: a few microseconds.
const TICK_BUDGET: usize = 64;

impl Tracker {
    /// Makes a connection, within the limits.
    #[inline]
    pub(super) fn add(&mut self, hot: Hot, look: &Look) -> Result<u32, Reason> {
        let zone = usize::from(look.zone);
        if zone >= self.zones.len() {
            self.zones.resize(zone + 1, 0);
        }
        if self.zones[zone] >= self.settings.most_in_zone(look.zone) {
            return Err(Reason::LimitZone);
        }
        if self.entries.is_full() || self.entries.half_open() >= self.settings.most_half_open() {
            let oldest = self.entries.oldest_half_open().ok_or(Reason::LimitConnections)?;
            self.counters.count(Event::Evicted);
            self.remove(oldest);
        }
        let deadline = hot.deadline;
        let at = self.entries.add(hot).ok_or(Reason::LimitConnections)?;
        if !self.index.insert(look.sight.hash, at) {
            self.entries.free(at);
            return Err(Reason::LimitConnections);
        }
        if look.sight.v6() {
            self.entries.addresses[at as usize] = look.sight.addresses;
        }
        self.zones[zone] += 1;
        self.entries.half_open_begins(at);
        self.wheel.insert(&mut self.entries, at, deadline);
        self.counters.count(Event::Created);
        Ok(at)
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
            self.index.remove(Sight::of(&reply, Sight::zone_of(hot.b), self.seed).hash, at);
            if let Some((owners, worker)) = &self.owners {
                owners.remove(&Sight::of(&reply, 0, owners.seed()), *worker);
            }
        }
        self.index.remove(Sight::hash_of(hot.a, hot.b, self.seed), at);
        self.entries.half_open_ends(at);
        self.zones[usize::from(Sight::zone_of(hot.b))] -= 1;
        *self.entries.links(at) = Links::NONE;
        self.entries.free(at);
    }

    /// Ends what timed out, a bounded number at a time.
    pub fn tick(&mut self, now: Tick) {
        let mut over = [0_u32; TICK_BUDGET];
        let mut count = 0;
        self.wheel.due(&mut self.entries, now, TICK_BUDGET, |entries, at, _| {
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
    }
}
