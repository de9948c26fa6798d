//! Units of measure, as types.
//!
//! Every quantity that crosses a function in Weir carries its unit in its type:
//! [`Pps`], [`Bps`], [`Nanos`], [`Ratio`], [`FrameSize`], [`LineRate`]. Frame sizes
//! include the 4-byte frame check sequence (FCS), as RFC 2544 counts them; what
//! DPDK holds in memory is [`FrameSize::without_fcs`]. On the wire each frame takes
//! [`WIRE_OVERHEAD_BYTES`] more: preamble (7), start delimiter (1) and inter-frame gap (12).
//!
//! Numbers taken several times have a [`Spread`]; moments are written by [`utc()`].

mod frame;
mod histogram;
mod rate;
mod spread;
pub mod utc;

pub use frame::{FCS_BYTES, FrameSize, FrameSizeError, LineRate, WIRE_OVERHEAD_BYTES};
pub use histogram::{HistogramError, LatencyHistogram, PERCENTILES};
pub use rate::{Bps, Nanos, ParseUnitError, Pps, Ratio};
pub use spread::{Interval, Spread};
pub use utc::utc;
