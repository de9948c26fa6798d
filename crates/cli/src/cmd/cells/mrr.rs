//! The forwarded rate.

use super::{Cell, Delays, count};
use weir_trial::run::{MrrResult, PointKey};

impl Cell for MrrResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let Self { rates, mean, deviation, cycles_per_packet, .. } = self;
        let cycles =
            cycles_per_packet.map_or(String::new(), |cycles| format!(" · {cycles:.1} cycles/packet"));
        format!("{:<8} {:>11} ± {deviation} · {}{cycles}", "mrr", mean.to_string(), count(rates.len()))
    }
}
