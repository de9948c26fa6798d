//! SoftFlow's pipelines on devices that have OpenFlow tables, for real: every packet compared. A device that
//! is not there is skipped, and said to be.

use crate::lab::{Lab, cores, weir};
use weir_testkit::Need;
use weir_trial::run::{Point, Run};

/// A campaign over these axes: the untimed pass, then two short trials.
fn measured(axes: &str) -> Run {
    let _cores = cores();
    let method = "[mrr]\ntrials = 2\nduration = \"100ms\"\nload = \"20kpps\"\n";
    Lab::new(&format!("{axes}\nhuge_pages = false\nself_check = false\n{method}")).measure(0)
}

/// Every packet of the pass, and those of every trial's sample, were right.
fn all_right(run: &Run, points: usize) {
    assert_eq!(run.points.len(), points);
    for Point { key, error, packets, trials, .. } in &run.points {
        assert_eq!(*error, None, "{key:?}");
        let check = packets.as_ref().unwrap_or_else(|| panic!("{key:?} was not checked"));
        assert!(check.is_right() && check.compared > 500, "{key:?}: {check}");
        for trial in trials {
            let total = trial.result.total();
            assert!(total.received > 0 && total.foreign + total.damaged == 0, "{key:?}: {total:?}");
            let sample = trial.result.packets.as_ref();
            assert!(sample.is_none_or(|sample| sample.is_right()), "{key:?}: {sample:?}");
        }
    }
}

/// Whether Open vSwitch is installed.
fn has_open_vswitch() -> bool {
    let output = weir().args(["dut", "list", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = list["duts"].as_array().unwrap().iter().find(|row| row["name"] == "ovs-dpdk").unwrap();
    let cure = row["missing"].as_str().unwrap_or_default().to_owned();
    weir_testkit::needs!(Need::Found("Open vSwitch".to_owned(), row["version"].is_string(), cure))
}

#[test]
fn open_vswitch_tracks_connections_as_pipeline_a_says() {
    if has_open_vswitch() {
        let axes = "nf = \"pipeline-a\"\ndut = \"ovs-dpdk\"\ntrace = \"conversations:200\"\nsize = 64";
        all_right(&measured(axes), 1);
    }
}

#[test]
fn open_vswitch_switches_by_mac_address_and_without_services() {
    if has_open_vswitch() {
        let l2 = "nf = \"l2\"\ndut = \"ovs-dpdk\"\ntrace = \"l2flows:1000\"\nsize = 64";
        all_right(&measured(l2), 1);
        let d = "nf = \"pipeline-d:0\"\ndut = \"ovs-dpdk\"\ntrace = \"flows:200\"\nsize = 64";
        all_right(&measured(d), 1);
    }
}

#[test]
fn what_a_device_cannot_be_is_said_with_the_reason() {
    for (dut, why) in [("ovs-dpdk", "encrypts a payload"), ("nf", "no OpenFlow tables")] {
        let axes = format!("nf = \"pipeline-b\"\ndut = {dut:?}\ntrace = \"conversations:10\"\nsize = 64");
        let lab = Lab::new(&format!("{axes}\nself_check = false\n[mrr]\ntrials = 1\nduration = \"100ms\"\n"));
        let output = lab.bench().output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&text).contains(why), "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn the_switch_is_every_network_function_over_vhost() {
    let of = |rest: &str| measured(&format!("dut = \"weir\"\ntrace = \"flows:100\"\n{rest}"));
    let all = "nf = [\"l2fwd\", \"l3fwd:10\", \"firewall:10\", \"pipeline-d:0\", \"pipeline-d:4\"]";
    all_right(&of(&format!("{all}\nsize = 64")), 5);
    all_right(&of("nf = [\"l3fwd:10\", \"pipeline-d:4\"]\nsize = 512"), 2);
    let l2 = "nf = \"l2\"\ndut = \"weir\"\ntrace = \"l2flows:1000\"\nsize = 64";
    all_right(&measured(l2), 1);
}

#[test]
fn the_switch_is_pipelines_a_b_and_c_coalescing_or_not() {
    let of = |rest: &str| {
        let nfs = "nf = [\"pipeline-a\", \"pipeline-b\", \"pipeline-c\"]\ntrace = \"conversations:200\"";
        measured(&format!("{nfs}\n{rest}"))
    };
    all_right(&of("dut = [\"weir\", \"weir:nocoalesce\"]\nsize = 64"), 6);
    all_right(&of("dut = \"weir\"\nsize = 512"), 3);
}

#[test]
fn the_switch_feeds_itself() {
    let axes = "nf = [\"pipeline-a\", \"pipeline-b\"]\ndut = \"weir\"\ntrace = \"conversations:200\"\nsize = 64\n\
                wiring = \"fed\"";
    let run = measured(axes);
    for Point { key, error, packets, trials, .. } in &run.points {
        assert_eq!(*error, None, "{key:?}");
        assert!(packets.as_ref().is_some_and(|check| check.is_right()), "{key:?}: {packets:?}");
        let dut = trials[0].result.dut.as_ref().unwrap();
        assert!(dut.received > 0 && dut.sent > 0, "{key:?}: {dut:?}");
    }
}
