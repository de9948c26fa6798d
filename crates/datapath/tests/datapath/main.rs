//! A whole datapath between captures.

mod coalescing;
mod forwarding;
mod isolation;
mod malformed;
mod random;
mod rig;
mod soak;
