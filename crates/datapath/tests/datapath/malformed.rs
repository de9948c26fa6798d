//! Malformed packets through the whole datapath, under rich random tables: nobody panics, every packet ends
//! exactly once, no buffer is lost, and what services hold stays bounded.
//!
//! `WEIR_PACKETS` says how many, `WEIR_SEED` which, `WEIR_WORKERS` by how many workers; without, enough to see that
//! it runs, by one. A hundred million take some four minutes of a core in a release build:
//! `WEIR_PACKETS=100000000 cargo test --release -p weir-datapath --test datapath malformed -- --nocapture`.

use crate::random::{Draw, keys, mangled};
use crate::rig::{Rig, check_sum, config, patiently, service};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weir_datapath::{Change, Report, WorkerReport};
use weir_flow::samples::Sampler;
use weir_openflow::{FlowMod, Meter, PortNo, Select};
use weir_testkit::asked;

/// Services that rules call.
const SERVICES: [&str; 6] = ["noop", "tally", "coder", "sticky", "block", "tracker"];

/// Between two looks at the ledger.
const PAUSE: Duration = Duration::from_millis(10);

/// Sets of tables, at least, however fast packets come.
const SETS: u32 = 20;

/// Sets of tables, at most, until one was drawn that copies packets.
const MOST_SETS: u32 = 200;

/// Packets under one set of tables, at most.
const ROUND: u64 = 500_000;

/// Bytes that a service may hold.
const HELD: u64 = 64 << 20;

/// Ports where packets come in: more than workers, so that each has some.
const SOURCES: [u32; 2] = [1, 5];

fn rig(workers: usize) -> Rig {
    let mut settings = config(workers);
    let backends = json!([{"name": "a"}, {"name": "b"}]);
    let of = [
        ("tally", "counter", json!({"arguments": 16})),
        ("coder", "transcoder", json!({"key": "000102030405060708090a0b0c0d0e0f"})),
        ("sticky", "balancer", json!({"mode": "consistent", "table": 1009, "backends": backends})),
        ("block", "memory", json!({"block": 4096, "reads": 2})),
        ("tracker", "conntrack", json!({"connections": 4096, "fragments": 512, "checksums": "all"})),
    ];
    settings.services = of.map(|(name, kind, with)| (name.to_owned(), service(kind, with))).into();
    let mut rig = Rig::new(settings);
    (2..=4).for_each(|port| rig.port(port, "null"));
    rig
}

/// New tables: meters of both kinds, groups of each, and rules that use them.
fn tables(rig: &mut Rig, random: &mut Sampler, frames: &[Vec<u8>], copies: bool) {
    let meters = [
        "meter=1,kbps,burst,bands=type=drop,rate=200000,burst_size=20000",
        "meter=2,pktps,bands=type=dscp_remark,rate=1000,prec_level=1",
    ];
    let mut changes = vec![
        Change::Flow(FlowMod::Delete(Select::default())),
        Change::DeleteGroup(None),
        Change::DeleteMeter(None),
    ];
    changes.extend(meters.map(|text| Change::SetMeter(Meter::parse(text).unwrap())));
    let like = keys(frames);
    let spine: Vec<&str> = (0..random.below(3)).map(|_| random.pick(&SERVICES)).collect();
    let names = rig.datapath.names();
    let mut draw = Draw { random, names, like: &like, services: &SERVICES, spine: &spine, copies, meters: 2 };
    changes.extend(draw.changes());
    patiently(|| rig.datapath.apply(&changes));
}

/// Packets that a worker looked at, without those that were lost on their way to the worker that is to do so.
fn looked_at(worker: &WorkerReport) -> u64 {
    worker.received - worker.dropped.get("hand-over").unwrap_or(&0)
}

/// Asserts what must hold at any moment.
fn check(report: &Report) {
    check_sum(report);
    for service in &report.services {
        for one in &service.instances {
            assert_eq!((one.panics, &one.quarantine), (0, &None), "{}: {one:?}", service.name);
            assert!(one.memory < HELD && one.heap < HELD, "{}: {one:?}", service.name);
        }
    }
}

#[test]
fn malformed_packets_end_exactly_once_whatever_the_tables_do() {
    let count = asked("WEIR_PACKETS", 100_000);
    let (seed, workers) = (weir_testkit::seed(99), asked("WEIR_WORKERS", 1));
    println!("WEIR_PACKETS={count} WEIR_SEED={seed} WEIR_WORKERS={workers}");
    let mut random = Sampler::new(seed);
    let round = ROUND.min(count / u64::from(SETS));
    let mut rig = rig(workers as usize);
    let (begin, mut received, mut copied) = (Instant::now(), 0, 0_u64);
    let (mut tried, mut distinct, mut events) = (0, 0, 0);
    // However fast packets come in, several sets of tables see some, and one copies some.
    while received < count || tried < SETS || (copied == 0 && tried < MOST_SETS) {
        let frames: Vec<Vec<u8>> = (0..500.max(round / 25)).map(|_| mangled(&mut random)).collect();
        tables(&mut rig, &mut random, &frames, tried % 4 == 0);
        distinct += frames.len();
        tried += 1;
        let (some, others) = frames.split_at(frames.len() / 2);
        for (port, frames) in SOURCES.into_iter().zip([some, others]) {
            rig.source(port, frames, ",loop");
        }
        let enough = received + round;
        let since = Instant::now();
        while received < enough {
            let report = patiently(|| rig.datapath.report());
            check(&report);
            received = report.workers.iter().map(looked_at).sum();
            copied = report.workers.iter().map(|worker| worker.copied).sum();
            // The controller's queue is emptied now and then, so that both ways are taken.
            events += patiently(|| rig.datapath.tick()).len();
            assert!(since.elapsed() < Duration::from_secs(600), "{report:#?}");
            std::thread::sleep(PAUSE);
        }
        SOURCES.iter().for_each(|&port| patiently(|| rig.datapath.remove_port(PortNo(port))));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let end = rig.end();
    check(&end.report);
    let sum = |of: fn(&WorkerReport) -> u64| end.report.workers.iter().map(of).sum::<u64>();
    let reasons: BTreeSet<&str> =
        end.report.workers.iter().flat_map(|worker| worker.dropped.keys().map(AsRef::as_ref)).collect();
    let dropped: Vec<(&str, u64)> = reasons.iter().map(|reason| (*reason, end.dropped(reason))).collect();
    println!(
        "{} packets received, {} of them looked at ({distinct} different ones, {tried} sets of tables) in {seconds:.1} s, {} copied; \
         {} sent, {} to the controller ({events} read), {} handed over, dropped {dropped:?}; {} upcalls",
        sum(|worker| worker.received),
        sum(looked_at),
        sum(|worker| worker.copied),
        sum(|worker| worker.sent),
        sum(|worker| worker.to_controller),
        sum(|worker| worker.handed_over),
        sum(|worker| worker.caches.upcalls),
    );
    assert!(
        sum(|worker| worker.sent) > 0 && sum(|worker| worker.copied) > 0 && dropped.len() > 3,
        "{dropped:?}"
    );
    for worker in &end.report.workers {
        assert!(worker.received > 0, "worker {} received nothing", worker.worker);
    }
}
