//! The sending half of one direction: takes frames from its source, stamps them, offers them on time.
//!
//! A packet that is due is offered once. A port whose ring is full does not get it again: on a wire
//! nobody waits either. Those are *refused*; what the tester itself was too late for, or had no
//! buffer for, is *unsent*. Both are loss, told apart.
//!
//! Of a direction that several threads send, each has a sender of its own, with the trace's flows that
//! fell to it and a number ([`Stamp::stream`]) that its stamps carry: the packets of a flow keep their
//! order, and each stream's numbers are without gaps.

use crate::each::{Each, Ways};
use crate::histogram::Lateness;
use crate::pacer::{Due, Pacer, Schedule, Shape};
use crate::recall::Recall;
use crate::stamp::{Stamp, StampSlot};
use crate::trace::{FrameSource, FrameTable, turned};
use crate::windows::{Grid, SentWindows};
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_cpu::{Ticks, Tsc};
use weir_dpdk::{BURST, Burst, Packet, Pool, TxQueue};
use weir_trial::{DirectionCounts, Oracle};
use weir_wire::lap::PortTurns;

/// One direction's sender.
#[derive(Debug)]
pub struct Sender {
    source: FrameSource,
    /// Whether every frame of the source can be stamped.
    whole: bool,
    tx: TxQueue,
    pool: Pool,
    shape: Shape,
    seed: u64,
    stamps: Stamper,
    pacer: Option<Pacer>,
    /// When the trial begins, and how far behind the schedule packets are still sent, in ticks.
    start: Ticks,
    catch_up: u64,
    /// How long after they were due packets are late, in ticks.
    late_from: u64,
    length: u64,
    windows: SentWindows,
    /// Sent minus due.
    late: Lateness,
    burst: Burst,
    /// A recorded frame that waits in `burst` for its time.
    waiting: Option<StampSlot>,
    counts: DirectionCounts,
    ended: bool,
    /// Place in the table of the trial's first frame, and its lap.
    began_at: (usize, u64),
    /// Packets of the trial by load and duration, where these decide.
    planned: Option<u64>,
    /// What must become of the frames of its table; nothing where that is not asked, or not known.
    ways: Option<Arc<Ways>>,
}

/// What a sender is to do in a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderCourse {
    pub(crate) trial: u16,
    /// Its number among the senders of its direction.
    pub(crate) stream: u8,
    pub(crate) schedule: Schedule,
    pub(crate) grid: Grid,
    /// How far behind the schedule packets are still sent, in ticks.
    pub(crate) catch_up: u64,
    /// How long after they were due packets are late, in ticks.
    pub(crate) late_from: u64,
}

/// Which packets are stamped, and with what.
#[derive(Debug)]
struct Stamper {
    every: u32,
    until_next: u32,
    stamp: Stamp,
}

impl Stamper {
    /// Stamps the frame when it is its turn and it can carry one. Says whether it did.
    #[inline]
    fn visit(&mut self, slot: StampSlot, frame: &mut [u8]) -> bool {
        self.until_next -= 1;
        if self.until_next > 0 {
            return false;
        }
        self.until_next = self.every;
        let stamped = slot.stamp(frame, self.stamp);
        self.stamp.sequence += u64::from(stamped);
        stamped
    }

    /// Passes over a frame that is not sent, as if it were: numbers and places stay together.
    fn skip(&mut self, slot: StampSlot) {
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = self.every;
            self.stamp.sequence += u64::from(slot.is_stampable());
        }
    }
}

impl Sender {
    /// Has the port send what it took and kept, if it is of that kind.
    pub(crate) fn flush(&mut self) {
        self.tx.flush();
    }

    /// A sender that stamps every `stamp_every`th packet.
    pub fn new(
        source: FrameSource,
        tx: TxQueue,
        pool: &Pool,
        shape: Shape,
        stamp_every: NonZeroU32,
        seed: u64,
    ) -> Self {
        let whole = source.table().is_some_and(|table| table.is_stampable());
        Self {
            source,
            whole,
            tx,
            pool: pool.clone(),
            shape,
            seed,
            stamps: Stamper {
                every: stamp_every.get(),
                until_next: stamp_every.get(),
                stamp: Stamp { trial: 0, sequence: 0, tsc: 0 },
            },
            pacer: None,
            start: Ticks(0),
            catch_up: 0,
            late_from: 0,
            length: 0,
            windows: SentWindows::default(),
            late: Lateness::new(),
            burst: Burst::new(),
            waiting: None,
            counts: DirectionCounts::default(),
            ended: false,
            began_at: (0, 0),
            planned: None,
            ways: None,
        }
    }

