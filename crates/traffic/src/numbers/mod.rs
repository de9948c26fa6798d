//! Which of one sender's packets came: each is new, a duplicate, or new and out of order.
//!
//! A number above all seen is in order; one below is reordered (RFC 4737, section 3) or, if its bit is set, a duplicate. A
//! trial has a bit for each of its packets, up to [`WINDOW`]; a packet that lies further behind cannot be told from a
//! duplicate, and counts as one: what is not known to be new is no gain.
//!
//! Where one thread receives all of a direction the bits are its own ([`Own`]); where several do, whose queues may each have
//! some of a sender's packets, they share them ([`Marks`]), so that counts and order are as exact as with one.

mod marks;
mod own;

pub(crate) use marks::Marks;
use own::Own;
use std::sync::Arc;

/// What threads share: the standard library's atomics. `crates/models` puts loom's in their place.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// Sequence numbers told apart behind the greatest seen, at most: 4.5 s of the smallest frames at 10 Gb/s, in
/// 8 MiB.
pub const WINDOW: u64 = 1 << 26;
/// And at least.
const LEAST_WINDOW: u64 = 1 << 16;

/// The window of a trial in which a sender has so many packets.
pub(crate) fn window_of(packets: u64) -> u64 {
    packets.clamp(LEAST_WINDOW, WINDOW).next_power_of_two()
}

/// How one receiver keeps them.
#[derive(Debug)]
enum Kept {
    Alone(Own),
    Shared(Arc<Marks>),
}

/// The numbers of one sender, as one receiver saw them.
#[derive(Debug)]
pub(crate) struct Numbers {
    kept: Kept,
    reordered: u64,
}

impl Numbers {
    /// For the only receiver: a window of so many numbers, a power of two.
    pub(crate) fn alone(window: u64) -> Self {
        Self { kept: Kept::Alone(Own::new(window)), reordered: 0 }
    }

    /// For one of several.
    pub(crate) fn shared(marks: Arc<Marks>) -> Self {
        Self { kept: Kept::Shared(marks), reordered: 0 }
    }

    /// Marks a number; false when it was seen before, or lies too far behind.
    #[inline]
    pub(crate) fn note(&mut self, number: u64) -> bool {
        let (is_new, in_order) = match &mut self.kept {
            Kept::Alone(own) => own.note(number),
            Kept::Shared(marks) => marks.note(number),
        };
        self.reordered += u64::from(is_new && !in_order);
        is_new
    }

    /// Packets that were new and out of order.
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }
}
