//! The cores that a thread may run on.

use std::io;

/// Keeps the calling thread on one core.
///
/// # Errors
/// The system's reason, if the core is not one that this process may use.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the number is out of range"));
    }
    // SAFETY: cpu_set_t is plain data, for which zero is valid; CPU_SET is bounded by the check above.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cores this thread may run on, rising.
pub fn allowed_cores() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data; the kernel fills at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: the index is below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_its_core_alone_and_one_that_is_not_there_is_refused() {
        let last = *allowed_cores().last().expect("a thread runs somewhere");
        let pinned = std::thread::spawn(move || pin(last).map(|()| allowed_cores()));
        assert_eq!(pinned.join().unwrap().unwrap(), [last]);
        assert_eq!(pin(1 << 20).unwrap_err().to_string(), "the number is out of range");
        let before = allowed_cores();
        assert!(pin(libc::CPU_SETSIZE as usize - 1).is_err());
        assert_eq!(allowed_cores(), before);
    }
}
