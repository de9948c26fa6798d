//! Ports whose peer is not trusted: DPDK's driver for one runs in a process of its own, the *helper*.
//!
//! - [`ring`]: packets between the two processes, copied, through memory of which nothing is believed;
//! - [`helper`]: the helper's own program ([`serve`]); [`lines`]: what it says.

#![allow(dead_code, reason = "the port that has it comes next")]

mod helper;
mod lines;
mod ring;

use weir_dpdk::SharedWords;

/// What the ring is made of, by a name that `crates/models` gives to something else.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

pub use helper::{GiveUp, HelperConfig, Step, serve};

/// Whether a port of DPDK's connects to its peer, again and again, and does not wait for it.
pub(crate) fn connects(port: &str) -> bool {
    !port.starts_with("net_memif") && port.split(',').any(|argument| argument == "client=1")
}
