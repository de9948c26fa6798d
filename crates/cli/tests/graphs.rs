//! Graphs of devices: different dataplanes, joined by links of both kinds, with right packets, and faults told by the device.

use crate::chains::{is_whole, names};
use crate::lab::{Lab, cores, told, weir};
use std::path::{Path, PathBuf};
use weir_testkit::Need;
use weir_trial::Waterfall;
use weir_trial::run::Point;

/// A plan at a load that one core carries beside anything, of devices `NAME DUT [NF]` and links `A.0 B.1`.
fn lab(devices: &str, links: &str, method: &str) -> Lab {
    let device = |text: &str| {
        let mut words = text.split(' ');
        let (name, dut) = (words.next().unwrap(), words.next().unwrap());
        let nf = words.next().map_or_else(String::new, |nf| format!("nf = \"{nf}\"\n"));
        format!("[[device]]\nname = \"{name}\"\ndut = \"{dut}\"\n{nf}")
    };
    let link = |text: &str| {
        let (one, other) = text.split_once(' ').unwrap();
        format!("[[link]]\nbetween = [\"{one}\", \"{other}\"]\n")
    };
    let tables: String = devices.split(", ").map(device).chain(links.split(", ").map(link)).collect();
    Lab::new(&format!(
        "cores = \"shared\"\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = false\nself_check = false\n{method}\n{tables}"
    ))
}

/// A load that Open vSwitch, which never gives the core on, carries beside others that want it.
const FEW: &str = "[latency]\nloads = [\"5kpps\"]\nduration = \"200ms\"\n";
const THRICE: &str = "[latency]\nloads = [\"20kpps\", \"21kpps\", \"22kpps\"]\nduration = \"150ms\"\n";

/// Whether all packets of most trials came through every stage: of a machine that takes a core away some do not.
fn mostly(point: &Point, right: impl Fn(&Waterfall) -> bool) {
    let told: Vec<Waterfall> = point.trials.iter().filter_map(|trial| Waterfall::of(&trial.result)).collect();
    let well = told.iter().filter(|one| right(one)).count();
    assert!(2 * well > told.len(), "{}, {:?}: {well} of {told:#?}", point.key.device(), point.error);
}

#[test]
fn different_dataplanes_behind_two_hosts_and_in_a_row_forward_right_packets() {
    let _cores = cores();
    let (ovs, testpmd) =
        (Need::Program("ovs-vsctl", "openvswitch-switch-dpdk"), Need::Program("dpdk-testpmd", "dpdk-dev"));
    if !weir_testkit::needs!(ovs, testpmd) {
        return;
    }
    // Two hosts, one behind the other, and by memif in a row two functions on different dataplanes behind the second.
    let devices = "sw weir, ovs ovs-dpdk, fw nf firewall:10, r weir l3fwd:10, last testpmd l2fwd";
    let links = "tester.0 sw.0, sw.1 fw.0, fw.1 sw.2, sw.3 ovs.0, ovs.1 r.0, r.1 last.0, last.1 ovs.3, ovs.2 tester.1";
    let lab = lab(devices, links, FEW);
    let run = lab.measure(0);
    is_whole(&run);
    let point = &run.points[0];
    assert_eq!(point.key.device(), "nf|weir|testpmd in graph sw-fw-sw-ovs-r-last-ovs, one core");
    assert_eq!(
        names(point),
        [
            "sw: weir",
            "fw: nf firewall:10",
            "sw: weir",
            "ovs: ovs-dpdk",
            "r: weir l3fwd:10",
            "last: testpmd l2fwd",
            "ovs: ovs-dpdk"
        ]
    );
    let came = |stage: usize| point.trials.last().unwrap().result.stages[stage].received;
    assert!(
        (0..7).all(|stage| came(stage).iter().all(|packets| *packets > 100)),
        "{:?}",
        point.trials.last()
    );
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn two_pairs_of_ports_lead_through_devices_of_their_own_and_one_that_both_share() {
    let _cores = cores();
    let devices = "sw weir, a nf l3fwd:10, b weir l3fwd:10";
    let links = "tester.0 sw.0, sw.1 a.0, a.1 sw.2, sw.3 tester.1, tester.2 b.0, b.1 sw.4, sw.5 tester.3";
    let run = lab(devices, links, THRICE).measure(0);
    is_whole(&run);
    let point = &run.points[0];
    let bundles: Vec<(&str, u32)> =
        point.trials[0].result.stages.iter().map(|one| (one.name.as_str(), one.bundle)).collect();
    assert_eq!(
        bundles,
        [("sw: weir", 1), ("a: nf l3fwd:10", 1), ("sw: weir", 1), ("b: weir l3fwd:10", 2), ("sw: weir", 2)]
    );
    mostly(point, |told| {
        told.stages.iter().all(|stage| stage.dropped + stage.vanished == 0 && stage.received > 100)
    });
}

#[test]
fn a_fault_of_one_device_of_a_graph_is_named_by_stage_and_by_what_it_did_to_packets() {
    let _cores = cores();
    let links = "tester.0 sw.0, sw.1 fw.0, fw.1 r.0, r.1 sw.2, sw.3 tester.1";
    let run =
        lab("sw weir, fw faulty:drop:2e-3 l2fwd, r weir l2fwd", links, &format!("check = false\n{THRICE}"))
            .measure(0);
    mostly(&run.points[0], |told| told.limit.as_ref().is_some_and(|(name, _)| name == "fw: faulty l2fwd"));
    let run = lab("sw weir, fw nf firewall:10, r faulty:no-ttl l3fwd:10", links, FEW).measure(1);
    let error = run.points[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("wrong time to live"), "{error}");
}

#[test]
fn the_example_plan_is_right_and_says_what_it_measures() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/graph.toml");
    let output = weir().args(["plan", "check", "--points"]).arg(plan).output().unwrap();
    let told = told(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("points     2")
            && told.contains("in graph sw-fw-sw-r-last-sw and alone-alone_r-alone_last"),
        "{told}"
    );
}
