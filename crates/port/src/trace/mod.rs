//! Trace ports: a capture, or a lap of templates, is what comes in, and what goes out becomes a capture.
//!
//! Either is read into memory when the port is opened. A poll copies a capture's frames into fresh mbufs, or makes the frames of a
//! lap there ([`weir_wire::lap`]): one copy and no system call. What is sent is written under one lock a burst through a buffer of
//! [`sink::BUFFER`] bytes, so a worker waits for the file system now and then: these ports are for
//! tests, demonstrations and equivalence. A port that only replays is a source to measure with.

mod frames;
mod replay;
mod sink;
mod source;

pub(crate) use frames::Frames;
pub(crate) use replay::Replay;
pub(crate) use sink::Sink;
pub use sink::TraceTx;
pub use source::TraceRx;

use std::sync::atomic::{AtomicU64, Ordering};

/// What a queue counted. One thread writes, any may read.
#[derive(Debug, Default)]
pub(crate) struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Count {
    fn add(&self, packets: u64, bytes: u64) {
        // One writer: no read-modify-write on the bus is needed.
        self.packets.store(self.packets.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    fn add_errors(&self, errors: u64) {
        self.errors.store(self.errors.load(Ordering::Relaxed) + errors, Ordering::Relaxed);
    }

    /// Packets, bytes without FCS, and packets in error.
    pub(crate) fn read(&self) -> (u64, u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.packets), read(&self.bytes), read(&self.errors))
    }
}
