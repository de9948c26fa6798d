//! Frame sizes and line rates.

use crate::{Bps, Pps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of the Ethernet frame check sequence; counted in frame sizes, absent from memory.
pub const FCS_BYTES: u16 = 4;

/// Preamble (7), start-of-frame delimiter (1) and minimum inter-frame gap (12), per frame.
pub const WIRE_OVERHEAD_BYTES: u16 = 20;

/// An Ethernet frame size in bytes **including** the FCS, as RFC 2544 (section 9) counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u16", into = "u16")]
pub struct FrameSize(u16);

/// A frame size outside what Ethernet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "frame size {0} B is outside {min}..={max} B (sizes include the 4-byte FCS)",
    min = FrameSize::MIN.bytes(),
    max = FrameSize::MAX.bytes()
)]
pub struct FrameSizeError(pub u32);

impl FrameSize {
    /// The least Ethernet frame: 64 B with FCS.
    pub const MIN: Self = Self(64);
    /// The largest frame Weir makes: a 9,000-byte IP packet with Ethernet header, one VLAN tag and FCS.
    pub const MAX: Self = Self(9_022);

    /// A checked size.
    pub const fn new(bytes: u32) -> Result<Self, FrameSizeError> {
        if bytes < Self::MIN.0 as u32 || bytes > Self::MAX.0 as u32 {
            return Err(FrameSizeError(bytes));
        }
        Ok(Self(bytes as u16))
    }

    /// Bytes with FCS.
    pub const fn bytes(self) -> u16 {
        self.0
    }

    /// Bytes in memory, without FCS: what a DPDK mbuf or a pcap record holds.
    pub const fn without_fcs(self) -> u16 {
        self.0 - FCS_BYTES
    }
}

impl TryFrom<u16> for FrameSize {
    type Error = FrameSizeError;

    fn try_from(bytes: u16) -> Result<Self, Self::Error> {
        Self::new(u32::from(bytes))
    }
}

impl From<FrameSize> for u16 {
    fn from(size: FrameSize) -> Self {
        size.0
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} B", self.0))
    }
}

/// A line rate, and what fits on it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LineRate(pub Bps);

impl LineRate {
    /// 10 Gbit/s.
    pub const TEN_GIGABIT: Self = Self(Bps(10e9));

    /// The line rates of Ethernet from a gigabit on (IEEE 802.3, clause 1.4), by the names that people have for them.
    const NAMED: [(&'static str, Self); 10] = [
        ("1G", Self(Bps(1e9))),
        ("2.5G", Self(Bps(2.5e9))),
        ("5G", Self(Bps(5e9))),
        ("10G", Self::TEN_GIGABIT),
        ("25G", Self(Bps(25e9))),
        ("40G", Self(Bps(40e9))),
        ("50G", Self(Bps(50e9))),
        ("100G", Self(Bps(100e9))),
        ("200G", Self(Bps(200e9))),
        ("400G", Self(Bps(400e9))),
    ];

    /// The most frames of a mean size (bytes with FCS) that one direction of the line carries a second.
    pub fn max_pps(self, mean_frame_bytes: f64) -> Pps {
        Pps(self.0.0 / (8.0 * (mean_frame_bytes + f64::from(WIRE_OVERHEAD_BYTES))))
    }
}

impl fmt::Display for LineRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, rate)| rate == self) {
            Some((name, _)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for LineRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::NAMED
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text.trim()))
            .map(|(_, rate)| *rate)
            .ok_or_else(|| {
                let names = Self::NAMED.map(|(name, _)| name).join(", ");
                format!("`{text}` is not a line rate Weir knows; write one of {names}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_carries_14_88_million_small_frames() {
        let rate = LineRate::TEN_GIGABIT.max_pps(64.0);
        assert!((rate.0 - 14_880_952.38).abs() < 0.01, "{rate}");
    }

    #[test]
    fn sizes_below_64_and_above_the_maximum_are_refused() {
        assert!(FrameSize::new(63).unwrap_err().to_string().contains("63 B is outside 64..=9022"));
        assert!(FrameSize::new(70_000).is_err());
        assert_eq!(FrameSize::new(64).unwrap().without_fcs(), 60);
    }

    #[test]
    fn line_rates_are_read_and_printed_by_name() {
        let rate: LineRate = "40g".parse().unwrap();
        assert_eq!(rate.to_string(), "40G");
        let slow: LineRate = "2.5G".parse().unwrap();
        assert_eq!((slow.0, slow.to_string().as_str()), (Bps(2.5e9), "2.5G"));
        assert!("11G".parse::<LineRate>().unwrap_err().contains("one of 1G, 2.5G, 5G, 10G, 25G"));
    }
}
