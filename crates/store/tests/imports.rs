//! Runs of several databases in one.

use crate::common::{START_MS, begin, key, trial};
use crate::conformance::run;
use proptest::prelude::*;
use weir_store::{Imported, Origin, Outcome, RunId, Store, StoreError};
use weir_trial::run::{Run, RunState, Session};

fn origin(name: &str) -> Origin {
    Origin {
        name: name.to_owned(),
        address: "sha256:00".to_owned(),
        signature: Some("{}".to_owned()),
        imported_ms: 7,
        differences: 0,
    }
}

fn store(folder: &tempfile::TempDir, name: &str) -> Store {
    Store::open(Some(&folder.path().join(name))).unwrap()
}

/// A run with so many points finished, and one begun with so many trials.
fn measured(store: &mut Store, name: &str, points: u32, trials: u32) -> RunId {
    let run = begin(store, Some(name));
    for index in 0..points {
        let point = store.add_point(run, index, &key(64)).unwrap();
        store.add_trial(point, &trial(0)).unwrap();
        store.finish_point(point, Outcome::default()).unwrap();
    }
    let point = store.add_point(run, points, &key(64)).unwrap();
    (0..trials).for_each(|sequence| store.add_trial(point, &trial(sequence)).unwrap());
    store.end_run(run, RunState::Interrupted, START_MS + 5).unwrap();
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_is_imported_unchanged_and_once(run in run()) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder, "weir.db");
        let run = Run { uuid: "01938f2e-0000-7000-8000-0000000000aa".to_owned(), ..run };
        let origin = origin(&run.name);
        let imported = store.import(&run, &origin).unwrap();
        prop_assert_eq!(&imported, &Imported::Added(RunId(1)));
        prop_assert_eq!(store.load(imported.run()).unwrap(), Run { id: 1, ..run.clone() });
        prop_assert_eq!(store.origin(imported.run()).unwrap(), Some(origin.clone()));
        prop_assert_eq!(store.import(&run, &origin).unwrap(), Imported::Known(RunId(1)));
        prop_assert_eq!(store.runs().unwrap().len(), 1);
    }
}

#[test]
fn runs_of_two_machines_with_one_name_are_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = store(&folder, "whole.db");
    for machine in ["a.db", "b.db", "c.db"] {
        let mut theirs = store(&folder, machine);
        let run = measured(&mut theirs, "quiet", 1, 0);
        let run = theirs.load(run).unwrap();
        assert!(theirs.origin(RunId(run.id)).unwrap().is_none(), "it was measured there");
        whole.import(&run, &origin("quiet")).unwrap();
    }
    let names: Vec<String> = whole.runs().unwrap().into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["quiet-3", "quiet-2", "quiet"]);
    let second = whole.find(&"quiet-2".parse().unwrap()).unwrap();
    assert_eq!(whole.origin(second).unwrap().unwrap().name, "quiet");
}

#[test]
fn a_run_that_went_on_since_replaces_what_it_was_and_never_the_other_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut theirs = store(&folder, "theirs.db");
    let id = measured(&mut theirs, "long", 1, 3);
    let early = theirs.load(id).unwrap();
    let session =
        Session { started_ms: START_MS + 9, weir: "later".to_owned(), environment: Default::default() };
    theirs.resume_run(id, &session).unwrap();
    let point = theirs.add_point(id, 1, &key(64)).unwrap();
    theirs.add_trial(point, &trial(3)).unwrap();
    theirs.finish_point(point, Outcome::default()).unwrap();
    theirs.end_run(id, RunState::Finished, START_MS + 20).unwrap();
    let late = theirs.load(id).unwrap();

    let mut ours = store(&folder, "ours.db");
    begin(&mut ours, Some("long"));
    assert_eq!(ours.import(&early, &origin("long")).unwrap(), Imported::Added(RunId(2)));
    let continued = ours.import(&late, &origin("long")).unwrap();
    assert!(matches!(continued, Imported::Continued(_)), "{continued:?}");
    let kept = ours.load(continued.run()).unwrap();
    assert_eq!(kept, Run { id: kept.id, name: "long-2".to_owned(), ..late.clone() });
    assert_eq!(ours.import(&early, &origin("long")).unwrap(), Imported::Older(continued.run()));
    assert_eq!(ours.import(&late, &origin("long")).unwrap(), Imported::Known(continued.run()));
    assert_eq!(ours.runs().unwrap().len(), 2);
}

#[test]
fn a_run_with_a_known_identity_and_another_content_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut theirs = store(&folder, "theirs.db");
    let id = measured(&mut theirs, "one", 2, 1);
    let run = theirs.load(id).unwrap();
    let mut ours = store(&folder, "ours.db");
    let kept = ours.import(&run, &origin("one")).unwrap().run();
    let changes: [fn(&mut Run); 5] = [
        |run| run.plan.push('\n'),
        |run| run.points[0].trials[0].result.directions[0].received += 1,
        |run| drop(run.points.remove(0)),
        |run| run.points[1].dut_version = Some("another".to_owned()),
        |run| drop(run.environment.insert("cpu".to_owned(), "a faster one".to_owned())),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut other = run.clone();
        change(&mut other);
        // Fewer points are an earlier state, which this is not: it has what comes after.
        let result = ours.import(&other, &origin("one"));
        if n == 2 {
            assert_eq!(result.unwrap(), Imported::Older(kept));
            continue;
        }
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::OtherRun { .. }) && error.is_bad_use(), "change {n}: {error}");
        assert!(error.to_string().contains(&run.uuid), "{error}");
    }
    assert_eq!(ours.load(kept).unwrap(), Run { id: kept.0, ..run });
}

#[test]
fn a_run_that_is_being_measured_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut theirs = store(&folder, "theirs.db");
    let id = measured(&mut theirs, "one", 1, 1);
    let early = theirs.load(id).unwrap();
    let mut ours = store(&folder, "ours.db");
    let here = ours.import(&early, &origin("one")).unwrap().run();
    let session =
        Session { started_ms: START_MS + 9, weir: "later".to_owned(), environment: Default::default() };
    theirs.resume_run(id, &session).unwrap();
    theirs.end_run(id, RunState::Finished, START_MS + 20).unwrap();
    let late = theirs.load(id).unwrap();

    let mut other = store(&folder, "ours.db");
    other.resume_run(here, &session).unwrap();
    let error = ours.import(&late, &origin("one")).unwrap_err();
    assert!(matches!(error, StoreError::RunInUse { .. }), "{error}");
    drop(other);
    assert!(matches!(ours.import(&late, &origin("one")).unwrap(), Imported::Continued(_)));
    assert_eq!(ours.runs().unwrap().len(), 1);
}
