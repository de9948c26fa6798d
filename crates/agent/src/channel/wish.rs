//! Whether the channel's thread is to look at everything once more.
//!
//! Why: a system call wakes it, and one is enough for all that comes until it looks again.
//! Design: who has left something for the thread wishes, and wakes it if nobody else does; the thread begins before it looks.
//! Both change the flag in one step, so that whoever wishes after the thread began wakes it, and what was left by
//! whoever wished before is seen by it. A plain store at the begin would let the thread look before others see the store,
//! and then sleep over what came in between. `crates/models` goes through all orders with this very file.
//! Threads: any may wish, one begins.

use super::atomics::{AtomicBool, Ordering};

/// See the module.
#[derive(Debug)]
pub(super) struct Wish(AtomicBool);

impl Wish {
    /// Nobody wishes.
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Has the thread look, once what it is to see is there. Whether the caller has to wake it.
    pub(super) fn wish(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The thread looks next, at all that was left before.
    pub(super) fn begin(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
