//! Copies of a chain side by side behind a host that splits packets: right packets, each copy's share, and who is told
//! that a host cannot.

use crate::lab::{Lab, cores, told, weir};
use std::path::Path;
use weir_testkit::Need;
use weir_trial::run::{Point, Run};
use weir_trial::{StageReading, Waterfall};

/// Flows of the trace: each has the same share of the packets, and is answered by another in the other direction.
const FLOWS: u64 = 20;

/// Measures two copies of a function at a load that one core carries beside anything.
fn measure(axes: &str) -> Run {
    let rest = format!(
        "dut = \"nf\"\ndeployment = \"vhost\"\ncopies = 2\ncores = \"shared\"\ntrace = \"flows:{FLOWS}\"\nsize = 64\n\
         huge_pages = false\nself_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n"
    );
    Lab::new(&format!("{axes}\n{rest}")).measure(0)
}

/// Asserts that packets were right, that every one that came back went through exactly one copy, and that the stages account
/// for all that was lost, to within what a host's counters are off.
fn is_whole(point: &Point, off: u64) {
    let who = format!("{} {}", point.key.nf, point.key.device());
    assert_eq!(point.error, None, "{who}");
    let check = point.packets.as_ref().unwrap_or_else(|| panic!("{who}: no packet was compared"));
    assert!(check.is_right() && check.compared > 20, "{who}: {check}");
    for trial in &point.trials {
        let waterfall = Waterfall::of(&trial.result).unwrap();
        let stages = &waterfall.stages;
        let told: u64 = stages.iter().map(|one| one.waited_in_vain + one.dropped + one.vanished).sum();
        let total = trial.result.total();
        let lost = total.sent + total.refused - total.received;
        assert!(told.abs_diff(lost) <= off, "{who}: {lost} packets were lost: {waterfall:?}");
        let shares: Vec<f64> = stages.iter().filter_map(|stage| stage.share).collect();
        assert!(shares.len() > 1 && shares.iter().all(|share| *share > 0.05), "{who}: {waterfall:?}");
        let timed = stages.iter().filter(|stage| stage.name != "tester").all(|one| one.time.is_some());
        assert!(timed, "{who}: {waterfall:?}");
    }
}

/// The first stage of each copy in the last trial.
fn copies(point: &Point) -> [&StageReading; 2] {
    let stages = &point.trials.last().unwrap().result.stages;
    [1, 2].map(|copy| stages.iter().find(|stage| stage.copy == copy).unwrap())
}

/// Asserts that both directions of each flow went through the same copy, and that flows went through both.
fn splits_by_flow(point: &Point, off: u64) {
    is_whole(point, off);
    for copy in copies(point) {
        let [there, back] = copy.received;
        assert!(there.abs_diff(back) <= FLOWS, "{copy:?}");
    }
}

#[test]
fn weir_splits_packets_in_turns_or_by_flow_and_copies_of_whole_chains_too() {
    let _cores = cores();
    let run = measure("nf = [\"l3fwd:10\", \"firewall:10+l2fwd\"]\nsplit = [\"round-robin\", \"flow\"]");
    let [turns, flow, chain_turns, chain_flow] = run.points.as_slice() else {
        panic!("{}", run.points.len())
    };
    assert_eq!(turns.key.device(), "nf in vhost on weir, 2 copies round robin, one core");
    assert_eq!(chain_flow.key.device(), "nf in vhost on weir, 2 copies by flow, one core");
    let names = |point: &Point| -> Vec<String> {
        point.trials[0].result.stages.iter().map(|stage| stage.name.clone()).collect()
    };
    assert_eq!(names(turns), ["weir", "nf 1 l3fwd:10, copy 1", "nf 1 l3fwd:10, copy 2", "weir"]);
    let copy = |number: u32| {
        ["nf 1 firewall:10", "weir", "nf 2 l2fwd"]
            .map(|name| if name == "weir" { name.to_owned() } else { format!("{name}, copy {number}") })
    };
    let whole = [vec!["weir".to_owned()], copy(1).into(), copy(2).into(), vec!["weir".to_owned()]].concat();
    assert_eq!(names(chain_turns), whole);
    for point in [turns, chain_turns] {
        is_whole(point, 0);
        let [one, other] = copies(point);
        for way in 0..2 {
            assert!(one.received[way].abs_diff(other.received[way]) <= 1, "{one:?} {other:?}");
        }
    }
    splits_by_flow(flow, 0);
    splits_by_flow(chain_flow, 0);
}

