//! Other people's dataplanes, for real: each is started by `weir bench` and measured over the wirings it
//! has. What is not installed is skipped, and said to be (`./x setup --peers` installs all).
//! Speeds are never asserted: only sums, states and messages.

use crate::lab::{Lab, Working, check_counters, check_sums, cores, weir};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use weir_testkit::Need;
use weir_trial::run::{Point, Run, RunState};
use weir_trial::{FIRST_FREE_PORT, Nf};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureWriter, Format};
use weir_wire::table::{Ports, Rule};

/// What of `weir dut list --json` these tests look at.
fn listed() -> Vec<(String, Option<String>, Option<String>)> {
    let output = weir().args(["dut", "list", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().map(str::to_owned);
    let rows = document["duts"].as_array().unwrap();
    rows.iter().map(|row| (text(row, "name").unwrap(), text(row, "version"), text(row, "missing"))).collect()
}

/// Whether a device is installed.
fn installed(dut: &str) -> bool {
    let (_, version, missing) = listed().into_iter().find(|(name, ..)| name == dut).unwrap();
    let cure = missing.unwrap_or_default();
    weir_testkit::needs!(Need::Found(dut.to_owned(), version.is_some(), cure))
}

fn over_vhost(dut: &str, nfs: &[&str], trace: &str, sides: &str) -> Run {
    let _cores = cores();
    let lab = Lab::new(&format!(
        "nf = {nfs:?}\ndut = {dut:?}\nsize = 128\ndirections = 2\ntrace = {trace:?}\nhuge_pages = false\nself_check = false\n\
         [latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n{sides}"
    ));
    let run = lab.measure(0);
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
    run
}

/// Many flows, and a single one.
const FLOWS: &str = "flows:100";
const FLOW: &str = "simple";

/// Packets came back both ways, none from nowhere nor twice, and the device's own counters agree.
fn packets_crossed(run: &Run, points: usize) {
    assert_eq!((run.state, run.points.len()), (RunState::Finished, points));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        // Open vSwitch forwards a burst flow by flow: only those of one flow stay in order.
        if !point.key.dut.starts_with("ovs") || point.key.trace == FLOW {
            check_sums(point);
        }
        for trial in &point.trials {
            let dut = trial.result.dut.as_ref().unwrap();
            let total = trial.result.total();
            assert!(trial.result.directions.iter().all(|counts| counts.received > 0), "{total:?}");
            assert!(total.received <= total.sent && total.foreign + total.duplicated == 0, "{total:?}");
            assert!(dut.cpu.0 > 0, "{dut:?}");
        }
        check_counters(point);
    }
}

fn fed(dut: &str, nfs: &[&str]) {
    let _cores = cores();
    let lab = Lab::new(&format!(
        "nf = {nfs:?}\ndut = {dut:?}\nsize = 64\ndirections = 2\ntrace = \"flows:100\"\nwiring = \"fed\"\n\
         huge_pages = false\n[mrr]\ntrials = 1\nduration = \"80ms\"\n"
    ));
    let run = lab.measure(0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, nfs.len()));
    for Point { key, error, trials, .. } in &run.points {
        assert_eq!(*error, None, "{key:?}");
        let dut = trials[0].result.dut.as_ref().unwrap();
        assert!(dut.received > 0 && dut.sent > 0 && dut.cycles_per_packet.unwrap() > 0.0, "{key:?} {dut:?}");
    }
}

const ALL: [&str; 3] = ["l2fwd", "l3fwd:10", "firewall:10"];

#[test]
fn open_vswitch_is_every_network_function_over_vhost() {
    if installed("ovs-dpdk") {
        packets_crossed(&over_vhost("ovs-dpdk", &ALL, FLOWS, ""), ALL.len());
    }
}

#[test]
fn open_vswitch_has_the_back_end_or_the_front_end_whoever_makes_the_sockets() {
    if installed("ovs-dpdk") {
        for (lab, server) in [("virtio", "lab"), ("vhost", "lab"), ("vhost", "dut")] {
            let sides = format!("[vhost]\nlab = {lab:?}\nserver = {server:?}\n");
            packets_crossed(&over_vhost("ovs-dpdk", &["l3fwd:10"], FLOW, &sides), 1);
        }
    }
}

