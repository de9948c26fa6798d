//! A soak: rules change a thousand times a second, ports and services come and go, packets flow, and
//! nothing is lost but what is counted; memory and descriptors stay flat.
//!
//! `WEIR_SOAK_SECONDS` says for how long, with this test alone; without it, long enough to see that it
//! runs.

use crate::rig::{Rig, check_sum, config, udp};
use std::fs;
use std::time::{Duration, Instant};
use weir_datapath::ServiceConfig;
use weir_flow::samples::Sampler;
use weir_openflow::PortNo;

/// Rounds a second, with a change of rules each.
const ROUNDS: u32 = 1000;

/// What the process holds: resident memory in KiB, and descriptors.
fn held() -> (u64, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let memory = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (memory, fs::read_dir("/proc/self/fd").unwrap().count())
}

/// One round of changes, by its number.
fn change(rig: &mut Rig, random: &mut Sampler, round: u32) {
    let (table, last) = (random.below(3), random.below(250));
    let rule = format!("table={table},priority=50,ip,nw_src=198.18.0.{last}");
    if random.one_in(2) {
        let next = ["dec_ttl,output:2", "softflow:counter:1", "drop", "goto_table:3"][random.below(4)];
        rig.flows(&format!("{rule} actions={next}"));
    } else {
        rig.flows(&format!("delete_strict {rule}"));
    }
    match round % 300 {
        0 => rig.sink(3),
        100 => rig.datapath.remove_port(PortNo(3)).unwrap(),
        150 => drop(rig.datapath.add_service("guest", &ServiceConfig::of_kind("noop")).unwrap()),
        250 => rig.datapath.remove_service("guest").unwrap(),
        _ => {}
    }
}

#[test]
fn a_soak_of_changes_loses_nothing_uncounted_and_stays_flat() {
    let asked = std::env::var("WEIR_SOAK_SECONDS");
    let alone = asked.is_ok();
    let seconds = asked.map_or(4, |seconds| seconds.parse().expect("a number"));
    let mut rig = Rig::new(config(1));
    rig.flows(
        "table=0,priority=1 actions=goto_table:1\ntable=1,priority=1 actions=goto_table:2\n\
         table=2,priority=1 actions=goto_table:3\ntable=3,priority=1,ip,nw_src=198.18.0.0/25 actions=output:3\n\
         table=3,priority=0 actions=output:2\ntable=0,priority=60,sf_stage=1 actions=goto_table:3",
    );
    rig.port(2, "fault:partial=1%,stall=0.1%/100us,seed=1:null");
    let frames: Vec<Vec<u8>> =
        (0..4000).map(|at| udp(0xc612_0000 + at % 250, 0xc613_0001 + at / 250, (1000, 80))).collect();
    let faults = "drop=0.1%,dup=0.1%,reorder=1%,corrupt=0.1%,truncate=0.1%,delay=20us,seed=1";
    rig.faulty_source(1, &frames, ",loop,rate=300kpps", faults);
    let mut random = Sampler::new(4);
    let begin = Instant::now();
    let (mut rounds, mut warm, mut late) = (0_u32, None, 0);
    // However slow the machine: until there is something to compare the end with.
    while begin.elapsed() < Duration::from_secs(seconds) || warm.is_none() {
        change(&mut rig, &mut random, rounds);
        rounds += 1;
        if rounds.is_multiple_of(500) {
            check_sum(&rig.datapath.report().unwrap());
            rig.datapath.tick().unwrap();
        }
        // What a run needs is there after a fifth of it, in the same place of the round each time.
        if warm.is_none() && rounds % 300 == 299 && begin.elapsed() > Duration::from_secs(seconds) / 5 {
            warm = Some(held());
        }
        let due = begin + Duration::from_secs(1) / ROUNDS * rounds;
        match due.checked_duration_since(Instant::now()) {
            Some(early) => std::thread::sleep(early),
            None => late += 1,
        }
    }
    while rounds % 300 != 299 {
        change(&mut rig, &mut random, rounds);
        rounds += 1;
    }
    let (now, then) = (held(), warm.expect("the run ends behind its first fifth"));
    let report = rig.datapath.report().unwrap();
    check_sum(&report);
    let worker = &report.workers[0];
    println!(
        "{rounds} rounds, {late} late; {} packets, {} sent, dropped {:?}; {} revalidated; {then:?} to {now:?} (KiB, descriptors)",
        worker.received, worker.sent, worker.dropped, worker.caches.revalidated
    );
    assert!(worker.received > 10_000 && worker.caches.revalidated > 0);
    for (number, fault) in
        [(1, "lost"), (1, "duplicated"), (1, "reordered"), (1, "corrupted"), (2, "partial")]
    {
        let port = report.ports.iter().find(|port| port.number == number).unwrap();
        assert!(port.faults[fault] > 0, "{fault}: {:?}", port.faults);
    }
    for reason in worker.dropped.keys() {
        let counted = ["by-flow", "no-port", "too-short", "transmit-full", "ttl-expired", "bad-header"];
        assert!(counted.contains(&reason.as_ref()), "{:?}", worker.dropped);
    }
    // What other tests of this process hold comes and goes; a soak by hand has it to itself.
    if alone {
        assert_eq!(now.1, then.1, "descriptors");
        assert!(now.0 < then.0 + 8 * 1024, "memory grew from {} to {} KiB", then.0, now.0);
    }
    rig.end();
}
