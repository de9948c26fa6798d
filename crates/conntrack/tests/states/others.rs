//! Timeouts, UDP, ICMP, and what else is tracked.

use super::*;

#[test]
fn each_state_has_its_timeout() {
    let timeouts = Timeouts {
        tcp_syn_sent: 5,
        tcp_syn_received: 6,
        tcp_established: 1000,
        tcp_unacknowledged: 50,
        tcp_time_wait: 7,
        ..Timeouts::default()
    };
    let settings = || Settings { connections: 100, timeouts: timeouts.clone(), ..Settings::default() };
    let gone = |talk: &mut Talk, seconds: u64| {
        talk.net.wait(seconds - 1);
        talk.net.settle();
        assert_eq!(talk.net.tracker.connections(), 1, "{seconds}");
        talk.net.wait(2);
        talk.net.settle();
        assert_eq!(talk.net.tracker.connections(), 0, "{seconds}");
    };
    let mut talk = Talk::with(settings());
    talk.says(syn(100));
    gone(&mut talk, 5);
    talk.says(syn(100));
    talk.hears(syn_ack(500, 101));
    gone(&mut talk, 6);
    gone(&mut Talk::with(settings()).shake(), 1000);
    let mut talk = Talk::with(settings()).shake();
    talk.says(data(101, 501, 5));
    gone(&mut talk, 50);
    let mut talk = Talk::with(settings()).shake();
    talk.says(segment(FIN | ACK, 101, 501));
    talk.hears(segment(FIN | ACK, 501, 102));
    talk.says(ack(102, 502));
    gone(&mut talk, 7);
    assert_eq!(talk.net.tracker.counters().of(Event::Expired), 1);
}

#[test]
fn what_timed_out_is_gone_even_before_anyone_tidied_up() {
    let mut talk = Talk::new();
    talk.says(syn(100));
    talk.net.wait(121);
    assert_eq!(refused(talk.hears(syn_ack(500, 101))), Reason::NotOpening);
    assert_eq!(talk.net.tracker.connections(), 0);
}

#[test]
fn udp_is_answered_by_its_reverse_alone() {
    for (inside, outside) in [(v4(1, 53), v4(20, 5353)), (v6(1, 53), v6(20, 5353))] {
        let mut net = Net::small();
        assert_eq!(state(net.allow(&udp(inside, outside, 100))), NEW);
        assert_eq!(state(net.allow(&udp(inside, outside, 100))), NEW);
        let other = SocketAddr::new(outside.ip(), 5354);
        assert_eq!(refused(net.pass(&udp(other, inside, 100))), Reason::NotCommitted);
        assert_eq!(state(net.pass(&udp(outside, inside, 100))), REPLY);
        assert_eq!(state(net.allow(&udp(inside, outside, 100))), EST);
        net.wait(31);
        assert_eq!(state(net.pass(&udp(outside, inside, 100))), REPLY, "answered ones last longer");
        net.wait(121);
        assert_eq!(refused(net.pass(&udp(outside, inside, 100))), Reason::NotCommitted);
    }
}

#[test]
fn a_request_is_answered_and_nobody_answers_unasked() {
    for (inside, outside) in [(v4(1, 0).ip(), v4(20, 0).ip()), (v6(1, 0).ip(), v6(20, 0).ip())] {
        let mut net = Net::small();
        assert_eq!(refused(net.allow(&echo(inside, outside, true, 7))), Reason::NotOpening);
        assert_eq!(state(net.allow(&echo(inside, outside, false, 7))), NEW);
        assert_eq!(refused(net.pass(&echo(outside, inside, true, 8))), Reason::NotOpening);
        assert_eq!(refused(net.pass(&echo(outside, inside, false, 7))), Reason::NotCommitted);
        assert_eq!(refused(net.allow(&echo(inside, outside, true, 7))), Reason::NotOpening);
        assert_eq!(state(net.pass(&echo(outside, inside, true, 7))), REPLY);
        assert_eq!(state(net.allow(&echo(outside, inside, false, 7))), NEW, "both may ask with one id");
        assert_eq!(net.tracker.connections(), 2);
    }
}

