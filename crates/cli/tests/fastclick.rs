//! FastClick's adapter, end to end: a program in its place speaks its command line and its control socket.

use crate::lab::{Lab, check_counters, check_sums, cores, run_of, told};
use std::path::PathBuf;
use std::process::Command;
use weir_trial::run::RunState;

/// A lab whose FastClick is the stand-in.
fn bench(lab: &Lab) -> Command {
    let mut bench = lab.bench();
    bench.env("WEIR", env!("CARGO_BIN_EXE_weir"));
    bench.env("WEIR_FASTCLICK", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand_ins/click.py"));
    bench
}

#[test]
fn functions_are_started_counted_and_stopped_over_its_control_socket() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = [\"l2fwd\", \"l3fwd:10\", \"firewall:10\"]\ndut = \"fastclick\"\nsize = 128\ntrace = \"flows:100\"\n\
         huge_pages = false\nself_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n",
    );
    let run = run_of(&mut bench(&lab), 0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, 3));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        assert!(point.packets.as_ref().is_some_and(|packets| packets.compared > 0), "{:?}", point.packets);
        check_sums(point);
        check_counters(point);
        let version = point.dut_version.as_ref().unwrap();
        assert!(version.starts_with("FastClick stand-in; ") && version.contains("--dpdk -l"), "{version}");
    }
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn one_that_dies_in_mid_run_is_named_with_its_last_words_and_nothing_stays() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"fastclick\"\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\nself_check = false\n\
         [mrr]\ntrials = 20\nduration = \"300ms\"\nload = \"20kpps\"\n",
    );
    let output = bench(&lab).env("STAND_IN", "dies").output().unwrap();
    let error = lab.stored().unwrap().points[0].error.clone().unwrap_or_default();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(error.contains("exit status: 6") && error.contains("no more DPDK buffer"), "{error}");
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn one_that_is_not_there_says_how_to_name_it() {
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"fastclick\"\nsize = 64\ntrace = \"simple\"\nhuge_pages = false\n[mrr]\ntrials = 1\n",
    );
    let output = lab.bench().env("WEIR_FASTCLICK", "/nowhere/click").output().unwrap();
    let said = told(&output);
    assert!(said.contains("/nowhere/click") && said.contains("WEIR_FASTCLICK"), "{said}");
}
