//! A store of an earlier version is raised without losing anything.

use rusqlite::Connection;
use weir_store::{Store, VERSION};
use weir_trial::run::{LatencyResult, MrrResult, PointResult, Purpose, ThroughputResult};
use weir_units::{Nanos, Pps, Ratio};

/// A finished run as version 1 kept it.
const KEPT: &str = "
    INSERT INTO runs VALUES (1, 1, '2026-11-20-heron', 1000, 2000, 'finished', '# plan', '0.1.0');
    INSERT INTO environment VALUES (1, 'cpu.cores', '2');
    INSERT INTO points VALUES (7, 1, 0, 'l3fwd:10', 'nf', 'vhost', 'simple', '64', 64.0, 2, 0, 1e10, 'nf 1', NULL, 1);
    INSERT INTO results VALUES
        (1, 7, 0, 'throughput', 'ndr', 0.1, 4876543.2109876541, 4.9e6, NULL, 'the greatest load passed', 5000, -1, 14,
         NULL, NULL, NULL, NULL, NULL),
        (2, 7, 1, 'mrr', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0.1, 0.2, 39.5, NULL),
        (3, 7, 2, 'latency', '50% ndr', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2.5e6, NULL, NULL, NULL, 1);
    INSERT INTO mrr_rates VALUES (2, 1, 0.30000000000000004), (2, 0, 5e6);
    INSERT INTO trials VALUES (3, 7, 0, 'search', 1100, 1, 4.9e6, 5000, 5001, 17), (4, 7, 1, 'latency', 1200, 0, 1.0, 2, 3, 4);
    INSERT INTO directions VALUES (3, 0, 10, 9, 1, 0, 8, 0, 0, 0, 0, 9);
    INSERT INTO dut_readings VALUES (3, 9, 8, 5000, 4000, 39.5);
    PRAGMA user_version = 1;
";

#[test]
fn version_1_is_raised_with_every_number_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(include_str!("../migrations/1-runs.sql")).unwrap();
    raw.execute_batch(KEPT).unwrap();
    drop(raw);

    let store = Store::open(Some(&path)).unwrap();
    let run = store.load(store.find(&"2026-11-20-heron".parse().unwrap()).unwrap()).unwrap();
    assert_eq!(run.environment["cpu.cores"], "2");
    assert!(run.uuid.len() == 36 && run.uuid.as_bytes()[14] == b'4', "{}", run.uuid);
    assert!(run.sessions.is_empty() && run.mix().is_empty());
    let point = &run.points[0];
    assert!(point.configuration.is_empty());
    let throughput = PointResult::Throughput(ThroughputResult {
        goal: "ndr".into(),
        loss_ratio: Ratio(0.1),
        throughput: Some(Pps(4_876_543.210_987_654_1)),
        lower: Some(Pps(4.9e6)),
        upper: None,
        irregular: Some("the greatest load passed".into()),
        estimate: None,
        trial_duration: Nanos(5000),
        duration_sum: Nanos(u64::MAX),
        trials: 14,
        limit: None,
    });
    let mrr = PointResult::Mrr(MrrResult {
        load: None,
        rates: vec![Pps(5e6), Pps(0.300_000_000_000_000_04)],
        mean: Pps(0.1),
        deviation: Pps(0.2),
        cycles_per_packet: Some(39.5),
        limit: None,
    });
    let latency = PointResult::Latency(LatencyResult {
        label: "50% ndr".into(),
        load: Pps(2.5e6),
        trial: 1,
        floor: None,
    });
    assert_eq!(point.results, [throughput, mrr, latency]);
    let trial = &point.trials[0];
    assert_eq!((trial.purpose, trial.superseded, trial.started_ms), (Purpose::Search, true, 1100));
    assert_eq!((trial.result.directions[0].received, trial.result.dut.as_ref().unwrap().sent), (8, 8));
    assert_eq!(point.trials[1].purpose, Purpose::Latency);

    let raw = Connection::open(&path).unwrap();
    let version: u32 = raw.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, VERSION);
    raw.pragma_update(None, "foreign_keys", true).unwrap();
    raw.execute("DELETE FROM runs", []).unwrap();
    let left: i64 = raw.query_row("SELECT count(*) FROM directions", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "what belongs to a run still goes with it");
}
