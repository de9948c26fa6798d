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

/// Runs of every kind, and who may see what, as a store of this version has them.
fn filled(store: &mut Store) -> Vec<weir_trial::run::Run> {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for number in 0..6 {
        let run = crate::conformance::run().new_tree(&mut runner).unwrap().current();
        let run = weir_trial::run::Run { uuid: format!("01938f2e-0000-7000-8000-{number:012}"), ..run };
        let origin = weir_store::Origin {
            name: run.name.clone(),
            address: "sha256:00".to_owned(),
            signature: None,
            imported_ms: number,
            differences: 0,
        };
        store.import(&run, &origin).unwrap();
    }
    all_of(store)
}

fn all_of(store: &Store) -> Vec<weir_trial::run::Run> {
    store.runs().unwrap().iter().map(|run| store.load(weir_store::RunId(run.id)).unwrap()).collect()
}

/// What version 7 added.
const ADDED: &str = "DROP TABLE shares; DROP TABLE tokens; DROP TABLE accounts;";

#[test]
fn version_6_in_a_file_is_raised_with_every_number_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, plain) = (folder.path().join("weir.db"), folder.path().join("plain.db"));
    let before = filled(&mut Store::open(Some(&path)).unwrap());
    // It is made one of version 6, which has nothing but what the files up to 6 make.
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(&format!("{ADDED} PRAGMA user_version = 6;")).unwrap();
    let old = Connection::open(&plain).unwrap();
    for sql in [
        include_str!("../migrations/1-runs.sql"),
        include_str!("../migrations/2-truth.sql"),
        include_str!("../migrations/3-provenance.sql"),
        include_str!("../migrations/4-placement.sql"),
        include_str!("../migrations/5-advice.sql"),
        include_str!("../migrations/6-imports.sql"),
    ] {
        old.execute_batch(sql).unwrap();
    }
    let schema = |connection: &Connection| -> Vec<String> {
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(schema(&raw), schema(&old));
    drop((raw, old));
    let mut store = Store::open(Some(&path)).unwrap();
    assert_eq!(all_of(&store), before);
    let outline = store.outline().unwrap();
    assert!(outline.len() == 6 && outline.iter().all(|run| run.share.is_none()));
    store.add_account("lab", weir_store::accounts::Amount { bytes: 1, runs: 1 }, 0).unwrap();
}

#[test]
fn version_6_on_a_server_is_raised_with_every_number_in_it() {
    use weir_testkit::{needs, postgres::Server};
    if !needs!(Server::need()) {
        return;
    }
    let (database, plain) = (Server::shared().database(), Server::shared().database());
    let path = std::path::PathBuf::from(database.address());
    let before = filled(&mut Store::open(Some(&path)).unwrap());
    database.psql(&format!("{ADDED} UPDATE weir_store SET version = 6"));
    plain.psql(include_str!("../migrations/postgres/6-store.sql"));
    let columns = "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
                   WHERE table_schema = 'public' ORDER BY 1, 2";
    assert_eq!(database.psql(columns), plain.psql(columns));
    let mut store = Store::open(Some(&path)).unwrap();
    assert_eq!(all_of(&store), before);
    assert_eq!(database.psql("SELECT version FROM weir_store"), format!("{VERSION}\n"));
    store.add_account("lab", weir_store::accounts::Amount { bytes: 1, runs: 1 }, 0).unwrap();
}
