//! Statistics: what a worker counts, and how that is told.
//!
//! - [`counters`]: a worker's numbers, which it alone writes; [`report`]: the same as plain data, for JSON and metrics;
//! - [`capture`]: copies of packets for a person who watches.

pub(super) mod capture;
pub(super) mod counters;
pub(super) mod report;
