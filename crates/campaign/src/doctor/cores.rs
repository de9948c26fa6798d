//! Rules about who runs where.

use super::Verdict;
use super::machine::Machine;
use crate::Cores;
use crate::environment::Claim::{Cycles, LatencyTail, Repeatability, Throughput};
use crate::environment::core_list;

/// Tester and DUT need a core each, and everything else a third.
pub(super) fn enough(machine: &Machine<'_>) -> Verdict {
    let allowed = machine.allowed();
    if allowed.is_empty() {
        return Verdict::Untold;
    }
    let list = core_list::format(&allowed);
    let total = machine.all_cores().len();
    let more = if total > allowed.len() && !machine.in_container() {
        format!("taskset -c 0-{} weir bench", total - 1)
    } else if machine.in_container() {
        "on the container's host: docker update --cpuset-cpus 0-2 CONTAINER (three cores of one NUMA node)"
            .to_owned()
    } else if machine.in_guest() {
        "on the VM's host (libvirt), then restart the VM: virsh setvcpus DOMAIN 4 --maximum --config; \
         virsh setvcpus DOMAIN 4 --config"
            .to_owned()
    } else {
        "measure on a machine with three or more cores".to_owned()
    };
    match machine.roles() {
        None => Verdict::blocks(format!("only core {list} may be used; tester and DUT need one each"), more),
        Some(roles) if roles.control == roles.tester => Verdict::weakens(
            &[LatencyTail, Repeatability],
            format!(
                "two cores: tester on {}, DUT on {}, and all else of this system must run on one of them",
                roles.tester, roles.dut
            ),
            more,
        ),
        Some(roles) => Verdict::good(format!(
            "tester on {}, DUT on {}, all else on {} of cores {list}",
            roles.tester, roles.dut, roles.control
        )),
    }
}

/// A quota stops all threads at once when it is used up, for the rest of each period.
pub(super) fn quota(machine: &Machine<'_>) -> Verdict {
    let Some(quota) = machine.number("virtual.cpu-quota") else {
        let told = machine.fact("cpu.allowed").is_some();
        return if told { Verdict::good("no quota on CPU time") } else { Verdict::Untold };
    };
    let mend = if machine.in_container() {
        "on the container's host: docker update --cpu-quota -1 CONTAINER, with cores of its own: --cpuset-cpus"
    } else {
        "in the group's folder under /sys/fs/cgroup: echo max > cpu.max (systemd: systemctl set-property UNIT CPUQuota=)"
    };
    Verdict::spoils(
        &[Throughput, LatencyTail, Repeatability],
        format!(
            "CPU time is limited to {quota:.2} cores: busy tester and DUT are stopped when it is used up"
        ),
        mend,
    )
}

/// Two hyper-threads share one core's execution units and first-level caches.
pub(super) fn siblings(machine: &Machine<'_>) -> Verdict {
    let (Some(smt), Some(roles)) = (machine.fact("cpu.smt"), machine.roles()) else { return Verdict::Untold };
    if smt == "off" {
        return Verdict::good(if machine.in_guest() {
            "no hyper-threading that the virtual machine is shown"
        } else {
            "no hyper-threading"
        });
    }
    let off = || machine.as_host("echo off > /sys/devices/system/cpu/smt/control");
    let mend = match machine.better_cores() {
        Some(cores) if !machine.in_container() => {
            let mut cores = cores;
            cores.sort_unstable();
            format!("taskset -c {} weir bench", core_list::format(&cores))
        }
        _ => off(),
    };
    if machine.siblings(roles.tester).contains(&roles.dut) {
        return Verdict::spoils(
            &[Throughput, LatencyTail, Cycles],
            format!(
                "tester (core {}) and DUT (core {}) are hyper-threads of one core",
                roles.tester, roles.dut
            ),
            mend,
        );
    }
    let shared: Vec<usize> = [roles.tester, roles.dut]
        .into_iter()
        .flat_map(|core| machine.siblings(core).into_iter().filter(move |other| *other != core))
        .collect();
    if shared.is_empty() {
        return Verdict::good("tester and DUT have physical cores of their own");
    }
    Verdict::weakens(
        &[LatencyTail, Cycles],
        format!(
            "whatever runs on cores {} shares a physical core with tester or DUT",
            core_list::format(&shared)
        ),
        off(),
    )
}

/// Packets between nodes cross the sockets' interconnect.
pub(super) fn numa(machine: &Machine<'_>) -> Verdict {
    let Some(roles) = machine.roles() else { return Verdict::Untold };
    let (Some(tester), Some(dut)) = (machine.node(roles.tester), machine.node(roles.dut)) else {
        return Verdict::Untold;
    };
    if tester == dut {
        return Verdict::good(format!("tester and DUT are on node {dut}"));
    }
    let one = machine.list(&format!("numa.node.{dut}.cores"));
    let mend = match machine.better_cores() {
        Some(mut cores) if !machine.in_container() => {
            cores.sort_unstable();
            format!("taskset -c {} weir bench", core_list::format(&cores))
        }
        _ => format!(
            "on the container's host: docker update --cpuset-cpus {} CONTAINER",
            core_list::format(&one)
        ),
    };
    Verdict::spoils(
        &[Throughput, LatencyTail, Cycles],
        format!("tester is on NUMA node {tester}, DUT on node {dut}: every packet crosses between them"),
        mend,
    )
}

