//! Rules about what is installed, how it was built, and what it may do.

use super::Verdict;
use super::machine::Machine;
use crate::environment::Claim::{Cycles, Throughput};

/// Bytes that a long campaign's trials and histograms may come to.
const DISK: u64 = 1 << 30;
/// Bytes below which even a short one may fail.
const DISK_LEAST: u64 = 64 << 20;

/// An unoptimised tester is slower than what it tests.
pub(super) fn build(machine: &Machine<'_>) -> Verdict {
    let Some(profile) = machine.fact("build.profile") else { return Verdict::Untold };
    let slow = machine.fact("build.opt-level") != Some("3") || machine.fact("build.assertions") == Some("on");
    if !slow {
        return Verdict::good(format!("Weir is a {profile} build"));
    }
    Verdict::spoils(
        &[Throughput, Cycles],
        format!("this Weir is a {profile} build: tester and `nf` are slower than they need be"),
        "./x build, then use target/release/weir",
    )
}

/// A full disk ends a campaign.
pub(super) fn disk(machine: &Machine<'_>) -> Verdict {
    let Some((folder, free)) = &machine.measured.disk else { return Verdict::Untold };
    let folder = folder.display();
    let mebibytes = free >> 20;
    let mend =
        format!("make room there (du -xh {folder} | sort -h | tail), or elsewhere: weir bench --db FILE");
    match free {
        0..DISK_LEAST => {
            Verdict::blocks(format!("{mebibytes} MiB are free in {folder}, where runs are kept"), mend)
        }
        DISK_LEAST..DISK => Verdict::weakens(
            &[],
            format!("{mebibytes} MiB are free in {folder}; a long campaign keeps more"),
            mend,
        ),
        _ => Verdict::good(format!("{:.1} GiB are free in {folder}", *free as f64 / (1_u64 << 30) as f64)),
    }
}

/// Devices that this build can start, if they were there.
pub(super) fn devices(machine: &Machine<'_>) -> Verdict {
    let Some(missing) = &machine.measured.missing else { return Verdict::Untold };
    if missing.is_empty() {
        return Verdict::good("every device under test is installed");
    }
    let why: Vec<String> = missing.iter().map(|device| format!("{} ({})", device.name, device.why)).collect();
    Verdict::weakens(
        &[],
        format!("not installed, so nothing can be compared with them: {}", why.join("; ")),
        "./x setup --peers",
    )
}

/// What needs more than a plain user.
pub(super) fn privileges(machine: &Machine<'_>) -> Verdict {
    const WANTED: [&str; 3] = ["cap_net_admin", "cap_net_raw", "cap_sys_admin"];
    let Some(has) = machine.fact("user.privileges") else { return Verdict::Untold };
    if has == "root" {
        return Verdict::good("root: every wiring can be made");
    }
    let lacks: Vec<&str> =
        WANTED.into_iter().filter(|wanted| !has.split(' ').any(|word| word == *wanted)).collect();
    if lacks.is_empty() {
        return Verdict::good(format!("every wiring can be made ({has})"));
    }
    let program = machine.measured.program.as_ref().map_or("weir".into(), |path| path.display().to_string());
    let mend = if machine.in_container() {
        "on the container's host: docker run --cap-add NET_ADMIN --cap-add NET_RAW --cap-add SYS_ADMIN …"
            .to_owned()
    } else {
        // Capabilities of the file alone would not do: `ip` and the devices are processes of their own.
        format!("sudo {program} bench")
    };
    Verdict::weakens(
        &[],
        format!(
            "without {}: no network namespaces, no cards (wirings `veth` and `nic`, devices `linux` and `ovs-dpdk`); \
             the rest works",
            lacks.join(", ")
        ),
        mend,
    )
}
