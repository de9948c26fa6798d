//! What became of the lookup is done: each packet's source says which operations, and they are executed.

use crate::actions::execute::{Context, Disposition, Subject, execute};
use crate::model::Packets;
use crate::worker::Worker;
use crate::worker::state::{Source, each, run};
use weir_dpdk::Burst;
use weir_flow::places;
use weir_packet::DropReason;
use weir_services::Memo;

impl Worker {
    /// Does what the packets' first segments say. Returns those that wait for a service.
    #[inline]
    pub(super) fn execute(&mut self, burst: &mut Burst, wanted: Packets) -> Packets {
        self.teach(burst, wanted);
        if self.state.found.runs {
            self.execute_runs::<true>(burst, wanted)
        } else {
            self.execute_runs::<false>(burst, wanted)
        }
    }

    /// The same, made for packets that come in runs, or alone.
    #[inline(always)]
    fn execute_runs<const RUNS: bool>(&mut self, burst: &mut Burst, wanted: Packets) -> Packets {
        let (mut waiting, now) = (0, self.time.now);
        let mut context = Context {
            output: &mut self.output,
            counters: &mut self.counters,
            now,
            passes: 0,
            root: 0,
            copies: &mut self.state.copies,
        };
        let mut left = wanted;
        while let Some(first) = places(left).next() {
            let (source, mut memo) = (self.state.sources[first], Memo::NOWHERE);
            let together = run::<RUNS>(left, first, |at| self.state.sources[at] == source);
            left &= !together;
            let step = match source {
                Source::Megaflow(handle) => self.tiers.caches.program(handle, now).and_then(|program| {
                    memo = program.memo;
                    program.step(0)
                }),
                Source::Pending(number) => self.slow.pending[number].step(0),
                Source::Walk(end) => self.tiers.table_walk.end(end),
                Source::Refused => {
                    places(together).for_each(|at| {
                        self.state.dispositions[at] = Disposition::Drop(DropReason::UpcallLimit)
                    });
                    continue;
                }
            };
            // The handle was found in this burst, and nothing is removed before its end.
            let Some(step) = step else { continue };
            each::<RUNS>(together, |at| {
                let Some(packet) = burst.get_mut(at) else { return };
                step.counted.add(packet.len());
                context.passes = self.state.passes[at];
                context.root = self.state.roots[at];
                let (layout, key) = (&mut self.state.layouts[at], &mut self.state.keys[at]);
                let disposition = execute(step.ops, &mut Subject { packet, layout, key }, &mut context);
                self.state.dispositions[at] = disposition;
                self.state.segments[at] = 1;
                self.state.memos[at] = memo;
                waiting |= u64::from(disposition.service().is_some()) << at;
            });
        }
        waiting
    }
}
