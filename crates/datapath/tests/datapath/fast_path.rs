//! The fast path makes what the other tiers make.

use crate::rig::{Rig, config, udp};
use std::collections::BTreeMap;
use weir_datapath::{CacheReport, CaptureFilter, WorkerReport};
use weir_flow::samples::Sampler;
use weir_openflow::PortNo;

/// Routes, rules by ports, forwarding by Ethernet address, and a flow that only the other tiers can do.
const FLOWS: &str = "table=0,priority=9,udp,tp_dst=0/0x8000 actions=drop\n\
    table=0,priority=8,tcp,nw_ttl=64 actions=mod_nw_tos:16,output:2\n\
    table=0,priority=7,ip,nw_dst=0.0.0.0/1 actions=dec_ttl,mod_dl_src:02:00:00:00:00:09,\
    mod_dl_dst:02:00:00:00:00:08,load:0->NXM_OF_IN_PORT[],output:2\n\
    table=0,priority=7,ip actions=mod_dl_dst:02:00:00:00:00:07,dec_ttl,output:4\n\
    table=0,priority=5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=output:4\n\
    table=0,priority=0 actions=output:2";

/// Nothing of the packet matters but its port.
const BLIND_FROM_THE_START: &str = "table=0,in_port=1 actions=mod_dl_src:02:00:00:00:00:05,output:4";

/// Other tables, of which the same is so.
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
type Dropped = Vec<(String, u64)>;

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
    let dropped =
        worker.dropped.iter().map(|(reason, packets)| (reason.clone().into_owned(), *packets)).collect();
    ([2, 4].map(|port| end.sent(port)).to_vec(), counts, dropped, worker.caches.shortcut_hits)
}

#[test]
fn both_ways_make_the_same_packets_and_the_same_counts() {
    let frames = frames();
    for flows in [FLOWS, BLIND_FROM_THE_START] {
        let (short, long) = (run(flows, &frames, false), run(flows, &frames, true));
        assert!(short.0 == long.0, "the same packets in the same order");
        assert_eq!((short.1, short.2), (long.1, long.2));
        assert!(short.3 > 12_000, "only {} took the fast path", short.3);
        assert_eq!(long.3, 0);
    }
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

/// Sends packets in by port 1, and says what the caches did with them.
fn send(rig: &mut Rig, frames: &[Vec<u8>]) -> CacheReport {
    let before = rig.datapath.report().unwrap().workers[0].clone();
    rig.datapath.inject_all(PortNo(1), frames.to_vec());
    let all = before.injected + frames.len() as u64;
    let after = rig.wait_until(|report| report.workers[0].injected == all);
    let (new, old) = (&after.workers[0].caches, before.caches);
    CacheReport {
        shortcut_hits: new.shortcut_hits - old.shortcut_hits,
        upcalls: new.upcalls - old.upcalls,
        revalidated: new.revalidated - old.revalidated,
        outlived: new.outlived - old.outlived,
        lapsed: new.lapsed - old.lapsed,
        restarts: new.restarts - old.restarts,
        ..CacheReport::default()
    }
}

/// Hosts whose entries all have a place on the fast path.
const FEW: u32 = 200;

/// Sends packets until the fast path knows all of them.
fn learn(rig: &mut Rig, frames: &[Vec<u8>]) {
    let knows_all = |rig: &mut Rig| send(rig, frames).shortcut_hits == frames.len() as u64;
    assert!((0..20).any(|_| knows_all(rig)), "the fast path does not know all of them");
}

/// Packets that ports 2 and 4 sent.
fn sent_by(rig: &mut Rig) -> (u64, u64) {
    let ports = rig.datapath.report().unwrap().ports;
    let sent = |number: u32| ports.iter().find(|port| port.number == number).map_or(0, |port| port.sent);
    (sent(2), sent(4))
}

#[test]
fn a_change_of_the_tables_touches_the_entries_that_it_concerns_and_no_others() {
    let mut rig = Rig::new(config(1));
    rig.flows(
        &(0..FEW).map(|host| format!("ip,nw_dst=10.0.0.{host} actions=output:2\n")).collect::<String>(),
    );
    [1, 2, 4].into_iter().for_each(|port| rig.sink(port));
    let frames: Vec<_> = (0..FEW).map(|host| udp(0xc612_0001, 0x0a00_0000 + host, (7, 9))).collect();
    learn(&mut rig, &frames);
    let few = u64::from(FEW);
    let kept =
        |sent: CacheReport| (sent.shortcut_hits, sent.outlived, sent.lapsed, sent.upcalls, sent.restarts);
    for other in 0..50 {
        rig.flows(&format!("ip,nw_dst=10.0.9.{other} actions=output:4"));
        assert_eq!(kept(send(&mut rig, &frames)), (few, few, 0, 0, 0), "none is concerned");
        assert_eq!(kept(send(&mut rig, &frames)), (few, 0, 0, 0, 0), "and that is known");
    }
    for other in 0..50 {
        let before = rig.datapath.report().unwrap().workers[0].caches.elsewhere;
        rig.flows(&format!("ip,nw_dst=10.9.0.{other} actions=output:4"));
        assert_eq!(kept(send(&mut rig, &frames)), (few, 0, 0, 0, 0), "a change elsewhere asks nobody");
        let after = rig.datapath.report().unwrap().workers[0].caches.elsewhere;
        assert_eq!(after - before, 1, "and is counted");
    }
    for (change, by) in [
        ("priority=40000,ip,nw_dst=10.0.0.7 actions=output:4", (few - 1, 1)),
        ("delete ip,nw_dst=10.0.0.9", (few - 2, 1)),
        ("modify_strict ip,nw_dst=10.0.0.11 actions=output:4", (few - 3, 2)),
    ] {
        rig.flows(change);
        let before = sent_by(&mut rig);
        let sent = send(&mut rig, &frames);
        assert_eq!(sent.revalidated, 1, "{change}");
        assert_eq!(kept(sent), (few - 1, few - 1, 1, 1, 0), "{change}");
        let after = sent_by(&mut rig);
        assert_eq!((after.0 - before.0, after.1 - before.1), by, "{change}");
        learn(&mut rig, &frames);
    }
    rig.end();
}

/// Tables that change at random: rules with simple actions and others, of two tables, with headers rewritten between.
struct Changing {
    random: Sampler,
    /// The rules that there are, without actions.
    rules: Vec<String>,
    made: u32,
}

impl Changing {
    fn action(&mut self, table: usize) -> &'static str {
        let further = [
            "goto_table:1",
            "mod_nw_dst:10.0.1.5,goto_table:1",
            "mod_dl_dst:02:00:00:00:00:07,dec_ttl,output:4",
        ];
        let last = ["output:2", "drop", "dec_ttl,output:2", "mod_nw_tos:16,output:2", "output:4,output:2"];
        let all = further.len() + last.len();
        let drawn = self.random.below(if table == 0 { all } else { last.len() });
        last.get(drawn).unwrap_or_else(|| &further[drawn - last.len()])
    }

    fn rule(&mut self) -> (usize, String) {
        let random = &mut self.random;
        let table = usize::from(random.one_in(3));
        let matching = match random.below(6) {
            0..3 => {
                let (length, net, host) = (14 + random.below(19), random.below(4), random.below(256));
                format!("ip,nw_dst=10.{}.{host}/{length}", ["0.0", "0.1", "0.2", "9.0"][net])
            }
            3 => format!("udp,tp_dst={}", random.below(4)),
            4 => format!("dl_dst=02:00:00:00:00:0{}", random.below(4)),
            _ => "in_port=1".to_owned(),
        };
        // No two have one priority: which of two that overlap matches is nobody's promise.
        self.made += 1;
        let priority = self.made * 7919 % 65_521;
        (table, format!("table={table},priority={priority},{matching}"))
    }

    /// The next change.
    fn next(&mut self) -> String {
        let known = self.random.below(self.rules.len().max(1));
        match self.random.below(8) {
            0 if self.random.one_in(8) => {
                self.rules.clear();
                "delete".to_owned()
            }
            0..3 if self.rules.len() > 4 => {
                let rule = self.rules.swap_remove(known);
                format!("delete_strict {rule}")
            }
            3 if !self.rules.is_empty() => {
                let table = usize::from(self.rules[known].starts_with("table=1"));
                let action = self.action(table);
                format!("modify_strict {} actions={action}", self.rules[known])
            }
            _ => {
                let (table, rule) = self.rule();
                let action = self.action(table);
                self.rules.push(rule.clone());
                format!("{rule} actions={action}")
            }
        }
    }
}