    /// The table it sends from; nothing for a stream.
    pub(crate) fn table(&self) -> Option<&FrameTable> {
        match &self.source {
            FrameSource::Table(cursor) => Some(cursor.table()),
            FrameSource::Stream(_) => None,
        }
    }

    /// How its packets are spread over time.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Packets of a lap: the weight of its share where several senders have a direction.
    pub(crate) fn packets(&self) -> f64 {
        self.source.packets().max(1) as f64
    }

    /// The frames' mean length in bytes, with FCS.
    pub(crate) fn mean_frame_bytes(&self) -> f64 {
        self.source.mean_frame_bytes()
    }

    /// Whether every packet of the trace will carry a stamp.
    pub fn stamps_all(&self) -> bool {
        self.stamps.every == 1 && self.whole
    }

    /// Begins a trial: trial and stream go into the stamps.
    pub(crate) fn begin(&mut self, course: SenderCourse, tsc: Tsc) {
        let SenderCourse { trial, stream, schedule, grid, catch_up, late_from } = course;
        self.burst.clear();
        self.waiting = None;
        self.ended = false;
        self.counts = DirectionCounts::default();
        self.stamps.stamp = Stamp { trial, sequence: Stamp::first_of(stream), tsc: 0 };
        self.stamps.until_next = self.stamps.every;
        self.began_at = self.position();
        (self.start, self.length) = (grid.start, grid.length);
        (self.catch_up, self.late_from) = (catch_up, late_from);
        self.windows.begin(grid);
        self.late.clear();
        let seed = self.seed ^ u64::from(trial) ^ u64::from(stream) << 32;
        self.planned = schedule.packets();
        self.pacer = Some(Pacer::new(Schedule { seed, ..schedule }, tsc));
    }

    /// From now on its packets are compared with what this oracle says, as they enter the device by a port.
    pub(crate) fn compare_with(&mut self, oracle: &Oracle, port: u8) {
        self.ways = self.table().and_then(|table| Ways::of(oracle, port, table)).map(Arc::new);
    }

    /// What the packets of the next trial are compared with, one by one.
    pub(crate) fn each(&self) -> Option<Each> {
        Some(Each::new(Arc::clone(self.ways.as_ref()?), self.next_recall()?))
    }

    /// The trial begins at this tick.
    pub(crate) fn begin_at(&mut self, start: Ticks) {
        self.start = start;
    }

    /// Place in the table of the frame that comes next, and its lap.
    fn position(&self) -> (usize, u64) {
        match &self.source {
            FrameSource::Table(cursor) => (cursor.position(), cursor.lap()),
            FrameSource::Stream(_) => (0, 0),
        }
    }

    /// The means to make the trial's stamped frames again; nothing for a stream, which is gone.
    pub(crate) fn recall(&self) -> Option<Recall> {
        self.recall_from(self.began_at)
    }

    /// The same of the next trial.
    fn next_recall(&self) -> Option<Recall> {
        self.recall_from(self.position())
    }

    fn recall_from(&self, (place, lap): (usize, u64)) -> Option<Recall> {
        let table = Arc::clone(self.source.table()?);
        Some(Recall::new(table, place, self.stamps.every).in_lap(lap))
    }

    /// Sends frames in whole bursts, trying again while the port's ring is full or no buffer is free. Gives
    /// the rest up when patience ends. Not for timed trials.
    pub(crate) fn post(&mut self, frames: &[Vec<u8>], patience: impl Fn() -> bool) {
        for chunk in frames.chunks(BURST) {
            self.burst.clear();
            while !self.pool.fill(&mut self.burst, chunk.len()) {
                if !patience() {
                    return;
                }
                std::hint::spin_loop();
            }
            for (packet, frame) in self.burst.iter_mut().zip(chunk) {
                copy(frame, &[], packet);
            }
            while !self.burst.is_empty() {
                self.tx.transmit(&mut self.burst);
                if !self.burst.is_empty() && !patience() {
                    return self.burst.clear();
                }
            }
        }
    }

    /// Puts a frame into a burst, for [`Self::hand_over`]. False where no buffer is free, or the burst is full.
    #[inline]
    pub(crate) fn lay(&mut self, burst: &mut Burst, frame: &[u8]) -> bool {
        self.pool.packet(frame).is_some_and(|packet| burst.push(packet).is_ok())
    }

