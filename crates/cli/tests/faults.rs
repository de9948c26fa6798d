//! Faults, injected one by one into the device, the machine or the load: each is caught by name, and
//! runs without a fault raise no alarm. `docs/truth.md` lists them.

use crate::lab::{Lab, Working, cores, wait_for};
use std::process::{Child, Command};
use weir_trial::Limiter;
use weir_trial::run::{MrrResult, PointResult, Run, StoredTrial};
use weir_trial::verdict::{Code, Weight};

/// A plan at one load that any machine carries. The trace is short, so that the untimed pass is too short for a rare
/// fault.
fn plan(nf: &str, dut: &str, load: &str, duration: &str) -> String {
    format!(
        "nf = \"{nf}\"\ndut = \"{dut}\"\ntrace = \"flows:100\"\nsize = 64\ndirections = 1\nhuge_pages = false\n\
         self_check = false\n[latency]\nloads = [\"{load}\"]\nduration = \"{duration}\"\n"
    )
}

/// The trials of a run, those too that the machine spoilt and that were run again: each was judged, and
/// a fault that is rare may have come up in any of them.
fn trials(run: &Run) -> impl Iterator<Item = &StoredTrial> {
    run.points.iter().flat_map(|point| &point.trials)
}

fn has(run: &Run, code: Code) -> bool {
    trials(run).any(|trial| trial.verdict.has(code))
}

/// What was found, for an assertion's message.
fn found(run: &Run) -> Vec<String> {
    let findings = trials(run).flat_map(|trial| &trial.verdict.findings);
    let errors = run.points.iter().filter_map(|point| point.error.clone());
    findings.map(|finding| format!("{}: {}", finding.code.name(), finding.says)).chain(errors).collect()
}

/// Measures a device with this fault.
fn faulty(nf: &str, fault: &str, duration: &str) -> Run {
    let _cores = cores();
    let plan = plan(nf, &format!("faulty:{fault}"), "500kpps", duration);
    let lab = Lab::new(&plan);
    let run = lab.measure(0);
    assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    run
}

#[track_caller]
fn is_caught(nf: &str, fault: &str, codes: &[Code]) {
    let run = faulty(nf, fault, "400ms");
    for code in codes {
        assert!(has(&run, *code), "{fault} is not caught as {}: {:#?}", code.name(), found(&run));
    }
}

/// A run in which a fault of this share of the packets came up, and how often at least. A machine whose
/// cores others have lets too few packets through for a rare fault; there it is made more frequent.
fn with_rare(fault: &str, share: f64, duration: &str) -> (Run, u64) {
    for share in [share, share * 10.0, share * 100.0] {
        let run = faulty("l2fwd", &format!("{fault}:{share}"), duration);
        let forwarded: u64 = trials(&run).filter_map(|trial| Some(trial.result.dut.as_ref()?.sent)).sum();
        let times = (forwarded as f64 * share) as u64;
        if times >= 5 {
            return (run, times);
        }
        println!("{fault} of {share} may not have come up in {forwarded} packets");
    }
    panic!("hardly a packet was forwarded")
}

/// As long as a trial with real-time priority may be: the machine spoils a longer one, which is then run again.
const AWHILE: &str = "800ms";

/// One packet in 50,000 is seen; at 500 kpps that is ten a second.
#[track_caller]
fn is_caught_if_rare(fault: &str, code: Code) {
    let (run, times) = with_rare(fault, 2e-5, AWHILE);
    assert!(has(&run, code), "{fault}, {times} times, is not caught as {}: {:#?}", code.name(), found(&run));
}

#[test]
fn a_packet_lost_within_the_device_is_placed_there() {
    let (run, _) = with_rare("drop", 2e-5, AWHILE);
    let said = found(&run);
    assert!(
        said.iter().any(|line| line.starts_with("lost: ") && !line.contains(" 0 within")),
        "the loss is not placed within the device: {said:#?}"
    );
}

#[test]
fn a_packet_that_comes_twice_is_a_duplicate_and_no_gain() {
    is_caught_if_rare("duplicate", Code::Duplicated);
}

#[test]
fn packets_overtaken_by_others_are_reordered() {
    is_caught_if_rare("reorder", Code::Reordered);
    is_caught_if_rare("delay", Code::Reordered);
}

