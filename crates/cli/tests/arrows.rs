//! The crate map of ARCHITECTURE.md as a test.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which of Weir's crates each may depend on. The lab and the switch (and `weir-nf`) never touch:
/// the lab starts it as a process and measures it from outside.
const MAY_USE: &[(&str, &[&str])] = &[
    ("weir-units", &[]),
    ("weir-diagnostic", &[]),
    ("weir-testkit", &[]),
    ("weir-frames", &["weir-flow"]),
    ("weir-models", &["weir-units", "weir-openflow"]),
    ("weir-wire", &["weir-units"]),
    ("weir-cipher", &["weir-wire"]),
    ("weir-cpu", &["weir-units"]),
    ("weir-packet", &[]),
    ("weir-dpdk", &["weir-units", "weir-cpu", "weir-packet"]),
    ("weir-trial", &["weir-units", "weir-cipher", "weir-wire", "weir-flow", "weir-openflow"]),
    ("weir-simulated", &["weir-units", "weir-trial"]),
    ("weir-methods", &["weir-units", "weir-trial"]),
    ("weir-advice", &["weir-units", "weir-trial"]),
    (
        "weir-traffic",
        &["weir-units", "weir-cipher", "weir-wire", "weir-cpu", "weir-dpdk", "weir-flow", "weir-trial"],
    ),
    (
        "weir-dut",
        &[
            "weir-units",
            "weir-cipher",
            "weir-wire",
            "weir-cpu",
            "weir-trial",
            "weir-flow",
            "weir-openflow",
            "weir-codec",
            "weir-tls",
        ],
    ),
    ("weir-store", &["weir-units", "weir-trial"]),
    ("weir-report", &["weir-units", "weir-trial"]),
    ("weir-columns", &["weir-units", "weir-trial"]),
    ("weir-parquet", &["weir-columns"]),
    (
        "weir-campaign",
        &[
            "weir-units",
            "weir-diagnostic",
            "weir-wire",
            "weir-cpu",
            "weir-dpdk",
            "weir-trial",
            "weir-simulated",
            "weir-methods",
            "weir-traffic",
            "weir-dut",
            "weir-store",
        ],
    ),
    ("weir-serve", &["weir-units", "weir-tls", "weir-trial", "weir-methods", "weir-store", "weir-report"]),
    ("weir-nf", &["weir-units", "weir-wire", "weir-cpu", "weir-dpdk"]),
    ("weir-port", &["weir-units", "weir-wire", "weir-cpu", "weir-dpdk"]),
    ("weir-flow", &["weir-wire", "weir-packet"]),
    ("weir-openflow", &["weir-wire", "weir-flow"]),
    ("weir-codec", &["weir-flow", "weir-openflow"]),
    ("weir-tls", &[]),
    ("weir-agent", &["weir-flow", "weir-openflow", "weir-codec", "weir-tls"]),
    ("weir-classifier", &["weir-cpu", "weir-flow", "weir-units"]),
    ("weir-conntrack", &["weir-units", "weir-wire", "weir-cpu", "weir-packet", "weir-flow", "weir-openflow"]),
    (
        "weir-services",
        &[
            "weir-units",
            "weir-wire",
            "weir-cpu",
            "weir-packet",
            "weir-flow",
            "weir-openflow",
            "weir-conntrack",
        ],
    ),
    (
        "weir-datapath",
        &[
            "weir-units",
            "weir-wire",
            "weir-cpu",
            "weir-packet",
            "weir-dpdk",
            "weir-port",
            "weir-flow",
            "weir-openflow",
            "weir-classifier",
            "weir-services",
        ],
    ),
    (
        "weir-switch",
        &[
            "weir-units",
            "weir-diagnostic",
            "weir-wire",
            "weir-cpu",
            "weir-packet",
            "weir-dpdk",
            "weir-port",
            "weir-flow",
            "weir-openflow",
            "weir-codec",
            "weir-agent",
            "weir-services",
            "weir-datapath",
        ],
    ),
    (
        "weir",
        &[
            "weir-units",
            "weir-diagnostic",
            "weir-wire",
            "weir-cpu",
            "weir-dpdk",
            "weir-trial",
            "weir-methods",
            "weir-advice",
            "weir-traffic",
            "weir-dut",
            "weir-store",
            "weir-report",
            "weir-columns",
            "weir-parquet",
            "weir-campaign",
            "weir-serve",
            "weir-nf",
            "weir-flow",
            "weir-openflow",
            "weir-switch",
        ],
    ),
];

