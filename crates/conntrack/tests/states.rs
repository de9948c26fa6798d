//! Connection tracking over scripted conversations: who may say what, and when.

use crate::support::{
    ACK, FIN, Net, PSH, RST, SYN, Tcp, echo, fragments, icmp, tcp, udp, unreachable, v4, v6,
};
use std::net::SocketAddr;
use weir_conntrack::{
    Checksums, EarlyFragments, Event, Judgement, Packet, Reason, Settings, State, Timeouts, Tuple, ct,
};
use weir_flow::Key;

/// A conversation between a client inside and a server outside.
struct Talk {
    net: Net,
    client: SocketAddr,
    server: SocketAddr,
}

const NEW: u8 = ct::TRK | ct::NEW;
const EST: u8 = ct::TRK | ct::EST;
const REPLY: u8 = ct::TRK | ct::EST | ct::RPL;

impl Talk {
    fn with(settings: Settings) -> Self {
        Self { net: Net::new(settings), client: v4(1, 1000), server: v4(20, 80) }
    }

    fn new() -> Self {
        Self::with(Settings { connections: 1000, ..Settings::default() })
    }

    /// From the client: its flow entry lets it open connections.
    fn says(&mut self, segment: Tcp) -> Judgement {
        self.net.allow(&tcp(self.client, self.server, segment))
    }

    /// From the server: it may only answer.
    fn hears(&mut self, segment: Tcp) -> Judgement {
        self.net.pass(&tcp(self.server, self.client, segment))
    }

    /// A handshake without scaling: the client is at 101, the server at 501; both have 1,000 bytes of
    /// window.
    fn shake(mut self) -> Self {
        assert_eq!(state(self.says(syn(100))), NEW);
        assert_eq!(state(self.hears(syn_ack(500, 101))), REPLY);
        assert_eq!(state(self.says(ack(101, 501))), EST);
        assert_eq!(self.state(), State::Established);
        self
    }

    fn state(&self) -> State {
        let (_, place) = self.net.tracker.all(0).next().expect("there is a connection");
        self.net.tracker.connection(place, self.net.tick_now()).unwrap().state
    }
}

fn state(judgement: Judgement) -> u8 {
    assert_eq!(judgement.refused, None);
    judgement.state
}

fn refused(judgement: Judgement) -> Reason {
    judgement.refused.expect("it should not pass")
}

fn segment(flags: u8, seq: u32, ack: u32) -> Tcp {
    Tcp { flags, seq, ack, window: 1000, ..Tcp::default() }
}

fn syn(seq: u32) -> Tcp {
    segment(SYN, seq, 0)
}

fn syn_ack(seq: u32, ack: u32) -> Tcp {
    segment(SYN | ACK, seq, ack)
}

fn ack(seq: u32, ack: u32) -> Tcp {
    segment(ACK, seq, ack)
}

fn data(seq: u32, ack: u32, length: usize) -> Tcp {
    Tcp { length, ..segment(ACK | PSH, seq, ack) }
}

#[test]
fn nobody_outside_opens_a_connection() {
    let mut talk = Talk::new();
    assert_eq!(refused(talk.hears(syn(7))), Reason::NotCommitted);
    assert_eq!(refused(talk.hears(syn_ack(7, 8))), Reason::NotOpening);
    assert_eq!(refused(talk.net.pass(&udp(talk.server, talk.client, 9))), Reason::NotCommitted);
    assert_eq!(talk.net.tracker.connections(), 0);
    let first = talk.hears(syn(7));
    assert_eq!((first.state, first.place), (NEW, None), "tables can still match what it would be");
}

