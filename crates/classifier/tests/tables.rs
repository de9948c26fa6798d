//! Tables against the plain meaning of their rules: the highest priority that matches.

use crate::common::{Dice, key, matching, mixed, rounds, value};
use std::collections::HashSet;

use weir_classifier::{Rule, Structure, Table, quantise};
use weir_flow::{Field, Key, Mask, Match, Seed};

/// A route: a prefix of the destination, and now and then something else.
fn route(dice: &mut Dice) -> Match {
    let mut matching = Match::any();
    match dice.below(20) {
        0 => {}
        1 => matching.demand(Field::EthType, 0x0806, 0xffff),
        _ => {
            let len = 8 + dice.below(25);
            matching.demand(Field::EthType, 0x0800, 0xffff);
            matching.demand(Field::NwDst, value(dice, Field::NwDst), 0xffff_ffff << (32 - len) & 0xffff_ffff);
        }
    }
    matching
}

const STRUCTURES: [Option<Structure>; 5] = [
    None,
    Some(Structure::Linear),
    Some(Structure::Tuples),
    Some(Structure::Merged),
    Some(Structure::Vectors),
];

fn table(seed: u64, structure: Option<Structure>) -> Table<u64> {
    match structure {
        None => Table::new(Seed::new(seed)),
        Some(structure) => Table::of_structure(Seed::new(seed), structure),
    }
}

/// Rules in no order, compared one by one.
#[derive(Clone, Default)]
struct Model(Vec<Rule<u64>>);

impl Model {
    fn insert(&mut self, matching: Match, priority: u16, value: u64) -> Option<u64> {
        let old = self.remove(&matching, priority);
        self.0.push(Rule { matching, priority, value, clauses: None });
        old
    }

    fn remove(&mut self, matching: &Match, priority: u16) -> Option<u64> {
        let at = self.0.iter().position(|rule| rule.matching == *matching && rule.priority == priority)?;
        Some(self.0.swap_remove(at).value)
    }

    fn best(&self, key: &Key) -> Option<u16> {
        self.0.iter().filter(|rule| rule.matching.matches(key)).map(|rule| rule.priority).max()
    }

    /// The table names the rules within a match, and says whether one overlaps it.
    fn check_selection(&self, table: &Table<u64>, matching: &Match, priority: u16) {
        let shape = table.structure();
        let sorted = |mut values: Vec<u64>| {
            values.sort_unstable();
            values
        };
        let within = sorted(table.within(matching).map(|rule| rule.value).collect());
        let meant = self.0.iter().filter(|rule| matching.covers(&rule.matching));
        assert_eq!(within, sorted(meant.map(|rule| rule.value).collect()), "{shape}: within {matching:?}");
        let overlaps = |rule: &Rule<u64>| {
            rule.priority == priority && rule.matching != *matching && rule.matching.overlaps(matching)
        };
        let found = table.overlap(matching, priority);
        assert!(found.is_none_or(overlaps), "{shape}: {found:?} does not overlap {matching:?}");
        assert_eq!(found.is_some(), self.0.iter().any(overlaps), "{shape}: overlap of {matching:?}");
    }

    /// The table's answer is right, and the bits it names prove it.
    fn check(&self, table: &Table<u64>, key: &Key, dice: &mut Dice) {
        let mut examined = Mask::new();
        let answer = table.lookup(key, &mut examined);
        let shape = table.structure();
        assert_eq!(answer.map(|rule| rule.priority), self.best(key), "{shape}: {key:?}");
        assert_eq!(answer, table.find(key), "{shape}: {key:?}");
        if let Some(rule) = answer {
            assert!(rule.matching.matches(key) && examined.covers(&rule.matching.mask()));
            assert_eq!(table.get(&rule.matching, rule.priority), Some(&rule.value));
        }
        // Every better rule differs in a bit that was named: flipping others cannot make it match.
        for rule in self.0.iter().filter(|rule| answer.is_none_or(|answer| rule.priority > answer.priority)) {
            let shown = |term: &weir_flow::Term| {
                let place = usize::from(term.place);
                (key.word(place) ^ term.value) & term.mask & examined.word(place) != 0
            };
            assert!(
                rule.matching.terms().iter().any(shown),
                "{shape}: {examined:?} of {key:?} does not exclude {rule:?}"
            );
        }
        // And so it is when they are flipped, towards other keys and at random.
        for _ in 0..4 {
            let mut other = crate::common::key(dice);
            if dice.one_in(2) {
                for place in 0..weir_flow::WORDS {
                    other.set_word(place, dice.next());
                }
            }
            let other = mixed(key, &examined, &other);
            let mut again = Mask::new();
            assert_eq!(
                table.lookup(&other, &mut again),
                answer,
                "{shape}: {examined:?} of {key:?}, {other:?}"
            );
            assert_eq!(table.find(&other), answer);
        }
    }
}

