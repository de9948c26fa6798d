//! What the datapath tells of itself: the ledger, as plain data for tables, JSON and metrics.
//!
//! At any moment, over all workers: `received + injected + copied = sent + dropped + to_controller +
//! held`. Each worker's part is taken at one burst boundary, so it holds for each worker by itself too,
//! but for packets handed from one worker to another, which are counted as `handed_over` by the one and
//! `taken_over` by the other, and held by nobody's worker while they are in the ring between them.

use crate::model::poll::PollMode;
use crate::model::tcam::TcamConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_services::HostReport;

/// Everything, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Nanoseconds since the datapath started.
    pub uptime_ns: u64,
    /// The generation of the tables.
    pub generation: u64,
    /// How workers wait for packets.
    pub poll: PollMode,
    /// The tables that give hints; nothing where there are none.
    pub tcam: Option<TcamConfig>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    pub dropped: BTreeMap<Cow<'static, str>, u64>,
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
    /// How it waited for packets.
    pub waiting: WaitReport,
    /// What became of the hints that came with packets.
    pub hints: HintReport,
    /// Whether it does not answer. All else is what it told last then, at a burst boundary; packets that
    /// came since are not in it.
    pub stuck: Option<StuckReport>,
}

/// Where a worker is that does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StuckReport {
    /// The service that does not come back; none if it is in no service: its core may be taken away.
    pub service: Option<String>,
    /// Nanoseconds for which it has been there.
    pub ns: u64,
}

/// A step of a packet's life, as sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepReport {
    /// Its name.
    pub step: Cow<'static, str>,
    /// Packets of the bursts that were sampled.
    pub packets: u64,
    /// TSC cycles of the step over those bursts.
    pub cycles: u64,
}

/// A worker's waiting; all zero where it polls on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitReport {
    /// Sleeps.
    pub sleeps: u64,
    /// Nanoseconds that they took.
    pub slept_ns: u64,
    /// Sleeps that took longer than a packet may wait.
    pub late: u64,
    /// Rests by the CPU's power hint.
    pub hints: u64,
}

/// A worker's hints; all zero where no port gives any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HintReport {
    /// Packets whose hint was right: they were not looked up.
    pub hits: u64,
    /// Packets without a hint.
    pub missed: u64,
    /// Packets whose hint named a megaflow that is no more.
    pub stale: u64,
    /// Packets whose hint named a megaflow that they do not belong to, or nothing.
    pub wrong: u64,
    /// Megaflows written into tables.
    pub written: u64,
    /// Megaflows that left full tables for others.
    pub evicted: u64,
    /// Megaflows that a full table had no room for at once.
    pub full: u64,
    /// Places of the tables.
    pub places: u64,
    /// Places that are taken.
    pub entries: u64,
    /// Cycles that emulating tables took: neither in `busy_cycles` nor in any step.
    pub emulated_cycles: u64,
}

/// A worker's caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheReport {
    /// Packets that took the fast path, past the other caches.
    pub shortcut_hits: u64,
    /// Lookups that the exact-match cache answered.
    pub exact_hits: u64,
    /// Lookups of packets right behind another of their flow, which took its answer from the exact-match cache.
    pub repeated: u64,
    /// Lookups that the megaflow cache answered.
    pub megaflow_hits: u64,
    /// Lookups that the tables answered directly, without a megaflow.
    pub direct: u64,
    /// Lookups that went to the slow path, to have a megaflow made.
    pub upcalls: u64,
    /// Megaflows found that table changes had touched, and the slow path looked at again.
    pub revalidated: u64,
    /// Packets that went on by coalescing, without a lookup.
    pub coalesced: u64,
    /// Packets whose coalescing was revoked.
    pub revoked: u64,
    /// Entries that the fast path remembered.
    pub remembered: u64,
    /// Megaflows found that are older than the tables, and that no change since concerns.
    pub outlived: u64,
    /// Times that the tables changed where no megaflow's packets go: the change cost the megaflows nothing.
    pub elsewhere: u64,
    /// Entries of the fast path that a change of the tables concerned, when a packet next met them.
    pub lapsed: u64,
    /// Times that the fast path forgot all its entries: its header mask changed, or it grew.
    pub restarts: u64,
    /// Packets that were not looked up on the fast path, which had found less than half.
    pub stepped_aside: u64,
    /// Lookups of flows that the new-flow filter did not know: they walk the tables where they can.
    pub newcomers: u64,
    /// Lookups for which the port's upcall budget had no megaflow left.
    pub refused: u64,
    /// Megaflows that went because no packet of theirs came for long.
    pub idle: u64,
    /// Times that the table walk's graph was cleared because of a change.
    pub cleared: u64,
    /// Megaflows in the cache.
    pub megaflows: u64,
    /// Megaflows that had to make room for others: of ports that had more than their share.
    pub evicted: u64,
    /// Masks they have.
    pub masks: u64,
    /// The most masks that any port and stage has: so many probes a lookup costs at most.
    pub most_masks: u64,
    /// Edges of the table walk's graph.
    pub edges: u64,
    /// Bytes that the caches and that graph take, about.
    pub memory: u64,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// Megaflows for what comes in by it, of all workers.
    pub megaflows: u64,
    /// Megaflows of it that had to make room for others.
    pub evicted: u64,
    /// What a fault port did on purpose, or what went wrong with the helpers of an untrusted one, by name; empty for
    /// others.
    pub faults: BTreeMap<Cow<'static, str>, u64>,
    /// Why an untrusted port's helper was replaced last, or what a capture cannot be written for; empty while all is well.
    pub trouble: String,
    /// Where its hints come from: its own flow rules, or an emulation and why; nothing without `tcam`.
    pub hints: String,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// Masks of its entries.
    pub masks: u64,
    /// Bytes that the entries' matches and the structures take, about.
    pub memory: u64,
}

impl WorkerReport {
    /// Packets dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// What came to it: received, injected, copied and taken over.
    pub fn came(&self) -> u64 {
        self.received + self.injected + self.copied + self.taken_over
    }

    /// What became of it: sent, dropped, given to the controller or another worker, or held.
    pub fn went(&self) -> u64 {
        self.sent + self.dropped() + self.to_controller + self.handed_over + self.held
    }

    /// Whether every packet is accounted for.
    pub fn balances(&self) -> bool {
        self.came() == self.went()
    }
}

impl HintReport {
    /// Packets that came by a port with a table.
    pub fn packets(&self) -> u64 {
        self.hits + self.missed + self.stale + self.wrong
    }
}
