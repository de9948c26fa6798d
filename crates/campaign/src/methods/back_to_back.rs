//! Back-to-back frames: the table `[back_to_back]`, the bursts at a point.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::plan::check::Checker;
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_methods::back_to_back::{BackToBack, LineAndThroughput};
use weir_methods::mlrsearch::{GoalOutcome, GoalState};
use weir_methods::{Observer, Remaining};
use weir_traffic::Shape;
use weir_traffic::trace::Sizes;
use weir_trial::Measurer;
use weir_trial::run::BackToBackResult;
use weir_units::Nanos;

/// Most complete searches for a burst.
const MOST_SEARCHES: u32 = 1000;

/// The longest burst at the line rate that comes through whole (RFC 9004). Frames of one size only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackToBackTable {
    /// Goal of the throughput search whose answer corrects the burst. Default: ndr.
    #[schemars(with = "Option<String>")]
    goal: Option<Spanned<String>>,
    /// Complete searches, 1 to 1000. Default: 5.
    #[schemars(with = "Option<u32>")]
    searches: Option<Spanned<u32>>,
    /// Frames to which a search goes. Default: 10.
    #[schemars(with = "Option<u32>")]
    step: Option<Spanned<u32>>,
    /// Time that the longest burst may take. Default: 30s.
    #[schemars(with = "Option<Text<Nanos>>")]
    ceiling: Option<Spanned<Text<Nanos>>>,
    /// Time without traffic before each burst. Default: 2s.
    rest: Option<Text<Nanos>>,
}

impl PlannedMethod for BackToBack {
    type Table = Spanned<BackToBackTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<BackToBackTable>) -> Self {
        let whole = table.span();
        if checker.shape != Shape::Constant {
            let cure = "leave `shape` out, or [back_to_back]";
            checker
                .refuse(&whole, format!("[back_to_back]: a burst has the least gap between frames; {cure}"));
        }
        let table = table.into_inner();
        let span = table.goal.as_ref().map_or(whole, Spanned::span);
        let goal = table.goal.map_or_else(|| "ndr".to_owned(), Spanned::into_inner);
        if checker.whole && !checker.searched.contains(&goal) {
            let cure = "add it to `goals` of [throughput]";
            let mut unknown = Diagnostic::unknown(span, "goal", &goal, &checker.goal_names());
            unknown.message = format!(
                "[back_to_back] corrects the burst by the throughput of the goal `{goal}` (RFC 9004): {cure}"
            );
            checker.found.push(unknown);
        }
        Self {
            goal,
            searches: checker.count("searches", table.searches, 5, (1, MOST_SEARCHES)),
            step: u64::from(checker.count("step", table.step, 10, (1, u32::MAX))),
            ceiling: checker.time("ceiling", table.ceiling, Self::RFC9004_CEILING),
            rest: table.rest.map_or(Self::RFC9004_REST, |text| text.0),
        }
    }

    fn line(&self) -> (&'static str, String) {
        ("bursts", format!("{} searches, corrected by {}", self.searches, self.goal))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.usual()))
    }

    fn warnings(&self) -> Vec<String> {
        BackToBack::warnings(self)
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        if !matches!(at.spec.size, Sizes::Fixed(_)) {
            let size = at.spec.size;
            at.remarks.push(format!("back-to-back: {size} left out, RFC 9004 asks for frames of one size"));
            return Ok(());
        }
        // A search that was not let up to the line rate does not know what the device forwards.
        let cut_off =
            |outcome: &&GoalOutcome| outcome.state == GoalState::MaxLoadPassed && at.max_load.0 < at.line.0;
        let goal = at.goals.iter().find(|outcome| outcome.goal.name == self.goal);
        let throughput = goal.filter(|outcome| !cut_off(outcome)).and_then(|outcome| outcome.throughput);
        let outcome =
            BackToBack::run(self, LineAndThroughput { line: at.line, throughput }, measurer, observer)?;
        at.results.push(outcome.point_result());
        Ok(())
    }
}

impl Limited for BackToBackResult {}
