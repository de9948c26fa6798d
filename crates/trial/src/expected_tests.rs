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
    let index = Steps::new(routes.iter().map(|route| (route.prefix, route.port)));
    for _ in 0..5000 {
        let address = Ipv4Addr::from_bits(0xc612_0000 ^ rng.random_range(0..1 << 18));
        assert_eq!(index.find(address), longest_match(&routes, address).map(|r| r.port), "{address}");
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

/// The networks that matter, and those they lie in, looked at one by one.
fn leads(nf: Nf, address: Ipv4Addr) -> Option<bool> {
    let holding = nf.networks().into_iter().filter(|network| network.prefix.contains(address));
    holding.max_by_key(|network| network.prefix.bits()).map(|network| network.leads)
}

/// A packet that the gateway passes from port 0 to port 1: from a client of the first rule that allows
/// UDP and leads somewhere.
fn conversation(nf: Nf) -> Vec<u8> {
    let rules = nf.rules();
    let station = nf.stations().into_iter().find(|station| station.port == 1).unwrap();
    let known: Vec<Ipv4Addr> = nf
        .networks()
        .into_iter()
        .map(|network| network.prefix.last())
        .filter(|a| leads(nf, *a) == Some(true))
        .collect();
    for rule in rules.iter().filter(|rule| rule.protocol == Some(17)) {
        let port = match rule.destination_ports {
            weir_wire::table::Ports::Any => 5000,
            weir_wire::table::Ports::Range { first, .. } => first,
        };
        for (source, destination) in known.iter().flat_map(|s| known.iter().map(move |d| (*s, *d))) {
            let source = if rule.source.bits() == 32 { rule.source.address() } else { source };
            let destination =
                if rule.destination.bits() == 32 { rule.destination.address() } else { destination };
            let tuple = FiveTuple { protocol: 17, source, destination, ports: Some((40_000, port)) };
            let allowed = first_match(&rules, &tuple).is_some_and(|rule| rule.action == Action::Allow);
            if allowed && leads(nf, source) == Some(true) && leads(nf, destination) == Some(true) {
                let mut frame = frame(source.octets(), destination.octets(), 64, (40_000, port));
                frame[..6].copy_from_slice(&station.mac);
                return frame;
            }
        }
    }
    panic!("no rule of {nf} lets anything open a UDP conversation");
}

/// A flow that a rule matches.
fn inside(rule: &Rule) -> FiveTuple {
    let (source, destination) = (rule.source.last(), rule.destination.last());
    FiveTuple { protocol: rule.protocol.unwrap_or(17), source, destination, ports: None }
}

/// The same packet sent back by its receiver, to a station behind port 0.
fn answer(nf: Nf, frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    let station = nf.stations().into_iter().find(|station| station.port == 0).unwrap();
    answer[..6].copy_from_slice(&station.mac);
    answer[26..30].copy_from_slice(&frame[30..34]);
    answer[30..34].copy_from_slice(&frame[26..30]);
    answer[34..36].copy_from_slice(&frame[36..38]);
    answer[36..38].copy_from_slice(&frame[34..36]);
    answer
}

#[test]
fn pipeline_a_passes_a_conversation_both_ways_and_changes_nothing() {
    for entries in [16, 17, 100, 500, 2000] {
        let nf = Nf::PipelineA { entries };
        let (oracle, opens) = (Oracle::new(nf), conversation(nf));
        assert_eq!(oracle.expected(0, &opens), Expected::Forward { port: 1, frame: opens.clone() });
        let answers = answer(nf, &opens);
        assert_eq!(oracle.expected(1, &answers), Expected::Forward { port: 0, frame: answers.clone() });
        assert_eq!(oracle.expected(1, &opens), Expected::Drop(Reason::SamePort));
    }
}

#[test]
fn a_gateway_drops_strangers_packets_without_a_route_and_answers_to_nobody() {
    let nf = Nf::PipelineA { entries: 500 };
    let (oracle, opens) = (Oracle::new(nf), conversation(nf));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = opens.clone();
        change(&mut frame);
        oracle.expected(0, &frame)
    };
    assert_eq!(changed(&|f| f[5] ^= 1), Expected::Drop(Reason::UnknownStation));
    let away = nf.networks().into_iter().find(|n| !n.leads && leads(nf, n.prefix.last()) == Some(false));
    let away = away.unwrap().prefix.last().octets();
    assert_eq!(changed(&|f| f[30..34].copy_from_slice(&away)), Expected::Drop(Reason::NoRoute));
    assert_eq!(changed(&|f| f[12] = 0x86), Expected::Open);
    // An answer to a port from which the lab opens nothing.
    let mut stray = answer(nf, &opens);
    stray[36..38].copy_from_slice(&61_000_u16.to_be_bytes());
    assert!(matches!(oracle.expected(1, &stray), Expected::Drop(Reason::Denied(_))), "{stray:?}");
    // What a device makes of TCP whose beginning it did not see, the description does not say.
    let any = nf.rules().into_iter().find(|r| r.protocol.is_none() && r.action == Action::Allow).unwrap();
    let tuple = FiveTuple { protocol: 6, ports: Some((40_000, 7)), ..inside(&any) };
    let admission = |flags: u8| {
        let mut frame = frame(tuple.source.octets(), tuple.destination.octets(), 64, (40_000, 7));
        frame.splice(..6, nf.stations()[0].mac);
        (frame[23], frame[46], frame[47]) = (6, 0x50, flags);
        oracle.expected(0, &frame)
    };
    match leads(nf, tuple.destination) {
        Some(true) => assert_eq!(admission(0x10), Expected::Open),
        _ => assert_eq!(admission(0x10), Expected::Drop(Reason::NoRoute)),
    }
}

