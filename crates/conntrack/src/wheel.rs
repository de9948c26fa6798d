//! Timers: a hierarchical wheel whose lists run through the entries' links.
//!
//! Why: an established connection is touched by millions of packets and expires once. So a packet only
//! writes a new deadline into the entry; the wheel finds out when the old one comes up, and puts the
//! entry back for what is left. Only a deadline that moves *forward* in time (a connection that
//! closes) takes the entry from its list at once.
//!
//! Cost: [`Wheel::due`] looks at a bounded number of entries; time that passes without any is skipped
//! by whole turns. Entries of a slot that is cascaded wait in a list of their own, so that a slot with
//! a million of them is no pause either; whoever looks such an entry up sees by its deadline that it
//! is dead.
//!
//! Threads: none; it belongs to one worker.

/// A moment: 2^24 ns (about 17 ms) since the switch started. Wraps around after 834 days, so moments
/// are compared by their difference, and no timeout may reach half of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick(pub u32);

impl Tick {
    /// Nanoseconds in one, as a power of two.
    const SHIFT: u32 = 24;

    /// The tick of a time.
    #[inline]
    pub const fn of(now: weir_units::Nanos) -> Self {
        Self((now.0 >> Self::SHIFT) as u32)
    }

    /// Ticks in so many seconds, rounded up.
    pub const fn seconds(seconds: u32) -> u32 {
        (((seconds as u64) * 1_000_000_000) >> Self::SHIFT) as u32 + 1
    }

    /// Whether it is now, or was.
    #[inline]
    pub const fn reached(self, now: Self) -> bool {
        self.0.wrapping_sub(now.0) as i32 <= 0
    }

    /// So many ticks later.
    #[inline]
    pub const fn after(self, ticks: u32) -> Self {
        Self(self.0.wrapping_add(ticks))
    }

    /// Seconds from now, rounded; 0 for what has passed.
    pub const fn seconds_from(self, now: Self) -> u64 {
        if self.reached(now) {
            return 0;
        }
        ((((self.0.wrapping_sub(now.0)) as u64) << Self::SHIFT) + 500_000_000) / 1_000_000_000
    }
}

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// In [`Links::previous`]: the entry is the first of the list with this number.
const FIRST: u32 = 1 << 31;

/// An entry's place in its timer list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    /// In no list.
    pub(super) const NONE: Self = Self { previous: NONE, next: NONE };
}

/// Where the links of an entry are.
pub(super) trait Linked {
    /// The links of the entry at this place.
    fn links(&mut self, place: u32) -> &mut Links;

    /// Remembers when the wheel looks at the entry.
    fn set_due(&mut self, place: u32, due: Tick);
}

const LEVELS: usize = 5;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Lists of entries that wait to be looked at: one a level.
const WAITING: usize = LEVELS * SLOTS;

/// The wheel.
#[derive(Debug)]
pub(super) struct Wheel {
    at: Tick,
    heads: [u32; WAITING + LEVELS],
    /// Slots of each level that may have entries.
    filled: [u64; LEVELS],
}

impl Wheel {
    /// A wheel that starts at this moment.
    pub(super) fn new(at: Tick) -> Self {
        Self { at, heads: [NONE; WAITING + LEVELS], filled: [0; LEVELS] }
    }

    /// Puts an entry that is in no list under its deadline.
    pub(super) fn insert(&mut self, entries: &mut impl Linked, place: u32, due: Tick) {
        let ahead = (due.0.wrapping_sub(self.at.0) as i32).max(1) as u32;
        let due = self.at.after(ahead);
        let level = ((31 - ahead.leading_zeros()) / BITS).min(LEVELS as u32 - 1);
        let slot = (due.0 >> (level * BITS)) as usize % SLOTS;
        self.filled[level as usize] |= 1 << slot;
        self.link(entries, level as usize * SLOTS + slot, place);
        entries.set_due(place, due);
    }

    fn link(&mut self, entries: &mut impl Linked, list: usize, place: u32) {
        let next = std::mem::replace(&mut self.heads[list], place);
        if next != NONE {
            entries.links(next).previous = place;
        }
        *entries.links(place) = Links { previous: FIRST | list as u32, next };
    }

    /// Takes an entry from its list.
    pub(super) fn remove(&mut self, entries: &mut impl Linked, place: u32) {
        let Links { previous, next } = std::mem::replace(entries.links(place), Links::NONE);
        if next != NONE {
            entries.links(next).previous = previous;
        }
        if previous & FIRST == 0 {
            entries.links(previous).next = next;
        } else {
            self.heads[(previous & !FIRST) as usize] = next;
        }
    }

    /// Has an entry looked at by its deadline, which is earlier than the wheel meant to.
    #[cold]
    pub(super) fn hasten(&mut self, entries: &mut impl Linked, place: u32, deadline: Tick) {
        self.remove(entries, place);
        self.insert(entries, place, deadline);
    }

