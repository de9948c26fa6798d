//! Conjunctive matches (`ovs-fields(7)`, "Conjunctive Match"): of several sets of rules one of each has to match.
//!
//! What: a rule with clauses says that its keys meet a dimension of some conjunctions. Where rules of one priority meet
//! all dimensions of one, and no other rule of that priority or a higher one matches, the key is looked up once more,
//! with the conjunction's number in `conj_id` and without rules that have clauses. What that finds is the answer, of
//! whatever priority it is. If it finds nothing the conjunction counts for nothing, and lower priorities follow. This
//! is what Open vSwitch does, down to two rules of its own: a conjunction of n dimensions needs n rules of its priority
//! to match, even where one rule has several of its clauses; and among conjunctions of one priority any may be chosen
//! (here the least number).
//!
//! Design: the rules with clauses are a table beside the others, with a structure of the same kinds. The lookup without
//! them comes first, so that only tuples of a higher priority than what it found are probed. Each tuple is probed once
//! and all rules at its place are taken, so 1,000 × 1,000 values are 2,000 rules in two tuples, and two probes.
//!
//! Cost: two lookups without conjunctions, a probe a tuple (merged ones have a bound), and sorting the clauses that
//! were met. A table without such rules costs one comparison more. Threads: what is met lies in a list of the thread's
//! own, so that no lookup allocates once it is as long as it has to be.

use super::{Body, Table};
use crate::rule::{Clause, Rule};
use std::cell::RefCell;
use std::cmp::Reverse;
use weir_flow::{Field, Key, Mask};

/// What the rules say that match a key.
#[derive(Default)]
struct Met {
    /// The clauses, with the priority of their rule.
    clauses: Vec<(Reverse<u16>, Clause)>,
    /// The priority of each rule.
    ranks: Vec<u16>,
}

thread_local! {
    static MET: RefCell<Met> = RefCell::default();
}

impl Met {
    fn clear(&mut self) {
        self.clauses.clear();
        self.ranks.clear();
    }

    fn note<T>(&mut self, rule: &Rule<T>) {
        let clauses = rule.clauses.iter().flat_map(|clauses| clauses.iter());
        self.clauses.extend(clauses.map(|clause| (Reverse(rule.priority), *clause)));
        self.ranks.push(rule.priority);
    }

    /// The conjunctions all of whose dimensions are met, best first.
    fn whole(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.clauses.sort_unstable();
        let of_one = |a: &(Reverse<u16>, Clause), b: &(Reverse<u16>, Clause)| {
            (a.0, a.1.id, a.1.dimensions) == (b.0, b.1.id, b.1.dimensions)
        };
        let ranks = &self.ranks;
        self.clauses.chunk_by(of_one).filter_map(|clauses| {
            let &(Reverse(priority), Clause { id, dimensions, .. }) = clauses.first()?;
            let met = clauses.iter().fold(0_u64, |met, (_, clause)| met | 1 << (clause.dimension & 63));
            let rules = ranks.iter().filter(|rank| **rank == priority).count();
            (met.count_ones() >= dimensions.into() && rules >= dimensions.into()).then_some(id)
        })
    }
}

impl<T> Table<T> {
    /// The answer for a key, where this is the one without conjunctive matches.
    #[inline(never)]
    pub(super) fn conjunctive<'a>(
        &'a self,
        soft: &Self,
        (key, hard): (&Key, Option<&'a Rule<T>>),
        mut examined: Option<&mut Mask>,
    ) -> Option<&'a Rule<T>> {
        let above = hard.map(|rule| rule.priority);
        MET.with_borrow_mut(|met| {
            met.clear();
            soft.each((key, above), examined.as_deref_mut(), |rule| met.note(rule));
            met.whole().find_map(|id| self.with_number(key, id, examined.as_deref_mut())).or(hard)
        })
    }

    /// What a key finds once a conjunction's dimensions are met.
    fn with_number(&self, key: &Key, id: u32, examined: Option<&mut Mask>) -> Option<&Rule<T>> {
        let mut key = key.clone();
        Field::ConjId.set(&mut key, id.into());
        let Some(examined) = examined else { return self.hard_find(&key) };
        let mut more = Mask::new();
        let found = self.hard_lookup(&key, &mut more);
        // That number is none of the key's own bits: it follows from those that were named already.
        for (place, _, bits) in Field::ConjId.spread(0, u128::MAX) {
            more.remove(place, bits);
        }
        examined.union(&more);
        found
    }

    /// All rules of a higher priority than `above` that match a key, naming bits where that is asked for.
    fn each(
        &self,
        (key, above): (&Key, Option<u16>),
        examined: Option<&mut Mask>,
        meet: impl FnMut(&Rule<T>),
    ) {
        match (&self.0.body, examined) {
            (Body::Linear(list), examined) => list.each((key, above), examined, meet),
            (Body::Space(space), None) => space.each((self.0.seed, key), above, meet),
            (Body::Space(space), Some(examined)) => {
                space.each_named((self.0.seed, key), above, examined, meet);
            }
        }
    }

    /// The rules by which a key meets dimensions of a conjunction, whatever their priority: for people who ask why
    /// it was chosen.
    pub fn dimensions_met(&self, key: &Key, id: u32) -> Vec<&Rule<T>> {
        let of_it = |rule: &&Rule<T>| {
            let clauses = rule.clauses.iter().flat_map(|clauses| clauses.iter());
            rule.matching.matches(key) && clauses.into_iter().any(|clause| clause.id == id)
        };
        self.0.soft.iter().flat_map(Self::iter).filter(of_it).collect()
    }
}
