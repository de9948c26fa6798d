//! Rules about everybody else: other programs, services, the hypervisor.

use super::Verdict;
use super::machine::{Machine, percent};
use crate::environment::Claim::{Cycles, LatencyTail, Portability, Repeatability, Throughput};

/// Share of a core from which a process is a neighbour to fear.
const BUSY: f64 = 0.1;
/// How many are named.
const NAMED: usize = 4;

/// Programs that take more than a tenth of a core.
pub(super) fn busy(machine: &Machine<'_>) -> Verdict {
    let Some(neighbours) = &machine.measured.neighbours else { return Verdict::Untold };
    let busy: Vec<_> = neighbours.iter().filter(|other| other.share >= BUSY).collect();
    if busy.is_empty() {
        return Verdict::good("no other program is busy");
    }
    let total: f64 = busy.iter().map(|other| other.share).sum();
    let named: Vec<String> = busy
        .iter()
        .take(NAMED)
        .map(|other| format!("{} (process {}) {}", other.name, other.process, percent(other.share)))
        .collect();
    let more = if busy.len() > NAMED { format!(" and {} more", busy.len() - NAMED) } else { String::new() };
    let numbers: Vec<String> = busy
        .iter()
        .filter(|other| !other.kernel)
        .take(NAMED)
        .map(|other| other.process.to_string())
        .collect();
    let numbers = numbers.join(" ");
    let mend = if numbers.is_empty() {
        "nobody can halt the kernel's own threads: see what they do, and end what makes them: ps -eo pid,comm,wchan"
            .to_owned()
    } else {
        format!(
            "wait for them, or halt them meanwhile: kill -STOP {numbers} (afterwards: kill -CONT {numbers})"
        )
    };
    Verdict::spoils(
        &[Throughput, LatencyTail, Repeatability],
        format!("other programs use {} of a core: {}{more}", percent(total), named.join(", ")),
        mend,
    )
}

/// Time that the hypervisor says it gave to others.
pub(super) fn steal(machine: &Machine<'_>) -> Verdict {
    let Some(steal) = machine.measured.steal else { return Verdict::Untold };
    if steal <= 0.0 {
        let since = machine.fact("virtual.steal").unwrap_or("unknown since boot");
        return Verdict::good(format!("no time was stolen just now ({since})"));
    }
    Verdict::spoils(
        &[Throughput, LatencyTail, Repeatability],
        format!("the hypervisor gave {} of the CPU time to others", percent(steal)),
        "on the VM's host (libvirt), one host core for each virtual CPU and nothing else on it: virsh vcpupin DOMAIN VCPU \
         HOSTCORE; in a cloud: an instance with dedicated cores",
    )
}

/// Moves interrupts to other cores every ten seconds.
pub(super) fn irqbalance(machine: &Machine<'_>) -> Verdict {
    let Some(running) = machine.fact("services.running") else { return Verdict::Untold };
    if running.split(", ").any(|service| service == "irqbalance") {
        return Verdict::weakens(
            &[LatencyTail, Repeatability],
            "irqbalance is running: it may move interrupts to the cores of tester and DUT at any time",
            machine.as_host("systemctl stop irqbalance"),
        );
    }
    if machine.in_container() {
        // The host's services cannot be seen from here.
        return Verdict::Untold;
    }
    Verdict::good("irqbalance is not running")
}

/// A virtual machine's figures are the virtual machine's.
pub(super) fn hypervisor(machine: &Machine<'_>) -> Verdict {
    match machine.fact("virtual.hypervisor") {
        None if machine.fact("clock.tsc-flags").is_none() => Verdict::Untold,
        None => Verdict::good("bare metal"),
        Some(kind) => Verdict::weakens(
            &[Portability, Cycles],
            format!(
                "a virtual machine ({kind}): absolute figures hold for it alone, not for its CPU on bare metal"
            ),
            "compare devices within this machine only: weir bench --dut nf,testpmd; for absolute figures use bare metal",
        ),
    }
}
