//! Several queues a port: right packets by all of them, no packet counted twice or out of its flow's order, and who is told that
//! a trace has too few flows.

use crate::lab::{Lab, cores, told, weir};
use std::path::Path;
use weir_testkit::Need;
use weir_trial::run::{Point, Run};

/// Measures at a load that one core carries beside anything, all queues served by one thread.
fn lab(axes: &str) -> Lab {
    let rest = "cores = \"shared\"\nsize = 64\nhuge_pages = false\nself_check = false\n\
                [latency]\nloads = [\"40kpps\"]\nduration = \"80ms\"\n";
    Lab::new(&format!("{axes}\n{rest}"))
}

/// Asserts that packets were right, and that each is accounted for: sent once, back once or lost, none out of its flow's
/// order.
fn is_exact(point: &Point) {
    // Open vSwitch forwards a burst flow by flow, so that packets of different flows overtake one another.
    let keeps_order = !point.key.dut.starts_with("ovs");
    let who = point.key.device();
    assert_eq!(point.error, None, "{who}");
    let check = point.packets.as_ref().unwrap_or_else(|| panic!("{who}: no packet was compared"));
    assert!(check.is_right() && check.compared > 20, "{who}: {check}");
    assert!(!point.trials.is_empty(), "{who}");
    for trial in &point.trials {
        for one in &trial.result.directions {
            assert_eq!(one.intended, one.sent + one.refused + one.unsent, "{who}: {one:?}");
            assert!(one.received > 100 && one.received <= one.sent, "{who}: {one:?}");
            assert_eq!([one.duplicated, one.foreign], [0; 2], "{who}: {one:?}");
            assert!(!keeps_order || one.reordered == 0, "{who}: {one:?}");
        }
        // The device counts by itself, on all its queues: what it sent came back, if not later than the trial.
        let dut = trial.result.dut.as_ref().unwrap();
        let total = trial.result.total();
        assert!(dut.received >= total.received && dut.received <= total.sent, "{who}: {dut:?} {total:?}");
    }
}

/// What the record says of queues.
fn queues(point: &Point) -> &str {
    point.configuration.get("queues").map_or("", String::as_str)
}

fn measured(axes: &str) -> Run {
    let run = lab(axes).measure(0);
    run.points.iter().for_each(is_exact);
    run
}

#[test]
fn flows_are_spread_over_the_queues_of_each_port_and_every_packet_is_accounted_for() {
    let _cores = cores();
    let run = measured("nf = \"l3fwd:10\"\ndut = [\"nf\", \"weir\"]\nqueues = [1, 4]\ntrace = \"flows:100\"");
    let names: Vec<String> = run.points.iter().map(|point| point.key.device()).collect();
    assert_eq!(names, ["nf", "nf (4 queues) on one core", "weir", "weir (4 queues) on one core"]);
    for point in &run.points {
        match point.key.placement.queues {
            1 => assert_eq!(queues(point), ""),
            _ => assert_eq!(
                queues(point),
                "4 a port, served by 1 thread(s); packets of a lap by queue, direction by direction: \
                 25 and 25 and 25 and 25; 25 and 25 and 25 and 25"
            ),
        }
    }
}

#[test]
fn several_queues_are_served_over_memif_and_from_the_side_of_the_host() {
    let _cores = cores();
    measured("nf = \"firewall:10\"\ndut = \"nf\"\nwiring = \"memif\"\nqueues = 2\ntrace = \"flows:100\"");
    let host = "[vhost]\nlab = \"vhost\"\n";
    let axes = "nf = \"l2fwd\"\ndut = \"weir\"\nqueues = 2\ntrace = \"flows:100\"\ncores = \"shared\"\nsize = 64\n\
                huge_pages = false\nself_check = false\n[latency]\nloads = [\"40kpps\"]\nduration = \"80ms\"\n";
    let run = Lab::new(&format!("{axes}{host}")).measure(0);
    run.points.iter().for_each(is_exact);
}

#[test]
fn other_peoples_dataplanes_serve_several_queues() {
    let _cores = cores();
    if weir_testkit::needs!(Need::Program("dpdk-testpmd", "dpdk-dev")) {
        measured("nf = \"l2fwd\"\ndut = \"testpmd\"\nqueues = 2\ntrace = \"flows:100\"");
    }
    if weir_testkit::needs!(Need::Program("ovs-vsctl", "openvswitch-switch-dpdk")) {
        measured("nf = \"l2fwd\"\ndut = \"ovs-dpdk\"\nqueues = 2\ntrace = \"flows:100\"");
    }
}

#[test]
fn functions_of_a_chain_have_several_queues_behind_hosts_and_in_a_row() {
    let _cores = cores();
    let chain = "nf = \"firewall:10+l2fwd\"\nqueues = 2\ntrace = \"flows:100\"";
    let run =
        measured(&format!("{chain}\ndut = \"nf\"\ndeployment = [\"vhost\", \"vale\"]\nhost = \"weir\""));
    for point in &run.points {
        assert!(queues(point).contains("50 and 50"), "{}", queues(point));
        let stages = &point.trials.last().unwrap().result.stages;
        assert!(stages.iter().all(|stage| stage.received.iter().all(|packets| *packets > 100)), "{stages:?}");
    }
    let (ovs, testpmd) =
        (Need::Program("ovs-vsctl", "openvswitch-switch-dpdk"), Need::Program("dpdk-testpmd", "dpdk-dev"));
    if weir_testkit::needs!(ovs, testpmd) {
        let run = measured(
            "nf = \"l2fwd\"\nqueues = 2\ntrace = \"flows:100\"\ndut = \"testpmd\"\ndeployment = \"vhost\"\nhost = \"ovs-dpdk\"",
        );
        assert_eq!(run.points[0].key.device(), "testpmd in vhost on ovs-dpdk, 2 queues, one core");
    }
}

#[test]
fn connections_go_by_all_queues_both_ways() {
    let _cores = cores();
    let run = Lab::new(
        "nf = \"pipeline-a\"\ndut = \"weir\"\nqueues = 2\ncores = \"shared\"\ntrace = \"conversations:100\"\nsize = 64\n\
         huge_pages = false\nself_check = false\n[connections]\nsearches = 1\nduration = \"200ms\"\nfirst = 2000\nmost = 4000\n\
         width = \"20%\"\nheld = 1000\n",
    )
    .measure(0);
    let point = &run.points[0];
    assert_eq!(point.error, None);
    let made: Vec<_> = point.trials.iter().filter_map(|trial| trial.result.connections.as_ref()).collect();
    assert!(made.iter().any(|one| one.passed() && one.asked.held), "{made:?}");
    assert!(made.iter().any(|one| one.passed() && !one.asked.held), "{made:?}");
    for trial in &point.trials {
        assert!(trial.result.directions.iter().all(|one| one.foreign == 0 && one.received > 0), "{trial:?}");
    }
}

#[test]
fn a_trace_of_fewer_flows_than_queues_is_named_with_what_to_do() {
    let _cores = cores();
    let run = lab("nf = \"l2fwd\"\ndut = \"nf\"\nqueues = 4\ntrace = \"flows:3\"").measure(1);
    let error = run.points[0].error.as_deref().unwrap_or_default();
    assert!(
        error.contains("flows:3 has 3 flow(s) in a direction") && error.contains("fewer `queues`"),
        "{error}"
    );
}

#[test]
fn the_example_plan_is_right_and_says_what_it_measures() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/queues.toml");
    let output = weir().args(["plan", "check"]).arg(plan).output().unwrap();
    let told = told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("points     12"), "{told}");
}
