//! What the datapath tells of itself: the ledger, as plain data for tables, JSON and metrics.
//!
//! At any moment, over all workers: `received + injected + copied = sent + dropped + to_controller +
//! held`. Each worker's part is taken at one burst boundary, so it holds for each worker by itself too,
//! but for packets handed from one worker to another, which are counted as `handed_over` by the one and
//! `taken_over` by the other, and held by nobody's worker while they are in the ring between them.

use serde::Serialize;
use std::collections::BTreeMap;
use weir_services::HostReport;

/// Everything, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Nanoseconds since the datapath started.
    pub uptime_ns: u64,
    /// The generation of the tables.
    pub generation: u64,
    /// By worker.
    pub workers: Vec<WorkerReport>,
    /// By port.
    pub ports: Vec<PortReport>,
    /// By service.
    pub services: Vec<ServiceReport>,
    /// By table that has an entry, or was looked into.
    pub tables: Vec<TableReport>,
}

/// A worker's part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerReport {
    /// Its number, from 0.
    pub worker: usize,
    /// The core it is pinned to.
    pub core: usize,
    /// Its thread, as the system counts threads.
    pub thread: u32,
    /// Packets received from ports.
    pub received: u64,
    /// Packets made by others than ports: packet-outs.
    pub injected: u64,
    /// Copies made, by outputs that were not the last.
    pub copied: u64,
    /// Packets that ports took.
    pub sent: u64,
    /// Packets dropped, by reason; reasons that did not occur are left out.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets given to the queue to the controller.
    pub to_controller: u64,
    /// Packets given to other workers, which own their flows.
    pub handed_over: u64,
    /// Packets taken from other workers.
    pub taken_over: u64,
    /// Packets in its hands at that moment.
    pub held: u64,
    /// Bursts received that were not empty.
    pub bursts: u64,
    /// TSC cycles of polls that found packets, up to where they were transmitted.
    pub busy_cycles: u64,
    /// Cycles by step, from a sample of the bursts.
    pub steps: Vec<StepReport>,
    /// Where packets found their megaflow.
    pub caches: CacheReport,
}

/// A step of a packet's life, as sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Its name.
    pub step: &'static str,
    /// Packets of the bursts that were sampled.
    pub packets: u64,
    /// TSC cycles of the step over those bursts.
    pub cycles: u64,
}

/// A worker's caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CacheReport {
    /// Packets that took the short way, past the other caches.
    pub shortcut_hits: u64,
    /// Lookups that the exact-match cache answered.
    pub exact_hits: u64,
    /// Lookups that the megaflow cache answered.
    pub megaflow_hits: u64,
    /// Lookups that went to the slow path.
    pub upcalls: u64,
    /// Megaflows found that table changes had touched, and the slow path looked at again.
    pub revalidated: u64,
    /// Packets that went on by coalescing, without a lookup.
    pub coalesced: u64,
    /// Packets whose coalescing was revoked.
    pub revoked: u64,
    /// Megaflows in the cache.
    pub megaflows: u64,
    /// Masks they have.
    pub masks: u64,
    /// Bytes that the caches take, about.
    pub memory: u64,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortReport {
    /// Its OpenFlow number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// What it was opened by.
    pub spec: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Packets received.
    pub received: u64,
    /// Bytes received, without FCS.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, without FCS.
    pub sent_bytes: u64,
    /// Packets that it could not take.
    pub send_dropped: u64,
    /// Packets that the driver lost before Weir saw them.
    pub missed: u64,
}

/// A service, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceReport {
    /// What flows call it by.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// By worker.
    pub instances: Vec<HostReport>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TableReport {
    /// Its number.
    pub table: u8,
    /// Flow entries.
    pub entries: u64,
    /// Packets looked up in it.
    pub lookups: u64,
    /// Packets for which an entry was found.
    pub matched: u64,
    /// The structures its lookups use, such as `hash` or `prefixes`.
    pub structure: String,
}
