//! Tables of rules and megaflows beside a plain list, by the number of probes.

use crate::{Budget, Input, Outcome, Target};
use weir_classifier::{Caches, Found, Handle, PROBES, Table};
use weir_flow::{Field, Key, Mask, Match, Seed, WORDS, ones};

const FIELDS: [Field; 10] = [
    Field::InPort,
    Field::EthType,
    Field::NwSrc,
    Field::NwDst,
    Field::NwProto,
    Field::TcpSrc,
    Field::TcpDst,
    Field::Metadata,
    Field::Ipv6Dst,
    Field::Reg0,
];

/// Steps of an input, at most.
const STEPS: usize = 160;

fn matching(input: &mut Input<'_>) -> Match {
    let mut matching = Match::any();
    for _ in 0..input.below(4) {
        let field = input.pick(&FIELDS);
        let all = ones(field.bits());
        let mask = match input.below(4) {
            0 | 1 => all,
            2 => all & all << input.below(field.bits() as usize),
            _ => u128::from(input.word()) & all,
        };
        matching.demand(field, (u128::from(input.byte()) * 0x0101_0101) & all, mask);
    }
    matching
}

fn key(input: &mut Input<'_>) -> Key {
    let mut key = Key::new();
    for _ in 0..input.below(6) {
        let field = input.pick(&FIELDS);
        field.set(&mut key, (u128::from(input.byte()) * 0x0101_0101) & ones(field.bits()));
    }
    key
}

fn bytes() -> Vec<Vec<u8>> {
    let mut dice = weir_testkit::Dice::new(9);
    let mut seeds: Vec<Vec<u8>> = (0..6).map(|_| (0..600).map(|_| dice.next() as u8).collect()).collect();
    // Rules alone, and prefixes of all lengths.
    seeds.push((0..900).map(|at| [0, 2, 2, 2, at as u8, 9, 7][at % 7]).collect());
    seeds
}

pub(super) const TABLE: Target = Target {
    name: "table",
    about: "rules come and go in a table: what is found is what a list finds, and the bits that are named decide it",
    budget: Budget::of(1 << 20, 8192, 2000, 16)
        .within(std::time::Duration::from_millis(80), std::time::Duration::from_micros(40)),
    longest: 1200,
    words: &[],
    seeds: bytes,
    run: table,
    workers: false,
};

fn table(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut table: Table<u16> = Table::new(Seed::new(3));
    // Priorities differ: which of two of one wins is nobody's promise.
    let mut list: Vec<(Match, u16)> = Vec::new();
    let (mut found, mut missed) = (0_u32, 0_u32);
    for step in 0..STEPS as u16 {
        if input.is_over() {
            break;
        }
        match input.below(4) {
            0 | 1 => {
                let (matching, priority) = (matching(&mut input), step);
                assert_eq!(table.insert(matching.clone(), priority, step), None);
                list.push((matching, priority));
            }
            2 if !list.is_empty() => {
                let (matching, priority) = list.swap_remove(input.below(list.len()));
                assert_eq!(table.remove(&matching, priority), Some(priority));
            }
            _ => {
                let key = key(&mut input);
                let wanted =
                    list.iter().filter(|(matching, _)| matching.matches(&key)).map(|rule| rule.1).max();
                let mut examined = Mask::new();
                let answer = table.lookup(&key, &mut examined).map(|rule| rule.value);
                assert_eq!(answer, wanted);
                // Other bits do not matter.
                let mut other = Key::new();
                for place in 0..WORDS {
                    other.set_bits(place, !key.word(place), !examined.word(place));
                    other.set_bits(place, key.word(place), examined.word(place));
                }
                assert_eq!(table.find(&other).map(|rule| rule.value), wanted, "{examined:?}");
                found += u32::from(answer.is_some());
                missed += u32::from(answer.is_none());
            }
        }
        assert_eq!(table.len(), list.len());
    }
    Outcome::of((table.len() / 8, found.min(5), missed.min(5)))
}

pub(super) const CACHES: Target = Target {
    name: "caches",
    about: "megaflows come and go: what is found agrees, and a lookup takes no more probes than are promised",
    budget: Budget::of(1 << 20, 2048, 2000, 16)
        .within(std::time::Duration::from_millis(80), std::time::Duration::from_micros(40)),
    longest: 1200,
    words: &[],
    seeds: bytes,
    run: caches,
    workers: false,
};

fn caches(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut caches: Caches<u32> = Caches::new(Seed::new(5), 60, 64);
    let (mut found, mut handles) = (Found::default(), Vec::<Handle>::new());
    let mut hits = 0;
    for step in 0..STEPS as u32 {
        if input.is_over() {
            break;
        }
        match input.below(3) {
            0 => {
                let (key, mask) = (key(&mut input), matching(&mut input).mask());
                let inserted = caches.insert(&key, &mask, step);
                assert!(caches.megaflows().len() <= 60);
                handles.push(inserted.handle);
            }
            1 if !handles.is_empty() => {
                let handle = handles.swap_remove(input.below(handles.len()));
                caches.megaflows_mut().remove(handle);
                assert!(
                    caches.megaflows_mut().get(handle).is_none(),
                    "a handle of what went names something"
                );
            }
            _ => {
                let keys: Vec<Key> = (0..1 + input.below(8)).map(|_| key(&mut input)).collect();
                let (wanted, before) = ((1_u64 << keys.len()) - 1, caches.counts());
                let hit = caches.lookup_burst(&keys, wanted, &mut found);
                let after = caches.counts();
                let asked = (after.megaflow + after.missed) - (before.megaflow + before.missed);
                let probes = after.probes - before.probes;
                assert!(probes <= asked * PROBES as u64, "{probes} probes for {asked} lookups");
                for (at, key) in keys.iter().enumerate().filter(|(at, _)| hit >> at & 1 != 0) {
                    assert!(caches.megaflows_mut().agrees(found.handles[at], key));
                }
                hits += hit.count_ones();
            }
        }
    }
    Outcome::of((caches.megaflows().len() / 4, hits.min(20)))
}
