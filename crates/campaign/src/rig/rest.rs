//! Rests between trials at real-time priority.
//!
//! The kernel keeps 50 ms of each second of a core for ordinary threads that real-time ones starve (its fair
//! server), and takes them in the midst of a trial: seen as 50 ms without the DUT in every fourth trial of a
//! quarter of a second. It takes nothing where ordinary threads had as much by themselves. So the time in
//! which the cores were ordinary is counted, and what lacks is given before a trial.

use std::time::{Duration, Instant};

/// Ordinary time that the fair server is content with: its 50 ms, and some for what does not run at once.
const ENOUGH: Duration = Duration::from_millis(60);
/// Real-time time after which it is asked for; the server comes after 950 ms.
const MOST: Duration = Duration::from_millis(850);

/// Time at real-time priority since ordinary threads last had enough.
#[derive(Debug)]
pub(super) struct Rests {
    strained: Duration,
    ordinary: Duration,
    /// When the last trial at real-time priority ended.
    ended: Option<Instant>,
}

impl Rests {
    pub(super) fn new() -> Self {
        Self { strained: Duration::ZERO, ordinary: Duration::ZERO, ended: None }
    }

    /// How long to rest before a trial of this length.
    pub(super) fn before(&mut self, now: Instant, trial: Duration) -> Duration {
        self.ordinary += self.ended.replace(now).map_or(ENOUGH, |ended| now - ended);
        if self.ordinary >= ENOUGH {
            (self.strained, self.ordinary) = (Duration::ZERO, Duration::ZERO);
        }
        if self.strained + trial <= MOST {
            return Duration::ZERO;
        }
        let rest = ENOUGH - self.ordinary;
        if self.strained.is_zero() { Duration::ZERO } else { rest }
    }

    /// What is left of so much time at real-time priority.
    pub(super) fn left(&self, most: Duration) -> Duration {
        most.saturating_sub(self.strained)
    }

    /// A trial at real-time priority took so long and ended now.
    pub(super) fn trial(&mut self, took: Duration, now: Instant) {
        self.strained += took;
        self.ended = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Duration = Duration::from_millis(250);

    /// Trials one after another with such a gap: the rests before each.
    fn rests(gap: u64, trials: usize) -> Vec<Duration> {
        let (mut rests, mut now, mut all) = (Rests::new(), Instant::now(), Vec::new());
        for _ in 0..trials {
            let rest = rests.before(now, TRIAL);
            all.push(rest);
            // The rest is ordinary time, too.
            if !rest.is_zero() {
                now += rest;
                assert_eq!(rests.before(now, TRIAL), Duration::ZERO);
            }
            now += TRIAL;
            rests.trial(TRIAL, now);
            now += Duration::from_millis(gap);
        }
        all
    }

    #[test]
    fn ordinary_threads_have_enough_before_the_kernel_takes_it() {
        let none = Duration::ZERO;
        assert_eq!(rests(0, 7), [none, none, none, ENOUGH, none, none, ENOUGH]);
        // What they had between the trials is counted.
        assert_eq!(rests(15, 5)[3], ENOUGH - Duration::from_millis(45));
        assert_eq!(rests(30, 9), vec![none; 9]);
        assert_eq!(rests(60, 9), vec![none; 9]);
    }

    #[test]
    fn a_trial_longer_than_all_there_is_begins_at_once_after_a_rest() {
        let mut rests = Rests::new();
        assert_eq!(rests.before(Instant::now(), Duration::from_secs(2)), Duration::ZERO);
    }
}
