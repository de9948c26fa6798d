//! CPU time of another process's threads, from `/proc`.

use std::fs;
use weir_trial::health::ThreadReading;
use weir_units::Nanos;

/// CPU time a thread has used; nothing when the thread is gone.
pub fn thread_cpu(process: u32, thread: u32) -> Option<Nanos> {
    ThreadReading::of(process, thread).map(|reading| reading.ran)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_cpu_time_and_can_be_found_by_name() {
        let worker = std::thread::Builder::new().name("weir-busy".into()).spawn(|| {
            let mut sum = 0_u64;
            (0..200_000_000_u64).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n)));
            sum
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        let process = std::process::id();
        let found = threads_named(process, &["weir-busy"]);
        assert_eq!(found.len(), 1);
        assert!(thread_cpu(process, found[0]).unwrap().0 > 0);
        worker.unwrap().join().unwrap();
        assert_eq!(thread_cpu(process, u32::MAX), None);
    }
}