#[test]
fn open_vswitch_without_dpdk_is_every_network_function_over_interfaces() {
    if installed("ovs") && weir_testkit::needs!(Need::Root, Need::Namespaces) {
        let _cores = cores();
        let lab = Lab::new(&format!(
            "nf = {ALL:?}\ndut = \"ovs\"\nsize = 128\ntrace = {FLOWS:?}\nwiring = \"veth\"\nhuge_pages = false\n\
             self_check = false\n[latency]\nloads = [\"10kpps\"]\nduration = \"80ms\"\n"
        ));
        let run = lab.measure(0);
        packets_crossed(&run, ALL.len());
        assert!(run.points[0].dut_version.as_ref().unwrap().contains("userspace datapath"));
        assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
    }
}

#[test]
fn open_vswitch_feeds_itself() {
    if installed("ovs-dpdk") {
        fed("ovs-dpdk", &["firewall:10"]);
    }
}

/// A frame that a rule is about, to another destination port if one is given.
fn frame(rule: &Rule, port: Option<u16>) -> Vec<u8> {
    let first = |ports| match ports {
        Ports::Any => 0,
        Ports::Range { first, .. } => first,
    };
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 2, 0, 8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, rule.protocol.unwrap(), 0, 0]);
    frame[26..30].copy_from_slice(&rule.source.address().octets());
    frame[30..34].copy_from_slice(&rule.destination.address().octets());
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..36].copy_from_slice(&first(rule.source_ports).to_be_bytes());
    frame[36..38].copy_from_slice(&port.unwrap_or(first(rule.destination_ports)).to_be_bytes());
    // UDP's length, or TCP's length of header: Open vSwitch reads no ports where it is wrong.
    frame[38..40].copy_from_slice(&26_u16.to_be_bytes());
    frame[46] = 0x50;
    frame
}

/// The share of these frames that a device forwards when it feeds itself with them. Which packets come out is what the
/// audits of other tests look at.
fn forwarded(dut: &str, nf: &str, frames: &[Vec<u8>]) -> f64 {
    let lab = Lab::new(&format!(
        "nf = {nf:?}\nsize = \"recorded\"\ndut = {dut:?}\ntrace = \"frames.pcap\"\nwiring = \"fed\"\n\
         huge_pages = false\ncheck = false\n[mrr]\ntrials = 2\nduration = \"200ms\"\n",
    ));
    let mut bytes = Vec::new();
    let mut capture = CaptureWriter::new(&mut bytes, Format::Pcap).unwrap();
    frames.iter().for_each(|frame| capture.write(Nanos(0), frame).unwrap());
    capture.finish().unwrap();
    std::fs::write(lab.file("frames.pcap"), bytes).unwrap();
    let run = lab.measure(0);
    // The first trial may still find caches empty.
    let reading = run.points[0].trials.last().unwrap().result.dut.as_ref().unwrap();
    reading.sent as f64 / reading.received as f64
}

/// Half of this traffic is denied, each packet by another rule; the other half differs from it only in
/// its destination port, which no rule names.
#[test]
fn every_firewall_denies_what_its_rules_deny_and_nothing_else() {
    let _cores = cores();
    let rules = Nf::Firewall { rules: 65 }.rules();
    let both = |rule| [frame(rule, None), frame(rule, Some(FIRST_FREE_PORT))];
    let frames: Vec<Vec<u8>> = rules[..64].iter().flat_map(both).collect();
    for dut in ["nf", "ovs-dpdk", "ip_pipeline"].into_iter().filter(|dut| installed(dut)) {
        let passed = forwarded(dut, "firewall:65", &frames);
        assert!((0.49..0.51).contains(&passed), "{dut}: {passed} of the packets passed");
    }
}

