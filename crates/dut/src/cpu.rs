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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

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
}
