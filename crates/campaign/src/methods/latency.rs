//! Latency at given loads: the table `[latency]`, the loads at a point, what the bare wiring takes.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::limit::Evidence;
use crate::plan::check::Checker;
use crate::plan::text::{List, Text};
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::latency::{LatencyAt, LoadSpec};
use weir_methods::{Observer, Remaining};
use weir_trial::Measurer;
use weir_trial::run::LatencyResult;
use weir_units::Nanos;

/// Latency at given loads.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LatencyTable {
    /// Loads: a rate (100kpps), a share of a goal's lower bound (50% ndr), a share of the line (10% line).
    #[schemars(with = "List<Text<LoadSpec>>")]
    loads: Spanned<List<Text<LoadSpec>>>,
    /// Length of each trial. Default: 5s.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
}

impl PlannedMethod for LatencyAt {
    type Table = LatencyTable;

    fn checked(checker: &mut Checker<'_>, table: LatencyTable) -> Self {
        let whole = table.loads.span();
        let mut loads = Vec::new();
        for (span, Text(load)) in table.loads.into_inner().0 {
            let span = span.unwrap_or_else(|| whole.clone());
            checker.known_goal("loads", span, &load);
            loads.push(load);
        }
        if loads.is_empty() {
            checker.refuse(
                &whole,
                "`loads` is an empty list; give it at least one load, for example \"50% ndr\"",
            );
        }
        Self { loads, duration: checker.duration(table.duration, Nanos(5 * Nanos::PER_SECOND)) }
    }

    fn line(&self) -> (&'static str, String) {
        let loads: Vec<String> = self.loads.iter().map(ToString::to_string).collect();
        ("latency", format!("at {}, {} each", loads.join(", "), self.duration))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.trials(self.loads.len() as u32, self.duration))
    }

    fn warnings(&self) -> Vec<String> {
        LatencyAt::warnings(self)
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
        for point in LatencyAt::run(self, &at.loads(), measurer, observer)? {
            at.results.extend(point.point_result());
            if let Err(error) = &point.trial {
                at.remarks.push(format!("latency at {error}"));
            }
        }
        Ok(())
    }
}

impl Limited for LatencyResult {
    fn limit(&mut self, evidence: &Evidence<'_>) {
        self.floor = evidence.check.and_then(|check| check.floor_at(self.load));
    }
}
