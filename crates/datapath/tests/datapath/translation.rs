//! OpenFlow's `ct` and `nat` in a running datapath: several workers, coalescing, exhaustion, hairpin. What
//! single packets become is compared with Open vSwitch elsewhere (`tests/against_ovs/conversations.rs`).

use crate::rig::{Rig, config, udp};
use std::net::Ipv4Addr;
use weir_flow::{Field, Key, extract};
use weir_openflow::PortNo;

/// Hosts inside are at port 1, what they send leaves by 2; answers come in by 3 and leave by 4.
const ROUTER: &str = "
    table=0,ip,actions=ct(table=1,zone=3,nat)
    table=1,priority=2,ct_state=+new,ip,in_port=1,actions=ct(commit,zone=3,nat(src=203.0.113.1)),output:2
    table=1,priority=1,ct_state=+est,ip,in_port=1,actions=output:2
    table=1,priority=1,ct_state=+est+rpl,ip,in_port=3,actions=output:4
    table=1,priority=0,actions=drop";

fn address(a: u8, b: u8, c: u8, d: u8) -> u32 {
    Ipv4Addr::new(a, b, c, d).to_bits()
}

/// Source, its port, destination, its port.
fn ends(frame: &[u8]) -> (u32, u16, u32, u16) {
    let mut key = Key::new();
    extract(frame, 1, &mut key);
    let get = |field: Field| field.get(&key) as u32;
    let ports = (get(Field::UdpSrc) as u16, get(Field::UdpDst) as u16);
    (get(Field::NwSrc), ports.0, get(Field::NwDst), ports.1)
}

#[test]
fn answers_of_translated_connections_come_to_the_worker_that_has_them() {
    let flows = 0..60_u16;
    let server = |flow: u16| address(192, 0, 2, flow as u8 + 1);
    let host = |flow: u16| address(10, 0, 0, flow as u8 % 7 + 1);
    let wan = address(203, 0, 113, 1);
    let out: Vec<_> = flows.clone().map(|flow| udp(host(flow), server(flow), (7000 + flow, 53))).collect();
    let back: Vec<_> = flows.clone().map(|flow| udp(server(flow), wan, (53, 7000 + flow))).collect();
    let mut rig = Rig::new(config(2));
    rig.sink(2);
    rig.sink(4);
    rig.flows(ROUTER);
    rig.source(1, &out, "");
    rig.wait(60);
    // All are made when the ledger says that they left.
    while rig.wait(60).workers.iter().map(|worker| worker.sent).sum::<u64>() < 60 {}
    rig.source(3, &back, "");
    rig.wait(120);
    while rig.wait(120).workers.iter().map(|worker| worker.sent).sum::<u64>() < 120 {}
    let end = rig.end();
    let both = end.report.workers.iter().filter(|worker| worker.handed_over > 0).count();
    assert!(both > 0, "packets change workers: {:#?}", end.report.workers);
    let mut left: Vec<_> = end.sent(2).iter().map(|frame| ends(frame)).collect();
    left.sort_unstable();
    let mut wanted: Vec<_> = flows.clone().map(|flow| (wan, 7000 + flow, server(flow), 53)).collect();
    wanted.sort_unstable();
    assert_eq!(left, wanted);
    let mut left: Vec<_> = end.sent(4).iter().map(|frame| ends(frame)).collect();
    left.sort_unstable();
    let mut wanted: Vec<_> = flows.map(|flow| (server(flow), 53, host(flow), 7000 + flow)).collect();
    wanted.sort_unstable();
    assert_eq!(left, wanted);
}

#[test]
fn an_established_connection_is_classified_once_and_another_state_looked_up_anew() {
    let (host, server, wan) = (address(10, 0, 0, 1), address(192, 0, 2, 1), address(203, 0, 113, 1));
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    rig.sink(4);
    rig.flows(ROUTER);
    rig.source(1, &[udp(host, server, (7000, 53))], "");
    rig.wait(1);
    rig.source(3, &[udp(server, wan, (53, 7000))], "");
    rig.wait(2);
    let more = vec![udp(server, wan, (53, 7000)); 200];
    rig.flows("table=1,priority=1,ct_state=+est+rpl,ip,in_port=6,actions=output:4");
    rig.source(6, &more, "");
    let report = rig.wait(202);
    let caches = &report.workers[0].caches;
    assert!(caches.coalesced >= 190, "{caches:#?}");
    let end = rig.end();
    assert_eq!(end.sent(4).len(), 201);
    assert!(end.sent(4).iter().all(|frame| ends(frame) == (server, 53, host, 7000)));
}

