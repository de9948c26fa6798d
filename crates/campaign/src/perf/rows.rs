//! The rows: work, devices, targets. A figure that was not measured here says whose it is.

use super::{Quoted, Unit, drawn};
use std::sync::LazyLock;

/// What is done in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) nf: &'static str,
    pub(super) trace: &'static str,
    pub(super) directions: u8,
    /// Frame sizes, as a plan has them.
    pub(super) size: &'static str,
    /// Seed of the traffic; nothing for a plan's usual one.
    pub(super) seed: Option<u64>,
}

/// How a row comes to its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// A device beside others, in turns, over `fed`.
    Devices { device: &'static str, others: &'static [&'static str], work: Work },
    /// The first second of a device with empty caches beside another's, over `fed`.
    Starts { other: &'static str, work: Work },
    /// Weir at one work against another, over `fed`: rounds that begin with each in turn.
    Works { device: &'static str, work: Work, against: Work },
    /// Weir's median delay at one load against another, over `vhost`.
    Loads { work: Work, load: &'static str, against: &'static str },
    /// A service by itself, against the target's number.
    Service { kind: &'static str, options: &'static [&'static str], unit: Unit },
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// So many times the other side of the first pair; of a peer in several variants, the better one's.
    Times(f64),
    /// This number, or a greater one.
    AtLeast(f64),
    /// This number, or a smaller one.
    AtMost(f64),
}

impl Target {
    /// As a ratio of the row's first pair, where more is better.
    pub(super) fn ratio(&self) -> f64 {
        match self {
            Self::Times(times) => *times,
            Self::AtLeast(_) | Self::AtMost(_) => 1.0,
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its name, as typed.
    pub id: &'static str,
    /// What is done, in words.
    pub work: &'static str,
    /// Whether it is in the quick subset, which compares a change with its base.
    pub quick: bool,
    pub(super) way: Way,
    pub(super) target: Option<Target>,
    pub(super) quoted: Option<(&'static str, Unit, f64)>,
}

pub(super) const fn work(nf: &'static str, trace: &'static str, directions: u8) -> Work {
    Work { nf, trace, directions, size: "64", seed: None }
}

const WEIR: &str = "weir";
pub(super) const OVS: &str = "ovs-dpdk";
pub(super) const TUNED: &str = "ovs-dpdk:tuned";
const PORT: Work = work("l2fwd", "flows:10000", 1);
const A_10000: Work = work("pipeline-a", "conversations:10000", 2);
const FEW: &str = "pipeline-a-few";
/// 10,000 flows through tables of a thousand routes: forwarded, and tracked.
const ROUTED: Work = work("l3fwd:1000", "flows:10000", 1);
const TRACKED: Work = work("pipeline-a:1000", "conversations:5000:1000", 2);
/// The same device without changes of its flow entries, its table of routes as it is and with half a million.
const CALM: &[&str] = &[WEIR];
const CALM_OF_MANY: &[&str] = &["weir:idle=499000"];

pub(super) const fn beside(
    id: &'static str,
    words: &'static str,
    others: &'static [&'static str],
    of: Work,
) -> Row {
    let way = Way::Devices { device: WEIR, others, work: of };
    Row { id, work: words, quick: false, way, target: None, quoted: None }
}

impl Row {
    pub(super) const fn reach(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    /// A device whose flow entries change a thousand times a second, beside the same without changes.
    const fn changing(
        id: &'static str,
        words: &'static str,
        device: &'static str,
        (calm, of): (&'static [&'static str], Work),
    ) -> Self {
        Self::new(id, words, Way::Devices { device, others: calm, work: of }).reach(Target::Times(0.9))
    }

    const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    const fn quote(self, what: &'static str, unit: Unit, value: f64) -> Self {
        Self { quoted: Some((what, unit, value)), ..self }
    }

    const fn new(id: &'static str, work: &'static str, way: Way) -> Self {
        Self { id, work, quick: false, way, target: None, quoted: None }
    }

    /// The quoted figure, where there is one.
    pub(super) fn quoted(&self) -> Option<Quoted> {
        self.quoted.map(|(what, unit, value)| Quoted { what: what.to_owned(), unit, value })
    }

    /// The devices that it is measured beside, as they are called; none where it is measured beside other work.
    pub fn peers(&self) -> Vec<&'static str> {
        match self.way {
            Way::Devices { others, .. } => others.to_vec(),
            Way::Starts { other, .. } => vec![other],
            Way::Works { .. } | Way::Loads { .. } | Way::Service { .. } => Vec::new(),
        }
    }

    /// The devices of whom the better one decides whether the target is reached: the first peer in all its
    /// variants.
    pub(super) fn rivals(&self) -> &'static [&'static str] {
        let Way::Devices { others, .. } = self.way else { return &[] };
        let name = |device: &str| weir_dut::split(device).0.to_owned();
        let same = others.iter().take_while(|other| name(other) == name(others[0])).count();
        &others[..same]
    }

    /// The target in words.
    pub(super) fn target_says(&self) -> String {
        let other = match self.way {
            Way::Devices { others: [one, ..], .. } if self.rivals().len() < 2 => (*one).to_owned(),
            Way::Devices { .. } => format!("the better of {}", self.rivals().join(" and ")),
            Way::Starts { other, .. } => other.to_owned(),
            Way::Works { .. } => "the rate without".to_owned(),
            Way::Loads { .. } => "the delay at the greater load".to_owned(),
            Way::Service { .. } => String::new(),
        };
        let unit = |value: f64| match self.way {
            Way::Service { unit: Unit::Bps, .. } => format!("{} Gb/s", value / 1e9),
            _ => format!("{value} ns"),
        };
        match (self.target, self.way) {
            (Some(Target::Times(_)), Way::Loads { .. }) => format!("no more than {other}"),
            (Some(Target::Times(times)), _) => format!("{times} times {other}"),
            (Some(Target::AtLeast(value)), _) => format!("at least {}", unit(value)),
            (Some(Target::AtMost(value)), _) => format!("at most {}", unit(value)),
            (None, _) => String::new(),
        }
    }
}

/// Where the figure is from that stands for BESS, which no Debian package has.
const BESS: &str = "BESS's ACL module, one core, the same trace from memory, on a machine of this kind (EPYC \
                    Zen 4, TSC 2.6 GHz), built from source for its CPU with DPDK 19.11; not measured in this run";

/// The table: what stands fixed, and what this release draws (`drawn`).
pub static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| FIXED.into_iter().chain(drawn::rows(env!("CARGO_PKG_VERSION"))).collect());

/// The rows that are the same in each release.
const FIXED: [Row; 30] = [
    beside("port", "port forward, 10,000 flows", &[OVS, TUNED, "testpmd"], PORT)
        .reach(Target::Times(1.8))
        .quick(),
    beside("mac", "500 MAC rules, 10,000 L2 flows", &[OVS, TUNED], work("l2:500", "l2flows:10000", 1))
        .reach(Target::Times(3.0))
        .quick(),
    beside("l3fwd", "routing, 10 routes, 10,000 flows", &["l3fwd", OVS], work("l3fwd:10", "flows:10000", 1))
        .reach(Target::Times(0.8))
        .quick(),
    beside(
        "firewall",
        "firewall, 10 rules, 10,000 flows",
        &["ip_pipeline", OVS],
        work("firewall:10", "flows:10000", 1),
    )
    .reach(Target::Times(1.0))
    .quote(BESS, Unit::Pps, 44e6)
    .quick(),
    beside("a-1", "Pipeline A, 1 conversation", &[OVS, TUNED], work("pipeline-a", "conversations:1", 2))
        .reach(Target::Times(2.0)),
    beside(
        "a-1000",
        "Pipeline A, 1,000 conversations",
        &[OVS, TUNED],
        work("pipeline-a", "conversations:1000", 2),
    )
    .reach(Target::Times(3.0))
    .quick(),
    beside("a-10000", "Pipeline A, 10,000 conversations", &[OVS, TUNED], A_10000)
        .reach(Target::Times(5.0))
        .quick(),
    beside(
        "a-100000",
        "Pipeline A, 100,000 conversations",
        &[OVS, TUNED],
        work("pipeline-a", "conversations:100000", 2),
    )
    .reach(Target::Times(7.0)),
    beside(
        "few-1000",
        "Pipeline A over tables of few masks, 1,000 conversations",
        &[OVS, TUNED],
        work(FEW, "conversations:1000:few", 2),
    )
    .reach(Target::Times(3.0)),
    beside(
        "few-10000",
        "Pipeline A over tables of few masks, 10,000 conversations",
        &[OVS, TUNED],
        work(FEW, "conversations:10000:few", 2),
    )
    .reach(Target::Times(5.0)),
    beside(
        "few-100000",
        "Pipeline A over tables of few masks, 100,000 conversations",
        &[OVS, TUNED],
        work(FEW, "conversations:100000:few", 2),
    )
    .reach(Target::Times(7.0)),
    Row::new(
        "cold",
        "Pipeline A from empty caches, 100,000 conversations, first second",
        Way::Starts { other: OVS, work: work("pipeline-a", "conversations:100000", 2) },
    )
    .reach(Target::Times(10.0)),
    Row::new(
        "cold-10000",
        "Pipeline A of 10,000 entries a table from empty caches, 100,000 conversations, first second",
        Way::Starts { other: OVS, work: work("pipeline-a:10000", "conversations:100000:10000", 2) },
    )
    .reach(Target::Times(10.0)),
    Row::new(
        "million",
        "Pipeline A, 1 million flows against 1,000",
        Way::Works {
            // A million packet buffers of the usual size are more than 1,024 huge pages.
            device: "weir:room=256",
            work: work("pipeline-a", "conversations:500000", 2),
            against: work("pipeline-a", "conversations:500", 2),
        },
    )
    .reach(Target::Times(0.5)),
    Row::new(
        "explosion",
        "under tuple-space explosion, against without",
        Way::Works {
            device: WEIR,
            work: work("exposed:3", "tse-colocated:3", 1),
            against: work("exposed:3", "flows:10000", 1),
        },
    )
    .reach(Target::Times(0.5)),
    beside(
        "shuffled",
        "routing, 10 routes, 10,000 flows in laps of an order of their own",
        &["l3fwd", OVS],
        work("l3fwd:10", "shuffled:10000", 1),
    )
    .reach(Target::Times(0.8)),
    beside(
        "zipf",
        "routing, 10 routes, 100,000 flows by Zipf's law",
        &["l3fwd", OVS],
        work("l3fwd:10", "zipf:100000", 1),
    )
    .reach(Target::Times(0.8)),
    beside(
        "ports",
        "firewall, 10 rules, 10,000 pairs of addresses with new ports each lap",
        &["ip_pipeline", OVS],
        work("firewall:10", "newports:10000", 1),
    )
    .reach(Target::Times(1.0)),
    beside(
        "tcp",
        "firewall, 10 rules, 10,000 TCP connections opened and ended",
        &["ip_pipeline", OVS],
        work("firewall:10", "tcp:10000", 1),
    )
    .reach(Target::Times(1.0)),
    beside(
        "imix",
        "routing, 10 routes, 10,000 flows, IMIX",
        &["l3fwd", OVS],
        Work { size: "imix", ..work("l3fwd:10", "flows:10000", 1) },
    )
    .reach(Target::Times(0.8)),
    Row::new(
        "workers",
        "port forward, 10,000 flows: two workers against one",
        Way::Devices { device: "weir:workers=2", others: &[WEIR], work: PORT },
    )
    .reach(Target::Times(1.9)),
    Row::new(
        "workers-a",
        "Pipeline A, 10,000 conversations: two workers against one",
        Way::Devices { device: "weir:workers=2", others: &[WEIR], work: A_10000 },
    )
    .reach(Target::Times(1.9)),
    Row::changing(
        "changes",
        "routing, 1,000 routes, 10,000 flows: 1,000 other routes a second change against none",
        "weir:changes=1000",
        (CALM, ROUTED),
    ),
    Row::changing(
        "changes-500000",
        "the same, 500,000 routes",
        "weir:idle=499000+changes=1000",
        (CALM_OF_MANY, ROUTED),
    ),
    Row::changing(
        "changes-a",
        "Pipeline A, 1,000 routes, 10,000 tracked flows: 1,000 other routes a second change against none",
        "weir:changes=1000",
        (CALM, TRACKED),
    ),
    Row::changing(
        "changes-a-500000",
        "the same, 500,000 routes",
        "weir:idle=499000+changes=1000",
        (CALM_OF_MANY, TRACKED),
    ),
    Row::new(
        "transcoder",
        "transcoder by itself, 928 B, one core",
        Way::Service {
            kind: "transcoder",
            options: &["--payload", "928", "--rounds", "200"],
            unit: Unit::Bps,
        },
    )
    .reach(Target::AtLeast(70e9))
    .quote("libipsec-mb, 928 B in its own benchmark on a machine of this kind; not measured in this run", Unit::Bps, 81e9),
    Row::new(
        "conntrack",
        "conntrack by itself: new connections until there are 4 million, one core, memory taken at the start",
        Way::Service {
            kind: "conntrack",
            options: &[
                "--settings",
                r#"{"connections": 4000000, "half_open": 4000000, "prefault": true}"#,
                "--argument",
                "1",
                "--new",
                "--connections",
                "4000000",
            ],
            unit: Unit::Ns,
        },
    )
    .reach(Target::AtMost(170.0))
    .quote("Open vSwitch's own benchmark of its tracker, one thread, as its change log has it; not measured in this run", Unit::Ns, 259.0),
    Row::new(
        "latency",
        "median delay at 100 packets a second against a million, port forward over vhost",
        Way::Loads { work: work("l2fwd", "flows:10000", 1), load: "100pps", against: "1Mpps" },
    )
    .reach(Target::Times(1.0)),
    Row::new(
        "latency-a",
        "the same, Pipeline A, 1,000 conversations",
        Way::Loads {
            work: work("pipeline-a", "conversations:1000", 2),
            load: "100pps",
            against: "1Mpps",
        },
    )
    .reach(Target::Times(1.0)),
];

/// The row of a name.
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_has_a_name_of_its_own_and_a_target_in_words() {
        let names: HashSet<&str> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS.iter() {
            assert!(!row.target_says().is_empty() && row.target.is_some(), "{}", row.id);
            assert_eq!(find(row.id), Some(row));
        }
        assert_eq!(
            find("port").unwrap().target_says(),
            "1.8 times the better of ovs-dpdk and ovs-dpdk:tuned"
        );
        assert_eq!(find("firewall").unwrap().target_says(), "1 times ip_pipeline");
        assert_eq!(find("transcoder").unwrap().target_says(), "at least 70 Gb/s");
        assert_eq!(find("changes-500000").unwrap().target_says(), "0.9 times weir:idle=499000");
    }

    #[test]
    fn a_device_whose_entries_change_stands_beside_the_same_without_changes() {
        let changing = ROWS.iter().filter(|row| row.id.starts_with("changes"));
        let sides: Vec<_> = changing
            .map(|row| match row.way {
                Way::Devices { device, others: [calm], .. } => {
                    (device.split_once(&calm[4..]).map(|(_, rest)| rest), *calm)
                }
                way => panic!("{way:?}"),
            })
            .collect();
        assert_eq!(sides.len(), 4);
        for (more, calm) in sides {
            assert!(more.is_some_and(|more| more.ends_with("changes=1000")), "{calm}");
        }
    }

    #[test]
    fn the_quick_subset_compares_devices() {
        let quick: Vec<&Row> = ROWS.iter().filter(|row| row.quick).collect();
        assert!(quick.len() >= 5);
        assert!(quick.iter().all(|row| matches!(row.way, Way::Devices { device: WEIR, .. })));
    }
}
