//! Least squares with coefficients that are not negative.
//!
//! Every model here is a sum of times: `y = Σ cᵢ xᵢ`, where `y` is a time and no part of it can be negative. What scatters
//! is a share of the time (a machine that is a hundredth slower is so for short and for long packets), so residuals
//! are relative. Which coefficients are zero is found by trying every subset of columns, of which there are few.
//!
//! **Interval.** [`Fit::interval`] is a 95 % prediction interval of the mean of so many new observations at a setting: Student's t
//! over the scatter of the observations and the uncertainty of the coefficients. Where the settings lie farther
//! from the form than the scatter within them explains (F test at 95 %), their distance from it counts as the scatter of
//! settings, with as many degrees of freedom as there are settings beyond the coefficients: a wrong form makes a wide
//! interval. Two settings for two coefficients cannot test the form, and the caller says so.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, StudentsT};
use weir_units::Interval;

/// The most that an interval reaches below a value, as a share of it: beyond that it says next to nothing.
const WIDEST: f64 = 0.95;
/// Pivots below this share of the greatest are none: two columns say the same.
const SINGULAR: f64 = 1e-9;

/// One observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The columns.
    pub x: Vec<f64>,
    /// What was observed, above zero.
    pub y: f64,
    /// Scatter that is expected of it, relative to others.
    pub scale: f64,
    /// Which setting it is of: observations of one setting have equal columns.
    pub setting: usize,
}

impl Row {
    /// An observation that scatters as the others do.
    pub fn new(x: &[f64], y: f64, setting: usize) -> Self {
        Self { x: x.to_vec(), y, scale: 1.0, setting }
    }
}

/// Why nothing can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is nothing, or something that is no time.
    #[error("there is no observation")]
    Nothing,
    /// Fewer settings than coefficients, or settings that do not tell them apart.
    #[error("the settings do not tell the model's parts apart")]
    Unidentified,
}

/// How observations scatter about the form, relative to their value and scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scatter {
    /// Variance of one observation at a setting.
    within: f64,
    /// Variance of a setting.
    between: f64,
    /// What leverage is multiplied by.
    unit: f64,
    /// Degrees of freedom.
    degrees: f64,
}

/// A fitted form.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The coefficients, in the order of the columns; zero where the data want none.
    pub coefficients: Vec<f64>,
    /// Whether the settings lie farther from the form than their own scatter explains.
    pub misses: bool,
    /// Settings beyond the coefficients: with none the form was taken, not tested.
    pub spare_settings: usize,
    free: Vec<usize>,
    /// Inverse of the normal matrix over the free columns.
    inverse: Vec<Vec<f64>>,
    scatter: Option<Scatter>,
}

impl Fit {
    /// The best form for these observations.
    ///
    /// # Errors
    ///
    /// Where there is nothing to fit, or the settings do not tell the coefficients apart.
    pub fn of(rows: &[Row]) -> Result<Self, Unfit> {
        let columns = rows.first().ok_or(Unfit::Nothing)?.x.len();
        let sane = |row: &Row| {
            let positive = |value: f64| value.is_finite() && value > 0.0;
            row.x.len() == columns
                && positive(row.y)
                && positive(row.scale)
                && row.x.iter().all(|x| x.is_finite())
        };
        if columns == 0 || columns > 6 || !rows.iter().all(sane) {
            return Err(Unfit::Nothing);
        }
        let rows = &levelled(rows);
        let all: Vec<usize> = (0..columns).collect();
        let settings = count_settings(rows);
        if settings < columns || solve(rows, &all).is_none() {
            return Err(Unfit::Unidentified);
        }
        let mut best: Option<(f64, Vec<usize>, Solved)> = None;
        for subset in 1..1_usize << columns {
            let free: Vec<usize> = all.iter().copied().filter(|column| (subset >> column) & 1 == 1).collect();
            let Some(solved) = solve(rows, &free).filter(|solved| solved.0.iter().all(|c| *c >= 0.0)) else {
                continue;
            };
            let squares = squares(rows, &free, &solved.0);
            let better = best.as_ref().is_none_or(|(least, fewest, _)| {
                squares < least * (1.0 - 1e-9)
                    || (squares <= least * (1.0 + 1e-9) && free.len() < fewest.len())
            });
            if better {
                best = Some((squares, free, solved));
            }
        }
        let (squares, free, (values, inverse)) = best.ok_or(Unfit::Unidentified)?;
        let mut coefficients = vec![0.0; columns];
        free.iter().zip(values).for_each(|(column, value)| coefficients[*column] = value);
        let (scatter, misses) = scatter(rows, &coefficients, (squares, free.len()));
        let spare_settings = settings.saturating_sub(columns);
        Ok(Self { coefficients, misses, spare_settings, free, inverse, scatter })
    }

