//! Ports whose peer is not trusted: DPDK's driver for one runs in a process of its own.
//!
//! [`ring`]: packets between the two processes, copied, through memory of which nothing is believed.

#![allow(dead_code, reason = "the port that has it comes next")]

mod ring;

use weir_dpdk::SharedWords;

/// What the ring is made of, by a name that `crates/models` gives to something else.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}
