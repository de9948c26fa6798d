//! How numbers scatter: count, median, extremes, deviation, and a 95 % confidence interval of the mean.
//!
//! The interval is Student's t: it assumes independent, roughly normal numbers. Numbers taken one after the
//! other on one machine do not cover what differs between machines or days.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

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

/// Student's t, 97.5 % quantile.
fn student_t_975(degrees: u32) -> f64 {
    let student = StudentsT::new(0.0, 1.0, f64::from(degrees.max(1)));
    student
        .expect("location 0, scale 1 and a degree of freedom or more make a distribution")
        .inverse_cdf(0.975)
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

    /// Printed tables, to their last figure.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (30, 2.042)];
        let beyond = [(31, 2.040), (60, 2.000), (120, 1.980), (1_000_000, 1.960)];
        for (degrees, quantile) in table.into_iter().chain(beyond) {
            let found = student_t_975(degrees);
            assert!(
                (found - quantile).abs() <= 5.1e-4,
                "{degrees} degrees of freedom: {found}, not {quantile}"
            );
        }
    }
}
