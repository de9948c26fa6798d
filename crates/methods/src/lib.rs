//! The methods: what to measure next, and what the trials so far prove.
//!
//! Methods are pure. They ask a [`Measurer`](weir_trial::Measurer) for trials and decide; they know
//! no clock and no I/O, so every one is tested against the arithmetic of `weir_simulated`. What happens on
//! the way (each trial, each bound, what is left) they tell an [`Observer`].
//!
//! - [`mlrsearch`]: throughput under one or several goals (NDR, PDR, RFC 2544, binary search with
//!   loss verification), one file of its own for each part of the search;
//! - [`mrr`]: the forwarded rate at the greatest load;
//! - [`latency`]: delay at given loads, absolute or as a share of a goal's load or of the line;
//! - [`curve`]: delay and loss from next to no load to beyond saturation, with the knee;
//! - [`frame_loss`]: loss against load, from the line rate down (RFC 2544);
//! - [`back_to_back`]: the longest burst that comes through whole (RFC 9004);
//! - [`connections`]: connections a second and at a time, through a device that tracks them;
//! - [`flow_mods`]: changes of flow entries a second, and what they cost a load;
//! - [`soak`]: one load for hours, with the time of each loss;
//! - [`repeat`]: the same measurement several times, with its spread;
//! - [`compare`]: two runs, or two devices: ratios with their intervals, and who wins, if anybody;
//! - [`history`]: a point over time, where it changed, and what changed then;
//! - [`stored`]: which stored trials stand behind which result;
//! - [`verify`]: every stored result derived again from its trials.
//!
//! Cost: bookkeeping is linear in the trials taken and runs between trials, never during one.
//! Threads: none; a method runs on its caller's.

mod ask;
pub mod back_to_back;
pub mod compare;
pub mod connections;
pub mod curve;
pub mod flow_mods;
pub mod frame_loss;
pub mod history;
pub mod latency;
pub mod mlrsearch;
pub mod mrr;
mod observe;
mod registry;
pub mod repeat;
pub mod soak;
pub mod stored;
pub mod verify;

pub use observe::{GoalBounds, Next, Observer, Remaining, Silent};
