//! Frame loss: the table `[frame_loss]`, the trials at a point.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::plan::check::{Checker, unit};
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::frame_loss::FrameLoss;
use weir_methods::{Observer, Remaining};
use weir_trial::Measurer;
use weir_trial::run::FrameLossResult;
use weir_units::{Nanos, Ratio};

/// Loss against load, from the line rate down until two successive trials lose nothing (RFC 2544, section 26.3).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameLossTable {
    /// Distance of two loads as a share of the line rate, 1% to 10%. Default: 10%.
    #[schemars(with = "Option<Text<Ratio>>")]
    step: Option<Spanned<Text<Ratio>>>,
    /// Length of each trial. Default: 10s; RFC 2544 asks for 60s.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
}

impl PlannedMethod for FrameLoss {
    type Table = Spanned<FrameLossTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<FrameLossTable>) -> Self {
        checker.any_load("frame_loss", &table.span());
        let table = table.into_inner();
        let step = table.step.as_ref().map_or(Self::WIDEST_STEP, unit);
        let (least, most) = (Self::NARROWEST_STEP, Self::WIDEST_STEP);
        if let Some(text) = table.step.as_ref().filter(|_| !(least.0..=most.0).contains(&step.0)) {
            let rule = "RFC 2544, section 26.3, allows 10 % at most";
            checker.refuse(&text.span(), format!("`step`: {step} is outside 1 % to 10 %; {rule}"));
        }
        Self { step, duration: checker.duration(table.duration, Nanos(10 * Nanos::PER_SECOND)) }
    }

    fn line(&self) -> (&'static str, String) {
        ("frame loss", format!("in steps of {}, {} each", self.step, self.duration))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.most()))
    }

    fn warnings(&self) -> Vec<String> {
        FrameLoss::warnings(self)
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        let outcome = FrameLoss::run(self, at.line, measurer, observer)?;
        at.results.push(outcome.point_result());
        Ok(())
    }
}

impl Limited for FrameLossResult {}
