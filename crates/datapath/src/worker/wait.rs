//! What a worker does when nothing came: poll on, or give its core back for a while.
//!
//! What: `busy` polls on and does nothing else. `yield` lets in whoever shares its core once nothing came, and after
//! every [`TURN`] rounds that found packets: pollers that share a core take turns by bursts, not by the scheduler's milliseconds. `adaptive` backs off: it polls for as long as a sleep costs,
//! letting in whoever shares its core between two polls once nothing came for some microseconds, then rests by the CPU's power hint where there is one,
//! then sleeps, twice as long each time, until a packet comes. A sleep ends so early that, with the time by
//! which sleeps here have lately been late, a packet waits no longer than the stated time (some sleeps are later
//! than lately: they are counted, `docs/waiting.md` has how many); where they are later than that, there is no
//! sleep at all.
//!
//! Why so long a spin: whoever polls for as long as a sleep costs, and then sleeps, never pays more than
//! twice what the best choice would have (the ski-rental bound). Packets that come closer together than
//! a sleep costs therefore find a polling worker, and at full load there is nothing to be decided at all.
//!
//! Nothing is held back for a larger burst in any mode: what one poll returns is sent before the next.
//! Batches grow by themselves, with what came while the last was dealt with.
//!
//! Cost: nothing while packets come, but of `yield`, which costs a system call a turn; a clock reading, and later a
//! yield, a poll that found none. Threads: the worker's.
//! `docs/waiting.md` has what it costs in latency, and gives back in time.

use crate::model::poll::PollMode;
use crate::stats::report::WaitReport;
use crate::worker::doorbell::Doorbell;
use std::time::Duration;
use weir_cpu::{PowerHint, Ticks, fine_timers};
use weir_units::Nanos;

/// Who shares the core is let in after so long without a packet: where packets come faster, a ring does not hold what
/// comes in the milliseconds that somebody else may take.
const QUIET: Nanos = Nanos(5_000);

/// The first sleep is so many times shorter than the stated time.
const FIRST: u64 = 16;

/// By how much a sleep is taken to be late before one was seen.
const LATE_AT_FIRST: Nanos = Nanos(15_000);

/// No rest by hint is longer: about what a core takes to come back from it, a few times.
const HINT: Nanos = Nanos(2_000);

/// Time spent with hints before the first sleep.
const HINTED: Nanos = Nanos(10_000);

/// Time after which sleeps that were too late are tried again: one may be late each time.
const RETRY: Nanos = Nanos(Nanos::PER_SECOND);

/// A sleep counts as so many polls towards the next round of what is due.
const POLLS: u32 = 64;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Poll again.
    Spin,
    /// Poll again, after whoever shares the core.
    Yield,
    /// Rest by the CPU's hint, for so many ticks.
    Hint(u64),
    /// Sleep, for so many ticks.
    Sleep(u64),
}

/// Rounds in a row that find packets before a worker that yields lets others in: the queue behind a port takes
/// what comes of them.
const TURN: u32 = 16;

/// An adaptive worker's wait. Times are in ticks.
#[derive(Debug)]
pub(super) struct Backoff {
    within: u64,
    hint: Option<(PowerHint, u64, u64)>,
    /// Since when nothing came.
    idle_since: Option<Ticks>,
    /// The next sleep.
    next: u64,
    /// By how much sleeps are late: most of them by less.
    late: u64,
    /// How long nothing comes before others are let in.
    quiet: u64,
    /// Since when they are too late for any.
    hopeless_since: Option<Ticks>,
    /// After how long that is looked at again.
    retry: u64,
}

impl Backoff {
    fn new(within: Nanos, hint: Option<PowerHint>, nanos_per_tick: f64) -> Self {
        let ticks = |time: Nanos| (time.0 as f64 / nanos_per_tick) as u64;
        let within = ticks(within);
        Self {
            within,
            hint: hint.map(|hint| (hint, ticks(HINT).min(within / 2), ticks(HINTED))),
            idle_since: None,
            next: within / FIRST,
            late: ticks(LATE_AT_FIRST),
            quiet: ticks(QUIET),
            hopeless_since: None,
            retry: ticks(RETRY),
        }
    }

    /// Packets came.
    fn reset(&mut self) {
        self.idle_since = None;
        self.next = self.within / FIRST;
    }

    /// Nothing came.
    fn rest(&mut self, now: Ticks) -> Rest {
        let idle = now.since(*self.idle_since.get_or_insert(now));
        let spin = self.late.min(self.within);
        if idle < spin {
            return if idle < self.quiet { Rest::Spin } else { Rest::Yield };
        }
        let longest = self.within.saturating_sub(self.late);
        match self.hint {
            Some((_, ticks, whole)) if longest == 0 || idle < spin + whole => Rest::Hint(ticks),
            _ if longest == 0 => {
                // Whether sleeps are still so late has to be looked at now and then.
                if now.since(*self.hopeless_since.get_or_insert(now)) >= self.retry {
                    self.hopeless_since = None;
                    self.late = self.within - self.within / FIRST;
                }
                Rest::Yield
            }
            _ => {
                let ticks = self.next.min(longest);
                self.next = (self.next * 2).min(self.within);
                Rest::Sleep(ticks)
            }
        }
    }

    /// A sleep of so many ticks took so many; whether that was within the stated time.
    fn slept(&mut self, asked: u64, took: u64) -> bool {
        let late = took.saturating_sub(asked);
        // Up fast and down slowly: what is estimated is what most sleeps stay below. By a bounded step, for
        // one sleep may be late because the core was taken away.
        if late > self.late {
            self.late += ((late - self.late) / 4).min(self.within / FIRST);
        } else {
            self.late -= (self.late - late) / 256;
        }
        took <= self.within
    }
}

