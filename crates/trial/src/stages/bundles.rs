//! Bundles beside one another: each a row of stages of its own, between a pair of the tester's ports of its own.
//!
//! Stages are listed bundle by bundle, and so are directions: those of a bundle together, as many of each.

use super::{StageLoss, StageReading};
use crate::{TesterAccount, TrialResult};

/// What came of each bundle, as if it had been alone.
pub(super) fn split(result: &TrialResult) -> Vec<TrialResult> {
    let count = result.stages.iter().map(|stage| stage.bundle).max().unwrap_or(0).max(1) as usize;
    if count == 1 {
        return vec![result.clone()];
    }
    let each = result.directions.len() / count;
    let of = |bundle: usize| {
        let delays = result.account.as_ref().map(|account| {
            let own = account.delays.iter().skip(bundle * each).take(each).cloned();
            TesterAccount { delays: own.collect(), ..TesterAccount::default() }
        });
        let stages = result.stages.iter().filter(|stage| stage.bundle as usize == bundle + 1);
        TrialResult {
            elapsed: result.elapsed,
            directions: result.directions.iter().skip(bundle * each).take(each).copied().collect(),
            latency: result.latency.clone(),
            account: delays,
            stages: stages.cloned().collect(),
            ..TrialResult::new(result.spec)
        }
    };
    (0..count).map(of).collect()
}

/// What a stage is called: one of a process that several bundles share is told with its bundle.
pub(super) fn named(stage: &StageReading) -> String {
    let bundle = format!(", bundle {}", stage.bundle);
    match stage.bundle {
        0 => stage.name.clone(),
        _ if stage.name.contains(&bundle) => stage.name.clone(),
        _ => format!("{}{bundle}", stage.name),
    }
}

/// The tester's rows of all bundles as one.
pub(super) fn together(rows: Vec<StageLoss>) -> Option<StageLoss> {
    let mean = |of: fn(&StageLoss) -> Option<f64>| {
        let known = rows.iter().filter_map(|row| Some((row.received as f64, of(row)?)));
        let (packets, sum) = known.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.0 * one.1));
        (packets > 0.0).then(|| sum / packets)
    };
    if rows.len() < 2 {
        return rows.into_iter().next();
    }
    let sum = |of: fn(&StageLoss) -> u64| rows.iter().map(of).sum();
    let queued = rows.iter().filter_map(|row| row.queued).reduce(|sum, one| sum + one);
    Some(StageLoss {
        waited_in_vain: sum(|row| row.waited_in_vain),
        dropped: sum(|row| row.dropped),
        vanished: sum(|row| row.vanished),
        time: mean(|row| row.time),
        inside: mean(|row| row.inside),
        queued,
        ..StageLoss::new("tester", sum(|row| row.received))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Waterfall;
    use super::*;
    use crate::{DirectionCounts, TrialSpec};
    use weir_units::{Nanos, Pps};

    fn stage(
        name: &str,
        (process, bundle): (u32, u32),
        (received, sent): ([u64; 2], [u64; 2]),
    ) -> StageReading {
        StageReading { name: name.to_owned(), process, bundle, received, sent, ..StageReading::default() }
    }

    #[test]
    fn each_bundle_has_its_own_losses_and_a_shared_host_is_one_process() {
        let counts = |sent, refused, received| DirectionCounts {
            intended: sent + refused,
            sent,
            refused,
            received,
            ..DirectionCounts::default()
        };
        let row = |bundle: u32, came: [u64; 2], left: [u64; 2]| {
            let function = format!("nf 1 l2fwd, bundle {bundle}");
            [
                stage("weir", (0, bundle), ([came[0], left[1]], [left[0], left[1]])),
                stage(&function, (bundle, bundle), ([left[0], left[1]], [left[0], left[1]])),
                stage("weir", (0, bundle), ([left[0], came[1]], [left[0], left[1]])),
            ]
        };
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(1_000_000) };
        // The host refuses 30 of the first bundle; the second bundle's function makes it wait for 5.
        let trial = TrialResult {
            stages: [row(1, [70, 100], [70, 100]), row(2, [100, 100], [95, 100])].concat(),
            directions: vec![
                counts(70, 30, 70),
                counts(100, 0, 100),
                counts(100, 0, 95),
                counts(100, 0, 100),
            ],
            ..TrialResult::new(spec)
        };
        let waterfall = Waterfall::of(&trial).unwrap();
        let named: Vec<(&str, u64)> =
            waterfall.stages.iter().map(|row| (row.name.as_str(), row.waited_in_vain)).collect();
        let expected = [
            ("weir, bundle 1", 30),
            ("nf 1 l2fwd, bundle 1", 0),
            ("weir, bundle 1", 0),
            ("weir, bundle 2", 0),
            ("nf 1 l2fwd, bundle 2", 5),
            ("weir, bundle 2", 0),
            ("tester", 0),
        ];
        assert_eq!(named, expected);
        assert_eq!(waterfall.stages[6].received, 365);
        assert_eq!(waterfall.limit, Some(("weir".to_owned(), 30.0 / 35.0)));
    }

    #[test]
    fn cycles_of_a_shared_host_are_over_the_packets_of_all_bundles() {
        let mut stages = vec![
            stage("weir", (0, 1), ([10, 10], [10, 10])),
            stage("nf 1 l2fwd, bundle 1", (1, 1), ([10, 10], [10, 10])),
            stage("weir", (0, 2), ([30, 30], [30, 30])),
            stage("nf 1 l2fwd, bundle 2", (2, 2), ([30, 30], [30, 30])),
        ];
        stages.iter_mut().for_each(|stage| stage.busy = Some(800));
        let spec = TrialSpec { load: Pps(1e6), duration: Nanos(1_000_000) };
        let trial = TrialResult { stages, ..TrialResult::new(spec) };
        let cycles: Vec<_> = Waterfall::of(&trial).unwrap().stages.iter().map(|row| row.cycles).collect();
        assert_eq!(cycles, [Some(10.0), Some(40.0), Some(10.0), Some(800.0 / 60.0), None]);
    }
}
