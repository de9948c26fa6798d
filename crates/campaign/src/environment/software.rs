//! What measures and what is measured: this build of Weir, DPDK, the packages of the devices under
//! test, and what this user may do.

use super::facts::Facts;
use super::source::{Source, field};

/// Debian packages whose version decides what a device under test does.
const PACKAGES: &[&str] = &[
    "dpdk",
    "dpdk-dev",
    "dpdk-doc",
    "libdpdk-dev",
    "openvswitch-switch",
    "openvswitch-switch-dpdk",
    "nftables",
    "iproute2",
];

/// Capabilities (`capabilities(7)`) that wirings and devices ask for, by bit.
const CAPABILITIES: &[(u32, &str)] = &[
    (12, "cap_net_admin"),
    (13, "cap_net_raw"),
    (14, "cap_ipc_lock"),
    (21, "cap_sys_admin"),
    (23, "cap_sys_nice"),
];

pub(super) fn read(source: &Source, facts: &mut Facts) {
    packages(source, facts);
    facts.put("user.privileges", privileges(&source.text("proc/self/status")));
    if source.is_here() {
        build(facts);
    }
}

fn build(facts: &mut Facts) {
    facts.put("dpdk.version", Some(weir_dpdk::Eal::version()));
    facts.put("dpdk.link", Some("static"));
    facts.put("build.rustc", Some(env!("WEIR_RUSTC")));
    facts.put("build.target", Some(env!("WEIR_TARGET")));
    facts.put("build.target-cpu", Some(env!("WEIR_TARGET_CPU")));
    facts.put("build.target-features", Some(env!("WEIR_TARGET_FEATURES")));
    facts.put("build.rust-flags", Some(env!("WEIR_RUST_FLAGS")));
    facts.put("build.profile", Some(env!("WEIR_PROFILE")));
    facts.put("build.opt-level", Some(env!("WEIR_OPT_LEVEL")));
    facts.put("build.assertions", Some(if cfg!(debug_assertions) { "on" } else { "off" }));
}

fn packages(source: &Source, facts: &mut Facts) {
    let status = source.text("var/lib/dpkg/status");
    for paragraph in status.split("\n\n") {
        let name = paragraph.strip_prefix("Package: ").and_then(|rest| rest.lines().next());
        if let Some(name) = name.filter(|name| PACKAGES.contains(name)) {
            let installed =
                field(paragraph, "Status", ':').is_some_and(|status| status.ends_with(" installed"));
            facts.put(&format!("package.{name}"), field(paragraph, "Version", ':').filter(|_| installed));
        }
    }
}

/// `root`, or the capabilities that matter, or `none`.
fn privileges(status: &str) -> Option<String> {
    let effective = u64::from_str_radix(&field(status, "CapEff", ':')?, 16).ok()?;
    let has: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 1).map(|(_, name)| *name).collect();
    let user = field(status, "Uid", ':')?;
    let is_root = user.split_whitespace().nth(1) == Some("0");
    Some(match (is_root, has.len()) {
        (true, all) if all == CAPABILITIES.len() => "root".to_owned(),
        (_, 0) => "none".to_owned(),
        _ => has.join(" "),
    })
}
