//! Delay against load.
//!
//! A delay has a part that is always there, a part that waits behind other packets, and, of a device that works in
//! bursts, a part that waits for a burst to fill:
//!
//! `D(λ) = d + w φ(ρ) + b / ρ`, with `ρ = λ / C` and `φ(ρ) = ρ / (2 (1 − ρ))`,
//!
//! where `C` is the capacity that was measured. `φ` is the wait of an M/D/1 queue in service times (Pollaczek and Khinchine): `w`
//! of the mean is the service time of what is served at once, a packet or a burst. Percentiles take the same form with a
//! `w` of their own, as the tail of such a wait is exponential. `b` is fitted where there are loads enough. Loads below a hundredth
//! of the capacity are left out, where timers and sleep decide.

use crate::evidence::{At, CARRIED};
use crate::fit::{Fit, Row, Unfit, student_t_975};
use weir_trial::run::advice::Statistic;
use weir_units::Interval;

/// Share of the capacity below which a load is left out.
const LEAST: f64 = 0.01;
/// Share of the capacity above which one is.
const MOST: f64 = 0.97;
/// Loads that the form of two parts takes.
const LOADS: usize = 4;
/// Loads from which on the burst's part is fitted.
const LOADS_FOR_BURSTS: usize = 6;
/// Loads below this share tell how delays scatter by themselves.
const CALM: f64 = 0.6;
/// The least scatter of a delay: clocks and histograms have three figures.
const LEAST_SCATTER: f64 = 2e-3;
/// Steps in which a load is looked for.
const STEPS: u32 = 2_000;

/// A capacity and how it scatters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Packets a second, over all directions.
    pub capacity: f64,
    /// Relative standard deviation from trial to trial.
    pub scatter: f64,
    /// Trials that it is the mean of.
    pub trials: u32,
}

/// Why delays tell no curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCurve {
    /// Too few loads between a hundredth of the capacity and next to it.
    #[error("{0} loads between 1 % and 97 % of the capacity have this delay; it takes 4")]
    TooFew(usize),
    /// What a fit says.
    #[error("{0}")]
    Unfit(Unfit),
}

/// A fitted curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Which delay.
    pub statistic: Statistic,
    /// The capacity it was fitted with.
    pub known: Known,
    /// Least and greatest load that it was fitted to.
    pub range: (f64, f64),
    /// Loads that it was fitted to.
    pub loads: usize,
    fit: Fit,
    own: f64,
}

