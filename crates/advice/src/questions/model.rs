//! What the questions share: observations as times, predictions as rates, delays at other settings.

use super::Wanted;
use crate::answer::Advice;
use crate::delay::{Curve, Known};
use crate::evidence::{Evidence, Kind, Rates, Unit, View};
use crate::fit::{Fit, Row};
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Quantity, Statistic};
use weir_units::{Interval, Pps, Spread};

/// Wiring without a tester at the wire: no loads, losses and delays.
const FED: &str = "fed";

/// A delay that is expected; nothing where none was asked for; why it is not known.
pub(super) type Expected = Result<Option<Prediction>, String>;

/// The curve that delays follow; nothing where none was asked for; why there is none.
pub(super) type Base = Result<Option<Curve>, String>;

/// A run, and what is wanted of it.
pub(super) struct Context<'c, 'r> {
    pub(super) view: &'c View<'r>,
    pub(super) wanted: &'c Wanted,
}

impl<'c, 'r> Context<'c, 'r> {
    /// Points that differ in nothing but what `strip` takes away, of those that are wanted.
    pub(super) fn groups(&self, strip: impl Fn(&mut PointKey)) -> Vec<(PointKey, Vec<&'c Evidence<'r>>)> {
        let wanted = &self.wanted.points;
        let named = |group: &[&Evidence<'_>]| {
            wanted.is_empty() || group.iter().any(|one| wanted.contains(&one.point.index))
        };
        self.view.groups(strip).into_iter().filter(|(_, group)| named(group)).collect()
    }

    /// Why none of these points has a rate to build on.
    pub(super) fn no_rate(&self, group: &[&Evidence<'_>]) -> String {
        let of_group = |point: u32| group.iter().any(|one| one.point.index == point);
        let mut reasons: Vec<String> = Vec::new();
        for (point, why) in self.view.left_out.iter().filter(|(point, _)| of_group(*point)) {
            reasons.push(format!("point {point}, {why}"));
        }
        match reasons.is_empty() {
            true => "no point has a rate; add `[mrr]` or `[throughput]`".to_owned(),
            false => format!("no point has a rate that the device set: {}", reasons.join("; ")),
        }
    }

    /// Whether an advised rate, by its unfavourable end, carries the load; nothing where no load was named.
    pub(super) fn carries(&self, prediction: &Prediction) -> Option<bool> {
        let needed = self.wanted.asked.needed()?;
        Some(low(prediction) >= needed)
    }

    /// Whether a setting is sure to be enough, as far as rate and delay are predicted.
    pub(super) fn is_enough(&self, rate: &Prediction, delay: &Expected) -> bool {
        let goal = self.wanted.asked.delay.map_or(f64::INFINITY, |goal| goal.below.0 as f64);
        let in_time = match delay {
            Ok(Some(delay)) => delay.interval.map_or(delay.value, |interval| interval.high) < goal,
            Ok(None) | Err(_) => true,
        };
        self.carries(rate) == Some(true) && in_time
    }

    /// The curve that delays at other settings follow, of the first of these points that has one; nothing where no delay was asked for.
    pub(super) fn base<'e>(&self, group: impl Iterator<Item = &'e Evidence<'e>>) -> Base {
        let Some(goal) = self.wanted.asked.delay else { return Ok(None) };
        let curves = group.map(|one| curve(one, goal.statistic));
        let best = curves.reduce(|best, next| if best.is_ok() { best } else { next });
        best.unwrap_or_else(|| Err("no delays were measured".to_owned())).map(Some)
    }

    /// The delay at the load where the capacity is this and all times are so many times as long.
    pub(super) fn delay(&self, base: &Base, (capacity, longer): (f64, f64)) -> Expected {
        let (Some(goal), Some(load)) = (self.wanted.asked.delay, self.wanted.asked.load) else {
            return Ok(None);
        };
        let Some(curve) = base.as_ref().map_err(Clone::clone)? else { return Ok(None) };
        if load.0 >= capacity {
            return Err(format!("{load} is not carried there"));
        }
        Ok(delay_at(curve, (load, capacity, longer), goal.statistic))
    }

