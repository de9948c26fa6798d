//! Connections.

use super::{Cell, Delays, remark};
use crate::cmd::layout::table;
use weir_trial::run::{ConnectionsResult, HeldSearch, Point, PointKey, changes};

impl Cell for ConnectionsResult {
    fn cell(&self, _key: &PointKey, _latency: Delays<'_, '_>) -> String {
        let searches = self.searches.len();
        let rate = self.rate.map_or("none whole at the least rate tried".to_owned(), |rate| {
            let interval = rate.interval.map_or(String::new(), |interval| {
                format!(" [{}, {}]", changes(interval.low), changes(interval.high))
            });
            format!("{}{interval}", changes(rate.mean))
        });
        let held = self.held.as_ref().map_or(String::new(), |held| format!(" · {}", at_a_time(held)));
        let limit =
            self.limit.as_ref().map_or(String::new(), |limit| format!(" · limited by {}", limit.by.name()));
        format!("connections {rate}{held} · {searches} searches, {} packets each{limit}", self.packets)
    }

    fn details(&self, point: &Point) -> Option<(&'static str, String)> {
        let row = |number: &u32| {
            let trial = point.trial(*number)?;
            let made = trial.result.connections.as_ref()?;
            let asked = made.asked;
            let came = if asked.held { made.proved.min(made.whole) } else { made.whole };
            let setup = made.setup.as_ref();
            let verdict = match (made.passed(), made.in_time()) {
                (true, true) => "passed".to_owned(),
                (true, false) => format!("tester took {}", made.took),
                (false, _) => format!("{} failed", asked.count - came.min(asked.count)),
            };
            Some(vec![
                if asked.held { "at a time" } else { "a second" }.to_owned(),
                changes(asked.rate),
                asked.count.to_string(),
                made.opened.to_string(),
                came.to_string(),
                setup.map_or("-".to_owned(), |setup| setup.percentiles[0].to_string()),
                setup.map_or("-".to_owned(), |setup| setup.percentiles[2].to_string()),
                made.full.to_string(),
                match made.broken {
                    0 => "-".to_owned(),
                    broken => format!("{} of {broken}", made.reset),
                },
                verdict,
                remark(trial).unwrap_or_default(),
            ])
        };
        let rows: Vec<_> = self.trials().iter().filter_map(row).collect();
        let headings =
            ["", "rate", "asked", "opened", "whole", "open P50", "P99", "full looks", "reset", "verdict", ""];
        Some(("connections, trial by trial", table(&headings, &[1, 2, 3, 4, 5, 6, 7, 8], &rows)))
    }
}

/// `262,144 at a time (262,656 failed)`.
fn at_a_time(held: &HeldSearch) -> String {
    let number = |count: u64| changes(count as f64).trim_end_matches("/s").to_owned();
    match (held.passed, held.failed) {
        (Some(passed), Some(failed)) => format!("{} at a time ({} failed)", number(passed), number(failed)),
        (Some(passed), None) => format!("{} at a time, all that were asked for", number(passed)),
        (None, _) => "none held at a time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::RateSearch;
    use weir_units::Nanos;

    #[test]
    fn a_line_says_rate_interval_and_both_bounds_of_the_number() {
        let search = |rate| RateSearch { passed: Some(rate), failed: Some(rate * 1.02), trials: vec![0] };
        let searches = vec![search(50_000.0), search(51_000.0), search(49_000.0)];
        let held =
            HeldSearch { passed: Some(262_144), failed: Some(266_000), opened_at: 25_000.0, trials: vec![1] };
        let result = ConnectionsResult {
            packets: 8,
            duration: Nanos(800_000_000),
            rate: ConnectionsResult::rates(&searches),
            searches,
            held: Some(held),
            limit: None,
        };
        let key = PointKey {
            nf: "l2fwd".parse().unwrap(),
            dut: "d".into(),
            wiring: "w".into(),
            trace: "t".into(),
            size: "64".into(),
            mean_frame_bytes: 64.0,
            directions: 2,
            placement: Default::default(),
            huge_pages: false,
            line_rate: weir_units::LineRate(weir_units::Bps(1e10)),
        };
        let line = result.cell(&key, &|_| None);
        assert!(line.starts_with("connections 50,000/s [47,516/s, 52,484/s] · 262,144 at a time"), "{line}");
        assert!(line.contains("(266,000 failed) · 3 searches, 8 packets each"), "{line}");
        let none = ConnectionsResult { searches: Vec::new(), rate: None, held: None, ..result };
        assert!(none.cell(&key, &|_| None).contains("none whole"));
    }
}
