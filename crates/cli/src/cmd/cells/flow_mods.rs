//! Changes of flow entries.

use super::{Cell, Delays, remark};
use crate::cmd::layout::table;
use weir_trial::TrialResult;
use weir_trial::run::{ChangePair, FlowModsResult, Point, PointKey, changes};

impl Cell for FlowModsResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let Self { label, load, batch, pairs, rate, .. } = self;
        let rate = rate.map_or("no change was taken".to_owned(), |rate| {
            let interval = rate.interval.map_or(String::new(), |interval| {
                format!(" [{}, {}]", changes(interval.low), changes(interval.high))
            });
            format!("{}{interval}", changes(rate.mean))
        });
        let (pairs, cost, force) = (pairs.len(), cost(self), force(self));
        format!(
            "flow mods {rate} · {cost} · {force} · {pairs} × 2 trials at {label} ({load}), barrier every {batch}"
        )
    }

    fn details(&self, point: &Point) -> Option<(&'static str, String)> {
        let row = |pair: &ChangePair| {
            let (without, with) = (point.trial(pair.without)?, point.trial(pair.with)?);
            Some(vec![
                pair.rate.map_or("-".to_owned(), changes),
                pair.loss_without.to_string(),
                windows(&without.result),
                pair.loss_with.to_string(),
                windows(&with.result),
                pair.lag.map_or("-".to_owned(), |lag| lag.to_string()),
                remark(with).or_else(|| remark(without)).unwrap_or_default(),
            ])
        };
        let rows: Vec<_> = self.pairs.iter().filter_map(row).collect();
        let headings = ["changes", "loss without", "windows", "loss with", "windows", "not in force for", ""];
        Some((
            "changes of flow entries; windows: with loss, of those that count",
            table(&headings, &[0, 1, 2, 3, 4, 5], &rows),
        ))
    }
}

/// What changes cost the load.
fn cost(result: &FlowModsResult) -> String {
    match (result.certain_cost(), result.cost.and_then(|cost| cost.interval)) {
        (Some(cost), _) => format!("costs {cost} of the load"),
        (None, Some(interval)) => {
            format!("no cost seen (at most {} of the load)", weir_units::Ratio(interval.high.max(0.0)))
        }
        (None, None) => "cost not known".to_owned(),
    }
}

/// Whether confirmed changes were in force.
fn force(result: &FlowModsResult) -> String {
    let FlowModsResult { checked, late, never, lag, .. } = result;
    match (checked, late, lag) {
        (0, ..) | (.., None) => "no packet said whether they were in force".to_owned(),
        (_, 0, _) => format!("in force when confirmed, {checked} times of {checked}"),
        (_, _, Some(lag)) => {
            let never = if *never > 0 { format!(", {never} not at all") } else { String::new() };
            format!("confirmed up to {lag} before in force, {late} times of {checked}{never}")
        }
    }
}

/// `3 of 1234`: windows with loss, of those that count.
fn windows(result: &TrialResult) -> String {
    let of =
        |windows: &weir_trial::Windows| format!("{} of {}", windows.lossy, windows.count - windows.left_out);
    result.windows.as_ref().map_or("-".to_owned(), of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::ChangesMade;
    use weir_trial::changes::EntryCheck;
    use weir_units::{Nanos, Pps, Ratio};

    fn said(stale: u32, in_force: bool, lost: f64) -> String {
        let check = EntryCheck { probes: 5, stale, lag: Nanos(u64::from(stale) * 1000), in_force };
        let made =
            ChangesMade { batch: 50, made: 12_345, elapsed: Nanos(Nanos::PER_SECOND), checks: vec![check] };
        let pair = |with| ChangePair {
            without: 0,
            with,
            rate: made.rate(),
            loss_without: Ratio(0.0),
            loss_with: Ratio(lost),
            lag: made.lag(),
        };
        let asked = ("100kpps".to_owned(), Pps(1e5), 50);
        let result = FlowModsResult::of(asked, vec![pair(1), pair(2)], |_| Some(&made));
        result.cell(
            &weir_trial::run::PointKey {
                nf: "l2fwd".parse().unwrap(),
                dut: "d".into(),
                wiring: "w".into(),
                trace: "t".into(),
                size: "64".into(),
                mean_frame_bytes: 64.0,
                directions: 1,
                placement: Default::default(),
                huge_pages: false,
                line_rate: weir_units::LineRate(weir_units::Bps(1e10)),
            },
            &|_| None,
        )
    }

    #[test]
    fn a_line_says_rate_interval_cost_and_whether_a_reply_was_true() {
        let line = said(0, true, 0.0);
        assert!(line.starts_with("flow mods 12,345/s [12,345/s, 12,345/s] · no cost seen"), "{line}");
        assert!(line.contains("in force when confirmed, 2 times of 2"), "{line}");
        let line = said(3, false, 0.01);
        assert!(line.contains("costs 1") && line.contains("confirmed up to 3"), "{line}");
        assert!(line.contains("2 times of 2, 2 not at all"), "{line}");
    }
}
