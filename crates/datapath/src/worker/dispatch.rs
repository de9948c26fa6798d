//! What became of the lookup is done: each packet's source says which step comes next, and its operations are executed.
//! The same after a lookup and after a service.

use crate::actions::execute::{Context, Disposition, Subject, execute};
use crate::classify::Tiers;
use crate::model::Packets;
use crate::slowpath::pending::SlowPath;
use crate::worker::Worker;
use crate::worker::state::{BurstState, Source, each, run, went_too_often};
use weir_dpdk::Burst;
use weir_flow::places;
use weir_packet::DropReason;
use weir_services::Memo;

/// Which packets do what their next step says.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) packets: Packets,
    /// Of them, those that were just looked up: their step is the first of their megaflow.
    pub(super) first: Packets,
}

/// What became of them; all others have their disposition.
#[derive(Clone, Copy, Default)]
pub(super) struct Dispatched {
    /// Those that wait for a service.
    pub(super) waiting: Packets,
    /// Those for which there is no step as they look now: they are to be looked up again.
    pub(super) left: Packets,
}

impl Worker {
    /// Does what the first step says of packets that were looked up as they came in. Returns those that wait for a
    /// service.
    #[inline]
    pub(super) fn execute(&mut self, burst: &mut Burst, wanted: Packets) -> Packets {
        self.teach(burst, wanted);
        self.dispatch::<true>(burst, Due { packets: wanted, first: wanted }).waiting
    }

    /// Does what the next step of each of these packets says. With `LOOKED_UP`, all of them were just looked up.
    #[inline]
    pub(super) fn dispatch<const LOOKED_UP: bool>(&mut self, burst: &mut Burst, due: Due) -> Dispatched {
        if self.state.found.runs {
            self.dispatch_runs::<LOOKED_UP, true>(burst, due)
        } else {
            self.dispatch_runs::<LOOKED_UP, false>(burst, due)
        }
    }

    /// The same, made for packets that come in runs, or alone.
    #[inline(always)]
    fn dispatch_runs<const LOOKED_UP: bool, const RUNS: bool>(
        &mut self,
        burst: &mut Burst,
        due: Due,
    ) -> Dispatched {
        let Self { state, tiers: Tiers { caches, table_walk, .. }, slow: SlowPath { pending, .. }, .. } =
            self;
        let BurstState {
            keys, layouts, dispositions, sources, memos, segments, passes, roots, copies, ..
        } = state;
        let mut context = Context {
            output: &mut self.output,
            counters: &mut self.counters,
            now: self.time.now,
            passes: 0,
            root: 0,
            copies,
        };
        let (mut done, mut rest) = (Dispatched::default(), due.packets);
        while let Some(first) = places(rest).next() {
            let is_first = |at: usize| LOOKED_UP || due.first >> at & 1 == 1;
            let of = |at: usize| (sources[at], if LOOKED_UP { 0 } else { segments[at] }, is_first(at));
            let (source, number, begins) = of(first);
            let together = run::<RUNS>(rest, first, |at| of(at) == (source, number, begins));
            rest &= !together;
            let mut memo = Memo::NOWHERE;
            let step = match source {
                Source::Megaflow(handle) if begins => {
                    caches.program(handle, context.now).and_then(|program| {
                        memo = program.memo;
                        program.step(usize::from(number))
                    })
                }
                Source::Megaflow(handle) => caches.step(handle, usize::from(number)),
                Source::Pending(which) => pending[which].step(usize::from(number)),
                Source::Walk(end) if begins => table_walk.end(end),
                Source::Walk(_) => None,
                Source::Refused => {
                    each::<RUNS>(together, |at| {
                        dispositions[at] = Disposition::Drop(DropReason::UpcallLimit);
                    });
                    continue;
                }
            };
            let Some(step) = step else {
                each::<RUNS>(together, |at| dispositions[at] = Disposition::Again);
                done.left |= together;
                continue;
            };
            each::<RUNS>(together, |at| {
                let Some(packet) = burst.get_mut(at) else { return };
                // What was just looked up is as its megaflow was found for; a service may have changed others.
                if !LOOKED_UP && !step.guard.matches(&keys[at]) {
                    context.counters.caches.revoked += 1;
                    dispositions[at] = Disposition::Again;
                    done.left |= 1 << at;
                    return;
                }
                // As often as it would be looked up if stages were not coalesced.
                if !begins && went_too_often(&mut passes[at]) {
                    dispositions[at] = Disposition::Drop(DropReason::TooDeep);
                    return;
                }
                context.counters.caches.coalesced += u64::from(!begins);
                step.counted.add(packet.len());
                (context.passes, context.root) = (passes[at], roots[at]);
                segments[at] = number + 1;
                if begins {
                    memos[at] = memo;
                }
                let mut subject = Subject { packet, layout: &mut layouts[at], key: &mut keys[at] };
                dispositions[at] = execute(step.ops, &mut subject, &mut context);
                done.waiting |= u64::from(dispositions[at].service().is_some()) << at;
            });
        }
        done
    }
}
