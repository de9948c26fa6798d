//! Curves, frame loss, bursts and soaks from plan to terminal, on a simulated device of known answers;
//! and what `weir show` says of results that must not be believed.

use crate::lab::{Lab, check_sums, told, weir};
use std::collections::BTreeMap;
use std::path::Path;
use weir_simulated::SimulatedDut;
use weir_store::{NewRun, Outcome, Store};
use weir_trial::run::{
    BackToBackResult, CurveResult, FrameLossResult, MrrResult, Point, PointKey, PointResult, Purpose,
    RunState, SoakResult, StoredTrial,
};
use weir_trial::verdict::{Code, Finding, Weight};
use weir_trial::{DirectionCounts, Latency, Limit, Limiter, Nf, SelfCheck, TrialSpec};
use weir_units::{Bps, LatencyHistogram, LineRate, Nanos, Pps};

const CAPACITY: f64 = 3e6;
const QUEUE: f64 = 1000.0;

const PLAN: &str = "
nf = \"l2fwd\"
dut = \"simulated\"
trace = \"tr3i\"
size = [64, 512]
huge_pages = false
repeats = 2
[throughput]
goals = [\"ndr\"]
[latency_curve]
[frame_loss]
duration = \"1s\"
[back_to_back]
searches = 3
step = 1
[soak]
load = \"90% ndr\"
time = \"40s\"
slice = \"1s\"
[simulated]
capacity = \"3Mpps\"
queue = 1000
disturbed = \"2%\"
";

fn show(db: &Path, run: &str) -> String {
    let output = weir().args(["show", run, "--db"]).arg(db).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Every trial that results of one kind name, in the order named.
fn named<'a>(point: &'a Point, pick: impl Fn(&'a PointResult) -> Option<Vec<u32>>) -> Vec<u32> {
    point.results.iter().filter_map(pick).flatten().collect()
}

fn purposes(point: &Point, trials: &[u32]) -> Vec<Purpose> {
    let mut purposes: Vec<Purpose> =
        trials.iter().map(|trial| point.trial(*trial).expect("a named trial is kept").purpose).collect();
    purposes.dedup();
    purposes
}

#[test]
fn a_device_of_known_capacity_and_queue_gives_the_known_curves_and_bursts() {
    let lab = Lab::new(PLAN);
    let run = lab.measure(0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, 2));
    for point in &run.points {
        check_sums(point);
        let line = point.key.theoretical().0;
        for result in &point.results {
            match result {
                PointResult::LatencyCurve(CurveResult { steps, saturation, knee, .. }) => {
                    assert!(steps.is_sorted_by(|a, b| a.load.0 <= b.load.0) && steps[0].load == Pps(100.0));
                    for step in steps {
                        assert_eq!(point.trial(step.trial).unwrap().result.spec.load, step.load);
                    }
                    let (lower, upper) = (saturation.lower.unwrap().0, saturation.upper.unwrap().0);
                    assert!(lower <= CAPACITY * 1.01 && upper >= CAPACITY * 0.95, "{lower} {upper}");
                    let knee = knee.expect("a queueing device has a knee").0 / CAPACITY;
                    assert!((0.4..1.0).contains(&knee), "{knee}");
                }
                PointResult::FrameLoss(FrameLossResult { steps, .. }) => {
                    for step in steps.iter().filter(|step| step.load.0 > CAPACITY * 1.1) {
                        let expected = 1.0 - CAPACITY / step.load.0;
                        assert!((step.loss_ratio.0 - expected).abs() < 0.02, "{step:?}");
                    }
                    assert!((steps[0].load.0 / line - 1.0).abs() < 1e-9);
                }
                PointResult::BackToBack(BackToBackResult { corrected, invalid, bursts, .. }) => {
                    assert_eq!(*invalid, None);
                    assert_eq!(bursts.as_ref().unwrap().frames.len(), 3);
                    let buffer = corrected.unwrap().seconds() * line;
                    assert!((buffer / QUEUE - 1.0).abs() < 0.05, "{buffer} frames");
                }
                PointResult::Soak(SoakResult { found, .. }) => {
                    assert_eq!(found.trials.len(), 40);
                    let lost: u64 = found
                        .lossy
                        .iter()
                        .map(|trial| point.trial(*trial).unwrap().result.total().lost())
                        .sum();
                    assert_eq!(lost, found.lost, "every loss is in a slice that is named");
                }
                _ => {}
            }
        }
        let soaks = named(point, |result| match result {
            PointResult::Soak(SoakResult { found, .. }) => Some(found.trials.clone()),
            _ => None,
        });
        let bursts = named(point, |result| match result {
            PointResult::BackToBack(BackToBackResult { trials, .. }) => Some(trials.clone()),
            _ => None,
        });
        assert_eq!(purposes(point, &soaks), [Purpose::Soak]);
        assert_eq!(purposes(point, &bursts), [Purpose::BackToBack]);
    }

    let text = show(&lab.file("weir.db"), "@last");
    for part in [
        "curve    knee at ",
        "← knee",
        "nothing from 60 % of the line down",
        "frames ± ",
        "· buffer of ",
        "40 × 1 s at 90% ndr",
        "median of 2 repeats · mean in [",
        "of the time under load",
        "point 1 · l2fwd · simulated · 512 B · latency against load",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn bursts_without_the_throughput_that_corrects_them_are_refused_before_anything_runs() {
    let lab = Lab::new("nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = 64\n[back_to_back]\n");
    let output = lab.bare().arg(lab.file("plan.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the goal `ndr`") && error.contains("[throughput]"), "{error}");
}

fn trial(sequence: u32, weight: Option<Weight>) -> StoredTrial {
    let spec = TrialSpec { load: Pps(4e6), duration: Nanos(Nanos::PER_SECOND) };
    let result = SimulatedDut::default().start().run(spec);
    let mut trial = StoredTrial::new(sequence, Purpose::Mrr, 0, result);
    let finding =
        |weight| Finding { code: Code::Foreign, weight, says: "5 packets came that nobody sent".into() };
    trial.verdict.findings = weight.map(finding).into_iter().collect();
    trial
}

#[test]
fn show_tells_who_limits_a_result_what_is_invalid_and_what_the_tester_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("weir.db");
    let mut store = Store::open(Some(&db)).unwrap();
    let run = store
        .begin_run(NewRun {
            name: Some("checked"),
            started_ms: 0,
            plan: "",
            weir: "0.1.0",
            environment: &BTreeMap::new(),
        })
        .unwrap();
    let mut floor = LatencyHistogram::default();
    floor.record_many(Nanos(1500), 10);
    let check = SelfCheck {
        wiring: "vhost".to_owned(),
        size: "64".to_owned(),
        mean_frame_bytes: 64.0,
        directions: 2,
        pairs: 1,
        queues: 1,
        server: None,
        huge_pages: false,
        loop_of: "the ports themselves".to_owned(),
        ceiling: Pps(5.5e6),
        floor_load: Pps(1e5),
        floor: Latency::of(&floor),
        floors: Vec::new(),
        counts: DirectionCounts::default(),
        findings: Vec::new(),
    };
    store.add_self_check(run, &check).unwrap();
    let key = PointKey {
        nf: Nf::L2Fwd,
        dut: "nf".to_owned(),
        wiring: "vhost".to_owned(),
        trace: "tr3i".to_owned(),
        size: "64".to_owned(),
        mean_frame_bytes: 64.0,
        directions: 2,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    };
    let point = store.add_point(run, 0, &key).unwrap();
    store.add_trial(point, &trial(0, None)).unwrap();
    store.add_trial(point, &trial(1, Some(Weight::Wrong))).unwrap();
    let mrr = PointResult::Mrr(MrrResult {
        load: Some(Pps(4e6)),
        rates: vec![Pps(4e6); 2],
        mean: Pps(4e6),
        deviation: Pps(0.0),
        cycles_per_packet: None,
        limit: Some(Limit {
            by: Limiter::Tester,
            why: "the ceiling of this wiring is 5.500 Mpps".to_owned(),
        }),
    });
    store.finish_point(point, Outcome { results: &[mrr], ..Outcome::default() }).unwrap();
    store.end_run(run, RunState::Finished, 1000).unwrap();
    let text = show(&db, "checked");
    for part in [
        "limited by: the tester (the ceiling of this wiring is 5.500 Mpps)",
        "INVALID, not to be ranked: 1 of 2 trials wrong: 5 packets came that nobody sent",
        "note: 1 trial wrong, foreign: for one point 0, trial 1: 5 packets came that nobody sent",
        "self-check  size  directions     ceiling  floor p50  jitter  found",
        "5.500 Mpps    1.50 µs    0 ns  good",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}
