//! The connections of one worker: which bucket or backend each went to.
//!
//! A hash table of fixed size: sets of four entries in one cache line each, of which a connection may be
//! in two. It is made twice as large as the connections it holds at most, so that both sets of one are
//! full only by a rare chance. Connections that were idle for longer than the timeout make room: where a
//! new one needs it, and by a sweep that [`Connections::sweep`] moves on a little.
//!
//! A connection that finds no room is not remembered ([`Connections::insert`] says so); the caller then
//! places each of its packets by hash alone, which is steady, and counts it. Nothing that is remembered
//! is thrown out for it: nobody can push connections out by opening new ones.
//!
//! Cost: a hit touches one cache line, seldom two; never allocates after it was made.

use weir_cpu::prefetch;
use weir_units::Nanos;

/// Sets that one sweep looks at: 32 KiB of the table, a few microseconds.
const SWEPT: usize = 512;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Hash of the connection; 0 for no connection.
    fingerprint: u64,
    /// When its last packet came, in seconds.
    seen: u32,
    /// Where it goes.
    home: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Entry; 4]);

/// A point in time, in seconds: as much as idle timeouts need.
#[derive(Clone, Copy)]
pub(super) struct Second(u32);

impl From<Nanos> for Second {
    fn from(now: Nanos) -> Self {
        Self((now.0 / Nanos::PER_SECOND) as u32)
    }
}

/// The table.
pub(super) struct Connections {
    sets: Vec<Set>,
    /// The most connections.
    room: usize,
    /// Entries that are not free, idle ones among them.
    used: usize,
    /// Seconds.
    idle: u32,
    swept: usize,
    /// Connections that idled out.
    pub(super) expired: u64,
}

impl Connections {
    pub(super) fn new(room: usize, idle_seconds: u32) -> Self {
        let sets = (room.max(1) * 2).div_ceil(4).next_power_of_two();
        Self { sets: vec![Set::default(); sets], room, used: 0, idle: idle_seconds, swept: 0, expired: 0 }
    }

    /// The two sets that a connection may be in.
    #[inline]
    fn places(&self, fingerprint: u64) -> [usize; 2] {
        let mask = self.sets.len() - 1;
        [fingerprint as usize & mask, (fingerprint >> 32) as usize & mask]
    }

    /// Fetches where a connection most likely is.
    #[inline]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        prefetch(&self.sets[self.places(fingerprint)[0]]);
    }

    /// Where a connection goes, which counts as a sign of life; it may be changed.
    #[inline]
    pub(super) fn find(&mut self, fingerprint: u64, now: Second) -> Option<&mut u32> {
        let idle = self.idle;
        let (place, way) = self.places(fingerprint).into_iter().find_map(|place| {
            let lives =
                |entry: &Entry| entry.fingerprint == fingerprint && now.0.saturating_sub(entry.seen) <= idle;
            Some((place, self.sets[place].0.iter().position(lives)?))
        })?;
        let entry = &mut self.sets[place].0[way];
        entry.seen = now.0.max(entry.seen);
        Some(&mut entry.home)
    }

    /// Remembers a connection that [`Self::find`] did not find; false where there is no room.
    pub(super) fn insert(&mut self, fingerprint: u64, home: u32, now: Second) -> bool {
        let idle = self.idle;
        let full = self.used >= self.room;
        for place in self.places(fingerprint) {
            for entry in &mut self.sets[place].0 {
                let free = entry.fingerprint == 0;
                let idled = !free && now.0.saturating_sub(entry.seen) > idle;
                if idled || (free && !full) {
                    self.expired += u64::from(idled);
                    self.used += usize::from(free);
                    *entry = Entry { fingerprint, seen: now.0, home };
                    return true;
                }
            }
        }
        false
    }

    /// Frees idle connections in the next part of the table.
    pub(super) fn sweep(&mut self, now: Second) {
        let sets = self.sets.len();
        for step in 0..SWEPT.min(sets) {
            for entry in &mut self.sets[(self.swept + step) & (sets - 1)].0 {
                if entry.fingerprint != 0 && now.0.saturating_sub(entry.seen) > self.idle {
                    *entry = Entry::default();
                    self.used -= 1;
                    self.expired += 1;
                }
            }
        }
        self.swept = (self.swept + SWEPT) & (sets - 1);
    }

    /// Connections remembered; ones that idled out since the last sweep among them.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Where each goes.
    pub(super) fn homes(&self) -> impl Iterator<Item = u32> {
        self.sets.iter().flat_map(|set| &set.0).filter(|entry| entry.fingerprint != 0).map(|entry| entry.home)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.sets.fill(Set::default());
        self.used = 0;
    }

    /// Bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.sets.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use weir_flow::Seed;

    const IDLE: u32 = 5;

    proptest! {
        /// Against a plain map from connection to (home, last seen).
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn a_connection_is_remembered_until_it_idled_out(
            steps in proptest::collection::vec((0..40_u64, 0..3_u32, any::<bool>()), 1..400),
        ) {
            let (mut table, mut model) = (Connections::new(20, IDLE), HashMap::<u64, (u32, u32)>::new());
            let mut second = 0;
            for (number, (connection, later, sweep)) in (0..).zip(steps) {
                second += later / 2;
                let (now, print) = (Second(second), Seed::new(1).finish(connection));
                if sweep {
                    table.sweep(now);
                }
                model.retain(|_, (_, seen)| second - *seen <= IDLE);
                let found = table.find(print, now).copied();
                prop_assert_eq!(found, model.get(&print).map(|known| known.0));
                if found.is_some() || table.insert(print, number, now) {
                    model.insert(print, (found.unwrap_or(number), second));
                }
                prop_assert!(table.len() <= 20 && table.len() >= model.len());
                prop_assert_eq!(table.homes().count(), table.len());
            }
            for _ in 0..table.sets.len() {
                table.sweep(Second(second + IDLE + 1));
            }
            prop_assert_eq!(table.len(), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn almost_every_connection_finds_room_until_the_table_is_full() {
        let (room, seed) = (50_000, Seed::new(9));
        let mut table = Connections::new(room, IDLE);
        let refused = (0..room as u64).filter(|&n| !table.insert(seed.finish(n), 0, Second(0))).count();
        assert!(refused * 1000 < room, "{refused} of {room}");
        assert_eq!(table.len(), room - refused);
        let more = (0..1000_u64).filter(|&n| table.insert(seed.finish(n + (1 << 40)), 0, Second(0))).count();
        assert_eq!(more, refused.min(more), "no more than it is to hold");
    }
}