#[test]
fn errors_are_related_to_the_packet_they_quote() {
    for (client, server) in [(v4(1, 1000), v4(20, 80)), (v6(1, 1000), v6(20, 80))] {
        let router = if client.is_ipv4() { v4(99, 0) } else { v6(99, 0) }.ip();
        let mut talk = Talk { net: Net::small(), client, server }.shake();
        let sent = tcp(client, server, data(101, 501, 400));
        talk.net.allow(&sent);
        let related = ct::TRK | ct::REL | ct::RPL;
        let quoted = if client.is_ipv4() { 28 } else { 48 };
        assert_eq!(state(talk.net.pass(&unreachable(router, client.ip(), &sent, quoted))), related);
        assert_eq!(state(talk.net.pass(&unreachable(router, client.ip(), &sent, 400))), related);
        let answer = tcp(server, client, data(501, 501, 1));
        talk.net.pass(&answer);
        let error = unreachable(client.ip(), server.ip(), &answer, 60);
        assert_eq!(state(talk.net.allow(&error)), ct::TRK | ct::REL);
        // Cut short, sent to somebody else, about somebody else, about numbers never sent.
        let wrong = [
            unreachable(router, client.ip(), &sent, quoted - 1),
            unreachable(router, server.ip(), &sent, quoted),
            unreachable(router, client.ip(), &tcp(client, server, data(90_000_000, 501, 400)), quoted),
            unreachable(router, client.ip(), &udp(client, server, 400), quoted),
            unreachable(router, client.ip(), &unreachable(client.ip(), server.ip(), &answer, 60), 100),
        ];
        for (number, frame) in wrong.iter().enumerate() {
            assert_eq!(refused(talk.net.pass(frame)), Reason::IcmpError, "{number}");
        }
        assert_eq!(talk.net.tracker.connections(), 1);
    }
}

#[test]
fn an_error_may_be_about_a_ping() {
    for (inside, outside) in [(v4(1, 0).ip(), v4(20, 0).ip()), (v6(1, 0).ip(), v6(20, 0).ip())] {
        let mut net = Net::small();
        let ping = echo(inside, outside, false, 7);
        net.allow(&ping);
        assert_eq!(state(net.pass(&unreachable(outside, inside, &ping, 60))), ct::TRK | ct::REL | ct::RPL);
        let other = echo(inside, outside, false, 8);
        assert_eq!(refused(net.pass(&unreachable(outside, inside, &other, 60))), Reason::IcmpError);
    }
}