#[test]
fn open_vswitch_splits_packets_by_flow() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Program("ovs-vsctl", "openvswitch-switch-dpdk")) {
        return;
    }
    let run = measure("nf = \"l3fwd:10\"\nhost = \"ovs-dpdk\"\nsplit = \"flow\"");
    splits_by_flow(&run.points[0], 64);
}

/// Measures a chain whose functions have four virtual ports each.
fn with_ports(axes: &str) -> Run {
    let rest = format!(
        "deployment = \"vhost\"\nvnics = 4\ncores = \"shared\"\ntrace = \"flows:{FLOWS}\"\nsize = 64\n\
         huge_pages = false\nself_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n"
    );
    Lab::new(&format!("{axes}\n{rest}")).measure(0)
}

/// Asserts that packets were right, that each function is one process of one stage, and that the stages account for all that
/// was lost, to within what a host's counters are off.
fn is_one_process_each(point: &Point, names: &[&str], off: u64) {
    let who = format!("{} {}", point.key.nf, point.key.device());
    assert_eq!(point.error, None, "{who}");
    let check = point.packets.as_ref().unwrap_or_else(|| panic!("{who}: no packet was compared"));
    assert!(check.is_right() && check.compared > 20, "{who}: {check}");
    for trial in &point.trials {
        let told: Vec<&str> = trial.result.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(told, names, "{who}");
        let waterfall = Waterfall::of(&trial.result).unwrap();
        let rows = &waterfall.stages;
        let told: u64 = rows.iter().map(|one| one.waited_in_vain + one.dropped + one.vanished).sum();
        let total = trial.result.total();
        assert!(told.abs_diff(total.sent + total.refused - total.received) <= off, "{who}: {waterfall:?}");
    }
}

#[test]
fn a_function_with_several_pairs_of_virtual_ports_has_its_packets_split_among_them() {
    let _cores = cores();
    let run = with_ports(
        "nf = [\"l3fwd:10\", \"firewall:10+l2fwd\"]\nsplit = [\"round-robin\", \"flow\"]\ndut = \"nf\"",
    );
    let [one, one_flow, two, two_flow] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    assert_eq!(one.key.device(), "nf in vhost on weir, 4 vnics round robin, one core");
    assert_eq!(two_flow.key.device(), "nf in vhost on weir, 4 vnics by flow, one core");
    for point in [one, one_flow] {
        is_one_process_each(point, &["weir", "nf 1 l3fwd:10", "weir"], 0);
    }
    for point in [two, two_flow] {
        is_one_process_each(point, &["weir", "nf 1 firewall:10", "weir", "nf 2 l2fwd", "weir"], 0);
    }
    // Its command line has the four ports, and the host's groups name each of the pairs.
    let version = one.dut_version.as_deref().unwrap_or_default();
    let function = version.split(" | ").nth(1).unwrap_or_default();
    assert_eq!(function.matches("--port").count(), 4, "{function}");
}

#[test]
fn virtual_ports_go_with_copies_and_bundles_and_with_other_peoples_devices() {
    let _cores = cores();
    let run = with_ports("nf = \"l2fwd\"\ncopies = 2\nbundles = 2\nsplit = \"flow\"\ndut = \"nf\"");
    let row = |bundle: u32| {
        let copy = |copy| format!("nf 1 l2fwd, bundle {bundle}, copy {copy}");
        ["weir".to_owned(), copy(1), copy(2), "weir".to_owned()]
    };
    let names = [row(1), row(2)].concat();
    is_one_process_each(&run.points[0], &names.iter().map(String::as_str).collect::<Vec<_>>(), 0);
    if weir_testkit::needs!(
        Need::Program("ovs-vsctl", "openvswitch-switch-dpdk"),
        Need::Program("dpdk-testpmd", "dpdk-dev")
    ) {
        let run = with_ports("nf = \"l2fwd\"\nhost = \"ovs-dpdk\"\nsplit = \"flow\"\ndut = \"testpmd\"");
        is_one_process_each(&run.points[0], &["ovs-dpdk", "testpmd 1 l2fwd", "ovs-dpdk"], 64);
    }
}

#[test]
fn a_plan_with_points_that_one_host_cannot_do_is_checked_and_says_which() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/copies.toml");
    let output = weir().args(["plan", "check"]).arg(plan).output().unwrap();
    let told = told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("refused    1 of 10 points: nf in vhost on ovs-dpdk, 2 copies round robin, one core"),
        "{told}"
    );
    assert!(
        told.contains("ovs-dpdk chooses by a hash of the flow and cannot split packets round robin"),
        "{told}"
    );
}
