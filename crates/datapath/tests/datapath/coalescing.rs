//! Coalescing is an optimisation: packets, reasons and counters are the same without it.
//!
//! Random tables with services, random conversations and noise go through two datapaths that differ in
//! nothing else. Order is promised to packets that are not copies: they leave a port in the order they came
//! in.
//!
//! `WEIR_ROUNDS` says how many tables are tried, `WEIR_SEED` which; without, enough to see most mistakes.

use crate::random::{Draw, Incoming, conversation, keys, mangled, twins};
use crate::rig::{check_sum, config, patiently, service};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use weir_datapath::{
    CaptureFilter, Captured, Change, Config, Datapath, Event, PortSpec, Report, ServiceConfig,
};
use weir_dpdk::{Eal, EalConfig, Memory};
use weir_flow::Key;
use weir_flow::samples::Sampler;
use weir_openflow::{FlowMod, PortNo, Select};
use weir_testkit::asked;

/// Services whose word on a packet depends on nothing but the packet, or its connection.
const ANYWHERE: [&str; 4] = ["noop", "tally", "coder", "sticky"];

/// All of them, and those for rounds in which packets of the two sides may come in another order (copies) or end elsewhere
/// (malformed headers): a balancer by load remembers what each bucket took in the rounds before.
const ALL: [&str; 8] = ["noop", "tally", "coder", "sticky", "even", "block", "tracker", "tracker"];
const UNORDERED: [&str; 7] = ["noop", "tally", "coder", "sticky", "block", "tracker", "tracker"];

fn services() -> BTreeMap<String, ServiceConfig> {
    let backends = json!([{"name": "a"}, {"name": "b"}, {"name": "c", "weight": 3}]);
    // Nothing depends on the time it takes.
    let timeouts = json!({
        "tcp_syn_sent": 9999, "tcp_syn_received": 9999, "tcp_established": 9999, "tcp_unacknowledged": 9999,
        "tcp_fin_wait": 9999, "tcp_close_wait": 9999, "tcp_last_ack": 9999, "tcp_time_wait": 9999,
        "tcp_closed": 9999, "udp_single": 9999, "udp_multiple": 9999, "icmp": 9999, "other": 9999,
        "fragment": 9999
    });
    let of = [
        ("tally", "counter", json!({})),
        ("coder", "transcoder", json!({"key": "000102030405060708090a0b0c0d0e0f"})),
        ("sticky", "balancer", json!({"mode": "consistent", "table": 1009, "backends": backends})),
        ("even", "balancer", json!({"buckets": 4, "connections": 1024})),
        ("block", "memory", json!({"block": 4096, "reads": 2})),
        ("tracker", "conntrack", json!({"connections": 4096, "timeouts": timeouts})),
    ];
    of.map(|(name, kind, settings)| (name.to_owned(), service(kind, settings))).into()
}

/// One of the two, watched.
struct Side {
    datapath: Datapath,
    sent: Receiver<Captured>,
    before: Counted,
}

/// What a worker counted.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    copied: u64,
    sent: u64,
    to_controller: u64,
    dropped: BTreeMap<Cow<'static, str>, u64>,
}

impl Counted {
    fn of(report: &Report) -> Self {
        let worker = &report.workers[0];
        let dropped = worker.dropped.clone();
        Self { copied: worker.copied, sent: worker.sent, to_controller: worker.to_controller, dropped }
    }

