//! Dataplanes described from outside, for real: the examples of docs/devices.md, and descriptions with mistakes.

use crate::lab::{Lab, check_counters, check_sums, cores, told, weir};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use weir_testkit::Need;
use weir_trial::run::{Run, RunState};

/// A description of docs/devices.md, as a device.
fn example(name: &str) -> String {
    format!("exec:{}/../../docs/examples/devices/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A plan of short trials with this device.
fn plan(device: &str, nfs: &[&str], wiring: &str) -> Lab {
    Lab::new(&format!(
        "nf = {nfs:?}\ndut = {device:?}\nsize = 128\ntrace = \"flows:100\"\nwiring = {wiring:?}\nhuge_pages = false\n\
         self_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n"
    ))
}

/// Measures a device; every packet of the untimed pass was right, and nothing is left behind.
fn measured(lab: &Lab, points: usize) -> Run {
    let mut bench = lab.bench();
    // The program under test stands for the `weir` that the example would find on the PATH.
    let run = crate::lab::run_of(bench.env("WEIR", env!("CARGO_BIN_EXE_weir")), 0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, points));
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        check_sums(point);
        assert!(point.trials.iter().all(|trial| trial.result.total().received > 0), "{:?}", point.key);
    }
    run
}

#[test]
fn commands_in_toml_are_a_device() {
    if weir_testkit::needs!(Need::Program("dpdk-testpmd", "dpdk-dev")) {
        let _cores = cores();
        let run = measured(&plan(&example("testpmd.toml"), &["l2fwd"], "vhost"), 1);
        let dut = run.points[0].trials[0].result.dut.as_ref();
        assert!(dut.is_none_or(|dut| dut.received == 0), "it has no counters: {dut:?}");
    }
}

#[test]
fn commands_with_counters_are_read_in_the_namespace_of_the_ports() {
    if weir_testkit::needs!(Need::Root) {
        let _cores = cores();
        let run = measured(&plan(&example("bridge.toml"), &["l2fwd"], "veth"), 1);
        run.points.iter().for_each(check_counters);
    }
}

#[test]
fn a_program_that_speaks_json_lines_is_a_device_with_tables() {
    let _cores = cores();
    let run = measured(&plan(&example("nf.py"), &["l2fwd", "l3fwd:10", "firewall:10"], "vhost"), 3);
    for point in &run.points {
        check_counters(point);
        let dut = point.trials[0].result.dut.as_ref().unwrap();
        assert!(dut.cpu.0 > 0, "its threads are known: {dut:?}");
    }
}

/// A script in the lab's folder that may be run, as a device.
fn script(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.file(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("exec:{}", path.display())
}

/// What a run of `l2fwd` on this device says, and the exit code.
fn said(lab: &Lab, device: &str) -> (Option<i32>, String) {
    let plan = format!(
        "nf = \"l2fwd\"\ndut = {device:?}\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\nself_check = false\n[mrr]\ntrials = 1\nduration = \"50ms\"\n"
    );
    std::fs::write(lab.file("plan.toml"), plan).unwrap();
    let output = lab.bench().output().unwrap();
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()), "{}", told(&output));
    (output.status.code(), told(&output))
}

const TOML: &str = "wirings = [\"vhost\"]\nfunctions = [\"l2fwd\"]\n";

#[test]
fn a_mistake_in_a_description_is_told_before_anything_starts() {
    let lab = Lab::new("");
    for (text, says) in [
        ("start = \"dp {prot0}\"\nready = \"up\"\n", "`{prot0}` is no place"),
        ("start = \"dp\"\nraedy = \"up\"\n", "unknown field `raedy`"),
        ("start = \"dp\"\n", "missing field `ready`"),
    ] {
        let device = script(&lab, "mine.toml", &format!("{TOML}{text}"));
        let (code, said) = said(&lab, &device);
        assert!(code == Some(2) && said.contains(says), "{says}: {said}");
    }
    let output = weir().args(["bench", "--dut", "exec:/nowhere/dp", "--nf", "l2fwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("/nowhere/dp"), "{}", told(&output));
}

/// Dataplanes that do not come: nothing forwards, so the cores are not held, and it runs beside tests that measure.
mod absent {
    use super::*;

    const GOING: &str = "import re, socket, sys, time\n\
        end = socket.socket(socket.AF_UNIX)\n\
        end.bind(re.search('iface=([^,]+)', ' '.join(sys.argv))[1])\n\
        end.listen()\n\
        print('up', flush=True)\n\
        end.accept()[0].close()\n\
        time.sleep(0.3)\n\
        sys.exit(5)\n";

    #[test]
    fn a_dataplane_that_does_not_do_as_described_is_named_and_ended() {
        let lab = Lab::new("");
        let toml = |start: &str| format!("{TOML}start = {start}\nready = \"up\"\nready_seconds = 1\n");
        let lines = |answer: &str| {
            format!(
                "#!/bin/sh\nwhile read question; do case $question in *describe*)\n\
             echo '{{\"version\":\"1\",\"wirings\":[\"vhost\"],\"functions\":[\"l2fwd\"]}}';;\n*) {answer};; esac; done\n"
            )
        };
        let going = lab.file("going.py");
        std::fs::write(&going, GOING).unwrap();
        for (name, text, says) in [
            (
                "late.toml",
                toml("[\"sh\", \"-c\", \"echo busy; sleep 60\"]"),
                "did not print the text of `ready` within 1 s",
            ),
            ("dead.toml", toml("[\"sh\", \"-c\", \"echo no such port; exit 3\"]"), "no such port"),
            ("none.toml", toml("\"/nowhere/dataplane\""), "/nowhere/dataplane"),
            // It closes its socket under the lab, as one that is killed, and is gone later.
            ("going.toml", toml(&format!("\"python3 {} {{eal}}\"", going.display())), "exit status: 5"),
            (
                "nonsense",
                lines("echo '{\"threads\":7}'"),
                "answered `{\"threads\":7}` where its threads was expected",
            ),
            ("refuses", lines("echo '{\"error\":\"no license\"}'"), "no license"),
            ("dies", lines("exit 4"), "exit status: 4"),
        ] {
            let device = script(&lab, name, &text);
            let (code, said) = said(&lab, &device);
            assert!(code == Some(1) && said.contains(says), "{name}: {says}: {said}");
        }
    }
}
