//! How far two sets of numbers lie apart, as a ratio, and how sure that is.
//!
//! Rates and delays scatter in proportion to their size, so everything is done on logarithms and
//! given back as a ratio. Both sides may scatter differently, and a shared machine spoils single
//! trials, so the test is Yuen's: Welch's t (unequal variances) on means from which a fifth of the
//! numbers is cut at each end, with the variance of the numbers pulled in to the cut. Below five
//! numbers nothing is cut and it is Welch's t itself, whose interval widens as numbers get few.
//! Numbers taken in turns are compared pair by pair: the same on the pairs' ratios.
//!
//! That is for trials of one start. Starts of a device, searches and other repeats of a whole point are a
//! random effect: each is drawn from what the device may be, the extreme ones too, so none is cut, and the
//! interval is Student's or Welch's t on all of them.
//!
//! Sources: B. L. Welch, Biometrika 34 (1947); K. K. Yuen, Biometrika 61 (1974); J. W. Tukey and
//! D. H. McLaughlin, Sankhya A 25 (1963) for one sample. The tests measure the coverage.

use super::student;
use crate::repeat::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of the numbers cut at each end.
pub const TRIM: f64 = 0.2;

/// Chance that a stated interval misses.
pub const MISS: f64 = 0.05;

/// Chance that an effect of the size of [`Gap::visible`] is not seen.
const UNSEEN: f64 = 0.2;

/// How an interval was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Welch's t on the logarithms: starts or repeats, or two to four trials on a side.
    Welch,
    /// Yuen's t on the logarithms: five trials or more on a side, a fifth cut at each end.
    Yuen,
    /// Student's t on the logarithms of the pairs' ratios; of trials cut likewise from five pairs on.
    Paired,
    /// Only the bounds of one search on a side: what varies from search to search is not in it.
    Bounds,
    /// One number on a side: no interval.
    Single,
}

/// Two sets of numbers, apart: everything in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Logarithm of B over A.
    log: f64,
    /// Its standard error.
    error: f64,
    /// Degrees of freedom of the error.
    degrees: f64,
    /// How far the truth may lie below and above for reasons that no repeat averages out.
    slack: (f64, f64),
    /// By which test.
    pub method: Method,
}

/// A set of logarithms without its ends.
struct Trimmed {
    mean: f64,
    /// Squared standard error of the mean.
    variance: f64,
    degrees: f64,
    count: usize,
}

impl Trimmed {
    fn of(logs: &[f64], share: f64) -> Option<Self> {
        let mut sorted = logs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let cut = (n as f64 * share) as usize;
        let kept = n - 2 * cut;
        let (first, last) = (*sorted.get(cut)?, sorted[n - 1 - cut]);
        let mean = sorted[cut..n - cut].iter().sum::<f64>() / kept as f64;
        let pulled: Vec<f64> = sorted.iter().map(|log| log.clamp(first, last)).collect();
        let centre = pulled.iter().sum::<f64>() / n as f64;
        let squares: f64 = pulled.iter().map(|log| (log - centre).powi(2)).sum();
        let degrees = kept as f64 - 1.0;
        Some(Self { mean, variance: squares / (kept as f64 * degrees), degrees, count: n })
    }
}

/// The centre of some trials' numbers above zero: their geometric mean, a fifth cut at each end.
pub fn centre(values: &[f64]) -> Option<f64> {
    centre_without(values, TRIM)
}

/// The centre of some starts' numbers above zero: their geometric mean, none cut.
pub fn centre_of_starts(values: &[f64]) -> Option<f64> {
    centre_without(values, 0.0)
}

fn centre_without(values: &[f64], share: f64) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    Trimmed::of(&logs, share).map(|trimmed| trimmed.mean.exp()).filter(|centre| centre.is_finite())
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    (logs.len() > 1 && logs.iter().all(|log| log.is_finite())).then_some(logs)
}

impl Gap {
    /// Of trials taken independently: at least two on a side, all above zero.
    pub fn independent(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::apart(a, b, TRIM)
    }

    /// Of starts, or other repeats of a whole point, taken independently: none is cut.
    pub fn independent_starts(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::apart(a, b, 0.0)
    }

    fn apart(a: &[f64], b: &[f64], share: f64) -> Option<Self> {
        let (a, b) = (Trimmed::of(&logs(a)?, share)?, Trimmed::of(&logs(b)?, share)?);
        let variance = a.variance + b.variance;
        // Welch and Satterthwaite. Without any scatter the degrees do not matter.
        let parts = a.variance.powi(2) / a.degrees + b.variance.powi(2) / b.degrees;
        let degrees = if parts > 0.0 { variance.powi(2) / parts } else { a.degrees.min(b.degrees) };
        let method = if share == 0.0 || a.count.min(b.count) < 5 { Method::Welch } else { Method::Yuen };
        Some(Self { log: b.mean - a.mean, error: variance.sqrt(), degrees, slack: (0.0, 0.0), method })
    }

    /// Of trials taken in turns, the `i`th of `a` beside the `i`th of `b`: at least two pairs.
    pub fn paired(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::in_pairs(a, b, TRIM)
    }

