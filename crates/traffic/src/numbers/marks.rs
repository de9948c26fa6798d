//! The numbers of a sender whose packets several threads receive.
//!
//! Why: a device hands a sender's packets out to the queues of its port as it likes. Were each queue's thread to keep a list
//! of its own, a packet that came by two of them would count twice.
//! Design: a word has the marks of 32 numbers, and in its upper half the lap of the window that these belong to. Whoever comes
//! with a number of a later lap takes the word over, marks and all, in one step; so nothing has to be cleared ahead, and a
//! number of an earlier lap is told as such.
//! Each word, and the greatest number, is changed by itself, and nothing else is read behind it: so no access orders others.
//! Threads: any may note. `crates/models` goes through all orders with this very file.

use super::atomics::{AtomicU64, Ordering};

/// Numbers whose marks stand in one word.
const A_WORD: u64 = 32;
/// The half of a word that has them.
const MARKS: u64 = (1 << A_WORD) - 1;

/// The greatest number, on a cache line of its own: every packet asks for it, and most of them change it.
#[derive(Debug)]
#[repr(align(128))]
struct Greatest(AtomicU64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Marks {
    /// One above the greatest number seen.
    expected: Greatest,
    words: Box<[AtomicU64]>,
}

impl Marks {
    /// A window of so many numbers, a power of two.
    pub(crate) fn new(window: u64) -> Self {
        let words = (window / A_WORD).max(1).next_power_of_two();
        Self { expected: Greatest(AtomicU64::new(0)), words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Marks a number. Whether it is new, and whether it is above all seen before.
    #[inline]
    pub(super) fn note(&self, number: u64) -> (bool, bool) {
        if !self.mark(number) {
            return (false, false);
        }
        // Most are above all others; what is not need not write.
        let below = number < self.expected.0.load(Ordering::Relaxed);
        (true, !below && self.expected.0.fetch_max(number + 1, Ordering::Relaxed) <= number)
    }

    /// Sets a number's mark; false where it was set, or where a later lap has its word.
    #[inline]
    fn mark(&self, number: u64) -> bool {
        let word = number / A_WORD;
        let (place, lap) = (word & (self.words.len() as u64 - 1), word / self.words.len() as u64);
        // Numbers have 44 bits, and a window 2^16 numbers at least: a lap has 28 bits at most.
        let (lap, mark) = (lap << A_WORD, 1 << (number % A_WORD));
        let marked = |old: u64| match (old & !MARKS).cmp(&lap) {
            std::cmp::Ordering::Less => Some(lap | mark),
            std::cmp::Ordering::Equal => (old & mark == 0).then_some(old | mark),
            std::cmp::Ordering::Greater => None,
        };
        self.words[place as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, marked).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 8;

    #[test]
    fn numbers_are_new_once_whichever_lap_they_are_of() {
        let marks = Marks::new(WINDOW);
        let all: Vec<_> =
            [0, 1, 40, 3, 40, WINDOW + 3, 3, 4, WINDOW - 1, WINDOW + 4].map(|n| marks.note(n)).into();
        let (above, below, known) = ((true, true), (true, false), (false, false));
        // A later lap has the word of 3 and 4, so that 4 cannot be told from a duplicate.
        assert_eq!(all, [above, above, above, below, known, above, known, known, below, above]);
    }

    #[test]
    fn the_last_number_that_a_stamp_can_have_is_told_in_the_smallest_window() {
        let marks = Marks::new(1 << 16);
        let last = (1 << 44) - 1;
        assert_eq!([0, last, last, 0].map(|number| marks.note(number).0), [true, true, false, false]);
    }

    /// Whatever comes, it says what one receiver says who has all numbers to himself, as far as that one remembers.
    #[test]
    fn it_says_what_one_receiver_says() {
        let (marks, mut own) = (Marks::new(WINDOW), super::super::own::Own::new(WINDOW));
        let mut random = 1_u32;
        let mut greatest = 0;
        for step in 0..100_000_u64 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            // What both remember: no further behind the greatest than the window but for a word.
            let number = (step / 3 + u64::from(random) % (WINDOW - A_WORD))
                .max((greatest + A_WORD).saturating_sub(WINDOW));
            greatest = greatest.max(number);
            assert_eq!(marks.note(number), own.note(number), "step {step}, number {number}");
        }
    }

    #[test]
    fn several_threads_count_each_number_once() {
        const ALL: u64 = 100_000;
        let marks = Marks::new(1 << 17);
        let count = |first: u64, step: usize| {
            let noted = (first..ALL).step_by(step).map(|number| u64::from(marks.note(number).0));
            noted.sum::<u64>()
        };
        let new: u64 = std::thread::scope(|scope| {
            let threads =
                [(0, 1), (0, 2), (1, 3)].map(|(first, step)| scope.spawn(move || count(first, step)));
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
        });
        assert_eq!(new, ALL);
    }
}