#[test]
fn data_flows_both_ways_within_the_windows() {
    let mut talk = Talk::new().shake();
    assert_eq!(state(talk.says(data(101, 501, 1000))), EST);
    assert_eq!(refused(talk.says(data(1101, 501, 1))), Reason::SeqAbove);
    assert_eq!(state(talk.hears(ack(501, 1101))), REPLY);
    assert_eq!(state(talk.says(data(1101, 501, 1000))), EST);
    assert_eq!(refused(talk.hears(ack(501, 2102))), Reason::AckAbove);
    assert_eq!(state(talk.hears(data(501, 2101, 700))), REPLY);
    assert_eq!(state(talk.says(ack(2101, 1201))), EST);
    assert_eq!(refused(talk.hears(data(198, 2101, 1))), Reason::SeqBelow);
    assert_eq!(state(talk.hears(data(199, 2101, 1))), REPLY);
}

#[test]
fn windows_are_scaled_if_both_syns_say_so() {
    let scaled = |segment: Tcp, scale| Tcp { scale: Some(scale), ..segment };
    let mut talk = Talk::new();
    talk.says(scaled(syn(100), 2));
    talk.hears(scaled(syn_ack(500, 101), 3));
    // The window in a SYN is never scaled.
    assert_eq!(refused(talk.says(data(101, 501, 1001))), Reason::SeqAbove);
    talk.says(ack(101, 501));
    assert_eq!(refused(talk.hears(data(501, 101, 4001))), Reason::SeqAbove);
    assert_eq!(state(talk.hears(data(501, 101, 4000))), REPLY);
    assert_eq!(state(talk.says(data(101, 4501, 8000))), EST);

    let mut talk = Talk::new();
    talk.says(scaled(syn(100), 2));
    talk.hears(syn_ack(500, 101));
    talk.says(ack(101, 501));
    assert_eq!(refused(talk.hears(data(501, 101, 1001))), Reason::SeqAbove, "one side alone does not scale");
}

#[test]
fn old_data_and_old_acknowledgements_do_not_pass() {
    let mut talk = Talk::new().shake();
    for round in 0..200 {
        let seq = 101 + round * 1000;
        assert_eq!(state(talk.says(data(seq, 501, 1000))), EST);
        assert_eq!(state(talk.hears(ack(501, seq + 1000))), REPLY);
    }
    let end = 101 + 200_000;
    assert_eq!(refused(talk.says(data(end - 2000, 501, 998))), Reason::SeqBelow);
    assert_eq!(state(talk.says(data(end - 1000, 501, 1000))), EST, "a retransmission");
    assert_eq!(refused(talk.hears(ack(501, end - 66_001))), Reason::AckBelow);
    assert_eq!(state(talk.hears(ack(501, end - 66_000))), REPLY);
}

#[test]
fn probes_and_keep_alives_pass() {
    let mut talk = Talk::new().shake();
    talk.hears(Tcp { window: 0, ..ack(501, 101) });
    for seq in [100, 101] {
        assert_eq!(state(talk.says(data(seq, 501, 0))), EST);
        assert_eq!(state(talk.says(data(seq, 501, 1))), EST);
    }
    let mut talk = Talk::new();
    talk.says(syn(100));
    talk.hears(Tcp { window: 0, ..syn_ack(500, 101) });
    talk.says(ack(101, 501));
    assert_eq!(state(talk.says(data(101, 501, 1))), EST);
    assert_eq!(refused(talk.says(data(101, 501, 2))), Reason::SeqAbove);
}

#[test]
fn a_reset_closes_only_with_the_exact_number() {
    let mut talk = Talk::new().shake();
    assert_eq!(state(talk.hears(segment(RST, 900, 0))), REPLY, "the client will challenge it");
    assert_eq!(talk.state(), State::Established);
    assert_eq!(refused(talk.hears(segment(RST, 1502, 0))), Reason::Reset);
    assert_eq!(refused(talk.hears(segment(RST, 400, 0))), Reason::Reset);
    assert_eq!(talk.net.tracker.counters().of(Event::Challenged), 1);
    assert_eq!(state(talk.hears(segment(RST, 501, 0))), REPLY);
    assert_eq!(talk.state(), State::Closed);
}

