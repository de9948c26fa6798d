//! Forwarded rate at the greatest load: the table `[mrr]`, the trials at a point, who limits the rate.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::limit::{Evidence, SAME_LOAD, near};
use crate::plan::check::{Checker, unit};
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::mrr::Mrr;
use weir_methods::{Observer, Remaining};
use weir_trial::run::{MrrResult, Purpose};
use weir_trial::{Limit, Limiter, Measurer, SelfCheck};
use weir_units::{Nanos, Pps, Ratio};

/// Most trials of one measurement.
const MOST_TRIALS: u32 = 1000;

/// Forwarded rate at the greatest load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MrrPlan {
    /// Trials.
    pub trials: u32,
    /// Length of each.
    pub duration: Nanos,
    /// Load offered, over all directions; nothing for what the line carries.
    pub load: Option<Pps>,
    /// Whether the one trial of each repeat counts from the device's first packet on (`fed` only).
    pub from_start: bool,
}

/// Forwarded rate at the greatest load.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MrrTable {
    /// Trials, 1 to 1000. Default: 10.
    #[schemars(with = "Option<u32>")]
    trials: Option<Spanned<u32>>,
    /// Length of each. Default: 1s.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
    /// Load offered, over all directions. Default: what the line rate carries.
    #[schemars(with = "Option<Text<Pps>>")]
    load: Option<Spanned<Text<Pps>>>,
    /// Over `fed`: whether the one trial of each repeat counts from the device's first packet on, with
    /// its caches empty, instead of at a steady rate. Default: false.
    #[schemars(with = "Option<bool>")]
    from_start: Option<Spanned<bool>>,
}

impl MrrPlan {
    /// The measurement at a point whose line carries at most `theoretical`, over all directions.
    pub fn method(&self, theoretical: Pps) -> Mrr {
        Mrr { trials: self.trials, duration: self.duration, load: self.load.unwrap_or(theoretical) }
    }
}

impl PlannedMethod for MrrPlan {
    type Table = MrrTable;

    fn checked(checker: &mut Checker<'_>, table: MrrTable) -> Self {
        let trials = checker.count("trials", table.trials, 10, (1, MOST_TRIALS));
        if let Some(load) = &table.load
            && unit(load).0 <= 0.0
        {
            checker.refuse(&load.span(), "`load` is zero; write a rate, for example \"10Mpps\"");
        }
        let from_start = table.from_start.as_ref().is_some_and(|from_start| *from_start.as_ref());
        if let Some(place) = table.from_start.filter(|_| from_start && trials > 1) {
            let why = "a device starts once a repeat: write `trials = 1`, and `repeats` for more";
            checker.refuse(&place.span(), format!("`from_start`: {why}"));
        }
        Self {
            from_start,
            trials,
            duration: checker.duration(table.duration, Nanos(Nanos::PER_SECOND)),
            load: table.load.as_ref().map(unit),
        }
    }

    fn line(&self) -> (&'static str, String) {
        ("mrr", format!("{} trials of {}", self.trials, self.duration))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.trials(self.trials, self.duration))
    }

    fn needs_tester(&self) -> bool {
        false
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        let outcome = self.method(at.line).run(measurer, observer)?;
        at.results.push(outcome.point_result());
        Ok(())
    }
}

impl Limited for MrrResult {
    fn limit(&mut self, evidence: &Evidence<'_>) {
        let mean = self.mean;
        match self.load {
            Some(load) => {
                self.limit = evidence
                    .of_failure(Some(mean), load, Ratio(0.0), Purpose::Mrr)
                    .or_else(|| (mean.0 >= load.0 * (1.0 - SAME_LOAD)).then(|| evidence.of_no_failure(load)));
            }
            None if evidence.fed => {
                let why = "its packets come from inside: no tester is at the wire".to_owned();
                self.limit = Some(Limit { by: Limiter::Dut, why });
            }
            None => {}
        }
    }

    fn near_ceiling(&self, check: &SelfCheck) -> Option<Pps> {
        self.load.filter(|_| near(check, self.mean, 1.0))
    }
}
