//! Packets before services: those of a burst that wait for the same service go together, whatever
//! their flows; then each goes on with the next segment of its megaflow, or back to the caches.

use crate::bench::{Packets, Source};
use crate::execute::{Context, Fate, Subject, execute};
use crate::worker::Worker;
use arrayvec::ArrayVec;
use weir_dpdk::{BURST, Burst};
use weir_flow::{Field, Key, Layout, places};
use weir_port::DropReason;
use weir_services::{Host, Slot, Verdict};

/// The greatest stage; more is taken for a loop (SoftFlow, section 5.2: a loop detector).
pub(crate) const STAGES: u128 = 64;

impl Worker {
    /// Runs services until no packet waits for one.
    pub(crate) fn serve(&mut self, burst: &mut Burst, waiting: Packets) {
        let mut waiting = waiting;
        while waiting != 0 {
            let first = waiting.trailing_zeros() as usize;
            let Some(service) = self.bench.fates[first].service() else { return };
            let together = places(waiting)
                .filter(|&at| self.bench.fates[at].service() == Some(service))
                .fold(0, |set, at| set | 1_u64 << at);
            let again = self.run_service(burst, service, together);
            waiting &= !together;
            waiting |= self.go_on(burst, together, again);
        }
    }

    /// One service judges its packets; what it says becomes their fate: dropped, on with the next
    /// segment (`Forward` is not used for that: see [`Self::go_on`]), or again to the caches. Returns the last.
    fn run_service(&mut self, burst: &mut Burst, service: u16, together: Packets) -> Packets {
        let Self { bench, services, now, frozen, .. } = self;
        let mut slots: ArrayVec<Slot<'_>, BURST> = ArrayVec::new();
        let parts = burst.iter_mut().zip(&mut bench.keys).zip(bench.layouts).zip(bench.fates).enumerate();
        for (_, (((packet, key), layout), fate)) in parts.filter(|(at, _)| together >> at & 1 == 1) {
            let (argument, tracking) = match fate {
                Fate::Service(_, argument) => (argument, None),
                Fate::Track(_, call) => (0, frozen.call(call).map(|call| &call.tracking)),
                _ => (0, None),
            };
            let metadata = Field::SfMetadata.get(key) as u32;
            let (frame, verdict) = (packet.data_mut(), Verdict::Pass);
            let (coalesce, splice) = (false, None);
            slots.push(Slot { frame, layout, key, argument, tracking, metadata, coalesce, verdict, splice });
        }
        let mut known = usize::from(service).checked_sub(1).and_then(|at| services.get_mut(at)?.as_mut());
        match known.as_mut() {
            Some(host) => host.process(&mut slots, *now),
            None => slots.iter_mut().for_each(|slot| slot.verdict = Verdict::Drop(DropReason::NoService)),
        }
        let mut said: ArrayVec<(Verdict, bool, Option<u8>), BURST> = ArrayVec::new();
        for slot in &mut slots {
            if slot.tracking.is_none() {
                Field::SfMetadata.set(slot.key, u128::from(slot.metadata));
                next_stage(slot.key, service);
            }
            said.push((slot.verdict, slot.coalesce, slot.splice));
        }
        drop(slots);
        let mut again = 0;
        for (at, (mut verdict, coalesce, splice)) in places(together).zip(said) {
            if let Some(number) = splice
                && verdict == Verdict::Pass
                && !known
                    .as_ref()
                    .is_some_and(|host| spliced(host, number, burst, at, &mut bench.layouts[at]))
            {
                verdict = Verdict::Drop(DropReason::NoRoom);
            }
            let segments = u128::from(bench.segments[at]);
            if let Fate::Track(_, call) = bench.fates[at] {
                // It goes on where the call says, whether by the next segment or by the caches.
                let next = frozen.call(call).map_or(0, |call| call.next.id);
                Field::RecircId.set(&mut bench.keys[at], u128::from(next));
            }
            bench.fates[at] = match verdict {
                Verdict::Drop(reason) => Fate::Drop(reason),
                Verdict::Pass if Field::SfStage.get(&bench.keys[at]).max(segments) >= STAGES => {
                    Fate::Drop(DropReason::TooDeep)
                }
                Verdict::Pass if coalesce => bench.fates[at],
                Verdict::Pass => Fate::Again,
            };
            again |= u64::from(bench.fates[at] == Fate::Again) << at;
        }
        again
    }

