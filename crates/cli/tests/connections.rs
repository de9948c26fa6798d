//! Connections a second and at a time: devices that track them are measured, packet by packet; all of it is stored, shown
//! and derived again; and what cannot be measured says why.

use crate::lab::{Lab, cores, told};
use std::process::Command;
use weir_testkit::Need;
use weir_trial::run::{ConnectionsResult, PointResult, Run};

/// One search, but for the switch, of whose rates there is a mean.
fn lab(axes: &str, more: &str) -> Lab {
    searched(1, axes, more)
}

fn searched(times: u32, axes: &str, more: &str) -> Lab {
    Lab::new(&format!(
        "{axes}\nsize = 64\nhuge_pages = \"auto\"\nself_check = false\n\
         [connections]\nsearches = {times}\nduration = \"100ms\"\nfirst = 2000\nwidth = \"50%\"\nheld = 3000\n{more}\n"
    ))
}

fn result(run: &Run) -> &ConnectionsResult {
    let point = &run.points[0];
    assert_eq!(point.error, None);
    let found = point.results.iter().find_map(|result| match result {
        PointResult::Connections(result) => Some(result),
        _ => None,
    });
    let result = found.unwrap_or_else(|| panic!("{:?}", point.results));
    for trial in &point.trials {
        let packets = trial.result.packets.as_ref();
        assert!(packets.is_none_or(weir_trial::PacketCheck::is_right), "{:?}", packets);
    }
    result
}

/// Measures, and holds what was stored, shown and drawn to it.
fn measured(lab: &Lab, page: &str, searches: u32) {
    let run = lab.measure(0);
    let result = result(&run);
    assert_eq!(result.rate.map(|rate| rate.count), Some(searches), "{result:?}");
    assert!(result.rate.is_some_and(|rate| rate.mean >= 1_000.0), "{result:?}");
    assert_eq!(result.held.as_ref().and_then(|held| held.passed), Some(3_000), "{result:?}");
    let last = *result.searches[0].trials.first().unwrap();
    let made = run.points[0].trial(last).unwrap().result.connections.clone().unwrap();
    assert!(made.setup.is_some_and(|setup| setup.count > 100), "each handshake is timed");
    let command = |word: &str| {
        let output =
            Command::new(lab.bare().get_program()).args([word, "--db"]).arg(lab.file("weir.db")).output();
        output.unwrap()
    };
    let output = command("verify");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8_lossy(&command("show").stdout).into_owned();
    assert!(text.contains("connections ") && text.contains("at a time"), "{text}");
    assert!(std::fs::read_to_string(lab.file("page.html")).unwrap().contains(page));
}

#[test]
fn the_switch_opens_and_holds_connections_and_every_packet_of_them_is_right() {
    let _cores = cores();
    let axes = "nf = \"pipeline-a:64\"\ndut = \"weir\"\ntrace = \"conversations:100:64\"";
    measured(&searched(2, axes, ""), "connections-pipeline-a-64", 2);
}

#[test]
fn an_encrypting_pipeline_opens_connections_too() {
    let _cores = cores();
    let axes = "nf = \"pipeline-b:64\"\ndut = \"weir\"\ntrace = \"conversations:100:64\"";
    measured(&lab(axes, "most = 16000"), "connections-pipeline-b-64", 1);
}

#[test]
fn open_vswitch_opens_and_holds_connections() {
    let installed = Command::new("ovs-vsctl").arg("--version").output().is_ok();
    let cure = "./x setup --peers".to_owned();
    if !weir_testkit::needs!(Need::Found("Open vSwitch".to_owned(), installed, cure)) {
        return;
    }
    let _cores = cores();
    let axes = "nf = \"pipeline-a:64\"\ndut = \"ovs-dpdk\"\ntrace = \"conversations:100:64\"";
    measured(&lab(axes, "most = 20000"), "connections-pipeline-a-64", 1);
}

#[test]
fn connections_that_a_failed_trial_left_unfinished_are_reset_in_the_device() {
    let _cores = cores();
    // A tenth of a second at more than any core here opens: trials fail, and leave connections in every state.
    let lab = Lab::new(
        "nf = \"pipeline-a:64\"\ndut = \"weir\"\ntrace = \"conversations:100:64\"\nsize = 64\nhuge_pages = \"auto\"\nself_check = false\n\
         [connections]\nsearches = 1\nduration = \"60ms\"\nfirst = 1000000\nmost = 1000000\nwidth = \"50%\"\nheld = 0\n",
    );
    let run = lab.measure(0);
    let made: Vec<_> =
        run.points[0].trials.iter().filter_map(|trial| trial.result.connections.as_ref()).collect();
    let left: Vec<_> = made.iter().filter(|one| one.broken > 0).collect();
    assert!(!left.is_empty(), "{made:?}");
    for one in left {
        assert_eq!(one.broken, one.begun - one.whole, "{one:?}");
        // Those whose SYN never came are unknown to a device that never saw it.
        let unknown = one.begun - one.opened;
        assert!(one.reset + unknown >= one.broken, "{one:?}");
    }
    for trial in &run.points[0].trials {
        assert!(trial.result.directions.iter().all(|one| one.foreign == 0 && one.damaged == 0), "{trial:?}");
    }
}

