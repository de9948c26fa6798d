//! Changes of flow entries a second: the table `[flow_mods]`, the pairs of trials at a point.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::plan::check::Checker;
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::flow_mods::FlowMods;
use weir_methods::latency::LoadSpec;
use weir_methods::{Observer, Remaining};
use weir_trial::run::FlowModsResult;
use weir_trial::{Measurer, Server};
use weir_units::Nanos;

/// Most changes before a barrier, and most pairs of trials.
const MOST_BATCH: u32 = 1000;
const MOST_PAIRS: u32 = 1000;

/// Changes of flow entries a second under a load, and what they cost that load.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowModsTable {
    /// The load: a rate (100kpps), a share of the forwarded rate (50% mrr, which takes a table `[mrr]`), of a goal's lower bound (50% ndr), or of the line (1% line).
    #[schemars(with = "Text<LoadSpec>")]
    load: Spanned<Text<LoadSpec>>,
    /// Changes before each barrier, 1 to 1000. Default: 50.
    #[schemars(with = "Option<u32>")]
    batch: Option<Spanned<u32>>,
    /// Pairs of trials, one without changes and one with them, 1 to 1000. Default: 10.
    #[schemars(with = "Option<u32>")]
    pairs: Option<Spanned<u32>>,
    /// Length of each trial. Default: 800ms, so that tester and device may have real-time priority.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
}

impl PlannedMethod for FlowMods {
    type Table = Spanned<FlowModsTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<FlowModsTable>) -> Self {
        checker.any_load("flow_mods", &table.span());
        let table = table.into_inner();
        let span = table.load.span();
        let Text(load) = table.load.into_inner();
        checker.known_goal("load", span, &load);
        Self {
            load,
            batch: checker.count("batch", table.batch, 50, (1, MOST_BATCH)),
            pairs: checker.count("pairs", table.pairs, 10, (1, MOST_PAIRS)),
            duration: checker.duration(table.duration, Nanos(800_000_000)),
        }
    }

    fn line(&self) -> (&'static str, String) {
        let Self { load, batch, pairs, duration } = self;
        ("flow mods", format!("{pairs} pairs of {duration} at {load}, a barrier every {batch}"))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.most()))
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
        if let Err(why) = takes_changes(at) {
            at.remarks.push(format!("flow mods: {why}"));
            return Ok(());
        }
        match self.load.resolve(&at.loads()) {
            Err(error) => at.remarks.push(format!("flow mods at {error}")),
            Ok(load) => {
                let outcome = FlowMods::run(self, load, measurer, observer)?;
                at.results.push(outcome.point_result());
            }
        }
        Ok(())
    }
}

/// Whether the flow entries of a point's device can be changed while it forwards; the reason where not.
fn takes_changes(at: &AtPoint<'_>) -> Result<(), String> {
    if !at.spec.placement.is_inline() {
        return Err("functions behind a dataplane are devices of their own".to_owned());
    }
    if let Some(server @ Server::Ssh(_)) = &at.spec.placement.server {
        return Err(format!(
            "the lab changes flow entries at a socket of its own machine, and the device is at {server}"
        ));
    }
    let (name, _) = weir_dut::split(&at.spec.dut);
    let adapter = weir_dut::adapter(&at.spec.dut).ok_or_else(|| format!("no device {name}"))?;
    adapter.takes_changes(at.spec.nf)
}

impl Limited for FlowModsResult {}
