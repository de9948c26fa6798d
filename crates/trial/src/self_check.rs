//! The self-check of a wiring: the generator looped onto itself, before anything else is measured.

use crate::run::PointKey;
use crate::verdict::Finding;
use crate::{DirectionCounts, Latency, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps};

/// What the tester can do over one wiring, with nothing in between but the ports themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheck {
    /// Wiring name.
    pub wiring: String,
    /// Size label, as in a point's key.
    pub size: String,
    /// Mean frame size in bytes, with FCS.
    pub mean_frame_bytes: f64,
    /// Directions with traffic of each pair of ports: 1 or 2.
    pub directions: u8,
    /// Pairs of the tester's ports.
    #[serde(default = "one")]
    pub pairs: u32,
    /// Queues of each of them.
    #[serde(default = "one")]
    pub queues: u32,
    /// The machine on which the other end was, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Whether huge pages were used.
    pub huge_pages: bool,
    /// What stood at the other end: how the loop was closed.
    pub loop_of: String,
    /// Greatest rate that came back, over all directions.
    pub ceiling: Pps,
    /// Load of the trial that looked for count errors and for the latency floor.
    pub floor_load: Pps,
    /// One-way delay at that load: the floor of every latency measured over this wiring.
    pub floor: Option<Latency>,
    /// The same at greater loads, the least first: what a delay at such a load is held against.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// Counts of that trial. Nothing may be lost, duplicated, reordered, late or foreign in it.
    pub counts: DirectionCounts,
    /// What was found wrong with the tester or the machine; empty when it may be trusted.
    pub findings: Vec<Finding>,
}

/// One-way delay of the bare wiring at a load: no device over it can be seen to be faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// Load of the trial, over all directions.
    pub load: Pps,
    /// Median.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
}

impl Floor {
    /// The floor that a trial at this load shows.
    pub fn of(load: Pps, latency: &Latency) -> Self {
        Self { load, p50: latency.percentiles[0], p99: latency.percentiles[2] }
    }
}

/// What stored checks have that say nothing of pairs or queues.
fn one() -> u32 {
    1
}

impl SelfCheck {
    /// The floor at the load, of those measured, that is nearest to this one by its ratio.
    pub fn floor_at(&self, load: Pps) -> Option<Floor> {
        let apart = |floor: &Floor| (floor.load.0 / load.0).ln().abs();
        let least = self.floor.as_ref().map(|latency| Floor::of(self.floor_load, latency));
        self.floors.iter().copied().chain(least).min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// Whether it stands for a point: the same wiring, frame sizes, directions and kind of memory.
    pub fn stands_for(&self, key: &PointKey) -> bool {
        self.wiring == key.wiring
            && self.size == key.size
            && self.mean_frame_bytes == key.mean_frame_bytes
            && self.directions == key.directions
            && self.pairs == key.placement.bundles.max(1)
            && self.queues == key.placement.queues.max(1)
            && self.server == key.placement.server
            && self.huge_pages == key.huge_pages
    }

    /// Packet delay variation of the bare wiring: 99.9th percentile less the least (RFC 8219, section 7.3).
    pub fn jitter(&self) -> Option<Nanos> {
        let floor = self.floor.as_ref()?;
        Some(Nanos(floor.percentiles[3].0.saturating_sub(floor.min.0)))
    }
}

/// Who limits a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    /// The device under test.
    Dut,
    /// The tester, or the wiring between it and the device: the device may be faster.
    Tester,
    /// The machine, which gave the core of the tester or of the device to others: the device may be faster.
    Machine,
    /// The greatest load that was asked for: neither tester nor device came to its end.
    Line,
    /// The search, whose time ran out before any load had failed.
    Time,
}

impl Limiter {
    /// As people read it behind "limited by".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dut => "the device",
            Self::Tester => "the tester",
            Self::Machine => "the machine",
            Self::Line => "the load asked for",
            Self::Time => "the search's time",
        }
    }
}

/// Who limits a result, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Who.
    pub by: Limiter,
    /// Why, in a sentence with numbers.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DirectionCounts;

    #[test]
    fn a_delay_is_held_against_the_floor_at_the_load_nearest_by_ratio() {
        let floor = |load: f64| Floor { load: Pps(load), p50: Nanos(load as u64 / 1000), p99: Nanos(1) };
        let check = SelfCheck {
            wiring: "vhost".into(),
            size: "64".into(),
            mean_frame_bytes: 64.0,
            directions: 1,
            pairs: 1,
            queues: 1,
            server: None,
            huge_pages: false,
            loop_of: "weir nf l2fwd".into(),
            ceiling: Pps(1e7),
            floor_load: Pps(1e5),
            floor: None,
            floors: vec![floor(1e6), floor(5e6), floor(9e6)],
            counts: DirectionCounts::default(),
            findings: Vec::new(),
        };
        let at = |load: f64| check.floor_at(Pps(load)).map(|floor| floor.load.0);
        assert_eq!([1e3, 2e6, 2.5e6, 1e8].map(at), [1e6, 1e6, 5e6, 9e6].map(Some));
        assert_eq!(SelfCheck { floors: Vec::new(), ..check }.floor_at(Pps(1e6)), None);
    }
}
