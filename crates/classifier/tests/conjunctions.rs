//! Conjunctive matches against their plain meaning, one rule after the other.

use crate::common::{Dice, key, matching, mixed, rounds};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_classifier::{Clause, Rule, Structure, Table};
use weir_flow::{Field, Key, Mask, Match, Seed};

/// Rules in no order, compared one by one.
#[derive(Clone, Default)]
struct Model(Vec<Rule<u64>>);

impl Model {
    fn remove(&mut self, matching: &Match, priority: u16) -> Option<u64> {
        let at = self.0.iter().position(|rule| rule.matching == *matching && rule.priority == priority)?;
        Some(self.0.swap_remove(at).value)
    }

    fn insert(&mut self, rule: Rule<u64>) -> Option<u64> {
        let old = self.remove(&rule.matching, rule.priority);
        self.0.push(rule);
        old
    }

    /// The rules without clauses that match and have the highest priority.
    fn best(&self, key: &Key) -> Vec<&Rule<u64>> {
        let hard: Vec<_> =
            self.0.iter().filter(|rule| rule.clauses.is_none() && rule.matching.matches(key)).collect();
        let top = hard.iter().map(|rule| rule.priority).max();
        hard.into_iter().filter(|rule| Some(rule.priority) == top).collect()
    }

    /// The conjunctions of a priority that hold, the least number first.
    fn whole(&self, key: &Key, priority: u16) -> BTreeSet<u32> {
        let met = |rule: &&Rule<u64>| {
            rule.clauses.is_some() && rule.priority == priority && rule.matching.matches(key)
        };
        let soft: Vec<_> = self.0.iter().filter(met).collect();
        let mut dimensions: BTreeMap<(u32, u8), BTreeSet<u8>> = BTreeMap::new();
        for clause in soft.iter().flat_map(|rule| rule.clauses.as_ref().unwrap().iter()) {
            dimensions.entry((clause.id, clause.dimensions)).or_default().insert(clause.dimension);
        }
        let holds = |((_, most), met): &(&(u32, u8), &BTreeSet<u8>)| {
            met.len() >= usize::from(*most) && soft.len() >= usize::from(*most)
        };
        dimensions.iter().filter(holds).map(|((id, _), _)| *id).collect()
    }

    /// Any of these may be the answer; none if there are none.
    fn answers(&self, key: &Key) -> Vec<&Rule<u64>> {
        let priorities: BTreeSet<u16> = self.0.iter().map(|rule| rule.priority).collect();
        let hard = self.best(key);
        for priority in priorities.into_iter().rev() {
            if hard.first().is_some_and(|rule| rule.priority >= priority) {
                break;
            }
            for id in self.whole(key, priority) {
                let mut with = key.clone();
                Field::ConjId.set(&mut with, id.into());
                let found = self.best(&with);
                if !found.is_empty() {
                    return found;
                }
            }
        }
        hard
    }

    /// The table's answer is right, and so it is for keys that differ in bits that were not named.
    fn check(&self, table: &Table<u64>, key: &Key, dice: &mut Dice) -> bool {
        let mut examined = Mask::new();
        let (shape, answers) = (table.structure(), self.answers(key));
        let answer = table.lookup(key, &mut examined);
        assert_eq!(answer, table.find(key), "{shape}: {key:?}");
        match answer {
            Some(rule) => assert!(answers.contains(&rule), "{shape}: {rule:?}, not {answers:?}, of {key:?}"),
            None => assert!(answers.is_empty(), "{shape}: nothing, and not {answers:?}, of {key:?}"),
        }
        for _ in 0..6 {
            let mut other = crate::common::key(dice);
            if dice.one_in(2) {
                for place in 0..weir_flow::WORDS {
                    other.set_word(place, dice.next());
                }
            }
            let other = mixed(key, &examined, &other);
            assert_eq!(table.find(&other), answer, "{shape}: {examined:?} of {key:?}, {other:?}");
            let expected = self.answers(&other);
            assert!(
                answer.is_none_or(|rule| expected.contains(&rule))
                    && (answer.is_some() || expected.is_empty())
            );
        }
        answer.is_some_and(|rule| !rule.matching.matches(key))
    }
}

