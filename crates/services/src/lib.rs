//! Services: SoftFlow's stateful actions.
//!
//! - [`Service`], [`Group`], [`Registration`]: the contract;
//! - [`Host`]: an instance in its cell, where panics, cycles and memory are watched;
//! - [`SERVICES`]: the registry;
//!
//! `SERVICES.md` walks through writing one.

mod balancer;
mod conntrack;
mod counter;
mod host;
mod memory;
mod noop;
mod pace;
mod quota;
mod registry;
mod service;
mod transcoder;

pub use host::{Host, HostReport, Limits, MOST_OFFENCES, Policy, Quarantine, Watch, ask_group};
pub use registry::{SERVICES, registered};
pub use service::{
    Burst, ConfigError, Group, GroupConfig, Member, Memo, OwnerTable, Registration, Service, Share, Slot,
    Verdict, one_number, schema,
};
