//! The wirings beyond `vhost` and `fed`, with every device that has them: packets come back both
//! ways, sums add up, and nothing is left behind (no process, no folder, no network namespace),
//! whichever side ends first. Speeds and losses are never asserted: machines that test are busy.
//!
//! What needs root, huge pages or a tool that is not there says so and is skipped.

use crate::lab::{Lab, Working, check_counters, check_sums, cores, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use weir_testkit::Need;
use weir_trial::run::{Purpose, Run, RunState};

/// A plan over one wiring: forwarded rate and latency, at loads that a busy machine carries.
fn plan(wiring: &str, axes: &str, end: &str) -> String {
    format!(
        "wiring = \"{wiring}\"\n{axes}\ntrace = \"flows:100\"\nself_check = false\n[mrr]\ntrials = 1\nduration = \"100ms\"\n\
         load = \"50kpps\"\n[latency]\nloads = [\"10kpps\"]\nduration = \"100ms\"\n{end}\n"
    )
}

/// The same with a latency trial long enough to be interrupted on any machine.
fn long_plan(wiring: &str, axes: &str, end: &str) -> String {
    plan(wiring, axes, end)
        .replace("[\"10kpps\"]\nduration = \"100ms\"", "[\"10kpps\"]\nduration = \"950ms\"")
}

/// Every point measured, packets back in every direction, sums right.
fn packets_came_back(run: &Run, points: usize) {
    assert_eq!((run.state, run.points.len()), (RunState::Finished, points));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        check_sums(point);
        for trial in &point.trials {
            assert_eq!(trial.result.directions.len(), 2);
            for counts in &trial.result.directions {
                assert!(counts.received > 0, "{:?} {:?} {counts:?}", point.key, point.dut_version);
            }
        }
        let latency = point.trials.iter().find(|trial| trial.purpose == Purpose::Latency).unwrap();
        let latency = latency.result.latency.as_ref().unwrap();
        assert!(latency.count > 0 && latency.min.0 > 0 && latency.percentiles.is_sorted(), "{latency:?}");
    }
}

/// The device counted at least what came back, and at most what the wire may have held for it.
fn the_device_agrees(run: &Run) {
    run.points.iter().for_each(check_counters);
}

fn nothing_left(lab: &Lab) {
    assert_eq!((lab.devices(), lab.leftovers()), (vec![], vec![]));
}

fn is_root() -> bool {
    weir_testkit::needs!(Need::Root, Need::Namespaces)
}

fn has(program: &'static str) -> bool {
    weir_testkit::needs!(Need::Program(program, if program == "nft" { "nftables" } else { "iproute2" }))
}

/// The lab's network namespaces: open files of its that are namespaces.
fn namespaces_of(process: u32) -> Vec<PathBuf> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("net:[")).collect()
}

/// Whether anybody on the machine is in a namespace or keeps it open.
fn is_held(namespace: &PathBuf) -> bool {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.into_iter().any(|process| {
        fs::read_link(format!("/proc/{process}/ns/net")).is_ok_and(|link| link == *namespace)
            || namespaces_of(process).contains(namespace)
    })
}

#[test]
fn packets_cross_shared_memory_whoever_listens() {
    let _cores = cores();
    for (server, size) in [("lab", 64), ("dut", 1500)] {
        let axes = format!("nf = \"l2fwd\"\ndut = [\"nf\", \"testpmd\"]\nsize = {size}\nhuge_pages = false");
        let lab = Lab::new(&plan("memif", &axes, &format!("[memif]\nserver = \"{server}\"")));
        let run = lab.measure(0);
        packets_came_back(&run, 2);
        the_device_agrees(&run);
        nothing_left(&lab);
    }
}

#[test]
fn shared_memory_carries_frames_larger_than_a_slot() {
    let _cores = cores();
    let lab = Lab::new(&plan("memif", "nf = \"l2fwd\"\nsize = 4000\nhuge_pages = false", ""));
    packets_came_back(&lab.measure(0), 1);
}

