//! Who stands between us and the hardware: a hypervisor, a container, a quota.

use super::facts::Facts;
use super::source::{Source, field};

/// The kernel's number of the first PID namespace (`PROC_PID_INIT_INO`): whoever is in it is in no
/// container. Marker files alone mislead: a virtual machine may boot from a container's image.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Vendors and products of DMI, and the hypervisor they stand for.
const BY_DMI: &[(&str, &str)] = &[
    ("qemu", "QEMU"),
    ("kvm", "KVM"),
    ("amazon ec2", "KVM (Amazon EC2)"),
    ("google", "KVM (Google)"),
    ("openstack", "KVM (OpenStack)"),
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("xen", "Xen"),
    ("bhyve", "bhyve"),
    ("virtual machine", "Hyper-V"),
];

pub(super) fn read(source: &Source, facts: &mut Facts) {
    facts.put("virtual.hypervisor", hypervisor(source));
    facts.put("virtual.container", container(source));
    facts.put("virtual.steal", steal(source));
    let groups = source.text("proc/self/cgroup");
    facts.put("virtual.cpu-quota", quota(source, &groups).map(|cores| format!("{cores:.2} cores")));
    facts.put(
        "virtual.memory-limit",
        memory_limit(source, &groups).map(|bytes| format!("{} kB", bytes >> 10)),
    );
}

/// Nothing on bare metal: the CPU's `hypervisor` flag decides, the rest says which it is.
fn hypervisor(source: &Source) -> Option<String> {
    let info = source.text("proc/cpuinfo");
    let flagged = field(&info, "flags", ':')?.split_whitespace().any(|flag| flag == "hypervisor");
    let kind =
        source.read("sys/hypervisor/type").map(|kind| if kind == "xen" { "Xen".to_owned() } else { kind });
    if !flagged {
        return kind;
    }
    let cpuid = || source.is_here().then(weir_cpu::hypervisor).flatten().map(by_signature);
    let dmi = || {
        let said = ["sys_vendor", "product_name"]
            .map(|file| source.read(&format!("sys/class/dmi/id/{file}")).unwrap_or_default().to_lowercase());
        let hit = BY_DMI.iter().find(|(word, _)| said.iter().any(|text| text.contains(word)));
        hit.map(|(_, name)| (*name).to_owned())
    };
    Some(kind.or_else(cpuid).or_else(dmi).unwrap_or_else(|| "unknown".to_owned()))
}

/// Names of the signatures of CPUID leaf 0x40000000.
fn by_signature(signature: String) -> String {
    let name = match signature.as_str() {
        "KVMKVMKVM" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        "TCGTCGTCGTCG" => "QEMU (emulated)",
        "VBoxVBoxVBox" => "VirtualBox",
        "bhyve bhyve " => "bhyve",
        other => other,
    };
    name.to_owned()
}

/// The kind of container, where this is one.
fn container(source: &Source) -> Option<String> {
    if source.link("proc/self/ns/pid")? == FIRST_PID_NAMESPACE {
        return None;
    }
    let managed = source.read("run/systemd/container");
    let kubernetes = source.exists("var/run/secrets/kubernetes.io").then(|| "kubernetes".to_owned());
    let podman = source.exists("run/.containerenv").then(|| "podman".to_owned());
    let docker = source.exists(".dockerenv").then(|| "docker".to_owned());
    kubernetes.or(managed).or(podman).or(docker).or_else(|| Some("unknown".to_owned()))
}

/// The share of all CPU time since boot that a hypervisor gave to somebody else.
fn steal(source: &Source) -> Option<String> {
    let (stolen, total) = steal_ticks(source)?;
    Some(format!("{:.2} % since boot", 100.0 * stolen as f64 / total.max(1) as f64))
}

/// Ticks stolen from all cores, and all ticks (`proc_stat(5)`).
pub(super) fn steal_ticks(source: &Source) -> Option<(u64, u64)> {
    let stat = source.text("proc/stat");
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// Paths of this process's control group, from its own up to the root: the tightest limit of all
/// holds. In a container the path may be the host's, of which only the root can be seen.
fn groups(listed: &str, controller: &str) -> Vec<String> {
    let mine = listed.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        names.split(',').any(|name| name == controller).then_some((names, path))
    });
    let Some((names, path)) = mine else { return Vec::new() };
    let roots = if names.is_empty() {
        vec!["sys/fs/cgroup".to_owned()]
    } else {
        vec![format!("sys/fs/cgroup/{names}"), format!("sys/fs/cgroup/{controller}")]
    };
    let mut found = Vec::new();
    for root in roots {
        let mut path = path.trim_end_matches('/');
        loop {
            found.push(format!("{root}{path}"));
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }
    found
}

/// CPU time a second that the control groups allow, in cores.
fn quota(source: &Source, listed: &str) -> Option<f64> {
    let unified = groups(listed, "").into_iter().filter_map(|group| {
        let text = source.read(&format!("{group}/cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let classic = groups(listed, "cpu").into_iter().filter_map(|group| {
        let quota = source.number(&format!("{group}/cpu.cfs_quota_us"))?;
        Some(quota as f64 / source.number(&format!("{group}/cpu.cfs_period_us"))? as f64)
    });
    unified.chain(classic).min_by(f64::total_cmp)
}

fn memory_limit(source: &Source, listed: &str) -> Option<u64> {
    let unified =
        groups(listed, "").into_iter().filter_map(|group| source.number(&format!("{group}/memory.max")));
    let classic = groups(listed, "memory")
        .into_iter()
        .filter_map(|group| source.number(&format!("{group}/memory.limit_in_bytes")));
    // Control groups of version 1 say "no limit" by a number next to the greatest.
    unified.chain(classic).filter(|bytes| *bytes < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_walked_up_to_the_root() {
        assert_eq!(groups("0::/a/b\n", ""), ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"]);
        let classic = groups("4:cpu,cpuacct:/x\n0::/\n", "cpu");
        assert_eq!(classic[..2], ["sys/fs/cgroup/cpu,cpuacct/x", "sys/fs/cgroup/cpu,cpuacct"]);
        assert_eq!(classic[2..], ["sys/fs/cgroup/cpu/x", "sys/fs/cgroup/cpu"]);
        assert!(groups("", "cpu").is_empty());
    }
}