#[test]
fn a_packet_from_an_earlier_trial_is_no_answer() {
    // The second trial gets packets of the first. The untimed pass would meet them before: it does, too.
    let nf = "faulty:stale:0.01";
    let checked = Lab::new(&plan("l2fwd", nf, "500kpps", "500ms")).measure(1);
    let told = checked.points[0].error.as_ref().unwrap();
    assert!(checked.points[0].trials.is_empty() && told.contains("packets are wrong"), "{told}");
    // Each trial after one with such packets waits longer for the last of them: the first one will do.
    let lab = two_loads("l2fwd", nf, "500kpps", "check = false");
    let working = Working::start(&mut lab.bench());
    wait_for("a packet of an earlier trial", || lab.stored().filter(|run| has(run, Code::Late)));
    drop(working);
    wait_for("the end of the device", || lab.devices().is_empty().then_some(()));
}

#[test]
fn counters_read_while_traffic_runs_contradict_the_wire() {
    is_caught("l2fwd", "old-counters", &[Code::CountersDisagree]);
}

#[test]
fn a_device_that_starts_processes_or_floods_its_log_is_told_on() {
    is_caught("l2fwd", "fork", &[Code::Forked]);
    is_caught("l2fwd", "chatter:1e-4", &[Code::Chatter]);
}

#[test]
fn a_device_that_crashes_says_so_and_one_that_hangs_is_silent() {
    let _cores = cores();
    let lab = Lab::new(&plan("l2fwd", "faulty:crash:1e-5", "500kpps", "2s"));
    let run = lab.measure(1);
    let error = run.points[0].error.as_ref().unwrap();
    assert!(error.contains("SIGABRT") || error.contains("signal: 6"), "{error}");
    let hung = lab_of("l2fwd", "faulty:hang:1e-5", "500kpps");
    assert!(has(&hung, Code::Silent), "{:#?}", found(&hung));
}

fn lab_of(nf: &str, dut: &str, load: &str) -> Run {
    two_loads(nf, dut, load, "").measure(0)
}

fn two_loads(nf: &str, dut: &str, load: &str, keys: &str) -> Lab {
    // A first trial lets the fault happen, the second is judged.
    let two = plan(nf, dut, load, "500ms")
        .replace("self_check = false", &format!("self_check = false\n{keys}"))
        .replace(&format!("loads = [\"{load}\"]"), &format!("loads = [\"{load}\", \"100kpps\"]"));
    Lab::new(&two)
}

/// A busy neighbour on one core, gone with the test.
struct Neighbour(Child);

