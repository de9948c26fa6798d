//! How much of the cores' time a thread has had.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// CPU time of a thread of this process, by its number; nothing where the system does not tell, or the thread is gone.
pub fn cpu_time(thread: u32) -> Option<Duration> {
    ran(&Path::new("/proc/self/task").join(thread.to_string()))
}

/// CPU time of all threads of a process, this one or another of the same user; nothing where the system does not tell.
pub fn cpu_time_of(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task")).ok()?;
    Some(threads.filter_map(|thread| ran(&thread.ok()?.path())).sum())
}

/// The first word of `schedstat` in a thread's folder (proc(5)): nanoseconds.
fn ran(folder: &Path) -> Option<Duration> {
    let text = fs::read_to_string(folder.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_has_had_time_and_its_process_at_least_as_much() {
        let own = fs::read_link("/proc/thread-self").unwrap();
        let own: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let before = cpu_time(own).unwrap();
        while cpu_time(own).unwrap() < before + Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let (thread, process) = (cpu_time(own).unwrap(), cpu_time_of(std::process::id()).unwrap());
        assert!(process >= thread && thread > before, "{before:?} {thread:?} {process:?}");
        assert_eq!((cpu_time(u32::MAX), cpu_time_of(u32::MAX)), (None, None));
    }
}
