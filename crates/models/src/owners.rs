//! Who has a translated connection: one line of the table, of two workers.

use crate::every_order;
use crate::the_owner_line::OwnerLine;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A tuple's name, as it is hashed.
const NAME: u64 = 0x5eed_0000_0000_0000;

/// How often a thread is interrupted, at most: an insertion has seventeen steps.
const INTERRUPTIONS: Option<usize> = Some(5);

/// Two workers want one tuple at the same moment: not both have it, and whoever has it is found.
pub fn two_workers_do_not_have_one_tuple() -> u64 {
    every_order(INTERRUPTIONS, || {
        let line = Arc::new(OwnerLine::default());
        let theirs = line.clone();
        let other = thread::spawn(move || theirs.insert(NAME, 1));
        let mine = line.insert(NAME, 0);
        let others = other.join().expect("it does not panic");
        assert!(!(mine && others), "both have it");
        let found = line.find(NAME);
        assert_eq!(found, mine.then_some(0).or(others.then_some(1)), "what is found is who has it");
    })
}

/// A connection ends while another worker wants its tuple: whoever was told that it has it is found.
pub fn what_ends_leaves_its_place_to_another() -> u64 {
    every_order(INTERRUPTIONS, || {
        let line = Arc::new(OwnerLine::default());
        assert!(line.insert(NAME, 0));
        let theirs = line.clone();
        let other = thread::spawn(move || theirs.insert(NAME, 1));
        line.remove(NAME, 0);
        let others = other.join().expect("it does not panic");
        assert_eq!(line.find(NAME), others.then_some(1));
    })
}

/// A worker begins anew, without connections, while another one makes some: nothing of the other's goes.
pub fn who_begins_anew_takes_nothing_of_others() -> u64 {
    every_order(INTERRUPTIONS, || {
        let line = Arc::new(OwnerLine::default());
        assert!(line.insert(NAME, 0));
        let theirs = line.clone();
        let other = thread::spawn(move || theirs.insert(NAME ^ 1 << 40, 1));
        line.clear(0);
        assert!(other.join().expect("it does not panic"));
        assert_eq!((line.find(NAME), line.find(NAME ^ 1 << 40)), (None, Some(1)));
    })
}

/// An insertion that looks first and writes then: this is to panic.
pub fn one_that_does_not_look_again_is_found_out() {
    every_order(INTERRUPTIONS, || {
        let line = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let insert = |line: &[AtomicU64; 2], own: u64| {
            if line.iter().any(|place| place.load(Ordering::Acquire) != 0) {
                return false;
            }
            line.iter()
                .any(|place| place.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok())
        };
        let theirs = line.clone();
        let other = thread::spawn(move || insert(&theirs, 2));
        let mine = insert(&line, 1);
        assert!(!(mine && other.join().expect("it does not panic")), "both have it");
    });
}
