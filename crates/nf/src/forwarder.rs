//! The worker's loop: receive → judge → send, one burst at a time, to completion.
//!
//! One thread owns it, with its queues; no lock, allocation, system call or log in the loop.
//! Bursts whose packets all take one way, nearly all of them, are handed over as they are; mixed
//! ones are sorted by port first. What a port does not take at once is dropped and counted: a
//! queue in front of a full ring only hides the loss and adds delay.

use crate::ledger::Counters;
use crate::verdict::{DropReason, NetworkFunction, Outcome, PORTS, Verdict, Verdicts, other_port};
use crate::wire::{Ports, Wire};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst, Packet};

/// Rounds in a row that find packets before the core goes to others: short enough that the next queue, of 1024
/// packets at least, takes what comes of them, and long enough that a host which never yields does not get most of the
/// core.
const TURN: u32 = 16;

/// Busy rounds in a row after which their time is counted.
const LOOK: u32 = 1024;

/// A network function at work, on one pair of ports or several.
#[derive(Debug)]
pub(crate) struct Forwarder<F, W> {
    function: F,
    lines: Vec<Line<W>>,
    /// Whether others that poll on the same core have it after each round.
    yields: bool,
}

/// A pair of ports: what comes in by one leaves by the other.
#[derive(Debug)]
pub(crate) struct Line<W> {
    pub(crate) wire: W,
    pub(crate) ports: Ports,
    pub(crate) counters: Arc<Counters>,
}

impl<F: NetworkFunction, W: Wire> Forwarder<F, W> {
    /// A forwarder that has not started.
    pub(crate) fn new(function: F, lines: Vec<Line<W>>, yields: bool) -> Self {
        Self { function, lines, yields }
    }

    /// Forwards until `stop` is set; call it on a [`weir_dpdk::Worker`].
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut burst = Burst::new();
        let Some(first) = self.lines.first() else { return };
        // One thread has one account of its time.
        let counters = first.counters.clone();
        let mut busy_since = None;
        let (mut turn, mut round) = (0, Ticks::now());
        while !stop.load(Ordering::Relaxed) {
            let mut received = 0;
            for line in &mut self.lines {
                received += line.round(&self.function, &mut burst);
            }
            if self.yields {
                step_aside(&counters, received > 0, &mut turn, &mut round);
            } else {
                clock(&counters, received > 0, &mut busy_since);
            }
        }
        clock(&counters, false, &mut busy_since);
        for line in &mut self.lines {
            line.wire.end(&line.counters);
        }
    }
}

impl<W> Line<W> {
    /// The same with another wire.
    pub(crate) fn with<V>(self, wire: V) -> Line<V> {
        Line { wire, ports: self.ports, counters: self.counters }
    }
}

impl<W: Wire> Line<W> {
    /// Polls both ports once. Returns how many packets came.
    #[inline]
    fn round<F: NetworkFunction>(&mut self, function: &F, burst: &mut Burst) -> usize {
        self.ports.round();
        let mut received = 0;
        for port in 0..PORTS {
            received += self.ports.receive(port, burst);
            if !burst.is_empty() {
                self.counters.count_received(port, burst.len());
                self.complete(function, port as u8, burst);
            }
        }
        self.wire.round(&mut self.ports, &self.counters);
        received
    }

    /// Sees a burst off: every packet of it is sent or dropped.
    #[inline]
    fn complete<F: NetworkFunction>(&mut self, function: &F, port: u8, burst: &mut Burst) {
        if F::TRANSPARENT {
            return self.send(other_port(port), burst);
        }
        let mut verdicts = [Verdict::drop(DropReason::TooShort); BURST];
        function.process(port, burst.iter_mut().map(Packet::data_mut), &mut verdicts);
        let first = verdicts[0];
        if burst.len() == BURST && self.wire.skips_lookups() {
            verdicts.fill(first);
        }
        // No early end: all verdicts of a burst fit a few vector registers.
        let same = verdicts[..burst.len()].iter().fold(true, |same, verdict| same & (*verdict == first));
        match first.outcome() {
            Outcome::Forward(out) if same => self.send(out, burst),
            _ => self.sort(port, burst, &verdicts),
        }
    }

    /// Sends the packets of a burst by different ports, and drops those that are to be dropped.
    fn sort(&mut self, port: u8, burst: &mut Burst, verdicts: &Verdicts) {
        let mut out = [const { Burst::new() }; PORTS];
        burst.distribute(&mut out, |index, _| match verdicts[index].outcome() {
            Outcome::Forward(port) => Some(usize::from(port)),
            Outcome::Drop(DropReason::Denied) if self.wire.leaks() => Some(usize::from(other_port(port))),
            Outcome::Drop(reason) => {
                self.counters.count_dropped(reason, 1);
                None
            }
        });
        for (port, burst) in (0..).zip(&mut out).filter(|(_, burst)| !burst.is_empty()) {
            self.send(port, burst);
        }
    }

    /// Sends a burst; what the port does not take is dropped.
    #[inline]
    fn send(&mut self, port: u8, burst: &mut Burst) {
        let port = usize::from(port) % PORTS;
        self.wire.leaving(port, burst, &mut self.ports, &self.counters);
        let sent = self.ports.transmit(port, burst);
        self.counters.count_sent(port, sent);
        if !burst.is_empty() {
            self.counters.count_refused(port, burst.len());
            burst.clear();
        }
    }
}

/// Has whoever shares the core poll next: once nothing came, or [`TURN`] rounds did. What a round took is counted if
/// it found packets; what others do is not.
fn step_aside(counters: &Counters, busy: bool, turn: &mut u32, round: &mut Ticks) {
    if busy {
        counters.count_busy(Ticks::now().since(*round));
    }
    *turn += 1;
    if !busy || *turn == TURN {
        std::thread::yield_now();
        *turn = 0;
    }
    *round = Ticks::now();
}

/// Reads the clock when work begins or ends, and every [`LOOK`] rounds under full load, which would show nothing
/// otherwise.
#[inline]
fn clock(counters: &Counters, busy: bool, since: &mut Option<(Ticks, u32)>) {
    match (busy, since.as_mut()) {
        (true, None) => *since = Some((Ticks::now(), 0)),
        (true, Some((begin, rounds))) => {
            *rounds += 1;
            if *rounds == LOOK {
                let now = Ticks::now();
                counters.count_busy(now.since(*begin));
                (*begin, *rounds) = (now, 0);
            }
        }
        (false, Some((begin, _))) => {
            counters.count_busy(Ticks::now().since(*begin));
            *since = None;
        }
        (false, None) => {}
    }
}
