//! TCP: numbers, windows, and the ways in which a connection opens and closes.

use super::*;

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
