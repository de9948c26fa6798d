//! The kernel: version, command line, what it keeps off which cores, and the services that move
//! interrupts, frequencies and memory about.

use super::facts::Facts;
use super::source::{Source, chosen, field};

/// Services that change a machine while it measures, by the name of their process (the kernel keeps
/// 15 characters of it).
const SERVICES: &[&str] = &[
    "irqbalance",
    "tuned",
    "thermald",
    "power-profiles-",
    "cpufreqd",
    "auto-cpufreq",
    "numad",
    "ksmtuned",
    "unattended-upgr",
];

pub(super) fn read(source: &Source, facts: &mut Facts) {
    facts.put("kernel.release", source.read("proc/sys/kernel/osrelease"));
    let version = source.read("proc/sys/kernel/version");
    let command_line = source.read("proc/cmdline").unwrap_or_default();
    facts.put(
        "kernel.preemption",
        version.as_deref().map(|version| preemption(source, version, &command_line)),
    );
    facts.put("kernel.version", version);
    isolation(source, &command_line, facts);
    facts.put("kernel.command-line", Some(command_line));
    facts.put("kernel.nmi-watchdog", source.read("proc/sys/kernel/nmi_watchdog"));
    let release = source.text("etc/os-release");
    let name = field(&release, "PRETTY_NAME", '=');
    facts.put("os.release", name.map(|name| name.trim_matches('"').to_owned()));
    for (key, file) in [("vendor", "sys_vendor"), ("product", "product_name"), ("firmware", "bios_version")] {
        facts.put(&format!("machine.{key}"), source.read(&format!("sys/class/dmi/id/{file}")));
    }
    facts.put("machine.id", source.read("etc/machine-id").map(|id| identity(&id)));
    services(source, facts);
}

/// An identity of the machine made from its own, which must not be told (machine-id(5)): a keyed hash, so
/// that runs of one machine are known by it and nothing else is.
fn identity(machine_id: &str) -> String {
    let hash = blake3::derive_key("weir 2026-11-23 identity of a machine", machine_id.trim().as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Cores that the scheduler, the timer tick and RCU leave alone.
fn isolation(source: &Source, command_line: &str, facts: &mut Facts) {
    // The files are there, and empty, where the kernel could but was not told to.
    for (key, file) in [("cpu.isolated", "isolated"), ("cpu.nohz-full", "nohz_full")] {
        let path = format!("sys/devices/system/cpu/{file}");
        let none = || source.exists(&path).then(|| "none".to_owned());
        let list = source.read(&path).filter(|list| list != "(null)");
        facts.put(key, list.or_else(none));
    }
    let told = |name: &str| {
        let word =
            command_line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.map(str::to_owned)
    };
    facts.put("cpu.rcu-nocbs", told("rcu_nocbs"));
    facts.put("cpu.irq-affinity", told("irqaffinity"));
}

/// `full`, `voluntary`, `none`, `lazy` or `realtime`; `dynamic` where the kernel can be any of them
/// and does not tell this user which it is.
fn preemption(source: &Source, version: &str, command_line: &str) -> String {
    if source.number("sys/kernel/realtime") == Some(1) || version.contains("PREEMPT_RT") {
        return "realtime".to_owned();
    }
    if version.contains("PREEMPT_DYNAMIC") {
        let told = source.read("sys/kernel/debug/sched/preempt").map(|text| {
            // `none voluntary (full) lazy`
            chosen(&text.replace('(', "[").replace(')', "]")).unwrap_or(text)
        });
        let asked = command_line.split_whitespace().find_map(|word| word.strip_prefix("preempt="));
        return told.or(asked.map(str::to_owned)).unwrap_or_else(|| "dynamic".to_owned());
    }
    if version.contains("PREEMPT") { "full".to_owned() } else { "none or voluntary".to_owned() }
}

fn services(source: &Source, facts: &mut Facts) {
    let processes = source.numbered("proc", "");
    if processes.is_empty() {
        return;
    }
    let names: Vec<String> =
        processes.iter().filter_map(|process| source.read(&format!("proc/{process}/comm"))).collect();
    let running: Vec<&str> =
        SERVICES.iter().copied().filter(|service| names.iter().any(|name| name == service)).collect();
    let list = if running.is_empty() { "none".to_owned() } else { running.join(", ") };
    facts.put("services.running", Some(list));
}
