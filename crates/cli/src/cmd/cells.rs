//! Verdicts as cells of the tables that `weir bench` and `weir show` print.

use std::fmt::Write as _;
use weir_trial::Latency;
use weir_trial::run::{PointKey, PointResult};
use weir_units::Pps;

/// A verdict in a line. `latency` belongs to a verdict about latency.
pub(crate) fn cell(key: &PointKey, result: &PointResult, latency: Option<&Latency>) -> String {
    match result {
        PointResult::Throughput { goal, throughput, lower, upper, irregular, trials, .. } => {
            let show = |bound: &Option<Pps>| bound.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
            let mut text = format!("{goal:<8} {:>11} [{}, {}]", show(throughput), show(lower), show(upper));
            if let Some(rate) = throughput {
                let share = rate.0 / key.theoretical().0 * 100.0;
                let _ = write!(text, " · {share:.0} % of {}", key.line_rate);
            }
            let _ = write!(text, " · {}", count(*trials as usize));
            if let Some(reason) = irregular {
                let _ = write!(text, " · irregular: {reason}");
            }
            text
        }
        PointResult::Mrr { rates, mean, deviation, cycles_per_packet, .. } => {
            let cycles =
                cycles_per_packet.map_or(String::new(), |cycles| format!(" · {cycles:.1} cycles/packet"));
            format!("{:<8} {:>11} ± {deviation} · {}{cycles}", "mrr", mean.to_string(), count(rates.len()))
        }
        PointResult::Latency { label, load, .. } => {
            format!("latency  {} at {label} ({load})", percentiles(latency))
        }
    }
}

fn percentiles(latency: Option<&Latency>) -> String {
    latency.map_or_else(
        || "nothing received".to_owned(),
        |latency| {
            let [p50, _, p99, p99_9, _] = latency.percentiles;
            format!("p50 {p50} · p99 {p99} · p99.9 {p99_9} · max {}", latency.max)
        },
    )
}

/// `1 trial`, `2 trials`.
pub(crate) fn count(trials: usize) -> String {
    format!("{trials} trial{}", if trials == 1 { "" } else { "s" })
}

/// A point's size: bytes where it is a number.
pub(crate) fn size(key: &PointKey) -> String {
    if key.size.parse::<u32>().is_ok() { format!("{} B", key.size) } else { key.size.clone() }
}