/// One packet in four has no route; one leads back where it came from. The example router, which sends
/// back what has no route, is not asked.
#[test]
fn every_router_follows_its_routes_back_too_and_drops_what_has_none() {
    let _cores = cores();
    let to = |destination: &str| {
        let rule = format!("deny udp 198.18.0.1 2000 {destination} 3000");
        frame(&rule.parse().unwrap(), None)
    };
    let frames = ["198.18.200.1", "198.19.0.1", "198.19.200.1", "203.0.113.1"].map(to);
    for dut in ["nf", "ovs-dpdk", "ip_pipeline"].into_iter().filter(|dut| installed(dut)) {
        let passed = forwarded(dut, "l3fwd:10", &frames);
        assert!((0.74..0.76).contains(&passed), "{dut}: {passed} of the packets passed");
    }
}

#[test]
fn open_vswitch_goes_with_a_lab_that_is_killed() {
    if !installed("ovs-dpdk") {
        return;
    }
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"ovs-dpdk\"\nsize = 64\ntrace = \"flows:100\"\nwiring = \"fed\"\n\
         huge_pages = false\ncheck = false\n[mrr]\ntrials = 50\nduration = \"500ms\"\n",
    );
    let mut working = Working::start(&mut lab.bench());
    lab.mid_trial(&mut working, 0);
    assert!(lab.devices().len() >= 2, "database and daemon");
    working.signal(Signal::SIGKILL);
    drop(working.end());
    crate::lab::wait_for("the end of both daemons", || lab.devices().is_empty().then_some(()));
}

#[test]
fn the_example_forwarder_leaves_packets_alone_over_sockets_and_shared_memory_and_feeds_itself() {
    if installed("l2fwd") {
        packets_crossed(&over_vhost("l2fwd", &["l2fwd"], FLOWS, ""), 1);
        packets_crossed(&over_vhost("l2fwd", &["l2fwd"], FLOWS, "[vhost]\nlab = \"vhost\"\n"), 1);
        let held = cores();
        let lab = Lab::new(
            "nf = \"l2fwd\"\ndut = \"l2fwd\"\nsize = 128\ntrace = \"flows:100\"\nwiring = \"memif\"\nhuge_pages = false\n\
             self_check = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n",
        );
        packets_crossed(&lab.measure(0), 1);
        drop(held);
        fed("l2fwd", &["l2fwd"]);
    }
}

#[test]
fn the_example_router_routes_over_vhost_on_either_side_and_feeds_itself() {
    if installed("l3fwd") {
        packets_crossed(&over_vhost("l3fwd", &["l3fwd:10", "l3fwd:700"], FLOWS, ""), 2);
        packets_crossed(&over_vhost("l3fwd", &["l3fwd:10"], FLOWS, "[vhost]\nlab = \"vhost\"\n"), 1);
        fed("l3fwd", &["l3fwd:10"]);
    }
}

#[test]
fn the_example_pipeline_is_every_network_function_over_vhost_and_feeds_itself() {
    if installed("ip_pipeline") {
        packets_crossed(&over_vhost("ip_pipeline", &ALL, FLOWS, ""), ALL.len());
        packets_crossed(
            &over_vhost("ip_pipeline", &["firewall:1000"], FLOWS, "[vhost]\nlab = \"vhost\"\n"),
            1,
        );
        fed("ip_pipeline", &["firewall:10"]);
    }
}

#[test]
fn a_device_that_is_not_installed_says_what_installs_it() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        weir().args(["dut", "list", "--json"]).env("XDG_CACHE_HOME", folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for program in ["l2fwd", "l3fwd", "ip_pipeline"] {
        assert!(text.contains(&format!("weir/peers/{program}`, which is not built")), "{text}");
    }
    assert!(text.contains("./x setup --peers"), "{text}");
    let lab = Lab::new(
        "nf = \"l3fwd:10\"\ndut = \"l3fwd\"\nsize = 64\ntrace = \"flows:100\"\nwiring = \"fed\"\nhuge_pages = false\n[mrr]\ntrials = 1\n",
    );
    let run = crate::lab::run_of(lab.bench().env("XDG_CACHE_HOME", folder.path()), 1);
    assert!(run.points[0].error.as_ref().unwrap().contains("./x setup --peers"), "{run:?}");
}
