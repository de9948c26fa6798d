//! The ledger as a document: what `weir switch stats --json` prints, and a client of any version reads.
//!
//! Field by field it is the datapath's [`Report`], whose documentation says what is counted; here names
//! are owned, so that the document can be read back. What lies between two readings: `stats/since.rs`.

pub mod counters;
mod since;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_datapath::Report;

/// Version of the document: rises when a field changes its meaning or goes away.
pub const STATS_SCHEMA: u32 = 1;

/// Of what a fault port tells, the one that is a state: packets that it holds back.
pub const WAITING: &str = "waiting";

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stats {
    /// Version of the document.
    pub schema: u32,
    /// Version of the switch, and of DPDK.
    pub version: String,
    /// Ticks of the time stamp counter a second: what cycles are counted in.
    pub tsc_hz: f64,
    /// Nanoseconds since the datapath started.
    pub uptime_ns: u64,
    /// Rises with every change of the tables.
    pub generation: u64,
    /// How workers wait for packets.
    pub poll: String,
    /// The tables that give hints, each with so many entries; nothing where there are none.
    pub tcam: Option<String>,
    /// By worker.
    pub workers: Vec<WorkerStats>,
    /// By port.
    pub ports: Vec<PortStats>,
    /// By service.
    pub services: Vec<ServiceStats>,
    /// By table that has an entry or was looked into.
    pub tables: Vec<TableStats>,
}

/// A worker's part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerStats {
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
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Packets given to the queue to the controller.
    pub to_controller: u64,
    /// Packets given to other workers.
    pub handed_over: u64,
    /// Packets taken from other workers.
    pub taken_over: u64,
    /// Packets in its hands at that moment.
    pub held: u64,
    /// Bursts received that were not empty.
    pub bursts: u64,
    /// Cycles of polls that found packets.
    pub busy_cycles: u64,
    /// Cycles by step, from a sample of the bursts.
    pub steps: Vec<StepStats>,
    /// Where packets found their megaflow.
    pub caches: CacheStats,
    /// How it waited for packets.
    pub waiting: WaitStats,
    /// What became of the hints that came with packets.
    pub hints: HintStats,
    /// Whether it does not answer. All else is what it told last then.
    pub stuck: Option<StuckStats>,
}

/// Where a worker is that does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StuckStats {
    /// The service that does not come back; none if it is in no service: its core may be taken away.
    pub service: Option<String>,
    /// Nanoseconds for which it has been there.
    pub ns: u64,
}

/// A step of a packet's life, as sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepStats {
    /// Its name.
    pub step: String,
    /// Packets of the bursts that were sampled.
    pub packets: u64,
    /// Cycles of the step over those bursts.
    pub cycles: u64,
}

/// A worker's waiting; all zero where it polls on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitStats {
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
pub struct HintStats {
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

impl HintStats {
    /// Packets that came by a port with a table.
    pub fn packets(&self) -> u64 {
        self.hits + self.missed + self.stale + self.wrong
    }
}

/// A worker's caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheStats {
    /// Packets that took the fast path, past the other caches.
    pub shortcut_hits: u64,
    /// Lookups that the exact-match cache answered.
    pub exact_hits: u64,
    /// Lookups that the megaflow cache answered.
    pub megaflow_hits: u64,
    /// Lookups that the tables answered directly, without a megaflow.
    pub direct: u64,
    /// Lookups that went to the slow path, to have a megaflow made.
    pub upcalls: u64,
    /// Megaflows that table changes had touched, looked at again.
    pub revalidated: u64,
    /// Packets that went on by coalescing, without a lookup.
    pub coalesced: u64,
    /// Packets whose coalescing was revoked.
    pub revoked: u64,
    /// Entries that the fast path remembered.
    pub remembered: u64,
    /// Megaflows found that are older than the tables, and that no change since concerns.
    pub outlived: u64,
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
pub struct PortStats {
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
    /// Megaflows of it that had to make room for others: it had more than its share then.
    pub evicted: u64,
    /// What a fault port did on purpose, by name; empty for others.
    pub faults: BTreeMap<String, u64>,
    /// Where its hints come from: its own flow rules, or an emulation and why; nothing without `tcam`.
    pub hints: String,
}

/// A service, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceStats {
    /// What flows call it by.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// By worker.
    pub instances: Vec<InstanceStats>,
}

