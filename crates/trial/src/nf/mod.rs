//! Network functions, described once for every dataplane.
//!
//! What an [`Nf`] says in a word, [`Nf::routes`], [`Nf::rules`], [`Nf::stations`], [`Nf::networks`] and
//! [`Nf::backends`] say in full: adapters translate these to their dataplane's own language, so that
//! all devices are given the same work.

mod access;
mod chain;
mod exposed;
mod flows;
mod gateway;
mod routes;
mod rules;
mod sets;

pub use chain::{Chain, ChainError};
pub use exposed::{DENIED_BITS, DENIED_DESTINATION_PORT, DENIED_SOURCE, DENIED_SOURCE_PORT};
pub use flows::{FlowEntry, FlowFile, FlowFileError};
pub use gateway::{BACKENDS, Backend, CLIENT_PORTS, NAT_OCTET, Network, Station, TESTER_MACS, nfpa_mac};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_wire::table::{Route, Rule};

/// A network function: what must happen to a packet, whatever the dataplane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Nf {
    /// Forward from each port to the other; MAC addresses untouched.
    L2Fwd,
    /// Route IPv4 by longest prefix: TTL lowered, checksum mended, both MAC addresses rewritten.
    L3Fwd {
        /// Routes in the table, as [`Nf::routes`] lays them out.
        routes: u32,
    },
    /// Forward from each port to the other what no rule denies; rules match the IPv4 five-tuple.
    Firewall {
        /// Rules in the list, as [`Nf::rules`] lays them out, the last one included that lets
        /// everything else pass.
        rules: u32,
    },
    /// Forward from each port to the other what no rule denies, each of which is about one field alone: the
    /// list that tuple-space explosion is aimed at.
    Exposed {
        /// Fields that have such a rule: UDP's destination port, then the source address, then UDP's source
        /// port.
        fields: u32,
    },
    /// Forward by destination MAC address, packets untouched; what has no entry is dropped.
    L2 {
        /// MAC addresses in the table, as [`Nf::stations`] lays them out.
        stations: u32,
    },
    /// [`Nf::L2`] over the addresses of NFPA's traces of MAC addresses (`tr2e`, `tr3e`, `tr4e`), one table for all of them.
    L2Nfpa {
        /// Destination MAC addresses behind port 1, as [`nfpa_mac`] numbers them.
        addresses: u32,
    },
    /// SoftFlow's Pipeline A (section 7.2): a network virtualization gateway that looks a packet up in
    /// four stages and changes nothing in it. Its destination MAC address must be a station's
    /// ([`Nf::stations`]) and its destination lie in a network ([`Nf::networks`]); a stateful firewall
    /// passes what belongs to a connection, and lets the list ([`Nf::rules`]) say what may open one;
    /// it leaves by its station's port.
    PipelineA {
        /// Entries in each of the three tables.
        entries: u32,
    },
    /// Pipeline A over tables of few masks: every network is a /24, and every rule names a /24 at both ends and
    /// any port or one. A classifier that looks masks up one after the other (tuple-space search) has few of
    /// them here, where A's drawn prefix lengths give it many.
    PipelineAFew {
        /// Entries in each of the three tables.
        entries: u32,
    },
    /// Pipeline B: A, with the payload encrypted behind the firewall (AES-128-CBC, see
    /// the crate `weir-cipher`) and the destination moved into 10.0.0.0/8, its other octets kept.
    PipelineB {
        /// Entries in each of the three tables.
        entries: u32,
    },
    /// Pipeline C: A, with a load balancer behind the firewall that gives each connection to one of
    /// [`BACKENDS`] on the far side ([`Nf::backends`]): destination MAC and IP address become the
    /// backend's.
    PipelineC {
        /// Entries in each of the three tables.
        entries: u32,
    },
    /// Pipeline D: from each port to the other, through so many services that do nothing.
    PipelineD {
        /// Services in a row.
        noops: u32,
    },
    /// Source NAT: route IPv4 between the hosts behind port 0 (198.18.0.0/16) and those behind port 1 (198.19.0.0/16) as
    /// [`Nf::L3Fwd`] does. What comes from inside leaves with one of so many public addresses ([`Nf::translates`]) and a
    /// port in place of its own, the same for all packets of a connection and no other's towards the same server while it
    /// lives. What comes from outside passes only if it belongs to a connection, and to the host that began it.
    Nat {
        /// Public addresses.
        addresses: u32,
    },
    /// A flow table of a user's own.
    Flows(FlowFile),
    /// Functions in a row.
    Chain(Chain),
}

