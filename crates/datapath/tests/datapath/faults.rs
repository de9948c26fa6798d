//! Ports that do wrong on purpose: whatever they do is counted, and the ledger still comes out.

use crate::rig::{End, Rig, check_sum, config, udp};
use std::borrow::Cow;
use std::collections::BTreeMap;
use weir_datapath::Report;

fn frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|at| udp(0xc612_0000 + at % 250, at, (1000, 80))).collect()
}

/// What a port did on purpose.
fn faults(report: &Report, number: u32) -> BTreeMap<Cow<'static, str>, u64> {
    report.ports.iter().find(|port| port.number == number).unwrap().faults.clone()
}

/// Sends frames once through a port with faults to one with others; waits until none is held back.
fn run(count: u32, receiving: &str, sending: &str) -> (End, BTreeMap<Cow<'static, str>, u64>, Vec<Vec<u8>>) {
    let sent = frames(count);
    let mut rig = Rig::new(config(1));
    rig.flows("in_port=1 actions=output:2");
    rig.faulty_sink(2, sending);
    rig.faulty_source(1, &sent, "", receiving);
    // What is lost is not received, and what comes twice is received twice.
    let mut report = rig.datapath.report().unwrap();
    for _ in 0..5000 {
        report = rig.datapath.report().unwrap();
        check_sum(&report);
        let did = faults(&report, 1);
        let gone = report.workers[0].received + did["lost"];
        if did["waiting"] == 0 && gone == u64::from(count) + did["duplicated"] {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let did = faults(&report, 1);
    assert_eq!(report.workers[0].received + did["lost"], u64::from(count) + did["duplicated"], "{did:?}");
    (rig.end(), did, sent)
}

#[test]
fn faults_of_a_receiving_port_are_counted_and_the_sum_comes_out() {
    let spec = "drop=1%,dup=2%,reorder=3%,corrupt=4%,truncate=5%,delay=100us,seed=3";
    let (end, did, _) = run(20_000, spec, "partial=0.000001");
    for (fault, share) in
        [("lost", 0.01), ("duplicated", 0.02), ("reordered", 0.03), ("corrupted", 0.04), ("truncated", 0.05)]
    {
        let found = did[fault] as f64 / 20_000.0;
        assert!((share * 0.7..share * 1.3).contains(&found), "{fault}: {found}");
    }
    let worker = &end.report.workers[0];
    assert_eq!(worker.sent + end.dropped("too-short"), worker.received, "{worker:?}");
    assert!(end.dropped("too-short") > 0, "some were cut into their first header");
}

#[test]
fn faults_do_what_they_are_named_for_and_the_same_by_the_same_seed() {
    let (end, did, frames) = run(2000, "reorder=20%,seed=1", "partial=0.000001");
    let mut out = end.sent(2);
    assert!(out != frames && did["reordered"] > 200, "{did:?}");
    out.sort();
    let mut sorted = frames.clone();
    sorted.sort();
    assert_eq!(out, sorted, "none is missing or changed");

    let (end, did, frames) = run(2000, "dup=10%,seed=1", "partial=0.000001");
    let mut out = end.sent(2);
    assert_eq!(out.len() as u64, 2000 + did["duplicated"]);
    out.dedup();
    assert_eq!(out, frames, "each twin follows its packet");

    let (end, did, frames) = run(2000, "corrupt=10%,seed=1", "partial=0.000001");
    let bits =
        |(a, b): (&Vec<u8>, &Vec<u8>)| -> u32 { a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum() };
    let turned: Vec<u32> = end.sent(2).iter().zip(&frames).map(bits).filter(|bits| *bits > 0).collect();
    assert_eq!((turned.len() as u64, turned.iter().max()), (did["corrupted"], Some(&1)));

    let (first, second) = (
        run(2000, "drop=0.1,truncate=0.1,seed=5", "partial=0.000001"),
        run(2000, "drop=0.1,truncate=0.1,seed=5", "partial=0.000001"),
    );
    assert_eq!((first.0.sent(2), first.1), (second.0.sent(2), second.1));
}

#[test]
fn a_port_that_takes_a_part_or_stands_still_loses_only_what_is_counted() {
    // How many packets come while a port stands still is a matter of time; it may be all that are left.
    for (sending, takes_parts) in [("partial=10%,seed=2", true), ("partial=10%,stall=20%/1ms,seed=2", false)]
    {
        let (end, _, frames) = run(20_000, "delay=1us", sending);
        let did = faults(&end.report, 2);
        let full = end.dropped("transmit-full");
        assert_eq!(did["partial"] + did["stalled"], full, "{did:?}");
        assert!(if takes_parts { did["partial"] > 100 } else { did["stalled"] > 0 }, "{did:?}");
        let out = end.sent(2);
        assert_eq!(out.len() as u64, 20_000 - full);
        let mut all = frames.iter();
        assert!(out.iter().all(|frame| all.any(|other| other == frame)), "what leaves is in order");
        assert_eq!(end.report.ports.iter().map(|port| port.send_dropped).sum::<u64>(), full);
    }
}
