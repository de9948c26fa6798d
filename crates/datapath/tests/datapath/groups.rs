//! Groups that lead to groups, and groups that watch groups: no work beyond a bound, and liveness as it is.

use crate::rig::{Rig, check_sum, config, udp};
use std::net::SocketAddr;
use weir_datapath::{Change, Config, MOST_BUCKETS, MOST_CHAINED, PortFlags, Refusal, Refused, Selection};
use weir_openflow::{Action, Bucket, Group, GroupId, GroupKind, PortNo};

fn bucket(id: u32, actions: Vec<Action>) -> Bucket {
    Bucket { id, weight: 1, watch_port: None, watch_group: None, actions }
}

fn group(id: u32, kind: GroupKind, buckets: Vec<Bucket>) -> Change {
    Change::AddGroup(Group { id: GroupId(id), kind, buckets })
}

/// A group of this many buckets that watch a group, and send to port 2.
fn watching(id: u32, watched: u32, buckets: u32) -> Change {
    let of =
        |id| Bucket { watch_group: Some(GroupId(watched)), ..bucket(id, vec![Action::Output(PortNo(2))]) };
    group(id, GroupKind::FastFailover, (0..buckets).map(of).collect())
}

/// A group whose buckets all send to another.
fn leading(id: u32, to: u32, buckets: u32) -> Change {
    let of = |id| bucket(id, vec![Action::Group(GroupId(to))]);
    group(id, GroupKind::All, (0..buckets).map(of).collect())
}

fn refused(rig: &mut Rig, change: Change) -> Refused {
    let (at, refused) = rig.datapath.apply_each(vec![change], false).unwrap().refused.remove(0);
    assert_eq!(at, 0);
    refused
}

#[test]
fn a_circle_of_watching_is_refused_whatever_the_kind() {
    let mut rig = Rig::new(config(1));
    for kind in [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover] {
        let count = if kind == GroupKind::Indirect { 1 } else { 16 };
        let of = |id| Bucket { watch_group: Some(GroupId(1)), ..bucket(id, vec![]) };
        let itself = refused(&mut rig, group(1, kind, (0..count).map(of).collect()));
        assert_eq!((itself.why, itself.text.as_str()), (Refusal::GroupLoop, "group 1 watches itself"));
    }
    // Also through others, one of which comes last.
    for change in [watching(1, 2, 16), watching(2, 3, 16), watching(3, 4, 16)] {
        rig.datapath.apply(&[change]).unwrap();
    }
    let circle = refused(&mut rig, watching(4, 1, 16));
    assert_eq!(circle.why, Refusal::GroupLoop);
    assert_eq!(circle.text, "group 4 watches itself, through group 3");
    // Sending to a group that watches the sender is no circle of either.
    let mut back = bucket(0, vec![Action::Group(GroupId(1))]);
    back.watch_group = None;
    rig.datapath.apply(&[group(4, GroupKind::All, vec![back])]).unwrap();
    rig.end();
}

#[test]
fn a_circle_of_sending_is_refused_with_its_last_link() {
    let mut rig = Rig::new(config(1));
    rig.datapath.apply(&[group(1, GroupKind::All, vec![]), leading(2, 1, 2), leading(3, 2, 2)]).unwrap();
    let Change::AddGroup(back) = leading(1, 3, 1) else { unreachable!() };
    let circle = refused(&mut rig, Change::ModifyGroup(back));
    assert_eq!(
        (circle.why, circle.text.as_str()),
        (Refusal::GroupLoop, "group 1 sends packets to itself, through group 2")
    );
    rig.end();
}

