//! A trial of connections over the tester's ports, on one thread: begin what is due, judge what came, answer it.
//!
//! A pass of the loop begins at most a burst of connections, receives at most a burst from each port, and hands over what
//! came of both. A device whose ring is full does not get a packet again, as in any trial; its connection then stands
//! still, and fails. A trial ends when all connections are over, or nothing came for [`QUIET`] though all that was due has
//! been sent. Then those that began and are not over are reset from both ends, up to three times, at the rate at which they began:
//! the next trial finds the device without them. Most resets that do not come are of connections which the device never
//! saw, so that they are waited for less long ([`QUIET_OF_RESETS`]).

use super::book::{Book, Came, Wire};
use super::frames::BYTES;
use super::script::{Packet, Script};
use crate::lane::{LaneReceiver, LaneSender};
use crate::sender::Sender;
use crate::tester::Engine;
use crate::watch::{Gaps, PassLimit, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_cpu::{Lease, Ticks};
use weir_dpdk::{BURST, Burst};
use weir_trial::{ConnectionSpec, ConnectionsMade, DirectionCounts, Health, TrialResult};
use weir_units::{Nanos, Ratio};

/// How long nothing may come before what is missing is taken to be lost.
const QUIET: Nanos = Nanos(200_000_000);
/// The same of resets, once any came.
const QUIET_OF_RESETS: Nanos = Nanos(50_000_000);
/// How often what is lost of connections that are held, and of resets, is sent again, at most.
const AGAIN: usize = 2;
/// Time until the first connection.
const LEAD: Nanos = Nanos(200_000);
/// How often ports are asked to send what they may have kept, while nothing comes.
const FLUSH_EVERY: Nanos = Nanos(50_000);
/// The longest pass of the loop that is its own: see the tester's.
const PASS: Nanos = Nanos(50_000);
/// Pauses of the tester that are told.
const PAUSE: Nanos = Nanos(500_000);

/// The sending halves of both ports.
struct Ports<'a> {
    /// By port, then by queue.
    senders: [Vec<&'a mut Sender>; 2],
    bursts: [Vec<Burst>; 2],
    counts: [DirectionCounts; 2],
}

/// The queue of a frame, of so many: by its addresses and ports, the same in both directions.
#[inline]
fn queue_of(frame: &[u8; BYTES], queues: usize) -> usize {
    // Two addresses and two ports, behind Ethernet and an IPv4 header without options.
    let ends = &frame[26..38];
    if queues == 1 { 0 } else { ends.iter().map(|byte| usize::from(*byte)).sum::<usize>() % queues }
}

impl Wire for Ports<'_> {
    #[inline]
    fn send(&mut self, port: u8, packet: Packet<'_>) {
        let port = usize::from(port & 1);
        let mut bytes = [0; BYTES];
        packet.template.write(packet.own, &mut bytes);
        let queue = queue_of(&bytes, self.senders[port].len());
        if self.bursts[port][queue].len() == BURST {
            self.hand_over((port, queue));
        }
        self.counts[port].intended += 1;
        if !self.senders[port][queue].lay(&mut self.bursts[port][queue], &bytes) {
            self.counts[port].unsent += 1;
        }
    }
}

impl Ports<'_> {
    #[inline]
    fn hand_over(&mut self, (port, queue): (usize, usize)) {
        let laid = self.bursts[port][queue].len();
        if laid > 0 {
            let sent = self.senders[port][queue].hand_over(&mut self.bursts[port][queue]);
            self.counts[port].sent += sent as u64;
            self.counts[port].refused += (laid - sent) as u64;
        }
    }

    /// Hands over what is laid out for any queue.
    #[inline]
    fn hand_all_over(&mut self) {
        for port in 0..2 {
            (0..self.senders[port].len()).for_each(|queue| self.hand_over((port, queue)));
        }
    }
}

/// What a trial goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Begin,
    /// What was lost of the openings is sent again.
    Again,
    Prove,
    BreakOff,
}

/// What the loop found out.
#[derive(Debug, Default)]
struct Found {
    took: u64,
    proving: u64,
    behind: u64,
    looks: u64,
    full: u64,
}

