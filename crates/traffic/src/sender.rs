//! The sending half of one direction: takes frames from its source, stamps them, offers them on time.
//!
//! A packet that is due is offered once. A port whose ring is full does not get it again: on a wire
//! nobody waits either. Those are *refused*; what the tester itself was too late for, or had no
//! buffer for, is *unsent*. Both are loss, told apart.

use crate::pacer::{Pacer, Shape};
use crate::stamp::Stamp;
use crate::trace::{FrameSource, FrameTable};
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_dpdk::{BURST, Burst, Packet, Pool, Ticks, Tsc, TxQueue};
use weir_trial::DirectionCounts;
use weir_units::Pps;

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
    burst: Burst,
    /// A recorded frame that waits in `burst` for its time.
    waiting: Option<crate::stamp::StampSlot>,
    counts: DirectionCounts,
    ended: bool,
    /// Place in the table of the trial's first frame.
    began_at: usize,
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
    fn visit(&mut self, slot: crate::stamp::StampSlot, frame: &mut [u8]) -> bool {
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
    fn skip(&mut self, slot: crate::stamp::StampSlot) {
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = self.every;
            self.stamp.sequence += u64::from(slot.is_stampable());
        }
    }
}

/// A trial's stamped frames, made again from their numbers.
///
/// Every `every`th frame has its turn to be stamped, and the `n`th that can be carries number `n`.
#[derive(Debug)]
pub(crate) struct Recall {
    table: Arc<FrameTable>,
    start: u64,
    every: u64,
    /// Turns of one cycle, after which places repeat, whose frames can be stamped; `None` where all can.
    stampable: Option<Vec<u32>>,
    /// Turns in one cycle.
    cycle: u64,
}

impl Recall {
    pub(crate) fn new(table: Arc<FrameTable>, start: usize, every: u32) -> Self {
        let (len, start, every) = (table.len() as u64, start as u64, u64::from(every));
        let mut recall = Self { table, start, every, stampable: None, cycle: len / gcd(len, every) };
        let all = recall.table.uniform_slot().is_some_and(crate::stamp::StampSlot::is_stampable);
        if !all {
            let can = |turn: &u64| recall.table.slot(recall.place(*turn)).is_stampable();
            recall.stampable = Some((0..recall.cycle).filter(can).map(|turn| turn as u32).collect());
        }
        recall
    }

    /// Place in the table of the frame that had this turn, from 0.
    fn place(&self, turn: u64) -> usize {
        let len = self.table.len() as u64;
        // Sums of numbers below the length, so that no number of packets overflows.
        let passed = (turn % len * (self.every % len) + self.every - 1) % len;
        ((self.start + passed) % len) as usize
    }

    /// The frame that carried this stamp; nothing where no frame could.
    pub(crate) fn frame(&self, stamp: Stamp) -> Option<Vec<u8>> {
        let turn = match &self.stampable {
            None => stamp.sequence,
            Some(turns) => {
                let (lap, place) =
                    (stamp.sequence.checked_div(turns.len() as u64)?, stamp.sequence % turns.len() as u64);
                lap.checked_mul(self.cycle)?.checked_add(u64::from(turns[place as usize]))?
            }
        };
        let place = self.place(turn);
        let mut frame = self.table.frame(place).to_vec();
        self.table.slot(place).stamp(&mut frame, stamp).then_some(frame)
    }

