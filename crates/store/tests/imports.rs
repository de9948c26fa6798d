//! Runs of several databases in one.

use crate::common::{Place, START_MS, begin, key, on_both, trial};
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

on_both!(
    any_run_is_imported_unchanged_and_once,
    runs_of_two_machines_with_one_name_are_two_runs,
    a_run_that_went_on_since_replaces_what_it_was_and_never_the_other_way,
    a_run_with_a_known_identity_and_another_content_is_refused,
    a_run_that_is_being_measured_is_not_replaced,
    one_run_imported_by_several_processes_at_once_is_there_once,
);

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

fn any_run_is_imported_unchanged_and_once(place: &Place) {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(run in run())| {
        let run = Run { uuid: "01938f2e-0000-7000-8000-0000000000aa".to_owned(), ..run };
        let (mut store, origin) = (place.open(), origin(&run.name));
        let imported = store.import(&run, &origin).unwrap();
        let id = imported.run();
        prop_assert_eq!(&imported, &Imported::Added(id));
        prop_assert_eq!(store.load(id).unwrap(), Run { id: id.0, ..run.clone() });
        prop_assert_eq!(store.origin(id).unwrap(), Some(origin.clone()));
        prop_assert_eq!(store.import(&run, &origin).unwrap(), Imported::Known(id));
        prop_assert_eq!(store.runs().unwrap().len(), 1);
        store.remove_run(id).unwrap();
    });
    assert!(place.open().runs().unwrap().is_empty());
}

fn runs_of_two_machines_with_one_name_are_two_runs(place: &Place) {
    let mut whole = place.open();
    for _ in ["a", "b", "c"] {
        let machine = place.another();
        let mut theirs = machine.open();
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

fn a_run_that_went_on_since_replaces_what_it_was_and_never_the_other_way(place: &Place) {
    let machine = place.another();
    let mut theirs = machine.open();
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

    let mut ours = place.open();
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

fn a_run_with_a_known_identity_and_another_content_is_refused(place: &Place) {
    let machine = place.another();
    let mut theirs = machine.open();
    let id = measured(&mut theirs, "one", 2, 1);
    let run = theirs.load(id).unwrap();
    let mut ours = place.open();
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

fn a_run_that_is_being_measured_is_not_replaced(place: &Place) {
    let machine = place.another();
    let mut theirs = machine.open();
    let id = measured(&mut theirs, "one", 1, 1);
    let early = theirs.load(id).unwrap();
    let mut ours = place.open();
    let here = ours.import(&early, &origin("one")).unwrap().run();
    let session =
        Session { started_ms: START_MS + 9, weir: "later".to_owned(), environment: Default::default() };
    theirs.resume_run(id, &session).unwrap();
    theirs.end_run(id, RunState::Finished, START_MS + 20).unwrap();
    let late = theirs.load(id).unwrap();

    let mut other = place.open();
    other.resume_run(here, &session).unwrap();
    let error = ours.import(&late, &origin("one")).unwrap_err();
    assert!(matches!(error, StoreError::RunInUse { .. }), "{error}");
    drop(other);
    assert!(matches!(ours.import(&late, &origin("one")).unwrap(), Imported::Continued(_)));
    assert_eq!(ours.runs().unwrap().len(), 1);
}

fn one_run_imported_by_several_processes_at_once_is_there_once(place: &Place) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let any = proptest::strategy::ValueTree::current(&run().new_tree(&mut runner).unwrap());
    let run =
        Run { uuid: "01938f2e-0000-7000-8000-0000000000bb".to_owned(), name: "shared".to_owned(), ..any };
    if place.is_child() {
        let imported = place.open().import(&run, &origin("shared")).unwrap();
        println!("\nimported {imported:?}");
        return;
    }
    let children: Vec<_> = (0..4).map(|_| place.child().spawn().unwrap()).collect();
    let mut added = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        added += said.matches("imported Added").count();
        assert!(said.contains("imported Added") || said.contains("imported Known"), "{said}");
    }
    assert_eq!(added, 1);
    let store = place.open();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(store.load(RunId(runs[0].id)).unwrap(), Run { id: runs[0].id, ..run });
}