/// A trial at work.
struct Trial<'a, 'b> {
    book: Book<'b>,
    ports: Ports<'a>,
    receivers: Vec<&'a mut LaneReceiver>,
    gaps: Gaps,
    lease: Option<Arc<Lease>>,
    stop: &'a AtomicBool,
    tsc: weir_cpu::Tsc,
    found: Found,
    flushed: Ticks,
}

impl Engine {
    /// Runs a trial; nothing when it was stopped, or the tester does not send both ways. `first` numbers its first
    /// connection.
    pub(crate) fn connect(
        &mut self,
        (script, first): (&Script, u64),
        asked: ConnectionSpec,
        (lease, stop): (Option<Arc<Lease>>, &AtomicBool),
    ) -> Option<TrialResult> {
        let (tsc, core) = (self.tsc, self.lanes.first().map_or(0, |lane| lane.core));
        let called = Ticks::now();
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for lane in &mut self.lanes {
            senders.extend(lane.senders.iter_mut());
            receivers.extend(lane.receivers.iter_mut());
        }
        senders.sort_by_key(|one: &&mut LaneSender| (one.direction, one.stream));
        let (one, other): (Vec<_>, Vec<_>) = senders.into_iter().partition(|one| one.direction == 0);
        if one.is_empty() || other.is_empty() || other.iter().any(|sender| sender.direction > 1) {
            return None;
        }
        let senders: [Vec<&mut Sender>; 2] =
            [one, other].map(|port| port.into_iter().map(|one| &mut one.sender).collect());
        let bursts = senders.each_ref().map(|port| port.iter().map(|_| Burst::new()).collect());
        let ports = Ports { senders, bursts, counts: [DirectionCounts::default(); 2] };
        let book = Book::new(script, first, asked);
        let watch = Watch::start(core);
        let start = Ticks(Ticks::now().0 + tsc.ticks(LEAD));
        let gaps = Gaps::new(start, PassLimit { empty: tsc.ticks(PASS), packet: 0 }, tsc.ticks(PAUSE));
        let (found, flushed) = (Found::default(), start);
        let mut trial = Trial { book, ports, receivers, gaps, lease, stop, tsc, found, flushed };
        trial.phase(Phase::Begin, start)?;
        trial.found.took = trial.found.took.max(1);
        if asked.held {
            // How many a device holds is no question of what it loses on the way: that is sent again.
            for phase in [Phase::Again, Phase::Prove] {
                for round in 0..=AGAIN {
                    if (round > 0 || phase == Phase::Again) && trial.is_over(phase) {
                        break;
                    }
                    trial.phase(phase, Ticks::now())?;
                }
            }
        }
        // What follows is no part of what is measured.
        let (tester, clocks) = watch.end(tsc);
        let pauses = trial.gaps.pauses(tsc);
        // What is unfinished would stay in the device's table for as long as it keeps such: seconds, or days.
        for _ in 0..=AGAIN {
            trial.phase(Phase::BreakOff, Ticks::now())?;
        }
        let mut result = trial.result();
        result.health = Health { tester, pauses, clocks: Some(clocks), ..Health::default() };
        let whole = tsc.nanos(Ticks::now().since(called));
        result.overhead = Nanos(whole.0.saturating_sub(result.elapsed.0));
        Some(result)
    }
}

impl Trial<'_, '_> {
    /// Goes through a phase until nothing of it is left to do or to wait for; nothing when it was stopped.
    fn phase(&mut self, phase: Phase, start: Ticks) -> Option<()> {
        let (todo, per_tick) = (self.todo(phase), self.book.asked().rate / self.tsc.hz());
        let count = todo.len();
        let (quiet, quiet_of_resets) = (self.tsc.ticks(QUIET), self.tsc.ticks(QUIET_OF_RESETS));
        let resets = self.book.reset;
        let (mut next, mut last) = (0, start);
        while !self.stop.load(Ordering::Relaxed) {
            let now = Ticks::now();
            self.gaps.pass(now, 0);
            if let Some(over) = self.lease.take_if(|lease| lease.is_over(now)) {
                over.leave();
            }
            if now >= start && next < count {
                let due = (((now.since(start)) as f64 * per_tick) as usize + 1).min(count);
                let upto = due.min(next + BURST);
                if next < upto {
                    let was_due = (next as f64 / per_tick) as u64;
                    let behind = now.since(start).saturating_sub(was_due);
                    self.one_by_one(phase, &todo[next..upto], now);
                    (next, last) = (upto, now);
                    match phase {
                        Phase::Begin => {
                            self.found.behind = self.found.behind.max(behind);
                            self.found.took = now.since(start);
                        }
                        Phase::Prove => self.found.proving = self.found.proving.max(now.since(start)),
                        Phase::Again | Phase::BreakOff => {}
                    }
                }
            }
            if self.receive(now) {
                last = now;
            } else if now.since(self.flushed) > self.tsc.ticks(FLUSH_EVERY) {
                self.ports.senders.iter_mut().flatten().for_each(|sender| sender.flush());
                self.flushed = now;
            }
            self.ports.hand_all_over();
            let over = count == 0 || self.is_over(phase);
            let enough = if self.book.reset > resets { quiet_of_resets } else { quiet };
            if next == count && (over || now.since(last) > enough) {
                return Some(());
            }
        }
        None
    }