#[test]
fn while_tables_change_the_fast_path_makes_what_the_other_tiers_make() {
    const ROUNDS: u32 = 150;
    let random = Sampler::new(weir_testkit::seed(11));
    let mut changing = Changing { random, rules: Vec::new(), made: 0 };
    let (mut short, mut long) = (Rig::new(config(1)), Rig::new(config(1)));
    // Whoever watches is shown every packet's key: then all go through the other tiers.
    let filter = CaptureFilter { received: true, snap: 1, ..CaptureFilter::default() };
    let _watching = long.datapath.capture(filter);
    for rig in [&mut short, &mut long] {
        [1, 2, 4].into_iter().for_each(|port| rig.sink(port));
    }
    for round in 0..ROUNDS {
        let changes: Vec<String> = (0..1 + round % 3).map(|_| changing.next()).collect();
        let random = &mut changing.random;
        let frame = |random: &mut Sampler| {
            let net = [0x0a00_0000, 0x0a00_0100, 0x0a00_0200, 0x0a09_0000][random.below(4)];
            udp(0xc612_0001, net + random.below(12) as u32, (7, random.below(4) as u16))
        };
        let few: Vec<_> = (0..12).map(|_| frame(random)).collect();
        let frames: Vec<_> = (0..300).map(|_| few[random.below(few.len())].clone()).collect();
        let mut told = Vec::new();
        for rig in [&mut short, &mut long] {
            rig.flows(&changes.join("\n"));
            send(rig, &frames);
            let counts = rig.datapath.flows().unwrap().into_iter();
            let counts: BTreeMap<_, _> = counts
                .map(|stats| ((stats.flow.table.0, stats.flow.priority), (stats.packets, stats.bytes)))
                .collect();
            told.push((counts, sent_by(rig), rig.datapath.report().unwrap().workers[0].dropped.clone()));
        }
        assert_eq!(told[0], told[1], "round {round}: {changes:#?}");
    }
    let (short, long) = (short.end(), long.end());
    for port in [2, 4] {
        assert!(short.sent(port) == long.sent(port), "the same packets in the same order by port {port}");
    }
    let caches = |worker: &WorkerReport| worker.caches.clone();
    let (fast, none) = (caches(&short.report.workers[0]), caches(&long.report.workers[0]));
    assert!(fast.shortcut_hits > 1_000 && none.shortcut_hits == 0, "{fast:?}");
    // How many depends on what was drawn.
    assert!(fast.outlived > 0 && fast.lapsed > 0 && fast.elsewhere > 0, "{fast:?}");
}
