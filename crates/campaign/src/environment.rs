//! The machine, as it says itself: facts that are read, never typed.

use std::collections::BTreeMap;
use std::fs;

/// Reads the facts that stand with every run. What the machine does not tell is left out.
pub fn capture() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    put("cpu.model", field(&cpu, "model name", ':'));
    put("cpu.cores", Some(cpu.lines().filter(|line| line.starts_with("processor")).count().to_string()));
    put("cpu.microcode", field(&cpu, "microcode", ':'));
    put("cpu.governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("cpu.smt", read("/sys/devices/system/cpu/smt/active"));
    put("cpu.isolated", read("/sys/devices/system/cpu/isolated"));
    put("cpu.hypervisor", cpu.contains(" hypervisor").then(|| "yes".to_owned()));
    put("numa.nodes", read("/sys/devices/system/node/online"));
    put("memory.total", field(&memory, "MemTotal", ':'));
    put("memory.huge-pages", field(&memory, "HugePages_Total", ':'));
    put("memory.huge-page-size", field(&memory, "Hugepagesize", ':'));
    put("kernel.release", read("/proc/sys/kernel/osrelease"));
    put("kernel.command-line", read("/proc/cmdline"));
    put("os.release", field(&release, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned()));
    put("machine.product", read("/sys/class/dmi/id/product_name"));
    put("load.average", read("/proc/loadavg"));
    put("dpdk.version", Some(weir_dpdk::Eal::version()));
    facts
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Free 2-MiB huge pages.
pub fn free_huge_pages() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let two_mebibytes = field(&memory, "Hugepagesize", ':').is_some_and(|size| size == "2048 kB");
    let free = field(&memory, "HugePages_Free", ':').and_then(|count| count.parse().ok());
    free.filter(|_| two_mebibytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_its_kernel_and_its_cores() {
        let facts = capture();
        let cores: usize = facts["cpu.cores"].parse().unwrap();
        assert!(cores >= 1);
        assert!(facts["kernel.release"].contains('.'));
        assert!(facts["dpdk.version"].starts_with("DPDK "));
    }
}