/// The kind of a network function, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NfKind {
    /// [`Nf::L2Fwd`].
    L2Fwd,
    /// [`Nf::L3Fwd`].
    L3Fwd,
    /// [`Nf::Firewall`].
    Firewall,
    /// [`Nf::Exposed`].
    Exposed,
    /// [`Nf::L2`].
    L2,
    /// [`Nf::L2Nfpa`].
    L2Nfpa,
    /// [`Nf::PipelineA`].
    PipelineA,
    /// [`Nf::PipelineAFew`].
    PipelineAFew,
    /// [`Nf::PipelineB`].
    PipelineB,
    /// [`Nf::PipelineC`].
    PipelineC,
    /// [`Nf::PipelineD`].
    PipelineD,
    /// [`Nf::Nat`].
    Nat,
    /// [`Nf::Flows`].
    Flows,
    /// [`Nf::Chain`].
    Chain,
}

/// A text that names no network function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no network function Weir knows; write {forms}",
    forms = Nf::FORMS
)]
pub struct ParseNfError {
    text: String,
}

impl Nf {
    /// Routes and rules when none are stated: what both editions of the benchmarking paper use (section 3.3).
    pub const DEFAULT_ENTRIES: u32 = 10;
    /// The largest table the adapters build.
    pub const MAX_ENTRIES: u32 = 100_000;

    /// Entries of [`Nf::L2`] and of each table of the pipelines when none are stated: SoftFlow, section 7.2.
    pub const PIPELINE_ENTRIES: u32 = 500;
    /// MAC addresses of [`Nf::L2Nfpa`] when none are stated, those of `tr3e`, and their most, those of `tr4e`.
    pub const NFPA_ADDRESSES: u32 = 10_000;
    /// See [`Nf::NFPA_ADDRESSES`].
    pub const MOST_NFPA_ADDRESSES: u32 = 500_000;
    /// Fewest entries of a pipeline: [`BACKENDS`] stations behind each of the two ports.
    pub const LEAST_PIPELINE_ENTRIES: u32 = 2 * BACKENDS as u32;
    /// Most entries of a pipeline: random prefixes of /8 are not many more.
    pub const MOST_PIPELINE_ENTRIES: u32 = 10_000;
    /// Most services in a row of [`Nf::PipelineD`].
    pub const MOST_NOOPS: u32 = 32;
    /// Most public addresses of [`Nf::Nat`]: those of hosts in [`NAT_NETWORK`].
    pub const MOST_PUBLIC: u32 = 254;
    /// Most fields of [`Nf::Exposed`].
    pub const MOST_FIELDS: u32 = 3;
    /// What stands before the file of [`Nf::Flows`].
    pub const FLOWS: &'static str = "flows:";
    /// The names that can be written, with their numbers.
    pub const FORMS: &'static str = "l2fwd, l3fwd:N (1 to 100000 routes), firewall:N (1 to 100000 rules), \
         exposed:N (1 to 3 fields), l2:N (2 to 100000 MAC addresses), l2-nfpa:N (1 to 500000, of tr2e, tr3e and tr4e), pipeline-a:N, pipeline-a-few:N, pipeline-b:N or pipeline-c:N (16 to 10000 entries a \
         table), pipeline-d:N (0 to 32 services that do nothing), nat:N (1 to 254 public addresses), or flows:FILE (a file of flows, as ovs-ofctl add-flows reads them, a rule set or a routing table), or several of them, but for nat, in a row, joined by `+`; without `:N` it is 10, 3, 500, 10000 of l2-nfpa, one service, or one address";

    /// The kind.
    pub const fn kind(self) -> NfKind {
        match self {
            Self::L2Fwd => NfKind::L2Fwd,
            Self::L3Fwd { .. } => NfKind::L3Fwd,
            Self::Firewall { .. } => NfKind::Firewall,
            Self::Exposed { .. } => NfKind::Exposed,
            Self::L2 { .. } => NfKind::L2,
            Self::L2Nfpa { .. } => NfKind::L2Nfpa,
            Self::PipelineA { .. } => NfKind::PipelineA,
            Self::PipelineAFew { .. } => NfKind::PipelineAFew,
            Self::PipelineB { .. } => NfKind::PipelineB,
            Self::PipelineC { .. } => NfKind::PipelineC,
            Self::PipelineD { .. } => NfKind::PipelineD,
            Self::Nat { .. } => NfKind::Nat,
            Self::Flows(_) => NfKind::Flows,
            Self::Chain(_) => NfKind::Chain,
        }
    }

