//! What becomes of a tester's thread while a trial runs: its core, its clocks, its own pauses.

use crate::histogram::Lateness;
use std::time::Instant;
use weir_dpdk::{Ticks, Tsc};
use weir_trial::health::{Clocks, CoreHealth, Pauses, ThreadReading, stolen};
use weir_trial::{Absence, Side};
use weir_units::Nanos;

/// Pauses of one thread that are kept one by one; beyond that the last grows over those behind it.
const MOST: usize = 1 << 15;

/// Reads the calling thread, its core and both clocks before and after a trial.
#[derive(Debug)]
pub(crate) struct Watch {
    core: u32,
    thread: Option<ThreadReading>,
    stolen: Option<Nanos>,
    at: (Ticks, Instant),
}

impl Watch {
    pub(crate) fn start(core: usize) -> Self {
        let core = core as u32;
        let (thread, stolen) = (ThreadReading::of_self(), stolen(core));
        Self { core, thread, stolen, at: Ticks::with_clock() }
    }

    pub(crate) fn end(self, tsc: Tsc) -> (Option<CoreHealth>, Clocks) {
        let (begin, end) = (self.at, Ticks::with_clock());
        let tsc = tsc.nanos(end.0.since(begin.0));
        let clocks = Clocks { tsc, monotonic: end.1.duration_since(begin.1).into() };
        let threads = self.thread.zip(ThreadReading::of_self());
        let now = stolen(self.core);
        (threads.map(|threads| CoreHealth::between(self.core, threads, (self.stolen, now))), clocks)
    }
}

/// A thread's account of the time between two passes of its loop.
#[derive(Debug)]
pub(crate) struct Gaps {
    begin: Ticks,
    last: Ticks,
    /// A gap longer than this is a pause.
    limit: u64,
    /// When the last pause ended.
    paused: Ticks,
    histogram: Lateness,
    absences: Vec<Absence>,
    pauses: (u32, u64, u64),
}

impl Gaps {
    /// Account of a trial that begins at `begin`; a gap of more than `limit` ticks is a pause.
    pub(crate) fn new(begin: Ticks, limit: u64) -> Self {
        Self {
            begin,
            last: begin,
            limit,
            paused: Ticks(0),
            histogram: Lateness::new(),
            absences: Vec::with_capacity(MOST),
            pauses: (0, 0, 0),
        }
    }

    /// A pass of the loop begins.
    #[inline]
    pub(crate) fn pass(&mut self, now: Ticks) {
        if now < self.begin {
            return;
        }
        let gap = now.since(self.last);
        self.histogram.record(gap);
        if gap > self.limit {
            self.pause(now, gap);
        }
        self.last = now;
    }

    #[cold]
    fn pause(&mut self, now: Ticks, gap: u64) {
        self.paused = now;
        self.pauses = (self.pauses.0 + 1, self.pauses.1 + gap, self.pauses.2.max(gap));
        let absence = Absence { side: Side::Tester, from: self.last.0, to: now.0 };
        match self.absences.last_mut().filter(|_| self.pauses.0 as usize > MOST) {
            Some(last) => last.to = now.0,
            None => self.absences.push(absence),
        }
    }

    /// When the last pause ended; zero where there was none.
    #[inline]
    pub(crate) fn paused(&self) -> Ticks {
        self.paused
    }

    /// The times in which the thread did not run.
    pub(crate) fn absences(&self) -> &[Absence] {
        &self.absences
    }

    pub(crate) fn histogram(&self) -> &Lateness {
        &self.histogram
    }

    pub(crate) fn pauses(&self, tsc: Tsc) -> Pauses {
        let (count, total, longest) = self.pauses;
        Pauses { count, total: tsc.nanos(total), longest: tsc.nanos(longest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_beyond_the_limit_is_an_absence_and_every_gap_is_counted() {
        let mut gaps = Gaps::new(Ticks(1_000), 50);
        [900, 999, 1_010, 1_060, 1_111, 1_120, 2_000].map(Ticks).into_iter().for_each(|now| gaps.pass(now));
        let absence = |from, to| Absence { side: Side::Tester, from, to };
        assert_eq!(gaps.absences(), [absence(1_060, 1_111), absence(1_120, 2_000)]);
        assert_eq!((gaps.paused(), gaps.pauses), (Ticks(2_000), (2, 931, 880)));
    }

    #[test]
    fn pauses_beyond_the_room_for_them_are_absent_all_the_same() {
        let mut gaps = Gaps::new(Ticks(0), 50);
        (1..=MOST as u64 + 10).for_each(|pass| gaps.pass(Ticks(100 * pass)));
        assert_eq!((gaps.absences.len(), gaps.absences.capacity()), (MOST, MOST));
        assert_eq!(gaps.absences().last().unwrap().to, 100 * (MOST as u64 + 10));
    }
}
