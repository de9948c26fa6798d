//! The untimed pass over the tester's ports: few packets on their way at a time.
//!
//! A chunk of packets is sent in one direction and all of them are waited for, then in the other: no queue of any
//! device fills up, so nothing may be lost, however slow the device is. A packet that must not come
//! out gives no sign; after those the pass waits a while instead, so that they too come slowly. What
//! did not come may have been lost to a machine that stood still; it is sent again at once, while a device still
//! tracks its connection, and then ever more patiently, before it is called missing. Without stalls a pass takes some
//! tens of microseconds a chunk: about a second for two laps of a hundred thousand packets. A device that needs minutes for
//! them, because each is of a flow that it has to learn, is asked for a minute, and the result says how many were compared.
//!
//! A link is up before the device behind it looks at its queues, and a packet that has to leave by a link which is
//! not yet up there is lost. So the first chunk is sent again in ever longer steps until any of it comes.
//!
//! A chunk is handed over in bursts, as a trial's packets are. What most packets of a trace have in common, that
//! they are forwarded, could hide a device that looks up one packet of a full burst; so packets that must come and
//! packets that must not are sent once more in full bursts of both.

use crate::check::{Disposition, Examiner, Item, PassFrames};
use crate::tester::Engine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_cpu::Ticks;
use weir_dpdk::Burst;
use weir_trial::{Oracle, PacketCheck};
use weir_units::Nanos;

/// Packets on their way at a time, over all directions.
const CHUNK: usize = 64;
/// How long nothing may come before the rest of a chunk is left for later.
const PATIENCE: Nanos = Nanos(20_000_000);
/// The same for a chunk of which nothing came at all: the device, or the machine, stands still.
const STANDSTILL: Nanos = Nanos(Nanos::PER_SECOND);
/// How long the first chunk is waited for at first; twice as long each time that it is sent again. At the sum, that of
/// [`STANDSTILL`], eight copies are on their way, which no ring is too short for.
const FIRST: Nanos = Nanos(4_000_000);
/// How long packets that did not come are waited for when they are sent again, and again.
const AGAIN: [Nanos; 3] = [Nanos(100_000_000), Nanos(500_000_000), STANDSTILL];
/// Time left to a device for each packet that gives no sign: 50,000 packets a second.
const UNSEEN: Nanos = Nanos(20_000);
/// Missing packets at which the pass is given up: the device does not do this function's work.
const HOPELESS: usize = 512;
/// Of a pass that was given up, so many of the missing packets are sent again to be sure.
const SURE: usize = 64;
/// Chunks in which packets that must come and packets that must not take turns.
const MIXED: usize = 32;
/// How long a point's pass sends packets for the first time: of a device that takes longer the rest is left to the trials'
/// samples.
pub const LONGEST_PASS: Nanos = Nanos(60 * Nanos::PER_SECOND);
/// What may still come after the last packet: quiet for so long ends the pass.
const QUIET: Nanos = Nanos(50_000_000);
/// Where nothing has come for so long, the tester sleeps for a [`NAP`] before it looks again: others have its core meanwhile.
const WAKEFUL: Nanos = Nanos(100_000);
/// Length of a nap. With the timer's slack it is 0.1 ms: below 10 Mpps a ring of 1,024 packets has room for what comes.
const NAP: Duration = Duration::from_micros(50);

