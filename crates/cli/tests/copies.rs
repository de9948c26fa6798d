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
         huge_pages = false\nself_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"300ms\"\n"
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
