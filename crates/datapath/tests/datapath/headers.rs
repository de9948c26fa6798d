//! Packets whose headers are less than they seem, or more: what is made for one holds for no other.

use crate::rig::{Rig, config, udp};
use weir_flow::{Field, Key, compose};
use weir_openflow::PortNo;

/// Sends frames in by port 1, again and again, one a burst, and returns how often each of these ports was the
/// way out. Once in this order and once in the other, so that megaflows are made for each of them.
fn ways_out<const N: usize>(flows: &str, frames: [&[u8]; N]) -> [[usize; N]; 2] {
    let orders: [Vec<usize>; 2] = [(0..N).collect(), (0..N).rev().collect()];
    orders.map(|order| {
        let mut rig = Rig::new(config(1));
        rig.flows(flows);
        rig.port(1, "null");
        (2..=3).for_each(|port| rig.sink(port));
        let mut rounds = 0;
        for at in order.iter().cycle().take(N * 8) {
            rounds += 1;
            rig.datapath.inject_all(PortNo(1), vec![marked(frames[*at], *at)]);
        }
        let end = rig.end();
        let sent = [2, 3].map(|port| end.sent(port));
        assert_eq!(sent[0].len() + sent[1].len(), rounds, "{:?}", end.report);
        let by_third = |at: usize| sent[1].iter().filter(|frame| frame[11] == at as u8).count();
        std::array::from_fn(|at| if by_third(at) == 8 { 3 } else { 2 + 100 * by_third(at) })
    })
}

/// A frame with a number in its source address.
fn marked(frame: &[u8], number: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[11] = number as u8;
    frame
}

#[test]
fn a_packet_too_short_for_its_ports_does_not_decide_for_one_whose_ports_are_zero() {
    let flows = "table=0,sf_stage=0,udp actions=mod_tp_dst:80,softflow:noop\n\
                 table=0,sf_stage=1,udp,tp_dst=80 actions=output:2\n\
                 table=0,priority=0 actions=output:3";
    let whole = udp(0x0a00_0001, 0x0a00_0002, (0, 0));
    let mut cut = whole.clone();
    cut[17] = 20 + 7;
    assert_eq!(ways_out(flows, [&whole, &cut]), [[2, 3]; 2]);
}

#[test]
fn what_a_popped_label_shows_is_asked_of_each_packet_behind_a_service() {
    let flows = "table=0,sf_stage=0,mpls actions=pop_mpls:0x0800,softflow:noop\n\
                 table=0,sf_stage=1,udp,nw_dst=10.0.0.2 actions=output:2\n\
                 table=0,priority=0 actions=output:3";
    let labelled = |destination: u32| {
        let mut frame = udp(0x0a00_0001, destination, (1, 2));
        frame.splice(12..14, [0x88, 0x47, 0, 1, 0x01, 64]);
        frame
    };
    assert_eq!(ways_out(flows, [&labelled(0x0a00_0002), &labelled(0x0a00_0003)]), [[2, 3]; 2]);
}

#[test]
fn a_message_that_becomes_one_of_neighbour_discovery_is_asked_for_its_target() {
    let flows = "table=0,sf_stage=0,icmp6 actions=set_field:135->icmpv6_type,softflow:noop\n\
                 table=0,sf_stage=1,icmp6,icmp_type=135,icmp_code=0,nd_target=0707:0707:0707:0707:0707:0707:0707:0707 actions=output:2\n\
                 table=0,priority=0 actions=output:3";
    let message = |payload: u8| {
        let mut key = Key::new();
        for (field, value) in [(Field::EthType, 0x86dd), (Field::NwProto, 58), (Field::Icmpv6Type, 1)] {
            field.set(&mut key, value);
        }
        compose(&key, &[payload; 40])
    };
    assert_eq!(ways_out(flows, [&message(7), &message(8)]), [[2, 3]; 2]);
}