#[test]
fn pipeline_b_encrypts_moves_the_destination_and_leaves_every_checksum_right() {
    let (a, b) = (Nf::PipelineA { entries: 500 }, Nf::PipelineB { entries: 500 });
    let mut sent = conversation(a);
    let sum = |frame: &[u8]| {
        let header = Ipv4View::checked(&frame[14..]).unwrap();
        let pseudo = checksum::pseudo_ipv4(header.source(), header.destination(), 17, 26);
        checksum::finish(pseudo + checksum::sum(&frame[34..60]))
    };
    sent[40..42].fill(0);
    let field = sum(&sent).to_be_bytes();
    sent[40..42].copy_from_slice(&field);
    assert_eq!(sum(&sent), 0);
    let Expected::Forward { port: 1, frame } = Oracle::new(b).expected(0, &sent) else { panic!("dropped") };
    assert_eq!(frame[30], 10);
    assert_eq!((&frame[31..34], &frame[..24]), (&sent[31..34], &sent[..24]));
    assert!(Ipv4View::checked(&frame[14..]).unwrap().checksum_is_right());
    assert_eq!(sum(&frame), 0, "UDP's checksum holds");
    let mut payload = sent[42..].to_vec();
    weir_cipher::encrypt(&mut payload);
    assert_eq!(frame[42..], payload);
    assert_eq!(frame[58..], sent[58..], "two bytes are no block");
    // No checksum stays no checksum.
    sent[40..42].fill(0);
    let Expected::Forward { frame, .. } = Oracle::new(b).expected(0, &sent) else { panic!("dropped") };
    assert_eq!(frame[40..42], [0, 0]);
}