    /// The number behind its name: routes, rules, fields, MAC addresses, entries of each table or services;
    /// nothing for a function without one.
    pub const fn entries(self) -> Option<u32> {
        match self {
            Self::L2Fwd | Self::Flows(_) | Self::Chain(_) => None,
            Self::L3Fwd { routes: number }
            | Self::Firewall { rules: number }
            | Self::Exposed { fields: number }
            | Self::L2 { stations: number }
            | Self::L2Nfpa { addresses: number }
            | Self::PipelineA { entries: number }
            | Self::PipelineAFew { entries: number }
            | Self::PipelineB { entries: number }
            | Self::PipelineC { entries: number }
            | Self::PipelineD { noops: number }
            | Self::Nat { addresses: number } => Some(number),
        }
    }

    /// Entries in each table of pipelines A, B and C; nothing for other functions.
    pub const fn pipeline_entries(self) -> Option<u32> {
        match self {
            Self::PipelineA { entries }
            | Self::PipelineAFew { entries }
            | Self::PipelineB { entries }
            | Self::PipelineC { entries } => Some(entries),
            _ => None,
        }
    }

    /// The pipeline A that has the same tables as this pipeline; nothing for other functions.
    pub const fn pipeline_tables(self) -> Option<Self> {
        match self {
            Self::PipelineAFew { entries } => Some(Self::PipelineAFew { entries }),
            _ => match self.pipeline_entries() {
                Some(entries) => Some(Self::PipelineA { entries }),
                None => None,
            },
        }
    }

    /// The addresses that take the place of those of the hosts behind port 0, the first and the last; nothing for
    /// functions that translate none by connection.
    pub const fn translates(self) -> Option<(std::net::Ipv4Addr, std::net::Ipv4Addr)> {
        use std::net::Ipv4Addr;
        let [a, b, c, _] = NAT_NETWORK;
        match self {
            Self::Nat { addresses } => {
                Some((Ipv4Addr::new(a, b, c, 1), Ipv4Addr::new(a, b, c, addresses as u8)))
            }
            _ => None,
        }
    }

    /// The routing table; empty unless this is [`Nf::L3Fwd`] or [`Nf::Nat`], which has a route to either side.
    ///
    /// The test network is 198.18.0.0/15 (RFC 2544, appendix C.2.2.2): 198.18.0.0/16 leaves by port
    /// 0, 198.19.0.0/16 by port 1. Of `N` routes half, and the odd one, divide 198.19.0.0/16; the
    /// others divide 198.18.0.0/16. Each half is covered exactly: its largest prefix is halved, the
    /// lowest first, until there are enough, so lengths differ by one at most. A single route is
    /// 198.19.0.0/16 alone, and what goes the other way has none.
    pub fn routes(self) -> Vec<Route> {
        match self {
            Self::L3Fwd { routes } => routes::divide(routes),
            Self::Nat { .. } => routes::divide(2),
            _ => Vec::new(),
        }
    }

    /// The list of rules; empty unless this is [`Nf::Firewall`], [`Nf::Exposed`] or pipeline A, B or C.
    ///
    /// Of `N` rules `N - 1` deny, and the last lets everything pass. Each deny rule names TCP or
    /// UDP, a source and a destination prefix (/16 to /32) in opposite halves of the test network,
    /// all client ports or one range of them, and a destination port or range below
    /// [`FIRST_FREE_PORT`]. Weir's traces keep to ports from there on: their packets pass by
    /// the last rule. A classifier that tells those ports apart first never looks at the others, so
    /// what a rule costs shows only under traffic to lower ports. The list is the same wherever it is made, and a longer list begins
    /// with the deny rules of a shorter one.
    ///
    /// A pipeline's list is another: what may *open* a connection, by the first rule that matches; what no
    /// rule matches may not. It is drawn with the statistics of real firewalls, see `access.rs`.
    pub fn rules(self) -> Vec<Rule> {
        match (self, self.pipeline_entries()) {
            (Self::Firewall { rules }, _) => rules::list(rules),
            (Self::Exposed { fields }, _) => exposed::list(fields),
            (Self::PipelineAFew { entries }, _) => access::few(&gateway::few_networks(entries), entries),
            (_, Some(entries)) => access::list(&gateway::networks(entries), entries),
            _ => Vec::new(),
        }
    }

