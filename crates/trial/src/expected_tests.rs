use super::*;
use crate::compare::describe;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use weir_wire::table::{first_match, longest_match};
use weir_wire::{Ipv4Repr, UdpRepr};

fn frame(source: [u8; 4], destination: [u8; 4], ttl: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![7; 60];
    let (destination_mac, source_mac) = (MacAddress([2; 6]), MacAddress([6; 6]));
    EthernetRepr { destination: destination_mac, source: source_mac, ether_type: EtherType::IPV4 }
        .emit(&mut frame);
    let (source, destination) = (source.into(), destination.into());
    Ipv4Repr { source, destination, protocol: ipv4::UDP, ttl, payload_len: 26 }.emit(&mut frame[14..]);
    UdpRepr { source: ports.0, destination: ports.1, payload_len: 18 }.emit(&mut frame[34..]);
    frame
}

fn nf(text: &str) -> Oracle {
    Oracle::new(text.parse().unwrap())
}

#[test]
fn a_forwarder_moves_every_frame_unchanged_to_the_other_port() {
    for (port, bytes) in [(0, vec![1, 2, 3]), (1, frame([1; 4], [2; 4], 0, (1, 2)))] {
        let expected = Expected::Forward { port: 1 - port, frame: bytes.clone() };
        assert_eq!(nf("l2fwd").expected(port, &bytes), expected);
    }
}

#[test]
fn a_router_rewrites_lowers_and_mends() {
    let sent = frame([198, 18, 0, 1], [198, 19, 255, 255], 2, (5000, 6000));
    let Expected::Forward { port, frame } = nf("l3fwd:10").expected(0, &sent) else { panic!("no route") };
    assert_eq!(port, 1);
    assert_eq!((&frame[..6], &frame[6..12]), (&next_hop_mac(1)[..], &port_mac(1)[..]));
    let header = Ipv4View::checked(&frame[14..]).unwrap();
    assert!(header.ttl() == 1 && header.checksum_is_right());
    assert_eq!((&frame[26..], &frame[14..22]), (&sent[26..], &sent[14..22]), "nothing else changes");
}

#[test]
fn a_router_drops_for_a_reason_and_leaves_open_what_is_no_ipv4() {
    let router = nf("l3fwd:10");
    let good = frame([198, 18, 0, 1], [198, 19, 0, 1], 64, (5000, 6000));
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        router.expected(0, &frame)
    };
    let away = frame([198, 18, 0, 1], [198, 20, 0, 1], 64, (5000, 6000));
    assert_eq!(router.expected(0, &away), Expected::Drop(Reason::NoRoute));
    let old = frame([198, 18, 0, 1], [198, 19, 0, 1], 1, (5000, 6000));
    assert_eq!(router.expected(0, &old), Expected::Drop(Reason::Expired));
    assert_eq!(changed(|f| f[24] ^= 1), Expected::Drop(Reason::BadChecksum));
    assert_eq!(changed(|f| f[14] = 0x65), Expected::Drop(Reason::BadHeader));
    assert_eq!(changed(|f| f[12] = 0x86), Expected::Open);
    assert_eq!(changed(|f| f.truncate(50)), Expected::Open);
    assert_eq!(changed(Vec::clear), Expected::Open);
}

#[test]
fn routes_are_found_as_by_looking_at_every_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let random = (0..500).map(|_| Route {
        prefix: Ipv4Prefix::covering(
            Ipv4Addr::from_bits(0xc612_0000 | rng.random_range(0..1 << 17)),
            rng.random_range(15..=32),
        ),
        port: rng.random_range(0..2),
    });
    // Two routes of one prefix would have no meaning of their own.
    let mut routes: Vec<Route> = random.collect();
    routes.sort_by_key(|route| route.prefix);
    routes.dedup_by_key(|route| route.prefix);
    let index = Routes::new(&routes);
    for _ in 0..5000 {
        let address = Ipv4Addr::from_bits(0xc612_0000 ^ rng.random_range(0..1 << 18));
        assert_eq!(index.find(address), longest_match(&routes, address).map(|route| route.port), "{address}");
    }
}

#[test]
fn rules_are_found_as_by_looking_at_one_after_the_other() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let rules = Nf::Firewall { rules: 3000 }.rules();
    let index = Rules::new(rules.clone());
    let mut denied = 0;
    for number in 0..4000 {
        // Half of the packets are made to lie in some rule, the others are any.
        let rule = rules[rng.random_range(0..rules.len() - 1)];
        let any = |rng: &mut ChaCha8Rng| Ipv4Addr::from_bits(0xc612_0000 | rng.random_range(0..1 << 17));
        let (source, destination) = match number % 2 {
            0 => (rule.source.last(), rule.destination.address()),
            _ => (any(&mut rng), any(&mut rng)),
        };
        let protocol = [6, 17, 1][rng.random_range(0..3_usize)];
        let ports = has_ports(protocol).then(|| (rng.random_range(1024..=65_535), rng.random_range(0..1100)));
        let packet = FiveTuple { protocol, source, destination, ports };
        let slow = first_match(&rules, &packet);
        assert_eq!(index.find(&packet), slow, "{packet:?}");
        denied += u32::from(slow.is_some_and(|rule| rule.action == Action::Deny));
    }
    assert!(denied > 100, "{denied} packets were denied");
}

#[test]
fn a_firewall_names_the_rule_that_denies() {
    let rules: Vec<Rule> =
        ["deny udp any any 198.19.0.0/16 53", "allow udp any any any any"].map(|t| t.parse().unwrap()).into();
    let wall = Oracle::with_tables(Nf::Firewall { rules: 2 }, &[], rules.clone());
    let expected = |port: u16| wall.expected(1, &frame([198, 18, 0, 1], [198, 19, 0, 1], 9, (2000, port)));
    assert_eq!(expected(53), Expected::Drop(Reason::Denied(Some(rules[0]))));
    assert!(matches!(expected(54), Expected::Forward { port: 0, .. }));
    let mut tcp = frame([198, 18, 0, 1], [198, 19, 0, 1], 9, (2000, 54));
    tcp[23] = 6;
    assert_eq!(wall.expected(1, &tcp), Expected::Drop(Reason::Denied(None)));
    assert_eq!(
        describe(&frame([198, 18, 0, 1], [198, 19, 0, 1], 9, (2000, 54))),
        "UDP 198.18.0.1:2000 > 198.19.0.1:54, 60 B"
    );
}