    /// Of starts taken in turns: none is cut.
    pub fn paired_starts(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::in_pairs(a, b, 0.0)
    }

    fn in_pairs(a: &[f64], b: &[f64], share: f64) -> Option<Self> {
        let (a, b) = (logs(a)?, logs(b)?);
        let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
        let trimmed = Trimmed::of(&ratios, share).filter(|_| a.len() == b.len())?;
        let (error, degrees) = (trimmed.variance.sqrt(), trimmed.degrees);
        Some(Self { log: trimmed.mean, error, degrees, slack: (0.0, 0.0), method: Method::Paired })
    }

    /// The same where the numbers of A may be as much as the factor `a` too small, and B's `b`: what
    /// a search gives is the lower bound of an interval, the same one each time.
    #[must_use]
    pub fn with_widths(self, a: f64, b: f64) -> Self {
        Self { slack: (a.max(1.0).ln(), b.max(1.0).ln()), ..self }
    }

    /// B over A.
    pub fn ratio(&self) -> f64 {
        self.log.exp()
    }

    /// The 95 % confidence interval of the ratio.
    pub fn interval(&self) -> Interval {
        let reach = if self.error > 0.0 { student::quantile(MISS, self.degrees) * self.error } else { 0.0 };
        Interval {
            low: (self.log - reach - self.slack.0).exp(),
            high: (self.log + reach + self.slack.1).exp(),
        }
    }

    /// Chance of a gap as large as this one if there were none: the p-value of the test, two-sided.
    pub fn chance(&self) -> f64 {
        let beyond = if self.log > 0.0 { self.log - self.slack.0 } else { -self.log - self.slack.1 };
        match beyond {
            // A millionth of a millionth is rounding, not a gap.
            beyond if beyond <= 1e-12 => 1.0,
            beyond => student::two_sided(beyond / self.error, self.degrees),
        }
    }

    /// The smallest effect that such a comparison sees: how far a ratio must lie below 1 for its interval to
    /// leave 1 out in four of five repetitions (power 80 %). A share, 0.05 for 5 %.
    pub fn visible(&self) -> f64 {
        let reach = student::quantile(MISS, self.degrees) + student::quantile(2.0 * UNSEEN, self.degrees);
        let reach = if self.error > 0.0 { reach * self.error } else { 0.0 };
        1.0 - (-(reach + self.slack.0.max(self.slack.1))).exp()
    }

    /// How sure it is that the ratio is below `limit`: one minus the one-sided p-value.
    pub fn sure_below(&self, limit: f64) -> f64 {
        self.sure(limit.ln() - self.log - self.slack.1)
    }

    /// How sure it is that the ratio is above `limit`.
    pub fn sure_above(&self, limit: f64) -> f64 {
        self.sure(self.log - self.slack.0 - limit.ln())
    }

    fn sure(&self, beyond: f64) -> f64 {
        if self.error > 0.0 {
            student::below(beyond / self.error, self.degrees)
        } else {
            f64::from(u8::from(beyond > 1e-12))
        }
    }
}

