//! Files that are not what they claim, folders that may not be written to, disks that are full.

use crate::common::{Place, begin, key, on_both, trial};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use weir_store::{NewRun, Outcome, Store, StoreError, VERSION};

const CHILD: &str = "WEIR_STORE_TEST_FOLDER";

fn store_with_trials(path: &Path, trials: u32) {
    let mut store = Store::open(Some(path)).unwrap();
    let run = begin(&mut store, None);
    let point = store.add_point(run, 0, &key(64)).unwrap();
    (0..trials).for_each(|sequence| store.add_trial(point, &trial(sequence)).unwrap());
}

#[test]
fn a_database_of_a_newer_version_is_refused_with_both_versions_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.db");
    store_with_trials(&path, 1);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", VERSION + 7).unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    for opened in [Store::open(Some(&path)), Store::open_existing(Some(&path))] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Newer { .. }) && error.is_bad_use(), "{error}");
        let text = error.to_string();
        let (found, known) = (format!("version {}", VERSION + 7), format!("version {VERSION};"));
        assert!(text.contains(&found) && text.contains(&known), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_weir_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "a long enough text, but no database\n").unwrap();
    let short = folder.path().join("short");
    std::fs::write(&short, "abc").unwrap();
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    for path in [&text, &short, &other] {
        let before = std::fs::read(path).unwrap();
        let error = Store::open(Some(path)).unwrap_err();
        assert!(matches!(error, StoreError::NotADatabase { .. }) && error.is_bad_use(), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
    assert!(matches!(Store::open(Some(folder.path())), Err(StoreError::NotADatabase { .. })));
}

#[test]
fn a_reader_does_not_make_a_store_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/weir.db");
    let error = Store::open_existing(Some(&path)).unwrap_err();
    assert!(
        matches!(error, StoreError::Missing { .. }) && error.to_string().contains("weir bench"),
        "{error}"
    );
    assert!(!folder.path().join("sub").exists());
    Store::open(Some(&path)).unwrap();
    assert!(path.exists(), "a writer makes the file and its folder");
}

#[test]
fn a_damaged_page_is_named_and_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.db");
    store_with_trials(&path, 30);
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20, "{pages} pages");
    let mut named = 0;
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xA5);
        std::fs::write(&path, bytes).unwrap();
        let read = Store::open_existing(Some(&path)).and_then(|store| {
            let run = store.find(&weir_store::Selector::Last(0))?;
            store.load(run)
        });
        match read {
            Err(error @ StoreError::Damaged { .. }) => {
                assert!(error.to_string().contains(".recover"), "{error}");
                named += 1;
            }
            Err(StoreError::NoSuchRun { .. }) | Ok(_) => {}
            Err(other) => panic!("page {page}: {other:?}"),
        }
    }
    assert!(named > pages / 2, "{named} of {pages} damaged pages were named");
}

on_both!(names_taken_or_misleading_are_refused, what_a_program_printed_is_kept_without_the_character_0);

fn names_taken_or_misleading_are_refused(place: &Place) {
    let mut store = place.open();
    begin(&mut store, Some("quiet"));
    let environment = Default::default();
    for (name, why) in [("quiet", "another run has it"), ("12", "number"), ("@last", "`@`"), ("", "empty")] {
        let new = NewRun { name: Some(name), started_ms: 0, plan: "", weir: "", environment: &environment };
        let error = store.begin_run(new).unwrap_err();
        assert!(error.is_bad_use() && error.to_string().contains(why), "{error}");
    }
    assert_eq!(store.runs().unwrap().len(), 1);
}

fn what_a_program_printed_is_kept_without_the_character_0(place: &Place) {
    let mut store = place.open();
    let environment = [("model".to_owned(), "a board\0".to_owned())].into();
    let new = NewRun { name: None, started_ms: 0, plan: "", weir: "", environment: &environment };
    let run = store.begin_run(new).unwrap();
    let point = store.add_point(run, 0, &key(64)).unwrap();
    let outcome = Outcome { error: Some("it said \0x"), dut_version: Some("1\0"), results: &[] };
    store.finish_point(point, outcome).unwrap();
    let run = store.load(run).unwrap();
    assert_eq!(run.environment["model"], "a board\u{fffd}");
    let point = &run.points[0];
    assert_eq!(
        (point.error.as_deref(), point.dut_version.as_deref()),
        (Some("it said \u{fffd}x"), Some("1\u{fffd}"))
    );
}

/// Runs `work` as somebody without the right to write into `folder`.
fn without_write_access(test: &str, folder: &Path, work: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(CHILD) {
        return work(Path::new(&folder));
    }
    let permit = |mode| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    permit(0o555);
    if folder.metadata().unwrap().uid() == 0 {
        // Root may write anywhere: start over as nobody, from where nobody may read the program.
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("test");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let output = Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, folder)
            .current_dir("/")
            .gid(65_534)
            .uid(65_534)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    } else {
        work(folder);
    }
    permit(0o755);
}

#[test]
fn a_folder_that_may_not_be_written_to_can_still_be_read_from() {
    let test = "mistakes::a_folder_that_may_not_be_written_to_can_still_be_read_from";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a store?.db");
    store_with_trials(&path, 3);
    without_write_access(test, folder.path(), |folder| {
        let path = folder.join("a store?.db");
        let store = Store::open_existing(Some(&path)).unwrap();
        assert_eq!(store.runs().unwrap()[0].trials, 3);
        let error = Store::open(Some(&folder.join("new.db"))).unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }) && error.is_bad_use(), "{error}");
        assert!(error.to_string().contains("--db"), "{error}");
    });
}

#[test]
fn a_store_that_may_only_be_read_shows_the_trials_that_only_its_log_holds() {
    let test = "mistakes::a_store_that_may_only_be_read_shows_the_trials_that_only_its_log_holds";
    let folder = tempfile::tempdir().unwrap();
    let live = tempfile::tempdir().unwrap();
    let mut store = Store::open(Some(&live.path().join("weir.db"))).unwrap();
    let run = begin(&mut store, Some("logged"));
    let point = store.add_point(run, 0, &key(64)).unwrap();
    (0..7).for_each(|sequence| store.add_trial(point, &trial(sequence)).unwrap());
    // As a machine leaves it that loses its power: the last trials stand in the log alone.
    for file in ["weir.db", "weir.db-wal"] {
        std::fs::copy(live.path().join(file), folder.path().join(file)).unwrap();
    }
    without_write_access(test, folder.path(), |folder| {
        assert!(std::fs::write(folder.join("probe"), "").is_err(), "it may only be read");
        let path = folder.join("weir.db");
        let store = Store::open_existing(Some(&path)).unwrap();
        assert_eq!(
            store.load(store.find(&"logged".parse().unwrap()).unwrap()).unwrap().points[0].trials.len(),
            7
        );
        assert_eq!(store.path(), path, "messages name the file that was meant");
        println!("seen");
    });
}
