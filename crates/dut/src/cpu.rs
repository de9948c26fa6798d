//! CPU time of another process's threads, from `/proc`, and which core a process gets.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::process::{Child, Command};
use weir_trial::health::ThreadReading;
use weir_units::Nanos;

/// CPU time a thread has used; nothing when the thread is gone.
pub fn thread_cpu(process: u32, thread: u32) -> Option<Nanos> {
    ThreadReading::of(process, thread).map(|reading| reading.ran)
}

/// Time that the kernel has spent on a core in hard and soft interrupts since boot, those that its thread `ksoftirqd`
/// handled included (`/proc/stat`, proc(5)), in steps of 10 ms; nothing where the core is not there.
pub(crate) fn interrupt_time(core: usize) -> Option<Nanos> {
    interrupts(&fs::read_to_string("/proc/stat").ok()?, core)
}

fn interrupts(stat: &str, core: usize) -> Option<Nanos> {
    /// `USER_HZ`, the unit of `/proc/stat`, is 100 on every architecture Linux runs DPDK on.
    const TICK: u64 = 10_000_000;
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    // user nice system idle iowait irq softirq steal
    let ticks: Vec<u64> =
        line.split_whitespace().skip(6).take(2).filter_map(|word| word.parse().ok()).collect();
    (ticks.len() == 2).then(|| Nanos(ticks.iter().sum::<u64>() * TICK))
}

/// Threads of a process whose name begins with one of these.
pub(crate) fn threads_named(process: u32, prefixes: &[&str]) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let threads = tasks.flatten().filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let wanted = prefixes.iter().any(|prefix| name.starts_with(prefix));
        wanted.then(|| task.file_name().to_str()?.parse().ok()).flatten()
    });
    threads.collect()
}

/// The process and thread of this name that a process has started, directly or through others; nothing while there
/// is none.
pub(crate) fn descendant(process: u32, name: &str) -> Option<(u32, u32)> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse().ok()).find_map(|child: u32| {
        let here = threads_named(child, &[name]).first().map(|thread| (child, *thread));
        here.or_else(|| descendant(child, name))
    })
}

/// The core that a thread is kept to, by its number; nothing of one that may run on several, or is gone.
pub fn core_of(thread: u32) -> Option<usize> {
    let cores = sched_getaffinity(Pid::from_raw(i32::try_from(thread).ok()?)).ok()?;
    let mut allowed = (0..CpuSet::count()).filter(|core| cores.is_set(*core).unwrap_or(false));
    allowed.next().filter(|_| allowed.next().is_none())
}

/// Starts a process on one core: a process that begins goes to the core with the least ordinary work, and one that
/// forwards at real-time priority counts as none.
pub(crate) fn spawn_on(core: usize, command: &mut Command) -> io::Result<Child> {
    let own = Pid::from_raw(0);
    let before = sched_getaffinity(own)?;
    let mut there = CpuSet::new();
    there.set(core)?;
    // A process has the cores of the thread that starts it.
    sched_setaffinity(own, &there)?;
    let child = command.spawn();
    sched_setaffinity(own, &before)?;
    child
}

/// Keeps the calling thread to a core; one that this process may not use is none to keep to.
pub(crate) fn keep_to(core: usize) {
    let mut only = CpuSet::new();
    let _ = only.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn interrupts_are_those_of_the_core_hard_and_soft() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu10 1 2 3 4 5 60 700 8 0 0\nintr 12 6 7\n";
        assert_eq!(interrupts(stat, 0), Some(Nanos(130_000_000)));
        assert_eq!(interrupts(stat, 10), Some(Nanos(7_600_000_000)));
        assert_eq!((interrupts(stat, 1), interrupts("cpu0 1 2", 0)), (None, None));
        assert!(interrupt_time(0).is_some(), "this machine says");
    }

    #[test]
    fn a_busy_thread_uses_cpu_time_and_can_be_found_by_name() {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let worker = std::thread::Builder::new().name("weir-busy".into()).spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let process = std::process::id();
        let begin = Instant::now();
        // It names itself, and has a core, when the system lets it.
        let used = loop {
            let found = threads_named(process, &["weir-busy"]);
            assert!(found.len() <= 1, "{found:?}");
            let used = found.first().and_then(|thread| thread_cpu(process, *thread));
            if used.is_some_and(|used| used.0 > 0) || begin.elapsed() > Duration::from_secs(20) {
                break used;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        over.store(true, Ordering::Relaxed);
        worker.unwrap().join().unwrap();
        assert!(used.is_some_and(|used| used.0 > 0), "{used:?}");
        assert_eq!(thread_cpu(process, u32::MAX), None);
    }

    #[test]
    fn a_process_gets_the_core_that_is_named_and_its_starter_keeps_its_own() {
        let cores = || {
            let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|core| own.is_set(*core).unwrap()).collect::<Vec<_>>()
        };
        let before = cores();
        for core in [before[0], before[before.len() - 1]] {
            let mut command = Command::new("grep");
            command.args(["Cpus_allowed_list", "/proc/self/status"]).stdout(Stdio::piped());
            let output = spawn_on(core, &mut command).unwrap().wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.split_whitespace().last(), Some(core.to_string().as_str()), "{text}");
            assert_eq!(cores(), before);
        }
    }
}