#[test]
fn a_reset_behind_data_that_was_not_acknowledged_closes() {
    let mut talk = Talk::new().shake();
    talk.hears(data(501, 101, 300));
    assert_eq!(state(talk.hears(segment(RST | ACK, 801, 101))), REPLY);
    assert_eq!(talk.state(), State::Closed);
}

#[test]
fn a_reset_answers_a_syn_only_if_it_acknowledges_it() {
    let mut talk = Talk::new();
    talk.says(syn(100));
    assert_eq!(refused(talk.hears(segment(RST, 0, 0))), Reason::Reset);
    assert_eq!(refused(talk.hears(segment(RST | ACK, 0, 102))), Reason::Reset);
    assert_eq!(refused(talk.hears(segment(RST | ACK, 0, 100))), Reason::Reset);
    assert_eq!(state(talk.hears(segment(RST | ACK, 0, 101))), REPLY);
    assert_eq!(talk.state(), State::Closed);
}

#[test]
fn a_syn_within_a_connection_changes_nothing_but_is_challenged() {
    let mut talk = Talk::new().shake();
    assert_eq!(state(talk.hears(syn(77_777))), REPLY);
    assert_eq!(state(talk.says(syn(12_345))), EST);
    assert_eq!(talk.state(), State::Established);
    assert_eq!(state(talk.says(data(101, 501, 10))), EST);
    // The server answers the new SYN by what it believes; the client resets by that number.
    assert_eq!(state(talk.hears(ack(501, 111))), REPLY);
    assert_eq!(state(talk.says(segment(RST, 111, 0))), EST);
    assert_eq!(talk.state(), State::Closed);
    assert_eq!(state(talk.says(syn(12_345))), NEW);
    assert_eq!(talk.state(), State::SynSent);
    assert_eq!(talk.net.tracker.connections(), 1);
}

#[test]
fn a_half_dead_server_is_cleared_by_its_challenge() {
    let mut talk = Talk::new();
    talk.says(syn(100));
    assert_eq!(state(talk.hears(ack(9000, 7000))), REPLY);
    assert_eq!(refused(talk.says(segment(RST, 6999, 0))), Reason::Reset);
    assert_eq!(state(talk.says(segment(RST, 7000, 0))), NEW);
    assert_eq!(talk.state(), State::SynSent);
    assert_eq!(state(talk.says(syn(100))), NEW, "a challenge is no answer");
    assert_eq!(state(talk.hears(syn_ack(500, 101))), REPLY);
}

#[test]
fn both_sides_close_one_after_the_other() {
    let mut talk = Talk::new().shake();
    talk.says(segment(FIN | ACK, 101, 501));
    assert_eq!(talk.state(), State::FinWait);
    talk.hears(ack(501, 102));
    assert_eq!(talk.state(), State::CloseWait);
    assert_eq!(state(talk.hears(data(501, 102, 400))), REPLY, "the other half is still open");
    assert_eq!(refused(talk.says(data(102, 901, 1))), Reason::SeqAbove, "nothing comes behind a FIN");
    talk.hears(segment(FIN | ACK, 901, 102));
    assert_eq!(talk.state(), State::LastAck);
    talk.says(ack(102, 902));
    assert_eq!(talk.state(), State::TimeWait);
    assert_eq!(state(talk.hears(segment(FIN | ACK, 901, 102))), REPLY, "the last ACK may be lost");
}

