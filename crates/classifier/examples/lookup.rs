//! Cycles a lookup: `cargo run --release -p weir-classifier --example lookup`.
//!
//! Caches: random flows out of so many, in bursts of 32, each flow with a megaflow of its own or a
//! hundred together, over so many masks; keys are in the first-level cache, as extraction leaves
//! them, and writing them is not timed. Tables: `find` and `lookup` one key after the other, and the
//! time of 100,000 insertions.
//!
//! Cycles are those of the TSC; other programs on the core hardly disturb them, those that share its
//! caches do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_classifier::{Caches, Clause, EXACT_BUCKETS, Found, Handle, Table};
use weir_cpu::Ticks;
use weir_flow::{Field, Key, Mask, Match, Seed};

const BURST: usize = 32;

/// Bursts of one measurement; the one in the middle counts.
const BURSTS: usize = 8192;

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u64
    }
}

/// A TCP packet of a flow.
fn write(key: &mut Key, flow: u64) {
    let address = 0x0a00_0000_c612_0000 + ((flow / 100) << 32);
    let ports = (6 << 56) | ((flow % 100 + 1024) << 16) | 80;
    key.set_head([1 << 32, 0x0200_0000_0001_0800, 0x0200_0000_0002_0000, address, ports, 0]);
}

/// Mask n of many that all name what tells flows apart.
fn mask(number: u64, whole: bool) -> Mask {
    let mut mask = Mask::new();
    Field::InPort.examine(&mut mask, u128::MAX);
    Field::EthType.examine(&mut mask, u128::MAX);
    Field::NwSrc.examine(&mut mask, u128::MAX);
    if whole {
        Field::TcpSrc.examine(&mut mask, u128::MAX);
    }
    Field::EthSrc.examine(&mut mask, number.into());
    mask
}

/// Cycles per key of the burst in the middle, which no other program on the core disturbs.
fn measure(flows: u64, mut lookup: impl FnMut(&[Key])) -> f64 {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut keys = vec![Key::new(); BURST];
    let mut bursts = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        for key in &mut keys {
            write(key, dice.below(flows));
        }
        let start = Ticks::now();
        lookup(&keys);
        bursts.push(Ticks::now().since(start));
    }
    bursts.sort_unstable();
    bursts[BURSTS / 2] as f64 / BURST as f64
}

fn caches() {
    println!("flows     megaflows  masks  both caches  hit exactly  megaflows alone  exact cache, KiB");
    for (flows, together) in
        [(1, 1), (1000, 1), (10_000, 100), (10_000, 1), (100_000, 1), (1_000_000, 100), (1_000_000, 1)]
    {
        for masks in [1, 8, 64] {
            let (seed, megaflows) = (Seed::new(7), (flows / together).max(1));
            let mut caches = Caches::new(seed, megaflows as usize, EXACT_BUCKETS);
            let mut key = Key::new();
            for number in 0..megaflows {
                write(&mut key, number * together);
                caches.megaflows_mut().insert(&key, &mask(number % masks, together == 1), number);
            }
            let mut found = Found::default();
            for flow in (0..3 * flows).map(|flow| flow % flows) {
                write(&mut key, flow);
                assert_eq!(caches.lookup_burst(std::slice::from_ref(&key), 1, &mut found), 1);
            }
            let before = caches.counts();
            let both = measure(flows, |keys| {
                assert_eq!(caches.lookup_burst(keys, u64::MAX >> 32, &mut found), u64::MAX >> 32);
            });
            let (exact, after) = (caches.counts().exact - before.exact, caches.counts());
            let all = exact + after.megaflow - before.megaflow;
            let memory = caches.exact().memory() >> 10;
            let mut handles = [Handle::NONE; BURST];
            let alone = measure(flows, |keys| {
                caches.megaflows_mut().find_burst(keys, u64::MAX >> 32, &mut handles);
            });
            let share = 100.0 * exact as f64 / all as f64;
            println!(
                "{flows:<9} {megaflows:<10} {masks:<6} {both:<12.1} {share:>9.2} %  {alone:<16.1} {memory}"
            );
        }
    }
}

fn table(name: &str, rules: impl Iterator<Item = (Match, u16)>) {
    let mut table = Table::new(Seed::new(7));
    let start = Instant::now();
    for (number, (matching, priority)) in rules.enumerate() {
        table.insert(matching, priority, number);
    }
    let built = start.elapsed();
    if table.is_unsettled() {
        measured(&format!("{name}, before"), &mut table, built);
        table.settle();
    }
    measured(name, &mut table, built);
}