    fn since(&self, before: &Self) -> Self {
        let earlier = |reason: &str| before.dropped.get(reason).copied().unwrap_or(0);
        let dropped = self.dropped.iter().map(|(reason, count)| (reason.clone(), count - earlier(reason)));
        Self {
            copied: self.copied - before.copied,
            sent: self.sent - before.sent,
            to_controller: self.to_controller - before.to_controller,
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Packets and bytes.
type Packets = (u64, u64);

/// What came of a round.
#[derive(Debug, Default, PartialEq)]
struct Made {
    /// By port.
    frames: BTreeMap<u32, Vec<Vec<u8>>>,
    punted: Vec<Vec<u8>>,
    counted: Counted,
    /// Flow entries as text, with packets and bytes.
    flows: Vec<(String, u64, u64)>,
    /// Groups and their buckets.
    groups: Vec<(Packets, Vec<Packets>)>,
    /// Lookups and matches of tables.
    tables: Vec<(u8, u64, u64)>,
    /// What services say that they counted.
    services: Vec<Value>,
}

impl Side {
    fn new(coalescing: bool) -> Self {
        let eal = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        // Each on a core of its own, where there are two.
        let cores = config(2).cores[usize::from(coalescing)..][..1].to_vec();
        let config = Config { cores, coalescing, services: services(), buffers: 4096, ..config(1) };
        let mut datapath = Datapath::start(Eal::init(eal).expect("EAL starts anywhere"), config).unwrap();
        for number in 1..=4 {
            let (name, spec) = (format!("p{number}"), "null".to_owned());
            let number = Some(PortNo(number));
            datapath.add_port(&PortSpec { name, number, spec, queues: 1, descriptors: 512 }).unwrap();
        }
        let sent = datapath.capture(CaptureFilter { sent: true, ..CaptureFilter::default() });
        Self { datapath, sent, before: Counted::default() }
    }

    fn round(&mut self, changes: &[Change], batches: &[(PortNo, Vec<Vec<u8>>)]) -> Made {
        patiently(|| self.datapath.apply(changes));
        let tables = self.tables();
        for (port, frames) in batches {
            self.datapath.inject_all(*port, frames.clone());
        }
        let report = patiently(|| self.datapath.report());
        check_sum(&report);
        let mut made = Made { counted: Counted::of(&report).since(&self.before), ..Made::default() };
        self.before = Counted::of(&report);
        for packet in self.sent.try_iter() {
            made.frames.entry(packet.port.0).or_default().push(packet.bytes);
        }
        let punted =
            |event: Event| if let Event::PacketIn(packet) = event { Some(packet.frame) } else { None };
        made.punted = patiently(|| self.datapath.tick()).into_iter().filter_map(punted).collect();
        let names = self.datapath.names().clone();
        let flows = patiently(|| self.datapath.flows());
        made.flows = flows.iter().map(|one| (one.flow.text(&names), one.packets, one.bytes)).collect();
        made.flows.sort();
        let groups = patiently(|| self.datapath.groups());
        made.groups = groups.into_iter().map(|group| ((group.packets, group.bytes), group.buckets)).collect();
        let counts = |(number, lookups, matched): (u8, u64, u64)| {
            let before = tables.iter().find(|table| table.0 == number).copied().unwrap_or_default();
            (number, lookups - before.1, matched - before.2)
        };
        made.tables = self.tables().into_iter().map(counts).filter(|table| table.1 > 0).collect();
        made.services = [("tally", "clear"), ("tracker", "stats"), ("tracker", "flush"), ("even", "flush")]
            .into_iter()
            .flat_map(|(service, command)| patiently(|| self.datapath.command(service, command, &json!({}))))
            .collect();
        made
    }

    fn tables(&mut self) -> Vec<(u8, u64, u64)> {
        let report = patiently(|| self.datapath.report());
        report.tables.iter().map(|table| (table.table, table.lookups, table.matched)).collect()
    }
}

/// Packets of some conversations side by side, and noise, in bursts of all sizes.
fn traffic(random: &mut Sampler, malformed: bool) -> Vec<(PortNo, Vec<Vec<u8>>)> {
    let mut waiting: Vec<std::vec::IntoIter<Incoming>> =
        (0..3 + random.below(12)).map(|_| conversation(random).into_iter()).collect();
    let alike = |random: &mut Sampler| -> Vec<Incoming> {
        let frames = twins(random);
        (0..4).map(|_| (PortNo(1), frames[random.below(frames.len())].clone())).collect()
    };
    waiting.extend((0..random.below(4)).map(|_| alike(random).into_iter()).collect::<Vec<_>>());
    let mut batches: Vec<(PortNo, Vec<Vec<u8>>)> = Vec::new();
    let mut room = 0;
    while !waiting.is_empty() {
        let at = random.below(waiting.len());
        let (port, frame) = match waiting[at].next() {
            _ if random.one_in(3) => {
                let frame = if malformed && random.one_in(2) { mangled(random) } else { random.frame() };
                (PortNo(1 + random.below(2) as u32), frame)
            }
            Some(incoming) => incoming,
            None => {
                waiting.remove(at);
                continue;
            }
        };
        match batches.last_mut() {
            Some((last, frames)) if *last == port && frames.len() < room => frames.push(frame),
            _ => {
                room = 1 + random.below(100);
                batches.push((port, vec![frame]));
            }
        }
    }
    // The same again, so that megaflows answer.
    let again = batches.clone();
    batches.extend(again);
    batches
}

/// Tells what differs between two sides, if anything does.
fn difference(with: &Made, without: &Made, ordered: bool) -> Option<String> {
    let in_order = |frames: &[Vec<u8>]| {
        let mut frames = frames.to_vec();
        if !ordered {
            frames.sort();
        }
        frames
    };
    for port in 0..=5 {
        let of = |made: &Made| made.frames.get(&port).map(|frames| in_order(frames)).unwrap_or_default();
        let (with, without) = (of(with), of(without));
        if with != without {
            let at = with.iter().zip(&without).position(|(a, b)| a != b);
            return Some(format!(
                "port {port}: {} and {} frames, from {at:?} on: {:02x?} and {:02x?}",
                with.len(),
                without.len(),
                at.map(|at| &with[at]),
                at.map(|at| &without[at])
            ));
        }
    }
    let sorted = |frames: &[Vec<u8>]| {
        let mut frames = frames.to_vec();
        frames.sort();
        frames
    };
    if sorted(&with.punted) != sorted(&without.punted) {
        return Some(format!("{} and {} packets to the controller", with.punted.len(), without.punted.len()));
    }
    // Of a packet that ends where a malformed header cannot be written, the entries behind that are credited,
    // and copies made, or not, as for whichever packet the megaflow was made for.
    let cut = ["bad-header", "no-such-header"];
    if [with, without].iter().any(|made| cut.iter().any(|reason| made.counted.dropped.contains_key(*reason)))
    {
        return None;
    }
    if with.counted != without.counted {
        return Some(format!("{:?}\n{:?}", with.counted, without.counted));
    }
    let flows = with.flows.iter().zip(&without.flows).find(|(a, b)| a != b);
    if let Some((with, without)) = flows {
        return Some(format!("{with:?}\n{without:?}"));
    }
    let rest = |made: &Made| format!("{:?}\n{:?}\n{:?}", made.groups, made.tables, made.services);
    (rest(with) != rest(without)).then(|| format!("{}\n\n{}", rest(with), rest(without)))
}

fn everything_goes() -> Vec<Change> {
    vec![Change::Flow(FlowMod::Delete(Select::default())), Change::DeleteGroup(None)]
}

/// Random tables in the place of those that are there.
fn tables(random: &mut Sampler, side: &Side, like: &[Key], spine: &[&str], copies: bool) -> Vec<Change> {
    let names = side.datapath.names();
    let mut draw = Draw { random, names, like, services: &ANYWHERE, spine, copies, meters: 0 };
    let mut changes = everything_goes();
    changes.extend(draw.changes());
    changes
}

#[test]
fn packets_reasons_and_counters_are_the_same_whether_stages_are_coalesced_or_not() {
    let mut random = Sampler::new(weir_testkit::seed(3));
    let rounds = asked("WEIR_ROUNDS", 60);
    let (mut with, mut without) = (Side::new(true), Side::new(false));
    let mut packets = 0;
    for round in 0..rounds {
        let (copies, malformed) = (random.one_in(3), random.one_in(3));
        let batches = traffic(&mut random, malformed);
        packets += batches.iter().map(|(_, frames)| frames.len()).sum::<usize>();
        let like = keys(batches.iter().flat_map(|(_, frames)| frames));
        let spine: Vec<&str> = if copies || malformed {
            (0..random.below(4)).map(|_| random.pick(&UNORDERED)).collect()
        } else {
            (0..random.below(4)).map(|_| random.pick(&ALL)).collect()
        };
        let changes = tables(&mut random, &with, &like, &spine, copies);
        let sides = [with.round(&changes, &batches), without.round(&changes, &batches)];
        if let Some(difference) = difference(&sides[0], &sides[1], !copies) {
            let flows: Vec<&str> = sides[0].flows.iter().map(|flow| flow.0.as_str()).collect();
            panic!(
                "round {round}, {spine:?}, copies {copies}, malformed {malformed}, with coalescing and \
                 without:\n{difference}\n{}\n{:?}",
                flows.join("\n"),
                with.datapath.groups()
            );
        }
    }
    let caches = |side: &mut Side| patiently(|| side.datapath.report()).workers[0].caches.clone();
    let (with, without) = (caches(&mut with), caches(&mut without));
    println!(
        "{rounds} tables, {packets} packets through both; with coalescing {} stages were coalesced and {} \
         revoked",
        with.coalesced, with.revoked
    );
    assert!(with.coalesced > packets as u64 / 10 && without.coalesced == 0, "{with:?}\n{without:?}");
    assert!(with.revoked > 0 && with.exact_hits + with.megaflow_hits > with.upcalls / 4, "{with:?}");
}

/// Each packet several times, right behind one another.
fn runs(batches: Vec<(PortNo, Vec<Vec<u8>>)>, random: &mut Sampler) -> Vec<(PortNo, Vec<Vec<u8>>)> {
    let mut long = |frame: Vec<u8>| std::iter::repeat_n(frame, 1 + random.below(9));
    batches
        .into_iter()
        .map(|(port, frames)| (port, frames.into_iter().flat_map(&mut long).collect()))
        .collect()
}

#[test]
fn packets_in_trains_meet_what_each_alone_would() {
    let mut random = Sampler::new(weir_testkit::seed(5));
    let (mut together, mut alone) = (Side::new(true), Side::new(true));
    for round in 0..asked("WEIR_ROUNDS", 30) {
        let batches = traffic(&mut random, false);
        let batches = runs(batches, &mut random);
        let each = |(port, frames): &(PortNo, Vec<Vec<u8>>)| -> Vec<(PortNo, Vec<Vec<u8>>)> {
            frames.iter().map(|frame| (*port, vec![frame.clone()])).collect()
        };
        let singly: Vec<_> = batches.iter().flat_map(each).collect();
        let like = keys(batches.iter().flat_map(|(_, frames)| frames));
        // A burst meets one service before the next, so that what these say must not depend on the order.
        let spine: Vec<&str> = (0..random.below(4)).map(|_| random.pick(&ANYWHERE)).collect();
        let changes = tables(&mut random, &together, &like, &spine, false);
        let sides = [together.round(&changes, &batches), alone.round(&changes, &singly)];
        if let Some(difference) = difference(&sides[0], &sides[1], true) {
            panic!("round {round}, {spine:?}, in runs and alone:\n{difference}");
        }
    }
}

#[test]
fn packets_that_look_alike_are_each_asked_behind_a_service() {
    let mut random = Sampler::new(weir_testkit::seed(4));
    let (mut with, mut without) = (Side::new(true), Side::new(false));
    for round in 0..asked("WEIR_ROUNDS", 90) {
        let frames: Vec<Vec<u8>> = (0..4).flat_map(|_| twins(&mut random)).collect();
        // In bursts of their own, and together.
        let mut batches: Vec<(PortNo, Vec<Vec<u8>>)> =
            (0..40).map(|_| (PortNo(1), vec![frames[random.below(frames.len())].clone()])).collect();
        batches.push((PortNo(1), frames.clone()));
        let like = keys(&frames);
        let names = with.datapath.names();
        let mut draw = Draw {
            random: &mut random,
            names,
            like: &like,
            services: &[],
            spine: &[],
            copies: false,
            meters: 0,
        };
        let mut changes = everything_goes();
        changes.extend(draw.behind_a_service());
        let sides = [with.round(&changes, &batches), without.round(&changes, &batches)];
        if let Some(difference) = difference(&sides[0], &sides[1], true) {
            let flows: Vec<&str> = sides[0].flows.iter().map(|flow| flow.0.as_str()).collect();
            panic!("round {round}, with coalescing and without:\n{difference}\n{}", flows.join("\n"));
        }
    }
    let coalesced = patiently(|| with.datapath.report()).workers[0].caches.coalesced;
    assert!(coalesced > 1000, "{coalesced}");
}
