//! Cores that stand still: a thread on each reads the TSC as fast as it can, and every gap is time
//! in which nobody could have forwarded a packet.
//!
//! Hypervisors take cores away without counting it as stolen, firmware stops them without telling
//! anybody, and other programs are given them by the scheduler; the loop sees all three. The
//! scheduler's own account of how long the thread waited for its core tells the last apart from the
//! others. Cost: each core is busy for the time asked. Threads: one pinned thread a core.

use super::Verdict;
use super::machine::{Machine, percent};
use crate::environment::Claim::{LatencyTail, Repeatability, Throughput};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs;
use std::time::Duration;
use weir_cpu::Ticks;
use weir_units::Nanos;

/// Gaps from this length count: ten times what a timer interrupt takes.
pub const STALL: Nanos = Nanos(50_000);
/// A gap from which a DUT loses packets: a ring of 1024 descriptors at 7 Mpps fills in this time.
const LOSES: Nanos = Nanos(146_000);
/// How long ticks are compared with the clock before the loop begins.
const CALIBRATION: Duration = Duration::from_millis(20);
/// Readings between two looks at the end of the loop.
const BATCH: u32 = 1024;

/// Gaps of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoreStalls {
    /// The core.
    pub core: usize,
    /// How long it was watched.
    pub watched: Nanos,
    /// Gaps of 50 µs and more.
    pub gaps: u32,
    /// The longest of them.
    pub longest: Nanos,
    /// All of them together.
    pub lost: Nanos,
    /// Time the thread waited for its core because other threads of this system had it (`schedstat`).
    pub waited: Nanos,
    /// Times the scheduler took the core away from the thread.
    pub switches: u64,
}

impl CoreStalls {
    /// Share of the time that was lost in gaps.
    pub fn share(&self) -> f64 {
        self.lost.0 as f64 / self.watched.0.max(1) as f64
    }
}

/// Watches cores, all at once, for a while. A core that may not be used is left out.
pub fn watch_cores(cores: &[usize], during: Duration) -> Vec<CoreStalls> {
    let threads: Vec<_> = cores
        .iter()
        .filter_map(|&core| {
            let thread = std::thread::Builder::new().name("weir-doctor".to_owned());
            thread.spawn(move || watch(core, during)).ok()
        })
        .collect();
    threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn watch(core: usize, during: Duration) -> Option<CoreStalls> {
    let mut set = CpuSet::new();
    set.set(core).ok()?;
    sched_setaffinity(Pid::from_raw(0), &set).ok()?;
    let nanos_per_tick = calibrate();
    let threshold = (STALL.0 as f64 / nanos_per_tick) as u64;
    let length = (during.as_nanos() as f64 / nanos_per_tick) as u64;
    let before = account();
    let (mut gaps, mut longest, mut lost) = (0, 0, 0);
    let began = Ticks::now();
    let mut last = began;
    while last.since(began) < length {
        for _ in 0..BATCH {
            let now = Ticks::now();
            let gap = now.since(last);
            if gap >= threshold {
                gaps += 1;
                lost += gap;
                longest = longest.max(gap);
            }
            last = now;
        }
    }
    let after = account();
    let nanos = |ticks: u64| Nanos((ticks as f64 * nanos_per_tick) as u64);
    Some(CoreStalls {
        core,
        watched: nanos(last.since(began)),
        gaps,
        longest: nanos(longest),
        lost: nanos(lost),
        waited: Nanos(after.0.saturating_sub(before.0)),
        switches: after.1.saturating_sub(before.1),
    })
}

/// Nanoseconds a tick.
fn calibrate() -> f64 {
    let (ticks, clock) = Ticks::with_clock();
    while clock.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (ticks_now, clock_now) = Ticks::with_clock();
    clock_now.duration_since(clock).as_nanos() as f64 / ticks_now.since(ticks).max(1) as f64
}

/// Nanoseconds this thread has waited for a core, and how often one was taken from it.
fn account() -> (u64, u64) {
    let waited = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = waited.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let switches =
        status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok());
    (waited.unwrap_or(0), switches.unwrap_or(0))
}