#[test]
fn a_long_chain_of_watching_groups_is_as_alive_as_the_port_at_its_end() {
    const CHAIN: u32 = 1_000;
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    rig.port(3, "null");
    let mut chain = vec![group(
        CHAIN,
        GroupKind::FastFailover,
        vec![Bucket { watch_port: Some(PortNo(3)), ..bucket(0, vec![Action::Output(PortNo(2))]) }],
    )];
    // Sixteen ways from each to the next: 16 to the 999th in all.
    chain.extend((1..CHAIN).rev().map(|id| watching(id, id + 1, 16)));
    rig.datapath.apply(&chain).unwrap();
    rig.flows("actions=group:1");
    let send = |rig: &mut Rig| {
        rig.datapath.inject(PortNo(1), udp(1, 2, (3, 4)));
        rig.datapath.report().unwrap().workers.remove(0)
    };
    assert_eq!(send(&mut rig).sent, 1);
    rig.datapath.configure_port(PortNo(3), PortFlags { down: true, ..PortFlags::default() }).unwrap();
    let worker = send(&mut rig);
    assert_eq!((worker.sent, worker.dropped.get("no-bucket")), (1, Some(&1)));
    let told = rig.datapath.explain(PortNo(1), &udp(1, 2, (3, 4)), &[]);
    assert!(told.contains("no-bucket"), "{told}");
    rig.datapath.configure_port(PortNo(3), PortFlags::default()).unwrap();
    assert_eq!(send(&mut rig).sent, 2);
    rig.end();
}

#[test]
fn groups_that_multiply_are_added_at_once_and_their_packets_dropped_with_a_reason() {
    const CHAIN: u32 = 1_000;
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    let end = group(CHAIN, GroupKind::All, vec![bucket(0, vec![Action::Output(PortNo(2))])]);
    // Twice as many ways at each level: 2 to the 999th in all.
    let chain: Vec<Change> =
        [end].into_iter().chain((1..CHAIN).rev().map(|id| leading(id, id + 1, 2))).collect();
    rig.datapath.apply(&chain).unwrap();
    rig.flows("in_port=1,actions=group:1\nin_port=3,actions=group:980\nin_port=4,actions=group:995");
    for port in [1, 3, 4] {
        (0..10).for_each(|source| rig.datapath.inject(PortNo(port), udp(source, 2, (3, 4))));
    }
    let told = rig.datapath.explain(PortNo(1), &udp(1, 2, (3, 4)), &[]);
    assert!(told.contains("too-deep"), "{told}");
    let worker = rig.datapath.report().unwrap().workers.remove(0);
    // From 980 there are 2 to the 20th ways, which is too much work; from 995 there are 32, which is not.
    assert_eq!((worker.dropped.get("too-deep"), worker.sent), (Some(&20), 10 * 32));
    check_sum(&rig.datapath.report().unwrap());
    rig.end();
}

#[test]
fn copies_of_copies_end_where_they_are_too_many() {
    let mut rig = Rig::new(config(1));
    rig.sink(2);
    // A bucket is a copy too.
    rig.groups("group_id=1,type=all,bucket=output:2");
    let nested = |depth: usize| "clone(".repeat(depth) + "group:1" + &",output:2)".repeat(depth);
    rig.flows(&format!("in_port=1,actions={}\nin_port=3,actions={}", nested(63), nested(64)));
    rig.datapath.inject(PortNo(1), udp(1, 2, (3, 4)));
    rig.datapath.inject(PortNo(3), udp(1, 2, (3, 4)));
    let worker = rig.datapath.report().unwrap().workers.remove(0);
    assert_eq!((worker.sent, worker.dropped.get("too-deep")), (64, Some(&1)));
    rig.end();
}

#[test]
fn what_a_group_may_hold_and_lead_to_has_a_limit_that_is_told() {
    let mut rig = Rig::new(config(1));
    let buckets = |count: usize| (0..count).map(|id| bucket(id as u32, vec![])).collect();
    rig.datapath.apply(&[group(1, GroupKind::All, buckets(MOST_BUCKETS))]).unwrap();
    let many = refused(&mut rig, group(2, GroupKind::All, buckets(MOST_BUCKETS + 1)));
    assert_eq!(many.why, Refusal::BucketsExhausted);
    assert!(many.text.contains("1025 buckets") && many.text.contains("1024 at most"), "{}", many.text);
    let most = MOST_CHAINED as u32;
    let chain: Vec<Change> = (2..=most + 1).map(|id| leading(id, id - 1, 1)).collect();
    rig.datapath.apply(&chain).unwrap();
    let chained = refused(&mut rig, leading(most + 2, most + 1, 1));
    assert_eq!(chained.why, Refusal::GroupsChained);
    assert!(chained.text.contains("more than 1024 groups"), "{}", chained.text);
    rig.end();
}

