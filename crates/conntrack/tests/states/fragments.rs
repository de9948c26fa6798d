//! Fragments follow the first, and whole packets the connection.

use super::*;

#[test]
fn later_fragments_follow_the_first() {
    for (client, server) in [(v4(1, 1000), v4(20, 80)), (v6(1, 1000), v6(20, 80))] {
        let mut net = Net::small();
        let parts = fragments(&udp(client, server, 3000), 77, 1000);
        assert_eq!(parts.len(), 4);
        assert_eq!(refused(net.allow(&parts[1])), Reason::Fragment, "before the first");
        for part in &parts {
            assert_eq!(state(net.allow(part)), NEW);
        }
        assert_eq!(state(net.allow(&parts[2])), NEW, "in any order");
        let other = fragments(&udp(client, server, 3000), 78, 1000);
        assert_eq!(refused(net.allow(&other[1])), Reason::Fragment);
        let answer = fragments(&udp(server, client, 3000), 77, 1000);
        assert_eq!(state(net.pass(&answer[0])), REPLY);
        assert_eq!(state(net.pass(&answer[3])), REPLY);
        net.wait(31);
        assert_eq!(refused(net.allow(&parts[2])), Reason::Fragment, "too late");
    }
    let mut early =
        Net::new(Settings { early_fragments: EarlyFragments::Pass, connections: 10, ..Settings::default() });
    let parts = fragments(&udp(v4(1, 1), v4(20, 2), 3000), 77, 1000);
    assert_eq!(state(early.pass(&parts[1])), 0);
}

#[test]
fn a_fragmented_segment_is_acknowledged_whole() {
    for (client, server) in [(v4(1, 1000), v4(20, 80)), (v6(1, 1000), v6(20, 80))] {
        let mut talk = Talk { net: Net::small(), client, server }.shake();
        for part in fragments(&tcp(client, server, data(101, 501, 900)), 5, 400) {
            assert_eq!(state(talk.net.allow(&part)), EST);
        }
        assert_eq!(refused(talk.hears(ack(501, 1002))), Reason::AckAbove);
        assert_eq!(state(talk.hears(ack(501, 1001))), REPLY);
        let beyond = fragments(&tcp(client, server, data(1001, 501, 1001)), 6, 400);
        assert_eq!(state(talk.net.allow(&beyond[0])), EST);
        assert_eq!(refused(talk.net.allow(&beyond[2])), Reason::SeqAbove);
    }
}

#[test]
fn fragments_cannot_reach_into_a_header_nor_change_their_connection() {
    let (client, server) = (v4(1, 1000), v4(20, 80));
    let mut talk = Talk::new().shake();
    let whole = tcp(client, server, data(101, 501, 300));
    let first = fragments(&whole, 9, 160);
    assert_eq!(state(talk.net.allow(&first[0])), EST);
    let tiny = fragments(&whole, 9, 8);
    assert_eq!(refused(talk.net.allow(&tiny[1])), Reason::Fragment, "flags are in these eight bytes");
    assert_eq!(refused(talk.net.allow(&tiny[0])), Reason::Truncated);
    let elsewhere = fragments(&tcp(client, v4(20, 22), syn(1)), 9, 24);
    let stranger = fragments(&tcp(client, v4(20, 22), Tcp { length: 300, ..syn(1) }), 9, 160);
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(refused(talk.net.allow(&stranger[0])), Reason::Fragment);
}

#[test]
fn whole_packets_give_their_room_back() {
    // 6,000 datagrams of three fragments at 10,000 packets a second, with room for 4,096.
    let mut net = Net::new(Settings { connections: 10, ..Settings::default() });
    for number in 0..6000_u32 {
        for part in fragments(&udp(v4(1, 1), v4(20, 2), 2800), number as u16, 1000) {
            assert_eq!(net.allow(&part).refused, None, "datagram {number}");
            net.now.0 += 100_000;
        }
    }
    let counters = net.tracker.counters();
    assert_eq!(counters.of(Event::FragmentsWhole), 6000);
    assert_eq!(counters.of(Event::FragmentsEvicted), 0);
}

#[test]
fn the_oldest_packet_under_way_makes_room_and_that_of_its_own_port() {
    let mut net = Net::new(Settings { fragments: 64, connections: 1000, ..Settings::default() });
    let parts = |last, id| fragments(&udp(v4(last, 1), v4(20, 2), 3000), id, 1000);
    let victim = parts(5, 7);
    assert_eq!(net.judge_from(2, &victim[0], 0, true).refused, None);
    for id in 0..1000 {
        assert_eq!(net.judge_from(1, &parts(1, id)[0], 0, true).refused, None, "the newest has room");
    }
    assert_eq!(net.tracker.counters().of(Event::FragmentsEvicted), 1000 - 63);
    assert_eq!(
        net.judge_from(2, &victim[1], 0, true).refused,
        None,
        "another port's flood takes nothing of it"
    );
    assert_eq!(net.judge_from(1, &parts(1, 999)[1], 0, true).refused, None);
    assert_eq!(refused(net.judge_from(1, &parts(1, 3)[1], 0, true)), Reason::Fragment, "the oldest went");
    let mut none = Net::new(Settings { fragments: 0, connections: 10, ..Settings::default() });
    assert_eq!(refused(none.allow(&victim[0])), Reason::LimitFragments);
    assert_eq!(none.tracker.connections(), 0, "nothing is left of it");
}

#[test]
fn fragments_that_come_twice_or_overlap_change_nothing() {
    let mut net = Net::small();
    let parts = fragments(&udp(v4(1, 1), v4(20, 2), 3000), 7, 1000);
    for part in [&parts[0], &parts[0], &parts[2], &parts[2], &parts[1], &parts[0]] {
        assert_eq!(net.allow(part).refused, None);
    }
    let other = fragments(&udp(v4(1, 1), v4(20, 2), 3000), 7, 1008);
    assert_eq!(net.allow(&other[1]).refused, None, "all of it came before");
    assert_eq!(refused(net.allow(&other[2])), Reason::Fragment, "RFC 5722");
    let counted = |net: &Net| {
        [Event::FragmentRecords, Event::FragmentsWhole].map(|event| net.tracker.counters().of(event))
    };
    assert_eq!(counted(&net), [1, 0]);
    assert_eq!(net.allow(&parts[3]).refused, None);
    assert_eq!(counted(&net), [1, 1]);
    for part in &parts {
        assert_eq!(net.allow(part).refused, None);
    }
    assert_eq!(counted(&net), [2, 2], "another packet with the identification of one before it");
}
