//! Memory: how much, in which pages, on which node.

use super::facts::Facts;
use super::source::{Source, chosen, field};

const NODES: &str = "sys/devices/system/node";
const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";

pub(super) fn read(source: &Source, facts: &mut Facts) {
    let memory = source.text("proc/meminfo");
    let get = |name| field(&memory, name, ':');
    facts.put("memory.total", get("MemTotal"));
    facts.put("memory.available", get("MemAvailable"));
    facts.put("memory.swap", get("SwapTotal"));
    let kilobytes = |name| get(name)?.trim_end_matches(" kB").parse::<u64>().ok();
    let used = kilobytes("SwapTotal").zip(kilobytes("SwapFree"));
    facts.put("memory.swap-used", used.map(|(total, free)| format!("{} kB", total.saturating_sub(free))));
    huge_pages(source, "sys/kernel/mm/hugepages", "memory", facts);
    facts.put("memory.huge-page-default", get("Hugepagesize"));
    transparent(source, facts);
    facts.put("memory.numa-balancing", source.read("proc/sys/kernel/numa_balancing"));
    nodes(source, facts);
}

/// Whether programs get larger pages unasked: in general, and of each size for which something else is set, that of a program
/// and that which programs share (since Linux 6.8 and 6.11).
fn transparent(source: &Source, facts: &mut Facts) {
    let set = |file: &str| source.read(&format!("{TRANSPARENT}/{file}")).as_deref().and_then(chosen);
    facts.put("memory.transparent-huge-pages", set("enabled"));
    for (kilobytes, size) in sizes(source, TRANSPARENT) {
        for (file, what) in [("enabled", ""), ("shmem_enabled", ".shared")] {
            let set = set(&format!("hugepages-{kilobytes}kB/{file}"));
            let set = set.filter(|set| !["inherit", "never"].contains(&set.as_str()));
            facts.put(&format!("memory.transparent-huge-pages.{size}{what}"), set);
        }
    }
}

/// The sizes of pages that a folder has a folder for, in KiB and as facts name them.
fn sizes(source: &Source, folder: &str) -> Vec<(u64, String)> {
    let size = |name: &String| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
    let named = |kilobytes: u64| match kilobytes {
        large if large >= 1 << 20 => format!("{}G", large >> 20),
        large if large >= 1 << 10 => format!("{}M", large >> 10),
        small => format!("{small}K"),
    };
    source.list(folder).iter().filter_map(size).map(|kilobytes| (kilobytes, named(kilobytes))).collect()
}

/// Pages of each size: `memory.huge-pages.2M.total`, `memory.huge-pages.2M.free`.
fn huge_pages(source: &Source, folder: &str, name: &str, facts: &mut Facts) {
    for (kilobytes, size) in sizes(source, folder) {
        for (file, what) in [("nr_hugepages", "total"), ("free_hugepages", "free")] {
            let count = source.number(&format!("{folder}/hugepages-{kilobytes}kB/{file}"));
            facts.put(&format!("{name}.huge-pages.{size}.{what}"), count);
        }
    }
}

fn nodes(source: &Source, facts: &mut Facts) {
    facts.put("numa.nodes", source.read(&format!("{NODES}/online")));
    let numbers = source.numbered(NODES, "node");
    for node in &numbers {
        let folder = format!("{NODES}/node{node}");
        let name = format!("numa.node.{node}");
        facts.put(&format!("{name}.cores"), source.read(&format!("{folder}/cpulist")));
        let memory = field(&source.text(&format!("{folder}/meminfo")), &format!("Node {node} MemTotal"), ':');
        facts.put(&format!("{name}.memory"), memory);
        huge_pages(source, &format!("{folder}/hugepages"), &name, facts);
    }
    let distances: Vec<String> =
        numbers.iter().filter_map(|node| source.read(&format!("{NODES}/node{node}/distance"))).collect();
    facts.put("numa.distances", Some(distances.join(" / ")));
}

/// Free 2-MiB huge pages.
pub fn free_huge_pages() -> u64 {
    Source::here().number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unwrap_or(0)
}
