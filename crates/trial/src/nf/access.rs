//! The access list of the stateful firewall in pipelines A, B and C: who may open a connection.
//!
//! SoftFlow drew 500 rules from a provider's list that is not public (section 7.2). This one is made
//! with the statistics by which ClassBench (Taylor and Turner, IEEE/ACM Transactions on Networking 15(3),
//! 2007) tells real firewall lists from others; no rule and no table of theirs is copied. What it takes
//! over is the form of the model, field by field:
//!
//! - **Protocol**: mostly TCP, then UDP, then any, then ICMP and tunnels ([`PROTOCOLS`]).
//! - **Ports** by five classes: any (WC), 1024 and above (HI), below (LO), an arbitrary range (AR), one
//!   port (EM). Sources are nearly all any; destinations are mostly one port ([`TARGETS`], [`SOURCES`]).
//! - **Prefix lengths** are drawn as pairs, for source and destination depend on each other: firewalls
//!   name hosts and subnets on one side and often anybody on the other ([`PAIRS`], [`SUBNETS`]).
//! - **Skew**: few networks have most of the rules. A rule's prefixes lie in networks that the gateway
//!   knows, the k-th of `n` chosen by the square of an even draw.
//!
//! Three rules in four allow; the first that matches decides, and what none matches may only answer.
//! Some rules lie behind others that hold them, as in lists that people keep. Conditions on source ports
//! do not tell [`super::CLIENT_PORTS`] apart, so that a conversation may take any of these.

use super::Network;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use rustc_hash::FxHashSet;
use std::net::Ipv4Addr;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule};

/// Seed of the list. Changing it changes what every pipeline's result means.
const SEED: u64 = 0x50f7_0003;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A choice and its weight in hundredths.
type Weighted<T> = (u32, T);

/// Protocols: TCP, UDP, any, ICMP, GRE, ESP.
const PROTOCOLS: [Weighted<Option<u8>>; 6] =
    [(54, Some(TCP)), (28, Some(UDP)), (11, None), (5, Some(1)), (1, Some(47)), (1, Some(50))];

/// ClassBench's classes of port conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Wildcard,
    High,
    Low,
    Range,
    Exact,
}

/// Classes of destination ports.
const TARGETS: [Weighted<Class>; 5] =
    [(58, Class::Exact), (18, Class::Wildcard), (11, Class::Range), (9, Class::High), (4, Class::Low)];
/// Classes of source ports.
const SOURCES: [Weighted<Class>; 3] = [(86, Class::Wildcard), (9, Class::High), (5, Class::Exact)];

/// Services that lists name by one port, the frequent ones first (IANA's registry): TCP, UDP.
const TCP_SERVICES: [u16; 16] =
    [443, 80, 22, 25, 3389, 53, 445, 1433, 3306, 389, 8080, 993, 110, 5432, 1521, 21];
const UDP_SERVICES: [u16; 16] =
    [53, 123, 161, 514, 500, 4500, 1812, 67, 69, 137, 162, 1194, 5060, 1701, 4789, 520];
/// Source ports that lists name: of servers that answer, or speak first, from their own.
const SOURCE_SERVICES: [u16; 4] = [53, 123, 20, 500];

/// One side of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Any,
    Subnet,
    Host,
}

/// Source and destination. Never both anybody: such a rule would end the list.
const PAIRS: [Weighted<(Side, Side)>; 8] = [
    (22, (Side::Any, Side::Host)),
    (14, (Side::Any, Side::Subnet)),
    (16, (Side::Subnet, Side::Host)),
    (14, (Side::Host, Side::Host)),
    (14, (Side::Subnet, Side::Subnet)),
    (8, (Side::Host, Side::Subnet)),
    (6, (Side::Host, Side::Any)),
    (6, (Side::Subnet, Side::Any)),
];
/// Prefix lengths of subnets.
const SUBNETS: [Weighted<u8>; 7] = [(38, 24), (18, 16), (10, 28), (10, 22), (9, 26), (8, 20), (7, 12)];

/// Networks looked at before a rule's prefix may be wider than its network.
const LOOKS: u32 = 32;

/// `count` rules over these networks, no two equal.
pub(super) fn list(networks: &[Network], count: u32) -> Vec<Rule> {
    drawn(networks, count, draw)
}