impl Neighbour {
    fn on(core: usize) -> Self {
        let core = core.to_string();
        let script = "while :; do :; done";
        Self(Command::new("taskset").args(["-c", &core, "sh", "-c", script]).spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The cores that the lab takes for the tester and the device, as it assigns them.
fn tester_and_dut() -> (usize, usize) {
    let run = {
        let _cores = cores();
        Lab::new(&plan("l2fwd", "nf", "100kpps", "100ms")).measure(0)
    };
    let health = trials(&run).next().unwrap().result.health.clone();
    (health.tester.unwrap().core as usize, health.dut.unwrap().core as usize)
}

#[test]
fn a_busy_neighbour_on_either_core_spoils_the_trial_by_name() {
    let (tester, dut) = tester_and_dut();
    for (core, code) in [(tester, Code::TesterPreempted), (dut, Code::DutPreempted)] {
        let _cores = cores();
        let _neighbour = Neighbour::on(core);
        let run = Lab::new(&plan("l2fwd", "nf", "100kpps", "300ms")).measure_without_real_time(0);
        assert!(has(&run, code), "{} is not found: {:#?}", code.name(), found(&run));
        let kept = run.points[0].trials.iter().filter(|trial| trial.superseded).count();
        assert!(kept >= 1, "an invalid trial is run again, and kept");
        let last = trials(&run).last().unwrap();
        assert_eq!(last.verdict.worst(), Some(Weight::Invalid), "and stays invalid when the cause stays");
    }
}

/// The same neighbours, both at once, and every other trial of a disturbed machine is no use; with
/// real-time priority on both sides they wait. Shorter than the time after which the kernel lets them in.
#[test]
fn with_real_time_priority_busy_neighbours_on_both_cores_wait() {
    let may = weir_cpu::RealTime::raise(&[]).map(drop);
    let (tester, dut) = tester_and_dut();
    let _cores = cores();
    let _neighbours = [tester, dut].map(Neighbour::on);
    let run = Lab::new(&plan("l2fwd", "nf", "500kpps", "500ms")).measure(0);
    let last = trials(&run).last().unwrap();
    let health = &last.result.health;
    assert_eq!(health.real_time, may.is_ok(), "{may:?}");
    if may.is_ok() {
        for core in [health.tester.unwrap(), health.dut.unwrap()] {
            assert!(core.waited.0 < 25_000_000, "{core:?}");
        }
        assert!(last.verdict.is_valid(), "{:#?}", found(&run));
    } else {
        assert!(!last.verdict.is_valid(), "ordinary threads share their cores");
    }
}

#[test]
fn a_load_beyond_the_tester_is_unsent_and_the_result_the_testers() {
    let _cores = cores();
    let beyond = "nf = \"l2fwd\"\ntrace = \"tr3i\"\nsize = 64\nline_rate = \"100G\"\nhuge_pages = false\n\
                  [mrr]\ntrials = 2\nduration = \"300ms\"\n";
    let run = Lab::new(beyond).measure(0);
    assert!(has(&run, Code::Unsent), "{:#?}", found(&run));
    let PointResult::Mrr(MrrResult { limit: Some(limit), .. }) = &run.points[0].results[0] else {
        panic!("{:?}", run.points[0].results)
    };
    assert_eq!(limit.by, Limiter::Tester, "{}", limit.why);
    let [check] = run.self_checks.as_slice() else { panic!("{:?}", run.self_checks) };
    assert!(check.ceiling.0 > 0.0 && check.floor.is_some(), "{check:?}");
    assert_eq!(check.counts.duplicated + check.counts.reordered + check.counts.foreign, 0);
}

#[test]
fn one_damaged_packet_in_a_hundred_thousand_is_found_whatever_bit_was_hit() {
    // Sixteen bits, where the machine lets all of the load through. Now and then the untimed pass meets one.
    let (share, twice) = (1e-5, "1Mpps\", \"1Mpps");
    for _ in 0..5 {
        let _cores = cores();
        let lab = Lab::new(&plan("l2fwd", &format!("faulty:corrupt:{share}"), twice, AWHILE));
        let output = lab.bench().output().unwrap();
        let run = lab.stored().unwrap_or_else(|| panic!("{}", crate::lab::told(&output)));
        let forwarded: u64 = trials(&run).filter_map(|trial| Some(trial.result.dut.as_ref()?.sent)).sum();
        let times = (forwarded as f64 * share) as u64;
        if times < 2 {
            continue;
        }
        let damaged: u64 = trials(&run).map(|trial| trial.result.total().damaged).sum();
        assert!(
            has(&run, Code::Damaged) && damaged * 2 >= times,
            "{damaged} of about {times}: {:#?}",
            found(&run)
        );
        return;
    }
    panic!("hardly a packet was forwarded");
}

#[test]
fn wrong_packets_end_the_point_before_any_rate_is_measured_and_everybody_is_told() {
    let _cores = cores();
    for (nf, fault, says) in [
        ("l3fwd:10", "no-ttl", "wrong time to live"),
        ("l3fwd:10", "bad-checksum", "broken IPv4 checksum"),
        ("firewall:10", "leak", "denied, but let through"),
    ] {
        let lab = Lab::new(&plan(nf, &format!("faulty:{fault}"), "500kpps", "1s"));
        let output = lab.bench().output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", crate::lab::told(&output));
        let live = String::from_utf8_lossy(&output.stdout);
        assert!(live.contains("FAILED: the packets are wrong"), "{fault}: {live}");
        assert!(live.contains("0 points measured, 1 failed"), "{fault}: {live}");
        let run = lab.stored().unwrap();
        let point = &run.points[0];
        let check = point.packets.as_ref().unwrap();
        assert!(check.to_string().contains(says), "{fault}: {check}");
        assert!(point.error.as_ref().unwrap().contains(says), "{fault}: {:?}", point.error);
        assert!(point.results.is_empty() && point.trials.is_empty(), "{fault}: {:?}", point.results);
        assert_eq!(lab.leftovers(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn clean_repeats_raise_no_alarm() {
    let _cores = cores();
    let clean = plan("l3fwd:10", "nf", "200kpps", "500ms").replace("self_check", "repeats = 5\nself_check");
    let clean = clean.replace("flows:100", "tr3i");
    let run = Lab::new(&clean).measure(0);
    let check = run.points[0].packets.as_ref().unwrap();
    assert!(check.is_right() && check.compared > 1000, "{check}");
    // What the machine does to a trial is no fault of the device: nothing is called wrong.
    let wrong: Vec<_> = trials(&run).filter(|trial| trial.verdict.worst() == Some(Weight::Wrong)).collect();
    assert!(wrong.is_empty(), "{:#?}", found(&run));
    assert_eq!(trials(&run).filter(|trial| !trial.superseded).count(), 5);
}
