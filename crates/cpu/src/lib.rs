//! What the CPU and the kernel offer a packet program, and neither DPDK nor a device is needed for. Beside
//! `crates/dpdk` the only home of `unsafe` in Weir.
//!
//! - [`Ticks`], [`Tsc`]: the time stamp counter; [`hypervisor`]: under whose it ticks.
//! - [`prefetch()`], [`prefetch_whole`], [`prefer_huge_pages`], [`equal_words`]: what tables that are looked up for each
//!   packet need.
//! - [`aes`]: AES-128-CBC over many texts at once, by the CPU's instructions.
//! - [`allowed_cores`], [`pin`]: the cores that a thread may run on.
//! - [`offload`], [`set_offload`]: what network interfaces do for the kernel.
//! - [`BpfProgram`]: programs of ours in the kernel.
//! - [`PowerHint`], [`fine_timers`]: how a thread waits; [`RealTime`]: real-time priority for threads, for a while;
//!   [`Lease`]: the same, for so long at most; [`give_way`]: the least priority.
//! - [`cpu_time`], [`cpu_time_of`]: how much time threads have had.
//! - [`CountingAllocator`], [`Heap`]: how much memory a stretch of code took.
//!
//! Threads: each function is for any thread, and speaks of the calling one unless it says otherwise.

#![allow(
    unsafe_code,
    reason = "vector instructions, the time stamp counter and calls of the C library; each says why it is sound"
)]

pub mod aes;
mod allocator;
mod bpf;
mod cores;
mod equal;
mod ethtool;
mod huge;
mod pause;
mod prefetch;
mod priority;
mod time;
mod tsc;

pub use allocator::{CountingAllocator, Heap};
pub use bpf::{BpfLink, BpfPrefixes, BpfProgram};
pub use cores::{allowed_cores, pin};
pub use equal::equal_words;
pub use ethtool::{offload, set_offload};
pub use huge::prefer_huge_pages;
pub use pause::{PowerHint, fine_timers};
pub use prefetch::{prefetch, prefetch_whole};
pub use priority::{Lease, RealTime, give_way};
pub use time::{cpu_time, cpu_time_of};
pub use tsc::{Ticks, Tsc, hypervisor};
