//! A soak: the table `[soak]`, the slices at a point.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::plan::check::Checker;
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::latency::LoadSpec;
use weir_methods::soak::Soak;
use weir_methods::{Observer, Remaining};
use weir_trial::Measurer;
use weir_trial::run::SoakResult;
use weir_units::Nanos;

const SECOND: Nanos = Nanos(Nanos::PER_SECOND);

/// One load over a long time, slice by slice, with the time of each loss.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoakTable {
    /// The load: a rate (1Mpps), a share of a goal's lower bound (90% ndr), a share of the line (10% line).
    #[schemars(with = "Text<LoadSpec>")]
    load: Spanned<Text<LoadSpec>>,
    /// Time under load. Default: 10min.
    #[schemars(with = "Option<Text<Nanos>>")]
    time: Option<Spanned<Text<Nanos>>>,
    /// Length of a slice: each is a trial with a time, and the load pauses between two. Default: 10s.
    #[schemars(with = "Option<Text<Nanos>>")]
    slice: Option<Spanned<Text<Nanos>>>,
}

impl PlannedMethod for Soak {
    type Table = Spanned<SoakTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<SoakTable>) -> Self {
        checker.any_load("soak", &table.span());
        let table = table.into_inner();
        let span = table.load.span();
        let Text(load) = table.load.into_inner();
        checker.known_goal("load", span, &load);
        let place = table.slice.as_ref().map(Spanned::span);
        let time = checker.time("time", table.time, Nanos(600 * SECOND.0));
        let slice = checker.time("slice", table.slice, Nanos(10 * SECOND.0).min(time));
        if let Some(place) = place.filter(|_| slice > time) {
            checker.refuse(&place, format!("`slice` is longer than `time`, which is {time}"));
        }
        Self { load, time, slice }
    }

    fn line(&self) -> (&'static str, String) {
        let (slices, slice) = (self.slices(), self.slice);
        ("soak", format!("{slices} slices of {slice} at {}", self.load))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.most()))
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        match self.load.resolve(&at.loads()) {
            Err(error) => at.remarks.push(format!("soak at {error}")),
            Ok(load) => {
                let outcome = Soak::run(self, load, measurer, observer)?;
                at.results.push(outcome.point_result());
            }
        }
        Ok(())
    }
}

impl Limited for SoakResult {}
