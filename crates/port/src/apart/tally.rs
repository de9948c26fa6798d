//! What helpers say to have counted, added up.

use super::SharedWords;
use super::ring::Told;
use std::sync::Arc;

/// More than any helper counts in truth; sums of it do not overflow.
const MOST: u64 = 1 << 48;

/// What helpers say to have counted.
#[derive(Debug)]
pub(super) struct AllTold {
    missed: Tally,
    unsent: Tally,
    /// Of the one that there is.
    memory: Option<Arc<SharedWords>>,
}

/// A count that never becomes less, and never more than can be added up, whatever helpers say.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Of helpers that have ended.
    before: u64,
    /// Of the one that there is.
    now: u64,
}

impl Tally {
    fn hear(&mut self, told: u64) {
        self.now = self.now.max(told.min(MOST));
    }

    fn settle(&mut self) {
        self.before = self.sum();
        self.now = 0;
    }

    fn sum(&self) -> u64 {
        (self.before + self.now).min(MOST << 8)
    }
}

impl AllTold {
    /// Of the first helper, with this memory.
    pub(super) fn of(memory: Arc<SharedWords>) -> Self {
        Self { missed: Tally::default(), unsent: Tally::default(), memory: Some(memory) }
    }

    /// Another has come.
    pub(super) fn begin(&mut self, memory: Arc<SharedWords>) {
        self.memory = Some(memory);
    }

    /// Packets that were missed, and those that no peer was there for.
    pub(super) fn look(&mut self) -> [u64; 2] {
        if let Some(memory) = &self.memory {
            self.missed.hear(Told::Missed.read(memory));
            self.unsent.hear(Told::Unsent.read(memory));
        }
        [self.missed.sum(), self.unsent.sum()]
    }

    /// The helper has ended.
    pub(super) fn settle(&mut self) {
        self.look();
        self.memory = None;
        self.missed.settle();
        self.unsent.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helpers_say_is_added_up_and_never_falls_or_overflows() {
        let memory = || Arc::new(SharedWords::create(64).unwrap().0);
        let first = memory();
        let mut told = AllTold::of(first.clone());
        Told::Missed.write(&first, 7);
        assert_eq!(told.look(), [7, 0]);
        Told::Missed.write(&first, 3);
        Told::Unsent.write(&first, 5);
        assert_eq!(told.look(), [7, 5], "it takes nothing back");
        told.settle();
        Told::Missed.write(&first, 1000);
        assert_eq!(told.look(), [7, 5], "it is not heard any more");
        let second = memory();
        told.begin(second.clone());
        Told::Missed.write(&second, 2);
        assert_eq!(told.look(), [9, 5]);
        Told::Unsent.write(&second, u64::MAX);
        let [missed, unsent] = told.look();
        assert!(missed == 9 && unsent > MOST);
        for _ in 0..1000 {
            told.settle();
            told.begin(second.clone());
            assert!(told.look()[1] >= unsent && told.look()[1].checked_mul(16).is_some());
        }
    }
}