#[test]
fn where_no_port_is_left_to_translate_to_packets_are_dropped_for_that_reason() {
    let frames: Vec<_> =
        (0..5).map(|flow| udp(address(10, 0, 0, 1), address(192, 0, 2, 1), (7000 + flow, 53))).collect();
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    rig.flows("table=0,ip,actions=ct(commit,nat(src=203.0.113.1:5000-5002)),output:2");
    rig.source(1, &frames, "");
    rig.wait(5);
    let end = rig.end();
    let ports: std::collections::BTreeSet<u16> = end.sent(2).iter().map(|frame| ends(frame).1).collect();
    assert_eq!(ports, [5000, 5001, 5002].into());
    assert_eq!(end.dropped("nat-exhausted"), 2);
}

#[test]
fn a_host_reaches_another_beside_it_by_the_routers_address() {
    let (host, server) = (address(10, 0, 0, 1), address(10, 0, 0, 2));
    let (router, wan) = (address(10, 0, 0, 254), address(203, 0, 113, 1));
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    rig.flows(
        "table=0,ip,actions=ct(table=1,zone=1,nat)
         table=1,priority=2,ct_state=+new,udp,nw_dst=203.0.113.1,tp_dst=80,actions=ct(commit,zone=1,nat(dst=10.0.0.2:8080),table=2)
         table=1,priority=1,ct_state=+trk,ip,actions=resubmit(,2)
         table=2,ip,actions=ct(table=3,zone=2,nat)
         table=3,priority=2,ct_state=+new,ip,nw_src=10.0.0.0/24,nw_dst=10.0.0.0/24,actions=ct(commit,zone=2,nat(src=10.0.0.254)),output:2
         table=3,priority=1,ct_state=+est+rpl,ip,actions=ct(table=4,zone=1,nat)
         table=4,ct_state=+est+rpl,ip,actions=output:2",
    );
    rig.source(1, &[udp(host, wan, (7000, 80))], "");
    rig.wait(1);
    rig.source(3, &[udp(server, router, (8080, 7000))], "");
    rig.wait(2);
    let end = rig.end();
    let left: Vec<_> = end.sent(2).iter().map(|frame| ends(frame)).collect();
    assert_eq!(left, [(router, 7000, server, 8080), (wan, 80, host, 7000)]);
}

/// The flows that `docs/openflow.md` shows.
const PORT_FORWARDING: &str = include_str!("../../../../docs/examples/port-forwarding.flows");

/// A UDP frame with these Ethernet addresses by their last two bytes, destination first.
fn between(ethernet: ([u8; 2], [u8; 2]), frame: Vec<u8>) -> Vec<u8> {
    let (to, from) = ethernet;
    [&[2, 0, 0, 0], &to[..], &[2, 0, 0, 0], &from[..], &frame[12..]].concat()
}

#[test]
fn the_home_router_of_the_documentation_translates_forwards_and_lets_nobody_in() {
    let (host, server) = (address(192, 168, 1, 11), address(198, 51, 100, 80));
    let wan = address(203, 0, 113, 2);
    let inside = |frame| between(([1, 1], [1, 0x11]), frame);
    let outside = |frame| between(([2, 1], [2, 2]), frame);
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    let asked = inside(udp(host, server, (7000, 53)));
    let spoofed = inside(udp(address(192, 168, 1, 12), server, (7000, 53)));
    rig.flows(PORT_FORWARDING);
    rig.source(1, &[asked, spoofed], "");
    rig.wait(2);
    let answer = outside(udp(server, wan, (53, 7000)));
    let stranger = outside(udp(server, wan, (53, 7001)));
    rig.source(3, &[answer, stranger], "");
    rig.wait(4);
    let end = rig.end();
    // The host's packet came before port 3 was there.
    assert_eq!(end.dropped("no-port") + end.sent(3).len() as u64, 1);
    let left: Vec<_> = end.sent(1).iter().map(|frame| (frame[5], ends(frame))).collect();
    assert_eq!(left, [(0x11, (server, 53, host, 7000))]);
    assert_eq!(end.dropped("by-flow"), 2);
}

#[test]
fn a_change_for_translated_addresses_concerns_the_megaflows_that_translate_to_them() {
    let frame = udp(address(192, 0, 2, 1), address(203, 0, 113, 1), (7000, 53));
    let mut rig = Rig::new(config(1));
    rig.sink(1);
    rig.sink(2);
    rig.sink(4);
    rig.flows(
        "table=0,udp,nw_dst=203.0.113.1,actions=ct(commit,nat(dst=10.0.0.2),table=1)
         table=1,priority=9,udp,nw_dst=10.0.0.3,actions=drop
         table=1,priority=0,actions=output:2",
    );
    rig.datapath.inject(PortNo(1), frame.clone());
    rig.datapath.inject(PortNo(1), frame.clone());
    rig.flows("table=1,priority=5,udp,nw_dst=10.0.0.2,actions=output:4");
    rig.datapath.inject(PortNo(1), frame);
    let end = rig.end();
    assert_eq!((end.sent(2).len(), end.sent(4).len()), (2, 1));
}
