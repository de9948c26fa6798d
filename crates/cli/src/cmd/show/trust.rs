//! Whether to believe it: self-checks, who limits a result, and what was found in the trials.

use super::super::cells::count;
use super::super::layout::table;
use std::collections::BTreeMap;
use weir_trial::SelfCheck;
use weir_trial::run::{PointResult, Run};
use weir_trial::verdict::{Code, Weight};

/// What the tester can do over each wiring, and what was wrong with it.
pub(super) fn self_checks(checks: &[SelfCheck]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let row = |check: &SelfCheck| {
        let time =
            |time: Option<weir_units::Nanos>| time.map_or_else(|| "–".to_owned(), |time| time.to_string());
        let floor = check.floor.as_ref().map(|latency| latency.percentiles[0]);
        let found: Vec<&str> = check.findings.iter().map(|finding| finding.says.as_str()).collect();
        vec![
            check.wiring.clone(),
            check.size.clone(),
            match check.pairs {
                0 | 1 => check.directions.to_string(),
                pairs => format!("{} × {pairs} pairs", check.directions),
            },
            check.ceiling.to_string(),
            time(floor),
            time(check.jitter()),
            if found.is_empty() { "good".to_owned() } else { found.join("; ") },
        ]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    let headings = ["self-check", "size", "directions", "ceiling", "floor p50", "jitter", "found"];
    format!("{}\n", table(&headings, &[2, 3, 4, 5], &rows))
}

/// Who limits the results of a point, a line for all that are limited the same way.
pub(super) fn limits(results: &[PointResult]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for result in results {
        let Some(limit) = result.limit() else { continue };
        let says = format!("{} ({})", limit.by.name(), limit.why);
        match groups.iter_mut().find(|(known, _)| *known == says) {
            Some((_, names)) if names.contains(&result.name()) => {}
            Some((_, names)) => names.push(result.name()),
            None => groups.push((says, vec![result.name()])),
        }
    }
    let several = groups.len() > 1;
    let line = |(says, names): (String, Vec<&str>)| {
        let whose = if several { format!("{} ", names.join(", ")) } else { String::new() };
        format!("{whose}limited by: {says}")
    };
    groups.into_iter().map(line).collect()
}

/// Findings that make trials invalid or wrong: each by its name, how often, and one of them.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let mut found: BTreeMap<Code, (usize, Weight, String)> = BTreeMap::new();
    for point in &run.points {
        for trial in point.trials.iter().filter(|trial| !trial.superseded && !trial.verdict.is_valid()) {
            for finding in trial.verdict.findings.iter().filter(|finding| finding.weight != Weight::Note) {
                let example = || format!("point {}, trial {}: {}", point.index, trial.sequence, finding.says);
                found.entry(finding.code).or_insert_with(|| (0, finding.weight, example())).0 += 1;
            }
        }
    }
    let line = |(code, (times, weight, example)): (Code, (usize, Weight, String))| {
        let word = if weight == Weight::Wrong { "wrong" } else { "invalid" };
        format!("{} {word}, {}: for one {example}", count(times), code.name())
    };
    found.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::MrrResult;
    use weir_trial::{Limit, Limiter};
    use weir_units::Pps;

    fn mrr(limit: Option<Limiter>) -> PointResult {
        PointResult::Mrr(MrrResult {
            load: None,
            rates: Vec::new(),
            mean: Pps(1.0),
            deviation: Pps(0.0),
            cycles_per_packet: None,
            limit: limit.map(|by| Limit { by, why: "8 of 9 Mpps".to_owned() }),
        })
    }

    #[test]
    fn results_limited_alike_share_a_line_and_unknown_limits_have_none() {
        let tester = || mrr(Some(Limiter::Tester));
        assert_eq!(limits(&[tester(), tester()]), ["limited by: the tester (8 of 9 Mpps)"]);
        let lines = limits(&[tester(), mrr(Some(Limiter::Dut))]);
        assert_eq!(lines[1], "mrr limited by: the device (8 of 9 Mpps)");
        assert!(limits(&[mrr(None)]).is_empty());
    }
}
