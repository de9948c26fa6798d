//! Services: SoftFlow's stateful actions.
//!
//! - [`Service`], [`Group`], [`Registration`]: the contract;
//! - [`Host`]: an instance in its cell, where panics, cycles and memory are watched;
//! - [`SERVICES`]: the registry;
//! - [`conntrack`]: the connection tracker, also for OpenFlow's `ct()`.
//!
//! `SERVICES.md` walks through writing one.

mod balancer;
pub mod conntrack;
mod counter;
mod host;
mod memory;
mod noop;
mod pairs;
mod registry;
mod service;
mod splice;
mod transcoder;

pub use host::{Host, HostReport, Limits, MOST_OFFENCES, Policy, Quarantine, Watch, ask_group};
pub use pairs::Pairs;
pub use registry::{SERVICES, registered};
pub use service::{
    Burst, ConfigError, Group, GroupConfig, Memo, Registration, Service, Share, Slot, Verdict, schema,
};
pub use splice::Splice;
