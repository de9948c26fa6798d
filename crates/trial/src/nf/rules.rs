//! The rule list of [`super::Nf::Firewall`].
//!
//! A filter at the edge of a network: services that must not be reached, from some sources, on
//! some hosts. Drawn from a fixed seed, so that every machine and every adapter has the same list.

use super::FIRST_FREE_PORT;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use rustc_hash::FxHashSet;
use std::net::Ipv4Addr;
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule};

/// Seed of the list. Changing it changes what every firewall result means.
const SEED: u64 = 2544;

/// Protocol, first and last destination port of services that filters commonly close (IANA's
/// registry of service names and port numbers).
const SERVICES: [(u8, u16, u16); 16] = [
    (6, 20, 21),    // FTP
    (6, 22, 22),    // SSH
    (6, 23, 23),    // Telnet
    (6, 25, 25),    // SMTP
    (17, 53, 53),   // DNS
    (17, 67, 68),   // DHCP
    (17, 69, 69),   // TFTP
    (6, 79, 80),    // Finger, HTTP
    (6, 110, 110),  // POP3
    (17, 111, 111), // portmapper
    (17, 123, 123), // NTP
    (6, 135, 139),  // RPC, NetBIOS
    (17, 161, 162), // SNMP
    (6, 445, 445),  // SMB
    (6, 512, 514),  // rexec, rlogin, rsh
    (17, 0, FIRST_FREE_PORT - 1),
];

/// Prefix lengths, those of whole sites as well as of single hosts.
const LENGTHS: [u8; 8] = [16, 20, 22, 24, 24, 26, 28, 32];

/// Source ports: any client's, or the parts that operating systems draw from.
const CLIENTS: [(u16, u16); 4] = [(1024, 65_535), (1024, 65_535), (32_768, 60_999), (49_152, 65_535)];

/// `count` rules: all but the last deny.
pub(super) fn list(count: u32) -> Vec<Rule> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut seen = FxHashSet::default();
    let mut rules = Vec::with_capacity(count as usize);
    while rules.len() + 1 < count as usize {
        let rule = draw(&mut rng);
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    rules.push(Rule::ALLOW_ALL);
    rules
}

/// One deny rule. Every draw takes the same number of words from the generator, and takes them by
/// its raw output, which (unlike derived distributions) never changes between versions.
fn draw(rng: &mut ChaCha8Rng) -> Rule {
    let (protocol, first, last) = pick(SERVICES, rng);
    let (client_first, client_last) = pick(CLIENTS, rng);
    let reverse = rng.next_u32() & 1;
    let mut prefix = |half: u32| {
        let len = pick(LENGTHS, rng);
        let address = 0xc612_0000 | half << 16 | rng.next_u32() & 0xffff;
        Ipv4Prefix::covering(Ipv4Addr::from_bits(address), len)
    };
    Rule {
        action: Action::Deny,
        protocol: Some(protocol),
        source: prefix(reverse),
        source_ports: Ports::Range { first: client_first, last: client_last },
        destination: prefix(1 - reverse),
        destination_ports: Ports::Range { first, last },
    }
}

/// One of a power of two choices.
fn pick<T: Copy, const N: usize>(choices: [T; N], rng: &mut ChaCha8Rng) -> T {
    const { assert!(N.is_power_of_two()) };
    choices[rng.next_u32() as usize % N]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nf;
    use std::collections::HashSet;
    use weir_wire::table::{FiveTuple, first_match, read, write};

    fn rules(count: u32) -> Vec<Rule> {
        Nf::Firewall { rules: count }.rules()
    }

    #[test]
    fn all_but_the_last_rule_deny_and_no_two_are_equal() {
        for count in (1..100).chain([1000, 5000, Nf::MAX_ENTRIES]) {
            let rules = rules(count);
            assert_eq!(rules.len(), count as usize);
            let (last, deny) = rules.split_last().unwrap();
            assert_eq!(*last, Rule::ALLOW_ALL);
            assert!(deny.iter().all(|rule| rule.action == Action::Deny));
            assert_eq!(deny.iter().collect::<HashSet<_>>().len(), deny.len());
        }
    }

    #[test]
    fn every_deny_rule_looks_at_all_five_fields_and_only_at_system_ports() {
        for rule in &rules(5000)[..4999] {
            let Ports::Range { last, .. } = rule.destination_ports else { panic!("{rule}") };
            assert!(last < FIRST_FREE_PORT, "{rule}");
            assert!(rule.protocol.is_some() && rule.source_ports != Ports::Any, "{rule}");
            assert!(rule.source.bits() >= 16 && rule.destination.bits() >= 16, "{rule}");
            assert_ne!(rule.source.address().octets()[1], rule.destination.address().octets()[1], "{rule}");
        }
    }

    #[test]
    fn a_longer_list_begins_with_a_shorter_one_and_survives_its_file() {
        assert_eq!(rules(1000)[..9], rules(10)[..9]);
        assert_eq!(read::<Rule>("t", &write(&rules(1000))).unwrap(), rules(1000));
    }

    #[test]
    fn the_list_is_the_same_on_every_machine() {
        assert_eq!(
            write(&rules(3)),
            "deny udp 198.18.31.144/28 32768-60999 198.19.76.0/22 123\n\
             deny udp 198.19.248.0/22 49152-65535 198.18.231.71/32 161-162\n\
             allow any any any any any\n"
        );
    }

    #[test]
    fn traffic_above_the_system_ports_passes_and_some_below_is_denied() {
        let rules = rules(1000);
        let action = |destination_port| {
            let packet = |low: u16| FiveTuple {
                protocol: 17,
                source: Ipv4Addr::from_bits(0xc612_0000 | u32::from(low)),
                destination: Ipv4Addr::from_bits(0xc613_0000 | u32::from(low)),
                ports: Some((50_000, destination_port)),
            };
            (0..=u16::MAX)
                .step_by(97)
                .filter(|low| first_match(&rules, &packet(*low)).unwrap().action == Action::Deny)
                .count()
        };
        assert_eq!(action(FIRST_FREE_PORT), 0);
        assert!(action(53) > 10);
    }
}
