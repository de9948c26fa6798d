//! vhost's event thread, woken when it has a new socket to listen at.
//!
//! Why: DPDK's vhost library polls all its sockets on one thread, a second at a time, and adds the one at which a
//! port listens without telling that thread; its peer would wait for the rest of that second. A signal ends the poll.
//! Cost: a look at this process's threads and a signal, for each port that listens.

use std::fs;
use std::sync::Once;

/// The thread's name.
const EVENTS: &str = "vhost-events";

/// Ends a poll and does nothing else. Nobody else's: it is ignored where nobody handles it.
const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// Has the thread look at its sockets anew. One that begins to poll at this very moment does so within a second, as
/// without it.
pub(crate) fn wake() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        // SAFETY: all zeros are an action without flags and mask, filled in below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        // What the thread does between two polls goes on; a poll never does.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is whole, and its handler touches nothing.
        unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    });
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let is_events =
            fs::read(thread.path().join("comm")).is_ok_and(|name| name.trim_ascii() == EVENTS.as_bytes());
        let number = thread.file_name().to_str().and_then(|number| number.parse::<libc::pid_t>().ok());
        if let Some(number) = number.filter(|_| is_events) {
            // SAFETY: tgkill touches no memory, and reaches threads of this process only.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, SIGNAL) };
        }
    }
}
