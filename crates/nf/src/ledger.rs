//! The worker's ledger: what came, what left, and why the rest did not.
//!
//! The worker alone writes, once a burst, with plain stores; anybody may read at any time. Each
//! number is exact; numbers read together while the worker runs may differ by the burst at hand.
//! When it has stopped, received = sent + dropped.

use crate::verdict::{DropReason, PORTS};
use std::array;
use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Only the one writer may call this: load and store are two steps, which is what
    /// makes them cheap.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters as the worker keeps them, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    received: [Counter; PORTS],
    sent: [Counter; PORTS],
    refused: [Counter; PORTS],
    dropped: [Counter; DropReason::ALL.len()],
    busy: Counter,
}

/// What the counters said at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By port.
    pub ports: [PortLedger; PORTS],
    /// Packets dropped, by [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// TSC cycles from each poll that found packets to the next that found none, up to some thousand rounds ago at
    /// most: preemption included. Of a worker that yields, cycles of the rounds that found packets, what others
    /// did on the core in between not included.
    pub busy_cycles: u64,
}

/// Packets of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLedger {
    /// Packets that came in by it.
    pub received: u64,
    /// Packets that left by it.
    pub sent: u64,
    /// Packets that it did not take, dropped as [`DropReason::TransmitFull`].
    pub refused: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn count_received(&self, port: usize, packets: usize) {
        self.received[port].add(packets as u64);
    }

    #[inline]
    pub(crate) fn count_sent(&self, port: usize, packets: usize) {
        self.sent[port].add(packets as u64);
    }

    #[inline]
    pub(crate) fn count_dropped(&self, reason: DropReason, packets: usize) {
        self.dropped[reason as usize].add(packets as u64);
    }

    /// What a port did not take is dropped.
    #[inline]
    pub(crate) fn count_refused(&self, port: usize, packets: usize) {
        self.refused[port].add(packets as u64);
        self.count_dropped(DropReason::TransmitFull, packets);
    }

    #[inline]
    pub(crate) fn count_busy(&self, cycles: u64) {
        self.busy.add(cycles);
    }

    /// Reads all counters.
    pub(crate) fn read(&self) -> Ledger {
        Ledger {
            ports: array::from_fn(|port| PortLedger {
                received: self.received[port].get(),
                sent: self.sent[port].get(),
                refused: self.refused[port].get(),
            }),
            dropped: array::from_fn(|reason| self.dropped[reason].get()),
            busy_cycles: self.busy.get(),
        }
    }
}

impl Ledger {
    /// Packets received on all ports.
    pub fn received(&self) -> u64 {
        self.ports.iter().map(|port| port.received).sum()
    }

    /// Packets sent on all ports.
    pub fn sent(&self) -> u64 {
        self.ports.iter().map(|port| port.sent).sum()
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// What two workers counted together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let port = |port: usize| {
            let [one, other] = [self.ports[port], other.ports[port]];
            PortLedger {
                received: one.received + other.received,
                sent: one.sent + other.sent,
                refused: one.refused + other.refused,
            }
        };
        Self {
            ports: array::from_fn(port),
            dropped: array::from_fn(|reason| self.dropped[reason] + other.dropped[reason]),
            busy_cycles: self.busy_cycles + other.busy_cycles,
        }
    }

    /// Packets dropped, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().zip(self.dropped)
    }
}

impl Sum for Ledger {
    fn sum<I: Iterator<Item = Self>>(ledgers: I) -> Self {
        ledgers.fold(Self::default(), Self::with)
    }
}