/// A service's instance on one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InstanceStats {
    /// Packets it was called for.
    pub packets: u64,
    /// Bursts it was called for.
    pub bursts: u64,
    /// Packets it dropped, panics and quarantine included.
    pub dropped: u64,
    /// Packets whose verdict was coalesced.
    pub coalesced: u64,
    /// Cycles it took.
    pub cycles: u64,
    /// Panics.
    pub panics: u64,
    /// Bursts over the cycle budget.
    pub overruns: u64,
    /// The most cycles a packet that a burst took.
    pub worst_cycles: u64,
    /// Bytes of state, as the service says.
    pub memory: u64,
    /// Bytes that it allocated and holds, as the allocator counts them.
    pub heap: u64,
    /// How often it was built: once, and again after panics.
    pub builds: u64,
    /// The most cycles that a building took.
    pub worst_build_cycles: u64,
    /// What the last panic said.
    pub last_panic: Option<String>,
    /// Why it is in quarantine, if it is.
    pub quarantine: Option<String>,
    /// What it counted itself.
    pub counters: Vec<(String, u64)>,
    /// Zones and ports that have most of its tables, where these have shares.
    pub shares: Vec<ShareStats>,
}

/// What the flows of one zone that came in by one port have of a service's tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShareStats {
    /// Zone.
    pub zone: u16,
    /// Port.
    pub port: u32,
    /// What there is of it (`connections`, `half-open`, `fragments`), and how many of it made room for others before
    /// their time (`evicted`).
    pub counters: Vec<(String, u64)>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// Flow entries.
    pub entries: u64,
    /// Packets looked up in it.
    pub lookups: u64,
    /// Packets for which an entry was found.
    pub matched: u64,
    /// The structures its lookups use.
    pub structure: String,
    /// Masks of its entries.
    pub masks: u64,
    /// Bytes that the entries' matches and the structures take, about.
    pub memory: u64,
}

impl Stats {
    /// The document of a report.
    pub fn new(report: &Report, version: &str, tsc_hz: f64) -> Self {
        // Both sides have the same shape, which a test sees to.
        let ledger: Self = serde_json::to_value(report)
            .and_then(serde_json::from_value)
            .expect("a report is plain data of the document's shape");
        Self { schema: STATS_SCHEMA, version: version.to_owned(), tsc_hz, ..ledger }
    }

    /// Packets received, over all workers.
    pub fn received(&self) -> u64 {
        self.workers.iter().map(|worker| worker.received).sum()
    }

    /// Packets sent, over all workers.
    pub fn sent(&self) -> u64 {
        self.workers.iter().map(|worker| worker.sent).sum()
    }

    /// Packets dropped, by reason, over all workers.
    pub fn drops(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (reason, packets) in self.workers.iter().flat_map(|worker| &worker.dropped) {
            *sums.entry(reason.as_str()).or_default() += packets;
        }
        sums
    }

    /// Packets dropped, over all workers.
    pub fn dropped(&self) -> u64 {
        self.drops().values().sum()
    }
}

impl WorkerStats {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_datapath::{
        CacheReport, HintReport, PortReport, ServiceReport, StepReport, StuckReport, TableReport, WaitReport,
        WorkerReport,
    };
    use weir_services::{HostReport, Quarantine, Share};

