//! The waker of the channel's thread: whoever leaves something for it, and the thread that looks, or sleeps until it is woken.

use crate::every_order;
use crate::the_wish::Wish;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

/// What is left for the thread, and the pipe that wakes it.
#[derive(Default)]
struct Desk {
    left: AtomicU64,
    pipe: AtomicBool,
}

impl Desk {
    fn leave(&self, has_to_wake: impl FnOnce() -> bool) {
        self.left.store(1, Ordering::Relaxed);
        if has_to_wake() {
            self.pipe.store(true, Ordering::SeqCst);
        }
    }

    /// Empties the pipe, looks, and whether it has seen all or will be woken.
    fn look(&self, begin: impl FnOnce()) -> u64 {
        self.pipe.store(false, Ordering::SeqCst);
        begin();
        self.left.load(Ordering::Relaxed)
    }
}

/// Somebody leaves something while the thread, which was woken before, begins to look: it sees it, or is woken again.
pub fn nothing_that_is_left_is_slept_over() -> u64 {
    every_order(None, || {
        let (desk, wish) = (Arc::new(Desk::default()), Arc::new(Wish::new()));
        desk.pipe.store(wish.wish(), Ordering::SeqCst);
        let other = {
            let (desk, wish) = (desk.clone(), wish.clone());
            thread::spawn(move || desk.leave(|| wish.wish()))
        };
        let seen = desk.look(|| wish.begin());
        other.join().expect("it does not panic");
        assert!(seen == 1 || desk.pipe.load(Ordering::SeqCst), "it sleeps over what was left");
    })
}

/// A thread that takes the flag back by a plain store: this is to panic.
pub fn a_plain_store_is_found_out() {
    every_order(None, || {
        let (desk, flag) = (Arc::new(Desk::default()), Arc::new(AtomicBool::new(true)));
        desk.pipe.store(true, Ordering::SeqCst);
        let other = {
            let (desk, flag) = (desk.clone(), flag.clone());
            thread::spawn(move || desk.leave(|| !flag.swap(true, Ordering::AcqRel)))
        };
        let seen = desk.look(|| flag.store(false, Ordering::Release));
        other.join().expect("it does not panic");
        assert!(seen == 1 || desk.pipe.load(Ordering::SeqCst), "it sleeps over what was left");
    });
}
