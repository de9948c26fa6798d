//! Campaigns: a plan being measured, point by point.
//!
//! - [`plan`]: what to measure, as TOML;
//! - [`Campaign`]: runs a plan into a store, told on its way to a [`Watcher`];
//! - [`Rig`]: one DUT, wired up; [`Traffic`]: what is sent to it; [`Cores`]: who runs where;
//! - [`environment`]: the machine, as it says itself.
//! - [`perf`]: the table of speed;
//! - [`doctor`]: what on that machine will spoil which claim.

mod against;
mod clock;
mod cores;
pub mod doctor;
mod enough;
pub mod environment;
mod knock;
pub mod lease;
mod limit;
mod methods;
mod nodes;
mod packets;
pub mod perf;
pub mod plan;
mod purse;
mod record;
mod rig;
mod runner;
mod self_check;
mod traffic;

pub use cores::{Cores, Seats, TooFewCores};
pub use record::now_ms;
pub use rig::{Flags, Rig, RigError, RigSetup, Wirings};
pub use runner::{Campaign, CampaignError, PointOutcome, Tally, Watcher};
pub use traffic::{Traffic, TrafficError};