#[test]
fn pipeline_c_gives_a_connection_to_any_backend_of_the_far_side_but_to_one() {
    let (a, c) = (Nf::PipelineA { entries: 500 }, Nf::PipelineC { entries: 500 });
    let opens = conversation(a);
    let oracle = Oracle::new(c);
    for (in_port, sent) in [(0, opens.clone()), (1, answer(a, &opens))] {
        let expected = oracle.expected(in_port, &sent);
        let Expected::OneOf { port, frames } = &expected else { panic!("{expected:?}") };
        assert_eq!((*port, frames.len()), (1 - in_port, 8));
        for (frame, backend) in frames.iter().zip(c.backends(*port)) {
            assert_eq!((&frame[..6], &frame[30..34]), (&backend.mac[..], &backend.address.octets()[..]));
            assert!(crate::compare::compare(&expected, frame, *port).is_empty());
        }
        let mut steady = crate::compare::Steadiness::default();
        let mut note = |frame: &[u8]| steady.note(0, flow(&sent), &expected, frame);
        assert_eq!(note(&frames[3]), None);
        assert_eq!(note(&frames[3]), None);
        let (fault, example) = note(&frames[5]).unwrap();
        assert_eq!(fault, crate::Fault::Header);
        assert!(example.contains("backend 3 before, now to 5"), "{example}");
        let faults = crate::compare::compare(&expected, &sent, *port);
        assert!(!faults.is_empty(), "a packet that no backend was given");
    }
}

#[test]
fn l2_forwards_by_destination_address_alone() {
    l2_forwards(Nf::L2 { stations: 500 });
    l2_forwards(Nf::L2Nfpa { addresses: 500 });
}

fn l2_forwards(nf: Nf) {
    let oracle = Oracle::new(nf);
    for station in nf.stations() {
        let mut frame = frame([1; 4], [2; 4], 0, (1, 2));
        frame[..6].copy_from_slice(&station.mac);
        let expected = Expected::Forward { port: station.port, frame: frame.clone() };
        assert_eq!(oracle.expected(1 - station.port, &frame), expected);
        assert_eq!(oracle.expected(station.port, &frame), Expected::Drop(Reason::SamePort));
        frame[3] ^= 0x80;
        assert_eq!(oracle.expected(0, &frame), Expected::Drop(Reason::UnknownStation));
    }
}

#[test]
fn services_that_do_nothing_do_nothing() {
    let sent = frame([1; 4], [2; 4], 5, (1, 2));
    for noops in [0, 1, 32] {
        let expected = Oracle::new(Nf::PipelineD { noops }).expected(1, &sent);
        assert_eq!(expected, Expected::Forward { port: 0, frame: sent.clone() });
    }
}

#[test]
fn functions_beside_one_another_keep_to_their_own_pair_of_ports() {
    let sent = frame([198, 18, 0, 1], [198, 19, 0, 1], 9, (5000, 6000));
    for function in ["l2fwd", "l3fwd:10", "nat:2", "firewall:1"] {
        let first = nf(function).expected(0, &sent);
        let third = nf(function).expected(4, &sent);
        match (first, third) {
            (Expected::Forward { port: 1, frame: one }, Expected::Forward { port: 5, frame: other }) => {
                assert_eq!(one, other, "{function}");
            }
            (Expected::Translated { port: 1, .. }, Expected::Translated { port: 5, .. }) => {}
            (one @ Expected::Drop(_), other) => assert_eq!(one, other, "{function}"),
            other => panic!("{function}: {other:?}"),
        }
    }
}

#[test]
fn a_chain_does_what_its_functions_do_one_after_the_other() {
    let chain = nf("firewall:10+l3fwd:10+l3fwd:10");
    let sent = frame([198, 18, 0, 1], [198, 19, 0, 1], 9, (5000, 6000));
    let Expected::Forward { port, frame: left } = chain.expected(0, &sent) else { panic!("it passes") };
    assert_eq!((port, left[22]), (1, 7), "two routers lower the TTL twice");
    let Expected::Forward { frame: once, .. } = nf("l3fwd:10").expected(0, &sent) else {
        panic!("it passes")
    };
    assert_eq!((&left[..12], &left[26..]), (&once[..12], &sent[26..]), "the last router's addresses");
    let tired = frame([198, 18, 0, 1], [198, 19, 0, 1], 2, (5000, 6000));
    assert_eq!(chain.expected(0, &tired), Expected::Drop(Reason::Expired), "at the second router");
    // From the other side it meets the routers first.
    let back = frame([198, 19, 0, 1], [198, 18, 0, 1], 9, (5000, 6000));
    assert!(matches!(chain.expected(1, &back), Expected::Forward { port: 0, .. }));
    // A router in the midst sends back what belongs to the side it came from, through all that it has passed.
    let home = frame([198, 18, 0, 1], [198, 18, 0, 2], 9, (5000, 6000));
    let Expected::Forward { port, frame: left } = chain.expected(0, &home) else { panic!("it comes back") };
    assert_eq!((port, left[22]), (0, 8));
    let denied = Nf::Firewall { rules: 10 }.rules()[0];
    let deny = |nf: &Oracle| {
        let tuple = (denied.source.address().octets(), denied.destination.address().octets());
        let ports = (5000, 6000);
        nf.expected(0, &frame(tuple.0, tuple.1, 9, ports))
    };
    assert_eq!(deny(&nf("firewall:10+l2fwd")), deny(&nf("firewall:10")));
}

