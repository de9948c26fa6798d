//! A whole datapath between captures.

mod coalescing;
mod faults;
mod forwarding;
mod isolation;
mod malformed;
mod plan;
mod random;
mod rig;
mod soak;
