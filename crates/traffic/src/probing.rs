//! Packets beside a trial's schedule, and sleep between two looks at the ports.
//!
//! While a controller changes the flow entries of a device, the tester sends packets for one of them, so many a
//! second: by which port they come out, or whether they do, says which entry was in force when they were sent
//! ([`weir_trial::changes`]). They carry stamps of a trial of their own, count nowhere, and are sent in the trials without
//! changes alike.
//!
//! Where the device's controlling threads have no core but the tester's, it sleeps between passes ([`Probing::nap`]),
//! at real-time priority where it may have it: so they run, and it is back in time. It sends what fell due
//! meanwhile in a burst, and a delay may be longer by the sleep.
//!
//! Cost: 50 ns a probe; a sleep costs the core some microseconds. No allocation while a trial runs.

use crate::sender::Sender;
use crate::stamp::Stamp;
use std::time::Duration;
use weir_cpu::{Ticks, Tsc};
use weir_dpdk::{BURST, Burst};
use weir_trial::changes::Probe;
use weir_units::Nanos;

/// What stands for the trial in the stamps of these packets: none is numbered so, within 32,766 trials of a tester.
pub(crate) const TRIAL: u16 = u16::MAX;

/// What is sent beside the schedule of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    /// The frame, with room for a stamp at its end that no checksum covers. It is sent in direction 0.
    pub frame: Vec<u8>,
    /// Time between two.
    pub every: Nanos,
    /// How long the tester sleeps between two passes of its loop; nothing where it has its core for itself.
    pub nap: Option<Nanos>,
}

impl Probing {
    /// Most packets in a trial of so long.
    pub(crate) fn most(&self, trial: Nanos) -> usize {
        (trial.0 / self.every.0.max(1)) as usize + 1
    }
}

/// Sends these packets during a trial.
#[derive(Debug)]
pub(crate) struct Prober {
    frame: Vec<u8>,
    /// Ticks between two.
    every: u64,
    next: Ticks,
    /// Number of the first.
    first: u64,
    /// Place of the sender.
    place: usize,
    /// When each was sent; its capacity is all there may be.
    sent: Vec<u64>,
    burst: Burst,
}

impl Prober {
    /// For a trial that begins at `start` and takes `length` ticks.
    pub(crate) fn new(
        probing: &Probing,
        place: usize,
        first: u64,
        (start, length): (Ticks, u64),
        tsc: Tsc,
    ) -> Self {
        let most = probing.most(tsc.nanos(length));
        Self {
            frame: probing.frame.clone(),
            every: tsc.ticks(probing.every).max(1),
            next: start,
            first,
            place,
            sent: Vec::with_capacity(most),
            burst: Burst::new(),
        }
    }

    /// Place of its sender among those of its thread.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Sends one, if it is time.
    #[inline]
    pub(crate) fn probe(&mut self, now: Ticks, sender: &mut Sender) {
        if now < self.next || self.sent.len() == self.sent.capacity() {
            return;
        }
        self.next = Ticks(now.0 + self.every);
        let tsc = Ticks::now().0;
        let stamp = Stamp { trial: TRIAL, sequence: self.first + self.sent.len() as u64, tsc };
        if sender.send_beside(&mut self.burst, &self.frame, stamp) {
            self.sent.push(tsc);
        }
    }

    /// When each was sent.
    pub(crate) fn into_sent(self) -> Vec<u64> {
        self.sent
    }
}

/// Those that came back: number and port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Vec<(u64, u8)>);

impl Seen {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> Self {
        Self(Vec::with_capacity(most))
    }

    /// One came by a port; beyond the room nothing is noted.
    #[cold]
    pub(crate) fn note(&mut self, number: u64, port: u8) {
        if self.0.len() < self.0.capacity() {
            self.0.push((number, port));
        }
    }

    pub(crate) fn all(&self) -> &[(u64, u8)] {
        &self.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// All that were sent, from number `first` on, and what came of each.
pub(crate) fn together<'a>(first: u64, sent: &[u64], seen: impl Iterator<Item = &'a Seen>) -> Vec<Probe> {
    let mut probes: Vec<Probe> = sent.iter().map(|sent| Probe { sent: *sent, port: None }).collect();
    for (number, port) in seen.flat_map(Seen::all) {
        let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(probe) = place.and_then(|place| probes.get_mut(place)) {
            probe.port = Some(*port);
        }
    }
    probes
}

/// Sleep between passes of a loop.
#[derive(Debug)]
pub(crate) struct Nap {
    length: Option<Duration>,
    offered: u64,
}

impl Nap {
    pub(crate) fn of(probing: Option<&Probing>) -> Self {
        Self { length: probing.and_then(|probing| probing.nap).map(Nanos::duration), offered: 0 }
    }

    /// Sleeps behind a pass that had less than a burst to receive and to send: there is no more to do.
    #[inline]
    pub(crate) fn after_pass(&mut self, came: usize, offered: impl FnOnce() -> u64) {
        let Some(length) = self.length else { return };
        let offered = offered();
        let sent = offered - self.offered.min(offered);
        self.offered = offered;
        if came < BURST && sent < BURST as u64 {
            std::thread::sleep(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_has_the_port_that_it_came_by_and_those_of_earlier_trials_none() {
        let (mut one, mut other) = (Seen::new(2), Seen::new(3));
        [(99, 1), (100, 0), (102, 1)].into_iter().for_each(|(number, port)| one.note(number, port));
        other.note(103, 1);
        other.note(104, 1);
        let found = together(100, &[10, 20, 30, 40], [&one, &other].into_iter());
        let probe = |sent, port| Probe { sent, port };
        let expected = [probe(10, Some(0)), probe(20, None), probe(30, None), probe(40, Some(1))];
        assert_eq!(found, expected, "the third found no room");
        assert_eq!((one.count(), other.count()), (2, 2));
    }

    #[test]
    fn a_trial_has_room_for_all_its_probes() {
        let probing = Probing { frame: Vec::new(), every: Nanos(100_000), nap: None };
        assert_eq!(probing.most(Nanos(800_000_000)), 8_001);
    }
}
