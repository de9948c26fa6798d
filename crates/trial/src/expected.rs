//! What a network function must make of a packet: the oracle that every DUT's packets are compared
//! with.
//!
//! It is written for being right, not fast, and shares no code with the program under test: routes
//! are looked up length by length in hash tables, rules group by group of equal prefix lengths. Both
//! are tested against the plain meaning of the tables ([`weir_wire::table::longest_match`],
//! [`weir_wire::table::first_match`]). A packet costs about a microsecond, a hundred-thousand-rule
//! firewall's some ten. Plain data once prepared, shared between threads.
//!
//! Where the description of a function leaves a packet's disposition open (a frame that is no IPv4 handed
//! to a router, a datagram cut off by a capture), so does the oracle: [`Expected::Open`].

mod chain;
mod gateway;
mod nat;
pub(crate) mod tables;

use crate::Nf;
use gateway::Gateway;
pub use nat::with_source;
use rustc_hash::FxHashMap;
use std::fmt;
use std::net::Ipv4Addr;
use tables::Tables;
use weir_wire::table::{Action, FiveTuple, Ipv4Prefix, Route, Rule, has_ports, next_hop_mac, port_mac};
use weir_wire::{EtherType, EthernetRepr, EthernetView, Ipv4View, MacAddress, checksum, ipv4};

/// What must become of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It leaves by this port, as these bytes.
    Forward {
        /// The DUT's port, from 0.
        port: u8,
        /// The frame in memory size, without FCS.
        frame: Vec<u8>,
    },
    /// It leaves by this port, as any of these; the same for all packets of its flow.
    OneOf {
        /// The DUT's port, from 0.
        port: u8,
        /// The frames it may be, in memory size, without FCS.
        frames: Vec<Vec<u8>>,
    },
    /// It leaves by this port as this frame, but with one of the public addresses and some port as its source: the same
    /// for all packets of its flow, and no other flow's towards the same server.
    Translated {
        /// The DUT's port, from 0.
        port: u8,
        /// The frame with the source that it came with, in memory size, without FCS.
        frame: Vec<u8>,
        /// The first and the last of the public addresses.
        public: (Ipv4Addr, Ipv4Addr),
    },
    /// It does not come out.
    Drop(Reason),
    /// The function's description does not say.
    Open,
}

/// Why a packet must not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This rule denies it, or none allows it.
    Denied(Option<Rule>),
    /// No route leads to its destination.
    NoRoute,
    /// Its destination MAC address is in no table.
    UnknownStation,
    /// It came in by the port that it would leave by (IEEE 802.1Q, section 8.6.1).
    SamePort,
    /// Its time to live is used up (RFC 1812, section 5.3.1).
    Expired,
    /// Its header's checksum does not hold (RFC 1812, section 5.2.2).
    BadChecksum,
    /// Its header's lengths or version contradict themselves (RFC 1812, section 5.2.2).
    BadHeader,
    /// The flow of this line sends it nowhere.
    Entry(u32),
    /// No flow matches it.
    NoEntry,
    /// It belongs to no connection, and may begin none.
    NoConnection,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(Some(rule)) => write!(f, "rule `{rule}` denies it"),
            Self::Denied(None) => f.write_str("no rule allows it"),
            Self::NoRoute => f.write_str("no route leads to its destination"),
            Self::UnknownStation => f.write_str("its destination MAC address is in no table"),
            Self::SamePort => f.write_str("it came in by the port that it would leave by"),
            Self::Expired => f.write_str("its time to live is used up"),
            Self::BadChecksum => f.write_str("its header's checksum does not hold"),
            Self::BadHeader => f.write_str("its IPv4 header contradicts itself"),
            Self::Entry(line) => write!(f, "the flow of line {line} sends it nowhere"),
            Self::NoEntry => f.write_str("no flow matches it"),
            Self::NoConnection => f.write_str("it belongs to no connection and may begin none"),
        }
    }
}

/// Ports of a function. Functions beside one another have a pair of ports each: 0 and 1, 2 and 3, and so on.
pub const PAIR: u8 = 2;

impl Expected {
    /// The same of the function that has the pair of ports at a place.
    fn of_pair(mut self, pair: u8) -> Self {
        match &mut self {
            Self::Forward { port, .. } | Self::OneOf { port, .. } | Self::Translated { port, .. } => {
                *port += pair * PAIR;
            }
            Self::Drop(_) | Self::Open => {}
        }
        self
    }
}

/// The oracle of one network function with two ports, or of several that are the same beside one another, each with a
/// [`PAIR`] of ports: what comes in by a port of one leaves by that one's.
#[derive(Clone, Debug)]
pub struct Oracle {
    nf: Nf,
    routes: Steps<u8>,
    rules: Rules,
    gateway: Gateway,
    /// Of a flow table that was read.
    tables: Option<Tables>,
    /// Of a chain, its functions'.
    members: Vec<Oracle>,
}

