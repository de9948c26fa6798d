//! How numbers scatter: count, median, extremes, deviation, and a 95 % confidence interval of the mean.
//!
//! The interval is Student's t: it assumes independent, roughly normal numbers. Numbers taken one after the
//! other on one machine do not cover what differs between machines or days.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How some numbers of one unit scatter. The unit is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Numbers.
    pub count: u32,
    /// Median; of an even count the mean of the two middle ones.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Sample standard deviation (divided by `count - 1`); nothing for a single number.
    pub deviation: Option<f64>,
    /// 95 % confidence interval of the mean, Student's t; nothing for a single number.
    pub interval: Option<Interval>,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Student's t, 97.5 % quantile, for 1 to 30 degrees of freedom.
const STUDENT_T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The normal distribution's 97.5 % quantile.
const NORMAL_975: f64 = 1.959_964;

/// Student's t, 97.5 % quantile. Beyond the table by its expansion in the inverse degrees of
/// freedom (Abramowitz and Stegun, 26.7.5), exact there to four figures.
fn student_t_975(degrees: u32) -> f64 {
    match STUDENT_T_975.get(degrees.max(1) as usize - 1) {
        Some(quantile) => *quantile,
        None => {
            let (z, n) = (NORMAL_975, f64::from(degrees));
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            z + first / n + second / (n * n)
        }
    }
}

impl Spread {
    /// The spread of some finite numbers; nothing when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (count, half) = (sorted.len(), sorted.len() / 2);
        let median = if count % 2 == 1 { sorted[half] } else { sorted[half - 1].midpoint(sorted[half]) };
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let deviation = (count > 1).then(|| {
            let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (count - 1) as f64).sqrt()
        });
        let interval = deviation.map(|deviation| {
            let reach = student_t_975(count as u32 - 1) * deviation / (count as f64).sqrt();
            Interval { low: mean - reach, high: mean + reach }
        });
        Some(Self { count: count as u32, median, mean, min, max, deviation, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_five_known_numbers() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!((spread.count, spread.median, spread.mean), (5, 3.0, 3.0));
        assert_eq!((spread.min, spread.max), (1.0, 5.0));
        assert!((spread.deviation.unwrap() - 2.5_f64.sqrt()).abs() < 1e-12);
        // 3 +- 2.776 * sqrt(2.5) / sqrt(5)
        let interval = spread.interval.unwrap();
        assert!(
            (interval.low - 1.0371).abs() < 1e-3 && (interval.high - 4.9629).abs() < 1e-3,
            "{interval:?}"
        );
    }

    #[test]
    fn one_number_has_no_interval_and_none_has_no_spread() {
        let spread = Spread::of(&[7.0]).unwrap();
        assert_eq!((spread.median, spread.deviation, spread.interval), (7.0, None, None));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn quantiles_beyond_the_table_go_on_where_it_ends() {
        assert!((student_t_975(31) - 2.0395).abs() < 1e-3);
        assert!((student_t_975(60) - 2.0003).abs() < 1e-3);
        assert!((student_t_975(1_000_000) - 1.96).abs() < 1e-3);
    }
}
