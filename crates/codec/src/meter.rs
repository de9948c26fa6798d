//! Meters: what changes them, what tells of them.

use std::time::Duration;
use weir_openflow::{Meter, MeterId};

/// Every meter.
pub const ALL_METERS: MeterId = MeterId(0xffff_ffff);

/// What is done (OpenFlow 1.3.5, section 7.3.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterCommand {
    /// The meter is added.
    Add = 0,
    /// The meter is changed.
    Modify = 1,
    /// The meter goes; [`ALL_METERS`] for all.
    Delete = 2,
}

/// A meter changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What is done.
    pub command: MeterCommand,
    /// The meter; only its number means anything where it goes.
    pub meter: Meter,
}

/// A meter's counters (section 7.3.5.12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// Which.
    pub meter: MeterId,
    /// Entries that name it.
    pub flows: u32,
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it has been there.
    pub duration: Duration,
    /// Packets and bytes that each band acted on.
    pub bands: Vec<(u64, u64)>,
}

/// What meters can do (section 7.3.5.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// The most meters.
    pub most: u32,
    /// Bit n set: band n is supported (1 drop, 2 remark).
    pub bands: u32,
    /// Flags that are supported: 1 kilobits, 2 packets, 4 burst, 8 statistics.
    pub capabilities: u32,
    /// The most bands of a meter.
    pub most_bands: u8,
    /// The most colours.
    pub most_colours: u8,
    /// Further features (OpenFlow 1.5).
    pub features: u32,
}