/// Which of several gaps are beyond chance when all were looked at together: Holm's procedure
/// (Scandinavian Journal of Statistics 6, 1979). One of twenty equal pairs would be told apart by
/// its own interval alone; with this, one whole comparison of equals in twenty names any winner.
pub fn beyond_chance(chances: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut found = vec![false; chances.len()];
    for (place, index) in order.into_iter().enumerate() {
        if chances[index] > MISS / (chances.len() - place) as f64 {
            break;
        }
        found[index] = true;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Welch's own setting, in logarithms: the numbers of Student's sleep data, for which textbooks
    /// and R's `t.test` give t = -1.8608, df = 17.776, p = 0.07939, and paired p = 0.002833.
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn untrimmed(logs: &[f64]) -> Trimmed {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Trimmed { mean, variance: squares / (n * (n - 1.0)), degrees: n - 1.0, count: logs.len() }
    }

    #[test]
    fn below_five_numbers_nothing_is_cut_and_welch_is_exact() {
        let whole = untrimmed(&FIRST[..4]);
        let trimmed = Trimmed::of(&FIRST[..4], TRIM).unwrap();
        assert!(
            (whole.mean - trimmed.mean).abs() < 1e-12 && (whole.variance - trimmed.variance).abs() < 1e-12
        );
        let (a, b) = (untrimmed(&FIRST), untrimmed(&SECOND));
        let variance = a.variance + b.variance;
        let degrees = variance.powi(2) / (a.variance.powi(2) / 9.0 + b.variance.powi(2) / 9.0);
        let gap = Gap {
            log: b.mean - a.mean,
            error: variance.sqrt(),
            degrees,
            slack: (0.0, 0.0),
            method: Method::Welch,
        };
        assert!((degrees - 17.776).abs() < 1e-3 && (gap.log / gap.error - 1.8608).abs() < 1e-4);
        assert!((gap.chance() - 0.07939).abs() < 1e-5, "{}", gap.chance());
        let interval = gap.interval();
        assert!(
            (interval.low.ln() + 0.205_483).abs() < 1e-4 && (interval.high.ln() - 3.365_483).abs() < 1e-4
        );
    }

    #[test]
    fn pairs_tell_apart_what_their_sets_cannot() {
        let ratios: Vec<f64> = FIRST.iter().zip(&SECOND).map(|(a, b)| b - a).collect();
        let whole = untrimmed(&ratios);
        let p = student::two_sided(whole.mean / whole.variance.sqrt(), 9.0);
        assert!((p - 0.002_833).abs() < 1e-6, "{p}");
        let exp = |logs: &[f64]| logs.iter().map(|log| log.exp()).collect::<Vec<_>>();
        let (a, b) = (exp(&FIRST), exp(&SECOND));
        assert!(Gap::paired(&a, &b).unwrap().chance() < 0.01);
        assert!(Gap::independent(&a, &b).unwrap().chance() > 0.05);
        assert_eq!(Gap::paired(&a, &b[..9]), None);
    }

    #[test]
    fn no_start_is_thrown_away() {
        let b = [1.0, 1.0, 1.0, 1.0, 0.8];
        let (starts, trials) =
            (Gap::paired_starts(&[1.0; 5], &b).unwrap(), Gap::paired(&[1.0; 5], &b).unwrap());
        assert_eq!(trials.ratio(), 1.0, "of trials the extreme one is cut");
        assert!((starts.ratio() - 0.8_f64.powf(0.2)).abs() < 1e-12, "{}", starts.ratio());
        assert!(starts.interval().low < 0.9 && starts.visible() > 0.1);
        assert!((centre_of_starts(&b).unwrap() - 0.8_f64.powf(0.2)).abs() < 1e-12 && centre(&b) == Some(1.0));
        let apart = Gap::independent_starts(&[1.0, 1.1, 0.9, 1.0, 1.05], &b).unwrap();
        assert_eq!(apart.method, Method::Welch);
    }

    /// An effect of the stated size is beyond chance in four of five repetitions, by simulation elsewhere; here
    /// its size by hand: t(0.975, 4) + t(0.8, 4) = 2.7764 + 0.9410 standard errors.
    #[test]
    fn the_smallest_visible_effect_follows_from_the_error() {
        let gap = Gap { log: 0.0, error: 0.01, degrees: 4.0, slack: (0.0, 0.0), method: Method::Paired };
        assert!((gap.visible() - (1.0 - (-0.037_174_f64).exp())).abs() < 1e-5, "{}", gap.visible());
    }

    /// The fifth cut at each end, by hand: of 1..10 the middle six are kept, mean 5.5; pulled in to
    /// 3..8 the squares are 2 (3 * 6.25 + 2.25 + 0.25) = 42.5, over h (h - 1) = 30.
    #[test]
    fn a_fifth_is_cut_at_each_end() {
        let logs: Vec<f64> = (1..=10).map(f64::from).collect();
        let trimmed = Trimmed::of(&logs, TRIM).unwrap();
        assert!((trimmed.mean - 5.5).abs() < 1e-12 && (trimmed.variance - 42.5 / 30.0).abs() < 1e-12);
        assert_eq!(trimmed.degrees, 5.0);
        let mut spoilt = logs.clone();
        spoilt[9] = 1e6;
        assert_eq!(Trimmed::of(&spoilt, TRIM).unwrap().mean, trimmed.mean, "one spoilt trial moves nothing");
    }

    #[test]
    fn single_numbers_and_zeros_have_no_interval() {
        assert_eq!(Gap::independent(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Gap::independent(&[1.0, 0.0], &[1.0, 2.0]), None);
        assert_eq!((centre(&[]), centre(&[0.0])), (None, Some(0.0)));
    }

    #[test]
    fn numbers_without_scatter_are_what_they_are() {
        let same = Gap::independent(&[5.0, 5.0], &[5.0, 5.0]).unwrap();
        assert_eq!((same.interval(), same.chance()), (Interval { low: 1.0, high: 1.0 }, 1.0));
        let apart = Gap::independent(&[5.0, 5.0], &[4.0, 4.0]).unwrap();
        assert!((apart.ratio() - 0.8).abs() < 1e-12 && apart.chance() == 0.0);
        assert!(apart.sure_below(0.9) == 1.0 && apart.sure_below(0.7) == 0.0 && apart.sure_above(0.7) == 1.0);
        let wide = apart.with_widths(1.1, 1.3);
        assert!((wide.interval().low - 0.8 / 1.1).abs() < 1e-12 && wide.chance() == 1.0, "{wide:?}");
    }

    #[test]
    fn among_many_looks_a_gap_must_be_larger() {
        assert_eq!(beyond_chance(&[0.04]), [true]);
        assert_eq!(beyond_chance(&[0.04, 0.5]), [false, false]);
        assert_eq!(beyond_chance(&[0.5, 0.04, 0.001]), [false, false, true]);
        assert_eq!(beyond_chance(&[0.02, 0.02, 0.01]), [true, true, true]);
        assert!(beyond_chance(&[]).is_empty());
    }
}
