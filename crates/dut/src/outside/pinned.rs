//! Which threads of a dataplane forward.

use crate::cpu;
use std::fs;

/// The threads of a process, and of those it started, that forward: those with one of these names, or, where none is
/// given, those that may run on the forwarding core alone, as DPDK's and most others pin theirs. Process and thread.
pub(crate) fn forwarding(process: u32, names: &[&str], core: usize) -> Vec<(u32, u32)> {
    let own = if names.is_empty() { on_core(process, core) } else { cpu::threads_named(process, names) };
    let started = children(process).into_iter().flat_map(|child| forwarding(child, names, core));
    own.into_iter().map(|thread| (process, thread)).chain(started).collect()
}

/// Processes that a process has started itself.
fn children(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Threads that may run on this core alone.
fn on_core(process: u32, core: usize) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let wanted = core.to_string();
    let pinned = tasks.flatten().filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        (cores.trim() == wanted).then(|| task.file_name().to_str()?.parse().ok())?
    });
    pinned.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_its_own_core_is_found() {
        let begun = std::sync::mpsc::channel();
        let over = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            cpu::keep_to(0);
            begun.0.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = over.1.recv();
        });
        let thread = begun.1.recv().unwrap();
        let process = std::process::id();
        assert!(forwarding(process, &[], 0).contains(&(process, thread)));
        assert!(forwarding(process, &["no such name"], 0).is_empty());
        drop(over.0);
        worker.join().unwrap();
    }
}
