//! Workers that give their cores back, and bursts that wait for nobody.

use crate::rig::{Rig, config, udp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_cpu::Ticks;
use weir_datapath::{Config, PollMode, Report};
use weir_openflow::PortNo;

fn busy() -> Config {
    Config { poll: PollMode::Busy, ..config(1) }
}

fn sent(report: &Report) -> u64 {
    report.workers.iter().map(|worker| worker.sent).sum()
}

#[test]
fn an_adaptive_worker_sleeps_between_packets_and_loses_none() {
    let mut rig = Rig::new(config(1));
    rig.flows("actions=output:2");
    rig.sink(2);
    let frames: Vec<Vec<u8>> = (0..100).map(|at| udp(at, 1, (1, 2))).collect();
    rig.source(1, &frames, ",rate=500pps");
    // Every gap of 2 ms has room for several sleeps. Where the machine held source or worker up few are left, and the
    // rest of the ten comes behind the last packet.
    let between = rig.wait(100).workers[0].waiting.clone();
    assert!(between.sleeps > 0, "{between:?}");
    rig.wait_until(|report| report.workers[0].waiting.sleeps >= 10);
    let end = rig.end();
    assert_eq!(end.sent(2), frames);
    let waiting = &end.report.workers[0].waiting;
    assert!(waiting.sleeps >= 10 && waiting.slept_ns > 0, "{waiting:?}");
    assert_eq!(end.report.poll.to_string(), "adaptive:200us");
}

#[test]
fn a_busy_worker_never_sleeps() {
    let mut rig = Rig::new(busy());
    rig.flows("actions=output:2");
    rig.sink(2);
    rig.source(1, &[udp(1, 2, (3, 4))], "");
    rig.wait(1);
    let end = rig.end();
    assert_eq!((end.report.poll, &end.report.workers[0].waiting), (PollMode::Busy, &Default::default()));
}

#[test]
fn a_worker_that_yields_lets_others_poll_on_its_core_and_counts_none_of_their_time() {
    let (alone, _) = busy_beside(|_, _| (0, 0));
    let (busy, (turns, ticks)) = busy_beside(poll_beside);
    // The packets are more than 1,200 rounds. A worker that polls and does not yield leaves some 20 to 35 turns of time slices, one that
    // yields 80 and more on a busy machine too.
    assert!(turns > 50, "{turns} turns");
    // However dear the worker's own work is, with a sanitizer say.
    let more = busy.saturating_sub(alone);
    assert!(more < ticks / 2, "{alone} alone, {busy} beside {ticks} of the other in {turns} turns");
}

/// The cycles that a yielding worker had for 40,000 packets beside another thread, and what that one says.
fn busy_beside(other: fn(usize, &AtomicBool) -> (u64, u64)) -> (u64, (u64, u64)) {
    let config = Config { poll: PollMode::Yield, ..config(1) };
    let (core, done) = (config.cores[0], Arc::<AtomicBool>::default());
    let mut rig = Rig::new(config);
    rig.flows("actions=output:2");
    rig.sink(2);
    let frames: Vec<Vec<u8>> = (0..40_000).map(|at| udp(at, 1, (1, 2))).collect();
    let other = std::thread::spawn({
        let done = done.clone();
        move || other(core, &done)
    });
    rig.source(1, &frames, "");
    rig.wait(40_000);
    done.store(true, Ordering::Relaxed);
    let said = other.join().unwrap();
    let end = rig.end();
    assert_eq!(end.sent(2).len(), frames.len());
    let busy = end.report.workers[0].busy_cycles;
    assert!(busy > 0);
    assert_eq!(end.report.poll.to_string(), "yield");
    (busy, said)
}

/// Somebody else who polls on a core, and takes some time in each turn: turns and ticks until it is done.
fn poll_beside(core: usize, done: &AtomicBool) -> (u64, u64) {
    const TURN: u64 = 1_000_000;
    weir_cpu::pin(core).unwrap();
    let mut turns = 0;
    while !done.load(Ordering::Relaxed) {
        let begin = Ticks::now();
        while Ticks::now().since(begin) < TURN {}
        turns += 1;
        std::thread::yield_now();
    }
    (turns, turns * TURN)
}

#[test]
fn a_packet_alone_is_sent_before_anything_else_comes() {
    let yielding = Config { poll: PollMode::Yield, ..config(1) };
    for config in [busy(), yielding, config(1)] {
        let mut rig = Rig::new(config);
        rig.flows("actions=output:2");
        rig.sink(2);
        for number in 1..=20 {
            rig.datapath.inject(PortNo(1), udp(number, 1, (1, 2)));
            // What answers has dealt with the packet before.
            assert_eq!(sent(&rig.datapath.report().unwrap()), u64::from(number));
        }
        rig.end();
    }
}

#[test]
fn mail_reaches_a_worker_that_sleeps() {
    let mut rig = Rig::new(Config { poll: "adaptive:10ms".parse().unwrap(), ..config(1) });
    rig.sink(1);
    std::thread::sleep(std::time::Duration::from_millis(30));
    for priority in 1..5 {
        rig.flows(&format!("priority={priority},actions=drop"));
    }
    assert!(rig.wait(0).workers[0].waiting.sleeps > 0);
    assert!(rig.end().report.generation >= 5);
}
