//! The self-check of a wiring: the generator looped onto itself, before anything else is measured.

use crate::run::PointKey;
use crate::verdict::Finding;
use crate::{DirectionCounts, Latency};
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
    /// Directions with traffic: 1 or 2.
    pub directions: u8,
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
    /// Counts of that trial. Nothing may be lost, duplicated, reordered, late or foreign in it.
    pub counts: DirectionCounts,
    /// What was found wrong with the tester or the machine; empty when it may be trusted.
    pub findings: Vec<Finding>,
}

impl SelfCheck {
    /// Whether it stands for a point: the same wiring, frame sizes, directions and kind of memory.
    pub fn stands_for(&self, key: &PointKey) -> bool {
        self.wiring == key.wiring
            && self.size == key.size
            && self.mean_frame_bytes == key.mean_frame_bytes
            && self.directions == key.directions
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
