//! What came back: each packet judged by its stamp.
//!
//! Loss, duplication and reordering are told apart by sequence numbers ([`crate::numbers`]). Where several threads send a
//! direction, each numbers its own packets, and order is told within what one of them sent. A packet whose stamp names an earlier trial is late, one with an unknown
//! stamp is foreign, unless it is what neighbours on a wire say by themselves. One that is not what must become
//! of the frame that its stamp names ([`crate::each`]), or fails its checksums, is damaged. Cost: a few nanoseconds a
//! packet, no allocation. A tracker is owned by one thread; a direction has one for each of the threads that receive it.

use crate::chatter::is_wire_chatter;
use crate::each::{Each, Look};
use crate::histogram::Delays;
use crate::intact::Integrity;
use crate::numbers::{Marks, Numbers};
use crate::probing::{self, Seen};
use crate::stamp::{Numbering, Reading, Stamp};
use crate::windows::{Grid, ReceivedWindows};
use std::sync::Arc;
use weir_cpu::Ticks;
use weir_trial::DirectionCounts;

/// What a tracker is to expect.
#[derive(Clone, Debug)]
pub(crate) struct TrackerSetup {
    /// The trial and direction that its packets carry.
    pub(crate) trial: u16,
    /// How they stand there.
    pub(crate) numbering: Numbering,
    /// Of each sender of the direction, what its packets are compared with; nothing where that is not known.
    pub(crate) streams: Vec<Option<Each>>,
    /// Bits of each sender's window, a power of two.
    pub(crate) window: u64,
    /// Of each sender, the marks that all receivers of the direction share; none where it has one receiver.
    pub(crate) shared: Vec<Arc<Marks>>,
    /// Whether every packet sent in this direction carries a stamp.
    pub(crate) all_stamped: bool,
    /// What every packet is held to; nothing where it cannot be known.
    pub(crate) integrity: Option<Integrity>,
    pub(crate) reading: Reading,
    pub(crate) grid: Grid,
    /// Most packets that are sent beside the schedule.
    pub(crate) probes: usize,
}

/// What one sender's packets are held against.
#[derive(Debug)]
struct Stream {
    numbers: Numbers,
    each: Option<Each>,
}

/// The judge of one direction's packets.
#[derive(Debug)]
pub(crate) struct Tracker {
    setup: TrackerSetup,
    streams: Vec<Stream>,
    delays: Delays,
    /// Delays of packets that were on their way while the tester paused.
    paused: Delays,
    windows: ReceivedWindows,
    received: u64,
    duplicated: u64,
    late: u64,
    foreign: u64,
    damaged: u64,
    /// Of the damaged, those that were told by the frame that their stamp names.
    changed: u64,
    negative: u64,
    chatter: u64,
    /// The greatest delay, in ticks.
    longest: u64,
    /// Packets that were sent beside the schedule.
    probes: Seen,
}

impl Tracker {
    pub(crate) fn new(mut setup: TrackerSetup) -> Self {
        let setup_probes = setup.probes;
        let each = std::mem::take(&mut setup.streams).into_iter();
        let mut shared = std::mem::take(&mut setup.shared).into_iter();
        let mut numbers = || shared.next().map_or_else(|| Numbers::alone(setup.window), Numbers::shared);
        let streams = each.map(|each| Stream { numbers: numbers(), each }).collect();
        Self {
            streams,
            delays: Delays::new(),
            paused: Delays::new(),
            windows: ReceivedWindows::new(setup.grid),
            setup,
            received: 0,
            duplicated: 0,
            late: 0,
            foreign: 0,
            damaged: 0,
            changed: 0,
            negative: 0,
            chatter: 0,
            longest: 0,
            probes: Seen::new(setup_probes),
        }
    }

