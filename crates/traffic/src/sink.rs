//! What came back: each packet judged by its stamp.
//!
//! Loss, duplication and reordering are told apart by sequence numbers: a number above all seen is
//! in order; one below is reordered (RFC 4737, section 3) or, if its bit in the window is set, a
//! duplicate. Where several threads send a direction, each numbers its own packets, and order is told
//! within what one of them sent. A packet whose stamp names an earlier trial is late, one with an unknown
//! stamp is foreign, unless it is what neighbours on a wire say by themselves. Cost: a few nanoseconds a
//! packet, no allocation. One tracker a direction, owned by one thread.

use crate::chatter::is_wire_chatter;
use crate::histogram::Delays;
use crate::intact::Integrity;
use crate::stamp::{Reading, Stamp};
use crate::windows::{Grid, ReceivedWindows};
use weir_dpdk::Ticks;
use weir_trial::DirectionCounts;

/// Sequence numbers told apart behind the greatest seen; a packet later than that counts as reordered.
pub const WINDOW: u64 = 1 << 16;

/// What of one sender's numbers was seen.
#[derive(Debug)]
struct Numbers {
    /// One above the greatest seen.
    expected: u64,
    seen: Box<[u64; (WINDOW / 64) as usize]>,
    reordered: u64,
}

/// What a tracker is to expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackerSetup {
    /// The trial and direction that its packets carry.
    pub(crate) trial: u16,
    /// Senders of the direction.
    pub(crate) streams: usize,
    /// Whether every packet sent in this direction carries a stamp.
    pub(crate) all_stamped: bool,
    /// What every packet is held to; nothing where it cannot be known.
    pub(crate) integrity: Option<Integrity>,
    pub(crate) reading: Reading,
    pub(crate) grid: Grid,
}

/// The judge of one direction's packets.
#[derive(Debug)]
pub(crate) struct Tracker {
    setup: TrackerSetup,
    streams: Vec<Numbers>,
    delays: Delays,
    /// Delays of packets that were on their way while the tester paused.
    paused: Delays,
    windows: ReceivedWindows,
    received: u64,
    duplicated: u64,
    late: u64,
    foreign: u64,
    damaged: u64,
    negative: u64,
    chatter: u64,
    /// The greatest delay, in ticks.
    longest: u64,
}

impl Tracker {
    pub(crate) fn new(setup: TrackerSetup) -> Self {
        let numbers = |_| Numbers { expected: 0, seen: Box::new([0; (WINDOW / 64) as usize]), reordered: 0 };
        Self {
            setup,
            streams: (0..setup.streams).map(numbers).collect(),
            delays: Delays::new(),
            paused: Delays::new(),
            windows: ReceivedWindows::new(setup.grid),
            received: 0,
            duplicated: 0,
            late: 0,
            foreign: 0,
            damaged: 0,
            negative: 0,
            chatter: 0,
            longest: 0,
        }
    }

    /// Judges one packet that was received at `now` by a thread whose last pause ended at `paused`. False
    /// where the tester never sent such a one.
    #[inline]
    pub(crate) fn judge(&mut self, frame: &[u8], now: Ticks, paused: Ticks) -> bool {
        if self.setup.integrity.is_some_and(|integrity| !integrity.holds(frame)) {
            return self.strange(frame, true);
        }
        match self.setup.reading.read(frame) {
            Some(stamp) if stamp.trial == self.setup.trial => {
                let Some(numbers) = self.streams.get_mut(stamp.stream()) else {
                    return self.strange(frame, false);
                };
                if numbers.note(stamp.number()) {
                    self.received += 1;
                    self.time(stamp, now, paused);
                } else {
                    self.duplicated += 1;
                }
            }
            // The lowest bit is the direction; a stamp of this direction with another trial is late.
            Some(stamp) if (stamp.trial ^ self.setup.trial) & 1 == 0 => self.late += 1,
            None if !self.setup.all_stamped => self.received += 1,
            _ => return self.strange(frame, false),
        }
        true
    }

    /// Counts a received packet's delay.
    #[inline]
    fn time(&mut self, stamp: Stamp, now: Ticks, paused: Ticks) {
        let Some(delay) = now.0.checked_sub(stamp.tsc) else {
            self.negative += 1;
            self.windows.received(stamp.tsc, 0);
            return;
        };
        if stamp.tsc >= paused.0 {
            self.delays.record(delay);
        } else {
            self.paused.record(delay);
        }
        self.longest = self.longest.max(delay);
        self.windows.received(stamp.tsc, delay);
    }

    /// Counts a frame that is none of the tester's, or no longer. True where it belongs to the wire.
    #[cold]
    fn strange(&mut self, frame: &[u8], damaged: bool) -> bool {
        if is_wire_chatter(frame) {
            self.chatter += 1;
            return true;
        }
        if damaged {
            self.damaged += 1;
        } else {
            self.foreign += 1;
        }
        false
    }

    /// The trial begins at this tick.
    pub(crate) fn begin_at(&mut self, start: Ticks) {
        self.windows.begin_at(start);
    }

    /// The greatest delay so far, in ticks.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// Packets of this trial received so far, each once.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds the findings to the sender's counts.
    pub(crate) fn complete(&self, counts: &mut DirectionCounts) {
        counts.received += self.received;
        counts.duplicated += self.duplicated;
        counts.reordered += self.streams.iter().map(|numbers| numbers.reordered).sum::<u64>();
        counts.late += self.late;
        counts.foreign += self.foreign;
        counts.damaged += self.damaged;
    }

    /// Delays of the packets that no pause of the tester delayed.
    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    /// Delays of the others.
    pub(crate) fn paused(&self) -> &Delays {
        &self.paused
    }