    /// Packets whose service lets them be coalesced go on with the segment that follows, if there is
    /// one for what they look like now. Those that go by the tables directly do so at once as well, and so do
    /// those that have to be looked up again, if others wait: so the next service sees a burst's packets in the
    /// order they came. Returns those that wait for it.
    fn go_on(&mut self, burst: &mut Burst, together: Packets, again: Packets) -> Packets {
        let (mut waiting, mut late) = (0, again);
        let straight = if self.pipeline.coalescing { self.bench.straight_on(together) } else { 0 };
        if straight != 0 {
            self.next_stage_of(burst, straight, straight);
        }
        for at in places(together) {
            let waits = self.bench.fates[at];
            let Some(service) = waits.service() else { continue };
            let begins = straight >> at & 1 == 1;
            if !begins && let Source::Recording(number) = self.bench.sources[at] {
                self.extend_recording(burst, at, number, (service, waits));
            }
            let fate = self.next_segment(burst, at, begins);
            self.bench.fates[at] = fate.unwrap_or(Fate::Again);
            late |= u64::from(fate.is_none()) << at;
            waiting |= u64::from(fate.is_some_and(|fate| fate.service().is_some())) << at;
        }
        if waiting == 0 || late == 0 { waiting } else { waiting | self.catch_up(burst, late) }
    }

    /// Packets that have to be looked up again do not wait until others have met the next service. Returns those
    /// that wait for one.
    fn catch_up(&mut self, burst: &mut Burst, late: Packets) -> Packets {
        let late = self.bench.again(late);
        let straight = self.bench.direct(late);
        self.next_stage_of(burst, late, straight);
        let mut waiting = 0;
        for at in places(late) {
            let fate = self.next_segment(burst, at, true).unwrap_or(Fate::Again);
            self.bench.fates[at] = fate;
            waiting |= u64::from(fate.service().is_some()) << at;
        }
        waiting
    }

    /// Does what the next segment says; nothing where there is none for what the packet looks like now.
    fn next_segment(&mut self, burst: &mut Burst, at: usize, begins: bool) -> Option<Fate> {
        let number = usize::from(self.bench.segments[at]);
        let segment = match self.bench.sources[at] {
            Source::Megaflow(handle) => self.caches.segment(handle, number, self.now),
            Source::Recording(recording) => self.recordings[recording].segment(number),
            Source::Direct(end) if begins => self.direct.end(end),
            Source::Direct(_) => None,
            Source::Refused => return Some(Fate::Drop(DropReason::UpcallLimit)),
        };
        let segment = segment?;
        if !segment.guard.matches(&self.bench.keys[at]) {
            self.counters.caches.revoked += 1;
            return None;
        }
        // As often as it would be looked up if stages were not coalesced.
        if !begins && self.bench.went_too_often(at) {
            return Some(Fate::Drop(DropReason::TooDeep));
        }
        let packet = burst.get_mut(at)?;
        self.counters.caches.coalesced += u64::from(!begins);
        segment.count(packet.len());
        let mut context = Context {
            pool: &self.pool,
            egress: &mut self.egress,
            counters: &mut self.counters,
            spawned: &mut self.spawned,
            punts: &self.punts,
            now: self.now,
            seed: self.seed,
            passes: self.bench.passes[at],
            root: self.bench.roots[at],
            copies: &mut self.bench.copies,
        };
        self.bench.segments[at] += 1;
        let (layout, key) = (&mut self.bench.layouts[at], &mut self.bench.keys[at]);
        Some(execute(&mut segment.ops, &mut Subject { packet, layout, key }, &mut context))
    }
}

/// Has bytes of a packet replaced as its service said. False where there is no room for them.
#[cold]
fn spliced(host: &Host, number: u8, burst: &mut Burst, at: usize, layout: &mut Layout) -> bool {
    let packet = burst.get_mut(at);
    packet.zip(host.splice(number)).is_some_and(|(packet, splice)| splice.apply(packet, layout))
}

/// What a packet's key is when it comes out of a service: one stage on, and nothing left of what the
/// tables knew of it but `sf_metadata`, as if it came in anew (SoftFlow, section 3.1).
pub(crate) fn next_stage(key: &mut Key, service: u16) {
    let stage = Field::SfStage.get(key) + 1;
    Field::SfStage.set(key, stage.min(255));
    Field::SfAction.set(key, u128::from(service));
    for place in STAGE_LOCAL {
        if key.word(place) != 0 {
            key.set_word(place, 0);
        }
    }
    Field::RecircId.set(key, 0);
}

/// Words of the key that last for one stage: metadata, registers, conjunctions.
pub(crate) const STAGE_LOCAL: [usize; 10] = [6, 23, 24, 25, 26, 27, 28, 29, 30, 38];