    /// Judges one packet that came by a port at `now`, to a thread whose last pause ended at `paused`. False
    /// where it is none that must come: nobody sent it, or it was changed on its way.
    #[inline]
    pub(crate) fn judge(&mut self, frame: &[u8], port: u8, now: Ticks, paused: Ticks) -> bool {
        let stamp = self.setup.reading.read(frame);
        let Some(stamp) = stamp.filter(|stamp| stamp.trial == self.setup.trial) else {
            return self.judge_other(frame, stamp, port);
        };
        let Some(stream) = self.streams.get_mut(stamp.stream()) else {
            return self.strange(frame, !self.is_intact(frame));
        };
        match stream.each.as_mut().map_or(Look::Open, |each| each.look(stamp, port, frame)) {
            Look::Right => {}
            Look::Wrong => {
                self.damaged += 1;
                self.changed += 1;
                return false;
            }
            Look::Open if !self.is_intact(frame) => return self.strange(frame, true),
            Look::Open => {}
        }
        let Some(stream) = self.streams.get_mut(stamp.stream()) else { return false };
        if stream.numbers.note(stamp.number()) {
            self.received += 1;
            self.time(stamp, now, paused);
        } else {
            self.duplicated += 1;
        }
        true
    }

    /// Whether a packet's checksums hold, as far as they must.
    #[inline]
    fn is_intact(&self, frame: &[u8]) -> bool {
        self.setup.integrity.is_none_or(|integrity| integrity.holds(frame))
    }

