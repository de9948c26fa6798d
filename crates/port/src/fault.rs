//! A port that does wrong on purpose: for tests of what stands behind it.
//!
//! It stands before another port. What comes in by that is lost, doubled, overtaken, damaged, cut short or
//! late; when sending, a part of a burst is taken, or nothing for a while. Everything it does is counted by
//! name ([`Faults`]), so that the sum still comes out: `received by the other port + duplicated = received
//! by the worker + lost + waiting`. The same seed does the same to the same packets, but for what hangs on
//! the clock.
//!
//! Cost: a draw of random bits a fault and packet, and a place in a queue; a port without this wrapper
//! pays nothing. Threads: an end belongs to one worker; counters may be read from any thread.

mod random;
mod spec;

pub(crate) use spec::FaultSpec;

use crate::{Receive, Rx, TooLong, Tx};
pub(crate) use random::Chance;
use random::Random;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst, Mbuf, Packet, Pool};

/// Packets that may wait in a queue at most; no more are received until there is room.
const WAITING: usize = 1024;

/// Packets that overtake one that is held back, at most.
const OVERTAKING: usize = 8;

macro_rules! faults {
    ($($field:ident $name:literal $about:literal;)*) => {
        /// What a queue of a fault port did. One thread writes, any may read.
        #[derive(Debug, Default)]
        pub(crate) struct Faults {
            $(#[doc = $about] $field: AtomicU64,)*
        }

        impl Faults {
            /// Every count by its name.
            pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

faults! {
    lost "lost" "Packets that were received by the other port and went no further.";
    duplicated "duplicated" "Packets that came once more than they should.";
    reordered "reordered" "Packets that others overtook.";
    corrupted "corrupted" "Packets of which one bit was turned.";
    truncated "truncated" "Packets of which the end is missing.";
    waiting "waiting" "Packets that came in and are held back at this moment.";
    partial "partial" "Packets that were not taken, of bursts of which only a part was.";
    stalled "stalled" "Packets that were not taken, because the port stood still.";
}

fn add(count: &AtomicU64, packets: usize) {
    // One writer: no read-modify-write on the bus is needed.
    count.store(count.load(Ordering::Relaxed) + packets as u64, Ordering::Relaxed);
}

/// The receiving end.
#[derive(Debug)]
struct FaultRx {
    inner: Rx,
    spec: FaultSpec,
    random: Random,
    pool: Pool,
    /// What has just come in.
    arrived: Burst,
    /// What goes on, and when.
    waiting: VecDeque<(Ticks, Mbuf)>,
    /// One that is overtaken, and by how many yet.
    back: Option<(Mbuf, usize)>,
    /// Whether the one that is held back was overtaken.
    overtaken: bool,
    /// Cycles that each packet is late.
    delay: u64,
    faults: Arc<Faults>,
}

/// The sending end.
#[derive(Debug)]
pub struct FaultTx {
    inner: Tx,
    spec: FaultSpec,
    random: Random,
    /// Cycles of a standstill.
    pause: u64,
    /// When the standstill ends.
    until: Option<Ticks>,
    parts: [Burst; 2],
    faults: Arc<Faults>,
}

/// Wraps a queue, by its number at the port. `hz` is the TSC's rate.
pub(crate) fn wrap(
    (rx, tx): (Rx, Tx),
    spec: &FaultSpec,
    queue: u64,
    pool: &Pool,
    hz: f64,
) -> ((Rx, Tx), Arc<Faults>) {
    let faults = Arc::<Faults>::default();
    let cycles = |nanos: weir_units::Nanos| (nanos.0 as f64 * 1e-9 * hz) as u64;
    let rx = FaultRx {
        inner: rx,
        spec: spec.clone(),
        random: Random::new(spec.seed, queue * 2),
        pool: pool.clone(),
        arrived: Burst::new(),
        waiting: VecDeque::with_capacity(WAITING),
        back: None,
        overtaken: false,
        delay: cycles(spec.delay),
        faults: faults.clone(),
    };
    let tx = FaultTx {
        inner: tx,
        spec: spec.clone(),
        random: Random::new(spec.seed, queue * 2 + 1),
        pause: cycles(spec.pause),
        until: None,
        parts: [Burst::new(), Burst::new()],
        faults: faults.clone(),
    };
    ((Rx::Decorated(Box::new(rx)), Tx::Fault(Box::new(tx))), faults)
}

impl Receive for FaultRx {
    /// Receives what the other port has and what has waited long enough, as much as fits.
    fn receive(&mut self, burst: &mut Burst) -> usize {
        let now = Ticks::now();
        // Each packet that comes in may become two, and lets go of the one held back.
        if self.waiting.len() + 2 * BURST < WAITING {
            self.inner.receive(&mut self.arrived);
            let quiet = self.arrived.is_empty();
            let mut arrived = std::mem::take(&mut self.arrived);
            arrived.drain(|_, mbuf| self.suffer(mbuf, now));
            self.arrived = arrived;
            if quiet && self.waiting.is_empty() {
                self.let_go(now);
            }
        }
        let before = burst.len();
        while burst.room() > 0 && self.waiting.front().is_some_and(|(due, _)| now >= *due) {
            let Some((_, mbuf)) = self.waiting.pop_front() else { break };
            // There is room.
            drop(burst.push(mbuf));
        }
        let waiting = self.waiting.len() + usize::from(self.back.is_some());
        self.faults.waiting.store(waiting as u64, Ordering::Relaxed);
        burst.len() - before
    }

    fn take_too_long(&mut self) -> TooLong {
        self.inner.take_too_long()
    }

    fn take_emulated(&mut self) -> u64 {
        self.inner.take_emulated()
    }
}

impl FaultRx {
    /// What becomes of one packet.
    fn suffer(&mut self, mut mbuf: Mbuf, now: Ticks) {
        if self.random.happens(self.spec.drop) {
            add(&self.faults.lost, 1);
            return;
        }
        if self.random.happens(self.spec.corrupt) && !mbuf.is_empty() {
            let bit = self.random.below(mbuf.len() * 8);
            mbuf.data_mut()[bit / 8] ^= 1 << (bit % 8);
            add(&self.faults.corrupted, 1);
        }
        if self.random.happens(self.spec.truncate) && !mbuf.is_empty() && !mbuf.is_chained() {
            let len = self.random.below(mbuf.len());
            // Shorter than a packet, whose length fits.
            mbuf.set_len(len as u16);
            add(&self.faults.truncated, 1);
        }
        let twin = if self.random.happens(self.spec.dup) { self.pool.packet(mbuf.data()) } else { None };
        if let Some(twin) = twin {
            add(&self.faults.duplicated, 1);
            self.go_on(twin, now);
        }
        if self.back.is_none() && self.random.happens(self.spec.reorder) {
            self.back = Some((mbuf, 1 + self.random.below(OVERTAKING)));
            self.overtaken = false;
        } else {
            self.go_on(mbuf, now);
        }
    }

    /// A packet goes on; one that it overtakes may follow it.
    fn go_on(&mut self, mbuf: Mbuf, now: Ticks) {
        self.waiting.push_back((Ticks(now.0 + self.delay), mbuf));
        if let Some((_, left)) = &mut self.back {
            self.overtaken = true;
            *left -= 1;
            if *left == 0 {
                self.let_go(now);
            }
        }
    }

    fn let_go(&mut self, now: Ticks) {
        if let Some((mbuf, _)) = self.back.take() {
            add(&self.faults.reordered, usize::from(self.overtaken));
            self.waiting.push_back((Ticks(now.0 + self.delay), mbuf));
        }
    }
}

impl FaultTx {
    /// Packets that were too long for the port behind, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        self.inner.take_too_long()
    }

    /// Hands packets from the front of the burst to the other port, or a part of them, or none. Returns
    /// how many were taken; the rest stay.
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        let now = Ticks::now();
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
        } else if self.until.is_none() && self.random.happens(self.spec.stall) {
            self.until = Some(Ticks(now.0 + self.pause));
        }
        if self.until.is_some() {
            add(&self.faults.stalled, burst.len());
            return 0;
        }
        if burst.is_empty() || !self.random.happens(self.spec.partial) {
            return self.inner.transmit(burst);
        }
        let part = self.random.below(burst.len());
        burst.distribute(&mut self.parts, |place, _: &mut Packet| Some(usize::from(place >= part)));
        let [first, rest] = &mut self.parts;
        let taken = self.inner.transmit(first);
        add(&self.faults.partial, rest.len());
        for left in [first, rest] {
            // They came out of this burst.
            left.drain(|_, mbuf| drop(burst.push(mbuf)));
        }
        taken
    }
}
