//! One result of a point, with what a reader must be told beside its number.

use super::rate_words;
use crate::digest::{Entry, sum};
use crate::table::Cell;
use crate::units::percent;
use weir_trial::run::{Estimate, MrrResult, PointResult, ThroughputResult};
use weir_trial::{Limit, Limiter};
use weir_units::{Nanos, Pps, Ratio};

/// Trials of RFC 2544 (section 24) last this long; shorter ones say so.
pub(crate) const STANDARD_TRIAL: Nanos = Nanos(60 * Nanos::PER_SECOND);

/// Share of a trial's packets from which a late tester is named.
pub(crate) const TESTER_LATE: f64 = 0.001;

/// One goal's answer about one point.
#[derive(Clone)]
pub(crate) struct Found<'a> {
    pub(crate) goal: &'a str,
    pub(crate) loss_ratio: Ratio,
    pub(crate) throughput: Option<Pps>,
    pub(crate) lower: Option<Pps>,
    pub(crate) upper: Option<Pps>,
    pub(crate) trial_duration: Nanos,
    pub(crate) trials: u32,
    pub(crate) irregular: Option<&'a str>,
    /// What is known all the same, where the search did not settle the goal.
    pub(crate) estimate: Option<&'a Estimate>,
    pub(super) result: &'a PointResult,
}

impl<'a> Found<'a> {
    pub(crate) fn of(result: &'a PointResult) -> Option<Self> {
        let PointResult::Throughput(ThroughputResult {
            goal,
            loss_ratio,
            throughput,
            lower,
            upper,
            irregular,
            estimate,
            trial_duration,
            trials,
            ..
        }) = result
        else {
            return None;
        };
        Some(Self {
            goal,
            loss_ratio: *loss_ratio,
            throughput: *throughput,
            lower: *lower,
            upper: *upper,
            trial_duration: *trial_duration,
            trials: *trials,
            irregular: irregular.as_deref(),
            estimate: estimate.as_ref(),
            result,
        })
    }

    /// What a reader must be told beside the number.
    pub(crate) fn warnings(&self, entry: &Entry<'_>) -> Vec<String> {
        let mut warnings: Vec<String> = doubted(entry, self.result).into_iter().collect();
        warnings.extend(self.irregular.map(|why| format!("irregular: {why}")));
        warnings.extend(above_ceiling(entry, self.result));
        if let Some(share) = self.tester_late(entry) {
            warnings.push(format!(
                "the tester was late with {} of the packets at the upper bound: the device may be faster",
                percent(share)
            ));
        }
        warnings
    }

    /// Whether a bound is missing.
    pub(crate) fn is_irregular(&self) -> bool {
        self.irregular.is_some()
    }

    /// Whether it is an estimate, no result: a bound is missing, and not because the greatest load passed.
    pub(crate) fn is_estimate(&self) -> bool {
        self.estimate.is_some()
            || self.is_irregular() && self.limit().is_none_or(|limit| limit.by != Limiter::Line)
    }

    /// The rate, or where there is none the bound that is known.
    pub(crate) fn known(&self) -> Option<Pps> {
        let estimated = self.estimate.and_then(|estimate| estimate.lower.or(estimate.upper));
        self.throughput.or(self.lower).or(estimated).or(self.upper)
    }

    /// The bounds, or where the search was not settled those of its estimate.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let estimated = || self.estimate.and_then(|estimate| estimate.lower.zip(estimate.upper));
        self.lower.zip(self.upper).or_else(estimated).map(|(lower, upper)| (lower.0, upper.0))
    }

    /// Who limits it, where that is known.
    pub(crate) fn limit(&self) -> Option<&'a Limit> {
        self.result.limit()
    }

    /// Whether its trials forbid to rank it.
    pub(crate) fn is_invalid(&self, entry: &Entry<'_>) -> bool {
        entry.point.doubt(self.result).is_some_and(|doubt| doubt.invalid)
    }

    /// Share of the packets at the upper bound that the tester was too late to offer, where it matters.
    pub(crate) fn tester_late(&self, entry: &Entry<'_>) -> Option<f64> {
        let counts = sum(&entry.at(self.upper?));
        let share = counts.unsent as f64 / counts.intended.max(1) as f64;
        (share >= TESTER_LATE.max(self.loss_ratio.0)).then_some(share)
    }

    pub(super) fn length(&self) -> String {
        let short = if self.trial_duration < STANDARD_TRIAL { ", under 60\u{a0}s" } else { "" };
        format!("{}{short}", self.trial_duration)
    }

    pub(super) fn detail(&self, entry: &Entry<'_>, subject: &str) -> String {
        let bytes = entry.bytes();
        let mut lines = vec![format!("{} · {} · {}", subject, self.goal, entry.size())];
        match self.throughput {
            Some(rate) => {
                lines.push(rate_words(rate.0, bytes));
                lines.push(format!("{} of {}", percent(entry.of_theoretical(rate)), entry.wire_name()));
            }
            None => lines.push("no throughput found".to_owned()),
        }
        lines.push(format!("bounds {}", bounds(self.lower, self.upper)));
        lines.push(format!("{} trials, the last of {}", self.trials, self.length()));
        lines.extend(self.limit().map(limited));
        lines.extend(self.warnings(entry));
        lines.join("\n")
    }
}