    /// Does what is due of a phase to these connections.
    #[inline]
    fn one_by_one(&mut self, phase: Phase, places: &[u32], now: Ticks) {
        let Self { book, ports, .. } = self;
        for place in places.iter().map(|place| *place as usize) {
            match phase {
                Phase::Begin => book.begin(now, ports),
                Phase::Again => book.open_again(place, ports),
                Phase::Prove => book.prove(place, ports),
                Phase::BreakOff => book.break_off(place, ports),
            }
        }
    }

    /// The connections that a phase is about.
    fn todo(&self, phase: Phase) -> Vec<u32> {
        let all = 0..self.book.asked().count as u32;
        let wanted = |place: &u32| match phase {
            Phase::Begin => true,
            Phase::Again => !self.book.is_open(*place as usize),
            Phase::Prove => self.book.is_open(*place as usize),
            Phase::BreakOff => self.book.is_unfinished(*place as usize),
        };
        all.filter(wanted).collect()
    }

    /// Whether all came that a phase waits for.
    fn is_over(&self, phase: Phase) -> bool {
        let count = self.book.asked().count;
        match (phase, self.book.asked().held) {
            (Phase::Begin | Phase::Again, true) => self.book.opened == count,
            (Phase::Prove, true) => {
                self.book.proved == self.book.opened && self.book.whole == self.book.proved
            }
            (Phase::BreakOff, _) => self.book.broken == self.book.reset,
            _ => self.book.whole == count,
        }
    }

    /// Receives a burst from each port and judges it. Says whether anything came.
    #[inline]
    fn receive(&mut self, now: Ticks) -> bool {
        let Self { book, ports, receivers, found, .. } = self;
        let (mut burst, mut came) = (Burst::new(), false);
        for receiver in receivers {
            for queue in &mut receiver.queues {
                let count = queue.receive(&mut burst);
                found.looks += 1;
                found.full += u64::from(count == BURST);
                came |= count > 0;
                burst.iter().for_each(|packet| {
                    book.came((receiver.port as u8, packet.data()), now, ports);
                });
                burst.clear();
            }
        }
        came
    }

    fn result(self) -> TrialResult {
        let Self { book, ports, tsc, found, .. } = self;
        let asked = book.asked();
        let directions = (0..2).map(|direction| {
            // What enters by one port comes back to the other.
            let Came { right, duplicated, late, foreign, damaged } = book.came[1 - direction];
            DirectionCounts { received: right, duplicated, late, foreign, damaged, ..ports.counts[direction] }
        });
        let made = ConnectionsMade {
            asked,
            begun: book.begun() as u64,
            opened: book.opened,
            proved: book.proved,
            whole: book.whole,
            broken: book.broken,
            reset: book.reset,
            took: tsc.nanos(found.took),
            behind: tsc.nanos(found.behind),
            full: Ratio(found.full as f64 / found.looks.max(1) as f64),
            setup: crate::histogram::TickHistogram::summary(std::iter::once(&book.setup), tsc),
        };
        TrialResult {
            elapsed: tsc.nanos(found.took + found.proving),
            directions: directions.collect(),
            packets: Some(book.check),
            connections: Some(made),
            ..TrialResult::new(asked.trial())
        }
    }
}
