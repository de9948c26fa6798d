//! What a service may do wrong, what happens then, and what is known of it.

use crate::Share;
use std::collections::VecDeque;
use weir_units::Nanos;

/// The most offences that are told apart within a window; higher limits act as this one.
pub const MOST_OFFENCES: u32 = 65_536;

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
    /// Panics within [`Self::window_seconds`] after which it is put in quarantine; 0 for never: it is
    /// built anew after each.
    pub panics: u32,
    /// The time over which panics and overruns add up, in seconds: a sliding window.
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

impl Limits {
    /// Bytes that an instance may hold beyond what it had when it was built.
    pub(super) fn bytes(&self) -> i64 {
        if self.megabytes == 0 { i64::MAX } else { i64::from(self.megabytes) << 20 }
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

impl std::fmt::Display for Quarantine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Panics => "it panicked too often",
            Self::Cycles => "it was over its cycle budget too often",
            Self::Memory => "it allocated more than it may",
        })
    }
}

/// What is known of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct HostReport {
    /// Packets that came to it, in quarantine too.
    pub packets: u64,
    /// Bursts that came to it, in quarantine too.
    pub bursts: u64,
    /// Packets it dropped, panics and quarantine included.
    pub dropped: u64,
    /// Packets whose verdict was coalesced.
    pub coalesced: u64,
    /// TSC cycles it took.
    pub cycles: u64,
    /// Panics, in building it too.
    pub panics: u64,
    /// Bursts over the cycle budget.
    pub overruns: u64,
    /// The most cycles a packet that a burst took, bursts in which it panicked left out.
    pub worst_cycles: u64,
    /// Times that an instance was built, or should have been.
    pub builds: u64,
    /// TSC cycles that the longest building of an instance took: so long the worker stood still.
    pub worst_build_cycles: u64,
    /// Bytes of state, as the service says.
    pub memory: u64,
    /// Bytes that the instance took from the heap since it was built and did not give back; 0 where
    /// the program's allocator does not count.
    pub heap: u64,
    /// What the last panic said.
    pub last_panic: Option<String>,
    /// Why it is in quarantine, if it is.
    pub quarantine: Option<Quarantine>,
    /// What it counted itself.
    pub counters: Vec<(String, u64)>,
    /// Zones and ports that have most of its tables.
    pub shares: Vec<Share>,
}

/// Offences within a sliding window: the times of the last ones, as many as are allowed.
#[derive(Debug)]
pub(super) struct Offences {
    limit: usize,
    window: Nanos,
    times: VecDeque<Nanos>,
}

impl Offences {
    /// No offence yet; `limit` is how many are too many, 0 for never.
    pub(super) fn new(limit: u32, window_seconds: u32) -> Self {
        let limit = limit.min(MOST_OFFENCES) as usize;
        Self {
            limit,
            window: Nanos(u64::from(window_seconds) * Nanos::PER_SECOND),
            times: VecDeque::with_capacity(limit),
        }
    }

    /// Notes one, and says whether it is one too many.
    pub(super) fn add(&mut self, now: Nanos) -> bool {
        if self.limit == 0 {
            return false;
        }
        if self.times.len() == self.limit {
            self.times.pop_front();
        }
        self.times.push_back(now);
        let within = |first: &Nanos| now.0.saturating_sub(first.0) <= self.window.0;
        self.times.len() == self.limit && self.times.front().is_some_and(within)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.times.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offences_add_up_only_within_the_window_that_slides() {
        let mut offences = Offences::new(3, 10);
        let at = |seconds: u64| Nanos(seconds * Nanos::PER_SECOND);
        let told = [0, 8, 15, 19, 24, 40].map(|seconds| offences.add(at(seconds)));
        // Three within ten seconds: 15, 19 and 24.
        assert_eq!(told, [false, false, false, false, true, false]);
        offences.clear();
        assert!(!offences.add(at(41)) && !offences.add(at(41)) && offences.add(at(41)));
    }

    #[test]
    fn a_limit_of_nought_never_acts() {
        let mut offences = Offences::new(0, 10);
        assert!((0..100).all(|_| !offences.add(Nanos(0))));
    }
}