impl Oracle {
    /// Prepares the function's tables.
    pub fn new(nf: Nf) -> Self {
        Self::with_tables(nf, &nf.routes(), nf.rules())
    }

    /// An oracle over tables of one's own, for the kind of function that `nf` names.
    pub fn with_tables(nf: Nf, routes: &[Route], rules: Vec<Rule>) -> Self {
        let routes = Steps::new(routes.iter().map(|route| (route.prefix, route.port)));
        let tables = match nf {
            Nf::Flows(file) if file.text().is_some() => Some(Tables::new(file.entries())),
            _ => None,
        };
        let members = match nf {
            Nf::Chain(chain) => chain.members().iter().copied().map(Self::new).collect(),
            _ => Vec::new(),
        };
        Self { nf, routes, rules: Rules::new(rules), gateway: Gateway::new(nf), tables, members }
    }

    /// The same for traffic in which each TCP connection is opened, by its first packet in direction 0, before anything else of it
    /// comes.
    #[must_use]
    pub fn opened(mut self) -> Self {
        self.gateway.opened = true;
        self.members = self.members.into_iter().map(Self::opened).collect();
        self
    }

    /// The function.
    pub fn nf(&self) -> Nf {
        self.nf
    }

    /// What must become of a frame (in memory size, without FCS) that comes in by a port.
    pub fn expected(&self, in_port: u8, frame: &[u8]) -> Expected {
        self.of_one(in_port % PAIR, frame).of_pair(in_port / PAIR)
    }

    /// The same of the first function.
    fn of_one(&self, in_port: u8, frame: &[u8]) -> Expected {
        match self.nf {
            Nf::L2Fwd | Nf::PipelineD { .. } => {
                Expected::Forward { port: other(in_port), frame: frame.to_vec() }
            }
            Nf::L3Fwd { .. } => self.routed(frame),
            Nf::Firewall { .. } | Nf::Exposed { .. } => self.filtered(in_port, frame),
            Nf::L2 { .. } | Nf::L2Nfpa { .. } => match self.gateway.switched(in_port, frame) {
                Ok(port) => Expected::Forward { port, frame: frame.to_vec() },
                Err(reason) => Expected::Drop(reason),
            },
            Nf::PipelineA { .. } | Nf::PipelineAFew { .. } | Nf::PipelineB { .. } | Nf::PipelineC { .. } => {
                self.gateway.passed(&self.rules, in_port, frame)
            }
            Nf::Nat { .. } => self.translated(in_port, frame),
            Nf::Chain(_) => self.chained(in_port, frame),
            Nf::Flows(_) => {
                let passed = self.tables.as_ref().map(|tables| tables.passed(in_port, frame));
                passed.and_then(Result::ok).unwrap_or(Expected::Open)
            }
        }
    }

    /// What must become of a packet, in either direction, of a TCP connection that the function let open and still
    /// tracks. Nothing is said of functions without connections, and of those that choose where one goes.
    pub fn of_connection(&self, in_port: u8, frame: &[u8]) -> Expected {
        match self.nf {
            Nf::PipelineA { .. } | Nf::PipelineAFew { .. } | Nf::PipelineB { .. } => {
                self.gateway.connected(in_port, frame)
            }
            // Of the addresses as they are inside.
            Nf::Nat { .. } => self.routed(frame),
            _ => Expected::Open,
        }
    }

    /// Whether pipelines A, B and C let a frame pass as an answer alone: no rule allows it to open a connection.
    fn only_answers(&self, frame: &[u8]) -> bool {
        self.nf.pipeline_entries().is_some() && self.gateway.only_answers(&self.rules, frame)
    }

    /// Whether pipelines A, B and C let a UDP conversation be opened and answered that begins with a packet
    /// of this flow, whoever sends it.
    pub fn admits(&self, flow: &FiveTuple) -> bool {
        let rule = || self.rules.find(flow);
        let named = flow.ports.is_some_and(|(source, destination)| source != 0 && destination != 0);
        named && self.gateway.leads_both_ways(flow) && rule().is_some_and(|rule| rule.action == Action::Allow)
    }

