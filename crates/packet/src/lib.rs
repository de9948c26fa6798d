//! A packet as the parts above the ports see it, wherever its bytes lie.
//!
//! - [`Frame`]: a packet that actions can change, also in length;
//! - [`BURST`]: how many come together;
//! - [`DropReason`]: the closed list of reasons for which a packet ends.
//!
//! Threads: plain data. Costs: none of its own.

mod frame;
mod reason;

pub use frame::Frame;
pub use reason::DropReason;

/// Most packets in one burst.
pub const BURST: usize = 32;
