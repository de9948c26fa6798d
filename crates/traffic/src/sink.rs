//! What came back: each packet judged by its stamp.
//!
//! Loss, duplication and reordering are told apart by sequence numbers: a number above all seen is
//! in order; one below is reordered (RFC 4737, section 3) or, if its bit in the window is set, a
//! duplicate. A packet whose stamp names an earlier trial is late, one with an unknown stamp is
//! foreign. Cost: a few nanoseconds a packet, no allocation. One tracker a direction.

use crate::intact::Integrity;
use crate::stamp::Reading;
use weir_dpdk::{Ticks, Tsc};
use weir_trial::DirectionCounts;
use weir_units::LatencyHistogram;

/// Sequence numbers told apart behind the greatest seen; a packet later than that counts as reordered.
pub const WINDOW: u64 = 1 << 16;

/// Latencies in ticks, in log-linear buckets: exact below 2,048 ticks, within 0.1 % above.
#[derive(Debug)]
struct TickHistogram {
    buckets: Vec<u64>,
}

const SUB_BITS: u32 = 10;

impl TickHistogram {
    fn new() -> Self {
        Self { buckets: vec![0; ((64 - SUB_BITS as usize) + 1) << SUB_BITS] }
    }

    #[inline]
    fn record(&mut self, ticks: u64) {
        self.buckets[Self::bucket(ticks)] += 1;
    }

    #[inline]
    fn bucket(ticks: u64) -> usize {
        let shift = (u64::BITS - 1 - (ticks | 1).leading_zeros()).saturating_sub(SUB_BITS);
        ((shift as usize) << SUB_BITS) + (ticks >> shift) as usize
    }

    /// The middle of a bucket, in ticks.
    fn middle(bucket: usize) -> u64 {
        let linear = 2 << SUB_BITS;
        if bucket < linear {
            return bucket as u64;
        }
        let shift = (bucket >> SUB_BITS) - 1;
        let mantissa = (bucket - (shift << SUB_BITS)) as u64;
        (mantissa << shift) + (1 << shift >> 1)
    }

    fn pour(&self, tsc: Tsc, into: &mut LatencyHistogram) {
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            into.record_many(tsc.nanos(Self::middle(bucket)), *count);
        }
    }
}

/// The judge of one direction's packets.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// The trial and direction that its packets carry.
    trial: u16,
    /// Whether every packet sent in this direction carries a stamp.
    all_stamped: bool,
    /// What every packet is held to; nothing where it cannot be known.
    integrity: Option<Integrity>,
    reading: Reading,
    /// One above the greatest sequence number seen.
    expected: u64,
    seen: Box<[u64; (WINDOW / 64) as usize]>,
    latencies: TickHistogram,
    received: u64,
    duplicated: u64,
    reordered: u64,
    late: u64,
    foreign: u64,
    damaged: u64,
}

impl Tracker {
    pub(crate) fn new(trial: u16, all_stamped: bool, integrity: Option<Integrity>, reading: Reading) -> Self {
        Self {
            trial,
            all_stamped,
            integrity,
            reading,
            expected: 0,
            seen: Box::new([0; (WINDOW / 64) as usize]),
            latencies: TickHistogram::new(),
            received: 0,
            duplicated: 0,
            reordered: 0,
            late: 0,
            foreign: 0,
            damaged: 0,
        }
    }

    /// Judges one packet that was received at `now`. False where the tester never sent such a one.
    #[inline]
    pub(crate) fn judge(&mut self, frame: &[u8], now: Ticks) -> bool {
        if self.integrity.is_some_and(|integrity| !integrity.holds(frame)) {
            self.damaged += 1;
            return false;
        }
        match self.reading.read(frame) {
            Some(stamp) if stamp.trial == self.trial => {
                if self.note(stamp.sequence) {
                    self.received += 1;
                    self.latencies.record(now.since(Ticks(stamp.tsc)));
                } else {
                    self.duplicated += 1;
                }
            }
            // The lowest bit is the direction; a stamp of this direction with another trial is late.
            Some(stamp) if (stamp.trial ^ self.trial) & 1 == 0 => self.late += 1,
            None if !self.all_stamped => self.received += 1,
            _ => {
                self.foreign += 1;
                return false;
            }
        }
        true
    }

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

    /// Packets of this trial received so far, each once.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds the findings to the sender's counts.
    pub(crate) fn complete(&self, counts: &mut DirectionCounts) {
        counts.received = self.received;
        counts.duplicated = self.duplicated;
        counts.reordered = self.reordered;
        counts.late = self.late;
        counts.foreign = self.foreign;
        counts.damaged = self.damaged;
    }

    /// Adds the latencies to a trial's histogram.
    pub(crate) fn pour(&self, tsc: Tsc, into: &mut LatencyHistogram) {
        self.latencies.pour(tsc, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn frame(trial: u16, sequence: u64) -> Vec<u8> {
        let mut frame = vec![0; 60];
        let at = frame.len() - Stamp::BYTES;
        Stamp { trial, sequence, tsc: 100 }.write(&mut frame[at..]);
        frame
    }

    fn judged(sequences: &[u64]) -> DirectionCounts {
        let mut tracker = Tracker::new(4, true, None, Reading::Plain);
        for sequence in sequences {
            assert!(tracker.judge(&frame(4, *sequence), Ticks(600)));
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
        let mut tracker = Tracker::new(4, true, None, Reading::Plain);
        tracker.judge(&frame(2, 0), Ticks(600)); // the trial before
        tracker.judge(&frame(5, 0), Ticks(600)); // the other direction's packet
        tracker.judge(&[0; 60], Ticks(600)); // no stamp
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.received, counts.late, counts.foreign), (0, 1, 2));
    }

    #[test]
    fn every_tick_count_falls_into_a_bucket_that_stands_for_it() {
        for ticks in (0..4096).chain((12..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 12345]))
        {
            let middle = TickHistogram::middle(TickHistogram::bucket(ticks));
            let error = middle.abs_diff(ticks) as f64 / ticks.max(1) as f64;
            assert!(error <= 0.001, "{ticks} stands as {middle}");
        }
    }
}
