//! A whole datapath between captures.

mod faults;
mod forwarding;
mod isolation;
mod plan;
mod rig;
mod soak;
