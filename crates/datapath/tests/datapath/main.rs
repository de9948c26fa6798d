//! A whole datapath between captures.

mod ahead;
mod arguments;
mod arrows;
mod coalescing;
mod controllers;
mod experiments;
mod fast_path;
mod faults;
mod few;
mod forwarding;
mod groups;
mod headers;
mod hints;
mod isolation;
mod malformed;
mod members;
mod normal;
mod order;
mod pipelines;
mod plan;
mod random;
mod rig;
mod saturation;
mod soak;
mod translation;
mod waiting;
