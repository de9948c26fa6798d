//! Other people's OpenFlow clients drive the built switch, in network namespaces on veth ports: short forms of
//! what `./x conformance` and `./x clients` run in full. Each asks packets, not answers, whether it works.
//!
//! What needs root or a package that is not there says so and is skipped; `./x setup --test` installs them.

use crate::lab::alone;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_testkit::Need;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a client against the built switch; nothing where this machine cannot.
fn client(arguments: &[&str]) -> Option<Output> {
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("python3", "python3")) {
        return None;
    }
    // Several switches, hosts and tools are busy in each.
    let _alone = alone("clients");
    let output = Command::new("python3")
        .arg("-B")
        .arg(root().join("scripts/clients"))
        .args(["--weir", env!("CARGO_BIN_EXE_weir")])
        .args(arguments)
        .output()
        .expect("python3 runs");
    // Its code for what is not ready.
    let is_ready = output.status.code() != Some(2);
    let cure = String::from_utf8_lossy(&output.stderr).into_owned();
    weir_testkit::needs!(Need::Found("this client".to_owned(), is_ready, cure)).then_some(output)
}

/// That it was content, and what it printed.
fn content(arguments: &[&str]) -> Option<String> {
    let output = client(arguments)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

#[test]
fn every_command_of_ovs_ofctl_does_what_it_says_on_openflow_1_3_and_1_0() {
    let Some(said) = content(&["ofctl"]) else { return };
    assert_eq!((said.matches("ok   OpenFlow13").count(), said.matches("ok   OpenFlow10").count()), (14, 14));
}

#[test]
fn faucet_runs_a_campus_with_hosts_that_ping_browse_and_get_leases() {
    let Some(said) = content(&["faucet", "--seconds", "1"]) else { return };
    assert!(said.contains("a host gets an address by DHCP"), "{said}");
}

#[test]
fn a_home_router_and_a_service_chain_made_of_flows_work_for_hosts() {
    let Some(said) = content(&["examples", "--seconds", "1"]) else { return };
    assert!(said.contains("which sees nobody but the router"), "{said}");
}

#[test]
fn the_switch_tester_passes_a_case_of_each_field_and_action() {
    // Left out are those that set SCTP's ports: the tester expects another checksum than CRC32c.
    let cases = [
        "match/*[a-z]#0",
        "match/*[0-9A-Z]#1",
        "action/[01]*#0",
        "action/2[0-46]*#0",
        "action/25_SET_FIELD/0*#0",
        "action/25_SET_FIELD/1[0-69]*#0",
        "action/25_SET_FIELD/2*#0",
        "action/25_SET_FIELD/3*#0",
    ];
    let Some((ran, failed)) = tested(&cases, 1) else { return };
    assert!(ran > 80, "{ran} cases ran");
    if failed.is_empty() {
        return;
    }
    // The tester's own switch now and then receives a packet and tells nobody ("increment in rx_packets in
    // tester"), whatever is tested: what is wrong here fails each of three runs.
    assert!(failed.len() * 5 < ran, "{ran} cases ran; these failed: {failed:#?}");
    let again: Vec<&str> = failed.keys().map(String::as_str).collect();
    let Some((_, failed_again)) = tested(&again, 2) else { return };
    assert!(failed_again.is_empty(), "{ran} cases ran; these failed three times: {failed_again:#?}");
}

/// Runs cases so often: how many there were, and why those failed that did in every run.
fn tested(cases: &[&str], runs: usize) -> Option<(usize, BTreeMap<String, String>)> {
    let runs = runs.to_string();
    let only = cases.iter().flat_map(|case| ["--only", *case]);
    let arguments = ["conformance", "--dut", "weir", "--runs", &runs, "--pairs", "1", "--json"];
    let said = content(&arguments.into_iter().chain(only).collect::<Vec<_>>())?;
    let document: serde_json::Value = serde_json::from_str(&said).unwrap();
    let results = document["devices"]["weir"]["results"].as_object().unwrap();
    let failed = results.iter().filter_map(|(case, runs)| {
        let runs = runs.as_array().unwrap();
        let failed = runs.iter().all(|run| run["passed"] != true);
        failed.then(|| (case.clone(), runs[0]["reason"].to_string()))
    });
    Some((results.len(), failed.collect()))
}
