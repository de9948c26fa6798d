//! How fast the cores run, and how deep they sleep.

use super::core_list;
use super::cpu::online;
use super::facts::Facts;
use super::source::{Source, field};
use std::collections::BTreeMap;

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn read(source: &Source, facts: &mut Facts) {
    let cores = online(source);
    let each = |name: &str| -> Vec<(usize, String)> {
        let read = |core: &usize| Some((*core, source.read(&format!("{CPUS}/cpu{core}/cpufreq/{name}"))?));
        cores.iter().filter_map(read).collect()
    };
    facts.put("cpu.governor", by_core(each("scaling_governor")));
    facts.put("cpu.frequency-driver", by_core(each("scaling_driver")));
    facts.put("cpu.frequency-preference", by_core(each("energy_performance_preference")));
    let least = each("cpuinfo_min_freq").into_iter().chain(each("cpuinfo_max_freq"));
    facts.put("cpu.frequency-range", megahertz(least.filter_map(kilohertz)));
    let limits = each("scaling_min_freq").into_iter().chain(each("scaling_max_freq"));
    facts.put("cpu.frequency-limits", megahertz(limits.filter_map(kilohertz)));
    let now = megahertz(each("scaling_cur_freq").into_iter().filter_map(kilohertz));
    facts.put("cpu.frequency-now", now.or_else(|| nominal(source)));
    facts.put("cpu.turbo", turbo(source));
    facts.put("cpu.idle-driver", source.read(&format!("{CPUS}/cpuidle/current_driver")));
    facts.put("cpu.idle-governor", source.read(&format!("{CPUS}/cpuidle/current_governor")));
    facts.put("cpu.idle-states", idle_states(source));
}

/// One value for all cores, or `performance on 0-3, powersave on 4-7`.
fn by_core(values: Vec<(usize, String)>) -> Option<String> {
    let mut cores: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    values.into_iter().for_each(|(core, value)| cores.entry(value).or_default().push(core));
    if cores.len() <= 1 {
        return cores.into_keys().next();
    }
    let parts = cores.iter().map(|(value, cores)| format!("{value} on {}", core_list::format(cores)));
    Some(parts.collect::<Vec<_>>().join(", "))
}

fn kilohertz((_, text): (usize, String)) -> Option<f64> {
    text.parse::<f64>().ok().map(|kilohertz| kilohertz / 1e3)
}

/// `2596 MHz`, or `800 to 3500 MHz` where they differ.
fn megahertz(values: impl Iterator<Item = f64>) -> Option<String> {
    let values: Vec<u64> = values.map(|value| value.round() as u64).collect();
    let (least, most) = (values.iter().min()?, values.iter().max()?);
    Some(if least == most { format!("{least} MHz") } else { format!("{least} to {most} MHz") })
}

/// Without cpufreq (most virtual machines) the kernel tells what it calibrated.
fn nominal(source: &Source) -> Option<String> {
    let info = source.text("proc/cpuinfo");
    let cores = info.split("\n\n").filter_map(|core| field(core, "cpu MHz", ':')?.parse().ok());
    megahertz(cores)
}

/// Whether cores may run above their nominal frequency: `intel_pstate`, else `acpi-cpufreq` and
/// `amd-pstate`.
fn turbo(source: &Source) -> Option<&'static str> {
    let never = source.number(&format!("{CPUS}/intel_pstate/no_turbo")).map(|no| no == 0);
    let boost = || source.number(&format!("{CPUS}/cpufreq/boost")).map(|boost| boost == 1);
    Some(if never.or_else(boost)? { "on" } else { "off" })
}

/// `POLL 0 µs, C1 2 µs, C6 133 µs (disabled)`: states of the first core and the time to leave each.
fn idle_states(source: &Source) -> Option<String> {
    let folder = format!("{CPUS}/cpu0/cpuidle");
    let states = source.numbered(&folder, "state").into_iter().filter_map(|state| {
        let read = |name: &str| source.read(&format!("{folder}/state{state}/{name}"));
        let disabled = read("disable").is_some_and(|disable| disable != "0");
        let note = if disabled { " (disabled)" } else { "" };
        Some(format!("{} {} µs{note}", read("name")?, read("latency")?))
    });
    Some(states.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_differ_are_told_apart() {
        let governors = |of: &[&str]| by_core(of.iter().map(|name| (*name).to_owned()).enumerate().collect());
        assert_eq!(governors(&["performance", "performance"]).unwrap(), "performance");
        assert_eq!(governors(&["a", "b", "b"]).unwrap(), "a on 0, b on 1-2");
        assert_eq!(governors(&[]), None);
        assert_eq!(megahertz([800.2, 3500.0].into_iter()).unwrap(), "800 to 3500 MHz");
    }
}
