//! The datapath: the worker loop, its caches and upcalls, actions and services, and the ledger.

mod control;
pub mod edit;
mod report;

pub use control::{
    CaptureFilter, Captured, Change, Config, ControlError, Datapath, Event, FlowStats, PacketIn, PortSpec,
    Removal, ServiceConfig,
};
pub use report::{CacheReport, PortReport, Report, ServiceReport, StepReport, TableReport, WorkerReport};