    fn routed(&self, frame: &[u8]) -> Expected {
        let Some(datagram) = ipv4_of(frame) else { return Expected::Open };
        let Ok(header) = Ipv4View::checked(datagram) else { return Expected::Drop(Reason::BadHeader) };
        if usize::from(header.total_len()) > datagram.len() {
            return Expected::Open;
        }
        if !header.checksum_is_right() {
            return Expected::Drop(Reason::BadChecksum);
        }
        if header.ttl() <= 1 {
            return Expected::Drop(Reason::Expired);
        }
        let Some(port) = self.routes.find(header.destination()) else {
            return Expected::Drop(Reason::NoRoute);
        };
        let mut frame = frame.to_vec();
        let (destination, source) = (MacAddress(next_hop_mac(port)), MacAddress(port_mac(port)));
        EthernetRepr { destination, source, ether_type: EtherType::IPV4 }.emit(&mut frame);
        let end = EthernetRepr::BYTES + header.header_len();
        let routed = &mut frame[EthernetRepr::BYTES..end];
        routed[ipv4::field::TTL] -= 1;
        routed[ipv4::field::CHECKSUM..ipv4::field::CHECKSUM + 2].fill(0);
        let sum = checksum::checksum(routed);
        routed[ipv4::field::CHECKSUM..ipv4::field::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        Expected::Forward { port, frame }
    }

    fn filtered(&self, in_port: u8, frame: &[u8]) -> Expected {
        let Some(tuple) = five_tuple(frame) else { return Expected::Open };
        match self.rules.find(&tuple) {
            Some(rule) if rule.action == Action::Allow => {
                Expected::Forward { port: other(in_port), frame: frame.to_vec() }
            }
            rule => Expected::Drop(Reason::Denied(rule.copied())),
        }
    }
}

/// The port opposite, of two.
const fn other(port: u8) -> u8 {
    1 - (port & 1)
}

/// What follows an Ethernet header that announces IPv4.
fn ipv4_of(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetView::checked(frame).ok()?;
    (ethernet.ether_type() == EtherType::IPV4).then(|| ethernet.payload())
}

/// The five fields that rules look at; nothing where the packet is no IPv4, contradicts itself or is
/// cut off.
pub fn five_tuple(frame: &[u8]) -> Option<FiveTuple> {
    let datagram = ipv4_of(frame)?;
    let header = Ipv4View::checked(datagram).ok()?;
    (usize::from(header.total_len()) <= datagram.len()).then(|| flow(frame))?
}

/// The flow of an IPv4 packet, whole or cut off behind its ports.
pub fn flow(frame: &[u8]) -> Option<FiveTuple> {
    let header = Ipv4View::checked(ipv4_of(frame)?).ok()?;
    let ports = if has_ports(header.protocol()) && header.fragment_offset() == 0 {
        let [a, b, c, d] = *header.payload().first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    } else {
        None
    };
    Some(FiveTuple {
        protocol: header.protocol(),
        source: header.source(),
        destination: header.destination(),
        ports,
    })
}

/// What prefixes stand for, by their length, longest first.
#[derive(Clone, Debug)]
struct Steps<T>(Vec<(u8, FxHashMap<Ipv4Prefix, T>)>);

impl<T: Copy> Steps<T> {
    /// By prefix length, longest first.
    fn new(entries: impl IntoIterator<Item = (Ipv4Prefix, T)>) -> Self {
        let mut by_length: FxHashMap<u8, FxHashMap<Ipv4Prefix, T>> = FxHashMap::default();
        for (prefix, value) in entries {
            by_length.entry(prefix.bits()).or_default().insert(prefix, value);
        }
        let mut lengths: Vec<_> = by_length.into_iter().collect();
        lengths.sort_by_key(|(bits, _)| std::cmp::Reverse(*bits));
        Self(lengths)
    }

    /// The value of the longest prefix that holds the address.
    fn find(&self, address: Ipv4Addr) -> Option<T> {
        self.0.iter().find_map(|(bits, table)| table.get(&Ipv4Prefix::covering(address, *bits)).copied())
    }
}

/// Rules by the lengths of their prefixes, then by the prefixes; the rest is looked at rule by rule.
#[derive(Clone, Debug)]
struct Rules {
    rules: Vec<Rule>,
    groups: Vec<Group>,
}

/// Rules whose source prefixes are of one length, and whose destination prefixes are.
#[derive(Clone, Debug)]
struct Group {
    bits: (u8, u8),
    /// Places in the list, rising.
    places: FxHashMap<(Ipv4Prefix, Ipv4Prefix), Vec<usize>>,
}

impl Rules {
    fn new(rules: Vec<Rule>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            let bits = (rule.source.bits(), rule.destination.bits());
            let known = groups.iter().position(|group| group.bits == bits).unwrap_or_else(|| {
                groups.push(Group { bits, places: FxHashMap::default() });
                groups.len() - 1
            });
            groups[known].places.entry((rule.source, rule.destination)).or_default().push(place);
        }
        Self { rules, groups }
    }

    fn find(&self, packet: &FiveTuple) -> Option<&Rule> {
        let first = |group: &Group| {
            let source = Ipv4Prefix::covering(packet.source, group.bits.0);
            let destination = Ipv4Prefix::covering(packet.destination, group.bits.1);
            let places = group.places.get(&(source, destination))?;
            places.iter().copied().find(|place| self.rules[*place].matches(packet))
        };
        self.groups.iter().filter_map(first).min().map(|place| &self.rules[place])
    }
}

#[cfg(test)]
#[path = "expected_tests.rs"]
mod tests;