pub(super) fn rule(machine: &Machine<'_>) -> Verdict {
    let stalls = &machine.measured.stalls;
    let Some(worst) = stalls.iter().max_by_key(|core| core.longest) else { return Verdict::Untold };
    let watched = worst.watched.0 as f64 / 1e9;
    if stalls.iter().all(|core| core.gaps == 0) {
        return Verdict::good(format!("no core stood still for {STALL} or longer in {watched:.1} s"));
    }
    let each = stalls.iter().filter(|core| core.gaps > 0).map(|core| {
        let times = if core.gaps == 1 { "once".to_owned() } else { format!("{} times", core.gaps) };
        let (longest, share) = (core.longest, percent(core.share()));
        format!("core {} {times} ({share} of the time, {longest} at the longest)", core.core)
    });
    let each = each.collect::<Vec<_>>().join(" and ");
    let (lost, waited): (u64, u64) =
        stalls.iter().fold((0, 0), |sum, core| (sum.0 + core.lost.0, sum.1 + core.waited.0));
    let here = waited as f64 / lost.max(1) as f64;
    let (cause, mend) = cause(machine, here);
    let says = format!("within {watched:.1} s, {each} stood still; {cause}");
    if worst.longest >= LOSES {
        Verdict::spoils(&[Throughput, LatencyTail, Repeatability], says, mend)
    } else {
        Verdict::weakens(&[LatencyTail], says, mend)
    }
}

/// Who took the cores, by the share of the lost time in which other threads here had them.
fn cause(machine: &Machine<'_>, here: f64) -> (String, String) {
    let dedicate = "on the VM's host (libvirt), one host core for each virtual CPU and nothing else on it: \
                    virsh vcpupin DOMAIN VCPU HOSTCORE";
    let stop = "end the other programs (`busy neighbours`), or keep them off the cores (`isolation`)";
    if here >= 0.5 {
        let part = if here >= 0.995 { "all".to_owned() } else { percent(here) };
        let cause = format!("other programs of this system had them {part} of that time");
        return (cause, stop.to_owned());
    }
    let rest = if here < 0.005 { "all".to_owned() } else { percent(1.0 - here) };
    if machine.in_guest() {
        let cause =
            format!("{rest} of that time no other program here had them: the VM's host did, or interrupts");
        return (cause, dedicate.to_owned());
    }
    let cause = format!("{rest} of that time no other program had them: interrupts or the firmware did");
    let trace = "echo hwlat > /sys/kernel/tracing/current_tracer";
    let mend = format!(
        "isolate the cores (`isolation`); if it stays, the firmware does it (turn power saving off in its setup), and this shows it: {}",
        machine.as_host(trace)
    );
    (cause, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_core_gives_an_account_that_adds_up() {
        let core = weir_cpu::allowed_cores()[0];
        let found = watch_cores(&[core], Duration::from_millis(100));
        let [stalls] = found.as_slice() else { panic!("one core, one account") };
        assert_eq!(stalls.core, core);
        assert!(stalls.watched >= Nanos(90_000_000), "{stalls:?}");
        assert!(stalls.lost <= stalls.watched && stalls.longest <= stalls.lost, "{stalls:?}");
        assert!((stalls.gaps == 0) == (stalls.longest == Nanos(0)));
        assert!(stalls.gaps == 0 || stalls.longest >= STALL);
    }

    #[test]
    fn a_neighbour_on_the_core_is_seen_as_gaps_in_which_the_thread_waited() {
        let core = weir_cpu::allowed_cores()[0];
        let hold = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let held = std::sync::Arc::clone(&hold);
        let (tell, hear) = std::sync::mpsc::channel();
        let neighbour = std::thread::spawn(move || {
            let mut set = CpuSet::new();
            set.set(core).unwrap();
            sched_setaffinity(Pid::from_raw(0), &set).unwrap();
            tell.send(()).unwrap();
            while held.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        hear.recv().unwrap();
        let found = watch_cores(&[core], Duration::from_millis(300));
        hold.store(false, std::sync::atomic::Ordering::Relaxed);
        neighbour.join().unwrap();
        let stalls = found[0];
        assert!(stalls.gaps > 0 && stalls.share() > 0.2, "{stalls:?}");
        // Not compared with what was lost: a hypervisor may have taken the rest.
        assert!(stalls.waited.0 as f64 > 0.2 * stalls.watched.0 as f64, "{stalls:?}");
    }

    #[test]
    fn a_core_that_is_not_there_is_left_out() {
        assert!(watch_cores(&[100_000], Duration::from_millis(1)).is_empty());
    }
}
