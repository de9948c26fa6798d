//! When two devices measured in turns have been started often enough.
//!
//! A plan asks for a number of starts, or with `[until]` for as many as it takes to see an effect of a stated
//! size, or until the time is over. The rule looks at the scatter alone and never at the ratio, so it does not
//! go on until a winner is there; what it costs in coverage is simulated in `crates/methods/tests/compare.rs`.

use crate::plan::Until;
use std::time::Duration;
use weir_methods::compare::{Gap, centre_of_starts};
use weir_trial::run::Purpose;
use weir_trial::{KeptTrial, judge};

/// Fewest starts before the scatter is believed.
const LEAST: u32 = 5;
/// Most starts, however small the effect.
const MOST: u32 = 100;

/// The starts so far.
#[derive(Debug)]
pub(crate) struct Enough {
    repeats: u32,
    until: Option<Until>,
    /// A centre of each side's trials for each start that both have.
    pairs: [Vec<f64>; 2],
    /// Whether a side was never settled, however often it was started: another start would wait at the gate as
    /// long, for what is not ranked.
    in_vain: bool,
}

impl Enough {
    /// For a plan of so many repeats, or until an effect is seen.
    pub(crate) fn new(repeats: u32, until: Option<Until>) -> Self {
        Self { repeats: repeats.max(1), until, pairs: Default::default(), in_vain: false }
    }

    /// Takes in what the trials of a start came to, both sides; trials that are not valid have no part in it.
    pub(crate) fn note(&mut self, trials: [&[(Purpose, KeptTrial)]; 2]) {
        let unsettled = |trials: &[(Purpose, KeptTrial)]| {
            !trials.is_empty() && trials.iter().all(|(_, kept)| kept.result.health.unsettled.is_some())
        };
        self.in_vain = self.pairs[0].is_empty() && trials.into_iter().any(unsettled);
        let centres = trials.map(|trials| {
            let of_rate = trials.iter().filter(|(purpose, _)| *purpose == Purpose::Mrr);
            let valid = of_rate.map(|(_, kept)| &kept.result).filter(|result| judge(result).is_valid());
            let rates: Vec<f64> = valid.map(|result| result.forwarded_rate().0).collect();
            centre_of_starts(&rates)
        });
        if let [Some(a), Some(b)] = centres {
            self.pairs[0].push(a);
            self.pairs[1].push(b);
        }
    }

    /// Whether another start is due after so many, in such a time.
    pub(crate) fn goes_on(&self, started: u32, elapsed: Duration) -> bool {
        if self.in_vain {
            return false;
        }
        let Some(until) = self.until else { return started < self.repeats };
        if started < self.repeats.max(2) {
            return true;
        }
        let seen = Gap::paired_starts(&self.pairs[0], &self.pairs[1])
            .is_some_and(|gap| started >= LEAST && gap.visible() <= until.effect.0);
        !seen && started < MOST && elapsed < until.time.duration()
    }

    /// Why there were fewer starts than the plan asks for, where there were.
    pub(crate) fn why_it_ended(&self, started: u32) -> Option<String> {
        let asked = self.until.map_or(self.repeats, |_| self.repeats.max(2));
        (self.in_vain && started < asked).then(|| {
            format!(
                "started {started} of {asked} times: one side never settled, is not ranked, and would only wait as long again"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::{DutReading, TrialResult, TrialSpec};
    use weir_units::{Nanos, Pps, Ratio};

    const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

    fn trial(rate: f64, unsettled: bool) -> (Purpose, KeptTrial) {
        let dut = DutReading { sent: rate as u64, elapsed: SECOND, ..DutReading::default() };
        let mut result = TrialResult {
            dut: Some(dut),
            ..TrialResult::new(TrialSpec { load: Pps(0.0), duration: SECOND })
        };
        result.health.unsettled = unsettled.then(|| "its flows grow".to_owned());
        (Purpose::Mrr, KeptTrial { sequence: 0, result })
    }

    /// Starts taken until it is enough, with ratios that scatter by a share up and down.
    fn starts(scatter: f64, until: Option<Until>, seconds_each: u64) -> u32 {
        let mut enough = Enough::new(2, until);
        let mut started = 0;
        while enough.goes_on(started, Duration::from_secs(seconds_each * u64::from(started))) {
            let up = if started % 2 == 0 { 1.0 + scatter } else { 1.0 - scatter };
            enough.note([&[trial(1e6, false)], &[trial(1e6 * up, false), trial(1.0, true)]]);
            started += 1;
        }
        started
    }

    #[test]
    fn without_an_effect_to_see_the_plans_number_decides() {
        assert_eq!(starts(0.5, None, 1), 2);
    }

    #[test]
    fn a_side_that_never_settles_is_not_started_again() {
        let started = |rounds: &[[bool; 2]]| {
            let mut enough = Enough::new(5, None);
            rounds.iter().for_each(|sides| {
                let [a, b] = sides.map(|unsettled| [trial(1e6, unsettled), trial(1e6, unsettled)]);
                enough.note([&a, &b]);
            });
            let starts = u32::try_from(rounds.len()).unwrap();
            let goes_on = enough.goes_on(starts, Duration::ZERO);
            assert_eq!(enough.why_it_ended(starts).is_some(), !goes_on);
            goes_on
        };
        assert!(!started(&[[false, true]]), "one side");
        assert!(!started(&[[true, false]]), "the other");
        assert!(started(&[[false, false], [false, true]]), "it was settled once, so it may be again");
        assert!(started(&[[false, false]]));
    }

    #[test]
    fn an_effect_is_looked_for_until_it_would_be_seen_or_time_is_over() {
        let until =
            |effect, seconds| Some(Until { effect: Ratio(effect), time: Nanos(seconds * Nanos::PER_SECOND) });
        assert_eq!(starts(0.001, until(0.05, 1000), 1), LEAST);
        let noisy = starts(0.05, until(0.05, 1000), 1);
        assert!((8..25).contains(&noisy), "{noisy}");
        assert_eq!(starts(0.05, until(0.05, 10), 2), 5, "the time is over");
        assert_eq!(starts(0.5, until(0.001, 10_000), 1), MOST);
    }
}
