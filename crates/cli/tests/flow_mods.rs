//! Changes of flow entries a second under a load: both devices with OpenFlow tables take them, packets say whether the
//! last one was in force, and all of it is stored, shown and derived again.

use crate::lab::{Lab, cores, told};
use std::process::Command;
use weir_testkit::Need;
use weir_trial::changes::EntryCheck;
use weir_trial::run::{FlowModsResult, PointResult, Run};

fn lab(dut: &str, more: &str) -> Lab {
    Lab::new(&format!(
        "nf = \"l3fwd:10\"\ndut = \"{dut}\"\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = false\nself_check = false\n\
         [flow_mods]\npairs = 2\nduration = \"800ms\"\n{more}\n"
    ))
}

fn result(run: &Run) -> (&FlowModsResult, Vec<EntryCheck>) {
    let point = &run.points[0];
    assert_eq!(point.error, None);
    let found = point.results.iter().find_map(|result| match result {
        PointResult::FlowMods(result) => Some(result),
        _ => None,
    });
    let result = found.unwrap_or_else(|| panic!("{:?}", point.results));
    let with = result.pairs.iter().map(|pair| point.trial(pair.with).unwrap());
    let made = with.map(|trial| trial.result.changes.as_ref().unwrap());
    (result, made.flat_map(|made| made.checks.clone()).collect())
}

fn verified(lab: &Lab) {
    let output =
        Command::new(lab.bare().get_program()).args(["verify", "--db"]).arg(lab.file("weir.db")).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn the_switch_takes_changes_under_load_and_its_barriers_are_true() {
    let _cores = cores();
    let lab = lab(
        "weir",
        "load = \"20% mrr\"\nbatch = 10\n[mrr]\ntrials = 2\nduration = \"200ms\"\nload = \"100kpps\"",
    );
    let run = lab.measure(0);
    let (result, checks) = result(&run);
    assert_eq!((result.pairs.len(), result.batch, result.label.as_str()), (2, 10, "20% mrr"));
    assert!(result.rate.is_some_and(|rate| rate.mean > 100.0), "{result:?}");
    assert!(checks.len() >= 6 && result.checked > 0, "{checks:?}");
    assert_eq!((result.late, result.never), (0, 0), "a barrier of Weir's is true: {checks:?}");
    // What is beside the schedule is no packet of the trial.
    let strange = run.points[0].trials.iter().map(|trial| trial.result.total());
    assert!(strange.clone().all(|total| (total.foreign, total.damaged, total.late) == (0, 0, 0)));
    verified(&lab);
    let output =
        Command::new(lab.bare().get_program()).args(["show", "--db"]).arg(lab.file("weir.db")).output();
    let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    assert!(text.contains("flow mods") && text.contains("in force when confirmed"), "{text}");
    assert!(std::fs::read_to_string(lab.file("page.html")).unwrap().contains("flow-mods-l3fwd-10"));
}

#[test]
fn open_vswitch_takes_changes_and_the_last_one_is_in_force_in_the_end() {
    let installed = Command::new("ovs-vsctl").arg("--version").output().is_ok();
    let cure = "./x setup --peers".to_owned();
    if !weir_testkit::needs!(Need::Found("Open vSwitch".to_owned(), installed, cure)) {
        return;
    }
    let _cores = cores();
    let lab = lab("ovs-dpdk", "load = \"20kpps\"");
    let run = lab.measure(0);
    let (result, checks) = result(&run);
    assert!(result.rate.is_some_and(|rate| rate.mean > 100.0), "{result:?}");
    assert!(result.checked > 0 && checks.iter().any(|check| check.in_force), "{checks:?}");
    verified(&lab);
}

#[test]
fn a_device_without_flow_entries_says_so_and_is_not_measured() {
    let lab = lab("simulated", "load = \"20kpps\"");
    let output = lab.bench().output().unwrap();
    assert!(
        told(&output).contains("simulated has no flow entries that a controller could change"),
        "{}",
        told(&output)
    );
}

#[test]
fn a_share_of_a_forwarded_rate_that_is_not_measured_is_refused() {
    let output = lab("weir", "load = \"50% mrr\"").bench().output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("add a table [mrr]"), "{}", told(&output));
}