    /// What came, window by window.
    pub(crate) fn windows(&self) -> &ReceivedWindows {
        &self.windows
    }

    /// Packets received before the time in their stamps, and frames of the wire's own protocols.
    pub(crate) fn oddities(&self) -> (u64, u64) {
        (self.negative, self.chatter)
    }
}

impl Numbers {
    /// Marks a sequence number; false when it was seen before.
    #[inline]
    fn note(&mut self, sequence: u64) -> bool {
        let (word, bit) = ((sequence % WINDOW / 64) as usize, 1_u64 << (sequence % 64));
        if sequence >= self.expected {
            self.forget_up_to(sequence);
            self.expected = sequence + 1;
            self.seen[word] |= bit;
            return true;
        }
        if self.expected - sequence <= WINDOW {
            if self.seen[word] & bit != 0 {
                return false;
            }
            self.seen[word] |= bit;
        }
        self.reordered += 1;
        true
    }

    /// Clears the marks of the numbers `expected..=sequence`, whose places held older ones.
    #[inline]
    fn forget_up_to(&mut self, sequence: u64) {
        if sequence == self.expected {
            self.seen[(sequence % WINDOW / 64) as usize] &= !(1 << (sequence % 64));
            return;
        }
        if sequence - self.expected >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for number in self.expected..=sequence {
            self.seen[(number % WINDOW / 64) as usize] &= !(1 << (number % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker() -> Tracker {
        let grid = Grid { start: Ticks(0), length: 1_000, shift: 10 };
        Tracker::new(TrackerSetup {
            trial: 4,
            streams: 2,
            all_stamped: true,
            integrity: None,
            reading: Reading::Plain,
            grid,
        })
    }

    fn frame(trial: u16, sequence: u64) -> Vec<u8> {
        let mut frame = vec![0; 60];
        let at = frame.len() - Stamp::BYTES;
        Stamp { trial, sequence, tsc: 100 }.write(&mut frame[at..]);
        frame
    }

    fn judged(sequences: &[u64]) -> DirectionCounts {
        let mut tracker = tracker();
        for sequence in sequences {
            assert!(tracker.judge(&frame(4, *sequence), Ticks(600), Ticks(0)));
        }
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        counts
    }

    #[test]
    fn packets_in_order_are_received_and_nothing_else() {
        let counts = judged(&(0..200_000).collect::<Vec<_>>());
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (200_000, 0, 0));
    }

    #[test]
    fn loss_duplication_and_reordering_are_told_apart() {
        let counts = judged(&[0, 1, 5, 3, 3, 5, 6, 2, 6]);
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (6, 3, 2));
    }

    #[test]
    fn a_gap_wider_than_the_window_leaves_no_false_duplicate() {
        let far = 3 * WINDOW + 17;
        let counts = judged(&[0, 1, 2, far, far - 1, far - WINDOW + 1, far]);
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (6, 1, 2));
    }

    #[test]
    fn a_place_in_the_window_is_used_again_for_later_numbers() {
        let mut sequences: Vec<u64> = (0..WINDOW).collect();
        sequences.extend((WINDOW..3 * WINDOW).step_by(7));
        sequences.extend([3 * WINDOW - WINDOW / 2 + 1]);
        let counts = judged(&sequences);
        assert_eq!(counts.duplicated, u64::from((3 * WINDOW - WINDOW / 2 + 1 - WINDOW).is_multiple_of(7)));
        assert_eq!(counts.received + counts.duplicated, sequences.len() as u64);
    }

    #[test]
    fn late_and_foreign_packets_are_not_received() {
        let mut tracker = tracker();
        tracker.judge(&frame(2, 0), Ticks(600), Ticks(0)); // the trial before
        tracker.judge(&frame(5, 0), Ticks(600), Ticks(0)); // the other direction's packet
        tracker.judge(&[0; 60], Ticks(600), Ticks(0)); // no stamp
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.received, counts.late, counts.foreign), (0, 1, 2));
    }

    #[test]
    fn each_sender_of_a_direction_has_an_order_of_its_own() {
        let of = |stream, number| Stamp::first_of(stream) + number;
        let counts = judged(&[of(0, 0), of(1, 0), of(1, 1), of(0, 1), of(0, 3), of(1, 1), of(0, 2)]);
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (6, 1, 1));
        let mut tracker = tracker();
        assert!(!tracker.judge(&frame(4, of(2, 0)), Ticks(600), Ticks(0)), "there is no third sender");
    }

    #[test]
    fn packets_on_their_way_in_a_pause_and_from_the_future_are_told_apart() {
        let mut tracker = tracker();
        // Stamped at 100: sent before the pause that ended at 101, or just as one ended.
        tracker.judge(&frame(4, 0), Ticks(600), Ticks(101));
        tracker.judge(&frame(4, 1), Ticks(600), Ticks(100));
        tracker.judge(&frame(4, 2), Ticks(99), Ticks(0));
        let mut lldp = vec![0; 60];
        lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert!(tracker.judge(&lldp, Ticks(600), Ticks(0)), "no sample is taken of it");
        assert_eq!((tracker.received(), tracker.oddities()), (3, (1, 1)));
        let count = |delays: &Delays| {
            let mut histogram = weir_units::LatencyHistogram::default();
            let config =
                weir_dpdk::EalConfig { memory: weir_dpdk::Memory::Normal, megabytes: 64, pci: false };
            let tsc = weir_dpdk::Tsc::get(weir_dpdk::Eal::init(config).expect("EAL starts anywhere"));
            delays.pour(tsc, &mut histogram);
            histogram.count()
        };
        assert_eq!((count(tracker.delays()), count(tracker.paused())), (1, 1));
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.foreign, counts.damaged), (0, 0));
    }
}
