//! The CPU: what it is, how its cores are arranged, what the kernel does against its faults.

use super::core_list;
use super::facts::Facts;
use super::source::{Source, field};
use std::collections::BTreeSet;

const CPUS: &str = "sys/devices/system/cpu";

/// Cores that are on line.
pub(super) fn online(source: &Source) -> Vec<usize> {
    let online = source.read(&format!("{CPUS}/online"));
    online.map_or_else(|| source.numbered(CPUS, "cpu"), |list| core_list::parse(&list))
}

pub(super) fn read(source: &Source, facts: &mut Facts) {
    let info = source.text("proc/cpuinfo");
    let get = |name| field(&info, name, ':');
    facts.put("cpu.model", get("model name"));
    facts.put("cpu.vendor", get("vendor_id"));
    let family = [get("cpu family"), get("model"), get("stepping")];
    facts.put("cpu.family", family.into_iter().collect::<Option<Vec<_>>>().map(|parts| parts.join("/")));
    facts.put("cpu.microcode", get("microcode"));
    let cores = online(source);
    let listed = info.lines().filter(|line| line.starts_with("processor")).count();
    facts.put("cpu.cores", [cores.len(), listed].into_iter().find(|count| *count > 0));
    arrangement(source, &cores, facts);
    caches(source, facts);
    mitigations(source, facts);
    let status = source.text("proc/self/status");
    facts.put("cpu.allowed", field(&status, "Cpus_allowed_list", ':'));
    facts.put("clock.tsc-flags", tsc_flags(&get("flags").unwrap_or_default()));
    facts.put("clock.source", source.read("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    facts.put(
        "clock.available",
        source.read("sys/devices/system/clocksource/clocksource0/available_clocksource"),
    );
}

/// Sockets, physical cores, and which cores share one.
fn arrangement(source: &Source, cores: &[usize], facts: &mut Facts) {
    let mut sockets = BTreeSet::new();
    let mut siblings = BTreeSet::new();
    for core in cores {
        let topology = |name: &str| source.read(&format!("{CPUS}/cpu{core}/topology/{name}"));
        sockets.extend(topology("physical_package_id"));
        let list = topology("thread_siblings_list").or_else(|| topology("core_cpus_list"));
        siblings.extend(list.map(|list| core_list::parse(&list)));
    }
    facts.put("cpu.sockets", Some(sockets.len()).filter(|count| *count > 0));
    facts.put("cpu.physical-cores", Some(siblings.len()).filter(|count| *count > 0));
    let active = source.number(&format!("{CPUS}/smt/active"));
    facts.put("cpu.smt", active.map(|active| if active == 1 { "on" } else { "off" }));
    let shared: Vec<String> =
        siblings.iter().filter(|list| list.len() > 1).map(|list| core_list::format(list)).collect();
    facts.put("cpu.siblings", Some(shared.join(" ")));
}

/// `L1d 32K, L1i 32K, L2 1M, L3 32M shared by 0-7`, of the first core.
fn caches(source: &Source, facts: &mut Facts) {
    let folder = format!("{CPUS}/cpu0/cache");
    let caches = source.numbered(&folder, "index").into_iter().filter_map(|index| {
        let read = |name: &str| source.read(&format!("{folder}/index{index}/{name}"));
        let kind = match read("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let sharers = read("shared_cpu_list").filter(|list| core_list::parse(list).len() > 1);
        let shared = sharers.map_or_else(String::new, |list| format!(" shared by {list}"));
        Some(format!("L{}{kind} {}{shared}", read("level")?, read("size")?))
    });
    facts.put("cpu.caches", Some(caches.collect::<Vec<_>>().join(", ")));
}

/// What the kernel does against each fault that this CPU has.
fn mitigations(source: &Source, facts: &mut Facts) {
    let folder = format!("{CPUS}/vulnerabilities");
    for name in source.list(&folder) {
        let state = source.read(&format!("{folder}/{name}")).filter(|state| state != "Not affected");
        facts.put(&format!("cpu.mitigation.{}", name.replace('_', "-")), state);
    }
}

/// Flags that make the TSC a clock: `constant` (one rate at any frequency), `nonstop` (also in deep
/// idle states); together they are an invariant TSC (Intel SDM volume 3, 19.17.1).
fn tsc_flags(flags: &str) -> Option<String> {
    let words: BTreeSet<&str> = flags.split_whitespace().collect();
    if words.is_empty() {
        return None;
    }
    let known = [
        ("constant_tsc", "constant"),
        ("nonstop_tsc", "nonstop"),
        ("tsc_reliable", "reliable"),
        ("tsc_known_freq", "known-frequency"),
    ];
    let has: Vec<&str> =
        known.iter().filter(|(flag, _)| words.contains(flag)).map(|(_, name)| *name).collect();
    Some(if has.is_empty() { "none".to_owned() } else { has.join(" ") })
}