/// `count` rules of few masks: a network at both ends, UDP or TCP, any source port, and any destination port
/// or one.
pub(super) fn few(networks: &[Network], count: u32) -> Vec<Rule> {
    drawn(networks, count, |known, rng| {
        let action = if rng.next_u32().is_multiple_of(4) { Action::Deny } else { Action::Allow };
        let (protocol, services) =
            if rng.next_u32().is_multiple_of(2) { (UDP, &UDP_SERVICES) } else { (TCP, &TCP_SERVICES) };
        let class = if rng.next_u32().is_multiple_of(2) { Class::Wildcard } else { Class::Exact };
        Rule {
            action,
            protocol: Some(protocol),
            source: known[skewed(known.len(), rng)],
            source_ports: Ports::Any,
            destination: known[skewed(known.len(), rng)],
            destination_ports: ports(class, services, rng),
        }
    })
}

fn drawn(
    networks: &[Network],
    count: u32,
    draw: impl Fn(&[Ipv4Prefix], &mut ChaCha8Rng) -> Rule,
) -> Vec<Rule> {
    let known: Vec<Ipv4Prefix> = networks.iter().filter(|n| n.leads).map(|n| n.prefix).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut seen = FxHashSet::default();
    let mut rules = Vec::with_capacity(count as usize);
    while rules.len() < count as usize {
        let rule = draw(&known, &mut rng);
        // Two rules of the same conditions and different actions would contradict each other.
        if seen.insert(Rule { action: Action::Allow, ..rule }) {
            rules.push(rule);
        }
    }
    rules
}

fn draw(known: &[Ipv4Prefix], rng: &mut ChaCha8Rng) -> Rule {
    let action = if rng.next_u32().is_multiple_of(4) { Action::Deny } else { Action::Allow };
    let protocol = weighted(&PROTOCOLS, rng);
    let (source, destination) = weighted(&PAIRS, rng);
    let (mut source_ports, mut destination_ports) = (Ports::Any, Ports::Any);
    if protocol == Some(TCP) || protocol == Some(UDP) {
        source_ports = ports(weighted(&SOURCES, rng), &SOURCE_SERVICES, rng);
        let services = if protocol == Some(TCP) { &TCP_SERVICES } else { &UDP_SERVICES };
        destination_ports = ports(weighted(&TARGETS, rng), services, rng);
    }
    Rule {
        action,
        protocol,
        source: prefix(source, known, rng),
        source_ports,
        destination: prefix(destination, known, rng),
        destination_ports,
    }
}

/// A condition of a class.
fn ports(class: Class, services: &[u16], rng: &mut ChaCha8Rng) -> Ports {
    match class {
        Class::Wildcard => Ports::Any,
        Class::High => Ports::Range { first: 1024, last: u16::MAX },
        Class::Low => Ports::Range { first: 0, last: 1023 },
        Class::Range => {
            let first = 1024 + (rng.next_u32() % 60_000) as u16;
            Ports::Range { first, last: first + 1 + (rng.next_u32() % 200) as u16 }
        }
        Class::Exact => {
            let port = services[skewed(services.len(), rng)];
            Ports::Range { first: port, last: port }
        }
    }
}

/// A prefix of a side's length within one of the networks.
fn prefix(side: Side, known: &[Ipv4Prefix], rng: &mut ChaCha8Rng) -> Ipv4Prefix {
    let length = match side {
        Side::Any => return Ipv4Prefix::ANY,
        Side::Subnet => weighted(&SUBNETS, rng),
        Side::Host => 32,
    };
    let mut network = Ipv4Prefix::ANY;
    for _ in 0..LOOKS {
        network = known[skewed(known.len(), rng)];
        if network.bits() <= length {
            break;
        }
    }
    let behind = network.last().to_bits() ^ network.address().to_bits();
    let address = network.address().to_bits() | rng.next_u32() & behind;
    Ipv4Prefix::covering(Ipv4Addr::from_bits(address), length)
}

/// A place below `count`, low ones more often: `count` times the square of an even draw.
fn skewed(count: usize, rng: &mut ChaCha8Rng) -> usize {
    let even = u64::from(rng.next_u32());
    ((u128::from(even * even) * count as u128) >> 64) as usize
}