    /// A report in which every field differs from zero.
    pub(crate) fn report() -> Report {
        let worker = |worker: usize| WorkerReport {
            worker,
            core: worker + 1,
            thread: 400 + worker as u32,
            received: 1000,
            injected: 5,
            copied: 20,
            sent: 900,
            dropped: BTreeMap::from([("no-match", 70), ("ttl-expired", 20)]),
            to_controller: 10,
            handed_over: 8,
            taken_over: 3,
            held: 20,
            bursts: 40,
            busy_cycles: 250_000,
            steps: vec![
                StepReport { step: "receive", packets: 100, cycles: 2000 },
                StepReport { step: "lookup", packets: 100, cycles: 4500 },
            ],
            caches: CacheReport {
                shortcut_hits: 0,
                exact_hits: 700,
                megaflow_hits: 280,
                direct: 7,
                upcalls: 20,
                revalidated: 4,
                coalesced: 300,
                revoked: 6,
                remembered: 40,
                outlived: 41,
                lapsed: 42,
                restarts: 43,
                stepped_aside: 44,
                newcomers: 45,
                refused: 46,
                idle: 47,
                cleared: 48,
                megaflows: 17,
                evicted: 8,
                masks: 3,
                most_masks: 2,
                edges: 31,
                memory: 1 << 20,
            },
            stuck: (worker == 1).then(|| StuckReport { service: Some("fw".to_owned()), ns: 3_000_000_000 }),
            waiting: WaitReport { sleeps: 12, slept_ns: 900_000, late: 2, hints: 31 },
            hints: HintReport {
                hits: 500,
                missed: 300,
                stale: 20,
                wrong: 10,
                written: 60,
                evicted: 7,
                full: 9,
                places: 64,
                entries: 53,
                emulated_cycles: 44_000,
            },
        };
        let port = |number: u32, name: &str| PortReport {
            number,
            name: name.to_owned(),
            spec: format!("net_null{number}"),
            link_up: number == 1,
            received: 1500,
            received_bytes: 96_000,
            sent: 1400,
            sent_bytes: 84_000,
            send_dropped: 7,
            missed: 9,
            megaflows: 34,
            evicted: 16,
            faults: BTreeMap::from([("lost", 5), ("waiting", 2)]),
            hints: "emulated: it is no NIC".to_owned(),
        };
        let host = HostReport {
            packets: 950,
            bursts: 38,
            dropped: 4,
            coalesced: 900,
            cycles: 95_000,
            panics: 2,
            overruns: 1,
            worst_cycles: 800,
            memory: 4096,
            heap: 5000,
            builds: 3,
            worst_build_cycles: 70_000,
            last_panic: Some("index \"9\" out of range\nof 8".to_owned()),
            quarantine: Some(Quarantine::Panics),
            counters: vec![("connections".to_owned(), 12)],
            shares: vec![Share { zone: 5, port: 2, counters: vec![("evicted".to_owned(), 7)] }],
        };
        Report {
            uptime_ns: 3_000_000_000,
            generation: 42,
            poll: "adaptive:100us".parse().expect("a way to wait"),
            tcam: Some("64".parse().expect("a table")),
            workers: vec![worker(0), worker(1)],
            ports: vec![port(1, "left"), port(2, "right")],
            services: vec![ServiceReport {
                name: "fw".to_owned(),
                kind: "conntrack",
                instances: vec![host, HostReport::default()],
            }],
            tables: vec![TableReport {
                table: 3,
                entries: 500,
                lookups: 2000,
                matched: 1930,
                structure: "hash".to_owned(),
                masks: 1,
                memory: 80_000,
            }],
        }
    }

    #[test]
    fn the_document_holds_all_that_the_report_holds() {
        let report = report();
        let stats = Stats::new(&report, "weir 1", 2.6e9);
        let mut document = serde_json::to_value(&stats).unwrap();
        for added in ["schema", "version", "tsc_hz"] {
            assert!(document.as_object_mut().unwrap().remove(added).is_some());
        }
        assert_eq!(document, serde_json::to_value(&report).unwrap());
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), stats);
    }

    #[test]
    fn the_ledger_is_added_up_by_worker() {
        let stats = Stats::new(&report(), "", 1.0);
        assert_eq!((stats.received(), stats.sent(), stats.dropped()), (2000, 1800, 180));
        assert_eq!(stats.drops(), BTreeMap::from([("no-match", 140), ("ttl-expired", 40)]));
        assert!(stats.workers[0].balances());
        let lost = WorkerStats { received: 1, ..WorkerStats::default() };
        assert!(!lost.balances());
    }
}
