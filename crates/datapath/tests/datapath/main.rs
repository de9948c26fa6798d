//! A whole datapath between captures.

mod ahead;
mod coalescing;
mod faults;
mod forwarding;
mod headers;
mod hints;
mod isolation;
mod malformed;
mod plan;
mod random;
mod rig;
mod shortcut;
mod soak;
mod translation;
mod waiting;