/// One of some choices, by their weights.
fn weighted<T: Copy, const N: usize>(choices: &[Weighted<T>; N], rng: &mut ChaCha8Rng) -> T {
    let whole: u32 = choices.iter().map(|(weight, _)| weight).sum();
    let mut left = rng.next_u32() % whole;
    for (weight, choice) in choices {
        match left.checked_sub(*weight) {
            None => return *choice,
            Some(rest) => left = rest,
        }
    }
    choices[N - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nf;
    use crate::nf::CLIENT_PORTS;
    use std::collections::HashSet;

    /// A list long enough for its shares to show.
    fn long() -> Vec<Rule> {
        Nf::PipelineA { entries: Nf::MOST_PIPELINE_ENTRIES }.rules()
    }

    /// The share of rules for which something holds, in hundredths.
    fn share(rules: &[Rule], holds: impl Fn(&Rule) -> bool) -> f64 {
        100.0 * rules.iter().filter(|rule| holds(rule)).count() as f64 / rules.len() as f64
    }

    fn near(is: f64, should: f64) {
        // Rules that are drawn twice are drawn again, which favours the classes with many values.
        assert!((is - should).abs() < 0.15 * should + 1.5, "{is} where {should} is documented");
    }

    #[test]
    fn few_masks_are_two_over_two_protocols() {
        let rules = Nf::PipelineAFew { entries: 500 }.rules();
        let masks: HashSet<_> = rules
            .iter()
            .map(|rule| {
                (
                    rule.source.bits(),
                    rule.source_ports,
                    rule.destination.bits(),
                    rule.destination_ports == Ports::Any,
                )
            })
            .collect();
        assert_eq!(rules.len(), 500);
        assert_eq!(masks.len(), 2, "{masks:?}");
        assert!(
            rules.iter().all(|rule| rule.source.bits() == 24 && matches!(rule.protocol, Some(TCP | UDP)))
        );
        near(share(&rules, |rule| rule.action == Action::Allow), 75.0);
    }

    #[test]
    fn fields_have_the_documented_shares() {
        let rules = long();
        for (weight, protocol) in PROTOCOLS {
            near(share(&rules, |rule| rule.protocol == protocol), f64::from(weight));
        }
        near(share(&rules, |rule| rule.action == Action::Allow), 75.0);
        let with_ports: Vec<Rule> =
            rules.iter().filter(|rule| matches!(rule.protocol, Some(TCP | UDP))).copied().collect();
        let class = |ports: Ports| match ports {
            Ports::Any => Class::Wildcard,
            Ports::Range { first: 1024, last: u16::MAX } => Class::High,
            Ports::Range { first: 0, last: 1023 } => Class::Low,
            Ports::Range { first, last } if first == last => Class::Exact,
            Ports::Range { .. } => Class::Range,
        };
        for (weight, wanted) in TARGETS {
            near(share(&with_ports, |rule| class(rule.destination_ports) == wanted), f64::from(weight));
        }
        for (weight, wanted) in SOURCES {
            near(share(&with_ports, |rule| class(rule.source_ports) == wanted), f64::from(weight));
        }
        let side = |prefix: Ipv4Prefix| match prefix.bits() {
            0 => Side::Any,
            32 => Side::Host,
            _ => Side::Subnet,
        };
        for (weight, pair) in PAIRS {
            let is = share(&rules, |rule| (side(rule.source), side(rule.destination)) == pair);
            near(is, f64::from(weight));
        }
    }

    #[test]
    fn prefixes_lie_in_known_networks_and_few_of_these_have_most() {
        let networks = Nf::PipelineA { entries: 500 }.networks();
        let rules = Nf::PipelineA { entries: 500 }.rules();
        let known = |prefix: &Ipv4Prefix| {
            networks.iter().position(|n| n.leads && n.prefix.contains(prefix.address()))
        };
        let named: Vec<Ipv4Prefix> = rules
            .iter()
            .flat_map(|rule| [rule.source, rule.destination])
            .filter(|prefix| prefix.bits() > 0)
            .collect();
        let places: Vec<usize> = named.iter().filter_map(known).collect();
        assert!(places.len() * 100 > named.len() * 95, "{} of {}", places.len(), named.len());
        let early = places.iter().filter(|place| **place < 125).count();
        assert!(early * 100 > places.len() * 45, "{early} of {} in the first quarter", places.len());
    }

    #[test]
    fn no_two_rules_have_the_same_conditions_and_source_ports_tell_no_clients_apart() {
        for entries in [16, 500, 3000] {
            let rules = Nf::PipelineB { entries }.rules();
            assert_eq!(rules.len(), entries as usize);
            let conditions: HashSet<Rule> =
                rules.iter().map(|rule| Rule { action: Action::Allow, ..*rule }).collect();
            assert_eq!(conditions.len(), rules.len());
            for rule in &rules {
                if let Ports::Range { first, last } = rule.source_ports {
                    let all = first <= *CLIENT_PORTS.start() && *CLIENT_PORTS.end() <= last;
                    assert!(all || last < *CLIENT_PORTS.start(), "{rule}");
                }
                assert!(rule.source.bits() > 0 || rule.destination.bits() > 0, "{rule}");
            }
        }
    }
}