#[test]
fn what_has_no_connections_says_so_and_is_not_measured() {
    for (axes, why) in [
        ("nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"simple\"", "l2fwd tracks no connections"),
        (
            "nf = \"pipeline-c\"\ndut = \"weir\"\ntrace = \"conversations:100\"",
            "a backend of the device's choice",
        ),
        (
            "nf = \"pipeline-a\"\ndut = \"weir\"\ndirections = 1\ntrace = \"conversations:100\"",
            "it takes `directions = 2`",
        ),
    ] {
        let _cores = cores();
        let output = lab(axes, "").bench().output().unwrap();
        assert!(told(&output).contains(why), "{axes}: {}", told(&output));
    }
}

#[test]
fn a_plan_that_cannot_be_is_refused_where_it_says_so() {
    for (more, why) in
        [("most = 10", "`most` (10) is below `first` (2000)"), ("opened_at = \"0.1%\"", "write 1% to 100%")]
    {
        let axes = "nf = \"pipeline-a\"\ndut = \"weir\"\ntrace = \"conversations:100\"";
        let output = lab(axes, more).bench().output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains(why), "{}", told(&output));
    }
}

/// NAT on a device over its wiring: connections through it, and packets one way.
fn translated(dut: &str, wiring: &str, more: &str) {
    let axes = format!("nf = \"nat:4\"\ndut = \"{dut}\"\nwiring = \"{wiring}\"\ntrace = \"flows:100\"");
    measured(&lab(&axes, more), "connections-nat-4", 1);
    let one_way = Lab::new(&format!(
        "{axes}\nsize = 64\ndirections = 1\nhuge_pages = \"auto\"\nself_check = false\n\
         [mrr]\ntrials = 2\nduration = \"200ms\"\nload = \"20kpps\"\n"
    ));
    let run = one_way.measure(0);
    let point = &run.points[0];
    assert_eq!(point.error, None);
    assert!(
        point.packets.as_ref().is_some_and(|check| check.is_right() && check.compared > 100),
        "{:?}",
        point.packets
    );
    // The machine may keep the tester from sending; what it sends comes through.
    let total = |pick: fn(&weir_trial::DirectionCounts) -> u64| {
        point.trials.iter().map(|trial| pick(&trial.result.total())).sum::<u64>()
    };
    let (sent, received) = (total(|counts| counts.sent), total(|counts| counts.received));
    assert!(sent > 0 && received * 10 > sent * 9, "{received} of {sent} came through");
    if dut == "weir" {
        point.trials.iter().for_each(|trial| is_exact(&trial.result));
    }
}

/// Asserts that the switch lost nothing of a trial: all that was sent came in, and left but for what found the tester's own
/// queue full, which the machine may keep it from emptying; and all that left came back.
fn is_exact(result: &weir_trial::TrialResult) {
    let (total, dut) = (result.total(), result.dut.as_ref().unwrap());
    let full = dut.details.get("drops transmit-full").copied().unwrap_or(0);
    assert_eq!((dut.received, dut.sent), (total.sent, total.sent - full), "{dut:?}");
    assert_eq!(total.received, dut.sent, "{total:?}");
    assert_eq!([total.duplicated, total.foreign, total.damaged], [0; 3], "{total:?}");
}

#[test]
fn the_switch_translates_and_every_packet_of_a_connection_comes_back() {
    let _cores = cores();
    translated("weir", "vhost", "most = 16000");
}

#[test]
fn open_vswitch_translates() {
    let installed = Command::new("ovs-vsctl").arg("--version").output().is_ok();
    let cure = "./x setup --peers".to_owned();
    if !weir_testkit::needs!(Need::Found("Open vSwitch".to_owned(), installed, cure)) {
        return;
    }
    let _cores = cores();
    translated("ovs-dpdk", "vhost", "most = 10000");
}

#[test]
fn the_kernel_translates_and_its_time_in_interrupts_is_shown() {
    let (ip, nft) = (Need::Program("ip", "iproute2"), Need::Program("nft", "nftables"));
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, ip, nft) {
        return;
    }
    let _cores = cores();
    translated("linux", "veth", "most = 8000");
}

#[test]
fn packets_both_ways_through_nat_are_refused_and_devices_without_a_tracker_say_so() {
    let plan = |dut: &str| {
        Lab::new(&format!(
            "nf = \"nat:4\"\ndut = \"{dut}\"\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = \"auto\"\nself_check = false\n\
             [mrr]\ntrials = 2\nduration = \"100ms\"\n"
        ))
    };
    let _cores = cores();
    let output = plan("weir").bench().output().unwrap();
    assert!(told(&output).contains("write `directions = 1`, or measure [connections]"), "{}", told(&output));
    let output = plan("nf").bench().output().unwrap();
    assert!(told(&output).contains("tracks no connections"), "{}", told(&output));
}
