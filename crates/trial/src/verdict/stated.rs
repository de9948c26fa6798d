//! The limits of verdicts by name, to stand beside results that leave the machine.

use super::limits as l;
use std::collections::BTreeMap;

/// Every limit that [`super::judge`] holds a trial to, by its name: ratios from 0 to 1, times in nanoseconds, counts.
pub fn stated() -> BTreeMap<&'static str, f64> {
    BTreeMap::from([
        ("unsent_ratio", l::UNSENT.0),
        ("late_sent_packets", l::LATE_SENT_PACKETS),
        ("late_sent_least_ns", l::LATE_SENT.0.0 as f64),
        ("late_sent_most_ns", l::LATE_SENT.1.0 as f64),
        ("late_sent_invalid_ratio", l::LATE_SENT_SHARES.0.0),
        ("late_sent_noted_ratio", l::LATE_SENT_SHARES.1.0),
        ("deaf_ratio", l::DEAF.0),
        ("kept_ratio", l::KEPT.0),
        ("stretched_ratio", l::STRETCHED.0),
        ("stolen_ratio", l::STOLEN.0),
        ("stolen_least_ns", l::STOLEN_LEAST.0 as f64),
        ("tester_waited_ratio", l::TESTER_WAITED.0),
        ("dut_waited_ratio", l::DUT_WAITED.0),
        ("waited_least_ns", l::WAITED_LEAST.0 as f64),
        ("held_factor", l::HELD),
        ("clock_ratio", l::CLOCK.0),
        ("clock_least_ns", l::CLOCK_LEAST.0 as f64),
        ("counters_ratio", l::COUNTERS.0),
        ("counters_least", l::COUNTERS_LEAST as f64),
        ("lines_a_second", l::LINES_A_SECOND),
        ("silent_packets", l::SILENT as f64),
        ("late_ratio", l::LATE.0),
        ("one_sided_factor", l::ONE_SIDED),
        ("one_sided_least", l::ONE_SIDED_LEAST as f64),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_limit_is_stated() {
        let source = include_str!("../verdict.rs");
        let (_, limits) = source.split_once("pub mod limits {").unwrap();
        let (limits, _) = limits.split_once("\n}").unwrap();
        let named: Vec<&str> = limits
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub const ")?.split(':').next())
            .collect();
        assert!(named.len() > 15, "{named:?}");
        let here = include_str!("stated.rs");
        for name in named {
            assert!(here.contains(&format!("l::{name}")), "{name} is not stated in a bundle's thresholds");
        }
    }
}
