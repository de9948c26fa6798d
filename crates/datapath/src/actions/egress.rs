//! Where a worker's packets leave: one burst a port, sent when it is full or the worker's burst is done.
//!
//! A burst of which copies were made leaves in the order it came, whatever became of each packet: one that went by
//! its megaflow at once, and the next, of the same flow, by a recirculation, do not change places. So the copies and
//! the packets themselves are kept, by the packet that came in of which they are ([`Egress::keep`]), until the
//! last of them is ready ([`Egress::release`]).

use crate::stats::capture::Tap;
use crate::stats::counters::{Counters, PortCounts};
use std::sync::{Arc, Mutex, PoisonError};
use weir_dpdk::{BURST, Burst, Mbuf};
use weir_openflow::PortNo;
use weir_packet::DropReason;
use weir_port::{TooLong, Tx};

/// A transmit queue: the worker's own, or, where a port has fewer queues than there are workers, one
/// that some of them share.
#[derive(Debug)]
pub(crate) enum Queue {
    Own(Tx),
    Shared(Arc<Mutex<Tx>>),
}

impl Queue {
    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> (usize, TooLong) {
        match self {
            Self::Own(tx) => (tx.transmit(burst), tx.take_too_long()),
            Self::Shared(tx) => {
                // A worker that panicked with the lock held had handed its packets over or still owns them.
                let mut tx = tx.lock().unwrap_or_else(PoisonError::into_inner);
                (tx.transmit(burst), tx.take_too_long())
            }
        }
    }
}

/// Packets of one burst that are kept at most. Where there are more copies, those so far leave before the others.
const KEPT: usize = 2048;

/// The worker's side of all ports' transmit queues.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    /// By place of the port.
    pub(crate) bursts: Vec<Burst>,
    ports: Vec<Option<OutPort>>,
    /// Where packets go that are kept, by the packet that came in of which they are.
    kept: [Vec<(u16, Mbuf)>; BURST],
    /// How many these are.
    keeps: usize,
    /// Those who watch what is sent.
    pub(crate) taps: Vec<Arc<Tap>>,
}

#[derive(Debug)]
struct OutPort {
    number: PortNo,
    queue: Queue,
}

impl Egress {
    /// A port is there from now on.
    pub(crate) fn open(&mut self, place: u16, number: PortNo, queue: Queue, counters: &mut Counters) {
        let place = usize::from(place);
        while self.ports.len() <= place {
            self.ports.push(None);
            self.bursts.push(Burst::new());
        }
        if counters.ports.len() <= place {
            counters.ports.resize(place + 1, PortCounts::default());
        }
        counters.ports[place] = PortCounts::default();
        self.ports[place] = Some(OutPort { number, queue });
    }

    /// A port is not there any more.
    pub(crate) fn close(&mut self, place: u16) {
        if let Some(port) = self.ports.get_mut(usize::from(place)) {
            *port = None;
        }
    }

    /// Keeps a packet or a copy for a port, behind what is kept of the same root: the packet that came in of which
    /// it is, by its place in the burst.
    pub(crate) fn keep(&mut self, place: u16, root: u8, mbuf: Mbuf, counters: &mut Counters) {
        if self.keeps >= KEPT {
            self.release(counters);
        }
        self.keeps += 1;
        self.kept[usize::from(root) % BURST].push((place, mbuf));
    }

    /// Whether there is something that is kept.
    #[inline]
    pub(crate) const fn keeps(&self) -> bool {
        self.keeps > 0
    }

    /// Sends what is kept, in the order in which the burst came, behind what waits.
    pub(crate) fn release(&mut self, counters: &mut Counters) {
        self.keeps = 0;
        for root in 0..BURST {
            let mut kept = std::mem::take(&mut self.kept[root]);
            kept.drain(..).for_each(|(place, mbuf)| self.send(place, mbuf, counters));
            self.kept[root] = kept;
        }
        self.flush_all(counters);
    }

    /// Puts a packet behind those that wait for a port.
    pub(crate) fn send(&mut self, place: u16, mbuf: Mbuf, counters: &mut Counters) {
        let at = usize::from(place);
        let Some(burst) = self.bursts.get_mut(at) else {
            counters.drop(DropReason::NoPort, 1);
            return;
        };
        if burst.room() == 0 {
            self.flush(at, counters);
        }
        // A burst that was just flushed has room.
        if self.bursts[at].push(mbuf).is_err() {
            counters.drop(DropReason::TransmitFull, 1);
        }
    }

    /// Sends a burst of so many bytes by one port; the burst is empty then.
    #[inline]
    pub(crate) fn send_all(&mut self, place: u16, burst: &mut Burst, bytes: u64, counters: &mut Counters) {
        let at = usize::from(place);
        if at >= self.bursts.len() {
            counters.drop(DropReason::NoPort, burst.len() as u64);
            burst.clear();
            return;
        }
        hand_out(&mut self.ports[at], burst, bytes, &self.taps, (counters, at));
    }

    /// Sends what waits, and counts what the ports do not take.
    #[inline]
    pub(crate) fn flush_all(&mut self, counters: &mut Counters) {
        for at in 0..self.bursts.len() {
            if !self.bursts[at].is_empty() {
                self.flush(at, counters);
            }
        }
    }

    #[inline]
    fn flush(&mut self, at: usize, counters: &mut Counters) {
        let Self { bursts, ports, taps, .. } = self;
        let bytes = length(&bursts[at]);
        hand_out(&mut ports[at], &mut bursts[at], bytes, taps, (counters, at));
    }
}

/// Bytes of a burst.
#[inline]
fn length(burst: &Burst) -> u64 {
    burst.iter().map(|packet| packet.len() as u64).sum()
}

/// Sends a burst of so many bytes, and counts what the port, which is at this place, does not take.
#[inline]
fn hand_out(
    port: &mut Option<OutPort>,
    burst: &mut Burst,
    bytes: u64,
    taps: &[Arc<Tap>],
    (counters, place): (&mut Counters, usize),
) {
    let Some(port) = port else {
        counters.drop(DropReason::NoPort, burst.len() as u64);
        burst.clear();
        return;
    };
    for tap in taps {
        for packet in burst.iter() {
            tap.offer_sent(port.number, packet.data());
        }
    }
    let (sent, too_long) = port.queue.transmit(burst);
    let counts = &mut counters.ports[place];
    counts.sent += sent as u64;
    counters.sent += sent as u64;
    counts.sent_bytes += bytes - too_long.bytes;
    if too_long.packets > 0 {
        counts.send_dropped += too_long.packets;
        counters.drop(DropReason::TooLong, too_long.packets);
    }
    let counts = &mut counters.ports[place];
    if !burst.is_empty() {
        let left = burst.len() as u64;
        counts.sent_bytes -= length(burst);
        counts.send_dropped += left;
        counters.drop(DropReason::TransmitFull, left);
        burst.clear();
    }
}