/// Cores that the scheduler leaves alone are the only quiet ones.
pub(super) fn isolation(machine: &Machine<'_>) -> Verdict {
    let (Some(_), Some(roles)) = (machine.fact("cpu.isolated"), machine.roles()) else {
        return Verdict::Untold;
    };
    let isolated = machine.list("cpu.isolated");
    let mine = [roles.tester, roles.dut];
    if mine.iter().all(|core| isolated.contains(core)) {
        return Verdict::good(format!(
            "tester and DUT run on isolated cores {}",
            core_list::format(&isolated)
        ));
    }
    if let Some([control, tester, dut]) = machine.isolated_cores() {
        return Verdict::weakens(
            &[LatencyTail, Repeatability],
            format!(
                "cores {} are isolated, but tester and DUT would run on {} and {}",
                core_list::format(&isolated),
                roles.tester,
                roles.dut
            ),
            format!("taskset -c {control},{tester},{dut} weir bench"),
        );
    }
    let alone = roles.control != roles.tester;
    if !alone && isolated.contains(&roles.dut) {
        return Verdict::good(format!("the DUT runs on an isolated core ({})", roles.dut));
    }
    let (place, words) = (host(machine), boot_words(machine, roles));
    let run = if alone {
        format!("taskset -c {},{},{} weir bench", roles.control, roles.tester, roles.dut)
    } else {
        format!("taskset -c {},{} weir bench", roles.tester, roles.dut)
    };
    Verdict::weakens(
        &[LatencyTail, Repeatability],
        format!(
            "the scheduler may put any program on the cores of tester ({}) and DUT ({})",
            roles.tester, roles.dut
        ),
        format!("{place}add to the kernel's command line and restart: {words}; then: {run}"),
    )
}

/// Where a kernel's command line is set.
fn host(machine: &Machine<'_>) -> &'static str {
    match (machine.in_container(), machine.in_guest()) {
        (true, _) => "on the container's host, ",
        (false, true) => "in this VM, ",
        (false, false) => "",
    }
}

/// Words of the kernel's command line that keep everything off the cores of tester and DUT, and off
/// their hyper-threads; with two cores only the DUT's can be kept free.
fn boot_words(machine: &Machine<'_>, roles: Cores) -> String {
    let mut wanted: Vec<usize> = [roles.tester, roles.dut]
        .into_iter()
        .flat_map(|core| machine.siblings(core))
        .filter(|core| *core != roles.control && (roles.control != roles.tester || *core == roles.dut))
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let rest: Vec<usize> = machine.all_cores().into_iter().filter(|core| !wanted.contains(core)).collect();
    let (list, rest) = (core_list::format(&wanted), core_list::format(&rest));
    let scheduler = format!("isolcpus=managed_irq,domain,{list} irqaffinity={rest}");
    // A kernel that does not tell this was built without the feature and would ignore the words.
    if machine.fact("cpu.nohz-full").is_some() {
        format!("{scheduler} nohz_full={list} rcu_nocbs={list}")
    } else {
        scheduler
    }
}

/// A card on another node than the cores costs a crossing for every packet.
pub(super) fn nic(machine: &Machine<'_>) -> Verdict {
    let Some(roles) = machine.roles() else { return Verdict::Untold };
    let Some(node) = machine.node(roles.dut) else { return Verdict::Untold };
    let cards: Vec<(&str, usize)> = machine
        .facts
        .iter()
        .filter_map(|(name, value)| {
            let address = name.strip_prefix("nic.")?.strip_suffix(".numa-node")?;
            Some((address, value.parse().ok()?))
        })
        .collect();
    if cards.is_empty() {
        return Verdict::Untold;
    }
    let far: Vec<&str> = cards.iter().filter(|(_, at)| *at != node).map(|(address, _)| *address).collect();
    if far.is_empty() {
        return Verdict::good(format!("network cards are on node {node}, as the DUT is"));
    }
    let at = cards.iter().find(|(_, at)| *at != node).map_or(0, |(_, at)| *at);
    let cores = machine.fact(&format!("numa.node.{at}.cores")).unwrap_or("CORES");
    Verdict::weakens(
        &[Throughput, LatencyTail],
        format!(
            "DUT's core is on NUMA node {node}, but these cards are not: {} (matters to the `nic` wiring)",
            far.join(", ")
        ),
        format!("taskset -c {cores} weir bench"),
    )
}