    /// Who is behind which port; empty unless this is [`Nf::L2`], [`Nf::L2Nfpa`] or pipeline A, B or C.
    ///
    /// The MAC addresses are random, unicast and locally administered, behind port 1 and port 0 in turn. A
    /// longer table begins with a shorter one, and all functions have the same; but [`Nf::L2Nfpa`] has the tester's own
    /// address behind port 0, and the traces' behind port 1.
    pub fn stations(self) -> Vec<Station> {
        match (self, self.pipeline_entries()) {
            (Self::L2Nfpa { addresses }, _) => gateway::nfpa_stations(addresses),
            (Self::L2 { stations: entries }, _) | (_, Some(entries)) => gateway::stations(entries),
            _ => Vec::new(),
        }
    }

    /// Known networks, of which the longest that holds the destination decides; empty unless this is
    /// pipeline A, B or C.
    ///
    /// Prefix lengths are drawn evenly from 8 to 32, addresses evenly from all unicast ones; so prefixes
    /// lie inside one another now and then; those of [`Nf::PipelineAFew`] are all of 24 bits. One in sixteen leads nowhere (a null route: what it holds
    /// is dropped), so that an answer is right only if it is the longest prefix's.
    pub fn networks(self) -> Vec<Network> {
        match self {
            Self::PipelineAFew { entries } => gateway::few_networks(entries),
            _ => self.pipeline_entries().map(gateway::networks).unwrap_or_default(),
        }
    }

    /// The backends behind a port; empty unless this is [`Nf::PipelineC`].
    pub fn backends(self, port: u8) -> Vec<Backend> {
        match self {
            Self::PipelineC { .. } => gateway::backends(port),
            _ => Vec::new(),
        }
    }
}

/// The network of the public addresses (RFC 5737, TEST-NET-3).
pub const NAT_NETWORK: [u8; 4] = [203, 0, 113, 0];

/// The first port that no deny rule of [`Nf::rules`] names as destination: below lie the system
/// ports (RFC 6335, section 6).
pub const FIRST_FREE_PORT: u16 = 1024;

impl NfKind {
    /// Every kind, in the order of the tables people read.
    pub const ALL: [Self; 14] = [
        Self::L2Fwd,
        Self::L3Fwd,
        Self::Firewall,
        Self::Exposed,
        Self::L2,
        Self::L2Nfpa,
        Self::PipelineA,
        Self::PipelineAFew,
        Self::PipelineB,
        Self::PipelineC,
        Self::PipelineD,
        Self::Nat,
        Self::Flows,
        Self::Chain,
    ];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2Fwd => "l2fwd",
            Self::L3Fwd => "l3fwd",
            Self::Firewall => "firewall",
            Self::Exposed => "exposed",
            Self::L2 => "l2",
            Self::L2Nfpa => "l2-nfpa",
            Self::PipelineA => "pipeline-a",
            Self::PipelineAFew => "pipeline-a-few",
            Self::PipelineB => "pipeline-b",
            Self::PipelineC => "pipeline-c",
            Self::PipelineD => "pipeline-d",
            Self::Nat => "nat",
            Self::Flows => "flows",
            Self::Chain => "chain",
        }
    }

    /// The function of this kind with the number that stands behind its name, if it is one that can.
    fn with(self, number: Option<u32>) -> Option<Nf> {
        let within = |default: u32, least: u32, most: u32| {
            let number = number.unwrap_or(default);
            (least..=most).contains(&number).then_some(number)
        };
        let pipeline = || within(Nf::PIPELINE_ENTRIES, Nf::LEAST_PIPELINE_ENTRIES, Nf::MOST_PIPELINE_ENTRIES);
        Some(match self {
            Self::L2Fwd => return number.is_none().then_some(Nf::L2Fwd),
            Self::L3Fwd => Nf::L3Fwd { routes: within(Nf::DEFAULT_ENTRIES, 1, Nf::MAX_ENTRIES)? },
            Self::Firewall => Nf::Firewall { rules: within(Nf::DEFAULT_ENTRIES, 1, Nf::MAX_ENTRIES)? },
            Self::Exposed => Nf::Exposed { fields: within(Nf::MOST_FIELDS, 1, Nf::MOST_FIELDS)? },
            Self::L2 => Nf::L2 { stations: within(Nf::PIPELINE_ENTRIES, 2, Nf::MAX_ENTRIES)? },
            Self::L2Nfpa => Nf::L2Nfpa { addresses: within(Nf::NFPA_ADDRESSES, 1, Nf::MOST_NFPA_ADDRESSES)? },
            Self::PipelineA => Nf::PipelineA { entries: pipeline()? },
            Self::PipelineAFew => Nf::PipelineAFew { entries: pipeline()? },
            Self::PipelineB => Nf::PipelineB { entries: pipeline()? },
            Self::PipelineC => Nf::PipelineC { entries: pipeline()? },
            Self::PipelineD => Nf::PipelineD { noops: within(1, 0, Nf::MOST_NOOPS)? },
            Self::Nat => Nf::Nat { addresses: within(1, 1, Nf::MOST_PUBLIC)? },
            // These have more than a number behind their name.
            Self::Flows | Self::Chain => return None,
        })
    }
}

