//! The datapath: OpenFlow tables and stateful services, run to completion on each core.
//!
//! - [`Datapath`]: what its owner holds: ports, tables and services in, the ledger out;
//! - `worker`: the loop, and a burst's life; `execute`, `serve`, `upcall`, `post`: its steps;
//! - `translate`: the slow path; `program`: what it makes; `cache`: where that is kept; `shortcut`: the
//!   way past all that for packets that need little;
//! - `pipeline`, `tables`: what workers forward by, and how it changes;
//! - `hint`: megaflows' names that come with the packets, from ports that classify;
//! - `edit`: bytes of packets; `wait`: what happens when none came.
//!
//! Every packet ends exactly once: sent, dropped with a reason, or with the controller. [`Report`] has
//! the sum.

mod admission;
mod asking;
mod bench;
mod cache;
mod capture;
mod commit;
mod control;
mod counters;
mod credit;
mod datapath;
mod deed;
mod direct;
pub mod edit;
mod egress;
mod evict;
mod execute;
mod expiry;
mod explain;
mod groups;
mod hint;
mod journal;
mod known;
mod ledger;
mod letterbox;
mod living;
mod mail;
mod meter;
mod openflow;
mod pipeline;
mod plan;
mod plans;
mod ports;
mod post;
mod program;
mod punts;
mod report;
mod serve;
mod short_way;
mod shortcut;
mod steer;
mod table_list;
mod tables;
mod timing;
mod trace;
mod translate;
mod upcall;
mod vitals;
mod wait;
mod worker;
mod worker_thread;

pub use commit::Ahead;
pub use control::{
    Applied, ApplyError, BucketPlace, CaptureFilter, Captured, Change, Config, ControlError, EntryChange,
    EntryEvent, Event, Evict, FlowStats, FlowSum, PacketIn, PacketOut, Plan, PortAbout, PortFlags, PortSpec,
    Refusal, Refused, Removal, ServiceConfig, Wants,
};
pub use datapath::Datapath;
pub use execute::COPIES;
pub use groups::{MOST_BUCKETS, MOST_CHAINED, MOST_GROUPS, MOST_METERS};
pub use hint::{Eviction, TcamConfig};
pub use ledger::{GroupStats, MeterStats};
pub use report::{
    CacheReport, HintReport, PortReport, Report, ServiceReport, StepReport, StuckReport, TableReport,
    WaitReport, WorkerReport,
};
pub use tables::{MOST_ACTIONS, MOST_FLOWS};
pub use vitals::{Dead, SILENT};
pub use wait::PollMode;
