//! The datapath: OpenFlow tables and stateful services, run to completion on each core.
//!
//! Its parts, each a folder that depends only on those below it:
//!
//! - `control`: [`Datapath`], what its owner holds: ports, tables and services in, the ledger out;
//! - `worker`: the loop, a burst's life, and what a worker does between bursts;
//! - `classify`: which megaflow a packet belongs to, tier by tier;
//! - `slowpath`: what the tables make of a packet that no megaflow answers for;
//! - `services`: the datapath's side of services;
//! - `actions`: what a megaflow does to its packets;
//! - `stats`: what is counted;
//! - `model`: what all of them share: requests as plain data, and the snapshot that workers forward by.
//!
//! Every packet ends exactly once: sent, dropped with a reason, or with the controller. [`Report`] has
//! the sum.

mod actions;
mod classify;
mod control;
mod model;
mod services;
mod slowpath;
mod stats;
mod worker;

pub use actions::edit;
pub use actions::execute::COPIES;
pub use control::commit::Ahead;
pub use control::datapath::Datapath;
pub use control::learning::{LearnedAddress, LearningConfig, LearningCounts};
pub use control::tables::MOST_ACTIONS;
pub use control::traced::{Traced, TracedReason, TracedService, TracedStage, TracedTask};
pub use control::vitals::{Dead, SILENT};
pub use model::entries::{MOST_BUCKETS, MOST_CHAINED};
pub use model::experiment::{Experiment, Share};
pub use model::poll::PollMode;
pub use model::requests::{
    Applied, ApplyError, BucketPlace, CaptureFilter, Captured, Change, Config, ControlError, EntryChange,
    EntryEvent, Event, Evict, FlowStats, FlowSum, PacketIn, PacketOut, Plan, PortAbout, PortFlags, PortSpec,
    Refusal, Refused, Removal, ServiceConfig, Wants,
};
pub use model::selection::Selection;
pub use model::tcam::{Eviction, TcamConfig};
pub use slowpath::laps::Cycles;
pub use stats::report::{
    CacheReport, HintReport, PortReport, Report, ServiceReport, StepReport, StuckReport, TableReport,
    WaitReport, WorkerReport,
};
pub use weir_openflow::{GroupStats, MeterStats};
