//! The fast path of a burst: packets with simple actions are found by a masked header (`classify/fast_path.rs`), and
//! leave before anything else is read of them.

use crate::actions::execute::Disposition;
use crate::model::Packets;
use crate::stats::counters::Step;
use crate::worker::Worker;
use crate::worker::state::{Fresh, Source};
use weir_dpdk::Burst;
use weir_flow::places;
use weir_openflow::PortNo;

/// The first so many packets of a burst, at least one.
#[inline]
pub(super) fn all(count: usize) -> Packets {
    Packets::MAX >> (Packets::BITS as usize - count)
}

impl Worker {
    /// Whether packets of this queue may come with their megaflow's name: they take no fast path then.
    #[inline]
    pub(super) fn has_hints(&mut self, at: usize) -> bool {
        self.state.fresh = Fresh::default();
        self.input.queues.get(at).is_some_and(|input| input.hints.is_some())
    }

    /// Sends the packets that the fast path knows, if it knows all; otherwise returns those that have to
    /// go through the other tiers first. It learns from these. There is at least one.
    #[inline]
    pub(super) fn take_fast_path(&mut self, burst: &mut Burst, port: PortNo, bytes: u64) -> Packets {
        let count = burst.len();
        let all = all(count);
        let steered = self.pipeline.by_flow && self.steering.rings.len() > 1;
        self.state.fresh = Fresh::default();
        if steered || !self.input.taps.is_empty() {
            return all;
        }
        if !self.tiers.caches.fast_path.is_open(count) {
            self.counters.caches.stepped_aside += count as u64;
            return all;
        }
        let tables = (self.time.now, &*self.pipeline);
        let (dispositions, report) = (&mut self.state.dispositions, &mut self.counters.caches);
        let taken = self.tiers.caches.take(burst, port, tables, dispositions, report);
        self.counters.caches.shortcut_hits += u64::from((all & !taken.left).count_ones());
        self.state.fresh = Fresh { packets: taken.left, port };
        self.time.lap(Step::FastPath, count, &mut self.counters);
        if taken.left == 0 {
            match taken.all {
                Some(Disposition::Forward(port)) => {
                    self.output.egress.send_all(port, burst, bytes, &mut self.counters)
                }
                Some(Disposition::Drop(reason)) => {
                    self.counters.drop(reason, count as u64);
                    burst.clear();
                }
                _ => self.transmit(burst),
            }
            self.time.lap(Step::Transmit, count, &mut self.counters);
            self.time.end_burst();
        }
        taken.left
    }

    /// Shows the fast path the packets that it did not know, as they came in.
    #[inline]
    pub(super) fn teach(&mut self, burst: &mut Burst, wanted: Packets) {
        let Fresh { packets, port } = std::mem::take(&mut self.state.fresh);
        if !self.tiers.caches.has_short() {
            return;
        }
        for at in places(packets & wanted) {
            if let (Some(packet), Source::Megaflow(handle)) = (burst.get_mut(at), self.state.sources[at]) {
                self.tiers.caches.learn(handle, packet, port, &mut self.counters.caches);
            }
        }
    }
}
