//! Rules about memory.

use super::Verdict;
use super::machine::Machine;
use crate::environment::Claim::{Cycles, LatencyTail, Repeatability, Throughput};
use crate::runner::ENOUGH_HUGE_PAGES;

/// What the lab and a device take at most at the default sizes, with room for the traces.
const ROOM_KB: f64 = 2.0 * 1024.0 * 1024.0;
/// The count that commands name: a little more than what is needed.
pub(super) const RESERVE: u64 = 1024;

/// Tester and DUT each hold some hundred MB of packet buffers, and traces in memory.
pub(super) fn room(machine: &Machine<'_>) -> Verdict {
    let Some(available) = machine.number("memory.available") else { return Verdict::Untold };
    let limit = machine.number("virtual.memory-limit").unwrap_or(f64::INFINITY);
    let room = available.min(limit);
    let gigabytes = |kb: f64| format!("{:.1} GiB", kb / 1024.0 / 1024.0);
    if room >= ROOM_KB {
        return Verdict::good(format!("{} of memory to take", gigabytes(room)));
    }
    let mend = if limit < available {
        "on the container's host: docker update --memory 4g --memory-swap 4g CONTAINER".to_owned()
    } else {
        "end what holds most: ps -eo pid,rss,comm --sort=-rss | head".to_owned()
    };
    Verdict::spoils(
        &[Throughput, Repeatability],
        format!(
            "{} of memory to take; tester and DUT want {} together, else they swap or are killed",
            gigabytes(room),
            gigabytes(ROOM_KB)
        ),
        mend,
    )
}

/// Packet buffers in small pages miss the translation buffers.
pub(super) fn huge_pages(machine: &Machine<'_>) -> Verdict {
    let (Some(total), Some(free)) =
        (machine.number("memory.huge-pages.2M.total"), machine.number("memory.huge-pages.2M.free"))
    else {
        return Verdict::Untold;
    };
    let (total, free) = (total as u64, free as u64);
    if free >= ENOUGH_HUGE_PAGES {
        return on_its_node(machine, free);
    }
    let want = total - free.min(total) + RESERVE;
    let held = if total > free { format!(", {} are held by others", total - free) } else { String::new() };
    Verdict::spoils(
        &[Throughput, Cycles],
        format!(
            "{free} huge pages of 2 MiB are free{held}; {ENOUGH_HUGE_PAGES} are needed, and without them figures are lower"
        ),
        machine.as_host(format!("sysctl -w vm.nr_hugepages={want}")),
    )
}

/// Pages on another node than the DUT are no near memory.
fn on_its_node(machine: &Machine<'_>, free: u64) -> Verdict {
    let node = machine.roles().and_then(|roles| machine.node(roles.dut));
    let near = node.and_then(|node| machine.number(&format!("numa.node.{node}.huge-pages.2M.free")));
    match (node, near) {
        (Some(node), Some(near)) if (near as u64) < ENOUGH_HUGE_PAGES => Verdict::weakens(
            &[Throughput, Cycles],
            format!("{free} huge pages are free, but {near} of them on the DUT's NUMA node {node}"),
            machine.as_host(format!(
                "echo {RESERVE} > /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
            )),
        ),
        _ => Verdict::good(format!("{free} huge pages of 2 MiB are free")),
    }
}

/// A page that comes back from disk takes milliseconds.
pub(super) fn swap(machine: &Machine<'_>) -> Verdict {
    match machine.number("memory.swap-used") {
        None => Verdict::Untold,
        Some(0.0) => Verdict::good("no swap in use"),
        Some(used) => Verdict::weakens(
            &[LatencyTail],
            format!("{:.0} MiB are swapped out; to bring a page back takes milliseconds", used / 1024.0),
            machine.as_host("swapoff -a"),
        ),
    }
}

/// `always` lets the kernel stop a program to merge its pages.
pub(super) fn transparent(machine: &Machine<'_>) -> Verdict {
    match machine.fact("memory.transparent-huge-pages") {
        None => Verdict::Untold,
        Some("always") => Verdict::weakens(
            &[LatencyTail, Repeatability],
            "transparent huge pages: always; the kernel merges pages while trials run, or does not",
            machine.as_host("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        Some(other) => Verdict::good(format!("transparent huge pages: {other}")),
    }
}

/// Balancing unmaps pages to see who uses them.
pub(super) fn balancing(machine: &Machine<'_>) -> Verdict {
    match machine.fact("memory.numa-balancing") {
        None => Verdict::Untold,
        Some("0") => Verdict::good("no automatic NUMA balancing"),
        Some(_) if machine.fact("numa.nodes").is_some_and(|nodes| !nodes.contains(['-', ','])) => {
            Verdict::good("one NUMA node, nothing to balance")
        }
        Some(_) => Verdict::weakens(
            &[LatencyTail],
            "automatic NUMA balancing unmaps pages while trials run, to see who uses them",
            machine.as_host("sysctl -w kernel.numa_balancing=0"),
        ),
    }
}