    /// Adds what is asked for at the load: no more loss, and the delay where a curve tells it. Returns whether the delay is expected
    /// to be met.
    pub(super) fn at_load(&self, advice: &mut Advice, delay: Expected) {
        let asked = &self.wanted.asked;
        let Some(load) = asked.load else { return };
        let Some(goal) = asked.delay else {
            self.loss(advice, load);
            return;
        };
        if advice.key.wiring == FED {
            advice.meets = None;
            advice.notes.push(format!("over `{FED}` there is no delay: whether {goal} holds is not known"));
            return;
        }
        match delay {
            Ok(Some(prediction)) => {
                let within = prediction.interval.map_or(prediction.value, |interval| interval.high);
                if within >= goal.below.0 as f64 {
                    advice.meets = advice.meets.map(|_| false);
                    advice.notes.push(format!("{goal} is not expected at {load}"));
                }
                advice.predictions.push(prediction);
            }
            Ok(None) => {}
            Err(why) => {
                advice.meets = None;
                advice.notes.push(format!("whether {goal} holds is not predicted: {why}"));
            }
        }
        self.loss(advice, load);
    }

    fn loss(&self, advice: &mut Advice, load: Pps) {
        if advice.meets == Some(true) && advice.key.wiring != FED {
            let most = self.wanted.asked.loss.0;
            let interval = Some(Interval { low: 0.0, high: most });
            advice.predictions.push(Prediction { quantity: Quantity::Loss { load }, value: most, interval });
        }
    }
}

/// The unfavourable end of a rate.
pub(super) fn low(prediction: &Prediction) -> f64 {
    prediction.interval.map_or(prediction.value, |interval| interval.low)
}

/// About what a group of points is.
pub(super) fn about(key: &PointKey) -> String {
    let size = if key.size.parse::<u32>().is_ok() { format!("{} B", key.size) } else { key.size.clone() };
    let wiring =
        if key.dut.starts_with(&key.wiring) { String::new() } else { format!(" over {}", key.wiring) };
    let device = if key.dut.is_empty() { String::new() } else { format!(" on {}", key.device()) };
    format!("{}{device}{wiring}, {}, {size}", key.nf, key.trace)
}

/// Observations of a group, as nanoseconds a packet.
pub(super) struct Observed {
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
    /// The points they are of.
    pub(super) points: Vec<u32>,
    /// Numbers that a check's mean is of.
    pub(super) count: u32,
    pub(super) notes: Vec<String>,
}

