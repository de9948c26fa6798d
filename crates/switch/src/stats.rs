//! The ledger as a document: what `weir switch stats --json` prints, and a client of any version reads.
//!
//! It is the datapath's [`Report`], with words instead of settings, so that a reader of another version can read it.
//! What lies between two readings: `stats/since.rs`.

pub mod counters;
mod since;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_datapath::Report;
pub use weir_datapath::{
    CacheReport, HintReport, PortReport, StepReport, StuckReport, TableReport, WaitReport, WorkerReport,
};

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
    pub workers: Vec<WorkerReport>,
    /// By port.
    pub ports: Vec<PortReport>,
    /// By service.
    pub services: Vec<ServiceStats>,
    /// By table that has an entry or was looked into.
    pub tables: Vec<TableReport>,
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
            *sums.entry(reason.as_ref()).or_default() += packets;
        }
        sums
    }

    /// Packets dropped, over all workers.
    pub fn dropped(&self) -> u64 {
        self.drops().values().sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_datapath::ServiceReport;
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
            dropped: BTreeMap::from([("no-match".into(), 70), ("ttl-expired".into(), 20)]),
            to_controller: 10,
            handed_over: 8,
            taken_over: 3,
            held: 20,
            bursts: 40,
            busy_cycles: 250_000,
            steps: vec![
                StepReport { step: "receive".into(), packets: 100, cycles: 2000 },
                StepReport { step: "lookup".into(), packets: 100, cycles: 4500 },
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
                repeated: 39,
                remembered: 40,
                outlived: 41,
                elsewhere: 49,
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
            faults: BTreeMap::from([("lost".into(), 5), ("waiting".into(), 2)]),
            trouble: String::new(),
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
        let lost = WorkerReport { received: 1, ..WorkerReport::default() };
        assert!(!lost.balances());
    }
}
