//! What the trials at one load prove: load classification and conditional throughput.
//!
//! Rules of draft-ietf-bmwg-mlrsearch-15 (section "Load Classification Logic" of its appendix, and
//! "Conditional Throughput Logic"), written here over a plain slice of trials, so that a stored
//! run can be classified again under other goals without measuring anything.
//!
//! Durations are summed as whole nanoseconds: ten trials of 0.1 s are one second, not a little less.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::TrialResult;
use weir_units::{Nanos, Pps, Ratio};

/// One trial, reduced to what classification needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Intended duration: decides whether the trial is full or short.
    pub duration: Nanos,
    /// Effective duration: what the trial weighs in the sums.
    pub effective: Nanos,
    /// Lost packets over intended packets.
    pub loss: Ratio,
}

impl Sample {
    /// A trial's sample. `overhead_counts`: whether set-up and drain weigh in the effective duration.
    pub fn of(result: &TrialResult, overhead_counts: bool) -> Self {
        let sending = result.elapsed.max(result.spec.duration);
        let overhead = if overhead_counts { result.overhead.0 } else { 0 };
        Self {
            duration: result.spec.duration,
            effective: Nanos(sending.0.saturating_add(overhead)),
            loss: result.loss_ratio(),
        }
    }
}

/// What trials at a load must show. A goal has one, and a looser one for each target before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requirement {
    /// A trial with more loss is a high-loss trial.
    pub loss_ratio: Ratio,
    /// Share of the duration sum that high-loss trials may take at a load that still passes.
    pub exceed_ratio: Ratio,
    /// A trial at least this long is a full trial.
    pub trial_duration: Nanos,
    /// Effective duration that settles a load.
    pub duration_sum: Nanos,
}

/// What the trials at a load prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadClass {
    /// The load passes, whatever further trials up to the duration sum would show.
    Lower,
    /// The load fails, whatever further trials up to the duration sum would show.
    Upper,
    /// Further trials decide.
    Undecided,
}

/// Effective durations by length and loss.
#[derive(Default)]
struct Sums {
    full_low: u64,
    full_high: u64,
    short_low: u64,
    short_high: u64,
}

impl Sums {
    fn of(samples: &[Sample], requirement: &Requirement) -> Self {
        let mut sums = Self::default();
        for sample in samples {
            let full = sample.duration >= requirement.trial_duration;
            let low = sample.loss <= requirement.loss_ratio;
            let sum = match (full, low) {
                (true, true) => &mut sums.full_low,
                (true, false) => &mut sums.full_high,
                (false, true) => &mut sums.short_low,
                (false, false) => &mut sums.short_high,
            };
            *sum = sum.saturating_add(sample.effective.0);
        }
        sums
    }
}

fn seconds(nanos: u64) -> f64 {
    Nanos(nanos).seconds()
}

/// Classifies a load by its trials.
///
/// Short trials can only speak against a load: those with high loss weigh as far as the short
/// low-loss trials do not excuse them.
pub fn classify(samples: &[Sample], requirement: &Requirement) -> LoadClass {
    let exceed = requirement.exceed_ratio.0;
    let sums = Sums::of(samples, requirement);
    let full_low = seconds(sums.full_low);
    let excused = seconds(sums.short_low) * exceed / (1.0 - exceed);
    let high = seconds(sums.full_high) + (seconds(sums.short_high) - excused).max(0.0);
    let whole = (full_low + high).max(requirement.duration_sum.seconds());
    let allowed = whole * exceed;
    if high > allowed {
        LoadClass::Upper
    } else if whole - full_low <= allowed {
        LoadClass::Lower
    } else {
        LoadClass::Undecided
    }
}

/// The loss ratio that stands for a load: the quantile of its full trials, weighed by duration and
/// sorted by rising loss, that the exceed ratio asks for (0.5: the median). What is missing to the
/// duration sum counts as lost entirely.
pub fn conditional_loss(samples: &[Sample], requirement: &Requirement) -> Ratio {
    let mut full: Vec<&Sample> =
        samples.iter().filter(|sample| sample.duration >= requirement.trial_duration).collect();
    full.sort_by(|a, b| a.loss.0.total_cmp(&b.loss.0));
    let sum: u64 = full.iter().map(|sample| sample.effective.0).sum();
    let whole = seconds(sum.max(requirement.duration_sum.0));
    let exceeding = whole * requirement.exceed_ratio.0;
    let mut consumed = 0;
    for sample in full {
        consumed += sample.effective.0;
        // The same comparison as in `classify`, so that rounding cannot part the two: a load that
        // passes has enough full trials here.
        if whole - seconds(consumed) <= exceeding {
            return sample.loss;
        }
    }
    Ratio(1.0)
}

