//! Packets leave: by ports, to other workers, or with a reason; and copies that need a lookup of their own get it.

use crate::actions::execute::{Disposition, Output};
use crate::stats::counters::Counters;
use crate::worker::Worker;
use crate::worker::state::PASSES;
use crate::worker::steer::Handed;
use weir_dpdk::{BURST, Burst};
use weir_packet::DropReason;

impl Worker {
    /// Packets leave, each as its disposition says; the burst is empty then.
    #[inline]
    pub(super) fn transmit(&mut self, burst: &mut Burst) {
        let others = std::mem::take(&mut self.state.others) != 0;
        if others || self.output.egress.keeps() || !self.output.spawned.is_empty() {
            self.transmit_behind_copies(burst);
            return;
        }
        let (dispositions, counters) = (&self.state.dispositions, &mut self.counters);
        let ports = self.output.egress.bursts.len();
        burst.distribute(&mut self.output.egress.bursts, |at, _| match dispositions[at] {
            Disposition::Forward(port) if usize::from(port) < ports => Some(usize::from(port)),
            other => {
                end(other, counters);
                None
            }
        });
        self.output.egress.flush_all(&mut self.counters);
    }

    /// The same where copies were made, or some packets go to other workers. What leaves waits for copies that have
    /// to be looked up first.
    #[inline(never)]
    fn transmit_behind_copies(&mut self, burst: &mut Burst) {
        let Self { state, output: Output { egress, spawned, .. }, counters, steering, .. } = self;
        let behind = egress.keeps() || !spawned.is_empty();
        burst.drain(|at, mbuf| match state.dispositions[at] {
            Disposition::Forward(port) if behind => egress.keep(port, state.roots[at], mbuf, counters),
            Disposition::Forward(port) => egress.send(port, mbuf, counters),
            Disposition::HandOver(worker) => {
                let in_port = weir_flow::Field::InPort.get(&state.keys[at]) as u32;
                match steering.rings[usize::from(worker)].push(Handed { mbuf, in_port }) {
                    Ok(()) => counters.handed_over += 1,
                    Err(_) => counters.drop(DropReason::HandOver, 1),
                }
            }
            other => end(other, counters),
        });
        if spawned.is_empty() {
            egress.release(counters);
        }
    }

    /// Copies that need a lookup of their own, a burst at a time.
    pub(super) fn drain_spawned(&mut self, burst: &mut Burst) {
        while !self.output.spawned.is_empty() {
            let count = self.output.spawned.len().min(BURST);
            let mut wanted = 0;
            for (at, spawned) in self.output.spawned.drain(..count).enumerate() {
                self.state.keys[at] = spawned.key;
                self.state.layouts[at] = spawned.layout;
                self.state.passes[at] = spawned.passes.saturating_add(1);
                self.state.roots[at] = spawned.root;
                if spawned.passes >= PASSES {
                    self.state.dispositions[at] = Disposition::Drop(DropReason::TooDeep);
                } else {
                    wanted |= 1 << at;
                }
                // The burst was emptied when the last was transmitted.
                let _ = burst.push(spawned.mbuf);
            }
            self.forward(burst, wanted);
        }
    }
}

/// Counts a packet that ends here.
#[inline]
fn end(disposition: Disposition, counters: &mut Counters) {
    match disposition {
        Disposition::Drop(reason) => counters.drop(reason, 1),
        Disposition::Gone => {}
        Disposition::Forward(_) => counters.drop(DropReason::NoPort, 1),
        // Everything else was resolved before packets leave.
        Disposition::Service(..)
        | Disposition::Tell(..)
        | Disposition::Track(..)
        | Disposition::Again
        | Disposition::HandOver(_) => {
            counters.drop(DropReason::TooDeep, 1);
        }
    }
}
