//! `NORMAL` through a whole datapath: what it learns, for how long, and what megaflows make of it.

use crate::rig::{Rig, config, patiently, udp};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use weir_datapath::{CaptureFilter, Captured, LearningConfig, PacketOut, PortFlags};
use weir_flow::Match;
use weir_openflow::{Action, PortNo};
use weir_testkit::Dice;

/// A switch that learns, and what leaves it.
struct Learner {
    rig: Rig,
    sent: Receiver<Captured>,
}

fn station(number: u64) -> [u8; 6] {
    let [.., a, b, c] = number.to_be_bytes();
    [0x02, 0, 0, a, b, c]
}

/// A packet from a station to another, in a VLAN if that is not 0.
fn frame(from: u64, to: u64, vlan: u16) -> Vec<u8> {
    let mut frame = udp(0x0a00_0001, 0x0a00_0002, (1, 2));
    frame[..6].copy_from_slice(&station(to));
    frame[6..12].copy_from_slice(&station(from));
    if vlan != 0 {
        let tci = vlan.to_be_bytes();
        frame.splice(12..12, [0x81, 0x00, tci[0], tci[1]]);
    }
    frame
}

impl Learner {
    fn new(workers: usize, flows: &str) -> Self {
        let mut rig = Rig::new(config(workers));
        rig.flows(flows);
        (1..=4).for_each(|number| rig.port(number, "null"));
        let sent = rig.datapath.capture(CaptureFilter { sent: true, ..CaptureFilter::default() });
        Self { rig, sent }
    }

    /// The ports that a packet leaves by, in their order.
    fn ports(&mut self, in_port: u32, frame: Vec<u8>) -> Vec<u32> {
        self.rig.datapath.inject(PortNo(in_port), frame);
        self.left()
    }

    fn left(&mut self) -> Vec<u32> {
        patiently(|| self.rig.datapath.report());
        let mut ports: Vec<u32> = self.sent.try_iter().map(|packet| packet.port.0).collect();
        ports.sort_unstable();
        ports
    }

    fn learn(&mut self) {
        while patiently(|| self.rig.datapath.learn()) > 0 {}
    }

    fn known(&mut self) -> BTreeMap<(u16, [u8; 6]), u32> {
        let all = patiently(|| self.rig.datapath.learned());
        all.into_iter().map(|one| ((one.vlan, one.address), one.port.0)).collect()
    }

