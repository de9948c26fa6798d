//! Packets before services: those of a burst that wait for the same service go together, whatever
//! their flows; then each goes on with the next segment of its megaflow, or back to the caches.

use crate::actions::execute::Disposition;
use crate::classify::Tiers;
use crate::model::Packets;
use crate::services::stage::{STAGES, next_stage};
use crate::slowpath::pending::SlowPath;
use crate::worker::Worker;
use crate::worker::dispatch::{Dispatched, Due};
use crate::worker::state::{BurstState, Source};
use arrayvec::ArrayVec;
use weir_dpdk::{BURST, Burst};
use weir_flow::{Field, Layout, places};
use weir_openflow::Argument;
use weir_packet::DropReason;
use weir_services::{Host, Memo, Slot, Verdict};

/// What became of the packets that a service judged.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    /// Those that it lets go on as their megaflow says, and those that have to be looked up again.
    on: Packets,
    again: Packets,
    /// Of all of them, those whose way is said by the tables themselves, and by a pending megaflow.
    walked: Packets,
    pending: Packets,
}

impl Worker {
    /// Runs services until no packet waits for one.
    pub(super) fn serve(&mut self, burst: &mut Burst, waiting: Packets) {
        let mut waiting = waiting;
        while waiting != 0 {
            let first = waiting.trailing_zeros() as usize;
            let Some(service) = self.state.dispositions[first].service() else { return };
            let together = places(waiting)
                .filter(|&at| self.state.dispositions[at].service() == Some(service))
                .fold(0, |set, at| set | 1_u64 << at);
            let served = self.run_service(burst, service, together);
            waiting &= !together;
            waiting |= self.go_on(burst, service, served, waiting);
        }
    }

    /// One service judges its packets; what it says becomes their disposition: dropped, on with the next
    /// segment (`Forward` is not used for that: see [`Self::go_on`]), or again to the caches.
    fn run_service(&mut self, burst: &mut Burst, service: u16, together: Packets) -> Served {
        let Self {
            state,
            services,
            tiers: Tiers { caches, .. },
            time,
            slow: SlowPath { frozen, .. },
            experiment,
            ..
        } = self;
        let BurstState { keys, layouts, dispositions, memos, segments, sources, .. } = state;
        let mut slots: ArrayVec<Slot<'_>, BURST> = ArrayVec::new();
        let parts = burst.iter_mut().zip(keys).zip(&*layouts).zip(&*dispositions).zip(&*memos).enumerate();
        for (_, ((((packet, key), layout), disposition), memo)) in
            parts.filter(|(at, _)| together >> at & 1 == 1)
        {
            let (mut argument, mut arguments, mut tracking): (_, &[Argument], _) = (0, &[], None);
            match *disposition {
                Disposition::Service(_, number) => argument = number,
                Disposition::Track(_, call) => tracking = frozen.call(call).map(|call| &call.tracking),
                Disposition::Tell(_, number) => {
                    if let Some(told) = frozen.telling(number) {
                        (argument, arguments) = (told.arguments.first(), told.arguments.list());
                    }
                }
                _ => {}
            }
            let metadata = Field::SfMetadata.get(key) as u32;
            let (frame, layout, memo, verdict) = (packet.data_mut(), *layout, *memo, Verdict::Pass);
            let (coalesce, splice) = (false, None);
            slots.push(Slot {
                frame,
                layout,
                key,
                argument,
                arguments,
                tracking,
                metadata,
                memo,
                coalesce,
                verdict,
                splice,
            });
        }
        let mut known = services.get(service);
        match known.as_mut() {
            Some(host) => host.process(&mut slots, time.now),
            None => slots.iter_mut().for_each(|slot| slot.verdict = Verdict::Drop(DropReason::NoService)),
        }
        let mut served = Served::default();
        let mut splices: ArrayVec<(usize, u8), BURST> = ArrayVec::new();
        for (at, slot) in places(together).zip(&mut slots) {
            if let Disposition::Track(_, call) = dispositions[at] {
                // It goes on where the call says, whether by the next segment or by the caches.
                let next = frozen.call(call).map_or(0, |call| call.next.0);
                Field::RecircId.set(slot.key, u128::from(next));
            } else {
                Field::SfMetadata.set(slot.key, u128::from(slot.metadata));
                next_stage(slot.key, service);
            }
            let one = 1_u64 << at;
            match sources[at] {
                Source::Megaflow(handle) if slot.memo != memos[at] => caches.note(handle, slot.memo),
                Source::Megaflow(_) | Source::Refused => {}
                Source::Pending(_) => served.pending |= one,
                Source::Walk(_) => served.walked |= one,
            }
            memos[at] = Memo::NOWHERE;
            let stage = (Field::SfStage.get(slot.key) as u8).max(segments[at]);
            match slot.verdict {
                Verdict::Drop(reason) => dispositions[at] = Disposition::Drop(reason),
                Verdict::Pass if stage >= STAGES => dispositions[at] = Disposition::Drop(DropReason::TooDeep),
                Verdict::Pass if slot.coalesce => served.on |= one,
                Verdict::Pass => {
                    dispositions[at] = Disposition::Again;
                    served.again |= one;
                }
            }
            if let (Verdict::Pass, Some(number)) = (slot.verdict, slot.splice) {
                splices.push((at, number));
            }
        }
        drop(slots);
        if let Some(drawn) = experiment {
            let apart = drawn.apart.of(served.on);
            places(apart).for_each(|at| dispositions[at] = Disposition::Again);
            (served.on, served.again) = (served.on & !apart, served.again | apart);
        }
        for (at, number) in splices {
            if !known.as_ref().is_some_and(|host| spliced(host, number, burst, at, &mut layouts[at])) {
                dispositions[at] = Disposition::Drop(DropReason::NoRoom);
                served.on &= !(1 << at);
                served.again &= !(1 << at);
            }
        }
        served
    }