#[test]
fn the_server_closes_first_or_both_at_once() {
    let mut talk = Talk::new().shake();
    talk.hears(segment(FIN | ACK, 501, 101));
    assert_eq!(talk.state(), State::FinWait);
    talk.says(segment(FIN | ACK, 101, 502));
    assert_eq!(talk.state(), State::LastAck);
    talk.hears(ack(502, 102));
    assert_eq!(talk.state(), State::TimeWait);

    let mut talk = Talk::new().shake();
    talk.says(segment(FIN | ACK, 101, 501));
    talk.hears(segment(FIN | ACK, 501, 101));
    assert_eq!(talk.state(), State::LastAck);
    talk.says(ack(102, 502));
    assert_eq!(talk.state(), State::LastAck);
    talk.hears(ack(502, 102));
    assert_eq!(talk.state(), State::TimeWait);
}

#[test]
fn both_sides_may_open_at_once() {
    let mut talk = Talk::new();
    talk.says(syn(100));
    assert_eq!(state(talk.hears(syn(500))), REPLY);
    assert_eq!(talk.state(), State::SynReceived);
    assert_eq!(state(talk.says(syn_ack(100, 501))), EST);
    assert_eq!(state(talk.hears(syn_ack(500, 101))), REPLY);
    assert_eq!(talk.state(), State::Established);
    assert_eq!(state(talk.says(data(101, 501, 500))), EST);
    assert_eq!(state(talk.hears(data(501, 601, 500))), REPLY);
}

#[test]
fn a_syn_is_retransmitted_and_answered_again() {
    let mut talk = Talk::new();
    for _ in 0..3 {
        assert_eq!(state(talk.says(syn(100))), NEW);
    }
    assert_eq!(refused(talk.hears(syn_ack(500, 100))), Reason::Handshake);
    assert_eq!(refused(talk.hears(syn_ack(500, 102))), Reason::Handshake);
    for _ in 0..3 {
        assert_eq!(state(talk.hears(syn_ack(500, 101))), REPLY);
    }
    assert_eq!(state(talk.hears(syn_ack(800, 101))), REPLY, "a SYN cookie of the next minute");
    assert_eq!(state(talk.says(ack(101, 801))), EST);
    assert_eq!(talk.state(), State::Established);
}

#[test]
fn a_half_open_connection_can_be_tried_again_with_another_number() {
    let mut talk = Talk::new();
    talk.says(syn(100));
    assert_eq!(state(talk.says(syn(70_000))), NEW);
    assert_eq!(refused(talk.hears(syn_ack(500, 101))), Reason::Handshake);
    assert_eq!(state(talk.hears(syn_ack(500, 70_001))), REPLY);
    assert_eq!(state(talk.says(ack(70_001, 501))), EST);
}

#[test]
fn time_wait_is_reused_by_a_greater_number_only() {
    let closed = || {
        let mut talk = Talk::new().shake();
        talk.says(segment(FIN | ACK, 101, 501));
        talk.hears(segment(FIN | ACK, 501, 102));
        talk.says(ack(102, 502));
        assert_eq!(talk.state(), State::TimeWait);
        talk
    };
    let mut talk = closed();
    assert_eq!(state(talk.says(syn(50))), EST);
    assert_eq!(talk.state(), State::TimeWait);
    assert_eq!(state(talk.says(syn(5000))), NEW);
    assert_eq!(talk.state(), State::SynSent);
    assert_eq!(talk.net.tracker.counters().of(Event::Reopened), 1);

    let mut talk = closed();
    assert_eq!(refused(talk.hears(syn(5000))), Reason::NotCommitted, "reopening is opening");
    assert_eq!(talk.state(), State::TimeWait);
}

