//! VPP's adapter, end to end: a program in its place reads its start-up file and speaks its command line.

use crate::lab::{Lab, check_counters, check_sums, cores, run_of, told, weir};
use std::path::PathBuf;
use std::process::Command;
use weir_trial::run::RunState;

/// A lab whose VPP is the stand-in.
fn bench(lab: &Lab) -> Command {
    let mut bench = lab.bench();
    bench.env("WEIR", env!("CARGO_BIN_EXE_weir"));
    bench.env("WEIR_VPP", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_ins/vpp.py"));
    bench
}

#[test]
fn functions_are_started_counted_and_stopped_over_its_command_line() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = [\"l2fwd\", \"l3fwd:10\", \"firewall:10\"]\ndut = \"vpp\"\nsize = 128\ntrace = \"flows:100\"\n\
         wiring = \"memif\"\nhuge_pages = false\nself_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n",
    );
    let run = run_of(&mut bench(&lab), 0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, 3));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        assert!(point.packets.as_ref().is_some_and(|packets| packets.compared > 0), "{:?}", point.packets);
        check_sums(point);
        check_counters(point);
        let version = point.dut_version.as_ref().unwrap();
        assert!(version.starts_with("VPP 25.10-stand-in; ") && version.contains("startup.conf"), "{version}");
    }
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn one_that_dies_in_mid_run_is_named_with_its_last_words_and_nothing_stays() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"vpp\"\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\nself_check = false\n\
         [mrr]\ntrials = 20\nduration = \"300ms\"\nload = \"20kpps\"\n",
    );
    let output = bench(&lab).env("STAND_IN", "dies").output().unwrap();
    let error = lab.stored().unwrap().points[0].error.clone().unwrap_or_default();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(error.contains("exit status: 139") && error.contains("SIGSEGV"), "{error}");
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn one_that_refuses_a_command_is_named_with_what_it_printed() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"firewall:3\"\ndut = \"vpp\"\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\nself_check = false\n\
         [mrr]\ntrials = 1\n",
    );
    let output = bench(&lab).env("STAND_IN", "refuses").output().unwrap();
    let error = lab.stored().unwrap().points[0].error.clone().unwrap_or_default();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(error.contains("rules0.cli` failed: exec: CLI line error"), "{error}");
    assert!(error.contains("| set acl-plugin: unknown input `acl'"), "{error}");
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn one_that_already_runs_is_looked_for_at_its_place_and_not_on_the_path() {
    let _cores = cores();
    for (dut, says) in [
        ("vpp:unix:/nowhere/cli.sock", "VPP's command line at /nowhere/cli.sock: No such file"),
        ("bess:unix:/nowhere/bess.sock", "bessd at unix:/nowhere/bess.sock"),
    ] {
        let lab = Lab::new(&format!(
            "nf = \"l2fwd\"\ndut = \"{dut}\"\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\nself_check = false\n\
             [mrr]\ntrials = 1\n"
        ));
        let mut bench = lab.bench();
        let output =
            bench.envs(["WEIR_VPP", "WEIR_BESSD"].map(|name| (name, "/nowhere/it"))).output().unwrap();
        let error = lab.stored().unwrap().points[0].error.clone().unwrap_or_default();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_nobody_built_here_is_told_by_plan_check_and_a_run_goes_on_without_it() {
    let absent = ["WEIR_FASTCLICK", "WEIR_BESSD", "WEIR_VPP"];
    let check = |plan: &str| {
        let mut check = weir();
        check.args(["plan", "check", plan]).envs(absent.map(|name| (name, "/nowhere/it")));
        let output = check.output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        told(&output)
    };
    let said = check(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/built-devices.toml"));
    for name in absent {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        assert!(line.contains("is not at /nowhere/it; Debian has no package of it"), "{line}");
    }
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = [\"simulated\", \"vpp\"]\nsize = 64\ntrace = \"simple\"\n[mrr]\ntrials = 1\nduration = \"10ms\"\n",
    );
    let run = run_of(lab.bench().env("WEIR_VPP", "/nowhere/it"), 1);
    let [simulated, vpp] = &run.points[..] else { panic!("{:?}", run.points) };
    assert_eq!((simulated.error.as_deref(), simulated.trials.len()), (None, 1));
    let why = vpp.error.clone().unwrap_or_default();
    assert!(why.contains("/nowhere/it") && why.contains("WEIR_VPP") && vpp.trials.is_empty(), "{why}");
}