fn measured(name: &str, table: &mut Table<usize>, built: Duration) {
    let mut sum = 0;
    let find = measure(1_000_000, |keys| {
        sum += keys.iter().filter_map(|key| table.find(key)).map(|rule| rule.value).sum::<usize>();
    });
    let mut bits = 0;
    let lookup = measure(1_000_000, |keys| {
        for key in keys {
            let mut examined = Mask::new();
            table.lookup(key, &mut examined);
            bits += examined.bits();
        }
    });
    let start = Instant::now();
    let (first, changes) = (table.iter().next().map(|rule| (rule.matching.clone(), rule.priority)), 100);
    if let Some((matching, priority)) = &first {
        for number in 0..changes {
            let old = table.clone();
            table.insert(matching.clone(), *priority, number);
            drop(old);
        }
    }
    let change = start.elapsed() / changes as u32;
    let shape = table.structure();
    println!(
        "{name:<24} {find:<7.1} {lookup:<8.1} {built:<12.1?} {change:<12.1?} {shape} (check {sum} {bits})"
    );
}

/// A prefix of the source address.
fn route(address: u64, len: u64) -> Match {
    let mut matching = Match::any();
    let mask = u128::from(u32::MAX) << (32 - len) & u128::from(u32::MAX);
    matching.demand(Field::EthType, 0x0800, u128::MAX);
    matching.demand(Field::NwSrc, address.into(), mask);
    matching
}

fn tables() {
    println!("\ntable                    find    lookup   built in     a change     structure");
    let mac = |number: u64| {
        let mut matching = Match::any();
        matching.demand(Field::EthDst, 0x0200_0000_0000 + u128::from(number), u128::MAX);
        (matching, 100)
    };
    table("500 addresses", (0..500).map(mac));
    table("100,000 addresses", (0..100_000).map(mac));
    table("10 routes", (0..10).map(|n| (route(0x0a00_0000 + (n << 10), 22), 22)));
    let mut dice = Dice(3);
    let mut many = |n: u64| {
        let len = 8 + n % 25;
        (route(0x0a00_0000 + dice.below(1 << 18), len), len as u16)
    };
    table("10,000 routes", (0..10_000).map(&mut many));
    table("100,000 routes", (0..100_000).map(&mut many));
    let mut rule = |number: u64| {
        let mut matching = route(0x0a00_0000 + dice.below(1 << 14), 14 + dice.below(19));
        matching.demand(Field::NwDst, dice.below(1 << 32).into(), u128::from(u32::MAX << dice.below(32)));
        if dice.below(2) == 0 {
            matching.demand(Field::NwProto, 6, 0xff);
            matching.demand(Field::TcpDst, dice.below(1024).into(), 0xffff);
        }
        (matching, (number % 60_000) as u16)
    };
    table("firewall of 10", (0..10).map(&mut rule));
    table("firewall of 1,000", (0..1000).map(&mut rule));
    table("firewall of 100,000", (0..100_000).map(&mut rule));
}

/// 1,000 × 1,000 addresses as 2,000 rules of two dimensions, in a table with one rule that they lead to and one that all
/// packets match; and, as what it costs, the same table without the 2,000.
fn conjunctions() {
    for (name, values) in [("without conjunctions", 0_u32), ("1,000 x 1,000", 1000)] {
        let (mut table, start) = (Table::new(Seed::new(7)), Instant::now());
        table.insert(Match::any(), 0, 0);
        let mut leads = Match::any();
        leads.demand(Field::ConjId, 7, u128::MAX);
        table.insert(leads, 100, 1);
        for (dimension, field, base) in [(0, Field::NwSrc, 0x0a00_0000), (1, Field::NwDst, 0xc612_0000_u32)] {
            for number in 0..values {
                let mut matching = Match::any();
                matching.demand(Field::EthType, 0x0800, u128::MAX);
                matching.demand(field, u128::from(base + number), u128::MAX);
                let clause = Clause { id: 7, dimensions: 2, dimension };
                table.insert_conjunctive(matching, 100, 2, Arc::new([clause]));
            }
        }
        let built = start.elapsed();
        measured(name, &mut table, built);
    }
}

fn main() {
    tables();
    conjunctions();
    caches();
}
