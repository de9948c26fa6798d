//! Connections a second and at a time: the table `[connections]`, the searches at a point.

use super::{Assumed, AtPoint, Limited, PlannedMethod};
use crate::plan::check::Checker;
use crate::plan::text::Text;
use crate::runner::CampaignError;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_methods::connections::Connections;
use weir_methods::{Observer, Remaining};
use weir_traffic::Script;
use weir_traffic::trace::Sizes;
use weir_trial::Measurer;
use weir_trial::run::ConnectionsResult;
use weir_units::{FrameSize, Nanos, Ratio};

/// Most complete searches, and most connections a second and at a time.
const MOST_SEARCHES: u32 = 1000;
const MOST_RATE: u32 = 10_000_000;
const MOST_HELD: u32 = 4_000_000;

/// TCP connections a second, and at a time, through a function that tracks them. Takes frames of 64 bytes and both directions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionsTable {
    /// Complete searches for the rate, 1 to 1000. Default: 5.
    #[schemars(with = "Option<u32>")]
    searches: Option<Spanned<u32>>,
    /// Length of each trial of the rate. Default: 800ms, so that tester and device may have real-time priority.
    #[schemars(with = "Option<Text<Nanos>>")]
    duration: Option<Spanned<Text<Nanos>>>,
    /// First rate that is tried, in connections a second. Default: 10000.
    #[schemars(with = "Option<u32>")]
    first: Option<Spanned<u32>>,
    /// Greatest rate that is tried, in connections a second. Default: 2000000.
    #[schemars(with = "Option<u32>")]
    most: Option<Spanned<u32>>,
    /// Width of an answer: of the rate, and of the number at a time. Default: 2%.
    width: Option<Text<Ratio>>,
    /// Most connections at a time that are asked for, 0 to 4000000; 0 leaves that out. Default: 500000.
    #[schemars(with = "Option<u32>")]
    held: Option<Spanned<u32>>,
    /// Share of the rate found at which these are opened. Default: 50%.
    opened_at: Option<Text<Ratio>>,
}

impl PlannedMethod for Connections {
    type Table = Spanned<ConnectionsTable>;

    fn checked(checker: &mut Checker<'_>, table: Spanned<ConnectionsTable>) -> Self {
        let span = table.span();
        let table = table.into_inner();
        let most_at = table.most.as_ref().map_or(span.clone(), Spanned::span);
        let first = checker.count("first", table.first, 10_000, (1, MOST_RATE));
        let most = checker.count("most", table.most, 2_000_000, (1, MOST_RATE));
        if most < first {
            checker.refuse(&most_at, format!("[connections]: `most` ({most}) is below `first` ({first})"));
        }
        let ratio = |text: Option<Text<Ratio>>, default| text.map_or(Ratio(default), |text| text.0);
        let (width, opened_at) = (ratio(table.width, 0.02), ratio(table.opened_at, 0.5));
        if width.0 < 0.001 || width.0 > 0.5 {
            checker.refuse(&span, format!("[connections]: `width` is {width}; write 0.1% to 50%"));
        }
        if opened_at.0 < 0.01 || opened_at.0 > 1.0 {
            checker.refuse(&span, format!("[connections]: `opened_at` is {opened_at}; write 1% to 100%"));
        }
        Self {
            searches: checker.count("searches", table.searches, 5, (1, MOST_SEARCHES)),
            duration: checker.duration(table.duration, Nanos(800_000_000)),
            rates: (f64::from(first), f64::from(most)),
            width,
            most_held: u64::from(checker.count("held", table.held, 500_000, (0, MOST_HELD))),
            opened_at,
        }
    }

    fn line(&self) -> (&'static str, String) {
        let Self { searches, duration, most_held, .. } = self;
        let held = if *most_held > 0 { format!(", up to {most_held} at a time") } else { String::new() };
        ("connection", format!("{searches} searches in trials of {duration}{held}"))
    }

    fn estimate(&self, assumed: &Assumed) -> Option<Remaining> {
        Some(assumed.with_overhead(self.usual()))
    }

    fn run<M: Measurer<Error = CampaignError>, O: Observer>(
        &self,
        at: &mut AtPoint<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<(), CampaignError> {
        if let Err(why) = can(at) {
            at.remarks.push(format!("connections: {why}"));
            return Ok(());
        }
        let outcome = Connections::run(self, measurer, observer)?;
        if outcome.is_untracked() {
            at.remarks.push(format!("connections: no tester is at the wire of {}", at.spec.wiring));
            return Ok(());
        }
        at.results.push(outcome.point_result());
        Ok(())
    }
}

/// Whether connections can be opened at a point; the reason where not.
fn can(at: &AtPoint<'_>) -> Result<(), String> {
    if !at.spec.placement.is_inline() {
        return Err("functions behind a dataplane are not known to track any".to_owned());
    }
    if at.spec.directions != 2 {
        return Err("both ends speak; it takes `directions = 2`".to_owned());
    }
    if at.spec.size != Sizes::Fixed(FrameSize::MIN) {
        return Err(format!("handshakes are frames of 64 B, not of {}", at.spec.size));
    }
    Script::of(at.spec.nf, 0).map(drop)
}

impl Limited for ConnectionsResult {}
