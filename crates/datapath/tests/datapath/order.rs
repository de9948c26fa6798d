//! Packets of a burst leave a port in the order they came, whatever becomes of each.

use crate::rig::{Rig, config, service, udp};
use serde_json::json;

/// Packets that a trace port hands over at a time.
const BURST: usize = 32;

fn numbered(mut frame: Vec<u8>, number: usize) -> Vec<u8> {
    let at = frame.len() - 4;
    frame[at..].copy_from_slice(&(number as u32).to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap()) as usize
}

/// What left by a port, by number.
fn left(end: &crate::rig::End, port: u32) -> Vec<usize> {
    end.sent(port).iter().map(|frame| number(frame)).collect()
}

/// The first packet of a flow goes by the tables directly, and simply leaves; the second finds a megaflow that was
/// made for a packet without the rest of its header, whose copy leaves before it is looked up again.
#[test]
fn one_flow_keeps_its_order_where_only_some_of_its_packets_are_copied() {
    let mut rig = Rig::new(config(1));
    rig.flows("ip actions=output:2,mod_nw_src:10.0.0.9");
    rig.sink(2);
    let cut = &udp(0xc612_0001, 0xc613_0001, (1000, 80))[..24];
    let mut frames: Vec<Vec<u8>> = (0..BURST).map(|at| numbered(cut.to_vec(), at)).collect();
    for flow in 0..10 {
        let whole = udp(0xc612_0002 + flow, 0xc613_0001, (1000, 80));
        frames.extend((0..3).map(|_| whole.clone()));
    }
    let frames: Vec<Vec<u8>> =
        frames.into_iter().enumerate().map(|(at, frame)| numbered(frame, at)).collect();
    rig.source(1, &frames, "");
    let report = rig.wait(frames.len() as u64);
    let worker = &report.workers[0];
    let end = rig.end();
    assert!(worker.caches.direct > 0 && worker.copied > 0, "both ways were taken: {worker:#?}");
    assert_eq!(left(&end, 2), (0..frames.len()).collect::<Vec<_>>());
}

/// One flow simply leaves, one leaves as a copy, and one as a copy that has to be looked up again.
#[test]
fn flows_of_a_burst_do_not_overtake_one_another_by_their_copies() {
    let mut config = config(1);
    config.services.insert("noop".to_owned(), service("noop", json!({})));
    let mut rig = Rig::new(config);
    rig.flows(
        "udp,tp_src=1000 actions=output:2\nudp,tp_src=1001 actions=output:2,output:3\n\
         udp,tp_src=1002 actions=clone(softflow:noop:0),output:3\nsf_stage=1 actions=output:2",
    );
    (2..4).for_each(|port| rig.sink(port));
    let flow = |at: usize| (at * at / 3 % 3) as u16;
    let frames: Vec<Vec<u8>> = (0..50 * BURST)
        .map(|at| numbered(udp(0xc612_0001, 0xc613_0001, (1000 + flow(at), 80)), at))
        .collect();
    rig.source(1, &frames, "");
    rig.wait(frames.len() as u64);
    let end = rig.end();
    assert_eq!(left(&end, 2), (0..frames.len()).collect::<Vec<_>>());
    let copied: Vec<usize> = (0..frames.len()).filter(|&at| flow(at) > 0).collect();
    assert_eq!(left(&end, 3), copied);
}

/// More copies than are kept: what is there leaves, and no packet is lost.
#[test]
fn more_copies_than_are_kept_at_a_time_all_leave() {
    let mut rig = Rig::new(config(1));
    let outputs = vec!["output:2"; 100].join(",");
    rig.flows(&format!("actions={outputs}"));
    rig.sink(2);
    let frames: Vec<Vec<u8>> =
        (0..3 * BURST).map(|at| numbered(udp(0xc612_0001, 0xc613_0001, (1000, 80)), at)).collect();
    rig.source(1, &frames, "");
    rig.wait(frames.len() as u64);
    let end = rig.end();
    let mut all: Vec<usize> = (0..frames.len()).flat_map(|at| [at; 100]).collect();
    let mut sent = left(&end, 2);
    assert_eq!(sent.len(), all.len());
    sent.sort_unstable();
    all.sort_unstable();
    assert_eq!(sent, all);
}

/// Packets that meet a service before another wait for nobody where each goes back to the caches between the two; those that
/// meet the other at once are met no earlier than they came.
#[test]
fn a_service_meets_a_bursts_packets_in_order_also_behind_another_service() {
    for coalescing in [true, false] {
        let mut config = config(1);
        config.coalescing = coalescing;
        config.services.insert("first".to_owned(), service("noop", json!({})));
        config.services.insert("even".to_owned(), service("balancer", json!({ "buckets": 2 })));
        let mut rig = Rig::new(config);
        rig.flows(
            "priority=9,sf_action=even,sf_metadata=0 actions=output:2\npriority=8,sf_action=even actions=output:3\n\
             priority=7,sf_action=first actions=softflow:even:0\npriority=5,udp,tp_dst=80 actions=softflow:first:0\n\
             priority=5,udp,tp_dst=81 actions=softflow:even:0",
        );
        (2..4).for_each(|port| rig.sink(port));
        // Of connections of one packet each and of one size, every other goes to either bucket.
        let frames: Vec<Vec<u8>> = (0..20 * BURST)
            .map(|at| numbered(udp(0xc612_0001 + at as u32, 0xc613_0001, (1000, 80 + (at % 2) as u16)), at))
            .collect();
        rig.source(1, &frames, "");
        rig.wait(frames.len() as u64);
        let end = rig.end();
        let each = |rest| (0..frames.len()).filter(|at| at % 2 == rest).collect::<Vec<_>>();
        assert_eq!([left(&end, 2), left(&end, 3)], [each(0), each(1)], "coalescing {coalescing}");
    }
}