/// What the trials of a result say against it.
pub(super) fn doubted(entry: &Entry<'_>, result: &PointResult) -> Option<String> {
    let doubt = entry.point.doubt(result)?;
    Some(if doubt.invalid { format!("INVALID, not ranked: {}", doubt.why) } else { doubt.why })
}

/// That a rate passes what tester and wiring reached with nothing in between, where it does.
pub(crate) fn above_ceiling(entry: &Entry<'_>, result: &PointResult) -> Option<String> {
    let ceiling = entry.ceiling?;
    let rate = result.of_method().forwards()?;
    (rate.0 > ceiling.0).then(|| {
        format!("above the ceiling of {ceiling} that tester and wiring reached with nothing in between")
    })
}

/// Who limits a result, in words.
fn limited(limit: &Limit) -> String {
    format!("limited by {}: {}", limit.by.name(), limit.why)
}

pub(super) fn limit_cell(limit: Option<&Limit>) -> Cell {
    limit.map_or(Cell::None, |limit| Cell::Text(limit.by.name().to_owned()))
}

/// Why the device is not what limits a result, for the note; nothing where it is.
pub(super) fn not_the_device(limit: Option<&Limit>) -> Option<String> {
    limit.filter(|limit| limit.by != Limiter::Dut).map(limited)
}

/// Bounds as they are written everywhere: `[2.401 Mpps, 2.423 Mpps]`.
pub(crate) fn bounds(lower: Option<Pps>, upper: Option<Pps>) -> String {
    let text = |bound: Option<Pps>| bound.map_or("none".to_owned(), |pps| pps.to_string());
    format!("[{}, {}]", text(lower), text(upper))
}

/// The greatest forwarded rate of one point.
#[derive(Clone)]
pub(crate) struct Greatest<'a> {
    pub(crate) load: Option<Pps>,
    pub(crate) rates: &'a [Pps],
    pub(crate) mean: Pps,
    pub(crate) deviation: Pps,
    pub(crate) cycles: Option<f64>,
    pub(super) result: &'a PointResult,
}

impl<'a> Greatest<'a> {
    pub(crate) fn of(result: &'a PointResult) -> Option<Self> {
        let PointResult::Mrr(MrrResult { load, rates, mean, deviation, cycles_per_packet, .. }) = result
        else {
            return None;
        };
        let cycles = *cycles_per_packet;
        Some(Self { load: *load, rates, mean: *mean, deviation: *deviation, cycles, result })
    }

    /// Who limits it, where that is known.
    pub(crate) fn limit(&self) -> Option<&'a Limit> {
        self.result.limit()
    }

    /// Whether its trials forbid to rank it.
    pub(crate) fn is_invalid(&self, entry: &Entry<'_>) -> bool {
        entry.point.doubt(self.result).is_some_and(|doubt| doubt.invalid)
    }

    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let low = self.rates.iter().map(|rate| rate.0).fold(f64::INFINITY, f64::min);
        let high = self.rates.iter().map(|rate| rate.0).fold(f64::NEG_INFINITY, f64::max);
        (low <= high).then_some((low, high))
    }

    pub(super) fn detail(&self, entry: &Entry<'_>, subject: &str) -> String {
        let mut lines = vec![
            format!("{subject} · MRR · {}", entry.size()),
            format!("mean {}", rate_words(self.mean.0, entry.bytes())),
        ];
        if let Some((low, high)) = self.spread() {
            lines.push(format!(
                "{} to {} in {} trials, deviation {}",
                Pps(low),
                Pps(high),
                self.rates.len(),
                self.deviation
            ));
        }
        lines.push(match self.load {
            Some(load) => format!("at {load} offered"),
            None => "the source is in the device: no wire".to_owned(),
        });
        if let Some(cycles) = self.cycles {
            lines.push(format!("{cycles:.1} cycles per packet"));
        }
        lines.extend(self.limit().map(limited));
        lines.extend(doubted(entry, self.result));
        lines.extend(above_ceiling(entry, self.result));
        lines.join("\n")
    }
}
