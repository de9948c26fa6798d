//! When flow entries go by themselves: a queue of them by the time at which that is to be looked at.
//!
//! What: each entry with a timeout stands in the queue once, at the earliest time at which it may be over. When
//! that has come it is looked at: it goes, or it was used meanwhile and stands in the queue again, later.
//!
//! Why so: entries are used without anybody telling the queue, and are removed and replaced without being
//! looked for in it. One that is not in the tables any more is left out when its time comes, or when such ones
//! are most of the queue. So an entry costs a look for each timeout that passes, however many there are and
//! however often one looks.
//!
//! Cost: the logarithm of their number for each look. Threads: the control thread.

use crate::model::entries::Entry;
use crate::model::requests::Removal;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use weir_units::Nanos;

/// Entries that are looked at in one go, at most.
const LOOKS: usize = 1 << 14;

/// So many that are gone do not matter.
const SPARE: usize = 1024;

/// Entries by the time at which they are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    queue: BinaryHeap<Reverse<Due>>,
}

#[derive(Debug)]
struct Due {
    at: Nanos,
    entry: Weak<Entry>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl Expiry {
    /// Queues an entry, if it has a timeout.
    pub(super) fn add(&mut self, entry: &Arc<Entry>) {
        if let Some((at, _)) = entry.over_at() {
            self.queue.push(Reverse(Due { at, entry: Arc::downgrade(entry) }));
        }
    }

    /// Whether any entry is to be looked at.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.queue.peek().is_some_and(|due| due.0.at <= now)
    }

    /// Looks at those whose time has come, as many as one may, and returns those that are over, with the reason.
    /// `is_there` says whether an entry is in the tables still.
    pub(super) fn over(
        &mut self,
        now: Nanos,
        is_there: impl Fn(&Arc<Entry>) -> bool,
    ) -> Vec<(Arc<Entry>, Removal)> {
        let mut over = Vec::new();
        for _ in 0..LOOKS {
            if !self.is_due(now) {
                break;
            }
            let Some(entry) = self.queue.pop().and_then(|due| due.0.entry.upgrade()) else { continue };
            if !is_there(&entry) {
                continue;
            }
            match entry.over_at() {
                Some((at, why)) if at <= now => over.push((entry, why)),
                _ => self.add(&entry),
            }
        }
        over
    }

    /// Leaves out those that are not in the tables any more, if those that are (`timed`) are less than half.
    pub(super) fn tidy(&mut self, timed: usize, is_there: impl Fn(&Arc<Entry>) -> bool) {
        if self.queue.len() > 2 * timed + SPARE {
            self.queue.retain(|due| due.0.entry.upgrade().is_some_and(|entry| is_there(&entry)));
        }
    }

    /// Queues these and no others.
    pub(super) fn set<'a>(&mut self, entries: impl Iterator<Item = &'a Arc<Entry>>) {
        self.queue.clear();
        entries.for_each(|entry| self.add(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entries::Birth;
    use weir_openflow::Flow;

    const SECOND: u64 = Nanos::PER_SECOND;

    fn entry(idle_timeout: u16, hard_timeout: u16) -> Arc<Entry> {
        let flow = Flow { idle_timeout, hard_timeout, ..Flow::default() };
        Arc::new(Entry::new(flow, Birth::new(Nanos(SECOND)), None))
    }

    fn over(expiry: &mut Expiry, seconds: u64) -> Vec<(Arc<Entry>, Removal)> {
        expiry.over(Nanos(seconds * SECOND), |_| true)
    }

    #[test]
    fn entries_go_when_their_time_is_over_and_for_the_reason_that_comes_first() {
        let mut expiry = Expiry::default();
        let entries = [entry(3, 0), entry(0, 5), entry(4, 2), entry(0, 0)];
        entries.iter().for_each(|entry| expiry.add(entry));
        assert!(over(&mut expiry, 2).is_empty() && !expiry.is_due(Nanos(2 * SECOND)));
        let mut at = |seconds| {
            let over = over(&mut expiry, seconds);
            let place =
                |gone: &Arc<Entry>| entries.iter().position(|entry| Arc::ptr_eq(entry, gone)).unwrap();
            over.iter().map(|(gone, why)| (place(gone), *why)).collect::<Vec<_>>()
        };
        assert_eq!(at(3), [(2, Removal::Hard)]);
        assert_eq!(at(4), [(0, Removal::Idle)]);
        assert_eq!(at(5), []);
        assert_eq!(at(100), [(1, Removal::Hard)]);
        assert_eq!(at(1000), []);
    }

    #[test]
    fn one_that_was_used_is_looked_at_again_only_when_it_may_be_over() {
        let mut expiry = Expiry::default();
        let used = entry(10, 0);
        expiry.add(&used);
        used.counts().add(1, 60, Nanos(9 * SECOND));
        assert!(over(&mut expiry, 11).is_empty(), "it was used two seconds ago");
        assert!(!expiry.is_due(Nanos(18 * SECOND)) && expiry.is_due(Nanos(19 * SECOND)));
        assert_eq!(over(&mut expiry, 19).len(), 1);
    }

    #[test]
    fn what_left_the_tables_is_left_out_and_takes_no_room() {
        let mut expiry = Expiry::default();
        let stays = entry(1, 0);
        expiry.add(&stays);
        let gone: Vec<Arc<Entry>> = (0..3 * SPARE).map(|_| entry(1, 0)).collect();
        gone.iter().for_each(|entry| expiry.add(entry));
        let is_there = |entry: &Arc<Entry>| Arc::ptr_eq(entry, &stays);
        expiry.tidy(3 * SPARE, is_there);
        assert_eq!(expiry.queue.len(), 3 * SPARE + 1, "most are taken to be there");
        expiry.tidy(1, is_there);
        assert_eq!(expiry.queue.len(), 1);
        gone.iter().take(10).for_each(|entry| expiry.add(entry));
        drop(gone);
        let over = expiry.over(Nanos(60 * SECOND), is_there);
        assert!(over.len() == 1 && is_there(&over[0].0));
    }
}