/// Inserts, removes and looks up at random; `few` is about how many rules there are at a time.
fn live(seed: u64, few: u64, structure: Option<Structure>, matching: fn(&mut Dice) -> Match) -> String {
    let mut dice = Dice::new(seed);
    let (mut table, mut model) = (table(seed, structure), Model::default());
    let mut kept = Vec::new();
    for step in 0..few * 4 {
        let growing = (step / few).is_multiple_of(2);
        if !model.0.is_empty() && dice.below(4) < if growing { 1 } else { 3 } {
            let at = dice.below(model.0.len() as u64) as usize;
            let (matching, priority) = (model.0[at].matching.clone(), model.0[at].priority);
            assert_eq!(table.remove(&matching, priority), model.remove(&matching, priority));
            assert_eq!(table.remove(&matching, priority), None);
        } else {
            let (matching, priority) = (matching(&mut dice), dice.below(12) as u16);
            model.check_selection(&table, &matching, priority);
            let replaced = table.insert(matching.clone(), priority, step);
            assert_eq!(replaced, model.insert(matching, priority, step));
        }
        assert_eq!(table.len(), model.0.len());
        for _ in 0..2 {
            let key = key(&mut dice);
            model.check(&table, &key, &mut dice);
        }
        if dice.one_in(4) {
            model.check_selection(&table, &matching(&mut dice), dice.below(12) as u16);
        }
        if dice.one_in(few) {
            kept.push((table.clone(), model.clone()));
        }
        if dice.one_in(8) {
            table.settle();
        }
    }
    let structure = table.structure();
    kept.push((table, model));
    for (table, model) in kept {
        let mut rules: Vec<Rule<u64>> = table.iter().cloned().collect();
        let by_all = |rule: &Rule<u64>| (rule.priority, rule.matching.clone());
        rules.sort_by_key(by_all);
        let mut expected = model.0.clone();
        expected.sort_by_key(by_all);
        assert_eq!(rules, expected);
        for _ in 0..20 {
            let key = key(&mut dice);
            model.check(&table, &key, &mut dice);
        }
    }
    structure
}

#[test]
fn every_structure_answers_as_its_rules_say_and_names_bits_that_prove_it() {
    for round in 0..rounds(12) {
        for structure in STRUCTURES {
            for few in [6, 30, 120, 400] {
                live(round * 1000 + few, few, structure, matching);
            }
        }
    }
}

#[test]
fn routes_answer_as_they_say_and_name_bits_that_prove_it() {
    for round in 0..rounds(12) {
        for structure in STRUCTURES {
            live(round, 200, structure, route);
        }
    }
}

#[test]
fn the_structure_follows_the_rules() {
    let mut dice = Dice::new(1);
    let mut table = table(1, None);
    assert_eq!(table.structure(), "linear, 0 entries");
    let mac = |number: u64| {
        let mut matching = Match::any();
        matching.demand(Field::EthDst, number.into(), u128::MAX);
        matching
    };
    for number in 0..500 {
        table.insert(mac(number), 100, number);
    }
    assert_eq!(table.structure(), "hash, 500 entries");
    for number in 0..500 {
        table.remove(&mac(number), 100);
    }
    assert_eq!(table.structure(), "linear, 0 entries");
    for number in 0..300_u32 {
        let mut route = Match::any();
        let len = 8 + number % 24;
        let mask = u128::from(u32::MAX << (32 - len));
        route.demand(Field::NwDst, u128::from(number.wrapping_mul(0x9e37_79b1)) & mask, mask);
        table.insert(route, 1, 0);
    }
    assert!(table.structure().starts_with("prefixes of nw_dst, "), "{}", table.structure());
    for _ in 0..3000 {
        table.insert(matching(&mut dice), dice.below(100) as u16, 0);
    }
    assert!(table.structure().contains("merged tuples, "), "{}", table.structure());
    let tuples: usize = table.structure().split(' ').next().unwrap().parse().unwrap();
    assert!(tuples <= 49, "{tuples}");
}

/// Two thousand rules of a firewall: prefixes of both addresses, some with a port.
fn firewall(seed: u64) -> Table<u64> {
    let (mut dice, mut table) = (Dice::new(seed), table(seed, None));
    let prefix = |dice: &mut Dice| u128::from(u32::MAX) << dice.below(33) & u128::from(u32::MAX);
    for number in 0..2000 {
        let mut matching = Match::any();
        matching.demand(Field::EthType, 0x0800, 0xffff);
        for field in [Field::NwSrc, Field::NwDst] {
            let mask = prefix(&mut dice);
            matching.demand(field, u128::from(dice.next()) & mask, mask);
        }
        if dice.one_in(2) {
            matching.demand(Field::NwProto, 6, 0xff);
            matching.demand(Field::TcpDst, dice.below(1000).into(), 0xffff);
        }
        table.insert(matching, number as u16, number);
    }
    table
}

#[test]
fn traffic_made_to_draw_out_masks_draws_few_of_them_once_they_are_rounded() {
    let (table, mut dice) = (firewall(1), Dice::new(2));
    let (mut fine, mut rounded) = (HashSet::new(), HashSet::new());
    for _ in 0..20_000 {
        let mut key = Key::new();
        Field::EthType.set(&mut key, 0x0800);
        Field::NwProto.set(&mut key, 6);
        for field in [Field::NwSrc, Field::NwDst, Field::TcpSrc, Field::TcpDst] {
            field.set(&mut key, dice.next().into());
        }
        let mut examined = Mask::new();
        table.lookup(&key, &mut examined);
        fine.insert(examined.clone());
        quantise(&mut examined);
        rounded.insert(examined);
    }
    // Two addresses of five lengths, a port or none, a protocol or none.
    assert!(rounded.len() <= 5 * 5 * 2 * 2, "{} masks", rounded.len());
    assert!(fine.len() > rounded.len(), "{} masks", fine.len());
}