    /// What the form says at these columns.
    pub fn value(&self, x: &[f64]) -> f64 {
        self.coefficients.iter().zip(x).map(|(c, x)| c * x).sum()
    }

    /// Half the width of the 95 % prediction interval of the mean of so many new observations, as a share of the value; `scale` is
    /// their [`Row::scale`]. Nothing where there are no more observations than coefficients.
    pub fn reach(&self, x: &[f64], (count, scale): (u32, f64)) -> Option<f64> {
        let scatter = self.scatter?;
        let value = self.value(x);
        let leverage: f64 = self
            .free
            .iter()
            .enumerate()
            .flat_map(|(i, a)| self.free.iter().enumerate().map(move |(j, b)| (i, j, *a, *b)))
            .map(|(i, j, a, b)| x[a] * self.inverse[i][j] * x[b])
            .sum::<f64>()
            / (value * value);
        let own = (scatter.between + scatter.within / f64::from(count.max(1))) * scale * scale;
        let variance = own + leverage.max(0.0) * scatter.unit;
        Some((student_t_975(scatter.degrees) * variance.sqrt()).min(WIDEST))
    }

    /// The 95 % prediction interval of the mean of so many new observations there.
    pub fn interval(&self, x: &[f64], count: u32) -> Option<Interval> {
        let (value, reach) = (self.value(x), self.reach(x, (count, 1.0))?);
        Some(Interval { low: value * (1.0 - reach), high: value * (1.0 + reach) })
    }
}

/// The observations with residuals relative to their setting's mean: relative to themselves, low ones would weigh more.
fn levelled(rows: &[Row]) -> Vec<Row> {
    let mean = |setting: usize| {
        let own = || rows.iter().filter(|row| row.setting == setting);
        own().map(|row| row.y).sum::<f64>() / own().count() as f64
    };
    rows.iter().map(|row| Row { scale: row.scale * mean(row.setting) / row.y, ..row.clone() }).collect()
}

/// Coefficients of the free columns, and the inverse of their normal matrix.
type Solved = (Vec<f64>, Vec<Vec<f64>>);

fn count_settings(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.setting).collect::<std::collections::BTreeSet<_>>().len()
}

/// Weighted least squares over some columns; nothing where they do not tell their coefficients apart.
fn solve(rows: &[Row], free: &[usize]) -> Option<Solved> {
    let size = free.len();
    let mut matrix = vec![vec![0.0; 2 * size]; size];
    let mut right = vec![0.0; size];
    for row in rows {
        let weight = 1.0 / (row.y * row.scale).powi(2);
        for (i, a) in free.iter().enumerate() {
            right[i] += weight * row.x[*a] * row.y;
            for (j, b) in free.iter().enumerate() {
                matrix[i][j] += weight * row.x[*a] * row.x[*b];
            }
        }
    }
    // Columns of very different sizes: to their own.
    let sizes: Vec<f64> = (0..size).map(|i| matrix[i][i].sqrt()).collect();
    if sizes.iter().any(|own| !(own.is_finite() && *own > 0.0)) {
        return None;
    }
    for i in 0..size {
        (0..size).for_each(|j| matrix[i][j] /= sizes[i] * sizes[j]);
        matrix[i][size + i] = 1.0;
    }
    for pivot in 0..size {
        let row = (pivot..size).max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, row);
        let by = matrix[pivot][pivot];
        if by.abs() < SINGULAR {
            return None;
        }
        matrix[pivot].iter_mut().for_each(|value| *value /= by);
        let reduced = matrix[pivot].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(other, _)| *other != pivot) {
            let factor = row[pivot];
            row.iter_mut().zip(&reduced).for_each(|(value, by)| *value -= factor * by);
        }
    }
    let inverse: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| matrix[i][size + j] / (sizes[i] * sizes[j])).collect()).collect();
    let values = inverse.iter().map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum()).collect();
    Some((values, inverse))
}

/// Sum of the squares of relative residuals.
fn squares(rows: &[Row], free: &[usize], values: &[f64]) -> f64 {
    let fitted =
        |row: &Row| free.iter().zip(values).map(|(column, value)| value * row.x[*column]).sum::<f64>();
    rows.iter().map(|row| ((row.y - fitted(row)) / (row.y * row.scale)).powi(2)).sum()
}

