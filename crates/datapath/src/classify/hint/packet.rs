//! Hints that a packet carries itself: its IPv4 identification names its megaflow.
//!
//! SoftFlow (section 7.3) had no NIC with a table, and wrote a rule's number into that field of each packet of a trace. The same is done here
//! ([`Experiment::hints`](crate::model::experiment::Experiment)): what a packet with some number was found to belong to is what the next one
//! with that number is taken to belong to, once it is verified as every hint is. A packet of number 0 has no hint.
//!
//! Cost: two bytes of the packet and a place of a table a packet, which stand for the mark that a NIC would have written beside it; no
//! emulation is left out of the account. Threads: the worker's.

use crate::classify::cache::Caches;
use crate::model::Packets;
use crate::model::experiment::{Draw, Share};
use crate::stats::report::HintReport;
use weir_classifier::{Found, Handle};
use weir_dpdk::{BURST, Burst};
use weir_flow::{Key, Layout, places};

/// Numbers that an IPv4 header can carry.
const NUMBERS: usize = 1 << 16;
/// Where it stands behind the beginning of the header.
const IDENTIFICATION: usize = 4;

/// What the numbers of a queue's packets name.
pub(crate) struct PacketHints {
    named: Vec<Handle>,
    offloaded: Draw,
    /// Of the burst at hand, the number of each packet with a hint that was not right.
    numbers: [u16; BURST],
    wanting: Packets,
}

impl PacketHints {
    /// Of so many of the packets.
    pub(crate) fn new(offloaded: Share) -> Self {
        let named = vec![Handle::NONE; NUMBERS];
        Self { named, offloaded: Draw::new(offloaded), numbers: [0; BURST], wanting: 0 }
    }

    /// Numbers, and those that name something.
    pub(crate) fn fill(&self) -> (usize, usize) {
        (NUMBERS, self.named.iter().filter(|handle| **handle != Handle::NONE).count())
    }

    /// See [`super::Hints::resolve`].
    pub(crate) fn resolve(
        &mut self,
        (burst, keys, layouts): (&Burst, &[Key], &[Layout]),
        wanted: Packets,
        caches: &mut Caches,
        (found, report): (&mut Found, &mut HintReport),
    ) -> Packets {
        let (mut hinted, mut wanting) = (0, 0);
        for (at, packet) in burst.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            let number = number_of(packet.data(), layouts[at]);
            self.numbers[at] = number;
            if number == 0 || !self.offloaded.next() {
                report.missed += 1;
                continue;
            }
            wanting |= 1 << at;
            let handle = self.named[usize::from(number)];
            if handle == Handle::NONE {
                report.missed += 1;
            } else {
                found.handles[at] = handle;
                hinted |= 1 << at;
            }
        }
        let hits = caches.confirm(keys, hinted, &found.handles);
        report.hits += u64::from(hits.count_ones());
        for at in places(hinted & !hits) {
            let is_there = caches.holds(found.handles[at]);
            report.wrong += u64::from(is_there);
            report.stale += u64::from(!is_there);
        }
        self.wanting = wanting & !hits;
        hits
    }

    /// What software found for packets whose hint was not right is what their numbers name from now on.
    pub(crate) fn learn(&mut self, seen: Packets, handles: &[Handle; BURST], report: &mut HintReport) {
        for at in places(seen & self.wanting) {
            self.named[usize::from(self.numbers[at])] = handles[at];
            report.written += 1;
        }
        self.wanting = 0;
    }
}

/// The number in a packet; 0 where it is not IPv4.
#[inline]
fn number_of(frame: &[u8], layout: Layout) -> u16 {
    let at = usize::from(layout.network);
    match frame.get(at..at + IDENTIFICATION + 2) {
        Some(header) if at != 0 && header[0] >> 4 == 4 => u16::from_be_bytes([header[4], header[5]]),
        _ => 0,
    }
}
