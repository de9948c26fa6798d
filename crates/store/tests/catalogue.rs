//! What runs are found by, and when it has to be read again.

use crate::common::{Place, START_MS, begin, key, on_both, trial};
use std::collections::BTreeMap;
use weir_store::{NewRun, Outcome, RunId};
use weir_trial::run::{LatencyResult, PointKey, PointResult, RunState};
use weir_trial::{Deployment, Placement};
use weir_units::Pps;

on_both!(
    facts_of_runs_are_what_their_points_results_and_environments_say,
    an_outline_says_which_runs_are_to_be_read_again,
    points_that_are_wanted_are_read_whole_but_for_their_histograms,
);

fn points_that_are_wanted_are_read_whole_but_for_their_histograms(place: &Place) {
    let mut store = place.open();
    let environment = BTreeMap::from([("cpu.model".to_owned(), "A CPU".to_owned())]);
    let new = NewRun { name: None, started_ms: START_MS, plan: "p", weir: "w", environment: &environment };
    let run = store.begin_run(new).unwrap();
    for (place, size) in (0..).zip([64, 1500, 64]) {
        let point = store.add_point(run, place, &key(size)).unwrap();
        (0..3).for_each(|number| store.add_trial(point, &trial(number)).unwrap());
        let latency = LatencyResult { label: "50% ndr".to_owned(), load: Pps(1e6), trial: 0, floor: None };
        let results = [PointResult::Latency(latency)];
        store
            .finish_point(point, Outcome { dut_version: Some("v1"), error: None, results: &results })
            .unwrap();
    }
    let mut expected = store.load(run).unwrap();
    expected.points.retain(|point| point.key.size == "64");
    let latencies = expected.points.iter_mut().flat_map(|point| &mut point.trials);
    let latencies: Vec<_> = latencies.filter_map(|trial| trial.result.latency.as_mut()).collect();
    assert!(!latencies.is_empty() && latencies.iter().all(|latency| !latency.histogram.is_empty()));
    latencies.into_iter().for_each(|latency| latency.histogram.clear());
    let read = store.load_points(run, &|key| key.size == "64").unwrap();
    assert_eq!(read, Some(expected));
    assert_eq!(store.load_points(run, &|key| key.size == "9000").unwrap(), None);
}

fn facts_of_runs_are_what_their_points_results_and_environments_say(place: &Place) {
    let mut store = place.open();
    let environment = BTreeMap::from([
        ("cpu.model".to_owned(), "A CPU".to_owned()),
        ("load.average".to_owned(), "0.1".to_owned()),
    ]);
    let new = NewRun { name: None, started_ms: START_MS, plan: "", weir: "w", environment: &environment };
    let empty = begin(&mut store, Some("empty"));
    let run = store.begin_run(new).unwrap();
    let placement = Placement { deployment: Deployment::Vhost, ..Placement::default() };
    let keys = [key(64), key(64), PointKey { dut: "nf".to_owned(), placement, ..key(1500) }];
    for (place, key) in (0..).zip(&keys) {
        let point = store.add_point(run, place, key).unwrap();
        store.add_trial(point, &trial(0)).unwrap();
        let latency = LatencyResult { label: "50% ndr".to_owned(), load: Pps(1e6), trial: 0, floor: None };
        let results = [PointResult::Latency(latency)];
        let good = Outcome { dut_version: Some("v1"), error: None, results: &results };
        let bad = Outcome { dut_version: None, error: Some("no"), results: &[] };
        store.finish_point(point, if place == 1 { bad } else { good }).unwrap();
    }
    let facts = store.facts(1, 10, &["cpu.model"]).unwrap();
    assert_eq!(facts.keys().copied().collect::<Vec<_>>(), [empty.0, run.0]);
    assert_eq!(facts[&empty.0].points, 0);
    let facts = &facts[&run.0];
    assert_eq!((facts.points, facts.finished, facts.failed, facts.trials), (3, 3, 1, 3));
    assert_eq!(facts.duts, ["simulated", "nf"]);
    assert_eq!(
        (facts.sizes.as_slice(), facts.nfs.len()),
        (["64".to_owned(), "1500".to_owned()].as_slice(), 1)
    );
    assert_eq!((&facts.versions, &facts.methods), (&vec!["v1".to_owned()], &vec!["latency".to_owned()]));
    assert_eq!(facts.deployments, ["inline", "vhost"]);
    assert_eq!(facts.environment, BTreeMap::from([("cpu.model".to_owned(), "A CPU".to_owned())]));
    assert_eq!((&facts.imported_as, &facts.signed_by), (&None, &None));
    assert!(store.facts(run.0 + 1, run.0 + 1, &[]).unwrap().is_empty());
}

fn an_outline_says_which_runs_are_to_be_read_again(place: &Place) {
    let mut store = place.open();
    let run = begin(&mut store, Some("one"));
    let reader = place.open_existing();
    let before = reader.outline().unwrap();
    let alone = |run: RunId| reader.outline_of(run).unwrap();
    assert!(
        before.iter().all(|run| alone(RunId(run.id)).as_ref() == Some(run)) && alone(RunId(9999)).is_none()
    );
    assert!(
        before[0].live && before[0].has_changed(&before[0]),
        "what is being measured changes all the time"
    );
    store.end_run(run, RunState::Finished, START_MS + 1).unwrap();
    let after = reader.outline().unwrap();
    assert!(!after[0].live && after[0].has_changed(&before[0]));
    assert!(!after[0].has_changed(&reader.outline().unwrap()[0]), "an old run stays as it is");
    let second = begin(&mut store, Some("two"));
    assert_eq!(reader.outline().unwrap().iter().map(|run| run.id).collect::<Vec<_>>(), [second.0, run.0]);
}
