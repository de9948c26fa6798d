//! Rules about time: the clock, and how fast and how evenly the cores run.

use super::Verdict;
use super::machine::Machine;
use crate::environment::Claim::{Cycles, LatencyTail, Repeatability, Throughput};

/// Latency and cycles are differences of TSC readings on two cores.
pub(super) fn tsc(machine: &Machine<'_>) -> Verdict {
    let Some(flags) = machine.fact("clock.tsc-flags") else { return Verdict::Untold };
    let has = |flag| flags.split(' ').any(|word| word == flag);
    if has("constant") && has("nonstop") {
        return Verdict::good("the TSC is invariant");
    }
    let mend = if machine.in_guest() {
        "on the VM's host, then restart the VM: give its CPU the flag invtsc (QEMU: -cpu host,+invtsc)"
    } else {
        "measure on a CPU that has one; here, no deep idle states: intel_idle.max_cstate=1 processor.max_cstate=1 \
         on the kernel's command line"
    };
    Verdict::spoils(
        &[LatencyTail, Cycles],
        format!("the TSC is not invariant (flags: {flags}): its rate may change, and cores may disagree"),
        mend,
    )
}

/// The kernel uses another clock where it found the TSC wanting.
pub(super) fn source(machine: &Machine<'_>) -> Verdict {
    let Some(source) = machine.fact("clock.source") else { return Verdict::Untold };
    if source == "tsc" {
        return Verdict::good("the kernel's clock is the TSC");
    }
    let available = machine.fact("clock.available").unwrap_or_default();
    let switch =
        machine.as_host("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource");
    if available.split(' ').any(|name| name == "tsc") {
        return Verdict::weakens(
            &[LatencyTail],
            format!("the kernel's clock is {source}, though the TSC would do; trials are timed by it"),
            switch,
        );
    }
    let says =
        format!("the kernel's clock is {source} and the TSC is not offered: the kernel does not trust it");
    let why = machine.as_host("dmesg | grep -i tsc");
    match source {
        // Paravirtual clocks are the TSC, scaled by the host.
        "kvm-clock" | "hyperv_clocksource_tsc_page" => Verdict::weakens(
            &[LatencyTail],
            says,
            "on the VM's host, then restart the VM: give its CPU the flag invtsc (QEMU: -cpu host,+invtsc)",
        ),
        _ => Verdict::spoils(&[LatencyTail, Cycles], says, format!("see why: {why}")),
    }
}

/// Other governors follow the load, and a search changes the load all the time.
pub(super) fn governor(machine: &Machine<'_>) -> Verdict {
    match machine.fact("cpu.governor") {
        None => Verdict::Untold,
        Some("performance") => Verdict::good("frequency governor: performance"),
        Some(other) => Verdict::spoils(
            &[Throughput, Cycles, Repeatability],
            format!("frequency governor: {other}; cores change their frequency in the middle of trials"),
            machine.as_host("cpupower frequency-set -g performance"),
        ),
    }
}

/// Turbo depends on heat and on what other cores do.
pub(super) fn turbo(machine: &Machine<'_>) -> Verdict {
    match machine.fact("cpu.turbo") {
        None => Verdict::Untold,
        Some("off") => Verdict::good("turbo is off"),
        Some(_) => {
            let driver = machine.fact("cpu.frequency-driver").unwrap_or_default();
            let switch = if driver.starts_with("intel_") {
                "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
            } else {
                "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
            };
            Verdict::spoils(
                &[Cycles, Repeatability],
                "turbo is on: the frequency follows heat and the other cores' load, and TSC ticks are not cycles",
                machine.as_host(switch),
            )
        }
    }
}

/// The NMI watchdog takes a performance counter and interrupts every core.
pub(super) fn watchdog(machine: &Machine<'_>) -> Verdict {
    match machine.fact("kernel.nmi-watchdog") {
        None => Verdict::Untold,
        Some("0") => Verdict::good("no NMI watchdog"),
        Some(_) => Verdict::weakens(
            &[LatencyTail],
            "the NMI watchdog interrupts every core and holds one of its performance counters",
            machine.as_host("sysctl -w kernel.nmi_watchdog=0"),
        ),
    }
}

/// Exit latency, in microseconds, from which an idle state is seen in the latency of a device that
/// sleeps.
const DEEP: u64 = 10;

/// Cores that poll never sleep, but the kernel's own forwarding does.
pub(super) fn idle(machine: &Machine<'_>) -> Verdict {
    let Some(states) = machine.fact("cpu.idle-states") else { return Verdict::Untold };
    let deep: Vec<&str> = states
        .split(", ")
        .filter(|state| !state.ends_with("(disabled)"))
        .filter(|state| {
            let latency = state.strip_suffix(" µs").and_then(|state| state.rsplit_once(' '));
            latency.and_then(|(_, us)| us.parse::<u64>().ok()).is_some_and(|us| us > DEEP)
        })
        .collect();
    if deep.is_empty() {
        return Verdict::good(format!("no idle state takes longer than {DEEP} µs to leave"));
    }
    Verdict::weakens(
        &[LatencyTail],
        format!(
            "idle states that take long to leave: {}; devices that do not poll answer later",
            deep.join(", ")
        ),
        machine.as_host(format!("cpupower idle-set -D {DEEP}")),
    )
}