impl Curve {
    /// Fits a delay.
    ///
    /// # Errors
    ///
    /// Where there are too few loads, or they tell the parts not apart.
    pub fn of(delays: &[At<'_>], statistic: Statistic, known: Known) -> Result<Self, NoCurve> {
        let share = |load: f64| load / known.capacity;
        let usable: Vec<(f64, f64)> = delays
            .iter()
            .filter(|at| at.loss <= CARRIED && (LEAST..=MOST).contains(&share(at.load)))
            .filter_map(|at| Some((share(at.load), at.delay(statistic)?)))
            .collect();
        let mut loads: Vec<f64> = usable.iter().map(|(share, _)| *share).collect();
        loads.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
        let [least, .., most] = loads.as_slice() else { return Err(NoCurve::TooFew(loads.len())) };
        if loads.len() < LOADS {
            return Err(NoCurve::TooFew(loads.len()));
        }
        let bursts = loads.len() >= LOADS_FOR_BURSTS;
        let setting = |share: f64| loads.iter().position(|one| (one / share - 1.0).abs() < 1e-6).unwrap_or(0);
        let rows = |scale: &dyn Fn(f64) -> f64| -> Vec<Row> {
            let row = |(share, delay): &(f64, f64)| Row {
                scale: scale(*share),
                ..Row::new(&columns(*share, bursts), *delay, setting(*share))
            };
            usable.iter().map(row).collect()
        };
        let mut curve = Self {
            statistic,
            known,
            range: (least * known.capacity, most * known.capacity),
            loads: loads.len(),
            fit: Fit::of(&rows(&|_| 1.0)).map_err(NoCurve::Unfit)?,
            own: 0.0,
        };
        // Near its capacity a delay also scatters because the capacity does.
        let calm: Vec<f64> = usable
            .iter()
            .filter(|(share, _)| *share <= CALM)
            .map(|(share, delay)| delay / curve.fit.value(&columns(*share, bursts)) - 1.0)
            .collect();
        let calm_squares = calm.iter().map(|one| one * one).sum::<f64>() / calm.len().max(1) as f64;
        curve.own = calm_squares.sqrt().max(LEAST_SCATTER);
        let scale = |share: f64| curve.scale(share, curve.known.scatter);
        curve.fit = Fit::of(&rows(&scale)).map_err(NoCurve::Unfit)?;
        Ok(curve)
    }

    /// Scatter that is expected of a trial's delay at a share of the capacity: its own, and what so much of the capacity's makes
    /// of it.
    fn scale(&self, share: f64, of_capacity: f64) -> f64 {
        let bursts = self.fit.coefficients.len() > 2;
        let at = |share: f64| self.fit.value(&columns(share.min(0.999), bursts));
        let step = 1e-4;
        let slope = (at(share * (1.0 + step)) - at(share * (1.0 - step))) / (2.0 * step * at(share));
        self.own.hypot(slope * of_capacity)
    }

    /// Whether bursts that fill are a part of it.
    pub fn has_bursts(&self) -> bool {
        self.fit.coefficients.get(2).is_some_and(|burst| *burst > 0.0)
    }

    /// Whether the loads lie farther from the form than they scatter.
    pub fn misses(&self) -> bool {
        self.fit.misses
    }

    /// The delay at a load, in nanoseconds; beyond the capacity there is none.
    pub fn delay(&self, load: f64) -> Option<f64> {
        let share = load / self.known.capacity;
        (share > 0.0 && share < 1.0).then(|| self.fit.value(&columns(share, self.fit.coefficients.len() > 2)))
    }

    /// The 95 % prediction interval of one trial's delay at a load, in nanoseconds.
    pub fn interval(&self, load: f64) -> Option<Interval> {
        let (value, share) = (self.delay(load)?, load / self.known.capacity);
        let bursts = self.fit.coefficients.len() > 2;
        // The trial's own capacity scatters, and the mean that the share is of does as well; of a few trials both are known badly.
        let trials = f64::from(self.known.trials.max(1));
        let badly = student_t_975(trials - 1.0) / student_t_975(f64::INFINITY);
        let of_capacity = self.known.scatter * (1.0 + 1.0 / trials).sqrt() * badly;
        let reach = self.fit.reach(&columns(share, bursts), (1, self.scale(share, of_capacity)))?;
        Some(Interval { low: value * (1.0 - reach), high: value * (1.0 + reach) })
    }

    /// The load at which rate over delay is greatest (Kleinrock's power): beyond it delay grows faster than rate.
    pub fn knee(&self) -> f64 {
        let power = |load: f64| self.delay(load).map_or(0.0, |delay| load / delay);
        self.shares().max_by(|a, b| power(*a).total_cmp(&power(*b))).unwrap_or(self.known.capacity)
    }

    /// The greatest load whose delay is expected to stay below so many nanoseconds, and the greatest whose interval does; of each nothing
    /// where no load is.
    pub fn below(&self, goal: f64) -> (Option<f64>, Option<f64>) {
        let expected = |load: &f64| self.delay(*load).is_some_and(|delay| delay < goal);
        let safe = |load: &f64| self.interval(*load).is_some_and(|interval| interval.high < goal);
        (self.shares().rfind(expected), self.shares().rfind(safe))
    }

    /// Loads from the least one on, up to next to the capacity.
    fn shares(&self) -> impl DoubleEndedIterator<Item = f64> + '_ {
        let first = (f64::from(STEPS) * LEAST) as u32;
        (first..=(f64::from(STEPS) * MOST) as u32)
            .map(|step| self.known.capacity * f64::from(step) / f64::from(STEPS))
    }

    /// The curve with its parts, in microseconds.
    pub fn says(&self) -> String {
        let part = |place: usize| self.fit.coefficients.get(place).copied().unwrap_or(0.0) / 1e3;
        let bursts = if self.has_bursts() { format!(" + {:.3} µs / ρ", part(2)) } else { String::new() };
        format!(
            "{} = {:.3} µs + {:.3} µs × ρ/(2(1−ρ)){bursts}, ρ = load / {}",
            self.statistic,
            part(0),
            part(1),
            weir_units::Pps(self.known.capacity)
        )
    }
}

/// `1`, the wait in service times, and the wait for a burst.
fn columns(share: f64, bursts: bool) -> Vec<f64> {
    let mut columns = vec![1.0, share / (2.0 * (1.0 - share))];
    if bursts {
        columns.push(1.0 / share);
    }
    columns
}