#[test]
fn shared_memory_does_as_well_with_huge_pages() {
    if !weir_testkit::needs!(Need::HugePages(400)) {
        return;
    }
    let _cores = cores();
    let axes = "nf = \"l3fwd:10\"\nsize = 64\nhuge_pages = true";
    for server in ["lab", "dut"] {
        let lab = Lab::new(&plan("memif", axes, &format!("[memif]\nserver = \"{server}\"")));
        packets_came_back(&lab.measure(0), 1);
        nothing_left(&lab);
    }
}

#[test]
fn a_device_that_dies_over_shared_memory_takes_only_its_point_along() {
    let _cores = cores();
    for server in ["lab", "dut"] {
        let axes = "nf = \"l2fwd\"\nsize = [64, 128]\nhuge_pages = false";
        let lab = Lab::new(&long_plan("memif", axes, &format!("[memif]\nserver = \"{server}\"")));
        let mut working = Working::start(&mut lab.bench());
        lab.mid_trial(&mut working, 0);
        kill(Pid::from_raw(lab.devices()[0]), Signal::SIGKILL).unwrap();
        let output = working.end();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let run = lab.stored().unwrap();
        assert!(run.points[0].error.as_ref().unwrap().contains("nf ended by itself"), "{run:?}");
        assert_eq!((run.state, &run.points[1].error), (RunState::Finished, &None));
        nothing_left(&lab);
    }
}

#[test]
fn packets_cross_veth_pairs_to_every_device() {
    if !is_root() || !has("ip") || !has("nft") {
        return;
    }
    let _cores = cores();
    let axes =
        "nf = \"l2fwd\"\ndut = [\"nf\", \"testpmd\", \"linux\"]\nsize = [64, 1500]\nhuge_pages = false";
    let lab = Lab::new(&plan("veth", axes, ""));
    let run = lab.measure(0);
    packets_came_back(&run, 6);
    the_device_agrees(&run);
    nothing_left(&lab);
}

#[test]
fn the_kernel_forwards_routes_and_filters() {
    if !is_root() || !has("ip") || !has("nft") {
        return;
    }
    let _cores = cores();
    let axes = "nf = [\"l2fwd\", \"l3fwd:1000\", \"firewall:100\"]\ndut = \"linux\"\nsize = \"imix\"\n\
                huge_pages = false";
    let lab = Lab::new(&plan("veth", axes, ""));
    let run = lab.measure(0);
    packets_came_back(&run, 3);
    the_device_agrees(&run);
    let versions = run.points.iter().map(|point| point.dut_version.clone().unwrap());
    for (version, word) in versions.zip(["bridge", "1000 routes", "100 rules"]) {
        assert!(version.starts_with("Linux ") && version.contains(word), "{version}");
    }
    nothing_left(&lab);
}

#[test]
fn the_labs_ends_can_be_af_xdp_for_more_packets_than_the_lab_has_buffers() {
    if !is_root() || !has("ip") || !has("nft") {
        return;
    }
    let _cores = cores();
    let axes = "nf = \"l2fwd\"\ndut = [\"nf\", \"linux\"]\nsize = 64\nhuge_pages = false";
    // It has 16,384: 120,000 packets are sent.
    let many = "[mrr]\ntrials = 2\nduration = \"300ms\"\nload = \"100kpps\"\n";
    let plan = plan("veth", axes, "[veth]\ndriver = \"af-xdp\"");
    let (start, latency) = (plan.find("[mrr]").unwrap(), plan.find("[latency]").unwrap());
    let lab = Lab::new(&format!("{}{many}{}", &plan[..start], &plan[latency..]));
    let run = lab.measure(0);
    packets_came_back(&run, 2);
    the_device_agrees(&run);
    nothing_left(&lab);
}

#[test]
fn frames_as_large_as_a_slot_cross_veth_pairs_and_larger_ones_are_refused() {
    if !is_root() || !has("ip") {
        return;
    }
    let _cores = cores();
    let lab = Lab::new(&plan("veth", "nf = \"l2fwd\"\nsize = [1980, 4000]\nhuge_pages = false", ""));
    let run = lab.measure(1);
    let error = run.points[1].error.as_ref().unwrap();
    assert!(error.contains("4000") && error.contains("1980 B at most"), "{error}");
    let mut fits = run;
    fits.points.truncate(1);
    packets_came_back(&fits, 1);
}