/// Forwarding rate that a load that passes may claim: the load without its [`conditional_loss`].
pub fn conditional_throughput(load: Pps, samples: &[Sample], requirement: &Requirement) -> Pps {
    Pps(load.0 * (1.0 - conditional_loss(samples, requirement).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

    fn ndr() -> Requirement {
        Requirement {
            loss_ratio: Ratio(0.0),
            exceed_ratio: Ratio(0.5),
            trial_duration: SECOND,
            duration_sum: Nanos(21 * SECOND.0),
        }
    }

    fn trials(duration: Nanos, losses: &[(usize, f64)]) -> Vec<Sample> {
        let one = |loss: f64| Sample { duration, effective: duration, loss: Ratio(loss) };
        losses.iter().flat_map(|&(count, loss)| std::iter::repeat_n(one(loss), count)).collect()
    }

    #[test]
    fn eleven_clean_seconds_of_twenty_one_settle_a_load() {
        assert_eq!(classify(&trials(SECOND, &[(10, 0.0)]), &ndr()), LoadClass::Undecided);
        assert_eq!(classify(&trials(SECOND, &[(11, 0.0)]), &ndr()), LoadClass::Lower);
        assert_eq!(classify(&trials(SECOND, &[(11, 0.1)]), &ndr()), LoadClass::Upper);
    }

    #[test]
    fn ten_lossy_trials_cannot_fail_a_load_that_eleven_pass() {
        assert_eq!(classify(&trials(SECOND, &[(10, 0.3), (11, 0.0)]), &ndr()), LoadClass::Lower);
    }

    #[test]
    fn overhead_lets_seven_trials_do_the_work_of_eleven() {
        let slow = Sample { duration: SECOND, effective: Nanos(1_500_000_000), loss: Ratio(0.0) };
        assert_eq!(classify(&[slow; 6], &ndr()), LoadClass::Undecided);
        assert_eq!(classify(&[slow; 7], &ndr()), LoadClass::Lower);
    }

    #[test]
    fn short_trials_never_pass_a_load_but_can_fail_it() {
        let half = Nanos(SECOND.0 / 2);
        assert_eq!(classify(&trials(half, &[(100, 0.0)]), &ndr()), LoadClass::Undecided);
        assert_eq!(classify(&trials(half, &[(22, 0.1)]), &ndr()), LoadClass::Upper);
        assert_eq!(classify(&trials(half, &[(22, 0.1), (22, 0.0)]), &ndr()), LoadClass::Undecided);
    }

    #[test]
    fn without_an_exceed_ratio_one_lossy_trial_fails_the_load() {
        let rfc2544 = Requirement { exceed_ratio: Ratio(0.0), duration_sum: Nanos(60 * SECOND.0), ..ndr() };
        assert_eq!(classify(&trials(SECOND, &[(1, 1e-9)]), &rfc2544), LoadClass::Upper);
        assert_eq!(classify(&trials(SECOND, &[(59, 0.0)]), &rfc2544), LoadClass::Undecided);
        assert_eq!(classify(&trials(SECOND, &[(60, 0.0)]), &rfc2544), LoadClass::Lower);
    }

    #[test]
    fn ten_tenths_of_a_second_are_a_second() {
        let tenth = Nanos(SECOND.0 / 10);
        let requirement =
            Requirement { exceed_ratio: Ratio(0.0), trial_duration: tenth, duration_sum: SECOND, ..ndr() };
        assert_eq!(classify(&trials(tenth, &[(10, 0.0)]), &requirement), LoadClass::Lower);
    }

    #[test]
    fn conditional_throughput_takes_the_median_of_the_full_trials() {
        let requirement = Requirement { duration_sum: Nanos(5 * SECOND.0), loss_ratio: Ratio(0.1), ..ndr() };
        let samples = trials(SECOND, &[(1, 0.9), (1, 0.02), (1, 0.01), (1, 0.03), (1, 0.8)]);
        assert_eq!(conditional_loss(&samples, &requirement), Ratio(0.03));
        assert_eq!(conditional_throughput(Pps(1000.0), &samples, &requirement), Pps(970.0));
    }

    #[test]
    fn missing_trials_count_as_lost_and_short_ones_do_not_count() {
        let mut samples = trials(SECOND, &[(2, 0.0)]);
        samples.extend(trials(Nanos(1), &[(9, 0.0)]));
        assert_eq!(conditional_loss(&samples, &ndr()), Ratio(1.0));
    }
}