/// How this worker waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// It polls on.
    Busy,
    /// It polls on, and has whoever shares the core poll in between; rounds since it last did.
    Yield(u32),
    /// It backs off.
    Adaptive(Backoff),
}

impl Waiting {
    /// For the thread that it is made on.
    pub(super) fn new(mode: PollMode, nanos_per_tick: f64) -> Self {
        match mode {
            PollMode::Busy => Self::Busy,
            PollMode::Yield => Self::Yield(0),
            PollMode::Adaptive { within } => {
                fine_timers();
                Self::Adaptive(Backoff::new(within, PowerHint::of_this_cpu(), nanos_per_tick))
            }
        }
    }

    /// What follows a round of all queues, `busy` if there was a packet. Returns as how many polls it
    /// counts.
    #[inline]
    pub(super) fn wait(
        &mut self,
        busy: bool,
        doorbell: &Doorbell,
        report: &mut WaitReport,
        nanos_per_tick: f64,
    ) -> u32 {
        match self {
            Self::Busy => 1,
            Self::Yield(turn) => {
                *turn += 1;
                if !busy || *turn == TURN {
                    std::thread::yield_now();
                    *turn = 0;
                }
                1
            }
            Self::Adaptive(backoff) if busy => {
                backoff.reset();
                1
            }
            Self::Adaptive(backoff) => rest(backoff, doorbell, report, nanos_per_tick),
        }
    }
}

fn rest(backoff: &mut Backoff, doorbell: &Doorbell, report: &mut WaitReport, nanos_per_tick: f64) -> u32 {
    let now = Ticks::now();
    match (backoff.rest(now), backoff.hint) {
        (Rest::Hint(ticks), Some((hint, ..))) => {
            hint.rest(now, ticks);
            report.hints += 1;
            1
        }
        (Rest::Sleep(ticks), _) if doorbell.fall_asleep() => {
            std::thread::sleep(Duration::from_nanos((ticks as f64 * nanos_per_tick) as u64));
            let took = Ticks::now().since(now);
            report.sleeps += 1;
            report.slept_ns += (took as f64 * nanos_per_tick) as u64;
            report.late += u64::from(!backoff.slept(ticks, took));
            doorbell.wake_up();
            POLLS
        }
        (Rest::Spin, _) => 1,
        _ => {
            std::thread::yield_now();
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick a nanosecond, and no hint.
    fn backoff(within: u64) -> Backoff {
        Backoff::new(Nanos(within), None, 1.0)
    }

    /// Waits for so long, where each sleep is late by `late`; the sleeps that were asked for.
    fn idle(backoff: &mut Backoff, now: &mut u64, time: u64, late: u64) -> Vec<u64> {
        let (end, mut sleeps) = (*now + time, Vec::new());
        while *now < end {
            match backoff.rest(Ticks(*now)) {
                Rest::Sleep(ticks) => {
                    sleeps.push(ticks);
                    *now += ticks + late;
                    backoff.slept(ticks, ticks + late);
                }
                _ => *now += 50,
            }
        }
        sleeps
    }

    #[test]
    fn sleeps_grow_up_to_what_the_stated_time_leaves_and_begin_anew_with_a_packet() {
        let (mut backoff, mut now) = (backoff(100_000), 1);
        let sleeps = idle(&mut backoff, &mut now, 1_000_000, 15_000);
        assert_eq!(sleeps[..4], [6_250, 12_500, 25_000, 50_000]);
        assert!(sleeps[4..].iter().all(|&ticks| ticks == 85_000), "{sleeps:?}");
        backoff.reset();
        assert_eq!(idle(&mut backoff, &mut now, 30_000, 15_000)[0], 6_250);
    }

    #[test]
    fn packets_closer_together_than_a_sleep_costs_find_a_worker_that_polls() {
        let (mut backoff, mut now) = (backoff(100_000), 1);
        for _ in 0..1000 {
            assert!(idle(&mut backoff, &mut now, 14_000, 15_000).is_empty());
            backoff.reset();
        }
    }

    #[test]
    fn others_are_let_in_where_packets_are_rare_and_only_there() {
        let (mut backoff, mut now) = (backoff(100_000), 1);
        let mut rests = |gap: u64| -> Vec<Rest> {
            let rests = (0..gap / 50).map(|at| backoff.rest(Ticks(now + at * 50))).collect();
            now += gap;
            backoff.reset();
            rests
        };
        assert!(rests(4_000).iter().all(|rest| *rest == Rest::Spin), "250,000 packets a second");
        let slow = rests(14_000);
        assert_eq!((slow[0], slow[slow.len() - 1]), (Rest::Spin, Rest::Yield), "70,000 packets a second");
    }

    #[test]
    fn late_sleeps_become_shorter_until_there_are_none_and_are_tried_again() {
        let (mut backoff, mut now) = (backoff(100_000), 1);
        let sleeps = idle(&mut backoff, &mut now, 10_000_000, 60_000);
        let last = *sleeps.last().unwrap();
        assert!((39_000..50_000).contains(&last), "{last} and 60000 are about the stated 100000");
        let sleeps = idle(&mut backoff, &mut now, 5_000_000_000, 400_000);
        assert!(sleeps.len() < 20, "{} sleeps that were all too late", sleeps.len());
        let sleeps = idle(&mut backoff, &mut now, 1_500_000_000, 15_000);
        let last = *sleeps.last().expect("sleeps are tried again");
        assert!((70_000..=85_000).contains(&last), "{last}");
    }
}