    /// Offers a burst to the port, beside any trial of its own; what it does not take is gone. Returns how many it
    /// took.
    #[inline]
    pub(crate) fn hand_over(&mut self, burst: &mut Burst) -> usize {
        let sent = self.tx.transmit(burst);
        burst.clear();
        sent
    }

    /// Sends one frame with this stamp beside the schedule, in a burst of its own; it counts nowhere. False where the
    /// port does not take it.
    pub(crate) fn send_beside(&mut self, burst: &mut Burst, frame: &[u8], stamp: Stamp) -> bool {
        burst.clear();
        if !self.pool.fill(burst, 1) {
            return false;
        }
        let Some(packet) = burst.get_mut(0) else { return false };
        stamp.write(copy(frame, &[], packet), crate::stamp::key());
        let sent = self.tx.transmit(burst) == 1;
        burst.clear();
        sent
    }

    /// Offers what is due, at most one burst. Returns how many packets that were.
    #[inline]
    pub(crate) fn offer(&mut self, now: Ticks) -> usize {
        if now < self.start {
            return 0;
        }
        if self.shape == Shape::Recorded {
            return usize::from(self.offer_recorded(now));
        }
        let Some(pacer) = &mut self.pacer else { return 0 };
        let at = now.since(self.start);
        self.counts.unsent += pacer.give_up(at.saturating_sub(self.catch_up), &mut self.windows);
        let due = pacer.due(at, BURST);
        if due.count > 0 {
            self.offer_now(due.count);
            self.note_lateness(due);
        }
        due.count
    }

    /// Notes how late a burst was sent: in four groups, each by its oldest packet.
    #[inline]
    fn note_lateness(&mut self, due: Due) {
        let sent = Ticks(self.stamps.stamp.tsc).since(self.start);
        let group = due.count.div_ceil(4);
        for first in (0..due.count).step_by(group) {
            let was_due = due.first + first as u64 * due.apart;
            let (behind, count) = (sent.saturating_sub(was_due), group.min(due.count - first) as u64);
            self.late.record_many(behind, count);
            if behind > self.late_from {
                self.windows.late(sent, count);
            }
        }
    }

    /// Offers this many packets (at most one burst) at once, whatever the schedule says.
    #[inline]
    pub fn offer_now(&mut self, count: usize) {
        self.stamps.stamp.tsc = Ticks::now().0;
        if !self.pool.fill(&mut self.burst, count) {
            self.counts.unsent += count as u64;
            let at = self.sent_at();
            self.windows.unsent(at, count as u64);
            return;
        }
        let mut filled = 0;
        if let FrameSource::Table(cursor) = &mut self.source {
            let (table, lap) = (Arc::clone(cursor.table()), cursor.lap());
            let (places, burst) = (cursor.advance(count), &mut self.burst);
            let (stamps, counts) = (&mut self.stamps, &mut self.counts);
            filled = match table.turns() {
                None => fill_from_table(&table, places, burst, stamps, counts),
                Some(turns) => fill_turned((&table, turns), (places, lap), burst, stamps, counts),
            };
        } else {
            for packet in self.burst.iter_mut() {
                let Some(frame) = self.source.next_frame() else { break };
                let slot = frame.slot;
                let bytes = copy(frame.head, frame.tail, packet);
                self.counts.stamped += u64::from(self.stamps.visit(slot, bytes));
                filled += 1;
            }
        }
        self.ended = filled < count;
        self.transmit(filled);
    }

    /// Offers the packet of a recording that is due, or gives it up. Says whether one was.
    fn offer_recorded(&mut self, now: Ticks) -> bool {
        let Some(pacer) = &mut self.pacer else { return false };
        if self.waiting.is_none() {
            let Some(frame) = self.source.next_frame() else {
                self.ended = true;
                return false;
            };
            pacer.wait(frame.gap.unwrap_or_default());
            self.waiting = Some(frame.slot);
            // Without a buffer it waits all the same, so that those behind it keep their times.
            self.pool.fill(&mut self.burst, 1);
            if let Some(packet) = self.burst.get_mut(0) {
                copy(frame.head, frame.tail, packet);
            }
        }
        let at = now.since(self.start);
        let first = pacer.first();
        if first.saturating_add(self.catch_up) < at || first <= at && self.burst.is_empty() {
            // Too late for this one, as for any other shape, or there is no buffer for it.
            self.burst.clear();
            if let Some(slot) = self.waiting.take() {
                self.stamps.skip(slot);
            }
            self.counts.unsent += 1;
            self.windows.unsent(first, 1);
            return true;
        }
        let due = pacer.due(at, 1);
        if due.count == 0 {
            return false;
        }
        self.stamps.stamp.tsc = Ticks::now().0;
        if let (Some(packet), Some(slot)) = (self.burst.get_mut(0), self.waiting.take()) {
            self.counts.stamped += u64::from(self.stamps.visit(slot, packet.data_mut()));
        }
        self.transmit(1);
        self.note_lateness(due);
        true
    }

