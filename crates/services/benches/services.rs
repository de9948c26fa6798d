//! How many TSC cycles each service takes a packet, in its cell, from one core.
//!
//! Run it with `cargo bench -p weir-services --bench services`; `-- transcoder` behind it runs only the
//! cases whose name has that word. Bursts of 32 packets from 1,024 connections are handed to a
//! [`Host`], which the clock is around; rounds alternate between the cases. The table gives the median
//! burst and the range of nine tenths of them, and gigabits a second at the median; frames are counted
//! without FCS.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Draw, group, packet};
use serde_json::{Value, json};
use std::time::Instant;
use weir_cpu::aes::Kernel;
use weir_cpu::{CountingAllocator, Ticks};
use weir_flow::{Key, Layout};
use weir_services::{Host, Limits, Memo, Slot, Verdict};
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
    /// Cycles of each burst.
    bursts: Vec<u64>,
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
        Self { label: label.to_owned(), host, packets, argument, frame, bursts: Vec::new() }
    }

    fn round(&mut self) {
        for turn in 0..TURNS {
            for burst in self.packets.chunks_mut(BURST) {
                let mut slots: Vec<Slot<'_>> = burst
                    .iter_mut()
                    .map(|(frame, key, layout)| Slot {
                        frame,
                        layout: *layout,
                        key,
                        argument: self.argument,
                        arguments: &[],
                        tracking: None,
                        metadata: 0,
                        memo: Memo::NOWHERE,
                        coalesce: false,
                        verdict: Verdict::Pass,
                        splice: None,
                    })
                    .collect();
                let start = Ticks::now();
                self.host.process(&mut slots, Nanos(turn as u64));
                self.bursts.push(Ticks::now().since(start));
            }
        }
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
    ];
    for (kernel, mode) in Kernel::available().flat_map(|kernel| [(kernel, "encrypt"), (kernel, "decrypt")]) {
        let settings =
            json!({"kernel": kernel.name(), "mode": mode, "key": "000102030405060708090a0b0c0d0e0f"});
        let label = format!("transcoder, {}, {mode}", kernel.name());
        cases.push(Case::new(&label, "transcoder", settings, 0, 924));
    }
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    cases.retain(|case| case.label.contains(&word));
    let (start, clock) = (Ticks::now(), Instant::now());
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(Case::round);
    }
    let hz = Ticks::now().since(start) as f64 / clock.elapsed().as_secs_f64();
    println!("bursts of {BURST}, {PACKETS} connections, TSC {:.2} GHz, {ROUNDS} rounds", hz / 1e9);
    println!("{:<34} {:>7} {:>22} {:>8} {:>8}", "", "frame", "cycles a packet", "Mpps", "Gb/s");
    for case in &mut cases {
        case.bursts.sort_unstable();
        let part = |part: usize| case.bursts[case.bursts.len() * part / 100] as f64 / BURST as f64;
        let (least, median, most) = (part(5), part(50), part(95));
        let pps = hz / median;
        println!(
            "{:<34} {:>5} B {:>8.1} ({:.1}..{:.1}) {:>8.2} {:>8.2}",
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
