//! `weir bench --against`: two real devices measured in turns, and every way that can be cut short.
//! Speeds are never asserted: only turns, states and messages.

use crate::lab::{Lab, PROMPT, Working, check_sums, cores, told};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::time::Instant;
use weir_trial::run::{Run, RunState};

fn fed(trials: u32, duration: &str) -> String {
    format!(
        "nf = \"l2fwd\"\ndut = \"nf\"\nagainst = \"testpmd\"\nsize = 64\nwiring = \"fed\"\ntrace = \"simple\"\n\
         huge_pages = false\n[mrr]\ntrials = {trials}\nduration = \"{duration}\"\n"
    )
}

/// The same where no packet is compared: neither device is started for that before its trials.
fn uncompared(trials: u32, duration: &str) -> String {
    format!("check = false\n{}", fed(trials, duration))
}

/// That at a load over `vhost`, where a device that was frozen need not settle again.
fn wired(trials: u32, duration: &str) -> String {
    let plan = uncompared(trials, duration).replace("wiring = \"fed\"", "self_check = false");
    format!("{plan}load = \"100kpps\"\n")
}

/// Over `vhost`: every trial finds both devices' links up, however often they were frozen.
fn vhost(duration: &str) -> String {
    format!(
        "nf = \"l2fwd\"\ndut = \"nf\"\nagainst = \"testpmd\"\nsize = 64\ntrace = \"simple\"\n\
         huge_pages = false\nself_check = false\n[mrr]\ntrials = 3\nduration = \"100ms\"\nload = \"100kpps\"\n\
         [latency]\nloads = [\"50kpps\"]\nduration = \"{duration}\"\n"
    )
}

/// Places of the devices whose trials counted, in the order they were measured.
fn turns(run: &Run) -> Vec<usize> {
    let mut starts: Vec<(i64, usize)> = Vec::new();
    for (place, point) in run.points.iter().enumerate() {
        let counting = point.trials.iter().filter(|trial| !trial.superseded);
        starts.extend(counting.map(|trial| (trial.started_ms, place)));
    }
    starts.sort_unstable();
    starts.into_iter().map(|(_, place)| place).collect()
}

fn nothing_left(lab: &Lab) {
    assert_eq!((lab.devices(), lab.leftovers()), (vec![], vec![]));
}

#[test]
fn devices_take_turns_that_change_their_order_and_are_compared_pair_by_pair() {
    let _cores = cores();
    let lab = Lab::new(&fed(4, "100ms"));
    let output = lab.bench().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["Environment: one run, so the same.", "nf → testpmd", "forwarded rate"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let run = lab.stored().unwrap();
    assert_eq!(turns(&run), [0, 1, 1, 0, 0, 1, 1, 0]);
    let duts: Vec<&str> = run.points.iter().map(|point| point.key.dut.as_str()).collect();
    assert_eq!((duts, run.state), (vec!["nf", "testpmd"], RunState::Finished));
    // A frozen device has no cycles to count: each reading is of its own trial.
    for trial in run.points.iter().flat_map(|point| &point.trials) {
        let dut = trial.result.dut.as_ref().unwrap();
        assert!(dut.sent > 0 && dut.cpu.0 > 0 && dut.cpu.0 as f64 <= dut.elapsed.0 as f64 * 1.2, "{dut:?}");
    }
    nothing_left(&lab);

    let sides = [format!("{}/nf", run.name), format!("{}/testpmd", run.name)];
    let output = crate::lab::weir()
        .args(["compare", "--json"])
        .args(sides)
        .arg("--db")
        .arg(lab.file("weir.db"))
        .output();
    let comparison: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(comparison["alternated"], true, "{comparison:#}");
}

#[test]
fn links_outlive_a_frozen_peer() {
    let _cores = cores();
    let lab = Lab::new(&vhost("100ms"));
    let run = lab.measure(0);
    for point in &run.points {
        assert_eq!((&point.error, point.results.len()), (&None, 2), "{:?}", point.key);
        check_sums(point);
        for trial in &point.trials {
            assert!(trial.result.directions.iter().all(|counts| counts.received > 0), "{trial:?}");
        }
    }
    assert_eq!(turns(&run).len(), 8);
    nothing_left(&lab);
}

#[test]
fn when_one_dies_its_point_fails_and_the_other_goes_on_alone() {
    let _cores = cores();
    for (dies, stays) in [(1, 0), (0, 1)] {
        let lab = Lab::new(&wired(4, "300ms"));
        let mut working = Working::start(&mut lab.bench());
        lab.mid_trial(&mut working, 0);
        let is_testpmd = |process: &i32| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("dpdk-testpmd") == (dies == 1)
        };
        let device = lab.devices().into_iter().find(is_testpmd).unwrap();
        kill(Pid::from_raw(device), Signal::SIGKILL).unwrap();
        let output = working.end();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let run = lab.stored().unwrap();
        assert_eq!(run.state, RunState::Finished);
        assert!(
            run.points[dies].error.as_ref().unwrap().contains("signal: 9"),
            "{:?}",
            run.points[dies].error
        );
        assert_eq!((&run.points[stays].error, run.points[stays].results.len()), (&None, 1));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 points measured, 1 failed") && text.contains("signal: 9"), "{text}");
        nothing_left(&lab);
    }
}

