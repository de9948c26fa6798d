//! The tables of SoftFlow's gateway (pipelines A, B and C): stations, networks, backends.
//!
//! The paper (section 7.2) has 500 random destination MAC addresses and 500 random prefixes, "a worst
//! case" for a cache of megaflows. Every table is drawn from a seed of its own by the raw output of its
//! generator, which never changes between versions; so every machine and every adapter has the same.

use super::Nf;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use rustc_hash::FxHashSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use weir_wire::table::Ipv4Prefix;

/// Backends behind each port, and buckets of the balancer: the paper's "eight" (section 4.2).
pub const BACKENDS: usize = 8;

/// Source ports from which the lab's traffic opens connections through a stateful function: those that
/// Linux draws from. Nothing it sends opens one from another, so what looks like an answer to another
/// port answers nothing.
pub const CLIENT_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// First octet of every destination behind pipeline B's address translation.
pub const NAT_OCTET: u8 = 10;

/// Seeds of the tables. Changing one changes what every pipeline's result means.
const STATIONS_SEED: u64 = 0x50f7_0001;
const NETWORKS_SEED: u64 = 0x50f7_0002;

/// Shortest and longest prefix of a network.
const LENGTHS: RangeInclusive<u8> = 8..=32;
/// The same of [`Nf::PipelineAFew`].
const FEW_LENGTHS: RangeInclusive<u8> = 24..=24;
/// One network in so many leads nowhere.
const NOWHERE: u32 = 16;

/// A MAC address and the port it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Station {
    /// The address.
    pub mac: [u8; 6],
    /// The port, from 0.
    pub port: u8,
}

/// A network that the gateway knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Its addresses.
    pub prefix: Ipv4Prefix,
    /// Whether what goes there passes; otherwise it is dropped.
    pub leads: bool,
}

/// A server that the balancer gives connections to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// Its MAC address: a station's.
    pub mac: [u8; 6],
    /// Its address.
    pub address: Ipv4Addr,
}

/// MAC addresses of the tester's ports 0 and 1: source and destination of its packets, unless a trace has others.
pub const TESTER_MACS: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]];

/// Destination MAC address number `k` of NFPA's `tr2e`, `tr3e` and `tr4e`: locally administered.
pub const fn nfpa_mac(k: u32) -> [u8; 6] {
    let [a, b, c, d] = k.to_be_bytes();
    [0x02, 0x01, a, b, c, d]
}

/// The tester's port 0, and so many destinations of NFPA's traces behind port 1.
pub(super) fn nfpa_stations(addresses: u32) -> Vec<Station> {
    let near = Station { mac: TESTER_MACS[0], port: 0 };
    std::iter::once(near).chain((0..addresses).map(|k| Station { mac: nfpa_mac(k), port: 1 })).collect()
}

/// `count` stations, all different.
pub(super) fn stations(count: u32) -> Vec<Station> {
    let mut rng = ChaCha8Rng::seed_from_u64(STATIONS_SEED);
    let mut seen = FxHashSet::default();
    let mut stations = Vec::with_capacity(count as usize);
    while stations.len() < count as usize {
        let [[a, b, c, d], [e, f, ..]] = [rng.next_u32(), rng.next_u32()].map(u32::to_be_bytes);
        // Unicast and locally administered (IEEE 802, section 8.4).
        let mac = [a & 0xfc | 0x02, b, c, d, e, f];
        if seen.insert(mac) {
            let port = u8::from(stations.len().is_multiple_of(2));
            stations.push(Station { mac, port });
        }
    }
    stations
}

/// `count` networks, all different, of drawn lengths. The first leads somewhere.
pub(super) fn networks(count: u32) -> Vec<Network> {
    networks_of(count, LENGTHS)
}

/// `count` networks of one length, so that they are told apart under one mask.
pub(super) fn few_networks(count: u32) -> Vec<Network> {
    networks_of(count, FEW_LENGTHS)
}

fn networks_of(count: u32, drawn: RangeInclusive<u8>) -> Vec<Network> {
    let mut rng = ChaCha8Rng::seed_from_u64(NETWORKS_SEED);
    let mut seen = FxHashSet::default();
    let mut networks = Vec::with_capacity(count as usize);
    let lengths = u32::from(drawn.end() - drawn.start()) + 1;
    while networks.len() < count as usize {
        let [length, address, nowhere] = [rng.next_u32(), rng.next_u32(), rng.next_u32()];
        let length = drawn.start() + (length % lengths) as u8;
        let prefix = Ipv4Prefix::covering(Ipv4Addr::from_bits(address), length);
        let leads = networks.is_empty() || !nowhere.is_multiple_of(NOWHERE);
        if is_unicast(prefix.address()) && seen.insert(prefix) {
            networks.push(Network { prefix, leads });
        }
    }
    networks
}

