//! The slow path: a packet is followed through the tables, and what they make of it is kept.
//!
//! - [`translate`]: the operations that the tables ask for, and every bit of the packet on which that depended;
//! - [`pending`]: what it makes of a packet, stage by stage, until that is a megaflow;
//! - [`explain`]: the story of a translation, for a person who asks;
//! - [`laps`]: the cycles that its tasks take.
//!
//! Threads: a worker's, and the control thread's for a story. Cost: microseconds a packet.

pub(super) mod explain;
pub(super) mod laps;
pub(super) mod pending;
pub(super) mod translate;