/// The fuzz targets hand bytes to whatever reads any, on either side; nothing is built on them.
const ANYTHING: &str = "weir-fuzz";

/// The crates that sit on DPDK. Every other is built and tested without it.
const ON_DPDK: &[&str] = &[
    "weir",
    "weir-campaign",
    "weir-datapath",
    "weir-dpdk",
    "weir-fuzz",
    "weir-nf",
    "weir-port",
    "weir-switch",
    "weir-traffic",
];

/// What is built here: packages of other platforms need not even be downloaded.
fn metadata() -> Value {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &platform])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn every_crate_depends_only_on_rows_below_it() {
    let metadata = metadata();
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut seen = BTreeSet::new();
    for package in list(&metadata["packages"]).iter().filter(|package| package["source"].is_null()) {
        let name = text(package, "name");
        if name == ANYTHING {
            continue;
        }
        let uses = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the crate map"));
        seen.insert(name);
        for dependency in list(&package["dependencies"]) {
            let on = text(dependency, "name");
            let normal = dependency["kind"].is_null();
            assert!(
                !normal || !on.starts_with("weir") || uses.contains(&on),
                "{name} must not depend on {on}: ARCHITECTURE.md says which way the arrows point"
            );
        }
    }
    assert_eq!(seen, allowed.keys().copied().collect(), "the crate map names crates that are not there");
}

/// A crate's dependencies of these kinds, by their ids.
fn needs<'a>(metadata: &'a Value, id: &str, kinds: &[Option<&str>]) -> Vec<&'a str> {
    let nodes = list(&metadata["resolve"]["nodes"]);
    let node = nodes.iter().find(|node| text(node, "id") == id).expect("a resolved package");
    let wanted = |dependency: &&Value| {
        list(&dependency["dep_kinds"]).iter().any(|kind| kinds.contains(&kind["kind"].as_str()))
    };
    list(&node["deps"]).iter().filter(wanted).map(|dependency| text(dependency, "pkg")).collect()
}

/// Whether building the crate and its tests takes this other one, also by way of others.
fn takes(metadata: &Value, id: &str, wanted: &str) -> bool {
    let mut next = needs(metadata, id, &[None, Some("build"), Some("dev")]);
    let mut seen = BTreeSet::new();
    while let Some(one) = next.pop() {
        if seen.insert(one) {
            next.extend(needs(metadata, one, &[None, Some("build")]));
        }
    }
    id == wanted || seen.contains(wanted)
}

#[test]
fn only_what_moves_packets_is_built_and_tested_with_dpdk() {
    let metadata = metadata();
    let ours = || list(&metadata["packages"]).iter().filter(|package| package["source"].is_null());
    let dpdk = ours().find(|package| text(package, "name") == "weir-dpdk").expect("a crate");
    let on_it = ours().filter(|package| takes(&metadata, text(package, "id"), text(dpdk, "id")));
    let on_it: BTreeSet<_> = on_it.map(|package| text(package, "name")).collect();
    assert_eq!(on_it, ON_DPDK.iter().copied().collect(), "the crates that sit on DPDK, and those that may");
}

#[test]
fn the_map_in_the_documents_has_every_crate() {
    let map = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md")).unwrap();
    let map = map.split("\n## ").find(|section| section.starts_with("Crates\n")).expect("a section Crates");
    for name in MAY_USE.iter().map(|(name, _)| *name).chain([ANYTHING]) {
        let short = name.strip_prefix("weir-").unwrap_or(name);
        assert!(map.contains(&format!("`{short}`")), "ARCHITECTURE.md's table of crates lacks `{short}`");
    }
}
