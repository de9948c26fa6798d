//! Servers that are away, go away, let nobody in, or hold something else.

use crate::common::{START_MS, begin, key, trial};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_store::{Imported, Origin, Outcome, RunId, Store, StoreError, StoreResult, VERSION};
use weir_testkit::needs;
use weir_testkit::postgres::{Database, LOCKED, Server};
use weir_trial::run::{RunState, Session};

fn server() -> Option<&'static Server> {
    needs!(Server::need()).then(Server::shared)
}

fn open(address: &str) -> StoreResult<Store> {
    Store::open(Some(Path::new(address)))
}

/// Checks an error: what the user did wrong, with these words.
fn check(error: &StoreError, words: &[&str]) {
    let text = error.to_string();
    assert!(error.is_bad_use() && words.iter().all(|word| text.contains(word)), "{error:?}: {text}");
}

fn kept(store: &Store, run: RunId) -> Vec<u32> {
    store.load(run).unwrap().points[0].trials.iter().map(|trial| trial.sequence).collect()
}

#[test]
fn a_database_of_a_newer_version_is_refused_with_both_versions_and_left_alone() {
    let Some(server) = server() else { return };
    let database = server.database();
    begin(&mut open(&database.address()).unwrap(), None);
    database.psql(&format!("UPDATE weir_store SET version = {}", VERSION + 7));
    for opened in [open(&database.address()), Store::open_existing(Some(Path::new(&database.address())))] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
        check(&error, &[&format!("version {}", VERSION + 7), &format!("version {VERSION};")]);
    }
    assert_eq!(database.psql("SELECT count(*) FROM runs"), "1\n");
}

#[test]
fn a_database_that_is_not_ours_is_refused_and_left_alone() {
    let Some(server) = server() else { return };
    let database = server.database();
    database.psql("CREATE TABLE songs (title TEXT)");
    let tables = "SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    for opened in [open(&database.address()), Store::open_existing(Some(Path::new(&database.address())))] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::NotADatabase { .. }), "{error}");
        check(&error, &["a table of another program", "createdb"]);
    }
    assert_eq!(database.psql(tables), "songs\n");
    let latin = server.database();
    let name = latin.psql("SELECT current_database()").trim().to_owned() + "_latin";
    latin.psql(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"));
    check(&open(&server.address("weir", &name)).unwrap_err(), &["encoding is LATIN1", "createdb -E UTF8"]);
    latin.psql(&format!("DROP DATABASE {name}"));
}

#[test]
fn a_reader_does_not_make_a_store_in_an_empty_database() {
    let Some(server) = server() else { return };
    let database = server.database();
    let error = Store::open_existing(Some(Path::new(&database.address()))).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    check(&error, &["weir bench"]);
    assert_eq!(database.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0\n");
}

#[test]
fn a_wrong_password_is_refused_and_none_is_ever_shown() {
    let Some(server) = server() else { return };
    let database = server.database();
    let role = "DO $$ BEGIN CREATE ROLE locked LOGIN PASSWORD 'right'; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$";
    database.psql(role);
    database.psql(&format!("GRANT ALL ON SCHEMA public TO {LOCKED}"));
    for password in ["wr0ng", "wr0ng%2Fs3cret", "wr0ng%40x"] {
        let error = open(&database.address_for(&format!("{LOCKED}:{password}"))).unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        check(&error, &["password authentication failed", "PGPASSWORD", "~/.pgpass", LOCKED]);
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
    }
    let error = open(&database.address_for(LOCKED)).unwrap_err();
    assert!(error.to_string().contains("password"), "{error}");
    let store = open(&database.address_for(&format!("{LOCKED}:right"))).unwrap();
    assert!(!store.path().to_string_lossy().contains("right"), "{}", store.path().display());
    assert!(!format!("{:?}", store.runs()).contains("right"));
}

#[test]
fn addresses_that_cannot_be_used_are_refused_with_what_one_looks_like() {
    for (address, why) in [
        ("postgres://me@lab:seven/weir", "port"),
        ("postgres://me@lab/weir?sslmode=require", "TLS"),
        ("postgres://me@lab/weir?sslmode=verify-full", "ssh tunnel"),
        ("postgres://me@lab/weir?colour=blue", "colour"),
    ] {
        let error = open(address).unwrap_err();
        assert!(matches!(error, StoreError::BadAddress { .. }), "{address}: {error:?}");
        check(&error, &[why, "postgres://USER@HOST/NAME"]);
    }
}

#[test]
fn a_server_that_is_away_is_said_to_be_away() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().display().to_string().replace('/', "%2F");
    for address in [format!("postgres://me@{socket}/weir"), "postgres://me@127.0.0.1:1/weir".to_owned()] {
        let error = open(&address).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        check(&error, &["cannot reach", "start the server"]);
    }
    let Some(server) = server() else { return };
    let error = open(&server.address("weir", "nowhere")).unwrap_err();
    check(&error, &["\"nowhere\" does not exist", "createdb"]);
}

