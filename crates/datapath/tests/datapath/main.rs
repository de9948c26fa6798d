//! A whole datapath between captures.

mod coalescing;
mod faults;
mod forwarding;
mod hints;
mod isolation;
mod malformed;
mod plan;
mod random;
mod rig;
mod soak;
mod waiting;
