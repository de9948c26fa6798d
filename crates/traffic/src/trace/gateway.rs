//! Traffic for functions with tables of their own: [`weir_trial::Nf::L2`] and SoftFlow's pipelines A, B, C.
//!
//! A gateway drops what it does not know, so its traffic must be made for its tables. A conversation of
//! `conversations:N` begins at a client behind port 0: both stations, both networks and a rule that lets
//! UDP be opened are chosen evenly from the function's own tables, what the rule leaves open is drawn,
//! and the oracle confirms that it passes. Up to [`PAIRS`] conversations differ in addresses or service,
//! further ones in the client's port ([`CLIENT_PORTS`]).
//!
//! Direction 0 carries what clients send, direction 1 the answers, [`TRAIL`] packets behind: a
//! connection is open before it is answered, but for the last [`TRAIL`] answers of the very first lap.
//! It is UDP, since a lap that is repeated for ever makes no sense of TCP's numbers: its second SYN
//! belongs to no connection that any tracker would know.
//!
//! Cost: some 10 µs a conversation, once.

use super::explosion;
use super::sites::Site;
use super::synthetic::{DESTINATION_PORT, Flow, LEAST_PORT, destination_address, source_address};
use super::{TraceError, TraceName, TraceSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use rustc_hash::FxHashSet;
use std::net::Ipv4Addr;
use weir_trial::{CLIENT_PORTS, Nf, Oracle, Station};
use weir_wire::table::{Action, FiveTuple, Ipv4Prefix, Ports, Rule};
use weir_wire::{MacAddress, ipv4};

/// Conversations that differ in more than the client's port.
pub const PAIRS: u32 = 100_000;

/// Packets that an answer comes after what it answers, in the lap of a direction.
pub const TRAIL: u32 = 64;

/// Port of the servers of connections that are translated.
const SERVICE: u16 = 443;

/// Bits of the prefix of a site's hosts at least: they lie in one subnet.
const SUBNET: u8 = 24;

/// Draws for each conversation before the tables are taken to hold no more of them.
const DRAWS: u32 = 64;

/// The flows of a trace that is made for a function's tables, in direction 0; nothing for other traces.
pub(super) fn flows(spec: &TraceSpec) -> Result<Option<Vec<Flow>>, TraceError> {
    match spec.name {
        TraceName::Conversations { count, .. } => {
            let tables = spec.name.made_for().expect("conversations are made for a pipeline's tables");
            conversations(spec, count, tables).map(Some)
        }
        TraceName::L2Flows { count, stations } => Ok(Some(l2_flows(count, stations))),
        _ => Ok(explosion::flows(spec)),
    }
}

/// The tables of a function, as conversations are drawn from them.
pub(super) struct Tables {
    oracle: Oracle,
    /// Stations behind port 0 and port 1.
    stations: [Vec<MacAddress>; 2],
    networks: Vec<Ipv4Prefix>,
    rules: Vec<Rule>,
    /// Of what is drawn.
    protocol: u8,
}

impl Tables {
    pub(super) fn of(nf: Nf, protocol: u8) -> Self {
        let opens =
            |rule: &Rule| rule.action == Action::Allow && rule.protocol.is_none_or(|named| named == protocol);
        Self {
            oracle: Oracle::new(nf),
            stations: behind_ports(&nf.stations()),
            networks: nf.networks().iter().filter(|n| n.leads).map(|n| n.prefix).collect(),
            rules: nf.rules().into_iter().filter(opens).collect(),
            protocol,
        }
    }

    /// Of which connections are drawn.
    pub(super) const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether a conversation that begins so passes both ways.
    pub(super) fn admits(&self, opening: &FiveTuple) -> bool {
        self.oracle.admits(opening)
    }

    /// What a rule, two stations and two subnets leave of their conversations, if some of them pass. A rule about the client's port is
    /// none that is drawn: it would tell the ports of clients apart.
    pub(super) fn site(&self, rng: &mut ChaCha8Rng) -> Option<Site> {
        let rule = one_of(&self.rules, rng).filter(|rule| rule.source_ports == Ports::Any)?;
        let mut within = |prefix: Ipv4Prefix| {
            let network = one_of(&self.networks, rng)?;
            let is_inside = prefix.bits() < network.bits() && prefix.contains(network.address());
            let wide = if is_inside { *network } else { prefix };
            let host = wide.address().to_bits()
                | rng.next_u32() & (wide.address().to_bits() ^ wide.last().to_bits());
            Some(Ipv4Prefix::covering(Ipv4Addr::from_bits(host), wide.bits().max(SUBNET)))
        };
        let networks = [within(rule.source)?, within(rule.destination)?];
        let service = match rule.destination_ports {
            Ports::Any => LEAST_PORT,
            Ports::Range { first, .. } => first,
        };
        let stations = [*one_of(&self.stations[0], rng)?, *one_of(&self.stations[1], rng)?];
        let [source, destination] = networks.map(|network| network.last());
        let ports = Some((client_port(rng.next_u32()), service));
        let opening = FiveTuple { protocol: self.protocol, source, destination, ports };
        self.oracle.admits(&opening).then_some(Site { stations, networks, service })
    }

    /// A conversation, if what was drawn is one that passes.
    fn draw(&self, rng: &mut ChaCha8Rng) -> Option<Flow> {
        let rule = one_of(&self.rules, rng)?;
        let mut within = |prefix: Ipv4Prefix| {
            let network = one_of(&self.networks, rng)?;
            let chosen = if prefix.bits() < network.bits() && prefix.contains(network.address()) {
                *network
            } else {
                prefix
            };
            let behind = chosen.address().to_bits() ^ chosen.last().to_bits();
            Some(Ipv4Addr::from_bits(chosen.address().to_bits() | rng.next_u32() & behind))
        };
        let (source, destination) = (within(rule.source)?, within(rule.destination)?);
        let (first, last) = match rule.destination_ports {
            Ports::Any => (LEAST_PORT, u16::MAX),
            Ports::Range { first, last } => (first, last),
        };
        let destination_port = first + (rng.next_u32() % (u32::from(last - first) + 1)) as u16;
        let source_port = client_port(rng.next_u32());
        let tuple = FiveTuple {
            protocol: self.protocol,
            source,
            destination,
            ports: Some((source_port, destination_port)),
        };
        self.oracle.admits(&tuple).then_some(Flow {
            source_mac: *one_of(&self.stations[0], rng)?,
            destination_mac: *one_of(&self.stations[1], rng)?,
            source,
            destination,
            source_port,
            destination_port,
        })
    }
}

/// Pairs of ends, so many at most, between which TCP connections are opened from port 0: the flow of the first packet,
/// with some port of the client's. What the other end sends passes only because it belongs to one.
pub(crate) fn connections(nf: Nf, seed: u64, count: usize) -> Result<Vec<Flow>, String> {
    if nf.translates().is_some() {
        let of = TraceName::Flows(count as u32);
        let flow = |k| Flow { destination_port: SERVICE, ..Flow::of(&of, k) };
        return Ok((0..count as u32).map(flow).collect());
    }
    if nf.pipeline_entries().is_none() {
        return Err(format!("{nf} tracks no connections"));
    }
    if matches!(nf, Nf::PipelineC { .. }) {
        return Err(format!("{nf} gives each connection to a backend of the device's choice"));
    }
    let tables = Tables::of(nf, ipv4::TCP);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut flows, mut seen) = (Vec::with_capacity(count), FxHashSet::default());
    for _ in 0..count * DRAWS as usize {
        if flows.len() == count {
            break;
        }
        let Some(flow) = tables.draw(&mut rng) else { continue };
        let tuple = FiveTuple {
            protocol: ipv4::TCP,
            source: flow.source,
            destination: flow.destination,
            ports: Some((flow.source_port, flow.destination_port)),
        };
        let ends = (tuple, [flow.source_mac.0, flow.destination_mac.0]);
        let distinct = (flow.source, flow.destination, flow.destination_port);
        if crate::connections::opens(&tables.oracle, ends) && seen.insert(distinct) {
            flows.push(flow);
        }
    }
    if flows.is_empty() {
        return Err(format!("no rule of {nf} lets TCP connections be opened from port 0 alone"));
    }
    Ok(flows)
}