    /// Waits until this is so while what is due is done, for ten seconds at most.
    fn wait(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", self.known());
            patiently(|| self.rig.datapath.tick());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A learning switch in some lines.
#[derive(Default)]
struct Model {
    known: BTreeMap<(u16, u64), u32>,
    quiet: [bool; 5],
}

impl Model {
    fn ports(&mut self, in_port: u32, (from, to, vlan): (u64, u64, u16)) -> Vec<u32> {
        self.known.insert((vlan, from), in_port);
        match self.known.get(&(vlan, to)) {
            Some(port) => vec![*port].into_iter().filter(|port| *port != in_port).collect(),
            None => (1..=4).filter(|port| *port != in_port && !self.quiet[*port as usize]).collect(),
        }
    }
}

#[test]
fn packets_go_where_a_model_of_a_learning_switch_sends_them() {
    let mut dice = Dice::new(weir_testkit::seed(0x1ea2));
    let (mut learner, mut model) = (Learner::new(1, "actions=NORMAL"), Model::default());
    for step in 0..4000 {
        let (from, to) = (dice.below(12), dice.below(12));
        let vlan = [0, 0, 5, 6][dice.below(4) as usize];
        // Stations mostly stay where they are.
        let in_port = if dice.one_in(10) { 1 + dice.below(4) } else { 1 + from % 4 } as u32;
        let expected = model.ports(in_port, (from, to, vlan));
        assert_eq!(learner.ports(in_port, frame(from, to, vlan)), expected, "step {step}: {from} to {to}");
        learner.learn();
        match dice.below(400) {
            0 => {
                let port = 1 + dice.below(4) as u32;
                let count = patiently(|| learner.rig.datapath.forget_learned(None, Some(PortNo(port))));
                let before = model.known.len();
                model.known.retain(|_, at| *at != port);
                assert_eq!(count, before - model.known.len());
            }
            1 => {
                patiently(|| learner.rig.datapath.forget_learned(Some(vlan), None));
                model.known.retain(|(of, _), _| *of != vlan);
            }
            2 => {
                let port = 1 + dice.below(4) as u32;
                let no_flood = dice.one_in(2);
                let flags = PortFlags { no_flood, ..PortFlags::default() };
                patiently(|| learner.rig.datapath.configure_port(PortNo(port), flags));
                model.quiet[port as usize] = no_flood;
            }
            _ => {}
        }
    }
    let expected: BTreeMap<_, _> =
        model.known.iter().map(|((vlan, number), port)| ((*vlan, station(*number)), *port)).collect();
    assert_eq!(learner.known(), expected);
    let report = learner.rig.end().report;
    let caches = &report.workers[0].caches;
    assert!(caches.shortcut_hits + caches.exact_hits > 200, "megaflows do it: {caches:?}");
}

#[test]
fn an_address_is_known_as_long_as_its_packets_come_whichever_tier_takes_them() {
    let mut learner = Learner::new(1, "actions=NORMAL");
    let ageing = Duration::from_millis(400);
    patiently(|| learner.rig.datapath.set_learning(LearningConfig { ageing, ..LearningConfig::default() }));
    learner.ports(1, frame(1, 9, 0));
    learner.ports(2, frame(2, 9, 0));
    learner.learn();
    assert_eq!(learner.known().len(), 2);
    let begin = Instant::now();
    // Of the first, packets come all the time, and the fast path has them; of the second none.
    learner.wait(|learner| {
        learner.rig.datapath.inject(PortNo(1), frame(1, 9, 0));
        begin.elapsed() > Duration::from_millis(1000) && learner.known().len() == 1
    });
    assert_eq!(learner.known().into_values().collect::<Vec<_>>(), [1]);
    learner.left();
    assert_eq!(learner.ports(3, frame(3, 1, 0)), [1]);
    assert_eq!(learner.ports(3, frame(3, 2, 0)), [1, 2, 4], "it is flooded to again");
    learner.wait(|learner| learner.known().is_empty());
    let (_, counts) = learner.rig.datapath.learning();
    assert_eq!((counts.learned, counts.expired), (3, 3));
    assert_eq!(learner.ports(4, frame(4, 1, 0)), [1, 2, 3]);
    learner.rig.end();
}

#[test]
fn a_port_that_makes_up_addresses_neither_pushes_out_others_nor_stops_the_switch() {
    let mut learner = Learner::new(1, "actions=NORMAL");
    patiently(|| learner.rig.datapath.set_learning(LearningConfig { most: 50, ..LearningConfig::default() }));
    for number in 0..20 {
        learner.ports(1, frame(number, 999, 0));
    }
    learner.learn();
    for round in 0..20 {
        let frames = (0..500).map(|number| frame(10_000 + round * 500 + number, 999, 0)).collect();
        learner.rig.datapath.inject_all(PortNo(2), frames);
        learner.left();
        learner.learn();
    }
    let known = learner.known();
    let of_port = |port: u32| known.values().filter(|at| **at == port).count();
    assert_eq!((of_port(1), of_port(2)), (20, 30));
    assert_eq!(learner.ports(3, frame(30, 7, 0)), [1]);
    let (_, counts) = learner.rig.datapath.learning();
    assert!(counts.evicted > 1000, "{counts:?}");
    learner.rig.end();
}

#[test]
fn a_port_that_closes_takes_its_addresses_with_it() {
    let mut learner = Learner::new(1, "actions=NORMAL");
    learner.ports(1, frame(1, 9, 0));
    learner.ports(2, frame(2, 9, 0));
    learner.learn();
    assert_eq!(learner.ports(3, frame(3, 1, 0)), [1]);
    patiently(|| learner.rig.datapath.remove_port(PortNo(1)));
    assert_eq!(learner.ports(3, frame(3, 1, 0)), [2, 4]);
    learner.learn();
    assert_eq!(learner.known().into_values().collect::<Vec<_>>(), [2, 3]);
    learner.rig.end();
}

#[test]
fn a_packet_out_is_forwarded_by_what_was_learned_and_learned_from_where_it_names_a_port() {
    let mut learner = Learner::new(1, "actions=drop");
    let send = |learner: &mut Learner, in_port: PortNo, frame: Vec<u8>| {
        let actions = vec![Action::Output(PortNo::NORMAL)];
        let packet = PacketOut { in_port, fields: Match::any(), actions, frame };
        learner.rig.datapath.packet_out(packet).unwrap();
        let left = learner.left();
        learner.learn();
        left
    };
    assert_eq!(send(&mut learner, PortNo(1), frame(1, 2, 0)), [2, 3, 4]);
    assert_eq!(send(&mut learner, PortNo::CONTROLLER, frame(7, 1, 0)), [1]);
    assert_eq!(send(&mut learner, PortNo::CONTROLLER, frame(7, 3, 0)), [1, 2, 3, 4]);
    assert_eq!(learner.known().len(), 1, "a controller is behind no port");
    learner.rig.end();
}

#[test]
fn workers_share_what_each_of_them_learns() {
    let mut rig = Rig::new(config(2));
    rig.flows("actions=NORMAL");
    let frames = |from: u64, to: u64| -> Vec<Vec<u8>> {
        (0..64).map(|number| frame(from + number, to + number, 0)).collect()
    };
    rig.source(1, &frames(20, 120), ",loop,rate=20kpps");
    rig.source(2, &frames(120, 20), ",loop,rate=20kpps");
    rig.sink(3);
    let begin = Instant::now();
    while rig.datapath.learned().unwrap().len() < 128 {
        rig.datapath.tick().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
    let learned = rig.datapath.learned().unwrap();
    let right = |address: [u8; 6], port: u32| (address[5] >= 120) == (port == 2);
    assert!(learned.iter().all(|one| right(one.address, one.port.0)), "{learned:?}");
    // What was under way when the last was learned is gone; from here on nothing is flooded.
    let sent = |rig: &mut Rig| rig.wait(0).ports.iter().map(|port| port.sent).collect::<Vec<_>>();
    let before = sent(&mut rig);
    rig.wait_until(|report| {
        report.ports[0].sent > before[0] + 1000 && report.ports[1].sent > before[1] + 1000
    });
    assert_eq!(sent(&mut rig)[2], before[2], "a port where nobody is");
    rig.end();
}

#[test]
fn a_change_is_met_that_only_a_copy_or_another_port_would_meet() {
    let flows = |first: &str, second: &str| {
        format!(
            "table=0,actions=clone(set_field:02:00:00:00:00:03->eth_src,resubmit(,1)),resubmit(2,2)\n\
             table=1,priority=5,dl_src=02:00:00:00:00:03 actions={first}\n\
             table=1,dl_src=02:00:00:00:00:01 actions=drop\n\
             table=2,priority=5,in_port=2 actions={second}\n\
             table=2,in_port=1 actions=drop"
        )
    };
    let mut learner = Learner::new(1, &flows("output:2", "output:3"));
    for (first, second, expected) in [
        ("output:2", "output:3", vec![2, 3]),
        ("output:4", "output:3", vec![3, 4]),
        ("output:4", "drop", vec![4]),
        ("drop", "output:2", vec![2]),
    ] {
        learner.rig.flows(&flows(first, second));
        for _ in 0..4 {
            assert_eq!(learner.ports(1, frame(1, 9, 0)), expected, "{first}, {second}");
        }
    }
    learner.rig.end();
}