/// Whether an address can be a host's somewhere: not "this network", loopback, multicast or reserved
/// (RFC 6890).
const fn is_unicast(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// The backends behind a port: its first stations, with addresses of the net that [`Nf::PipelineB`]
/// would move them to. They are the same however many stations follow.
pub(super) fn backends(port: u8) -> Vec<Backend> {
    let behind = stations(Nf::LEAST_PIPELINE_ENTRIES).into_iter().filter(|s| s.port == port);
    let backend = |(number, station): (u8, Station)| Backend {
        mac: station.mac,
        address: Ipv4Addr::new(10, 254, port, number),
    };
    (1..).zip(behind.take(BACKENDS)).map(backend).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn stations_are_distinct_unicast_local_addresses_behind_both_ports() {
        let all = stations(5000);
        assert_eq!(all.iter().map(|s| s.mac).collect::<HashSet<_>>().len(), 5000);
        assert!(all.iter().all(|station| station.mac[0] & 3 == 2));
        assert_eq!(all.iter().filter(|station| station.port == 1).count(), 2500);
        assert_eq!(stations(500), all[..500], "a longer table begins with a shorter one");
    }

    #[test]
    fn network_lengths_are_even_from_8_to_32_and_one_in_sixteen_leads_nowhere() {
        let all = networks(Nf::MOST_PIPELINE_ENTRIES);
        assert_eq!(all.iter().map(|n| n.prefix).collect::<HashSet<_>>().len(), all.len());
        let mut lengths = [0_usize; 33];
        all.iter().for_each(|network| lengths[usize::from(network.prefix.bits())] += 1);
        assert!(lengths[..8].iter().all(|count| *count == 0));
        // 400 of each are expected; of 10 bits and fewer there are not enough to go round.
        assert!(lengths[11..].iter().all(|count| (330..520).contains(count)), "{lengths:?}");
        let nowhere = all.iter().filter(|network| !network.leads).count();
        assert!((500..750).contains(&nowhere), "{nowhere}");
        assert!(all.iter().all(|network| is_unicast(network.prefix.address())));
        assert_eq!(networks(500), all[..500], "a longer table begins with a shorter one");
    }

    #[test]
    fn few_networks_have_one_length_and_do_not_overlap() {
        let all = few_networks(Nf::MOST_PIPELINE_ENTRIES);
        assert!(
            all.iter().all(|network| network.prefix.bits() == 24 && is_unicast(network.prefix.address()))
        );
        assert_eq!(all.iter().map(|n| n.prefix).collect::<HashSet<_>>().len(), all.len());
        assert!(all[0].leads && all.iter().any(|network| !network.leads));
    }

    #[test]
    fn five_hundred_networks_overlap_and_some_nested_one_decides_otherwise() {
        let all = networks(500);
        let inside = |inner: &Network, outer: &Network| {
            outer.prefix.bits() < inner.prefix.bits() && outer.prefix.contains(inner.prefix.address())
        };
        let nested = all.iter().filter(|inner| all.iter().any(|outer| inside(inner, outer))).count();
        assert!(nested > 50, "{nested} networks lie in another");
        let decides = |inner: &Network| {
            let outer = all.iter().filter(|outer| inside(inner, outer)).max_by_key(|o| o.prefix.bits());
            outer.is_some_and(|outer| outer.leads != inner.leads)
        };
        assert!(all.iter().filter(|inner| decides(inner)).count() > 5);
    }

    #[test]
    fn each_port_has_eight_backends_of_its_own() {
        for entries in [16, 17, 500] {
            for port in 0..2 {
                let backends = backends(port);
                assert_eq!(backends.len(), BACKENDS);
                let of = |backend: &Backend| stations(entries).iter().find(|s| s.mac == backend.mac).copied();
                assert!(backends.iter().all(|backend| of(backend).is_some_and(|s| s.port == port)));
                assert_eq!(backends.iter().map(|b| b.address).collect::<HashSet<_>>().len(), BACKENDS);
            }
        }
        assert_eq!(backends(1)[7].address, Ipv4Addr::new(10, 254, 1, 8));
    }
}
