//! Experiments change what a packet costs, and never what becomes of it.

use crate::rig::{Rig, config, udp};
use weir_datapath::{Config, WorkerReport};

/// Packets of so many flows, 40 times each; each flow has a number in its IPv4 identification.
fn packets(flows: u32) -> Vec<Vec<u8>> {
    let numbered = |at: u32| {
        let mut frame = udp(0xc612_0000 + at % flows, 0xc613_0001, (1000, 80));
        let number = 1 + (at % flows) as u16;
        let sum = u16::from_be_bytes([frame[24], frame[25]]);
        let old = u16::from_be_bytes([frame[18], frame[19]]);
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        frame[24..26].copy_from_slice(&weir_wire::checksum::update_u16(sum, old, number).to_be_bytes());
        frame
    };
    (0..flows * 40).map(numbered).collect()
}

const FLOWS: &str = "table=0,sf_stage=0,ip actions=softflow:counter:1\n\
                     sf_stage=1,priority=40000,udp,nw_src=198.18.0.1 actions=drop\n\
                     sf_stage=1,priority=39000,udp,nw_src=198.18.0.0/28 actions=mod_tp_dst:99,output:2\n\
                     sf_stage=1,priority=1 actions=output:2";

fn run(experiment: &str, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, WorkerReport) {
    let experiment = if experiment.is_empty() { Default::default() } else { experiment.parse().unwrap() };
    let mut rig = Rig::new(Config { experiment, ..config(1) });
    rig.flows(FLOWS);
    rig.sink(2);
    rig.source(1, frames, ",rate=200kpps");
    rig.wait(frames.len() as u64);
    let end = rig.end();
    (end.sent(2), end.report.workers[0].clone())
}

#[test]
fn each_does_what_it_says_and_changes_no_packet() {
    let frames = packets(50);
    let all = frames.len() as u64;
    let (expected, usual) = run("", &frames);
    assert_eq!(expected.len(), frames.len() - 40);
    assert!(usual.caches.exact_hits > all / 2 && usual.caches.coalesced > all / 2, "{usual:?}");
    let with = |experiment: &str| {
        let (sent, worker) = run(experiment, &frames);
        assert_eq!(sent, expected, "{experiment}");
        worker
    };
    let caches = with("exact=off").caches;
    assert!(caches.exact_hits == 0 && caches.megaflow_hits > all / 2, "{caches:?}");
    assert_eq!(with("fast-path=off").caches.shortcut_hits, 0);
    let caches = with("misses=25%").caches;
    assert!(caches.upcalls >= all / 4 && caches.upcalls < all / 2, "{caches:?}");
    assert!(with("misses=100%").caches.upcalls >= all);
    let half = with("coalesced=50%").caches;
    assert!(half.coalesced < usual.caches.coalesced * 6 / 10, "{half:?}");
    assert_eq!(with("coalesced=0%").caches.coalesced, 0);
    let hints = with("hints=ip-id").hints;
    assert_eq!(hints.hits + hints.missed + hints.stale + hints.wrong, all, "{hints:?}");
    assert!(hints.hits > all / 2 && hints.written >= 50 && hints.emulated_cycles == 0, "{hints:?}");
    let part = with("hints=ip-id,offloaded=25%,exact=off").hints;
    assert!(part.hits <= all / 4 && part.hits > all / 10, "{part:?}");
}
