//! The soft TCAM: a port that classifies, emulated where no port does.
//!
//! The emulation runs on the worker's thread, for there is no other place that sees each packet; its
//! cycles are counted, and kept apart from those of the switch's work.

use super::HintSource;
use crate::model::Packets;
use crate::model::tcam::TcamConfig;
use weir_classifier::{Mark, Refusal, Tcam};
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst};
use weir_flow::{Key, Mask, Seed};
use weir_units::Nanos;

/// Updates between two rankings of the emulation's own tables.
const RANK: u32 = 256;

/// An emulated table.
pub(crate) struct Soft {
    tcam: Tcam,
    /// Cycles that emulating took, since somebody asked.
    spent: u64,
    updates: u32,
}

impl Soft {
    pub(crate) fn new(seed: Seed, config: &TcamConfig) -> Self {
        Self { tcam: Tcam::new(seed, config.entries as usize, config.latency), spent: 0, updates: 0 }
    }

    /// Does what a table in hardware would do by itself.
    #[inline]
    fn emulate<T>(&mut self, work: impl FnOnce(&mut Tcam) -> T) -> T {
        let begin = Ticks::now();
        let done = work(&mut self.tcam);
        self.spent += Ticks::now().since(begin);
        done
    }
}

impl HintSource for Soft {
    fn is_ready(&self, now: Nanos) -> bool {
        self.tcam.is_ready(now)
    }

    fn write(&mut self, mark: Mark, key: &Key, mask: &Mask, now: Nanos) -> Result<(), Refusal> {
        self.updates = (self.updates + 1) % RANK;
        let rank = self.updates == 0;
        self.emulate(|tcam| {
            if rank {
                tcam.rank();
            }
            tcam.write(mark, key, mask, now)
        })
    }

    fn erase(&mut self, mark: Mark, now: Nanos) -> Result<(), Refusal> {
        self.emulate(|tcam| tcam.erase(mark, now))
    }

    fn gone(&mut self, now: Nanos) -> Option<Mark> {
        self.emulate(|tcam| tcam.gone(now))
    }

    fn mark(&mut self, burst: &mut Burst, keys: &[Key], wanted: Packets, now: Nanos) {
        self.emulate(|tcam| {
            let mut marks = [0; BURST];
            tcam.lookup_burst(keys, wanted, now, &mut marks);
            for (packet, mark) in burst.iter_mut().zip(marks) {
                packet.set_mark((mark != 0).then_some(mark));
            }
        });
    }

    fn emulated(&mut self) -> u64 {
        std::mem::take(&mut self.spent)
    }
}
