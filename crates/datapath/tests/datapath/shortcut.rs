//! The short way makes what the long way makes.

use crate::rig::{Rig, config};
use weir_datapath::CaptureFilter;
use weir_flow::samples::Sampler;

/// Routes, rules by ports, forwarding by Ethernet address, and a flow that only the long way can do.
const FLOWS: &str = "table=0,priority=9,udp,tp_dst=0/0x8000 actions=drop\n\
    table=0,priority=8,tcp,nw_ttl=64 actions=mod_nw_tos:16,output:2\n\
    table=0,priority=7,ip,nw_dst=0.0.0.0/1 actions=dec_ttl,mod_dl_src:02:00:00:00:00:09,\
    mod_dl_dst:02:00:00:00:00:08,load:0->NXM_OF_IN_PORT[],output:2\n\
    table=0,priority=7,ip actions=mod_dl_dst:02:00:00:00:00:07,dec_ttl,output:4\n\
    table=0,priority=5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=output:4\n\
    table=0,priority=0 actions=output:2";

/// Other tables: nothing of the packet matters but its port.
const BLIND: &str = "delete table=0\ntable=0,in_port=3 actions=mod_dl_src:02:00:00:00:00:05,output:4";

/// Some hundred random packets again and again: of every kind, some of them mangled, and of each a twin
/// whose time to live ends here.
fn frames() -> Vec<Vec<u8>> {
    let mut sampler = Sampler::new(5);
    let mut few = Vec::new();
    while few.len() < 400 {
        let mut frame = if few.len() % 4 == 0 { sampler.mangled() } else { sampler.frame() };
        frame.truncate(1400);
        few.push(frame.clone());
        if frame.len() > 22 && frame[12..14] == [8, 0] {
            frame[22] = 1;
            few.push(frame);
        }
    }
    (0..12_000).map(|_| few[sampler.below(few.len())].clone()).collect()
}

/// Frames that left, by port.
type Sent = Vec<Vec<Vec<u8>>>;

/// Packets dropped, by reason.
type Dropped = Vec<(&'static str, u64)>;

/// What left, what each flow counted, what was dropped, and how many took the short way.
fn run(frames: &[Vec<u8>], watched: bool) -> (Sent, Vec<(u64, u64)>, Dropped, u64) {
    let mut rig = Rig::new(config(1));
    // Whoever watches is shown every packet's key: then all go the long way.
    let filter = CaptureFilter { received: true, snap: 1, ..CaptureFilter::default() };
    let _watching = watched.then(|| rig.datapath.capture(filter));
    let mut counts = Vec::new();
    rig.flows(FLOWS);
    [2, 4].into_iter().for_each(|port| rig.sink(port));
    for (port, flows) in [(1, None), (3, Some(BLIND))] {
        flows.into_iter().for_each(|flows| rig.flows(flows));
        rig.source(port, frames, "");
        rig.wait(frames.len() as u64 * u64::from(port.div_ceil(2)));
        counts.extend(rig.datapath.flows().unwrap().iter().map(|stats| (stats.packets, stats.bytes)));
    }
    let end = rig.end();
    let worker = &end.report.workers[0];
    let dropped = worker.dropped.iter().map(|(reason, packets)| (*reason, *packets)).collect();
    ([2, 4].map(|port| end.sent(port)).to_vec(), counts, dropped, worker.caches.shortcut_hits)
}

#[test]
fn both_ways_make_the_same_packets_and_the_same_counts() {
    let frames = frames();
    let (short, long) = (run(&frames, false), run(&frames, true));
    assert!(short.0 == long.0, "the same packets in the same order");
    assert_eq!((short.1, short.2), (long.1, long.2));
    assert!(short.3 > 12_000, "only {} took the short way", short.3);
    assert_eq!(long.3, 0);
}
