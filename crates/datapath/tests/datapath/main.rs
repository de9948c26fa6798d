//! A whole datapath between captures.

mod ahead;
mod arrows;
mod coalescing;
mod controllers;
mod faults;
mod forwarding;
mod groups;
mod headers;
mod hints;
mod isolation;
mod malformed;
mod order;
mod plan;
mod random;
mod rig;
mod saturation;
mod shortcut;
mod soak;
mod translation;
mod waiting;
