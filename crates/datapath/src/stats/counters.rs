//! A worker's ledger while it runs: plain numbers that it alone writes and copies out when asked.

use crate::stats::report::{CacheReport, HintReport, StepReport, WaitReport};
use weir_packet::DropReason;

/// The steps of a packet's life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Receive,
    FastPath,
    Extract,
    Lookup,
    Upcall,
    Execute,
    Services,
    Transmit,
}

impl Step {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Receive, "receive"),
        (Self::FastPath, "shortcut"),
        (Self::Extract, "extract"),
        (Self::Lookup, "lookup"),
        (Self::Upcall, "upcall"),
        (Self::Execute, "execute"),
        (Self::Services, "services"),
        (Self::Transmit, "transmit"),
    ];
}

/// What one worker counted at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) send_dropped: u64,
    /// Megaflows that there are for what comes in by it, when the ledger was last copied.
    pub(crate) megaflows: u64,
    /// Those that had to make room for others.
    pub(crate) evicted: u64,
}

/// The ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received: u64,
    pub(crate) injected: u64,
    pub(crate) copied: u64,
    pub(crate) sent: u64,
    pub(crate) to_controller: u64,
    pub(crate) handed_over: u64,
    pub(crate) taken_over: u64,
    pub(crate) bursts: u64,
    pub(crate) busy_cycles: u64,
    pub(crate) caches: CacheReport,
    pub(crate) waiting: WaitReport,
    pub(crate) hints: HintReport,
    /// By place of the port.
    pub(crate) ports: Vec<PortCounts>,
    dropped: Drops,
    steps: [(u64, u64); Step::ALL.len()],
}

#[derive(Clone, Debug)]
struct Drops([u64; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::COUNT])
    }
}

impl Counters {
    /// Counts packets that ended.
    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason, packets: u64) {
        self.dropped.0[reason as usize] += packets;
    }

    /// Notes what a step took for so many packets.
    pub(crate) fn step(&mut self, step: Step, packets: u64, cycles: u64) {
        let (all, total) = &mut self.steps[step as usize];
        *all += packets;
        *total += cycles;
    }

    /// Drops by reason, those that occurred.
    pub(crate) fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = DropReason::ALL.iter().map(|reason| (reason.name(), self.dropped.0[*reason as usize]));
        all.filter(|(_, count)| *count > 0)
    }

    /// The steps as sampled.
    pub(crate) fn steps(&self) -> Vec<StepReport> {
        let report = |&(step, name): &(Step, &'static str)| {
            let (packets, cycles) = self.steps[step as usize];
            StepReport { step: name.into(), packets, cycles }
        };
        Step::ALL.iter().map(report).collect()
    }
}
