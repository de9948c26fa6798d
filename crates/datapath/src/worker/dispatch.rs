//! The dispatch: what a packet's source says it does next is found, and done. Every segment of every packet passes here,
//! the first behind a lookup and those behind services.
//!
//! Packets are taken in the order in which they came. Those right behind one another that do the same thing, as packets
//! of one flow do, are a batch: the segment is found once for all of them.

use crate::actions::execute::{Context, Disposition, Subject, execute};
use crate::actions::program::Step;
use crate::classify::Tiers;
use crate::model::Packets;
use crate::slowpath::pending::SlowPath;
use crate::worker::Worker;
use crate::worker::state::{Source, went_too_often};
use weir_dpdk::Burst;
use weir_packet::DropReason;
use weir_services::Memo;
use weir_units::Nanos;

/// What packets do next: by what, the number of the segment, and whether it is the first behind a lookup.
type Next = (Source, u8, bool);

/// Packets that were not done with when their segment was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dispatched {
    /// Those that wait for a service.
    pub(super) waiting: Packets,
    /// Those for which there is no segment as they look now: they are to be looked up again.
    pub(super) left: Packets,
}

impl Worker {
    /// Does what the next segment of each of these packets says; of those in `begins`, that is the first behind a
    /// lookup.
    #[inline]
    pub(super) fn dispatch(&mut self, burst: &mut Burst, packets: Packets, begins: Packets) -> Dispatched {
        let Self { state, tiers, slow, .. } = self;
        let mut context = Context {
            output: &mut self.output,
            counters: &mut self.counters,
            now: self.time.now,
            passes: 0,
            root: 0,
            copies: &mut state.copies,
        };
        let next = |at: usize, sources: &[Source], segments: &[u8]| {
            let is_first = begins >> at & 1 == 1;
            (sources[at], if is_first { 0 } else { segments[at] }, is_first)
        };
        let mut dispatched = Dispatched::default();
        let mut rest = packets;
        while rest != 0 {
            let mut at = rest.trailing_zeros() as usize;
            let batch @ (_, number, is_first) = next(at, &state.sources, &state.segments);
            let (mut memo, now) = (Memo::NOWHERE, context.now);
            let mut step = step(batch, tiers, slow, now, &mut memo);
            loop {
                rest &= rest - 1;
                let disposition = match (&mut step, burst.get_mut(at)) {
                    (Some(step), Some(packet)) if step.guard.matches(&state.keys[at]) => {
                        // As often as it would be looked up if stages were not coalesced.
                        if !is_first && went_too_often(&mut state.passes[at]) {
                            Disposition::Drop(DropReason::TooDeep)
                        } else {
                            context.counters.caches.coalesced += u64::from(!is_first);
                            step.counted.add(packet.len());
                            (context.passes, context.root) = (state.passes[at], state.roots[at]);
                            (state.segments[at], state.memos[at]) = (number + 1, memo);
                            let (layout, key) = (&mut state.layouts[at], &mut state.keys[at]);
                            execute(step.ops, &mut Subject { packet, layout, key }, &mut context)
                        }
                    }
                    (None, _) if batch.0 == Source::Refused => Disposition::Drop(DropReason::UpcallLimit),
                    (step, _) => {
                        context.counters.caches.revoked += u64::from(step.is_some());
                        dispatched.left |= 1 << at;
                        Disposition::Again
                    }
                };
                state.dispositions[at] = disposition;
                dispatched.waiting |= u64::from(disposition.service().is_some()) << at;
                at = rest.trailing_zeros() as usize;
                let may_follow = rest != 0 && state.follows >> at & 1 == 1;
                if !may_follow || next(at, &state.sources, &state.segments) != batch {
                    break;
                }
            }
        }
        dispatched
    }
}

/// The segment that packets do next, if there is one; and what the first service on their way noted with their megaflow.
#[inline(always)]
fn step<'w>(
    (source, number, is_first): Next,
    tiers: &'w mut Tiers,
    slow: &'w mut SlowPath,
    now: Nanos,
    memo: &mut Memo,
) -> Option<Step<'w>> {
    match source {
        Source::Megaflow(handle) if is_first => {
            let program = tiers.caches.program(handle, now)?;
            *memo = program.memo;
            program.step(0)
        }
        Source::Megaflow(handle) => tiers.caches.step(handle, usize::from(number)),
        Source::Pending(which) => slow.pending[which].step(usize::from(number)),
        Source::Walk(end) if is_first => tiers.table_walk.end(end),
        Source::Walk(_) | Source::Refused => None,
    }
}