    /// Judges a packet without a stamp, or with that of another trial or direction.
    fn judge_other(&mut self, frame: &[u8], stamp: Option<Stamp>, port: u8) -> bool {
        if let Some(stamp) = stamp.filter(|stamp| stamp.trial == probing::TRIAL) {
            self.probes.note(stamp.sequence, port);
            return true;
        }
        if !self.is_intact(frame) {
            return self.strange(frame, true);
        }
        match stamp {
            // A stamp of this direction with another trial is late; of another direction, nobody's.
            Some(stamp) if self.setup.numbering.same_direction(stamp.trial, self.setup.trial) => {
                self.late += 1;
            }
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

    /// Packets that were sent beside the schedule and came back.
    pub(crate) fn probes(&self) -> &Seen {
        &self.probes
    }

    /// Adds the findings to the sender's counts.
    pub(crate) fn complete(&self, counts: &mut DirectionCounts) {
        counts.received += self.received;
        counts.duplicated += self.duplicated;
        counts.reordered += self.streams.iter().map(|stream| stream.numbers.reordered()).sum::<u64>();
        counts.late += self.late;
        counts.foreign += self.foreign;
        counts.damaged += self.damaged;
    }

    /// The packets of each sender, as they were held against its frames, and its place among the direction's.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &Each)> {
        self.streams.iter().enumerate().filter_map(|(place, stream)| Some((place, stream.each.as_ref()?)))
    }

    /// Packets held against the frames that their stamps name, and those of them that were something else.
    pub(crate) fn compared(&self) -> (u64, u64) {
        (self.each().map(|(_, each)| each.compared()).sum(), self.changed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::key;

    const W: u64 = 1 << 16;

    fn tracker() -> Tracker {
        tracker_of(Vec::new())
    }

    fn tracker_of(shared: Vec<Arc<Marks>>) -> Tracker {
        let grid = Grid { start: Ticks(0), length: 1_000, shift: 10 };
        Tracker::new(TrackerSetup {
            trial: 4,
            numbering: Numbering::of(2),
            streams: vec![None, None],
            window: W,
            shared,
            all_stamped: true,
            integrity: None,
            reading: Reading::Plain,
            grid,
            probes: 4,
        })
    }

    fn frame(trial: u16, sequence: u64) -> Vec<u8> {
        let mut frame = vec![0; 60];
        let at = frame.len() - Stamp::BYTES;
        Stamp { trial, sequence, tsc: 100 }.write(&mut frame[at..], key());
        frame
    }

    fn judged(sequences: &[u64]) -> DirectionCounts {
        let mut tracker = tracker();
        for sequence in sequences {
            assert!(tracker.judge(&frame(4, *sequence), 0, Ticks(600), Ticks(0)));
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
        let far = 3 * W + 17;
        let counts = judged(&[0, 1, 2, far, far - 1, far - W + 1, far]);
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (6, 1, 2));
    }

    #[test]
    fn a_place_in_the_window_is_used_again_for_later_numbers() {
        let mut sequences: Vec<u64> = (0..W).collect();
        sequences.extend((W..3 * W).step_by(7));
        sequences.extend([3 * W - W / 2 + 1]);
        let counts = judged(&sequences);
        assert_eq!(counts.duplicated, u64::from((3 * W - W / 2 + 1 - W).is_multiple_of(7)));
        assert_eq!(counts.received + counts.duplicated, sequences.len() as u64);
    }

    #[test]
    fn late_and_foreign_packets_are_not_received() {
        let mut tracker = tracker();
        tracker.judge(&frame(2, 0), 0, Ticks(600), Ticks(0)); // the trial before
        tracker.judge(&frame(2, 1), 0, Ticks(600), Ticks(0)); // and again: one more than of the other direction
        tracker.judge(&frame(5, 0), 0, Ticks(600), Ticks(0)); // the other direction's packet
        tracker.judge(&[0; 60], 0, Ticks(600), Ticks(0)); // no stamp
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.received, counts.late, counts.foreign), (0, 2, 2));
    }

    #[test]
    fn what_was_sent_beside_the_schedule_is_noted_with_its_port_and_counts_nowhere() {
        let mut tracker = tracker();
        for (sequence, port) in [(7, 1), (8, 0)] {
            assert!(tracker.judge(&frame(probing::TRIAL, sequence), port, Ticks(600), Ticks(0)));
        }
        assert_eq!(tracker.probes().all(), [(7, 1), (8, 0)]);
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!(counts, DirectionCounts::default());
    }

    #[test]
    fn each_sender_of_a_direction_has_an_order_of_its_own() {
        let of = |stream, number| Stamp::first_of(stream) + number;
        let counts = judged(&[of(0, 0), of(1, 0), of(1, 1), of(0, 1), of(0, 3), of(1, 1), of(0, 2)]);
        assert_eq!((counts.received, counts.duplicated, counts.reordered), (6, 1, 1));
        let mut tracker = tracker();
        assert!(!tracker.judge(&frame(4, of(2, 0)), 0, Ticks(600), Ticks(0)), "there is no third sender");
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.foreign, counts.damaged), (1, 0), "it is whole, and nobody sent it");
    }

    #[test]
    fn several_receivers_of_a_direction_count_together_as_one_does() {
        let of = |stream, number| Stamp::first_of(stream) + number;
        // A duplicate that comes to the other receiver, one that comes to the same, and order across both.
        let came = [of(0, 0), of(1, 0), of(0, 2), of(0, 2), of(0, 1), of(1, 1), of(0, 1), of(1, 0), of(1, 5)];
        let marks = vec![Arc::new(Marks::new(W)), Arc::new(Marks::new(W))];
        let mut receivers = [tracker_of(marks.clone()), tracker_of(marks)];
        for (turn, sequence) in came.iter().enumerate() {
            assert!(receivers[turn / 2 % 2].judge(&frame(4, *sequence), 0, Ticks(600), Ticks(0)));
        }
        let mut together = DirectionCounts::default();
        receivers.iter().for_each(|one| one.complete(&mut together));
        assert_eq!(together, judged(&came));
        assert_eq!((together.received, together.duplicated, together.reordered), (6, 3, 1));
        assert!(receivers.iter().all(|one| one.received() > 0), "both had some");
    }

    #[test]
    fn packets_on_their_way_in_a_pause_and_from_the_future_are_told_apart() {
        let mut tracker = tracker();
        // Stamped at 100: sent before the pause that ended at 101, or just as one ended.
        tracker.judge(&frame(4, 0), 0, Ticks(600), Ticks(101));
        tracker.judge(&frame(4, 1), 0, Ticks(600), Ticks(100));
        tracker.judge(&frame(4, 2), 0, Ticks(99), Ticks(0));
        let mut lldp = vec![0; 60];
        lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert!(tracker.judge(&lldp, 0, Ticks(600), Ticks(0)), "no sample is taken of it");
        assert_eq!((tracker.received(), tracker.oddities()), (3, (1, 1)));
        assert_eq!(tracker.longest(), 500);
        let mut windows = [weir_trial::windows::Window::default()];
        tracker.windows().pour(&mut windows);
        assert_eq!((windows[0].received, windows[0].delay), (3, 1_000), "a delay below nothing adds none");
        let count = |delays: &Delays| {
            let mut histogram = weir_units::LatencyHistogram::default();
            delays.pour(weir_cpu::Tsc::get(), &mut histogram);
            histogram.count()
        };
        assert_eq!((count(tracker.delays()), count(tracker.paused())), (1, 1));
        let mut counts = DirectionCounts::default();
        tracker.complete(&mut counts);
        assert_eq!((counts.foreign, counts.damaged), (0, 0));
    }
}
