//! What the machine did to a trial: time that its threads did not get, and clocks that disagree.

use crate::Held;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weir_units::Nanos;

/// What became of the cores and the clocks while a trial ran. What could not be read is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Health {
    /// The tester's thread and core.
    pub tester: Option<CoreHealth>,
    /// The DUT's forwarding threads and their core.
    pub dut: Option<CoreHealth>,
    /// Whether the tester's thread and the DUT's forwarding threads had real-time priority, so that no
    /// ordinary process took their cores.
    pub real_time: bool,
    /// What the DUT did beside forwarding.
    pub conduct: Conduct,
    /// Why a DUT that learns flows was not settled when it was measured; nothing where it was, and where no
    /// gate asked (only `fed` has one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// How far the DUT was held back from its cores, where its plan asks for a share of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Pauses of the tester: times in which it neither sent nor received.
    pub pauses: Pauses,
    /// The trial's length by two clocks.
    pub clocks: Option<Clocks>,
}

/// What a DUT's process did beside forwarding, during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Conduct {
    /// Lines it printed.
    pub lines: u64,
    /// Processes it has started and left running.
    pub children: u32,
    /// CPU time of its threads that do not forward.
    pub elsewhere: Nanos,
}

impl std::ops::Add for Conduct {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            children: self.children + other.children,
            elsewhere: Nanos(self.elsewhere.0 + other.elsewhere.0),
        }
    }
}

/// What the kernel and the hypervisor took from one side's threads during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreHealth {
    /// The core, numbered as the kernel does.
    pub core: u32,
    /// Time the hypervisor gave to others, from `/proc/stat` (in steps of 10 ms).
    pub stolen: Nanos,
    /// Time the threads could have run but waited for their core, from `schedstat`.
    pub waited: Nanos,
    /// Times the kernel took the core away (involuntary context switches).
    pub preempted: u64,
}

/// What the kernel has given a thread since its start, and kept from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReading {
    /// Time it ran, in nanosecond resolution.
    pub ran: Nanos,
    /// Time it could have run but waited for a core.
    pub waited: Nanos,
    /// Involuntary context switches.
    pub preempted: u64,
}

impl ThreadReading {
    /// Reads the calling thread.
    pub fn of_self() -> Option<Self> {
        Self::read(Path::new("/proc/thread-self"))
    }

    /// Reads a thread of any process; nothing when it is gone.
    pub fn of(process: u32, thread: u32) -> Option<Self> {
        Self::read(&PathBuf::from(format!("/proc/{process}/task/{thread}")))
    }

    /// Reads `schedstat` and `status` in a thread's folder (proc(5)).
    fn read(folder: &Path) -> Option<Self> {
        let times = fs::read_to_string(folder.join("schedstat")).ok()?;
        let mut times = times.split_whitespace().map_while(|word| word.parse().ok().map(Nanos));
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let preempted = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        Some(Self { ran: times.next()?, waited: times.next()?, preempted: preempted?.trim().parse().ok()? })
    }

    /// What came since an earlier reading of the same thread.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            ran: Nanos(self.ran.0.saturating_sub(earlier.ran.0)),
            waited: Nanos(self.waited.0.saturating_sub(earlier.waited.0)),
            preempted: self.preempted.saturating_sub(earlier.preempted),
        }
    }
}

impl std::ops::Add for ThreadReading {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ran: Nanos(self.ran.0 + other.ran.0),
            waited: Nanos(self.waited.0 + other.waited.0),
            preempted: self.preempted + other.preempted,
        }
    }
}

/// CPU time, since they began, of those threads of these processes that are not among `threads`, which are
/// given by process and thread.
pub fn ran_elsewhere(threads: &[(u32, u32)]) -> Nanos {
    let processes: BTreeSet<u32> = threads.iter().map(|(process, _)| *process).collect();
    let folders = processes.into_iter().filter_map(|process| {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
        Some(tasks.flatten().map(move |task| (process, task.file_name())))
    });
    let others = folders.flatten().filter_map(|(process, name)| {
        let thread = name.to_str()?.parse().ok()?;
        (!threads.contains(&(process, thread))).then(|| ThreadReading::of(process, thread)).flatten()
    });
    Nanos(others.map(|reading| reading.ran.0).sum())
}

/// Time the hypervisor has taken from a core since boot (`/proc/stat`, in ticks of 10 ms).
pub fn stolen(core: u32) -> Option<Nanos> {
    /// `USER_HZ`, the unit of `/proc/stat`, is 100 on every architecture Linux runs DPDK on.
    const TICK: u64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{core}");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    // user nice system idle iowait irq softirq steal
    Some(Nanos(line.split_whitespace().nth(8)?.parse::<u64>().ok()? * TICK))
}

impl CoreHealth {
    /// What became of a core's threads between two readings.
    pub fn between(
        core: u32,
        threads: (ThreadReading, ThreadReading),
        stolen: (Option<Nanos>, Option<Nanos>),
    ) -> Self {
        let threads = threads.1.since(threads.0);
        let stolen = stolen.1.unwrap_or_default().0.saturating_sub(stolen.0.unwrap_or_default().0);
        Self { core, stolen: Nanos(stolen), waited: threads.waited, preempted: threads.preempted }
    }
}

/// Pauses of more than a millisecond in the tester's loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pauses {
    /// How many.
    pub count: u32,
    /// Their sum.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// One stretch of time by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clocks {
    /// By the time stamp counter, which paces the load and stamps the packets.
    pub tsc: Nanos,
    /// By the kernel's monotonic clock.
    pub monotonic: Nanos,
}

impl Clocks {
    /// How far the two are apart.
    pub fn apart(self) -> Nanos {
        Nanos(self.tsc.0.abs_diff(self.monotonic.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_seen_to_run() {
        let before = ThreadReading::of_self().unwrap();
        let mut sum = 0_u64;
        (0..50_000_000_u64).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n)));
        let since = ThreadReading::of_self().unwrap().since(before);
        assert!(since.ran.0 > 1_000_000, "{since:?}");
        assert_eq!(ThreadReading::of(std::process::id(), u32::MAX), None);
    }

    #[test]
    fn what_other_threads_ran_is_counted_and_what_these_ran_is_not() {
        let process = std::process::id();
        let all = || ran_elsewhere(&[(process, u32::MAX)]);
        let before = all();
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        let own = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut sum = 0_u64;
        (0..50_000_000_u64).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n)));
        assert!(all().0 > before.0 + 1_000_000);
        let of_self = ThreadReading::of(process, own).unwrap().ran.0;
        assert!(ran_elsewhere(&[(process, own)]).0 + of_self / 2 < all().0);
        assert_eq!(ran_elsewhere(&[]), Nanos(0));
    }

    #[test]
    fn every_core_tells_what_was_stolen_and_no_core_tells_nothing() {
        assert!(stolen(0).is_some());
        assert_eq!(stolen(u32::MAX), None);
    }

    #[test]
    fn clocks_are_apart_whichever_is_ahead() {
        let clocks = Clocks { tsc: Nanos(5), monotonic: Nanos(9) };
        assert_eq!(clocks.apart(), Nanos(4));
    }
}
