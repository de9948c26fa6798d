//! Counts by window, taken while a trial runs: by the sender of what it offered, by the tracker of what
//! came back. [`weir_trial::windows`] says what is made of them.
//!
//! Cost: a subtraction, a shift and an addition; a burst is one visit for the sender. The memory is
//! taken, and touched, before the trial.

use weir_cpu::{Ticks, Tsc};
use weir_trial::windows::Window;
use weir_units::Nanos;

/// Windows are at most this long, unless a trial has too many of them: a hypervisor takes a core for some 100
/// microseconds at a time, and what is left out beside that is lost to the trial.
const LONGEST: Nanos = Nanos(200_000);
/// Windows of a trial, at most: longer trials have longer windows.
const MOST: u64 = 1 << 16;

/// How a trial is cut into windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// When the trial begins.
    pub(crate) start: Ticks,
    /// Its length in ticks.
    pub(crate) length: u64,
    /// A window is 2 to the power of this many ticks long.
    pub(crate) shift: u32,
}

impl Grid {
    pub(crate) fn new(start: Ticks, length: u64, tsc: Tsc) -> Self {
        let mut shift = tsc.ticks(LONGEST).max(1).ilog2();
        while length >> shift >= MOST {
            shift += 1;
        }
        Self { start, length, shift }
    }

    /// Places for every window of the trial; the last also takes what comes behind its end.
    fn places(self) -> usize {
        self.length.div_ceil(1 << self.shift).max(1) as usize
    }
}

/// What one sender offered.
#[derive(Debug, Default)]
pub(crate) struct SentWindows {
    shift: u32,
    windows: Vec<Window>,
}

impl SentWindows {
    /// Begins a trial.
    pub(crate) fn begin(&mut self, grid: Grid) {
        self.shift = grid.shift;
        self.windows.clear();
        self.windows.resize(grid.places(), Window::default());
    }

    /// The window of a moment, in ticks since the trial began; none where no trial runs.
    #[inline]
    fn at(&mut self, ticks: u64) -> Option<&mut Window> {
        let last = self.windows.len().checked_sub(1)?;
        self.windows.get_mut(last.min((ticks >> self.shift) as usize))
    }

    #[inline]
    pub(crate) fn offered(&mut self, ticks: u64, sent: usize, refused: usize) {
        if let Some(window) = self.at(ticks) {
            window.sent += sent as u32;
            window.refused += refused as u32;
        }
    }

    pub(crate) fn unsent(&mut self, ticks: u64, count: u64) {
        if let Some(window) = self.at(ticks) {
            window.unsent = window.unsent.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Counts packets offered in the window of this moment, and late.
    #[inline]
    pub(crate) fn late(&mut self, ticks: u64, count: u64) {
        if let Some(window) = self.at(ticks) {
            window.late = window.late.saturating_add(count as u32);
        }
    }

    /// The first moment behind the window of a moment.
    pub(crate) fn end_of(&self, ticks: u64) -> u64 {
        match (ticks >> self.shift) as usize {
            place if place + 1 < self.windows.len() => (place as u64 + 1) << self.shift,
            _ => u64::MAX,
        }
    }

    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows
    }
}

/// What came back to one tracker.
#[derive(Debug)]
pub(crate) struct ReceivedWindows {
    start: u64,
    shift: u32,
    /// Packets, and the sum of their delays in ticks.
    windows: Vec<(u32, u64)>,
}

impl ReceivedWindows {
    pub(crate) fn new(grid: Grid) -> Self {
        let mut windows = vec![(1, 1); grid.places()];
        windows.fill((0, 0));
        Self { start: grid.start.0, shift: grid.shift, windows }
    }

    /// The trial begins at this tick.
    pub(crate) fn begin_at(&mut self, start: Ticks) {
        self.start = start.0;
    }

    /// Counts a packet sent at `stamp`. One whose stamp lies before the trial has no window.
    #[inline]
    pub(crate) fn received(&mut self, stamp: u64, delay: u64) {
        let place = (stamp.wrapping_sub(self.start) >> self.shift) as usize;
        if let Some((packets, delays)) = self.windows.get_mut(place) {
            *packets += 1;
            *delays += delay;
        } else {
            self.behind(stamp, delay);
        }
    }

    /// What was sent behind the last window's end belongs to it.
    #[cold]
    fn behind(&mut self, stamp: u64, delay: u64) {
        if let Some((packets, delays)) = self.windows.last_mut().filter(|_| stamp >= self.start) {
            *packets += 1;
            *delays = delays.saturating_add(delay);
        }
    }

    /// Adds the counts to those of the sender.
    pub(crate) fn pour(&self, into: &mut [Window]) {
        for (window, (packets, delays)) in into.iter_mut().zip(&self.windows) {
            window.received += packets;
            window.delay += delays;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_and_what_comes_meet_in_the_window_of_the_stamp() {
        let grid = Grid { start: Ticks(1_000), length: 10_000, shift: 10 };
        let (mut sent, mut came) = (SentWindows::default(), ReceivedWindows::new(grid));
        sent.offered(5, 1, 0); // no trial runs: counted nowhere
        sent.begin(grid);
        for (at, count) in [(0, 3), (1_023, 1), (1_024, 5), (9_999, 2), (99_999, 1)] {
            sent.offered(at, count, 1);
            (0..count).for_each(|_| came.received(1_000 + at, 7));
        }
        sent.unsent(2_048, 9);
        came.received(999, 7);
        came.received(0, 7);
        let mut windows = sent.windows().to_vec();
        came.pour(&mut windows);
        assert_eq!(windows.len(), 10);
        assert_eq!(windows[0], Window { sent: 4, refused: 2, received: 4, delay: 28, ..Window::default() });
        assert_eq!(windows[1].received, 5);
        assert_eq!(windows[2], Window { unsent: 9, ..Window::default() });
        assert_eq!(windows[9], Window { sent: 3, refused: 2, received: 3, delay: 21, ..Window::default() });
        assert_eq!((sent.end_of(0), sent.end_of(1_024), sent.end_of(9_300)), (1_024, 2_048, u64::MAX));
    }

    #[test]
    fn a_window_is_a_fraction_of_a_millisecond_and_longer_where_a_trial_takes_hours() {
        let tsc = Tsc::get();
        let length = |seconds: u64| {
            let grid = Grid::new(Ticks(0), tsc.ticks(Nanos(seconds * Nanos::PER_SECOND)), tsc);
            assert!(grid.places() <= MOST as usize);
            tsc.nanos(1 << grid.shift).0
        };
        assert!((100_000..=200_000).contains(&length(1)), "{}", length(1));
        assert!((100_000_000..2_000_000_000).contains(&length(8 * 3600)), "{}", length(8 * 3600));
    }
}
