//! Services: SoftFlow's stateful actions.
//!
//! - [`Service`], [`Group`], [`Registration`]: the contract;
//! - [`Host`]: an instance in its cell, where panics, cycles and memory are watched;
//! - [`SERVICES`]: the registry;
//! - [`conntrack`]: the connection tracker, also for OpenFlow's `ct()`.

pub mod conntrack;
mod host;
mod registry;
mod service;

pub use host::{Host, HostReport, Limits, Policy, Quarantine};
pub use registry::{SERVICES, registered};
pub use service::{Burst, ConfigError, Group, GroupConfig, Registration, Service, Slot, Verdict};
