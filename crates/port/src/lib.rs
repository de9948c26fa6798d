//! Ports of the switch: where packets come from and go to.
//!
//! Threads: a queue belongs to one worker; an [`OpenPort`] may be read from any thread.
//!
//! - [`open()`], [`OpenPort`]: any port by its spec: DPDK's, an interface's raw sockets, null, a trace, or one of these that
//!   does wrong on purpose; [`open_ring`]: an end of rings in shared memory;
//! - [`apart`]: ports of peers that are not trusted, whose drivers run in processes of their own;
//! - [`Rx`], [`Tx`]: the two ends of a port's queue, each owned by one worker; [`Receive`]: what may stand in front of the
//!   receiving one.

mod af_packet;
pub mod apart;
mod driver;
mod fault;
mod open;
mod queue;
mod spec;
mod trace;

pub use af_packet::{SocketRx, SocketTx};
pub use fault::FaultTx;
pub use open::{OpenPort, PortError, open, open_ring};
pub use queue::{Receive, Rx, TooLong, Tx};
pub use spec::{check, device, is_apart, is_pci, is_ring};
pub use trace::{TraceRx, TraceTx};