#[test]
fn a_killed_lab_leaves_no_namespace() {
    if !is_root() || !has("ip") || !has("nft") {
        return;
    }
    let _cores = cores();
    for dut in ["nf", "linux"] {
        let axes = format!("nf = \"l2fwd\"\ndut = \"{dut}\"\nsize = [64, 128]\nhuge_pages = false");
        let lab = Lab::new(&long_plan("veth", &axes, ""));
        let mut working = Working::start(&mut lab.bench());
        lab.mid_trial(&mut working, 0);
        let namespaces = namespaces_of(working.child().id());
        assert!(namespaces.len() >= 2, "the lab's and the device's: {namespaces:?}");
        assert!(namespaces.iter().all(is_held));
        working.signal(Signal::SIGKILL);
        working.end();
        wait_for("the end of the namespaces", || (!namespaces.iter().any(is_held)).then_some(()));
        packets_came_back(&lab.resume(0), 2);
        nothing_left(&lab);
    }
}

#[test]
fn without_the_right_to_make_namespaces_veth_says_what_it_needs() {
    if !is_root() {
        return;
    }
    let _cores = cores();
    let lab = Lab::new(&plan("veth", "nf = \"l2fwd\"\nsize = 64\nhuge_pages = false", ""));
    let bench = lab.bench();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]);
    command.arg(bench.get_program()).args(bench.get_args());
    command.env("TMPDIR", lab.temporary()).env("WEIR_LEASES", lab.file("leases"));
    command.current_dir(bench.get_current_dir().unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let error = lab.stored().unwrap().points[0].error.clone().unwrap();
    assert!(
        error.contains("network namespace") && error.contains("root") && error.contains("vhost"),
        "{error}"
    );
    nothing_left(&lab);
}

#[test]
fn a_box_that_nobody_starts_is_measured_and_described() {
    if !is_root() || !has("ip") {
        return;
    }
    let _cores = cores();
    // The box is a cable: a veth pair in a namespace of this test's own.
    let ports =
        ["left", "right"].map(|end| format!("\"net_af_packet{},iface={end}\"", u8::from(end == "right")));
    let end = format!("[nic]\nlab = [{}]\n[external]\ndescription = \"a cable\"", ports.join(", "));
    let lab =
        Lab::new(&plan("nic", "nf = \"l2fwd\"\ndut = \"external\"\nsize = 64\nhuge_pages = false", &end));
    let bench = lab.bench();
    let cable = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6\n\
                 ip link add left type veth peer name right && ip link set left up && ip link set right up && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", cable, "sh"]).arg(bench.get_program()).args(bench.get_args());
    command.env("TMPDIR", lab.temporary()).env("WEIR_LEASES", lab.file("leases"));
    command.current_dir(bench.get_current_dir().unwrap());
    let run = crate::lab::run_of(&mut command, 0);
    packets_came_back(&run, 1);
    assert_eq!(run.points[0].dut_version.as_deref(), Some("a cable"));
    assert!(run.points[0].trials.iter().all(|trial| trial.result.dut.is_none()), "it has no counters");
    nothing_left(&lab);
}

#[test]
fn a_port_that_is_no_device_of_this_machine_is_refused_before_anything_is_touched() {
    let end = "[nic]\nlab = [\"ffff:00:00.0\", \"ffff:00:01.0\"]";
    let axes = "nf = \"l2fwd\"\ndut = \"external\"\nsize = 64\nhuge_pages = false";
    let lab = Lab::new(&plan("nic", axes, end));
    let output = lab.bench().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let error = lab.stored().unwrap().points[0].error.clone().unwrap();
    assert!(error.contains("ffff:00:00.0") && error.contains("no PCI device"), "{error}");
}

#[test]
fn devices_say_which_wirings_they_have() {
    let output = weir().args(["dut", "list"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("nf ").contains("vhost, memif, veth, nic, fed"), "{text}");
    assert!(row("linux ").contains(" veth ") && row("external ").contains(" nic "), "{text}");
}