impl Observed {
    /// Of the points that have columns; nothing where none has a rate.
    pub(super) fn of(
        context: &Context<'_, '_>,
        group: &[&Evidence<'_>],
        columns: impl Fn(&Evidence<'_>) -> Option<Vec<f64>>,
    ) -> Option<Self> {
        let kind = crate::evidence::kind_of(group)?;
        let mut settings: Vec<Vec<f64>> = Vec::new();
        let (mut rows, mut points, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut trials, mut counts) = (false, Vec::new());
        for evidence in group {
            let Some(columns) = columns(evidence) else { continue };
            let Some(Rates { values, unit }) = evidence.rates(&kind) else {
                let why = context.view.left_out.iter().find(|(point, _)| *point == evidence.point.index);
                let why = why.map_or_else(String::new, |(_, why)| format!(": {why}"));
                notes.push(format!("point {} has no part in it{why}", evidence.point.index));
                continue;
            };
            let setting = settings.iter().position(|known| *known == columns).unwrap_or_else(|| {
                settings.push(columns.clone());
                settings.len() - 1
            });
            trials |= *unit == Unit::Trial;
            counts.push(if *unit == Unit::Trial { values.len() as u32 } else { 1 });
            rows.extend(values.iter().map(|rate| Row::new(&columns, 1e9 / rate, setting)));
            points.push(evidence.point.index);
        }
        if rows.is_empty() {
            return None;
        }
        if trials {
            notes.push(
                "the interval is of trials of one start a point: what differs from start to start is not in it; `repeats = 3` in the plan puts it in"
                    .to_owned(),
            );
        }
        notes.extend(kind.caution(context.wanted.asked.loss));
        let count = counts.into_iter().min().unwrap_or(1);
        Some(Self { kind, rows, points, count, notes })
    }

    /// How many settings they are of.
    pub(super) fn settings(&self) -> usize {
        self.rows.iter().map(|row| row.setting).max().map_or(0, |last| last + 1)
    }

    /// Adds what a reader must know of a fit.
    pub(super) fn remark(&mut self, fit: &Fit) {
        if fit.misses {
            self.notes.push(
                "the points lie farther from the model than they scatter: the interval is as wide as they do"
                    .to_owned(),
            );
        } else if fit.spare_settings == 0 {
            self.notes
                .push("as many settings as the model has parts: its form was taken, not tested".to_owned());
        }
    }

    /// The rate that a fit says, with its interval.
    pub(super) fn rate(&self, fit: &Fit, columns: &[f64]) -> Prediction {
        let interval = fit
            .interval(columns, self.count)
            .map(|Interval { low, high }| Interval { low: 1e9 / high, high: 1e9 / low });
        Prediction { quantity: self.kind.quantity(), value: 1e9 / fit.value(columns), interval }
    }

    /// Those of one setting.
    pub(super) fn at(&self, columns: &[f64]) -> Self {
        let rows = self.rows.iter().filter(|row| row.x == columns).cloned().collect();
        Self { kind: self.kind.clone(), rows, points: Vec::new(), count: self.count, notes: Vec::new() }
    }

    /// The mean rate and the 95 % prediction interval of a further mean, of numbers of one setting.
    pub(super) fn alone(&self) -> Option<(Fit, Prediction)> {
        let rows: Vec<Row> = self.rows.iter().map(|row| Row::new(&[1.0], row.y, 0)).collect();
        let fit = Fit::of(&rows).ok()?;
        let prediction = self.rate(&fit, &[1.0]);
        Some((fit, prediction))
    }
}

/// The capacity that delays are held against: what is forwarded at the greatest load, else a throughput.
pub(super) fn known(evidence: &Evidence<'_>) -> Option<Known> {
    let searched = || evidence.throughput.as_ref().map(|(_, rates)| rates.values.as_slice());
    let rates = evidence.forwarded.as_ref().map(|_| evidence.of_trials.as_slice()).or_else(searched)?;
    let spread = Spread::of(rates)?;
    let scatter = spread.deviation.unwrap_or(0.0) / spread.mean;
    Some(Known { capacity: spread.mean, scatter, trials: spread.count })
}

/// The delay curve of a point.
pub(super) fn curve(evidence: &Evidence<'_>, statistic: Statistic) -> Result<Curve, String> {
    if evidence.delays.is_empty() {
        return Err("no delays were measured; add `[latency_curve]`".to_owned());
    }
    let known =
        known(evidence).ok_or("the capacity that delays are held against is not known; add `[mrr]`")?;
    Curve::of(&evidence.delays, statistic, known).map_err(|error| error.to_string())
}

/// A delay at a load where the capacity is another one: of times that are `longer` times as long, at the load that takes the same
/// share of the capacity.
pub(super) fn delay_at(
    curve: &Curve,
    (load, capacity, longer): (Pps, f64, f64),
    statistic: Statistic,
) -> Option<Prediction> {
    let same_share = load.0 * curve.known.capacity / capacity;
    let value = curve.delay(same_share)? * longer;
    let interval = curve
        .interval(same_share)
        .map(|Interval { low, high }| Interval { low: low * longer, high: high * longer });
    Some(Prediction { quantity: Quantity::Delay { load, statistic }, value, interval })
}

/// A load in three figures, rounded down, so that people and plans can write it.
pub(super) fn rounded(load: f64) -> f64 {
    let step = 10_f64.powf((load.max(1.0).log10()).floor() - 2.0);
    (load / step * (1.0 + 1e-12)).floor() * step
}