#[test]
fn a_role_that_may_only_read_reads_and_is_told_that_it_may_not_write() {
    let Some(server) = server() else { return };
    let database = server.database();
    let run = begin(&mut open(&database.address()).unwrap(), Some("kept"));
    let role = "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$";
    database.psql(role);
    let address = database.address_for("reader");
    check(&open(&address).unwrap_err(), &["permission denied", "own the database"]);
    database.psql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    let mut store = Store::open_existing(Some(Path::new(&address))).unwrap();
    assert_eq!(store.load(run).unwrap().name, "kept");
    let session = Session { started_ms: START_MS, weir: String::new(), environment: Default::default() };
    check(&store.resume_run(run, &session).unwrap_err(), &["permission denied", "own the database"]);
    let empty = server.database();
    check(&open(&empty.address_for("reader")).unwrap_err(), &["raised to version", "permission denied"]);
    empty.psql("DROP OWNED BY reader");
}

#[test]
fn a_run_with_the_character_0_is_not_imported_as_another_run() {
    let Some(server) = server() else { return };
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let mut file = Store::open(Some(&folder.path().join("weir.db"))).unwrap();
    let run = begin(&mut file, None);
    let mut run = file.load(run).unwrap();
    run.plan.push('\0');
    let origin = Origin {
        name: run.name.clone(),
        address: String::new(),
        signature: None,
        imported_ms: 0,
        differences: 0,
    };
    let mut store = open(&database.address()).unwrap();
    let error = store.import(&run, &origin).unwrap_err();
    assert!(
        matches!(error, StoreError::Unfit { .. }) && error.to_string().contains("character 0"),
        "{error}"
    );
    assert!(store.runs().unwrap().is_empty());
    run.plan.pop();
    assert!(matches!(store.import(&run, &origin).unwrap(), Imported::Added(_)));
}

/// Makes a server of the test's own, with a database that is looked for one second at a time when it went away.
fn own(folder: &Path) -> (Server, String) {
    let server = Server::own(folder);
    let address = server.address("weir", "postgres") + "?connect_timeout=1";
    (server, address)
}

#[test]
fn a_campaign_goes_on_when_its_server_is_back_and_loses_no_trial() {
    if !needs!(Server::need()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = own(folder.path());
    let mut store = open(&address).unwrap();
    let run = begin(&mut store, Some("long"));
    let point = store.add_point(run, 0, &key(64)).unwrap();
    let mut next = 0;
    let mut measure = |store: &mut Store, trials: u32| {
        for _ in 0..trials {
            store.add_trial(point, &trial(next)).unwrap();
            next += 1;
        }
    };
    measure(&mut store, 3);
    for crash in [false, true] {
        server.stop(crash);
        server.start();
        measure(&mut store, 2);
    }
    // A reader is as patient.
    server.stop(false);
    server.start();
    assert_eq!(kept(&store, run), [0, 1, 2, 3, 4, 5, 6]);
    // The lock of the run was taken again.
    let error = open(&address).unwrap().remove_run(run).unwrap_err();
    assert!(matches!(error, StoreError::RunInUse { .. }), "{error}");
    store.finish_point(point, Outcome::default()).unwrap();
    store.end_run(run, RunState::Finished, START_MS).unwrap();

    // It stays away: what was kept is kept, and the campaign is told so.
    let run = begin(&mut store, Some("cut"));
    let point = store.add_point(run, 0, &key(64)).unwrap();
    store.add_trial(point, &trial(0)).unwrap();
    server.stop(true);
    let began = Instant::now();
    let error = store.add_trial(point, &trial(1)).unwrap_err();
    assert!(matches!(error, StoreError::Gone { .. }) && !error.is_bad_use(), "{error:?}");
    assert!(error.to_string().contains("weir bench --resume"), "{error}");
    let waited = began.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    server.start();
    let store = open(&address).unwrap();
    assert_eq!(kept(&store, run), [0]);
    assert!(!store.runs().unwrap()[0].live);
}

/// Ends every other connection with a database, as its administrator may.
fn cut(database: &Database<'_>) {
    database.psql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
}

#[test]
fn every_write_is_done_once_though_its_connection_is_cut_all_the_time() {
    let Some(server) = server() else { return };
    let database = server.database();
    let mut store = open(&database.address()).unwrap();
    let run = begin(&mut store, Some("cut"));
    let point = store.add_point(run, 0, &key(64)).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            let mut cuts = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                cut(&database);
                cuts += 1;
                std::thread::sleep(Duration::from_millis(40));
            }
            cuts
        });
        let until = Instant::now() + Duration::from_millis(1500);
        let mut sequence = 0;
        while Instant::now() < until {
            // Cut more often than it is patient, it says so; then the trial may not be there twice.
            store.add_trial(point, &trial(sequence)).unwrap();
            store
                .resume_run(
                    run,
                    &Session {
                        started_ms: i64::from(sequence),
                        weir: String::new(),
                        environment: Default::default(),
                    },
                )
                .unwrap();
            sequence += 1;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(cutter.join().unwrap() > 3, "it was cut");
        assert_eq!(kept(&store, run), (0..sequence).collect::<Vec<_>>());
        let sessions = store.load(run).unwrap().sessions;
        assert!(sessions.iter().map(|session| session.started_ms).eq(0..i64::from(sequence)), "{sessions:?}");
    });
}
