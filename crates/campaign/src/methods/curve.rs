//! Latency against load: the table `[latency_curve]`, the curve at a point, who limits it.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::limit::Evidence;
use crate::plan::check::{Checker, unit};
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::curve::LatencyCurve;
use weir_methods::mlrsearch::GoalOutcome;
use weir_methods::{Observer, Remaining};
use weir_trial::Measurer;
use weir_trial::run::{CurveResult, Purpose};
use weir_units::{Nanos, Pps, Ratio};

const SECOND: Nanos = Nanos(Nanos::PER_SECOND);
/// Most loads a decade, and most around saturation.
const MOST_LOADS: u32 = 100;

/// Latency against load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePlan {
    /// Least load, over all directions.
    pub from: Pps,
    /// Greatest load, over all directions; nothing for the greatest of the search, or of the line.
    pub to: Option<Pps>,
    /// Loads a decade far below saturation.
    pub per_decade: u32,
    /// Loads around saturation.
    pub dense: u32,
    /// Shortest trial.
    pub duration: Nanos,
    /// Delays a trial is made longer for.
    pub samples: u64,
    /// Longest trial.
    pub longest: Nanos,
    /// Loss ratio from which a load is too much.
    pub loss_ratio: Ratio,
}

/// Latency and loss from next to no load to beyond saturation. Without a throughput search, trials find out where that is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LatencyCurveTable {
    /// Least load, over all directions. Default: 100pps.
    #[schemars(with = "Option<Text<Pps>>")]
    from: Option<Spanned<Text<Pps>>>,
    /// Greatest load, over all directions. Default: the greatest of the throughput search, else what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    to: Option<Spanned<Text<Pps>>>,
    /// Loads a decade, up to 60 % of what the device carries. Default: 3.
    #[schemars(with = "Option<u32>")]
    per_decade: Option<Spanned<u32>>,
    /// Loads from there to 110 %, evenly. Default: 12.
    #[schemars(with = "Option<u32>")]
    dense: Option<Spanned<u32>>,
    /// Length of each trial. Default: 1s.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
    /// Delays a trial should have: trials at small loads are longer for it. Default: 1000.
    #[schemars(with = "Option<u32>")]
    samples: Option<Spanned<u32>>,
    /// Longest trial, however few delays it has. Default: 10s.
    #[schemars(with = "Option<Text<Nanos>>")]
    longest: Option<Spanned<Text<Nanos>>>,
    /// Loss ratio from which a load is more than the device carries. Default: 0.1%.
    #[schemars(with = "Option<Text<Ratio>>")]
    loss_ratio: Option<Spanned<Text<Ratio>>>,
}

impl CurvePlan {
    /// The measurement at a point, where a share of the packets carries stamps.
    pub fn method(&self, max_load: Pps, stamped: Ratio) -> LatencyCurve {
        LatencyCurve {
            from: self.from,
            to: self.to.unwrap_or(max_load),
            per_decade: self.per_decade,
            dense: self.dense,
            duration: self.duration,
            packets: (self.samples as f64 / stamped.0.max(1e-6)).ceil() as u64,
            longest: self.longest,
            loss_ratio: self.loss_ratio,
        }
    }
}

impl PlannedMethod for CurvePlan {
    type Table = Spanned<LatencyCurveTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<LatencyCurveTable>) -> Self {
        let whole = table.span();
        checker.any_load("latency_curve", &whole);
        let table = table.into_inner();
        let from = table.from.as_ref().map_or(Pps(100.0), unit);
        let to = table.to.as_ref().map(unit);
        if from.0 <= 0.0 {
            let span = table.from.as_ref().map_or(whole.clone(), Spanned::span);
            checker.refuse(&span, "`from` is zero; write the least load, for example \"100pps\"");
        }
        if let Some(to) = table.to.as_ref().filter(|to| unit(to).0 <= from.0) {
            checker.refuse(&to.span(), format!("`to` must be more than `from`, which is {from}"));
        }
        let loss_ratio = table.loss_ratio.as_ref().map_or(Ratio(0.001), unit);
        if let Some(ratio) = table.loss_ratio.as_ref().filter(|ratio| !(0.0..1.0).contains(&unit(ratio).0)) {
            checker.refuse(&ratio.span(), "`loss_ratio` must be less than 100%");
        }
        let duration = checker.duration(table.duration, SECOND);
        let place = table.longest.as_ref().map_or(whole, Spanned::span);
        let longest = checker.time("longest", table.longest, Nanos(10 * SECOND.0).max(duration));
        if longest < duration {
            checker.refuse(&place, format!("`longest` is shorter than `duration`, which is {duration}"));
        }
        Self {
            from,
            to,
            per_decade: checker.count("per_decade", table.per_decade, 3, (1, MOST_LOADS)),
            dense: checker.count("dense", table.dense, 12, (2, MOST_LOADS)),
            duration,
            samples: u64::from(checker.count("samples", table.samples, 1000, (1, u32::MAX))),
            longest,
            loss_ratio,
        }
    }

    fn line(&self) -> (&'static str, String) {
        let (from, longest) = (self.from, self.longest);
        ("curve", format!("latency from {from} to saturation, {} to {longest} each", self.duration))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.method(assumed.max_load, assumed.stamped).usual(assumed.searched)))
    }

    fn needs_stamps(&self) -> bool {
        true
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        let method = self.method(at.max_load, at.plan.stamped);
        let capacity = at.goals.iter().filter_map(GoalOutcome::best_lower);
        let capacity = capacity.max_by(|a, b| a.0.total_cmp(&b.0));
        let outcome = method.run(capacity, measurer, observer)?;
        at.results.push(outcome.point_result());
        Ok(())
    }
}

impl Limited for CurveResult {
    fn limit(&mut self, evidence: &Evidence<'_>) {
        let found = &self.saturation;
        self.limit = match found.upper {
            Some(upper) => evidence.of_failure(found.lower, upper, found.loss_ratio, Purpose::Latency),
            None => found.lower.map(|lower| evidence.of_no_failure(lower)),
        };
    }
}