impl Engine {
    /// Sends all frames that `longest` has time for, compares all that comes; nothing when it was stopped.
    pub(crate) fn verify(
        &mut self,
        oracle: Arc<Oracle>,
        frames: Vec<PassFrames>,
        longest: Nanos,
        stop: &AtomicBool,
    ) -> Option<PacketCheck> {
        self.trial = self.trial.wrapping_add(1);
        let mut pass = Pass { book: Examiner::new(oracle, frames, self.trial), engine: self, stop, turn: 0 };
        let items = pass.book.items();
        let mut missing = Vec::new();
        let mut is_awake = false;
        let (begin, limit) = (Ticks::now(), pass.engine.tsc.ticks(longest));
        for (number, chunk) in items.chunks(CHUNK).enumerate() {
            if Ticks::now().since(begin) > limit {
                let (sent, all) = (number * CHUNK, items.len());
                pass.book.remark(format!("ended after {longest}: {sent} of {all} packets"));
                break;
            }
            let waits = if is_awake { (PATIENCE, STANDSTILL) } else { (PATIENCE, FIRST) };
            let mut late = pass.chunk(chunk, waits)?;
            if !is_awake {
                late = pass.knock(chunk, late)?;
                is_awake = chunk.iter().any(|item| pass.book.must_come(*item));
            } else if !late.is_empty() {
                late = pass.chunk(&late, (PATIENCE, PATIENCE))?;
            }
            missing.extend(late);
            if missing.len() <= HOPELESS {
                continue;
            }
            let (some, others) = missing.split_at(SURE.min(missing.len()));
            let (lost, others) = (pass.again(some.to_vec())?, others.to_vec());
            if !lost.is_empty() && lost.len() == some.len() {
                let (sent, all, gone) = ((number + 1) * CHUNK, items.len(), missing.len());
                pass.book.remark(format!("given up after {sent} of {all} packets, when {gone} had not come"));
                missing = Vec::new();
                break;
            }
            missing = [lost, others].concat();
            missing.retain(|item| !pass.book.is_back(*item));
        }
        pass.again(missing)?;
        pass.mixed()?;
        pass.wait(QUIET)?;
        Some(pass.book.finish())
    }
}

/// A pass at work.
struct Pass<'a> {
    book: Examiner,
    engine: &'a mut Engine,
    stop: &'a AtomicBool,
    /// Chunks sent so far: they go by the queues of the ports in turn, both directions of one by the same.
    turn: usize,
}

