//! What `ct` does to packets that are rewritten between two of them, and where translations run out.

use crate::support::gateway::{Gateway, Rules, at, segment};
use crate::support::{ACK, FIN, SYN, extract, udp};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use weir_flow::{Field, Key};
use weir_openflow::{Nat, NatRange, Tracking};
use weir_packet::DropReason;
use weir_services::Verdict;

const ZONE: u16 = 1;

fn gateway() -> Gateway {
    Gateway::new(Rules::default())
}

fn commit(nat: Option<Nat>) -> Tracking {
    Tracking { zone: ZONE, commit: true, nat, ..Tracking::default() }
}

/// A packet through `ct(commit)`, on with the key it had before if there was one; its state.
fn track(router: &mut Gateway, frame: &mut Vec<u8>, before: Option<&Key>, asked: &Tracking) -> (u128, Key) {
    let mut key = extract(frame).0;
    for field in Tracking::FIELDS {
        if let Some(before) = before {
            field.set(&mut key, field.get(before));
        }
    }
    assert_eq!(router.pass(frame, &mut key, asked), Verdict::Pass);
    (Field::CtState.get(&key), key)
}

fn states(router: &mut Gateway) -> Vec<String> {
    router.dump().iter().map(|one| one["state"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn a_packet_that_was_rewritten_moves_the_connection_that_it_is_of_then() {
    let (client, service, server) = (at("10.0.0.1:1000"), at("10.9.0.1:80"), at("10.0.0.2:8080"));
    let mut router = gateway();
    // The client talks to the service's address; flow entries make it the server's, and back, as `set_field` does.
    let mut say = |from: SocketAddr, to: SocketAddr, flags: u8, numbers: (u32, u32)| {
        let rewrite = |end: SocketAddr| match end {
            _ if end == service => server,
            _ if end == server => service,
            other => other,
        };
        let mut frame = segment(from, to, flags, numbers, &[]);
        let (first, key) = track(&mut router, &mut frame, None, &commit(None));
        let mut frame = segment(rewrite(from), rewrite(to), flags, numbers, &[]);
        let (second, _) = track(&mut router, &mut frame, Some(&key), &commit(None));
        assert_eq!(first, second, "both connections are as far");
        first
    };
    assert_eq!(say(client, service, SYN, (100, 0)), 0x21);
    assert_eq!(say(server, client, SYN | ACK, (500, 101)), 0x2a);
    assert_eq!(say(client, service, ACK, (101, 501)), 0x22);
    assert_eq!(say(client, service, ACK, (101, 501)), 0x22);
    assert_eq!(say(server, client, FIN | ACK, (501, 101)), 0x2a);
    assert_eq!(states(&mut router), ["FIN_WAIT_1", "FIN_WAIT_1"]);
}

#[test]
fn a_packet_that_was_rewritten_to_be_of_no_connection_is_a_new_ones_first() {
    let (client, known, other) = (at("10.0.0.1:1000"), at("10.0.0.2:80"), at("10.0.0.3:80"));
    let mut router = gateway();
    let look = Tracking { zone: ZONE, ..Tracking::default() };
    track(&mut router, &mut udp(client, known, 5), None, &commit(None));
    track(&mut router, &mut udp(known, client, 5), None, &look);
    let (first, key) = track(&mut router, &mut udp(client, known, 5), None, &look);
    let (second, _) = track(&mut router, &mut udp(client, other, 5), Some(&key), &look);
    assert_eq!((first, second), (0x22, 0x21));
}

#[test]
fn a_packet_that_was_translated_is_of_the_same_connection_still() {
    let range = NatRange::Ipv4("192.0.2.1".parse().unwrap(), None);
    let nat = Nat { source: true, range, ..Nat::default() };
    let (client, server) = (at("10.0.0.1:1000"), at("198.51.100.1:80"));
    let mut router = gateway();
    let mut frame = segment(client, server, SYN, (100, 0), &[]);
    let (state, key) = track(&mut router, &mut frame, None, &commit(Some(nat)));
    assert_eq!(state, 0x21 | 0x40);
    let (again, _) = track(&mut router, &mut frame, Some(&key), &commit(Some(nat)));
    assert_eq!((again, router.counter("created")), (state, 1));
    assert_eq!(router.counter("packets-new"), 1, "and is not counted again");
    let mut answer = segment(server, at("192.0.2.1:1000"), SYN | ACK, (500, 101), &[]);
    let (state, key) = track(&mut router, &mut answer, None, &commit(Some(Nat::default())));
    assert_eq!(state, 0x2a | 0x80);
    let (again, _) = track(&mut router, &mut answer, Some(&key), &commit(Some(Nat::default())));
    assert_eq!((again, router.counter("created")), (state, 1));
}

/// A pool of this many ports of one address.
fn pool(ports: u16, random: bool) -> Nat {
    let range = NatRange::Ipv4("192.0.2.1".parse().unwrap(), None);
    Nat { source: true, range, ports: (2000, 1999 + ports), random, ..Nat::default() }
}

/// A new client's first datagram to one server: the port that it leaves by, if it does.
fn open(router: &mut Gateway, number: u32, nat: Nat) -> Option<u16> {
    let client = SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into(), 5000);
    let mut frame = udp(client, at("198.51.100.1:53"), 8);
    let mut key = extract(&frame).0;
    match router.pass(&mut frame, &mut key, &commit(Some(nat))) {
        Verdict::Pass => Some(Field::UdpSrc.get(&key) as u16),
        reason => {
            assert_eq!(reason, Verdict::Drop(DropReason::NatExhausted));
            None
        }
    }
}

#[test]
fn a_pool_with_nothing_left_costs_few_tries_a_connection() {
    let mut router = gateway();
    let mut ports = BTreeSet::new();
    for number in 0..400 {
        router.now.0 += 20_000_000;
        ports.extend(open(&mut router, number, pool(400, false)));
    }
    assert_eq!(ports.len(), 400, "each port once, and all of them");
    let before = router.counter("nat-tried");
    for number in 400..10_400 {
        assert_eq!(open(&mut router, number, pool(400, false)), None);
    }
    let tried = router.counter("nat-tried") - before;
    assert!(tried <= 10_000 * 8 + 1024, "{tried} tries for 10,000 connections at one moment");
    assert_eq!(router.counter("connections"), 400);
    router.now.0 += 31_000_000_000;
    assert!(open(&mut router, 1, pool(400, false)).is_some(), "what is over is free again");
}

#[test]
fn nearly_all_of_a_large_pool_is_found() {
    let mut router = gateway();
    let mut ports = BTreeSet::new();
    for number in 0..9500 {
        router.now.0 += 1_000_000;
        ports.extend(open(&mut router, number, pool(10_000, false)));
    }
    assert_eq!(ports.len(), 9500, "up to 95 of a hundred");
}

#[test]
fn random_ports_do_not_follow_from_those_before() {
    let draw = |instance: usize| {
        let mut router = gateway();
        for _ in 0..instance {
            router.service = router.group.instance(1);
        }
        (0..100).filter_map(|number| open(&mut router, number, pool(60_000, true))).collect::<Vec<_>>()
    };
    let (first, again, rebuilt) = (draw(0), draw(0), draw(1));
    assert_eq!(first, again, "the same seed draws the same");
    assert_ne!(first, rebuilt, "an instance that is built anew does not begin again");
    let steps: BTreeSet<u16> = first.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() > 95, "no step is repeated: {}", steps.len());
    assert!(first.iter().max() > Some(&50_000) && first.iter().min() < Some(&12_000), "all over the pool");
}

#[test]
fn the_address_that_is_all_zero_keeps_the_address_and_avoids_what_is_taken() {
    // As the manual of Open vSwitch has it: A opens a connection to B, which is translated to C; then A opens one
    // to C with the same ports.
    let (a, b, c) = (at("10.1.1.1:10000"), at("192.168.2.100:80"), at("10.1.1.2:80"));
    let any = |source, range| Nat { source, destination: !source, range, ..Nat::default() };
    let to_c = NatRange::Ipv4("10.1.1.2".parse().unwrap(), None);
    for zero in [NatRange::Ipv4(std::net::Ipv4Addr::UNSPECIFIED, None), NatRange::None] {
        let mut router = gateway();
        track(&mut router, &mut udp(a, b, 5), None, &commit(Some(any(false, to_c))));
        // Without a translation it would have the tuple of the other's answers.
        let mut frame = udp(a, c, 5);
        let mut key = extract(&frame).0;
        assert_eq!(router.pass(&mut frame, &mut key, &commit(None)), Verdict::Drop(DropReason::NatExhausted));
        let mut frame = udp(a, c, 5);
        let (state, key) = track(&mut router, &mut frame, None, &commit(Some(any(true, zero))));
        assert_eq!(state, 0x21 | 0x40);
        assert_eq!(Field::NwSrc.get(&key), 0x0a01_0101);
        assert_ne!(Field::UdpSrc.get(&key), 10_000);
        let texts: Vec<Value> = router.dump().into_iter().map(|one| one["text"].clone()).collect();
        assert_eq!(texts.len(), 2);
        assert_eq!(
            texts[0],
            "udp,orig=(src=10.1.1.1,dst=192.168.2.100,sport=10000,dport=80),\
             reply=(src=10.1.1.2,dst=10.1.1.1,sport=80,dport=10000),zone=1"
        );
    }
}
