//! The bill of materials names what is linked, and is what CycloneDX says it has to be.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weir_testkit::Need;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn well(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Crates with their versions whose sources the built program names, in its debug information and panics.
fn built_in() -> BTreeSet<String> {
    let program = std::fs::read(env!("CARGO_BIN_EXE_weir")).unwrap();
    let text = String::from_utf8_lossy(&program);
    let is_part_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let folders = text
        .split("/registry/src/")
        .skip(1)
        .filter_map(|rest| rest.split('/').nth(1)?.split(|c| !is_part_of_a_name(c)).next());
    // Of `md-5-0.11.0` the version is not what follows the first hyphen.
    let is_version = |rest: &str| {
        let number = rest.split('-').next().unwrap_or_default();
        number.contains('.') && number.starts_with(|c: char| c.is_ascii_digit())
    };
    let package = |folder: &str| {
        let at = folder.match_indices('-').find(|(at, _)| is_version(&folder[at + 1..]))?.0;
        Some(format!("{}@{}", &folder[..at], &folder[at + 1..]))
    };
    folders.filter_map(package).collect()
}

#[test]
fn the_bill_of_materials_names_every_linked_crate_and_dpdk() {
    let python = root().join(".weir/venv/bin/python");
    let is_here =
        Command::new("dpkg-query").args(["-W", "libdpdk-dev"]).output().is_ok_and(|out| out.status.success());
    let debian = Need::Found("DPDK as a Debian package".to_owned(), is_here, "./x setup".to_owned());
    let oracle = Need::Found("CycloneDX's schema".to_owned(), python.exists(), "./x setup --test".to_owned());
    if !weir_testkit::needs!(debian, oracle) {
        return;
    }
    let bill =
        Command::new("python3").arg(root().join("scripts/sbom.py")).args(["--features", "postgres"]).output();
    let bill = well(bill.unwrap());
    let document: Value = serde_json::from_str(&bill).unwrap();
    let components = document["components"].as_array().unwrap();
    let crates: BTreeSet<String> = components
        .iter()
        .filter_map(|component| component["purl"].as_str()?.strip_prefix("pkg:cargo/").map(str::to_owned))
        .chain([concat!("weir@", env!("CARGO_PKG_VERSION")).to_owned()])
        .collect();
    let built_in = built_in();
    let absent: Vec<&String> = built_in.difference(&crates).collect();
    assert!(
        built_in.len() > 50 && absent.is_empty(),
        "{} in the program; not in the bill: {absent:?}",
        built_in.len()
    );
    let dpdk = components.iter().find(|component| component["name"] == "libdpdk-dev").unwrap();
    assert!(dpdk["version"].as_str().unwrap().starts_with("2"), "{dpdk}");
    for component in
        components.iter().filter(|component| component["name"].as_str().unwrap().starts_with("serde"))
    {
        assert_eq!(component["hashes"][0]["content"].as_str().unwrap().len(), 64, "{component}");
    }
    let check = "import sys; from cyclonedx.validation.json import JsonStrictValidator; \
                 from cyclonedx.schema import SchemaVersion; \
                 sys.exit(str(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or '') or None)";
    let mut child = Command::new(python)
        .args(["-c", check])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bill.as_bytes()).unwrap();
    well(child.wait_with_output().unwrap());
}
