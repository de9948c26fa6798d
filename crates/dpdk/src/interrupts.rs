//! DPDK's interrupt thread, held while memif ports are polled or closed.
//!
//! Why: when its peer dies, the memif driver unmaps the shared memory in that thread, without asking
//! whether somebody is reading it, and a poller that was in the middle of a burst takes the process
//! along. While the thread is held the memory stays; the peer's end is dealt with afterwards. A port
//! is closed while it is held too, or both would take the memory away at once.
//! Cost: nothing while it is held; holding and releasing are one wake-up each.

use crate::ffi;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many want it held.
static HOLDERS: Mutex<u32> = Mutex::new(0);

/// The interrupt thread, held until this and all others are dropped.
#[derive(Debug)]
pub struct InterruptsHeld(());

/// Holds it; nothing where DPDK would not.
pub(crate) fn hold() -> Option<InterruptsHeld> {
    let mut holders = holders();
    // SAFETY: the EAL runs, for a port exists; the lock lets one caller in at a time, and the first only.
    if *holders == 0 && unsafe { ffi::weir_interrupts_hold() } != 0 {
        return None;
    }
    *holders += 1;
    Some(InterruptsHeld(()))
}

fn holders() -> MutexGuard<'static, u32> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for InterruptsHeld {
    fn drop(&mut self) {
        let mut holders = holders();
        *holders -= 1;
        if *holders == 0 {
            // SAFETY: held since the first `hold`, and released by the last holder only.
            unsafe { ffi::weir_interrupts_release() };
        }
    }
}