/// `count` conversations over the tables of a pipeline.
fn conversations(spec: &TraceSpec, count: u32, of: Nf) -> Result<Vec<Flow>, TraceError> {
    let tables = Tables::of(of, ipv4::UDP);
    let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
    let wanted = count.min(PAIRS) as usize;
    let (mut flows, mut seen) = (Vec::with_capacity(count as usize), FxHashSet::default());
    for _ in 0..u64::from(count.min(PAIRS)) * u64::from(DRAWS) + u64::from(PAIRS) {
        if flows.len() == wanted {
            break;
        }
        let Some(flow) = tables.draw(&mut rng) else { continue };
        if seen.insert((flow.source, flow.destination, flow.destination_port)) {
            flows.push(flow);
        }
    }
    let pairs = flows.len() as u32;
    let most = u64::from(pairs) * CLIENT_PORTS.len() as u64;
    if u64::from(count) > most {
        let why = format!("the tables of {of} let {most} UDP conversations pass; ask for fewer");
        return Err(TraceError::Option { name: spec.name.to_string(), option: "number", reason: why });
    }
    for k in pairs..count {
        let first = flows[(k % pairs) as usize];
        let offset = u32::from(first.source_port - CLIENT_PORTS.start()) + k / pairs;
        flows.push(Flow { source_port: client_port(offset), ..first });
    }
    Ok(flows)
}

/// `count` flows that differ in their pair of MAC addresses, and in the source port when there are no
/// more pairs. The destination goes round the stations behind port 1 first.
fn l2_flows(count: u32, stations: u32) -> Vec<Flow> {
    let [clients, servers] = behind_ports(&Nf::L2 { stations }.stations());
    let (m, n) = (servers.len(), clients.len());
    let flow = |k: usize| Flow {
        source_mac: clients[(k / m + k % m) % n],
        destination_mac: servers[k % m],
        source: source_address(0, 1),
        destination: destination_address(0, 1),
        source_port: LEAST_PORT + (k / (m * n)) as u16,
        destination_port: DESTINATION_PORT,
    };
    (0..count as usize).map(flow).collect()
}

/// The stations behind each port.
fn behind_ports(stations: &[Station]) -> [Vec<MacAddress>; 2] {
    [0, 1].map(|port| stations.iter().filter(|s| s.port == port).map(|s| MacAddress(s.mac)).collect())
}

/// A client's port, the offset taken round.
pub(super) fn client_port(offset: u32) -> u16 {
    CLIENT_PORTS.start() + (offset % CLIENT_PORTS.len() as u32) as u16
}

fn one_of<'a, T>(choices: &'a [T], rng: &mut ChaCha8Rng) -> Option<&'a T> {
    let count = u32::try_from(choices.len()).ok().filter(|count| *count > 0)?;
    choices.get((rng.next_u32() % count) as usize)
}
