//! The environment's readers on recorded machines.

use std::collections::BTreeMap;
use weir_campaign::environment::{Claim, affects};

/// Facts that a machine must tell, and some that it must not.
fn tells(name: &str, expected: &[(&str, &str)], absent: &[&str]) {
    let facts: BTreeMap<String, String> = crate::machines::facts(name);
    for (key, value) in expected {
        assert_eq!(facts.get(*key).map(String::as_str), Some(*value), "{name}: {key}");
    }
    for key in absent {
        assert_eq!(facts.get(*key), None, "{name}: {key}");
    }
}

#[test]
fn a_two_socket_server_tells_its_arrangement_frequencies_pages_and_cards() {
    tells(
        "server-untuned",
        &[
            ("cpu.model", "Intel(R) Xeon(R) Silver 4309Y CPU @ 2.80GHz"),
            ("cpu.family", "6/106/6"),
            ("cpu.microcode", "0xd0003d1"),
            ("cpu.cores", "16"),
            ("cpu.sockets", "2"),
            ("cpu.physical-cores", "8"),
            ("cpu.smt", "on"),
            ("cpu.siblings", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"),
            ("cpu.caches", "L1d 48K shared by 0,8, L3 12288K shared by 0-3,8-11"),
            ("cpu.governor", "powersave"),
            ("cpu.frequency-driver", "intel_pstate"),
            ("cpu.frequency-range", "800 to 3600 MHz"),
            ("cpu.frequency-now", "800 to 3412 MHz"),
            ("cpu.turbo", "on"),
            ("cpu.idle-states", "POLL 0 µs, C1 1 µs, C6 170 µs"),
            ("cpu.isolated", "none"),
            ("cpu.nohz-full", "none"),
            ("cpu.mitigation.spectre-v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional"),
            ("clock.tsc-flags", "constant nonstop"),
            ("memory.swap-used", "262144 kB"),
            ("memory.huge-pages.1G.total", "0"),
            ("memory.transparent-huge-pages", "always"),
            ("numa.nodes", "0-1"),
            ("numa.distances", "10 20 / 20 10"),
            ("numa.node.1.cores", "4-7,12-15"),
            ("numa.node.1.memory", "66060400 kB"),
            ("services.running", "irqbalance, thermald"),
            ("kernel.preemption", "dynamic"),
            ("iommu.state", "1 groups behind dmar0"),
            ("machine.product", "PowerEdge R450"),
            ("nic.0000:18:00.0.device", "15b3:101d"),
            ("nic.0000:18:00.0.driver", "mlx5_core"),
            ("nic.0000:18:00.0.firmware", "22.36.1010"),
            ("nic.0000:18:00.0.link", "up, 100000 Mb/s"),
            ("nic.0000:18:00.0.pci-link", "16.0 GT/s PCIe x16"),
            ("nic.0000:18:00.0.numa-node", "0"),
            ("nic.0000:00:1f.6.driver", "none"),
            ("package.dpdk-dev", "22.11.11-0+deb12u1"),
            ("user.privileges", "root"),
        ],
        &[
            "cpu.mitigation.meltdown",
            "virtual.hypervisor",
            "virtual.container",
            "virtual.cpu-quota",
            "cpu.rcu-nocbs",
            "nic.0000:00:1f.6.numa-node",
            "nic.0000:19:00.0.device",
            "package.openvswitch-switch-dpdk",
            "dpdk.version",
            "load.busiest",
        ],
    );
}

#[test]
fn a_tuned_server_tells_what_was_set() {
    tells(
        "server-tuned",
        &[
            ("cpu.cores", "8"),
            ("cpu.smt", "off"),
            ("cpu.allowed", "1-3"),
            ("cpu.isolated", "2-3"),
            ("cpu.nohz-full", "2-3"),
            ("cpu.rcu-nocbs", "2-3"),
            ("cpu.governor", "performance"),
            ("cpu.turbo", "off"),
            ("cpu.frequency-now", "2800 MHz"),
            ("cpu.idle-states", "POLL 0 µs, C1 1 µs, C6 170 µs (disabled)"),
            ("memory.huge-pages.2M.free", "2048"),
            ("numa.node.0.huge-pages.2M.total", "1024"),
            ("memory.transparent-huge-pages", "madvise"),
            ("memory.transparent-huge-pages.64K.shared", "always"),
            ("memory.swap-used", "0 kB"),
            ("services.running", "none"),
        ],
        &["cpu.siblings", "memory.transparent-huge-pages.2M", "memory.transparent-huge-pages.64K"],
    );
}

#[test]
fn a_virtual_machine_names_its_hypervisor_and_is_no_container_for_a_file_that_was_left_over() {
    tells(
        "cloud-vm",
        &[
            ("virtual.hypervisor", "KVM (Amazon EC2)"),
            ("virtual.steal", "4.00 % since boot"),
            ("cpu.siblings", "0-1"),
            ("cpu.frequency-now", "2500 MHz"),
            ("clock.tsc-flags", "constant"),
            ("clock.source", "kvm-clock"),
            ("user.privileges", "none"),
        ],
        &["virtual.container", "cpu.governor", "cpu.turbo", "cpu.nohz-full", "nic.0000:00:05.0.numa-node"],
    );
}

#[test]
fn a_container_tells_its_limits_and_the_host_behind_it() {
    tells(
        "container",
        &[
            ("virtual.container", "docker"),
            ("virtual.cpu-quota", "1.50 cores"),
            ("virtual.memory-limit", "1048576 kB"),
            ("cpu.allowed", "3-4"),
            ("cpu.governor", "ondemand on 4-7, performance on 0-3"),
            ("cpu.turbo", "on"),
            ("kernel.preemption", "none or voluntary"),
            ("user.privileges", "cap_net_raw"),
        ],
        &["virtual.hypervisor"],
    );
}

/// Whether a name fits a documented one: `N`, `ADDRESS`, `SIZE` and `NAME` stand for one word or, in
/// an address, for two.
fn fits(documented: &str, name: &str) -> bool {
    let name = match name.strip_prefix("nic.").and_then(|rest| rest.rsplit_once('.')) {
        Some((_, last)) => format!("nic.ADDRESS.{last}"),
        None => name.to_owned(),
    };
    let (documented, name): (Vec<&str>, Vec<&str>) =
        (documented.split('.').collect(), name.split('.').collect());
    let stands_for_any = |word: &str| word.chars().all(|letter| letter.is_ascii_uppercase());
    documented.len() == name.len()
        && documented.iter().zip(&name).all(|(word, of)| word == of || stands_for_any(word))
}

#[test]
fn the_table_of_facts_lists_every_fact_of_every_machine_and_says_truly_what_each_can_explain() {
    let table = include_str!("../../../docs/environment.md");
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
            Some((name, *cells.get(4)?))
        })
        .collect();
    assert!(rows.len() > 50);
    let mut machines =
        ["server-untuned", "server-tuned", "cloud-vm", "container"].map(crate::machines::facts).to_vec();
    machines.push(weir_campaign::environment::capture());
    for name in machines.iter().flat_map(BTreeMap::keys) {
        assert!(rows.iter().any(|(documented, _)| fits(documented, name)), "{name} is not in the table");
    }
    for (documented, can_explain) in rows {
        let claims = affects(documented).claims;
        let words = match claims {
            [] => "–".to_owned(),
            [Claim::Throughput, Claim::LatencyTail, Claim::Cycles] => "all".to_owned(),
            some => some.iter().map(|claim| claim.name()).collect::<Vec<_>>().join(", "),
        };
        assert_eq!(can_explain, words.replace("cycles per packet", "cycles"), "{documented}");
    }
}
