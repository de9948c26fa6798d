//! DPDK's interrupt thread, held between two callbacks while a memif port is closed.
//!
//! Why: the memif driver takes a peer's memory away in that thread when the peer goes, and in the closing
//! thread when the port is closed; nothing in it keeps the two apart. (Bursts and callbacks take turns by
//! themselves: `csrc/memif.c`.)
//! Cost: holding and releasing are one wake-up each.

use crate::ffi;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many want it held.
static HOLDERS: Mutex<u32> = Mutex::new(0);

/// The interrupt thread, held until this and all others are dropped.
#[derive(Debug)]
pub(crate) struct InterruptsHeld(());

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