#[test]
fn ctrl_c_ends_both_and_resume_measures_both_anew() {
    let _cores = cores();
    let lab = Lab::new(&vhost("1200ms"));
    let mut working = Working::start(&mut lab.bench());
    lab.mid_trial(&mut working, 1);
    let begin = Instant::now();
    working.signal(Signal::SIGINT);
    let output = working.end();
    assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    nothing_left(&lab);
    let cut_off = lab.stored().unwrap();
    assert_eq!(cut_off.points.len(), 2);
    assert!(cut_off.points.iter().all(|point| !point.finished && point.error.is_none()));
    let run = lab.resume(0);
    assert!(run.state == RunState::Finished && run.points.iter().all(|point| point.results.len() == 2));
    for (point, before) in run.points.iter().zip(&cut_off.points) {
        let (first, second) = point.trials.split_at(before.trials.len());
        assert!(!first.is_empty() && first.iter().all(|trial| trial.superseded), "they decide nothing");
        assert_eq!(second.iter().filter(|trial| !trial.superseded).count(), 4, "all is measured anew");
    }
    nothing_left(&lab);
}

#[test]
fn a_killed_lab_takes_both_along_the_frozen_one_too() {
    let _cores = cores();
    let lab = Lab::new(&uncompared(6, "300ms"));
    let mut working = Working::start(&mut lab.bench());
    lab.mid_trial(&mut working, 1);
    assert_eq!(lab.devices().len(), 2);
    working.signal(Signal::SIGKILL);
    working.end();
    crate::lab::wait_for("the end of both devices", || lab.devices().is_empty().then_some(()));
}

#[test]
fn what_one_device_cannot_be_is_said_and_the_other_is_measured() {
    let _cores = cores();
    let lab = Lab::new(&fed(1, "100ms").replace("l2fwd", "l3fwd:10"));
    let run = lab.measure(0);
    assert_eq!(run.points[0].results.len(), 1);
    assert!(run.points[1].error.as_ref().unwrap().contains("testpmd has no routing table"));
}

#[test]
fn a_plan_measures_one_device_against_one_other() {
    let plan = fed(1, "100ms");
    for (from, to, part) in [
        ("\"testpmd\"", "\"testpdm\"", "did you mean `testpmd`?"),
        ("\"testpmd\"", "\"nf\"", "nf is the plan's `dut` itself"),
        ("dut = \"nf\"", "dut = [\"nf\", \"simulated\"]", "write one `dut`"),
    ] {
        let lab = Lab::new(&plan.replace(from, to));
        let output = lab.bench().output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("plan.toml:3:") && error.contains(part), "{error}");
    }
}
