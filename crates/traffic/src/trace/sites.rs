//! T1 and T2 over the tables of SoftFlow's pipelines: between whom their conversations are.
//!
//! The capture's addresses have nothing to do with tables that others can draw, and the paper does not say how it put one over the
//! other. Here a *site* is a rule that lets connections be opened, a station behind each port, a subnet at each end and a service's
//! port: what tables tell apart. Its hosts are addresses of these networks. So 11,000 addresses and 175,000 conversations differ in few
//! things that a table looks at, as those of a data centre do, whose hosts lie in networks with a next hop and rules in common; the
//! paper's count of megaflows (258 for pipeline A) says that theirs were so. [`SITES`] is half of that count, one megaflow a
//! direction.
//!
//! Hosts are shared out evenly, as far as a network has room for them; conversation `k` is of site `k mod` their number, between a client and a
//! server of it, from a client port that no other conversation of these two has.
//!
//! Cost: some 2 µs a conversation, once.

use super::gateway::{Tables, client_port};
use super::synthetic::Flow;
use super::{TraceError, TraceSpec};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashSet;
use std::net::Ipv4Addr;
use weir_trial::Nf;
use weir_wire::table::{FiveTuple, Ipv4Prefix};
use weir_wire::{MacAddress, ipv4};

/// Sites of both protocols together.
pub(super) const SITES: u32 = 128;
/// Draws for a site, or for a host, before there are taken to be no more.
const DRAWS: u32 = 4_096;
/// A prime that divides no number of client ports: conversations of a site have ports far from one another.
const APART: u32 = 7_919;
/// How far the ports of one site's conversations are from those of the next.
const NEXT_SITE: u32 = 211;

/// What the tables tell apart of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) stations: [MacAddress; 2],
    pub(super) networks: [Ipv4Prefix; 2],
    pub(super) service: u16,
}

/// A site with the hosts at its ends.
#[derive(Debug)]
struct Hosts {
    site: Site,
    /// By [`CLIENT`] and [`SERVER`].
    ends: [Vec<Ipv4Addr>; 2],
}

/// Ends of a site: where conversations begin, and where they are answered.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Of the conversations of a trace: how many are TCP, and how many UDP; and between how many clients and servers they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Population {
    pub(super) tcp: u32,
    pub(super) udp: u32,
    pub(super) clients: u32,
    pub(super) servers: u32,
}

/// The conversations over the tables of a pipeline, TCP first, in direction 0, each with the number of its site, from 1.
pub(super) fn flows(spec: &TraceSpec, nf: Nf, of: Population) -> Result<Vec<(Flow, u16)>, TraceError> {
    let Population { tcp, udp, clients, servers } = of;
    let (mut all, mut left) = (tcp + udp, [SITES, clients, servers]);
    let total = all;
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed ^ 0x51_7e5_0f7);
    let mut taken = FxHashSet::default();
    let (mut flows, mut number) = (Vec::with_capacity(total as usize), 1);
    for (protocol, count) in [(ipv4::TCP, tcp), (ipv4::UDP, udp)] {
        let tables = Tables::of(nf, protocol);
        // In proportion to its conversations, and the rest to the other.
        let [sites, clients, servers] =
            left.map(|number| (u64::from(number) * u64::from(count) / u64::from(all)) as u32);
        left = [left[0] - sites, left[1] - clients, left[2] - servers];
        all -= count;
        let mut hosts = begin(&tables, sites.clamp(1, count), (&mut taken, &mut random));
        fill(&mut hosts, SERVER, servers, &tables, (&mut taken, &mut random));
        fill(&mut hosts, CLIENT, clients, &tables, (&mut taken, &mut random));
        if hosts.is_empty() {
            let why = format!(
                "no rule of {nf} lets connections be opened from port 0; take tables of more entries"
            );
            return Err(TraceError::Option { name: spec.name.to_string(), option: "number", reason: why });
        }
        let site = |k: u32| number + (k as usize % hosts.len()) as u16;
        flows.extend((0..count).map(|k| (conversation(&hosts, k), site(k))));
        number += hosts.len() as u16;
    }
    Ok(flows)
}

/// So many sites with a client and a server each, or as many as are found. An address is one site's.
fn begin(
    tables: &Tables,
    wanted: u32,
    (taken, random): (&mut FxHashSet<Ipv4Addr>, &mut ChaCha8Rng),
) -> Vec<Hosts> {
    let mut all = Vec::new();
    for _ in 0..wanted * DRAWS {
        if all.len() == wanted as usize {
            break;
        }
        let Some(site) = tables.site(random) else { continue };
        let mut hosts = Hosts { site, ends: [Vec::new(), Vec::new()] };
        let ends = [SERVER, CLIENT].map(|end| {
            let host = hosts.draw(tables, end, taken, random);
            hosts.ends[end].extend(host);
            host
        });
        if let [Some(server), Some(client)] = ends {
            taken.extend([server, client]);
            all.push(hosts);
        }
    }
    all
}

/// Adds hosts at an end of all sites, round by round, until there are so many, or no network has room.
fn fill(
    all: &mut [Hosts],
    end: usize,
    wanted: u32,
    tables: &Tables,
    (taken, random): (&mut FxHashSet<Ipv4Addr>, &mut ChaCha8Rng),
) {
    let (mut placed, mut open) = (all.len(), vec![true; all.len()]);
    while placed < wanted as usize && open.contains(&true) {
        for (hosts, open) in all.iter_mut().zip(&mut open).filter(|(_, open)| **open) {
            if placed == wanted as usize {
                break;
            }
            match hosts.draw(tables, end, taken, random) {
                Some(host) => {
                    taken.insert(host);
                    hosts.ends[end].push(host);
                    placed += 1;
                }
                None => *open = false,
            }
        }
    }
}

impl Hosts {
    /// A further host at an end, with which all conversations of the site pass.
    fn draw(
        &self,
        tables: &Tables,
        end: usize,
        taken: &FxHashSet<Ipv4Addr>,
        random: &mut ChaCha8Rng,
    ) -> Option<Ipv4Addr> {
        let network = self.site.networks[end];
        let behind = network.address().to_bits() ^ network.last().to_bits();
        let draws = if behind < 256 { 4 * (behind + 1) } else { 64 };
        (0..draws).find_map(|_| {
            let host = Ipv4Addr::from_bits(network.address().to_bits() | random.random::<u32>() & behind);
            let others = &self.ends[1 - end];
            let passes =
                !taken.contains(&host) && others.iter().all(|other| self.passes(tables, end, host, *other));
            passes.then_some(host)
        })
    }

    /// Whether a conversation between a host at an end and one at the other passes.
    fn passes(&self, tables: &Tables, end: usize, host: Ipv4Addr, other: Ipv4Addr) -> bool {
        let [source, destination] = if end == CLIENT { [host, other] } else { [other, host] };
        let ports = Some((client_port(0), self.site.service));
        tables.admits(&FiveTuple { protocol: tables.protocol(), source, destination, ports })
    }
}

/// Conversation `k` of a protocol.
fn conversation(all: &[Hosts], k: u32) -> Flow {
    let (site, number) = (k as usize % all.len(), k as usize / all.len());
    let offset = (number as u32).wrapping_mul(APART).wrapping_add(site as u32 * NEXT_SITE);
    let Hosts { site, ends: [clients, servers] } = &all[site];
    Flow {
        source_mac: site.stations[0],
        destination_mac: site.stations[1],
        source: clients[number % clients.len()],
        destination: servers[(number / clients.len() + number) % servers.len()],
        source_port: client_port(offset),
        destination_port: site.service,
    }
}
