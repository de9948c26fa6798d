//! What becomes of a tester's thread while a trial runs: its core, its clocks, its own pauses.

use crate::histogram::Lateness;
use std::time::Instant;
use weir_cpu::{Ticks, Tsc};
use weir_trial::health::{Clocks, CoreHealth, Pauses, ThreadReading, stolen};
use weir_trial::{Absence, Side};
use weir_units::Nanos;

/// Pauses of one thread that are kept one by one; beyond that the last grows over those behind it.
const MOST: usize = 1 << 15;
/// A tester that was away makes up for it in so many times as long: it sends faster than the load by then.
const MADE_UP: u64 = 2;

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

/// How long a pass of a tester's loop takes by itself at most, in ticks: on a slow core, and by what it handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassLimit {
    /// Of one that found nothing to do.
    pub(crate) empty: u64,
    /// And for each packet sent or received.
    pub(crate) packet: u64,
}

/// A thread's account of the time between two passes of its loop.
#[derive(Debug)]
pub(crate) struct Gaps {
    begin: Ticks,
    last: Ticks,
    /// A longer gap is none of the loop's own doing: the core was away.
    own: PassLimit,
    /// Gaps that come to more than this are a pause.
    limit: u64,
    /// Time that gaps took and that was not made up for since, and when the first of them began.
    debt: u64,
    since: Ticks,
    /// When the last gap ended.
    gone: Ticks,
    /// When the last pause ended.
    paused: Ticks,
    histogram: Lateness,
    absences: Vec<Absence>,
    pauses: (u32, u64, u64),
}

impl Gaps {
    /// Account of a trial that begins at `begin`. Gaps longer than `own` that come to more than `limit` ticks are a
    /// pause: one of them, or several so soon after one another that what fell due meanwhile
    /// could not be sent.
    pub(crate) fn new(begin: Ticks, own: PassLimit, limit: u64) -> Self {
        Self {
            begin,
            last: begin,
            own,
            limit,
            debt: 0,
            since: begin,
            gone: begin,
            paused: Ticks(0),
            histogram: Lateness::new(),
            absences: Vec::with_capacity(MOST),
            pauses: (0, 0, 0),
        }
    }

    /// A pass of the loop begins, after one that handled so many packets.
    #[inline]
    pub(crate) fn pass(&mut self, now: Ticks, packets: usize) {
        if now < self.begin {
            return;
        }
        let gap = now.since(self.last);
        self.histogram.record(gap);
        if gap > self.own.empty + self.own.packet * packets as u64 {
            self.gap(now, gap);
        }
        self.last = now;
    }

    /// The core was away. What is due meanwhile is made up for in [`MADE_UP`] times as long.
    #[cold]
    fn gap(&mut self, now: Ticks, gap: u64) {
        let ran = self.last.since(self.gone);
        self.debt = self.debt.saturating_sub(ran / MADE_UP);
        if self.debt == 0 {
            self.since = self.last;
        }
        self.debt += gap;
        self.gone = now;
        if self.debt > self.limit {
            self.pause(now);
            // What fell due before that is not sent any more.
            self.debt = self.limit;
        }
    }

    /// The gaps since the debt began are a pause; one that goes on is the same one.
    fn pause(&mut self, now: Ticks) {
        self.paused = now;
        let absence = Absence { side: Side::Tester, from: self.since.0, to: now.0 };
        let is_full = self.absences.len() == MOST;
        let length = match self.absences.last_mut().filter(|last| last.from == self.since.0 || is_full) {
            Some(last) => {
                self.pauses.1 += now.0 - last.to;
                last.to = now.0;
                now.0 - last.from
            }
            None => {
                self.absences.push(absence);
                self.pauses.0 += 1;
                self.pauses.1 += absence.to - absence.from;
                absence.to - absence.from
            }
        };
        self.pauses.2 = self.pauses.2.max(length);
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

    const OWN: PassLimit = PassLimit { empty: 50, packet: 10 };

    #[test]
    fn a_pass_may_take_longer_the_more_packets_it_handles() {
        let mut gaps = Gaps::new(Ticks(0), OWN, 0);
        // 150 ticks each: of a pass with ten packets its own, of one with nine none of its own.
        gaps.pass(Ticks(150), 10);
        assert!(gaps.absences().is_empty());
        gaps.pass(Ticks(300), 9);
        assert_eq!(gaps.absences(), [Absence { side: Side::Tester, from: 150, to: 300 }]);
    }

    #[test]
    fn a_gap_beyond_the_limit_is_an_absence_and_every_gap_is_counted() {
        let mut gaps = Gaps::new(Ticks(1_000), OWN, 50);
        [900, 999, 1_010, 1_060, 1_111].map(Ticks).into_iter().for_each(|now| gaps.pass(now, 0));
        // Twice the gap's time is enough to make up for it; the next one is another pause.
        [1_151, 1_191, 1_231, 2_000].map(Ticks).into_iter().for_each(|now| gaps.pass(now, 0));
        let absence = |from, to| Absence { side: Side::Tester, from, to };
        assert_eq!(gaps.absences(), [absence(1_060, 1_111), absence(1_231, 2_000)]);
        assert_eq!((gaps.paused(), gaps.pauses), (Ticks(2_000), (2, 820, 769)));
    }

    #[test]
    fn gaps_that_could_not_be_made_up_for_are_one_pause() {
        let mut gaps = Gaps::new(Ticks(0), OWN, 100);
        // 60 ticks each, with 40 between them: the second makes too much of them, the third goes on.
        [60, 80, 100, 160, 200, 260].map(Ticks).into_iter().for_each(|now| gaps.pass(now, 0));
        let absence = Absence { side: Side::Tester, from: 0, to: 260 };
        assert_eq!((gaps.absences(), gaps.pauses), (&[absence][..], (1, 260, 260)));
        // One that is made up for begins anew, and is none by itself.
        (0..10).for_each(|step| gaps.pass(Ticks(300 + 40 * step), 0));
        gaps.pass(Ticks(720), 0);
        assert_eq!((gaps.absences().len(), gaps.paused()), (1, Ticks(260)));
    }

    #[test]
    fn pauses_beyond_the_room_for_them_are_absent_all_the_same() {
        let mut gaps = Gaps::new(Ticks(0), OWN, 50);
        // Each is made up for before the next.
        (1..=MOST as u64 + 10).for_each(|pass| {
            gaps.pass(Ticks(1_000 * pass), 0);
            (1..20).for_each(|step| gaps.pass(Ticks(1_000 * pass + 45 * step), 0));
        });
        assert_eq!((gaps.absences.len(), gaps.absences.capacity()), (MOST, MOST));
        assert_eq!(gaps.absences().last().unwrap().to, 1_000 * (MOST as u64 + 10));
    }
}
