//! Hints on and off: the same packets, in the same order, whatever the table is like.

use crate::rig::{Rig, config, udp};
use weir_datapath::{Config, HintReport};

/// Packets of so many flows, 40 times each.
fn packets(flows: u32) -> Vec<Vec<u8>> {
    (0..flows * 40).map(|at| udp(0xc612_0000 + at % flows, 0xc613_0001, (1000, 80))).collect()
}

const FLOWS: &str = "table=0,ip,nw_src=198.18.0.0/28 actions=goto_table:1\n\
                     table=0,priority=0 actions=dec_ttl,output:2\n\
                     table=1 actions=softflow:counter:1\n\
                     sf_stage=1,priority=40000,udp,nw_src=198.18.0.1 actions=drop\n\
                     sf_stage=1,priority=39000,udp actions=mod_tp_dst:99,output:2";

fn run(tcam: Option<&str>, coalescing: bool, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, HintReport) {
    let tcam = tcam.map(|text| text.parse().unwrap());
    let mut rig = Rig::new(Config { tcam, coalescing, ..config(1) });
    rig.flows(FLOWS);
    rig.sink(2);
    rig.source(1, frames, ",rate=100kpps");
    // Megaflows are made anew under the table.
    rig.wait(frames.len() as u64 / 2);
    rig.flows("table=0,priority=9,ip,nw_src=198.18.0.3 actions=goto_table:1");
    rig.wait(frames.len() as u64);
    let end = rig.end();
    (end.sent(2), end.report.workers[0].hints.clone())
}

#[test]
fn hints_change_no_packet_coalesced_or_not_in_tables_large_small_and_slow() {
    let frames = packets(50);
    let (expected, none) = run(None, true, &frames);
    assert_eq!((expected.len(), none), (frames.len() - 40, HintReport::default()));
    for tcam in ["64,latency=0us", "1,latency=0us", "2,latency=10us,evict=lowest-rate", "64,latency=1ms"] {
        for coalescing in [true, false] {
            let (sent, hints) = run(Some(tcam), coalescing, &frames);
            assert_eq!(sent, expected, "{tcam}");
            // Packets are hinted once each, however many stages they go through.
            assert_eq!(hints.hits + hints.missed + hints.stale + hints.wrong, frames.len() as u64);
            assert!(hints.written > 0 && hints.emulated_cycles > 0, "{hints:?}");
            // Flows that come in turn may each have left a small table before they come again.
            assert!(hints.hits > 0 || tcam != "64,latency=0us", "{hints:?}");
            // Two ports have a table each.
            assert!(hints.entries <= hints.places && (hints.full > 0 || hints.places > 4), "{hints:?}");
        }
    }
}

#[test]
fn workers_and_services_that_own_flows_take_hints_too() {
    let mut rig = Rig::new(Config { tcam: Some("16,latency=0us".parse().unwrap()), ..config(2) });
    rig.flows("sf_stage=0,ip actions=softflow:conntrack:1\nsf_stage=1 actions=output:2");
    rig.sink(2);
    let frames = packets(20);
    rig.source(1, &frames, "");
    rig.wait(frames.len() as u64);
    let end = rig.end();
    assert_eq!(end.sent(2).len(), frames.len());
    let hits: u64 = end.report.workers.iter().map(|worker| worker.hints.hits).sum();
    assert!(hits > 0, "{:?}", end.report.workers);
}
