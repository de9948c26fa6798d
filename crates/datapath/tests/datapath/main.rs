//! A whole datapath between captures.

mod forwarding;
mod hints;
mod isolation;
mod rig;
mod soak;
mod waiting;