#[test]
fn neighbour_discovery_passes_untracked_unless_it_was_routed() {
    let (from, to) = (v6(1, 0).ip(), v6(20, 0).ip());
    let mut net = Net::small();
    for kind in 133..=137 {
        let mut frame = icmp(from, to, (kind, 0), [0; 4], &[0; 16]);
        assert_eq!(refused(net.pass(&frame)), Reason::Discovery);
        frame[21] = 255;
        assert_eq!(state(net.pass(&frame)), 0);
    }
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(state(net.pass(&arp)), 0);
    arp[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(refused(net.pass(&arp)), Reason::NotCommitted);
    assert_eq!(state(net.allow(&arp)), 0);
    assert_eq!(refused(net.allow(&icmp(from, to, (200, 0), [0; 4], &[]))), Reason::IcmpType);
}

#[test]
fn other_protocols_are_tracked_by_their_addresses() {
    let (inside, outside) = (v4(1, 0).ip(), v4(20, 0).ip());
    let mut net = Net::small();
    let gre = |from, to| crate::support::ip(from, to, 47, vec![0; 40], None);
    assert_eq!(refused(net.pass(&gre(outside, inside))), Reason::NotCommitted);
    assert_eq!(state(net.allow(&gre(inside, outside))), NEW);
    assert_eq!(state(net.pass(&gre(outside, inside))), REPLY);
    assert_eq!(state(net.allow(&gre(inside, outside))), EST);
}

#[test]
fn a_connection_moves_when_its_segment_is_whole_and_its_sum_is_right() {
    for (client, server) in [(v4(1, 1000), v4(20, 80)), (v6(1, 1000), v6(20, 80))] {
        let mut talk = Talk { net: Net::small(), client, server }.shake();
        let spoil = |mut frame: Vec<u8>| {
            *frame.last_mut().unwrap() ^= 0x55;
            frame
        };
        let closing = |flags| tcp(client, server, Tcp { length: 100, ..segment(flags, 101, 501) });
        for flags in [FIN | ACK, RST | ACK] {
            let parts = fragments(&spoil(closing(flags)), 3, 64);
            assert_eq!(state(talk.net.allow(&parts[0])), EST);
            assert_eq!(talk.state(), State::Established, "nothing is known yet");
            assert_eq!(refused(talk.net.allow(&parts[1])), Reason::Checksum);
            assert_eq!(talk.state(), State::Established);
        }
        assert_eq!(refused(talk.hears(ack(501, 202))), Reason::AckAbove, "that FIN was not sent");
        for part in fragments(&closing(FIN | ACK), 4, 64) {
            assert_eq!(talk.state(), State::Established);
            assert_eq!(state(talk.net.allow(&part)), EST);
        }
        assert_eq!(talk.state(), State::FinWait);

        // A connection that a fragment begins is as long as its sum is not known to be wrong.
        let opening = tcp(v4(3, 1000), v4(20, 80), Tcp { length: 100, ..syn(7) });
        let mut net = Net::small();
        let parts = fragments(&spoil(opening.clone()), 5, 64);
        assert_eq!(state(net.allow(&parts[0])), NEW);
        assert_eq!((net.tracker.connections(), net.tracker.half_open()), (1, 1));
        assert_eq!(refused(net.allow(&parts[1])), Reason::Checksum);
        assert_eq!(net.tracker.connections(), 0);
        for part in fragments(&opening, 6, 64) {
            assert_eq!(state(net.allow(&part)), NEW);
        }
        assert_eq!(state(net.pass(&tcp(v4(20, 80), v4(3, 1000), syn_ack(500, 108)))), REPLY, "with its data");
    }
}

#[test]
fn a_length_beyond_the_frame_is_invalid_and_begins_nothing() {
    for frame in
        [udp(v4(1, 1), v4(20, 2), 30), udp(v6(1, 1), v6(20, 2), 30), tcp(v4(1, 1), v4(20, 2), syn(1))]
    {
        let (frame, mut key, mut net) = (&frame[..frame.len() - 1], Key::new(), Net::small());
        let layout = weir_flow::extract(frame, 1, &mut key);
        let packet = Packet { frame, layout, key: &key };
        let judgement = net.tracker.track(&packet, 0, true, net.tick_now());
        assert_eq!((refused(judgement), judgement.state), (Reason::Truncated, ct::INV | ct::TRK));
        assert_eq!(net.tracker.connections(), 0);
    }
}

#[test]
fn wrong_checksums_are_found_where_they_are_looked_for() {
    let spoilt = |mut frame: Vec<u8>| {
        *frame.last_mut().unwrap() ^= 0x55;
        frame
    };
    let (client, server) = (v4(1, 1000), v4(20, 80));
    for (checksums, opening, payload) in
        [(Checksums::None, true, true), (Checksums::State, false, true), (Checksums::All, false, false)]
    {
        let mut talk = Talk::with(Settings { checksums, connections: 100, ..Settings::default() });
        let passes = |judgement: Judgement| judgement.refused != Some(Reason::Checksum);
        assert_eq!(
            passes(talk.net.allow(&spoilt(tcp(client, server, Tcp { length: 1, ..syn(100) })))),
            opening
        );
        assert_eq!(passes(talk.net.allow(&spoilt(echo(client.ip(), server.ip(), false, 3)))), opening);
        assert_eq!(passes(talk.net.allow(&spoilt(udp(client, server, 30)))), payload);
        let mut talk = Talk::with(Settings { checksums, connections: 100, ..Settings::default() }).shake();
        assert_eq!(passes(talk.net.allow(&spoilt(tcp(client, server, data(101, 501, 31))))), payload);
        assert!(passes(talk.net.allow(&tcp(client, server, data(101, 501, 31)))));
    }
}

#[test]
fn marks_labels_and_translated_answers_belong_to_a_connection() {
    let mut net = Net::small();
    let place = net.allow(&udp(v4(1, 10), v4(20, 53), 9)).place.unwrap();
    assert!(net.tracker.set_mark(place, 0xabcd, 0xff) && net.tracker.set_label(place, 5 << 100, u128::MAX));
    let address = |address: SocketAddr| match address.ip() {
        std::net::IpAddr::V4(address) => u128::from(address.to_bits()),
        std::net::IpAddr::V6(address) => address.to_bits(),
    };
    // The client's address becomes another one outside: the answer goes there.
    let outside = v4(77, 4000);
    let reply = Tuple {
        v6: false,
        source: address(v4(20, 53)),
        destination: address(outside),
        source_port: 53,
        destination_port: 4000,
        protocol: 17,
        kind: 0,
        answer: false,
    };
    assert!(net.tracker.translate(place, &reply, net.tick_now()));
    assert!(!net.tracker.translate(place, &reply, net.tick_now()), "once only");
    let answer = net.pass(&udp(v4(20, 53), outside, 9));
    assert_eq!((state(answer), answer.place), (REPLY, Some(place)));
    let connection = net.tracker.connection(place, net.tick_now()).unwrap();
    assert_eq!((connection.mark, connection.label, connection.reply), (0xcd, 5 << 100, reply));
    let text = connection.to_string();
    assert_eq!(
        text,
        "udp,orig=(src=10.0.0.1,dst=10.0.1.20,sport=10,dport=53),\
         reply=(src=10.0.1.20,dst=10.0.1.77,sport=53,dport=4000),mark=205,labels=0x50000000000000000000000000"
    );
    let taken = net.allow(&udp(v4(2, 10), v4(20, 53), 9)).place.unwrap();
    assert!(!net.tracker.translate(taken, &reply, net.tick_now()), "another one has it");
    assert!(net.tracker.end(place) && !net.tracker.end(place));
    assert_eq!(refused(net.pass(&udp(v4(20, 53), outside, 9))), Reason::NotCommitted);
    assert!(!net.tracker.set_mark(place, 1, 1), "a handle does not outlive its connection");
    assert!(net.tracker.translate(taken, &reply, net.tick_now()));
}
