//! `weir perf`, as people use it: that it measures, judges, keeps and prints; not that anything is fast.

use crate::lab::{Lab, cores, told, weir};
use serde_json::Value;
use std::process::Command;

/// `weir perf`, tiny and without huge pages, into the lab's database.
fn perf(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = weir();
    command.arg("perf").args(arguments).env("TMPDIR", lab.temporary()).arg("--db").arg(lab.file("weir.db"));
    command
}

const TINY: [&str; 4] = ["--duration", "20ms", "--huge-pages", "false"];

fn valid(printed: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(printed).unwrap();
    let path = format!("{}/../../schemas/perf.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(&document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    document
}

/// Both sides have all their trials, two of each repeat, and are ranked unless the machine was too busy for any of them.
fn whole(pair: &Value, remarks: &Value, repeats: u64) {
    let trials = |side: &Value| side["count"].as_u64().unwrap() + side["left_out"].as_u64().unwrap();
    let sides = [&pair["weir"], &pair["other"]];
    assert!(sides.iter().all(|side| side["median"].as_f64().unwrap() > 0.0), "{pair:#}");
    assert_eq!(sides.map(trials), [2 * repeats; 2], "{pair:#}");
    let ranked = pair["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0);
    let busy = sides.iter().any(|side| side["count"] == 0) && remarks.to_string().contains("left out");
    assert!(ranked != busy, "{pair:#} {remarks}");
}

#[test]
fn a_row_is_measured_beside_its_peers_kept_and_printed_again() {
    let _cores = cores();
    let lab = Lab::new("");
    let only = ["--only", "port", "--peers", "testpmd", "--name", "mine", "--json", "--repeats", "2"];
    let arguments = [&only, TINY.as_slice()].concat();
    let output = perf(&lab, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let table = valid(&output.stdout);
    let [port] = table["rows"].as_array().unwrap().as_slice() else { panic!("{table:#}") };
    let pair =
        port["pairs"].as_array().unwrap().iter().find(|pair| pair["other"]["name"] == "testpmd").unwrap();
    whole(pair, &port["remarks"], 2);
    assert_eq!(port["pairs"].as_array().unwrap().len(), 1, "only this peer was asked for: {port:#}");
    let undecided = "not decided: ovs-dpdk and ovs-dpdk:tuned has no ratio here";
    assert!(port["remarks"].to_string().contains(undecided), "{port:#}");
    let steps = port["profile"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["step"] == "receive"), "{port:#}");

    let again = perf(&lab, &["--stored", "mine", "--markdown"]).output().unwrap();
    let text = String::from_utf8(again.stdout).unwrap();
    for part in [
        "| port | port forward",
        "1.8 times the better of ovs-dpdk and ovs-dpdk:tuned",
        "receive ",
        "`cpu.model`",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let taken = perf(&lab, &arguments).output().unwrap();
    assert_eq!(taken.status.code(), Some(2), "a table is never overwritten");
}

#[test]
fn open_vswitch_is_tuned_by_a_search_over_its_knobs_before_it_is_measured() {
    let _cores = cores();
    let lab = Lab::new(
        "nf = \"l2fwd\"\ndut = \"ovs-dpdk:tuned=smc\"\ntrace = \"flows:100\"\nsize = 64\nwiring = \"fed\"\nhuge_pages = false\n\
         check = false\n[mrr]\ntrials = 1\nduration = \"50ms\"\n",
    );
    let run = lab.measure(0);
    let version = run.points[0].dut_version.clone().unwrap();
    let searched = |end: &str| version.contains(&format!("tuned by a search to {end}"));
    assert!(searched("the default (Mpps: ") || searched("smc (Mpps: "), "{version}");
    assert!(version.contains("default ") && version.contains(", smc "), "both were tried: {version}");
}

#[test]
fn another_build_takes_the_place_of_the_peers() {
    let _cores = cores();
    let lab = Lab::new("");
    let itself = env!("CARGO_BIN_EXE_weir");
    let arguments =
        [&["--only", "mac", "--against", itself, "--json", "--repeats", "1"], TINY.as_slice()].concat();
    let output = perf(&lab, &arguments).output().unwrap();
    let table = valid(&output.stdout);
    let pair = &table["rows"][0]["pairs"][0];
    assert!(pair["other"]["name"].as_str().unwrap().starts_with("weir:copied+at="), "{}", told(&output));
    whole(pair, &table["rows"][0]["remarks"], 1);
    assert!(table["base"].is_string(), "{table:#}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    let lab = Lab::new("");
    for (arguments, says) in [
        (["--only", "portt"], "a-100000"),
        (["--against", "/nowhere/weir"], "name a built weir"),
        (["--stored", "nothing"], "there is no store"),
        (["--peers", "ovs"], "ovs-dpdk, ovs-dpdk:tuned, testpmd"),
    ] {
        let output = perf(&lab, &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{}", told(&output));
    }
}

#[test]
fn devices_are_compared_with_themselves_and_false_winners_are_counted() {
    let _cores = cores();
    let lab = Lab::new("");
    let arguments = [&["--aa", "2", "--name", "same", "--json", "--repeats", "2"], TINY.as_slice()].concat();
    let output = perf(&lab, &arguments).output().unwrap();
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
    let cases = document["cases"].as_array().unwrap();
    let made = |device: &str| {
        let case =
            cases.iter().find(|case| case[0]["device"] == device && case[0]["wiring"] == "fed").unwrap();
        case[1]["made"].as_u64().unwrap()
    };
    assert_eq!((made("nf"), made("weir"), made("ovs-dpdk")), (1, 1, 0), "{document:#}");
    let ranked: u64 = cases.iter().map(|case| case[1]["ranked"].as_u64().unwrap()).sum();
    let busy = document["remarks"].to_string().contains("invalid");
    assert!(ranked == 2 || busy, "{document:#}");
}

#[test]
fn a_service_is_measured_by_itself() {
    let output = weir()
        .args(["switch", "bench", "transcoder", "--payload", "928", "--rounds", "3", "--json"])
        .output()
        .unwrap();
    let benched: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((benched["payload"].as_u64(), benched["cycles"].as_array().unwrap().len()), (Some(928), 3));
    let output = weir().args(["switch", "bench", "teleporter"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
