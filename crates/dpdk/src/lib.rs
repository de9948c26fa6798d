//! DPDK, safely: all FFI with it, and beside `crates/cpu` the only home of `unsafe` in Weir.
//!
//! - [`Eal`]: DPDK's environment, once per process, with or without huge pages, root or not.
//! - [`Pool`]: a pool of mbufs (DPDK's packet memory).
//! - [`Port`]: a port by its EAL `--vdev` string or PCI address; it hands out each [`RxQueue`] and
//!   [`TxQueue`] once, so that no two threads can poll the same queue.
//! - [`Burst`], [`Mbuf`]: packets owned by whoever holds them. Receiving moves packets into a burst,
//!   transmitting moves them out; what a port does not take stays in the burst; dropping frees. So
//!   a packet can be neither leaked nor sent twice, and the types see to it.
//! - [`FrameRing`], [`FrameSender`]: raw sockets of the kernel (AF_PACKET), without DPDK's driver.
//! - [`Worker`]: a pinned thread that DPDK knows.
//! - [`Shared`]: memory, a pool and rings that several processes have in common.
//! - [`SharedWords`]: memory in common with a process that is not trusted.
//! - [`MarkRule`]: a rule in a port's own table that marks packets, where the port has one.
//!
//! Threads: [`Eal`] and [`Pool`] are shared freely; queues and bursts move between threads but are
//! used by one at a time. Attaching and closing ports takes a process-wide lock (DPDK's control
//! plane is not thread-safe); the packet path takes none.

#![allow(unsafe_code, reason = "every call of DPDK is one; each says why it is sound")]

mod af_packet;
mod eal;
mod ffi;
mod flow_rule;
mod frame;
mod interrupts;
mod mbuf;
mod pool;
mod port;
mod shared;
mod socket;
#[cfg(miri)]
mod stub;
mod vhost;
mod words;
mod worker;

pub use af_packet::{FrameRing, FrameSender, InterfaceWatch, Offload, RawFrame, SocketConfig, SocketError};
pub use eal::{Eal, EalConfig, EalError, Memory};
pub use flow_rule::{Headers, MarkError, MarkRule};
pub use mbuf::{Burst, Mbuf, Packet};
pub use pool::{Pool, PoolError};
pub use port::{Port, PortConfig, PortError, PortStats, RxQueue, TxQueue, remove_socket};
pub use shared::{RingEnd, RingReceiver, RingSender, Shared, SharedConfig, SharedError};
pub use weir_packet::BURST;
pub use words::{SharedWords, receive_with, send_with};
pub use worker::{Worker, WorkerError};