    /// Hands the first `filled` packets to the port; frees the rest.
    #[inline]
    fn transmit(&mut self, filled: usize) {
        let missing = self.burst.len() - filled;
        for _ in 0..missing {
            self.burst.pop();
        }
        let sent = self.tx.transmit(&mut self.burst);
        let refused = self.burst.len();
        self.counts.sent += sent as u64;
        self.counts.refused += refused as u64;
        let at = self.sent_at();
        self.windows.offered(at, sent, refused);
        self.burst.clear();
    }

    /// When the burst at hand was stamped, in ticks since the trial's start.
    #[inline]
    fn sent_at(&self) -> u64 {
        Ticks(self.stamps.stamp.tsc).since(self.start)
    }

    /// Whether the trace was sent once and is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Packets offered so far, whether the port took them or not.
    pub(crate) fn offered(&self) -> u64 {
        self.counts.sent + self.counts.refused
    }

    /// Packets the port took so far.
    pub fn sent(&self) -> u64 {
        self.counts.sent
    }

    /// Ends a trial whose time ran out: what was still due is unsent.
    pub(crate) fn finish(&mut self) -> DirectionCounts {
        self.burst.clear();
        self.waiting = None;
        if let Some(mut pacer) = self.pacer.take().filter(|_| !self.ended) {
            self.counts.unsent += pacer.end(self.length, &mut self.windows);
        }
        let DirectionCounts { sent, refused, unsent, .. } = self.counts;
        let of_schedule = self.planned.filter(|_| !self.ended);
        self.counts.intended = of_schedule.unwrap_or(sent + refused + unsent);
        self.counts
    }

    /// What it offered, window by window.
    pub(crate) fn windows(&self) -> &SentWindows {
        &self.windows
    }

    /// Sent minus due, of the trial's packets.
    pub(crate) fn late(&self) -> &Lateness {
        &self.late
    }
}

#[inline]
fn copy<'a>(head: &[u8], tail: &[u8], packet: &'a mut Packet) -> &'a mut [u8] {
    let bytes = packet.set_len((head.len() + tail.len()) as u16);
    let (front, back) = bytes.split_at_mut(head.len());
    front.copy_from_slice(head);
    back.copy_from_slice(tail);
    bytes
}

/// The hot path: table frames into mbufs. Returns how many were filled.
#[inline]
fn fill_from_table(
    table: &FrameTable,
    places: impl Iterator<Item = usize>,
    burst: &mut Burst,
    stamps: &mut Stamper,
    counts: &mut DirectionCounts,
) -> usize {
    let mut filled = 0;
    for (packet, place) in burst.iter_mut().zip(places) {
        let frame = table.frame(place);
        let bytes = copy(frame.head, frame.tail, packet);
        counts.stamped += u64::from(stamps.visit(table.slot(place), bytes));
        filled += 1;
    }
    filled
}

/// The same where each lap's connections have ports of their own; the first frame is one of this lap.
#[inline]
fn fill_turned(
    (table, turns): (&FrameTable, &PortTurns),
    (places, mut lap): (impl Iterator<Item = usize>, u64),
    burst: &mut Burst,
    stamps: &mut Stamper,
    counts: &mut DirectionCounts,
) -> usize {
    let (mut filled, mut last) = (0, 0);
    for (packet, place) in burst.iter_mut().zip(places) {
        lap += u64::from(place < last);
        last = place;
        let frame = table.frame(place);
        let bytes = copy(frame.head, frame.tail, packet);
        let slot = turned(turns, (place, lap), bytes, table.slot(place));
        counts.stamped += u64::from(stamps.visit(slot, bytes));
        filled += 1;
    }
    filled
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
