//! Ports of the switch: where packets come from and go to, and why some end in between.
//!
//! - [`Rx`], [`Tx`]: the two ends of a port's queue, each owned by one worker;
//! - [`Frame`]: a packet that actions can change, also in length;
//! - [`DropReason`]: the closed list of reasons.

mod frame;
mod queue;
mod reason;

pub use frame::Frame;
pub use queue::{Rx, Tx};
pub use reason::DropReason;
