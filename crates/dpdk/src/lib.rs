//! DPDK, safely: the only home of FFI and of `unsafe` in Weir.
//!
//! - [`Eal`]: DPDK's environment, once per process, with or without huge pages, root or not.
//! - [`Pool`]: a pool of mbufs (DPDK's packet memory).
//! - [`Port`]: a port by its EAL `--vdev` string or PCI address; it hands out each [`RxQueue`] and
//!   [`TxQueue`] once, so that no two threads can poll the same queue.
//! - [`Burst`], [`Mbuf`]: packets owned by whoever holds them. Receiving moves packets into a burst,
//!   transmitting moves them out; what a port does not take stays in the burst; dropping frees. So
//!   a packet can be neither leaked nor sent twice, and the types see to it.
//! - [`FrameRing`], [`FrameSender`]: raw sockets of the kernel (AF_PACKET), without DPDK's driver.
//! - [`Worker`]: a pinned thread that DPDK knows; [`PowerHint`], [`fine_timers`]: how it waits.
//! - [`RealTime`]: real-time priority for threads, for a while.
//! - [`MarkRule`]: a rule in a port's own table that marks packets, where the port has one.
//! - [`aes`]: AES-128-CBC over many texts at once, by the CPU's instructions.
//! - [`equal_words`], [`prefetch()`], [`prefetch_whole`]: what tables that are looked up for each packet need.
//! - [`CountingAllocator`], [`Heap`]: how much memory a stretch of code took.
//!
//! Threads: [`Eal`] and [`Pool`] are shared freely; queues and bursts move between threads but are
//! used by one at a time. Attaching and closing ports takes a process-wide lock (DPDK's control
//! plane is not thread-safe); the packet path takes none.

#![allow(
    unsafe_code,
    reason = "every call of DPDK is one, and of vector instructions; each says why it is sound"
)]

pub mod aes;
mod af_packet;
mod allocator;
mod eal;
mod equal;
mod ffi;
mod flow_rule;
mod huge;
mod interrupts;
mod mbuf;
mod pause;
mod pool;
mod port;
mod prefetch;
mod priority;
mod socket;
mod tsc;
mod worker;

pub use af_packet::{FrameRing, FrameSender, InterfaceWatch, Offload, RawFrame, SocketConfig, SocketError};
pub use allocator::{CountingAllocator, Heap};
pub use eal::{Eal, EalConfig, EalError, Memory};
pub use equal::equal_words;
pub use flow_rule::{Headers, MarkError, MarkRule};
pub use huge::prefer_huge_pages;
pub use mbuf::{BURST, Burst, Mbuf, Packet};
pub use pause::{PowerHint, fine_timers};
pub use pool::{Pool, PoolError};
pub use port::{Port, PortConfig, PortError, PortStats, RxQueue, TxQueue};
pub use prefetch::{prefetch, prefetch_whole};
pub use priority::RealTime;
pub use tsc::{Ticks, Tsc, hypervisor};
pub use worker::{Worker, WorkerError, allowed_cores};
