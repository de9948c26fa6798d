//! A throughput search's answer.

use super::{Cell, Delays, count};
use std::fmt::Write as _;
use weir_trial::run::{PointKey, ThroughputResult};
use weir_units::Pps;

impl Cell for ThroughputResult {
    fn cell(&self, key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let Self { goal, throughput, lower, upper, .. } = self;
        let show = |bound: &Option<Pps>| bound.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
        let mut text = match (throughput, &self.estimate) {
            (None, Some(estimate)) => format!("{goal:<8} estimate: {estimate}"),
            _ => format!("{goal:<8} {:>11} [{}, {}]", show(throughput), show(lower), show(upper)),
        };
        if let Some(rate) = throughput {
            let share = rate.0 / key.theoretical().0 * 100.0;
            let _ = write!(text, " · {share:.0} % of {}", key.line_rate);
        }
        let _ = write!(text, " · {}", count(self.trials as usize));
        if let Some(reason) = &self.irregular {
            let _ = write!(text, " · irregular: {reason}");
        }
        text
    }
}
