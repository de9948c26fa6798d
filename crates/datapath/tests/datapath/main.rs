//! A whole datapath between captures.

mod forwarding;
mod isolation;
mod rig;
mod shortcut;
mod soak;
