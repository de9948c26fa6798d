//! Campaigns that are killed, taken up again, and run side by side.

use crate::common::{Place, START_MS, begin, key, on_both, trial};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use weir_store::{Outcome, RunId, Selector, Store, StoreError};
use weir_trial::run::advice::{
    AdviceCheck, Asked, CheckVerdict, Compared, Prediction, Quantity, Question, Statistic,
};
use weir_trial::run::{LatencyResult, PointKey, PointResult, RunState, Session};
use weir_units::{Interval, Pps, Ratio};

on_both!(
    a_campaign_killed_at_any_moment_loses_no_acknowledged_trial,
    a_point_that_failed_is_told_from_one_that_was_measured,
    several_processes_find_a_new_database_at_once_and_write_side_by_side,
    a_run_being_measured_cannot_be_taken_up_by_another_campaign,
    runs_are_found_by_name_beginning_number_and_age,
    a_removed_run_takes_everything_with_it_and_leaves_the_others,
    runs_of_two_databases_differ_in_name_and_identity,
    checks_of_advice_stand_with_their_run_in_order_and_go_with_it,
    the_list_says_of_each_run_what_was_measured_in_it,
);

/// The life of a child: keeps trials for ever, and says so after each.
fn write_until_killed(place: &Place) -> ! {
    let mut store = place.open();
    let run = begin(&mut store, Some("killed"));
    let point = store.add_point(run, 0, &key(64)).unwrap();
    for sequence in 0.. {
        store.add_trial(point, &trial(sequence)).unwrap();
        println!("\nkept {sequence}");
    }
    unreachable!("the sequence does not end")
}

fn a_campaign_killed_at_any_moment_loses_no_acknowledged_trial(place: &Place) {
    if place.is_child() {
        write_until_killed(place);
    }
    for wanted in [1, 7, 40] {
        let place = place.another();
        let mut child = place.child().spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut acknowledged = 0;
        while acknowledged < wanted {
            let line = lines.next().expect("the child writes until it is killed");
            acknowledged += u32::from(line.starts_with("kept "));
        }
        let live = place.open_existing().runs().unwrap();
        assert!(live[0].live, "a living campaign is told from a dead one");
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged += lines.filter(|line| line.starts_with("kept ")).count() as u32;

        let mut store = place.open();
        gone(&store);
        let summary = &store.runs().unwrap()[0];
        assert_eq!((summary.state, summary.live), (RunState::Running, false));
        let loaded = store.load(RunId(summary.id)).unwrap();
        let kept = &loaded.points[0].trials;
        assert!(kept.len() as u32 >= acknowledged, "{} kept, {acknowledged} acknowledged", kept.len());
        assert!(kept.len() as u32 <= acknowledged + 1, "one trial at most was kept and not yet said");
        for (sequence, kept) in (0..).zip(kept) {
            assert_eq!(*kept, trial(sequence));
        }
        goes_on(&mut store, kept.len() as u32);
    }
}

/// Waits until the database knows that no campaign is alive: a server has to notice it.
fn gone(store: &Store) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.runs().unwrap()[0].live && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A later time, on another kernel.
fn session() -> Session {
    let environment = BTreeMap::from([("kernel.release".to_owned(), "6.2".to_owned())]);
    Session { started_ms: START_MS + 1, weir: "0.1.0 (later)".to_owned(), environment }
}

/// Takes the killed run up again: its trials stay, marked, and the count goes on.
fn goes_on(store: &mut Store, kept: u32) {
    let run = store.find(&Selector::Last(0)).unwrap();
    assert_eq!(store.progress(run).unwrap().unfinished, [0]);
    store.resume_run(run, &session()).unwrap();
    let point = store.add_point(run, 0, &key(64)).unwrap();
    assert_eq!(point.next_sequence, kept);
    store.add_trial(point, &trial(kept)).unwrap();
    let results = [PointResult::Latency(LatencyResult {
        label: "1Mpps".to_owned(),
        load: Pps(1e6),
        trial: kept,
        floor: None,
    })];
    store.finish_point(point, Outcome { results: &results, ..Outcome::default() }).unwrap();
    store.end_run(run, RunState::Finished, START_MS + 1).unwrap();

    let loaded = store.load(run).unwrap();
    assert_eq!(loaded.state, RunState::Finished);
    assert_eq!(loaded.sessions, [session()], "under which conditions it went on is kept");
    assert!(loaded.mix().iter().any(|difference| difference.key == "kernel.release"), "{:?}", loaded.mix());
    let point = &loaded.points[0];
    assert!(point.finished && point.results == results);
    let (last, earlier) = point.trials.split_last().unwrap();
    assert!(!last.superseded && earlier.iter().all(|trial| trial.superseded));
    assert_eq!(store.progress(run).unwrap().finished, [0]);
}

