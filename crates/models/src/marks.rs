//! The numbers of a sender whose packets two threads receive.

use crate::every_order;
use crate::the_marks::Marks;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Numbers that the smallest window has: one word of marks.
const WINDOW: u64 = 32;

/// What a receiver makes of these numbers: how many are new, and how many of those out of order.
fn noted(marks: &Marks, numbers: &[u64]) -> (u64, u64) {
    numbers.iter().fold((0, 0), |(new, reordered), number| {
        let (is_new, in_order) = marks.note(*number);
        (new + u64::from(is_new), reordered + u64::from(is_new && !in_order))
    })
}

/// Two receivers have these numbers; what they count together.
fn together(mine: &'static [u64], theirs: &'static [u64], holds: fn((u64, u64)) -> bool) -> u64 {
    every_order(None, move || {
        let marks = Arc::new(Marks::new(WINDOW));
        let others = marks.clone();
        let other = thread::spawn(move || noted(&others, theirs));
        let (new, reordered) = noted(&marks, mine);
        let other = other.join().expect("it does not panic");
        let sum = (new + other.0, reordered + other.1);
        assert!(holds(sum), "{sum:?}");
    })
}

/// A packet and its duplicate come to two receivers: one of them is new.
pub fn a_packet_that_comes_to_two_counts_once() -> u64 {
    together(&[0, 1], &[1, 2], |(new, _)| new == 3)
}

/// Each of two receivers has its packets in order: whoever is behind the other counts what is, and the last of all is not.
pub fn what_comes_behind_a_later_one_is_out_of_order_once() -> u64 {
    together(&[0, 2], &[1], |(new, reordered)| new == 3 && reordered <= 1)
}

/// One receiver is a whole window ahead: what the other has still to come is new or too far behind, and nothing of the later
/// lap is lost.
pub fn a_later_lap_loses_nothing() -> u64 {
    together(&[WINDOW, WINDOW + 1], &[1, WINDOW], |(new, _)| (2..=3).contains(&new))
}

/// Marks that are read and written apart: this is to panic.
pub fn marks_in_two_steps_are_found_out() {
    every_order(None, || {
        let marks = Arc::new(AtomicU64::new(0));
        let note = |marks: &AtomicU64| {
            let old = marks.load(Ordering::Acquire);
            marks.store(old | 1, Ordering::Release);
            u64::from(old & 1 == 0)
        };
        let theirs = marks.clone();
        let other = thread::spawn(move || note(&theirs));
        let new = note(&marks) + other.join().expect("it does not panic");
        assert_eq!(new, 1, "counted twice");
    });
}