/// Packets of connections of each kind, and of their other direction; the last byte of each says which connection.
fn both_ways(connection: u8) -> Vec<[Vec<u8>; 2]> {
    let v4 = [weir_frames::v4(connection, 4_000), weir_frames::v4(250, 80)];
    let v6 = [weir_frames::v6(u16::from(connection), 4_000), weir_frames::v6(250, 80)];
    let data = [0; 18];
    let datagrams =
        |[a, b]: [SocketAddr; 2]| [weir_frames::datagram(a, b, &data), weir_frames::datagram(b, a, &data)];
    let echoes = [false, true].map(|reply| {
        let [from, to] = if reply { [v4[1], v4[0]] } else { v4 };
        weir_frames::echo(from.ip(), to.ip(), reply, 7)
    });
    let cards = [[connection, 9], [9, connection]].map(|[from, to]| {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
        frame.resize(60, 0);
        frame
    });
    let mut kinds = vec![datagrams(v4), datagrams(v6), echoes, cards];
    for frame in kinds.iter_mut().flatten() {
        frame.push(connection);
    }
    kinds
}

#[test]
fn both_directions_of_a_connection_go_through_buckets_of_the_same_place() {
    const CONNECTIONS: u8 = 64;
    for kind in 0..both_ways(1).len() {
        let mut rig = Rig::new(config(1));
        (2..=5).for_each(|port| rig.sink(port));
        rig.groups("group_id=1,type=select,bucket=output:2,bucket=output:3\ngroup_id=2,type=select,bucket=output:4,bucket=output:5");
        rig.flows("in_port=1,actions=group:1\nin_port=6,actions=group:2");
        for connection in 1..=CONNECTIONS {
            let [there, back] = both_ways(connection).swap_remove(kind);
            rig.datapath.inject(PortNo(1), there);
            rig.datapath.inject(PortNo(6), back);
        }
        rig.wait_until(|report| report.workers[0].sent == 2 * u64::from(CONNECTIONS));
        let end = rig.end();
        let connections = |port| -> Vec<u8> {
            let frames = end.sent(port);
            frames.iter().filter_map(|frame| frame.last().copied()).collect()
        };
        assert_eq!([connections(2), connections(3)], [connections(4), connections(5)], "kind {kind}");
        let share = connections(2).len();
        assert!((16..=48).contains(&share), "kind {kind}: {share} of {CONNECTIONS} through the first bucket");
    }
}

#[test]
fn turns_go_round_packet_by_packet_by_the_weights_whatever_the_flow() {
    let mut rig = Rig::new(Config { selection: Selection::RoundRobin, ..config(1) });
    (2..=4).for_each(|port| rig.sink(port));
    rig.groups(
        "group_id=1,type=select,bucket=weight:2,output:2,bucket=weight:1,output:3,bucket=weight:1,output:4",
    );
    rig.flows("in_port=1,actions=group:1");
    // Of one flow and of many.
    for packet in 0..400_u32 {
        let port = if packet < 200 { 7 } else { packet as u16 };
        rig.datapath.inject(PortNo(1), udp(1, 2, (port, 80)));
    }
    let told = rig.datapath.explain(PortNo(1), &udp(1, 2, (3, 4)), &[]);
    assert!(told.contains("one of 3 buckets, in turns"), "{told}");
    rig.wait_until(|report| report.workers[0].sent == 400);
    let end = rig.end();
    assert_eq!([2, 3, 4].map(|port| end.sent(port).len()), [200, 100, 100]);
}