#[test]
fn connections_are_met_in_the_middle_only_if_that_is_allowed() {
    let mut talk = Talk::new();
    assert_eq!(refused(talk.hears(data(1, 1, 1))), Reason::NotCommitted);
    assert_eq!(state(talk.says(data(9000, 4000, 100))), NEW);
    assert_eq!(state(talk.hears(data(4000, 9100, 100_000 % 1400))), REPLY);
    assert_eq!(state(talk.says(data(9100, 4000, 100))), EST);
    assert_eq!(state(talk.says(ack(9200, 4600))), EST);
    assert_eq!(refused(talk.hears(data(4000 + (3 << 29), 9200, 100))), Reason::SeqAbove);
    assert_eq!(state(talk.hears(segment(RST, 4600, 0))), REPLY);
    assert_eq!(talk.state(), State::Closed);

    let mut strict = Talk::with(Settings { loose: false, connections: 10, ..Settings::default() });
    assert_eq!(refused(strict.says(data(9000, 4000, 100))), Reason::NotOpening);
    for flags in [FIN | ACK, RST, RST | ACK, SYN | ACK] {
        assert_eq!(refused(strict.says(segment(flags, 1, 1))), Reason::NotOpening);
    }
}

#[test]
fn flags_that_no_host_sends_are_invalid() {
    let mut talk = Talk::new().shake();
    for flags in [0, FIN, SYN | FIN, SYN | RST, FIN | RST, SYN | FIN | ACK, FIN | PSH | 0x20, 0x3f] {
        assert_eq!(refused(talk.says(segment(flags, 101, 501))), Reason::TcpFlags, "{flags:#x}");
    }
}

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
fn zones_know_nothing_of_each_other() {
    let mut net = Net::small();
    let (ask, answer) = (udp(v4(1, 1), v4(20, 2), 9), udp(v4(20, 2), v4(1, 1), 9));
    assert_eq!(state(net.judge(&ask, 7, true)), NEW);
    assert_eq!(refused(net.judge(&answer, 0, false)), Reason::NotCommitted);
    assert_eq!(refused(net.judge(&answer, 8, false)), Reason::NotCommitted);
    assert_eq!(state(net.judge(&answer, 7, false)), REPLY);
    let (_, place) = net.tracker.all(0).next().unwrap();
    assert_eq!(net.tracker.connection(place, net.tick_now()).unwrap().zone, 7);
}

/// A datagram of a client of this number that is answered, so that its connection is settled.
fn settled(net: &mut Net, port: u32, zone: u16, number: u16) -> bool {
    let allowed = net.judge_from(port, &udp(v4(1, number), v4(20, 2), 9), zone, true).refused.is_none();
    allowed && net.judge_from(9, &udp(v4(20, 2), v4(1, number), 9), zone, false).refused.is_none()
}

#[test]
fn a_zone_has_no_more_than_its_limit() {
    let settings = Settings {
        connections: 100,
        zone_connections: 3,
        zones: [(5, 6)].into_iter().collect(),
        ..Settings::default()
    };
    let mut net = Net::new(settings);
    for (zone, most) in [(0, 3), (1, 3), (5, 6)] {
        let allowed: Vec<bool> = (0..10).map(|number| settled(&mut net, 1, zone, number)).collect();
        assert_eq!(allowed, (0..10).map(|number| number < most).collect::<Vec<_>>());
    }
    assert_eq!(net.tracker.counters().refused(Reason::LimitZone), 7 + 7 + 4);
    net.wait(121);
    assert_eq!(state(net.judge(&udp(v4(1, 9), v4(20, 2), 9), 1, true)), NEW, "they leave room when they end");
    // One that is half-open makes room in its zone, and no other does.
    for number in 20..40 {
        assert_eq!(state(net.judge(&udp(v4(1, number), v4(20, 2), 9), 1, true)), NEW);
        assert!(
            net.tracker
                .all(0)
                .filter(|(_, place)| { net.tracker.connection(*place, net.tick_now()).unwrap().zone == 1 })
                .count()
                <= 3
        );
    }
}