/// A rule of one of few conjunctions, one to which such lead, or an ordinary one.
fn rule(dice: &mut Dice, value: u64) -> Rule<u64> {
    let mut rule = Rule { matching: matching(dice), priority: dice.below(6) as u16, value, clauses: None };
    match dice.below(8) {
        0 => {}
        1 | 2 => rule.matching.demand(Field::ConjId, dice.below(5).into(), u128::MAX),
        _ => {
            // One field, mostly, as dimensions are: rules of several seldom hold at once.
            if !dice.one_in(3) {
                rule.matching = Match::any();
                let field =
                    [Field::NwSrc, Field::NwDst, Field::TcpDst, Field::InPort][dice.below(4) as usize];
                let mask = if dice.one_in(3) { u128::from(u32::MAX << dice.below(12)) } else { u128::MAX };
                rule.matching.demand(field, crate::common::value(dice, field), mask);
            }
            let clause = |dice: &mut Dice| {
                let id = 1 + dice.below(4) as u32;
                // The same conjunction has as many dimensions everywhere, but seldom.
                let dimensions = if dice.one_in(40) { 3 } else { 2 + (id % 2) as u8 };
                Clause { id, dimensions, dimension: dice.below(dimensions.into()) as u8 }
            };
            rule.clauses = Some((0..1 + dice.below(3)).map(|_| clause(dice)).collect());
        }
    }
    rule
}

fn put(table: &mut Table<u64>, rule: Rule<u64>) -> Option<u64> {
    let Rule { matching, priority, value, clauses } = rule;
    match clauses {
        Some(clauses) => table.insert_conjunctive(matching, priority, value, clauses),
        None => table.insert(matching, priority, value),
    }
}

/// Inserts, removes and looks up at random; how many packets a conjunction decided.
fn live(seed: u64, few: u64, structure: Option<Structure>) -> u64 {
    let mut dice = Dice::new(seed);
    let mut table = match structure {
        None => Table::new(Seed::new(seed)),
        Some(structure) => Table::of_structure(Seed::new(seed), structure),
    };
    let (mut model, mut decided, mut kept) = (Model::default(), 0, Vec::new());
    for step in 0..few * 4 {
        let growing = (step / few).is_multiple_of(2);
        if !model.0.is_empty() && dice.below(4) < if growing { 1 } else { 3 } {
            let at = dice.below(model.0.len() as u64) as usize;
            let (matching, priority) = (model.0[at].matching.clone(), model.0[at].priority);
            if dice.one_in(4) {
                // It becomes another rule: with clauses instead of without, or the other way round.
                let new = Rule { matching, priority, ..rule(&mut dice, step) };
                assert_eq!(put(&mut table, new.clone()), model.insert(new));
            } else {
                assert_eq!(table.remove(&matching, priority), model.remove(&matching, priority));
                assert_eq!(table.remove(&matching, priority), None);
            }
        } else {
            let new = rule(&mut dice, step);
            assert_eq!(put(&mut table, new.clone()), model.insert(new));
        }
        assert_eq!(table.len(), model.0.len());
        for _ in 0..3 {
            let key = key(&mut dice);
            decided += u64::from(model.check(&table, &key, &mut dice));
        }
        if dice.one_in(few) {
            kept.push((table.clone(), model.clone()));
        }
        if dice.one_in(8) {
            table.settle();
        }
        if dice.one_in(16) {
            let within = matching(&mut dice);
            let mut found: Vec<u64> = table.within(&within).map(|rule| rule.value).collect();
            let meant = model.0.iter().filter(|rule| within.covers(&rule.matching));
            let mut meant: Vec<u64> = meant.map(|rule| rule.value).collect();
            found.sort_unstable();
            meant.sort_unstable();
            assert_eq!(found, meant);
        }
    }
    for (table, model) in kept {
        let mut rules: Vec<Rule<u64>> = table.iter().cloned().collect();
        let mut expected = model.0.clone();
        for list in [&mut rules, &mut expected] {
            list.sort_by_key(|rule| (rule.priority, rule.matching.clone()));
        }
        assert_eq!(rules, expected);
        for rule in &rules {
            assert_eq!(table.get(&rule.matching, rule.priority), Some(&rule.value));
        }
        for _ in 0..20 {
            let key = key(&mut dice);
            model.check(&table, &key, &mut dice);
        }
    }
    decided
}