    /// Goes on to `now`, giving up after `budget` entries. `judge` is shown each entry that came up,
    /// in no list, and returns its deadline if it stays.
    pub(super) fn due<E: Linked>(
        &mut self,
        entries: &mut E,
        now: Tick,
        mut budget: usize,
        mut judge: impl FnMut(&mut E, u32, Tick) -> Option<Tick>,
    ) {
        loop {
            for list in WAITING..WAITING + LEVELS {
                while self.heads[list] != NONE {
                    if budget == 0 {
                        return;
                    }
                    budget -= 1;
                    let place = self.heads[list];
                    self.remove(entries, place);
                    if let Some(deadline) = judge(entries, place, self.at) {
                        self.insert(entries, place, deadline);
                    }
                }
            }
            if self.at.reached(now) && self.at != now {
                self.advance(entries, now);
            } else {
                return;
            }
        }
    }

    /// Goes on to the next moment at which a list may come up, at most to `now`.
    fn advance(&mut self, entries: &mut impl Linked, now: Tick) {
        let left = now.0.wrapping_sub(self.at.0);
        let lowest = self.filled.iter().position(|&filled| filled != 0);
        let step = match lowest {
            None => left,
            Some(level) => {
                let turn = 1_u32 << (level as u32 * BITS);
                (turn - self.at.0 % turn).min(left)
            }
        };
        self.at = self.at.after(step);
        for level in 0..LEVELS {
            let shift = level as u32 * BITS;
            if !self.at.0.is_multiple_of(1 << shift) {
                break;
            }
            let slot = (self.at.0 >> shift) as usize % SLOTS;
            self.filled[level] &= !(1 << slot);
            let list = level * SLOTS + slot;
            let first = std::mem::replace(&mut self.heads[list], NONE);
            if first != NONE {
                self.heads[WAITING + level] = first;
                entries.links(first).previous = FIRST | (WAITING + level) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_units::Nanos;

    struct Plain(Vec<(Links, Tick)>);

    impl Linked for Plain {
        fn links(&mut self, place: u32) -> &mut Links {
            &mut self.0[place as usize].0
        }

        fn set_due(&mut self, place: u32, due: Tick) {
            self.0[place as usize].1 = due;
        }
    }

    #[test]
    fn ticks_go_round_without_losing_their_order() {
        assert_eq!(Tick::of(Nanos(3 << 24)), Tick(3));
        assert_eq!(Tick::seconds(1), 60);
        let late = Tick(u32::MAX - 5);
        let soon = late.after(Tick::seconds(2));
        assert!(!soon.reached(late) && late.reached(soon));
        assert_eq!(soon.seconds_from(late), 2);
        assert_eq!(late.seconds_from(soon), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_entry_comes_up_at_its_deadline_and_not_before(
            start in any::<u32>(),
            steps in proptest::collection::vec((0_usize..4, 0_u32..40, 0_u32..30, 0_u32..28), 1..300),
        ) {
            let mut wheel = Wheel::new(Tick(start));
            let mut entries = Plain(vec![(Links::NONE, Tick(0)); 40]);
            let mut deadlines: Vec<Option<Tick>> = vec![None; 40];
            let mut now = Tick(start);
            for (kind, place, size, pass) in steps {
                let length = (1_u32 << size).wrapping_add(place).wrapping_sub(3) & 0x3fff_ffff;
                let at = place as usize;
                match (kind, deadlines[at]) {
                    (0, None) => {
                        deadlines[at] = Some(now.after(length));
                        wheel.insert(&mut entries, place, now.after(length));
                    }
                    (0, Some(_)) => {
                        deadlines[at] = None;
                        wheel.remove(&mut entries, place);
                    }
                    (1, Some(_)) => {
                        deadlines[at] = Some(now.after(length));
                        if !entries.0[at].1.reached(now.after(length)) {
                            wheel.hasten(&mut entries, place, now.after(length));
                        }
                    }
                    _ => {
                        now = now.after((1 << pass) >> 1);
                        let mut early = false;
                        wheel.due(&mut entries, now, usize::MAX, |_, place, at| {
                            let deadline = deadlines[place as usize].expect("it is in the wheel");
                            if deadline.reached(at) {
                                early |= !deadline.reached(now);
                                deadlines[place as usize] = None;
                                return None;
                            }
                            Some(deadline)
                        });
                        prop_assert!(!early);
                        // A deadline that was already reached is looked at one tick later.
                        for deadline in deadlines.iter().flatten() {
                            prop_assert!(!deadline.after(1).reached(now), "{deadline:?} at {now:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_crowded_slot_is_worked_off_in_parts() {
        let mut wheel = Wheel::new(Tick(0));
        let mut entries = Plain(vec![(Links::NONE, Tick(0)); 1000]);
        for place in 0..1000 {
            wheel.insert(&mut entries, place, Tick(5000));
        }
        let mut gone = 0;
        for round in 1..=30 {
            let mut looked = 0;
            wheel.due(&mut entries, Tick(6000), 100, |_, _, at| {
                looked += 1;
                let over = Tick(5000).reached(at);
                gone += usize::from(over);
                (!over).then_some(Tick(5000))
            });
            assert!(looked <= 100, "round {round}");
        }
        assert_eq!(gone, 1000);
    }
}