#[test]
fn a_flood_takes_room_of_its_own_port_and_zone() {
    let settings = Settings { connections: 100, half_open: 40, ..Settings::default() };
    let mut net = Net::new(settings);
    let open = |net: &mut Net, port: u32, zone: u16, number: u16| {
        net.judge_from(port, &udp(v4(2, number), v4(20, 2), 9), zone, true).refused.is_none()
    };
    for number in 0..10 {
        assert!(open(&mut net, 1, 1, number) && open(&mut net, 2, 2, number));
    }
    for number in 1000..2000 {
        assert!(open(&mut net, 3, 1, number), "the newest has room");
    }
    assert_eq!(net.tracker.half_open(), 40);
    let lives = |net: &mut Net, port: u32, zone: u16, number: u16| {
        net.judge_from(port, &udp(v4(20, 2), v4(2, number), 9), zone, false).refused.is_none()
    };
    for number in 0..10 {
        assert!(lives(&mut net, 9, 1, number) && lives(&mut net, 9, 2, number), "nobody else's went");
    }
    let shares = net.tracker.shares();
    let of = |zone: u16, port: u32| {
        *shares.iter().find(|share| (share.tenant.zone, share.tenant.port) == (zone, port)).unwrap()
    };
    assert_eq!((of(1, 3).half_open, of(1, 3).evicted), (20, 980));
    assert_eq!((of(1, 1).connections, of(1, 1).half_open, of(1, 1).evicted), (10, 0, 0));
    // The same among settled ones.
    for number in 0..200 {
        assert!(settled(&mut net, 3, 1, 5000 + number));
    }
    for number in 0..10 {
        assert!(lives(&mut net, 9, 1, number) && lives(&mut net, 9, 2, number), "of settled ones neither");
    }
}

#[test]
fn the_oldest_half_open_connection_makes_room_and_no_other() {
    let mut talk = Talk::with(Settings { connections: 50, half_open: 10, ..Settings::default() }).shake();
    for number in 0..30 {
        assert_eq!(state(talk.net.allow(&tcp(v4(2, number), talk.server, syn(1)))), NEW);
        assert!(talk.net.tracker.half_open() <= 10);
    }
    assert_eq!(talk.net.tracker.counters().of(Event::Evicted), 20);
    assert_eq!(state(talk.says(data(101, 501, 10))), EST, "an established one stays");
    let server = talk.server;
    let answered = |talk: &mut Talk, number| {
        talk.net.pass(&tcp(server, v4(2, number), syn_ack(500, 2))).refused.is_none()
    };
    assert!(!answered(&mut talk, 19), "evicted");
    assert!(answered(&mut talk, 20), "the youngest ten are there");
}

#[test]
fn of_a_full_table_the_one_that_was_idle_for_longest_makes_room() {
    let mut net = Net::new(Settings { connections: 20, ..Settings::default() });
    for number in 0..20 {
        assert!(settled(&mut net, 1, 0, number));
        net.wait(1);
    }
    for round in 0..60 {
        // The first ones stay in use.
        for number in 0..4 {
            assert!(settled(&mut net, 1, 0, number), "round {round}: one in use went");
        }
        net.wait(1);
        assert!(settled(&mut net, 1, 0, 1000 + round), "the newest has room");
    }
    assert_eq!(net.tracker.connections(), 20);
    assert_eq!(net.tracker.counters().of(Event::EvictedSettled), 60);
    assert_eq!(net.tracker.counters().refused(Reason::LimitConnections), 0);
}

#[test]
fn what_is_over_makes_room_before_anything_else_does() {
    let mut net = Net::new(Settings { connections: 1000, half_open: 0, ..Settings::default() });
    for number in 0..990 {
        net.allow(&udp(v4(1, number), v4(20, 2), 9));
    }
    net.wait(20);
    for number in 0..10 {
        assert!(settled(&mut net, 1, 7, number));
    }
    net.wait(11);
    for number in 0..990 {
        assert_eq!(net.allow(&udp(v4(2, number), v4(20, 2), 9)).refused, None);
    }
    assert_eq!(net.tracker.counters().of(Event::Evicted), 0);
    assert_eq!(net.tracker.counters().of(Event::EvictedSettled), 0);
    assert!(net.tracker.counters().of(Event::Expired) >= 980);
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
