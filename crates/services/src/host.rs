//! A service instance in its cell: panics contained, cycles and memory watched, repeat offenders in
//! quarantine.

use crate::{Group, Slot};
use std::sync::Arc;
use weir_units::Nanos;

/// What happens to packets of a service that is in quarantine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// They are dropped.
    #[default]
    Drop,
    /// They go on as if the service had passed them, to be classified again.
    Pass,
}

/// How much a service may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Panics within [`Self::window_seconds`] after which it is put in quarantine.
    pub panics: u32,
    /// The time over which panics add up, in seconds.
    pub window_seconds: u32,
    /// TSC cycles a packet, averaged over a burst, above which the burst counts as over budget; 0 for
    /// no budget.
    pub cycles: u64,
    /// Bursts over budget within the window after which it is put in quarantine; 0 for never: it is
    /// only named.
    pub overruns: u32,
    /// MiB that one instance may allocate beyond what it had when it was built; 0 for no limit.
    pub megabytes: u32,
    /// What happens to its packets then.
    pub policy: Policy,
}

impl Default for Limits {
    fn default() -> Self {
        Self { panics: 3, window_seconds: 60, cycles: 0, overruns: 0, megabytes: 1024, policy: Policy::Drop }
    }
}

/// Why a service is in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// It panicked too often.
    Panics,
    /// It was over its cycle budget too often.
    Cycles,
    /// It allocated more than it may.
    Memory,
}

/// What is known of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HostReport {
    /// Packets it was called for.
    pub packets: u64,
    /// Bursts it was called for.
    pub bursts: u64,
    /// Packets it dropped, panics and quarantine included.
    pub dropped: u64,
    /// Packets whose verdict was coalesced.
    pub coalesced: u64,
    /// TSC cycles it took.
    pub cycles: u64,
    /// Panics.
    pub panics: u64,
    /// Bursts over the cycle budget.
    pub overruns: u64,
    /// The most cycles a packet that a burst took.
    pub worst_cycles: u64,
    /// Bytes of state, as the service says.
    pub memory: u64,
    /// What the last panic said.
    pub last_panic: Option<String>,
    /// Why it is in quarantine, if it is.
    pub quarantine: Option<Quarantine>,
    /// What it counted itself.
    pub counters: Vec<(String, u64)>,
}

/// A service's instance on one worker.
pub struct Host {
    group: Arc<dyn Group>,
    worker: usize,
    limits: Limits,
}

impl Host {
    /// Builds the instance of a worker. A panic in the building is contained like any other.
    pub fn new(group: Arc<dyn Group>, worker: usize, limits: Limits) -> Self {
        let _ = (&group, worker, limits);
        Self { group, worker, limits }
    }

    /// Has the service judge the packets. Never panics: what the service loses is dropped with
    /// its reason in the slot's verdict.
    pub fn process(&mut self, slots: &mut [Slot<'_>], now: Nanos) {
        let _ = (slots, now, &self.group, self.worker, self.limits);
    }

    /// Lets the service do what is due, contained.
    pub fn tick(&mut self, now: Nanos) {
        let _ = now;
    }

    /// Asks the service something, contained.
    ///
    /// # Errors
    /// What the service does not understand, or that it panicked over it.
    pub fn command(
        &mut self,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<serde_json::Value, String> {
        let _ = (command, argument);
        Err(String::new())
    }

    /// Lets a service out of quarantine, built anew.
    pub fn release(&mut self) {}

    /// What is known of it.
    pub fn report(&self) -> HostReport {
        HostReport::default()
    }
}