fn a_point_that_failed_is_told_from_one_that_was_measured(place: &Place) {
    let mut store = place.open();
    let run = begin(&mut store, None);
    for (index, error) in [(0, None), (1, Some("the DUT exited with signal 11"))] {
        let point = store.add_point(run, index, &key(64)).unwrap();
        store.finish_point(point, Outcome { error, ..Outcome::default() }).unwrap();
    }
    store.add_point(run, 2, &key(128)).unwrap();
    let progress = store.progress(run).unwrap();
    assert_eq!((progress.finished, progress.failed, progress.unfinished), (vec![0], vec![1], vec![2]));
    let summary = &store.runs().unwrap()[0];
    assert_eq!((summary.points, summary.finished, summary.failed), (3, 2, 1));
    assert_eq!(
        (summary.nfs.as_slice(), summary.duts.as_slice()),
        (&["l3fwd:10".to_owned()][..], &["simulated".to_owned()][..])
    );
}

/// Trials each of the processes below keeps.
const EACH: u32 = 25;

fn several_processes_find_a_new_database_at_once_and_write_side_by_side(place: &Place) {
    if place.is_child() {
        let mut store = place.open();
        let run = begin(&mut store, None);
        let point = store.add_point(run, 0, &key(64)).unwrap();
        (0..EACH).for_each(|sequence| store.add_trial(point, &trial(sequence)).unwrap());
        store.end_run(run, RunState::Finished, START_MS).unwrap();
        return;
    }
    let children: Vec<_> = (0..4).map(|_| place.child().spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    let store = place.open_existing();
    let runs = store.runs().unwrap();
    let names: std::collections::BTreeSet<_> = runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!((runs.len(), names.len()), (4, 4), "each run has a name of its own: {names:?}");
    assert!(runs.iter().all(|run| run.trials == EACH && run.state == RunState::Finished && !run.live));
    let Some(folder) = place.folder() else { return };
    let left: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".lock"))
        .collect();
    assert!(left.is_empty(), "lock files left behind: {left:?}");
}

fn a_run_being_measured_cannot_be_taken_up_by_another_campaign(place: &Place) {
    let mut first = place.open();
    let run = begin(&mut first, Some("busy"));
    let mut second = place.open();
    let error = second.resume_run(run, &session()).unwrap_err();
    assert!(matches!(&error, StoreError::RunInUse { name } if name == "busy"), "{error}");
    first.end_run(run, RunState::Interrupted, START_MS).unwrap();
    second.resume_run(run, &session()).unwrap();
}

fn runs_are_found_by_name_beginning_number_and_age(place: &Place) {
    let mut store = place.open();
    let ids: Vec<_> =
        ["quiet", "quiet-2", "noisy"].iter().map(|name| begin(&mut store, Some(name))).collect();
    let find = |text: &str| store.find(&text.parse().unwrap());
    for (text, place) in
        [("@last", 2), ("@last~2", 0), ("2", 1), ("quiet", 0), ("quiet-", 1), ("noi", 2), ("noisy", 2)]
    {
        assert_eq!(find(text).unwrap(), ids[place], "{text}");
    }
    let ambiguous = find("qui").unwrap_err().to_string();
    assert!(ambiguous.contains("quiet-2, quiet"), "{ambiguous}");
    for text in ["@last~3", "9", "loud"] {
        let error = find(text).unwrap_err();
        assert!(error.is_bad_use() && error.to_string().contains("`weir runs` lists the 3"), "{error}");
    }
}

