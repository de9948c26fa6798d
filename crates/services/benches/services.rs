//! How many TSC cycles each service takes a packet, in its cell, from one core.
//!
//! Run it with `cargo bench -p weir-services --bench services`. Bursts of 32 packets from 1,024
//! connections are handed to a [`Host`], which the clock is around; rounds alternate between the cases.
//! The table gives the median round and the range, and gigabits a second at the median.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Draw, group, packet};
use serde_json::{Value, json};
use std::time::Instant;
use weir_dpdk::{CountingAllocator, Ticks};
use weir_flow::{Key, Layout};
use weir_services::{Host, Limits, Slot, Verdict};
use weir_units::Nanos;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BURST: usize = 32;
const PACKETS: usize = 1024;
const ROUNDS: usize = 51;
/// Times that all packets go through in a round.
const TURNS: usize = 20;

struct Case {
    label: String,
    host: Host,
    packets: Vec<(Vec<u8>, Key, Layout)>,
    argument: u32,
    frame: usize,
    /// Cycles a packet, by round.
    rounds: Vec<f64>,
}

impl Case {
    fn new(label: &str, kind: &str, settings: Value, argument: u32, frame: usize) -> Self {
        let mut draw = Draw::new(1);
        let packets = (0..PACKETS as u64)
            .map(|number| {
                let headers = packet(number * 4, &[0; 40]).len() - 40;
                let payload: Vec<u8> =
                    (0..frame.saturating_sub(headers)).map(|_| draw.next() as u8).collect();
                let (bytes, mut key) = (packet(number * 4, &payload), Key::new());
                let layout = common::extract(&bytes, 1, &mut key);
                (bytes, key, layout)
            })
            .collect();
        let host = Host::named(label, group(kind, settings, 1), 0, Limits::default());
        Self { label: label.to_owned(), host, packets, argument, frame, rounds: Vec::new() }
    }

    fn round(&mut self) {
        let mut cycles = 0;
        for turn in 0..TURNS {
            for burst in self.packets.chunks_mut(BURST) {
                let mut slots: Vec<Slot<'_>> = burst
                    .iter_mut()
                    .map(|(frame, key, layout)| Slot {
                        frame,
                        layout: *layout,
                        key,
                        argument: self.argument,
                        metadata: 0,
                        coalesce: false,
                        verdict: Verdict::Pass,
                    })
                    .collect();
                let start = Ticks::now();
                self.host.process(&mut slots, Nanos(turn as u64));
                cycles += Ticks::now().since(start);
            }
        }
        self.rounds.push(cycles as f64 / (TURNS * PACKETS) as f64);
    }
}

fn main() {
    let consistent = json!({"mode": "consistent", "backends": [{"name": "a"}, {"name": "b"}]});
    let block = json!({"block": 256 << 20});
    let mut cases = vec![
        Case::new("noop", "noop", json!({}), 0, 60),
        Case::new("counter", "counter", json!({}), 7, 60),
        Case::new("balancer, least-loaded", "balancer", json!({}), 0, 60),
        Case::new("balancer, consistent", "balancer", consistent, 0, 60),
        Case::new("memory, 1 read of 256 MiB", "memory", block.clone(), 1, 60),
        Case::new("memory, 10 reads of 256 MiB", "memory", block, 10, 60),
        Case::new("transcoder, encrypt", "transcoder", json!({}), 0, 924),
        Case::new("transcoder, decrypt", "transcoder", json!({"mode": "decrypt"}), 0, 924),
    ];
    let (start, clock) = (Ticks::now(), Instant::now());
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(Case::round);
    }
    let hz = Ticks::now().since(start) as f64 / clock.elapsed().as_secs_f64();
    println!("bursts of {BURST}, {PACKETS} connections, TSC {:.2} GHz, {ROUNDS} rounds", hz / 1e9);
    println!("{:<30} {:>7} {:>22} {:>8} {:>8}", "", "frame", "cycles a packet", "Mpps", "Gb/s");
    for case in &mut cases {
        case.rounds.sort_by(f64::total_cmp);
        let (least, median, most) = (case.rounds[0], case.rounds[ROUNDS / 2], case.rounds[ROUNDS - 1]);
        let pps = hz / median;
        println!(
            "{:<30} {:>5} B {:>8.1} ({:.1}..{:.1}) {:>8.2} {:>8.2}",
            case.label,
            case.frame,
            median,
            least,
            most,
            pps / 1e6,
            pps * case.frame as f64 * 8.0 / 1e9
        );
    }
}
