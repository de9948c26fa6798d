//! Counters of an entry, which workers add to and whoever wants to know reads.
//!
//! Threads: any. What is read may lag behind, but never falls, and nothing of what workers added is lost. `crates/models`
//! goes through it with this very file.

use crate::model::atomics::{AtomicU64, Ordering};
use weir_units::Nanos;

/// Packets, bytes, and when the last came. Shared by the entries that replace one another with their
/// counters kept, and by the buckets of a group.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    packets: AtomicU64,
    bytes: AtomicU64,
    used: AtomicU64,
}

impl Counts {
    /// Adds to the counters.
    pub(crate) fn add(&self, packets: u64, bytes: u64, used: Nanos) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Most of what is credited together was used at the same time, and a load is cheaper.
        if self.used.load(Ordering::Relaxed) < used.0 {
            self.used.fetch_max(used.0, Ordering::Relaxed);
        }
    }

    /// Counters at zero that remember when the last packet came.
    pub(crate) fn reset(&self) -> Self {
        Self { used: AtomicU64::new(self.used.load(Ordering::Relaxed)), ..Self::default() }
    }

    /// Packets and bytes.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// When the last packet came; zero if none did.
    pub(crate) fn used(&self) -> Nanos {
        Nanos(self.used.load(Ordering::Relaxed))
    }
}