    /// The table.
    pub(crate) fn table(&self) -> &FrameTable {
        &self.table
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
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
            burst: Burst::new(),
            waiting: None,
            counts: DirectionCounts::default(),
            ended: false,
            began_at: 0,
        }
    }

    /// The table it sends from; nothing for a stream.
    pub(crate) fn table(&self) -> Option<&FrameTable> {
        match &self.source {
            FrameSource::Table(cursor) => Some(cursor.table()),
            FrameSource::Stream(_) => None,
        }
    }

    /// Whether every packet of the trace will carry a stamp.
    pub fn stamps_all(&self) -> bool {
        self.stamps.every == 1 && self.whole
    }

    /// Begins a trial: `trial` goes into the stamps.
    pub(crate) fn begin(&mut self, trial: u16, load: Pps, start: Ticks, tsc: Tsc) {
        self.burst.clear();
        self.waiting = None;
        self.counts = DirectionCounts::default();
        self.stamps.stamp = Stamp { trial, sequence: 0, tsc: 0 };
        self.stamps.until_next = self.stamps.every;
        self.began_at = match &self.source {
            FrameSource::Table(cursor) => cursor.position(),
            FrameSource::Stream(_) => 0,
        };
        self.pacer = Some(Pacer::new(self.shape, load, start, tsc, self.seed ^ u64::from(trial)));
    }

    /// The means to make the trial's stamped frames again; nothing for a stream, which is gone.
    pub(crate) fn recall(&self) -> Option<Recall> {
        let table = Arc::clone(self.source.table()?);
        Some(Recall::new(table, self.began_at, self.stamps.every))
    }

    /// Sends one frame, trying again while the port's ring is full. Says whether the port took it.
    /// Not for timed trials.
    pub(crate) fn post(&mut self, frame: &[u8], patience: impl Fn() -> bool) -> bool {
        self.burst.clear();
        loop {
            if self.burst.is_empty()
                && self.pool.fill(&mut self.burst, 1)
                && let Some(packet) = self.burst.get_mut(0)
            {
                copy(frame, &[], packet);
            }
            if !self.burst.is_empty() && self.tx.transmit(&mut self.burst) == 1 {
                return true;
            }
            if !patience() {
                self.burst.clear();
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Offers what is due, at most one burst. Says whether anything was.
    #[inline]
    pub(crate) fn offer(&mut self, now: Ticks) -> bool {
        if self.shape == Shape::Recorded {
            return self.offer_recorded(now);
        }
        let Some(pacer) = &mut self.pacer else { return false };
        let due = pacer.due(now, BURST);
        if due > 0 {
            self.offer_now(due);
        }
        due > 0
    }

    /// Offers this many packets (at most one burst) at once, whatever the schedule says.
    #[inline]
    pub fn offer_now(&mut self, count: usize) {
        if !self.pool.fill(&mut self.burst, count) {
            self.counts.unsent += count as u64;
            return;
        }
        self.stamps.stamp.tsc = Ticks::now().0;
        let mut filled = 0;
        if let FrameSource::Table(cursor) = &mut self.source {
            let table = Arc::clone(cursor.table());
            filled = fill_from_table(
                &table,
                cursor.advance(count),
                &mut self.burst,
                &mut self.stamps,
                &mut self.counts,
            );
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

    fn offer_recorded(&mut self, now: Ticks) -> bool {
        let Some(pacer) = &mut self.pacer else { return false };
        if self.waiting.is_none() {
            let Some(frame) = self.source.next_frame() else {
                self.ended = true;
                return false;
            };
            if !self.pool.fill(&mut self.burst, 1) {
                self.stamps.skip(frame.slot);
                self.counts.unsent += 1;
                return true;
            }
            pacer.wait(frame.gap.unwrap_or_default());
            self.waiting = Some(frame.slot);
            if let Some(packet) = self.burst.get_mut(0) {
                copy(frame.head, frame.tail, packet);
            }
        }
        if pacer.due(now, 1) == 0 {
            return false;
        }
        self.stamps.stamp.tsc = Ticks::now().0;
        if let (Some(packet), Some(slot)) = (self.burst.get_mut(0), self.waiting.take()) {
            self.counts.stamped += u64::from(self.stamps.visit(slot, packet.data_mut()));
        }
        self.transmit(1);
        true
    }

    /// Hands the first `filled` packets to the port; frees the rest.
    #[inline]
    fn transmit(&mut self, filled: usize) {
        let missing = self.burst.len() - filled;
        for _ in 0..missing {
            self.burst.pop();
        }
        self.counts.sent += self.tx.transmit(&mut self.burst) as u64;
        self.counts.refused += self.burst.len() as u64;
        self.burst.clear();
    }

    /// Moves the schedule by a time in which the tester did not run.
    pub(crate) fn pause(&mut self, ticks: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.pause(ticks);
        }
    }

    /// Whether the trace was sent once and is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Packets the port took so far.
    pub fn sent(&self) -> u64 {
        self.counts.sent
    }

    /// Ends a trial whose time ran out at `end`: what was still due is unsent.
    pub(crate) fn finish(&mut self, end: Ticks) -> DirectionCounts {
        self.burst.clear();
        self.waiting = None;
        if let Some(mut pacer) = self.pacer.take() {
            if self.shape != Shape::Recorded && !self.ended {
                // Ticks are whole; the slot that falls on the very end belongs to the next trial.
                let last = Ticks(end.0.saturating_sub(1));
                while let due @ 1.. = pacer.due(last, BURST) {
                    self.counts.unsent += due as u64;
                }
            }
            self.counts.unsent += pacer.given_up();
        }
        self.counts.intended = self.counts.sent + self.counts.refused + self.counts.unsent;
        self.counts
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
