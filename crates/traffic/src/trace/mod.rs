//! Traces: which packets are sent, in which order.
//!
//! A [`TraceSpec`] names a trace (or a capture file) with its sizes, direction and seed;
//! [`TraceSpec::build`] makes it a [`FrameSource`]: a [`FrameTable`] in memory, which a generator
//! walks without a branch on what kind of trace it is, or a [`PcapStream`] for captures too large
//! for memory. The same specification builds the same bytes, always; [`FrameTable::hash`] proves it.
//!
//! - [`catalogue`]: the traces by name, what the papers count in each, and where they say so;
//! - [`sizes`]: frame sizes: fixed, IMIX, and the web cluster's distribution;
//! - [`synthetic`]: addresses, ports and headers of the generated flows;
//! - `tunnels`: flows inside VXLAN tunnels;
//! - [`conversations`]: SoftFlow's T1 and T2, over addresses of their own or (`sites`) over the tables of a pipeline;
//! - [`gateway`]: flows made for the tables of a function;
//! - [`table`]: frames in memory; [`source`]: a cursor over a table or stream;
//! - [`capture`] and [`stream`]: pcap and pcapng files; [`rewrite`]: changing their headers;
//! - [`info`]: counting what a trace really holds, against what it claims; [`hash`]: its content in one number.
//!
//! Cost: building takes time and memory in proportion to the distinct frames (64 B each) plus 4 B a
//! packet where frames repeat out of order.

pub mod capture;
pub mod catalogue;
pub mod conversations;
pub mod gateway;
pub mod hash;
pub mod info;
pub mod rewrite;
pub mod sizes;
pub mod source;
pub mod stream;
pub mod synthetic;
pub mod table;

mod error;
mod explosion;
mod rules;
mod share;
mod sites;
mod spec;
mod tunnels;

pub use capture::{CaptureOptions, CutPackets};
pub use error::TraceError;
pub use hash::TraceHash;
pub use info::TraceInfo;
pub use rewrite::{Ipv4Prefix, Rewrite, VlanChange};
pub use sizes::Sizes;
pub use source::{FrameRef, FrameSource, Laps, TableCursor};
pub use spec::{Direction, TraceName, TraceOptions, TraceSpec};
pub use stream::PcapStream;
pub(crate) use table::turned;
pub use table::{Frame, FrameTable, HEAD_BYTES, Head, TAIL};