fn a_removed_run_takes_everything_with_it_and_leaves_the_others(place: &Place) {
    let mut store = place.open();
    let (gone, stays) = (begin(&mut store, Some("gone")), begin(&mut store, Some("stays")));
    for run in [gone, stays] {
        let point = store.add_point(run, 0, &key(64)).unwrap();
        store.add_trial(point, &trial(0)).unwrap();
    }
    store.remove_run(gone).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].name.as_str(), runs[0].trials), ("stays", 1));
}

fn runs_of_two_databases_differ_in_name_and_identity(place: &Place) {
    let run = |place: &Place| {
        let mut store = place.open();
        let id = begin(&mut store, None);
        let run = store.load(id).unwrap();
        assert_eq!(store.find(&run.uuid.parse().unwrap()).unwrap(), id, "it is found by its identity");
        (run.name, run.uuid)
    };
    let (a, b) = (run(place), run(&place.another()));
    assert_ne!(a.1, b.1);
    assert_ne!(a.0, b.0, "begun at the same moment, as the first of their databases");
}

fn checks_of_advice_stand_with_their_run_in_order_and_go_with_it(place: &Place) {
    let mut store = place.open();
    let run = begin(&mut store, Some("advised"));
    let other = begin(&mut store, Some("other"));
    let check = |advice: &str, verdict| AdviceCheck {
        started_ms: START_MS,
        question: Question::Speed,
        asked: Asked {
            load: Some(Pps(2.5e6)),
            loss: Ratio(0.001),
            delay: Some("p99 < 50us".parse().unwrap()),
        },
        advice: advice.to_owned(),
        key: key(64),
        derived_from: vec![0, 2],
        extrapolated: Vec::new(),
        compared: vec![Compared {
            predicted: Prediction {
                quantity: Quantity::Delay { load: Pps(2.5e6), statistic: Statistic::P999 },
                value: 41_000.5,
                interval: Some(Interval { low: 40e3, high: 42e3 }),
            },
            measured: 43_000.0,
            count: 1,
            inside: Some(false),
        }],
        verdict,
        why: "it was slower".to_owned(),
        run: "other".to_owned(),
        uuid: "u".to_owned(),
    };
    let checks =
        [check("35 % carries it", CheckVerdict::Refuted), check("36 % does", CheckVerdict::Confirmed)];
    checks.iter().for_each(|check| store.add_advice(run, check).unwrap());
    drop(store);
    let mut store = place.open();
    assert_eq!(store.load(run).unwrap().advice, checks);
    assert_eq!((store.advice(run).unwrap().len(), store.advice(other).unwrap().len()), (2, 0));
    let error = store.load(run).unwrap().advice[0].compared[0].error().unwrap();
    assert!((error - (43_000.0 / 41_000.5 - 1.0)).abs() < 1e-12, "{error}");
    store.remove_run(run).unwrap();
    assert!(store.advice(run).unwrap().is_empty());
}

fn the_list_says_of_each_run_what_was_measured_in_it(place: &Place) {
    let mut store = place.open();
    let runs: Vec<RunId> = ["one", "two", "empty"].map(|name| begin(&mut store, Some(name))).to_vec();
    for (run, trials) in [(runs[0], 3), (runs[1], 1)] {
        for (index, dut) in (0..).zip(["nf", "ovs", "nf"]) {
            let key = PointKey { dut: dut.to_owned(), ..key(64) };
            let point = store.add_point(run, index, &key).unwrap();
            (0..trials).for_each(|sequence| store.add_trial(point, &trial(sequence)).unwrap());
        }
    }
    store.end_run(runs[0], RunState::Finished, START_MS + 3).unwrap();
    let listed: Vec<_> =
        store.runs().unwrap().into_iter().map(|run| (run.name, run.trials, run.duts, run.live)).collect();
    let duts = ["nf".to_owned(), "ovs".to_owned()];
    assert_eq!(
        listed,
        [
            ("empty".to_owned(), 0, vec![], true),
            ("two".to_owned(), 3, duts.to_vec(), true),
            ("one".to_owned(), 9, duts.to_vec(), false),
        ]
    );
}