impl Pass<'_> {
    /// Sends what did not come of a chunk again until anything of the chunk came, for as long as a device may stand
    /// still. Returns what never came.
    fn knock(&mut self, chunk: &[Item], mut missing: Vec<Item>) -> Option<Vec<Item>> {
        let (mut step, mut waited) = (FIRST, FIRST);
        while !missing.is_empty() && waited < STANDSTILL && !chunk.iter().any(|item| self.book.is_back(*item))
        {
            step = Nanos(step.0 * 2);
            waited = Nanos(waited.0 + step.0);
            missing = self.chunk(&missing, (PATIENCE, step))?;
        }
        Some(missing)
    }

    /// Sends packets again that did not come, ever more patiently. Returns those that never came.
    fn again(&mut self, mut missing: Vec<Item>) -> Option<Vec<Item>> {
        for patience in AGAIN {
            missing.retain(|item| !self.book.is_back(*item));
            for chunk in std::mem::take(&mut missing).chunks(CHUNK) {
                missing.extend(self.chunk(chunk, (patience, patience))?);
            }
        }
        Some(missing)
    }

    /// Sends bursts in which packets that must come and packets that must not take turns, and waits until nothing of
    /// a chunk is on its way: what is sent once more tells nothing by not coming, but would come in the next trial.
    fn mixed(&mut self) -> Option<()> {
        for chunk in self.book.mixed(CHUNK, MIXED) {
            let first = self.book.transmissions();
            self.chunk(&chunk, (PATIENCE, STANDSTILL))?;
            let patience = self.engine.tsc.ticks(STANDSTILL);
            let mut last = Ticks::now();
            while self.book.is_under_way(first) && Ticks::now().since(last) < patience {
                if self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                if self.collect() {
                    last = Ticks::now();
                }
                self.nap(last);
            }
        }
        Some(())
    }

    /// Sends some packets and waits for them, one direction after the other: an answer that overtook the packet which it
    /// answers would be nobody's to a function that tracks connections. Returns those that must have come and did not.
    /// Waiting for a direction ends when nothing came for the first time, or the second where nothing came at all; one
    /// standstill is waited for, not one a direction. Nothing is returned when the pass was stopped.
    fn chunk(&mut self, items: &[Item], (patience, mut standstill): (Nanos, Nanos)) -> Option<Vec<Item>> {
        let mut ways: BTreeMap<usize, Vec<Item>> = BTreeMap::new();
        items.iter().for_each(|item| ways.entry(item.direction).or_default().push(*item));
        let mut missing = Vec::new();
        for (direction, items) in ways {
            let late = self.one_way(direction, &items, (patience, standstill))?;
            let awaited = items.iter().filter(|item| self.book.must_come(**item)).count();
            if awaited > 0 && late.len() == awaited {
                standstill = patience;
            }
            missing.extend(late);
        }
        self.turn += 1;
        Some(missing)
    }

    /// [`Self::chunk`] of packets that are sent in one direction.
    fn one_way(
        &mut self,
        direction: usize,
        items: &[Item],
        (patience, standstill): (Nanos, Nanos),
    ) -> Option<Vec<Item>> {
        let begin = Ticks::now();
        let (mut awaited, mut unseen, mut frames) = (Vec::new(), 0, Vec::new());
        for item in items {
            let (frame, disposition) = self.book.send(*item);
            match disposition {
                Disposition::Comes => awaited.push(*item),
                Disposition::Gone | Disposition::Open => unseen += 1,
            }
            frames.push(frame);
        }
        let (stop, turn) = (self.stop, self.turn);
        let end = Ticks::now().0 + self.engine.tsc.ticks(STANDSTILL);
        if let Some(sender) = self.engine.sender_of(direction, turn) {
            // What a port does not take for so long is lost; it is awaited in vain.
            sender.post(&frames, || Ticks::now().0 < end && !stop.load(Ordering::Relaxed));
        }
        let pause = Ticks(begin.0 + self.engine.tsc.ticks(Nanos(UNSEEN.0 * unseen)));
        let ticks = |time| self.engine.tsc.ticks(time);
        let (patience, standstill) = (ticks(patience), ticks(standstill));
        let (mut last, mut anything) = (Ticks::now(), false);
        while !awaited.is_empty() || Ticks::now() < pause {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let before = awaited.len();
            if self.collect() {
                awaited.retain(|item| !self.book.is_back(*item));
            }
            if awaited.len() < before {
                (last, anything) = (Ticks::now(), true);
            }
            self.nap(last);
            let waited = Ticks::now().since(last);
            if waited > if anything { patience } else { standstill } && Ticks::now() >= pause {
                break;
            }
        }
        Some(awaited)
    }

    /// Collects until nothing came for `quiet`.
    fn wait(&mut self, quiet: Nanos) -> Option<()> {
        let quiet = self.engine.tsc.ticks(quiet);
        let (begin, mut last) = (Ticks::now(), Ticks::now());
        // A device that answers without end must not hold the campaign up.
        while Ticks::now().since(last) < quiet && Ticks::now().since(begin) < 20 * quiet {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if self.collect() {
                last = Ticks::now();
            }
            self.nap(last);
        }
        Some(())
    }

    /// Leaves the core to others for a moment, where nothing came for a while.
    fn nap(&self, last: Ticks) {
        if Ticks::now().since(last) > self.engine.tsc.ticks(WAKEFUL) {
            std::thread::sleep(NAP);
        }
    }

    /// Receives what there is from every port and judges it. Says whether anything came.
    fn collect(&mut self) -> bool {
        let (mut burst, mut came) = (Burst::new(), false);
        for receiver in self.engine.lanes.iter_mut().flat_map(|lane| &mut lane.receivers) {
            for queue in &mut receiver.queues {
                came |= queue.receive(&mut burst) > 0;
                burst.iter().for_each(|packet| self.book.came(receiver.port, packet.data()));
                burst.clear();
            }
        }
        came
    }
}