    /// Packets whose service lets them be coalesced go on with the segment that follows, if there is
    /// one for what they look like now. Those that go by the tables directly do so at once as well, and so do
    /// those that have to be looked up again, if others wait for a service, of these packets or of the burst's
    /// others: so the next service sees a burst's packets in the order they came. Returns those that wait for it.
    fn go_on(&mut self, burst: &mut Burst, service: u16, served: Served, others: Packets) -> Packets {
        let Served { on, again, walked, pending } = served;
        let straight = if self.pipeline.coalescing { walked & on } else { 0 };
        if straight != 0 {
            self.next_stage_of(burst, straight, straight);
        }
        for at in places(pending & on) {
            if let Source::Pending(number) = self.state.sources[at] {
                self.extend_pending(burst, at, number, (service, self.state.dispositions[at]));
            }
        }
        let Dispatched { waiting, left } =
            self.dispatch::<false>(burst, Due { packets: on, first: straight });
        let late = again | left;
        if waiting | others == 0 || late == 0 { waiting } else { waiting | self.catch_up(burst, late) }
    }

    /// Packets that have to be looked up again do not wait until others have met the next service. Returns those
    /// that wait for one.
    fn catch_up(&mut self, burst: &mut Burst, late: Packets) -> Packets {
        let late = self.state.again(late);
        let straight = self.state.walked(late);
        self.next_stage_of(burst, late, straight);
        self.dispatch::<false>(burst, Due { packets: late, first: late }).waiting
    }
}

/// Has bytes of a packet replaced as its service said. False where there is no room for them.
#[cold]
fn spliced(host: &Host, number: u8, burst: &mut Burst, at: usize, layout: &mut Layout) -> bool {
    let packet = burst.get_mut(at);
    packet.zip(host.splice(number)).is_some_and(|(packet, splice)| splice.apply(packet, layout))
}
