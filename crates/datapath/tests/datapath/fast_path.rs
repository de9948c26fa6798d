//! The fast path makes what the other tiers make.

use crate::rig::{Rig, config, udp};
use weir_datapath::CaptureFilter;
use weir_flow::samples::Sampler;

/// Routes, rules by ports, forwarding by Ethernet address, and a flow that only the other tiers can do.
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

/// Hosts, each with a route of its own: more than the fast path has entries in what it takes for near.
const HOSTS: u32 = 24_000;

/// Routes to all of them, every third by way of another port or nowhere.
fn routes() -> String {
    let route = |host: u32| {
        let done = ["dec_ttl,output:2", "mod_dl_src:02:00:00:00:00:06,output:4", "drop"][host as usize % 3];
        format!("ip,nw_dst=10.{}.{}.{} actions={done}\n", host >> 16, host >> 8 & 255, host & 255)
    };
    (0..HOSTS).map(route).collect()
}

/// What left, what each flow counted, what was dropped, and how many took the fast path.
fn run(flows: &str, frames: &[Vec<u8>], watched: bool) -> (Sent, Vec<(u64, u64)>, Dropped, u64) {
    let mut rig = Rig::new(config(1));
    // Whoever watches is shown every packet's key: then all go through the other tiers.
    let filter = CaptureFilter { received: true, snap: 1, ..CaptureFilter::default() };
    let _watching = watched.then(|| rig.datapath.capture(filter));
    let mut counts = Vec::new();
    rig.flows(flows);
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
    let (short, long) = (run(FLOWS, &frames, false), run(FLOWS, &frames, true));
    assert!(short.0 == long.0, "the same packets in the same order");
    assert_eq!((short.1, short.2), (long.1, long.2));
    assert!(short.3 > 12_000, "only {} took the fast path", short.3);
    assert_eq!(long.3, 0);
}

#[test]
fn they_do_so_with_more_flows_than_the_processor_has_at_hand() {
    let flows = routes();
    // Often enough to be learnt, and then to go the fast path.
    let frames: Vec<Vec<u8>> =
        (0..6).flat_map(|_| 0..HOSTS).map(|host| udp(0xc612_0001, 0x0a00_0000 + host, (7, 9))).collect();
    let (short, long) = (run(&flows, &frames, false), run(&flows, &frames, true));
    assert!(short.0 == long.0, "the same packets in the same order");
    assert_eq!((short.1, short.2), (long.1, long.2));
    assert!(short.3 > u64::from(HOSTS), "only {} took the fast path", short.3);
    assert_eq!(long.3, 0);
}