impl fmt::Display for Nf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.entries()) {
            (Self::Flows(file), _) => f.pad(&format!("{}:{file}", self.kind().name())),
            (Self::Chain(chain), _) => f.pad(&chain.to_string()),
            (_, None) => f.pad(self.kind().name()),
            (_, Some(number)) => f.pad(&format!("{}:{number}", self.kind().name())),
        }
    }
}

impl FromStr for Nf {
    type Err = ParseNfError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let members = Chain::split(text);
        if let (Some(file), [_]) = (text.strip_prefix(Nf::FLOWS), members.as_slice()) {
            let file = FlowFile::stored(file).map(Self::Flows);
            return file.ok_or_else(|| ParseNfError { text: text.to_owned() });
        }
        if members.len() > 1 {
            let members: Result<Vec<Nf>, _> = members.into_iter().map(str::parse).collect();
            let chain = members.ok().and_then(|members| Chain::of(&members).ok());
            return chain.ok_or_else(|| ParseNfError { text: text.to_owned() });
        }
        let (name, number) = match text.split_once(':') {
            None => (text, Some(None)),
            Some((name, number)) => (name, number.parse().ok().map(Some)),
        };
        let kind = NfKind::ALL.into_iter().find(|kind| kind.name() == name);
        let nf = kind.zip(number).and_then(|(kind, number)| kind.with(number));
        nf.ok_or_else(|| ParseNfError { text: text.to_owned() })
    }
}

impl From<Nf> for String {
    fn from(nf: Nf) -> Self {
        nf.to_string()
    }
}

impl TryFrom<String> for Nf {
    type Error = ParseNfError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for (text, nf) in [
            ("l2fwd", Nf::L2Fwd),
            ("l3fwd:1000", Nf::L3Fwd { routes: 1000 }),
            ("firewall:10", Nf::Firewall { rules: 10 }),
            ("l2:500", Nf::L2 { stations: 500 }),
            ("l2-nfpa:100", Nf::L2Nfpa { addresses: 100 }),
            ("pipeline-a:16", Nf::PipelineA { entries: 16 }),
            ("pipeline-a-few:500", Nf::PipelineAFew { entries: 500 }),
            ("pipeline-b:500", Nf::PipelineB { entries: 500 }),
            ("pipeline-c:10000", Nf::PipelineC { entries: 10_000 }),
            ("pipeline-d:0", Nf::PipelineD { noops: 0 }),
            ("nat:254", Nf::Nat { addresses: 254 }),
        ] {
            assert_eq!(text.parse(), Ok(nf));
            assert_eq!(nf.to_string(), text);
        }
        assert_eq!("l3fwd".parse(), Ok(Nf::L3Fwd { routes: 10 }));
        assert_eq!("pipeline-a".parse(), Ok(Nf::PipelineA { entries: 500 }));
        assert_eq!("pipeline-d".parse(), Ok(Nf::PipelineD { noops: 1 }));
        assert!("flows".parse::<Nf>().is_err(), "a file is missing");
        for kind in NfKind::ALL.into_iter().filter(|kind| !matches!(kind, NfKind::Flows | NfKind::Chain)) {
            assert_eq!(kind.name().parse::<Nf>().unwrap().kind(), kind);
        }
    }

    #[test]
    fn unknown_names_and_sizes_are_refused_with_the_choices() {
        for text in [
            "router",
            "l2fwd:3",
            "l3fwd:0",
            "firewall:x",
            "l3fwd:100001",
            "l2:1",
            "l2-nfpa:500001",
            "pipeline-a:15",
            "pipeline-b:10001",
            "pipeline-d:33",
            "pipeline-a:",
        ] {
            let error = text.parse::<Nf>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("l3fwd:N"), "{error}");
        }
    }
}