/// How the observations scatter, and whether the settings miss the form.
fn scatter(rows: &[Row], coefficients: &[f64], (squares, free): (f64, usize)) -> (Option<Scatter>, bool) {
    let spare = rows.len().saturating_sub(free);
    if spare == 0 {
        return (None, false);
    }
    let fitted = |row: &Row| coefficients.iter().zip(&row.x).map(|(c, x)| c * x).sum::<f64>();
    let mut settings: std::collections::BTreeMap<usize, Vec<f64>> = std::collections::BTreeMap::new();
    for row in rows {
        settings.entry(row.setting).or_default().push((row.y - fitted(row)) / (row.y * row.scale));
    }
    let mean = |residuals: &[f64]| residuals.iter().sum::<f64>() / residuals.len() as f64;
    let within: f64 = settings
        .values()
        .map(|residuals| residuals.iter().map(|one| (one - mean(residuals)).powi(2)).sum::<f64>())
        .sum();
    let (within_degrees, between_degrees) =
        (rows.len() - settings.len(), settings.len().saturating_sub(free));
    let pooled = squares / spare as f64;
    let pooled = Scatter { within: pooled, between: 0.0, unit: pooled, degrees: spare as f64 };
    if within_degrees == 0 || between_degrees == 0 {
        return (Some(pooled), false);
    }
    let (one, of_settings) =
        (within / within_degrees as f64, (squares - within).max(0.0) / between_degrees as f64);
    if of_settings <= one * fisher_95(between_degrees, within_degrees) {
        return (Some(pooled), false);
    }
    let each = rows.len() as f64 / settings.len() as f64;
    let between = ((of_settings - one) / each).max(0.0);
    let missing = Scatter { within: one, between, unit: of_settings, degrees: between_degrees as f64 };
    (Some(missing), true)
}

/// Student's t, 97.5 % quantile.
pub(crate) fn student_t_975(degrees: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees.clamp(1.0, 1e6));
    student
        .expect("location 0, scale 1 and a degree of freedom or more make a distribution")
        .inverse_cdf(0.975)
}

/// Fisher's F, 95 % quantile.
fn fisher_95(above: usize, below: usize) -> f64 {
    let fisher = FisherSnedecor::new(above.max(1) as f64, below.max(1) as f64);
    fisher.expect("a degree of freedom or more on both sides makes a distribution").inverse_cdf(0.95)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_found_again_and_a_part_that_is_not_there_is_zero() {
        let rows = |f: fn(f64) -> f64| -> Vec<Row> {
            (1..=4).map(|x| Row::new(&[1.0, f64::from(x)], f(f64::from(x)), x as usize)).collect()
        };
        let fit = Fit::of(&rows(|x| 3.0 + 2.0 * x)).unwrap();
        assert!((fit.coefficients[0] - 3.0).abs() < 1e-9 && (fit.coefficients[1] - 2.0).abs() < 1e-9);
        let falling = Fit::of(&rows(|x| 10.0 - x)).unwrap();
        assert_eq!(falling.coefficients[1], 0.0, "no time is negative: {falling:?}");
        let steep = Fit::of(&rows(|x| 5.0 * x - 1.0)).unwrap();
        assert_eq!(steep.coefficients[0], 0.0, "{steep:?}");
    }

    #[test]
    fn what_does_not_tell_the_parts_apart_is_refused() {
        let row = |x: f64, setting| Row::new(&[1.0, x], 5.0 + x, setting);
        assert_eq!(Fit::of(&[]), Err(Unfit::Nothing));
        assert_eq!(Fit::of(&[row(1.0, 0), row(1.0, 0)]), Err(Unfit::Unidentified));
        assert_eq!(Fit::of(&[row(1.0, 0), row(1.0, 1)]), Err(Unfit::Unidentified));
        assert_eq!(Fit::of(&[Row::new(&[1.0], f64::NAN, 0)]), Err(Unfit::Nothing));
        assert_eq!(Fit::of(&[Row::new(&[1.0], 0.0, 0)]), Err(Unfit::Nothing));
        let exact = Fit::of(&[row(1.0, 0), row(2.0, 1)]).unwrap();
        assert_eq!((exact.reach(&[1.0, 3.0], (1, 1.0)), exact.spare_settings), (None, 0));
    }

    #[test]
    fn settings_that_miss_the_form_make_a_wide_interval() {
        let rows = |bend: f64| -> Vec<Row> {
            (1..=4_usize)
                .flat_map(|x| (0..5).map(move |n| (x, n)))
                .map(|(x, n)| {
                    let x_f = x as f64;
                    let y = (10.0 + x_f + bend * (x_f - 2.5).powi(2)) * (1.0 + 0.001 * f64::from(n - 2));
                    Row::new(&[1.0, x_f], y, x)
                })
                .collect()
        };
        let (straight, bent) = (Fit::of(&rows(0.0)).unwrap(), Fit::of(&rows(1.0)).unwrap());
        assert!(!straight.misses && bent.misses);
        let reach = |fit: &Fit| fit.reach(&[1.0, 2.0], (5, 1.0)).unwrap();
        assert!(reach(&bent) > 20.0 * reach(&straight), "{} {}", reach(&bent), reach(&straight));
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((student_t_975(4.0) - 2.776).abs() < 1e-3);
        assert!((fisher_95(2, 12) - 3.885).abs() < 1e-2, "{}", fisher_95(2, 12));
    }
}