#[test]
fn a_chain_passes_what_one_function_makes_of_a_packet_on_to_the_next() {
    let a = Nf::PipelineA { entries: 16 };
    let opens = conversation(a);
    let there = Expected::Forward { port: 1, frame: opens.clone() };
    assert_eq!(nf("pipeline-a:16+l2fwd").expected(0, &opens), there);
    let back = answer(a, &opens);
    let passes = Expected::Forward { port: 0, frame: back.clone() };
    assert_eq!(nf("pipeline-a:16+l2fwd").expected(1, &back), passes);
    assert_eq!(nf("l2fwd+pipeline-a:16").expected(1, &back), passes, "l2fwd keeps nothing");
    // Whether the question came through, the oracle cannot know where a filter stands in its way.
    assert_eq!(nf("firewall:10+pipeline-a:16").expected(1, &back), Expected::Open);
    assert_eq!(nf("pipeline-a:16+firewall:10").expected(0, &opens), nf("firewall:10").expected(0, &opens));
    // What a balancer chooses among goes on as each of it.
    let c = nf("pipeline-c:16").expected(0, &opens);
    assert!(matches!(&c, Expected::OneOf { port: 1, frames } if frames.len() == 8), "{c:?}");
    assert_eq!(nf("pipeline-c:16+pipeline-d:1").expected(0, &opens), c);
    assert_eq!(nf("pipeline-c:16+l3fwd:10").expected(0, &opens), Expected::Drop(Reason::NoRoute));
    // What is encrypted stays so behind the next.
    assert_eq!(nf("pipeline-b:16+l2fwd").expected(0, &opens), nf("pipeline-b:16").expected(0, &opens));
}

#[test]
fn a_chain_with_a_flow_table_is_judged_by_the_table_and_by_what_stands_behind_it() {
    let flows = "in_port=1,udp,tp_dst=6000,actions=mod_nw_tos:32,output:2\nin_port=1,udp,tp_dst=6001,actions=in_port\n\
                 in_port=2,actions=output:1\n";
    let site = Nf::Flows(crate::FlowFile::of("site.flows", "site.flows", flows.to_owned()).unwrap());
    let chain = |members: &[Nf]| Oracle::new(crate::Chain::of(members).unwrap());
    let sent = |port| frame([198, 18, 0, 1], [198, 19, 0, 1], 64, (5000, port));
    let both = chain(&[site, Nf::L3Fwd { routes: 10 }]);
    let Expected::Forward { port: 1, frame: marked } = Oracle::new(site).expected(0, &sent(6000)) else {
        panic!("dropped")
    };
    assert_eq!(marked[15], 32);
    assert_eq!(both.expected(0, &sent(6000)), nf("l3fwd:10").expected(0, &marked));
    assert!(
        matches!(both.expected(0, &sent(6001)), Expected::Forward { port: 0, .. }),
        "back where it came from"
    );
    assert_eq!(both.expected(0, &sent(6002)), Expected::Drop(Reason::NoEntry));
    let turned = chain(&[Nf::L2Fwd, site]);
    assert!(
        matches!(turned.expected(0, &sent(6001)), Expected::Forward { port: 0, .. }),
        "through both again"
    );
}