#[test]
fn conjunctions_of_every_structure_answer_as_their_rules_say_and_name_bits_that_prove_it() {
    let structures = [Structure::Linear, Structure::Tuples, Structure::Merged, Structure::Vectors];
    let mut decided = 0;
    for round in 0..rounds(6) {
        for structure in std::iter::once(None).chain(structures.map(Some)) {
            for few in [12, 60, 300] {
                decided += live(round * 1000 + few, few, structure);
            }
        }
    }
    assert!(decided > 2000 * rounds(1), "conjunctions decided {decided} packets only");
}

/// So many sources to so many destinations, and one rule for all of these pairs.
fn grid(values: u32) -> Table<u64> {
    let mut table = Table::new(Seed::new(1));
    table.insert(Match::any(), 0, 0);
    let mut leads = Match::any();
    leads.demand(Field::ConjId, 7, u128::MAX);
    table.insert(leads, 100, 7);
    for (dimension, field, network) in [(0, Field::NwSrc, 0x0a00_0000), (1, Field::NwDst, 0x0b00_0000)] {
        for number in 0..values {
            let mut matching = Match::any();
            matching.demand(Field::EthType, 0x0800, 0xffff);
            matching.demand(field, u128::from(network + number), u128::MAX);
            let clause = Clause { id: 7, dimensions: 2, dimension };
            table.insert_conjunctive(matching, 100, 1, Arc::new([clause]));
        }
    }
    table
}

fn pair(source: u32, destination: u32) -> Key {
    let mut key = Key::new();
    Field::EthType.set(&mut key, 0x0800);
    Field::NwSrc.set(&mut key, source.into());
    Field::NwDst.set(&mut key, destination.into());
    key
}

#[test]
fn a_thousand_by_a_thousand_values_are_two_thousand_rules_and_two_tuples() {
    let table = grid(1000);
    assert_eq!(table.len(), 2002);
    let shape = table.structure();
    assert_eq!(shape, "linear, 2 entries; of conjunctions: 2 tuples, 2000 entries");
    let mut dice = Dice::new(3);
    for _ in 0..2000 {
        let (source, destination) = (dice.below(1100) as u32, dice.below(1100) as u32);
        let key = pair(0x0a00_0000 + source, 0x0b00_0000 + destination);
        let expected = if source < 1000 && destination < 1000 { 7 } else { 0 };
        assert_eq!(table.find(&key).map(|rule| rule.value), Some(expected));
        let mut examined = Mask::new();
        assert_eq!(table.lookup(&key, &mut examined).map(|rule| rule.value), Some(expected));
        assert_eq!(Field::ConjId.mask_of(&examined), 0xffff_ffff, "asked by the lookup without conjunctions");
        assert_eq!(Field::TcpDst.mask_of(&examined), 0);
    }
    let mut examined = Mask::new();
    table.lookup(&pair(0xc612_0000, 0x0b00_0001), &mut examined);
    assert!(
        Field::NwSrc.mask_of(&examined).count_ones() < 32,
        "a source of another network is told by fewer bits"
    );
    let met = table.dimensions_met(&pair(0x0a00_0001, 0x0b00_0001), 7);
    assert_eq!(
        met.iter().map(|rule| rule.clauses.as_ref().unwrap()[0].dimension).collect::<Vec<_>>().len(),
        2
    );
}

#[test]
fn dimensions_of_many_masks_are_merged_so_that_their_probes_have_a_bound() {
    let (mut dice, mut table) = (Dice::new(5), Table::new(Seed::new(5)));
    for number in 0..3000_u64 {
        let mut matching = matching(&mut dice);
        matching.demand(Field::NwSrc, dice.next().into(), u128::from(u32::MAX << dice.below(32)));
        let clause = Clause { id: number as u32 % 50, dimensions: 3, dimension: (number % 3) as u8 };
        table.insert_conjunctive(matching, dice.below(40) as u16, number, Arc::new([clause]));
    }
    let shape = table.structure();
    let merged = shape.split("of conjunctions: ").nth(1).unwrap();
    assert!(merged.contains("merged tuples"), "{shape}");
    assert!(merged.split(' ').next().unwrap().parse::<usize>().unwrap() <= 49, "{shape}");
}

#[test]
fn a_table_forgets_that_it_had_conjunctions() {
    let mut table = grid(2);
    assert!(table.structure().contains("of conjunctions"));
    let all: Vec<Rule<u64>> = table.iter().cloned().collect();
    for rule in all {
        assert_eq!(table.remove(&rule.matching, rule.priority), Some(rule.value));
    }
    assert!(table.is_empty());
    assert_eq!(table.structure(), "linear, 0 entries");
}
