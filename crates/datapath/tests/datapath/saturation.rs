//! A worker that never finds a queue empty: what it counts is right, and what is due is done.

use crate::rig::{Rig, config, udp};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_dpdk::BURST;
use weir_services::{Burst, Group, GroupConfig, Limits, Registration, Service, one_number};
use weir_units::Nanos;

/// What a burst takes of the service at least: on a fast machine a thousand bursts take about a millisecond.
const BURST_TAKES: Duration = Duration::from_micros(20);

/// Rounds of what is due.
static TICKS: AtomicU64 = AtomicU64::new(0);

struct Ticking;

impl Service for Ticking {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        let begin = Instant::now();
        while let Some(slot) = burst.next() {
            slot.coalesce = true;
        }
        while begin.elapsed() < BURST_TAKES {
            std::hint::spin_loop();
        }
    }

    fn tick(&mut self, _now: Nanos) {
        TICKS.fetch_add(1, Ordering::Relaxed);
    }
}

struct TickingGroup;

impl Group for TickingGroup {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Ticking)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const TICKING: Registration = Registration {
    kind: "ticking",
    about: "counts rounds of what is due",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
    schema: || json!({}),
    build: |_: &GroupConfig<'_>| Ok(Arc::new(TickingGroup)),
};

/// Full bursts at every poll, for ever.
fn saturated(flows: &str) -> Rig {
    let mut rig = Rig::new(config(1));
    rig.datapath.add_service_of("ticking", &TICKING, &Value::Null, Limits::default()).unwrap();
    rig.flows(flows);
    rig.port(2, "null");
    let frames: Vec<Vec<u8>> = (0..64).map(|at| udp(at, 1, (1, 2))).collect();
    rig.source(1, &frames, ",loop");
    rig
}

#[test]
fn cycles_are_counted_while_no_poll_comes_back_empty() {
    let mut rig = saturated("actions=output:2");
    let first = rig.wait(100_000).workers.remove(0);
    let second = rig.wait(first.received + 100_000).workers.remove(0);
    assert!(first.busy_cycles > 0, "after {} packets", first.received);
    assert!(second.busy_cycles > first.busy_cycles, "{} cycles", second.busy_cycles);
    let cycles = (second.busy_cycles - first.busy_cycles) as f64 / (second.received - first.received) as f64;
    // No machine forwards a packet in so few cycles, nor needs so many.
    assert!((10.0..1e6).contains(&cycles), "{cycles} cycles a packet");
    rig.end();
}

#[test]
fn what_is_due_is_done_by_the_clock_while_no_poll_comes_back_empty() {
    let mut rig =
        saturated("sf_stage=0,udp actions=softflow:ticking:0\nsf_stage=1,sf_action=ticking actions=output:2");
    let first = rig.wait(10_000).workers.remove(0).received;
    let before = TICKS.load(Ordering::Relaxed);
    let packets = rig.wait(first + 400_000).workers.remove(0).received - first;
    let rounds = TICKS.load(Ordering::Relaxed) - before;
    // By polls alone it would be one in 1,024 bursts.
    let by_polls = packets / (1024 * BURST as u64);
    assert!(rounds >= 4 * by_polls, "{rounds} rounds in {packets} packets, {by_polls} by polls alone");
    rig.end();
}
