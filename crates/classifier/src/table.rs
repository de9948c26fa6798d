//! Tables: prioritised matches that can be looked up, changed, and kept as they were.
//!
//! What: the model of an OpenFlow table's matching. Two lookups: [`Table::find`] only finds, for
//! classifying without caches; [`Table::lookup`] also names the bits of the key on which its answer
//! depended, of which a megaflow is made: every key that agrees in those has the same answer. Naming a
//! bit too many costs cache entries, naming one too few sends packets wrong, and a test flips
//! unnamed bits to see that it does not happen.
//!
//! Why persistent: workers read a table while the control thread changes its copy, and pick the new
//! one up between bursts. A clone is one pointer; a change after cloning copies a few lists of about the cube
//! root of n pointers (`sharded`).
//!
//! Structure: chosen by shape, and chosen again as rules come and go.
//! - *linear*: a few rules, or few rules a mask: compared one by one;
//! - *hash*: one mask;
//! - *prefixes*: masks that differ in the prefix length of one field;
//! - *tuples*: some masks, best first;
//! - *merged tuples*: many masks, put together so that probes have a bound;
//! - *rule vectors*: prefixes or many masks of some thousand rules at most, once the table has settled
//!   ([`Table::settle`]); beside the tuples, which take changes in the meantime.
//!
//! Rules that are part of conjunctive matches decide nothing by themselves. They are a table of their own beside the
//! others, asked only where there are any: see `conjunctive`.
//!
//! Each has its module, with its cost. Threads: as `Arc`; no interior mutability.

mod conjunctive;
mod figures;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use weir_flow::{Key, Mask, Match, Seed};

use crate::linear::Linear;
use crate::rule::{Clause, Rule};
use crate::space::Space;
use crate::vectors::{MOST_RULES, Vectors};

/// So few rules are always compared one by one.
const FEW: usize = 8;

/// So many are, when nearly each has a mask of its own.
const DIVERSE: usize = 64;

/// How many rules are compared in the time of one probe of a tuple.
const COMPARED_A_PROBE: usize = 4;

/// Prioritised matches.
pub struct Table<T>(Arc<Inner<T>>);

struct Inner<T> {
    seed: Seed,
    body: Body<T>,
    /// Made of the same rules, since they changed last.
    vectors: Option<Arc<Vectors<T>>>,
    /// The rules that are part of conjunctive matches, if there are any. All else here is without them.
    soft: Option<Table<T>>,
    len: usize,
    /// Terms of all rules together.
    terms: usize,
    /// The number of rules when the structure was chosen; of exact tuples the most since.
    reviewed: usize,
    /// A structure that was asked for instead.
    forced: Option<Structure>,
    /// Whether many rules are to come.
    gathering: bool,
}

#[expect(clippy::large_enum_variant, reason = "a table has one; a box would cost each lookup a cache line")]
enum Body<T> {
    Linear(Linear<T>),
    Space(Space<T>),
}

/// What rules are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// A list.
    Linear,
    /// A hash table for each mask; longest prefix match where that is what the masks are.
    Tuples,
    /// A hash table for several masks together.
    Merged,
    /// A bit a rule for each slice of the key.
    Vectors,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for Inner<T> {
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Linear(list) => Body::Linear(list.clone()),
            Body::Space(space) => Body::Space(space.clone()),
        };
        let (vectors, soft) = (self.vectors.clone(), self.soft.clone());
        let Self { seed, len, terms, reviewed, forced, gathering, .. } = *self;
        Self { seed, body, vectors, soft, len, terms, reviewed, forced, gathering }
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("structure", &self.structure()).finish_non_exhaustive()
    }
}

/// The structure that suits these rules.
fn suits<T>(rules: &[Arc<Rule<T>>]) -> Structure {
    if rules.len() <= FEW {
        return Structure::Linear;
    }
    let masks: HashSet<Mask> = rules.iter().map(|rule| rule.matching.mask()).collect();
    if rules.len() <= DIVERSE && masks.len() * COMPARED_A_PROBE >= rules.len() {
        Structure::Linear
    } else {
        Structure::Tuples
    }
}

impl<T> Body<T> {
    fn rules(&self) -> Vec<Arc<Rule<T>>> {
        match self {
            Self::Linear(list) => list.rules().to_vec(),
            Self::Space(space) => space.iter().cloned().collect(),
        }
    }

    fn build(rules: &[Arc<Rule<T>>], structure: Structure, seed: Seed, forced: bool) -> Self {
        if matches!(structure, Structure::Linear | Structure::Vectors) {
            return Self::Linear(Linear::new(rules.to_vec()));
        }
        let mut space = Space::new(structure == Structure::Merged);
        for (number, rule) in rules.iter().enumerate() {
            space.insert(seed, Arc::clone(rule));
            // Sure to stay crowded: what follows can only add masks.
            if !forced && space.crowded() && number >= DIVERSE {
                return Self::build(rules, Structure::Merged, seed, true);
            }
        }
        if !forced && space.crowded() {
            return Self::build(rules, Structure::Merged, seed, true);
        }
        Self::Space(space)
    }
}

impl<T> Inner<T> {
    /// Chooses the structure again when the shape may have changed.
    fn review(&mut self) {
        if self.forced.is_some() {
            return;
        }
        let due = match &self.body {
            Body::Linear(_) => self.len > FEW && self.len > self.reviewed,
            Body::Space(space) if space.merged() => {
                self.len * 2 < self.reviewed || self.len > self.reviewed * 2
            }
            // Where each mask has its tuple, more or fewer rules of these masks change nothing but for a few.
            Body::Space(space) => space.crowded() || (self.len <= DIVERSE && self.len * 2 < self.reviewed),
        };
        if due {
            let rules = self.body.rules();
            self.reviewed = self.len;
            self.body = Body::build(&rules, suits(&rules), self.seed, false);
            if let (Body::Space(space), true) = (&mut self.body, self.gathering) {
                space.gather();
            }
        } else if let Body::Space(space) = &self.body
            && !space.merged()
        {
            self.reviewed = self.reviewed.max(self.len);
        }
    }
}

impl<T> Table<T> {
    /// A table without rules.
    pub fn new(seed: Seed) -> Self {
        let body = Body::Linear(Linear::new(Vec::new()));
        Self::without_rules(seed, body, None)
    }

    /// A table whose structure does not follow its rules: to compare structures.
    pub fn of_structure(seed: Seed, structure: Structure) -> Self {
        let body = Body::build(&[], structure, seed, true);
        Self::without_rules(seed, body, Some(structure))
    }

    fn without_rules(seed: Seed, body: Body<T>, forced: Option<Structure>) -> Self {
        let (vectors, soft, gathering) = (None, None, false);
        Self(Arc::new(Inner { seed, body, vectors, soft, len: 0, terms: 0, reviewed: 0, forced, gathering }))
    }

    /// Rules in it.
    pub fn len(&self) -> usize {
        self.0.len + self.0.soft.as_ref().map_or(0, Self::len)
    }

    /// Whether it has no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rule of the highest priority that matches; where a conjunctive match of a higher priority does, the rule of the
    /// highest priority that matches the key with the conjunction's number in `conj_id`. `examined` additionally names
    /// every bit of the key on which that depended: keys that agree in those bits have the same answer. Of rules of
    /// equal priority that match, one is chosen, the same for all keys that agree.
    pub fn lookup(&self, key: &Key, examined: &mut Mask) -> Option<&Rule<T>> {
        let found = self.hard_lookup(key, examined);
        match &self.0.soft {
            None => found,
            Some(soft) => self.conjunctive(soft, (key, found), Some(examined)),
        }
    }

    /// The rule that [`Table::lookup`] finds, faster.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<&Rule<T>> {
        let found = self.hard_find(key);
        match &self.0.soft {
            None => found,
            Some(soft) => self.conjunctive(soft, (key, found), None),
        }
    }

    /// [`Table::lookup`] without conjunctive matches.
    fn hard_lookup(&self, key: &Key, examined: &mut Mask) -> Option<&Rule<T>> {
        if let Some(vectors) = &self.0.vectors {
            return vectors.lookup(key, examined).map(|rule| &**rule);
        }
        match &self.0.body {
            Body::Linear(list) => list.lookup(key, examined).map(|rule| &**rule),
            Body::Space(space) => space.lookup(self.0.seed, key, examined).map(|rule| &**rule),
        }
    }

    /// [`Table::find`] without conjunctive matches.
    #[inline]
    fn hard_find(&self, key: &Key) -> Option<&Rule<T>> {
        if let Some(vectors) = &self.0.vectors {
            return vectors.find(key).map(|rule| &**rule);
        }
        match &self.0.body {
            Body::Linear(list) => list.find(key).map(|rule| &**rule),
            Body::Space(space) => space.find(self.0.seed, key).map(|rule| &**rule),
        }
    }

    /// The rule with exactly this match and priority, if it is no part of a conjunctive match.
    fn hard(&self, matching: &Match, priority: u16) -> Option<&Rule<T>> {
        let rule = (priority, matching);
        let found = match &self.0.body {
            Body::Linear(list) => list.get(rule),
            Body::Space(space) => space.get(self.0.seed, rule),
        };
        found.map(|rule| &**rule)
    }

    /// The value of the rule with exactly this match and priority.
    pub fn get(&self, matching: &Match, priority: u16) -> Option<&T> {
        match (self.hard(matching, priority), &self.0.soft) {
            (Some(rule), _) => Some(&rule.value),
            (None, Some(soft)) => soft.get(matching, priority),
            (None, None) => None,
        }
    }

    /// The rules that demand all that a match does. Where that match names the bits by which rules are kept, as
    /// one that is of the same mask does, it costs a lookup; a tuple that does not name all bits of the match
    /// costs nothing; of others every rule is compared, in tens of nanoseconds each.
    pub fn within<'a>(&'a self, matching: &'a Match) -> Box<dyn Iterator<Item = &'a Rule<T>> + 'a> {
        let hard: Box<dyn Iterator<Item = &'a Rule<T>> + 'a> = match &self.0.body {
            Body::Linear(list) => {
                let rules = list.rules().iter().map(|rule| &**rule);
                Box::new(rules.filter(|rule| matching.covers(&rule.matching)))
            }
            Body::Space(space) => Box::new(space.within(self.0.seed, matching).map(|rule| &**rule)),
        };
        match &self.0.soft {
            None => hard,
            Some(soft) => Box::new(hard.chain(soft.within(matching))),
        }
    }

    /// A rule of this priority but of another match that some keys match as well. Costs what
    /// [`Table::within`] does, but for tuples that have no rule of such a priority.
    pub fn overlap(&self, matching: &Match, priority: u16) -> Option<&Rule<T>> {
        let hard = match &self.0.body {
            Body::Linear(list) => {
                list.rules().iter().map(|rule| &**rule).find(|rule| rule.overlaps(priority, matching))
            }
            Body::Space(space) => space.overlap(self.0.seed, (priority, matching)).map(|rule| &**rule),
        };
        hard.or_else(|| self.0.soft.as_ref()?.overlap(matching, priority))
    }

    /// Whether [`Table::settle`] would do something.
    pub fn is_unsettled(&self) -> bool {
        let suits = match (self.0.forced, &self.0.body) {
            (Some(forced), _) => forced == Structure::Vectors,
            (None, Body::Linear(_)) => false,
            (None, Body::Space(space)) => space.merged() || space.by_prefix().is_some(),
        };
        suits && self.0.vectors.is_none() && (1..=MOST_RULES).contains(&self.0.len)
    }

    /// Makes what is worth its time only when no change follows at once. Lookups answer the same with and
    /// without, so that it may be left out, or done later.
    pub fn settle(&mut self) {
        if self.is_unsettled() {
            let vectors = Vectors::new(self.0.body.rules()).map(Arc::new);
            Arc::make_mut(&mut self.0).vectors = vectors;
        }
    }

    /// All rules, in no order that means anything.
    pub fn iter(&self) -> Box<dyn Iterator<Item = &Rule<T>> + '_> {
        let hard: Box<dyn Iterator<Item = &Rule<T>> + '_> = match &self.0.body {
            Body::Linear(list) => Box::new(list.rules().iter().map(|rule| &**rule)),
            Body::Space(space) => Box::new(space.iter().map(|rule| &**rule)),
        };
        match &self.0.soft {
            None => hard,
            Some(soft) => Box::new(hard.chain(soft.iter())),
        }
    }
}

impl<T: Clone> Table<T> {
    /// Many rules are to come: they are added faster, and until [`Table::gathered`] lookups are slower and name more
    /// bits than they have to.
    pub fn gather(&mut self) {
        if self.0.gathering {
            return;
        }
        let inner = Arc::make_mut(&mut self.0);
        inner.gathering = true;
        if let Body::Space(space) = &mut inner.body {
            space.gather();
        }
        if let Some(soft) = &mut inner.soft {
            soft.gather();
        }
    }

    /// Whether rules are being gathered.
    pub fn is_gathering(&self) -> bool {
        self.0.gathering
    }

    /// The many rules have come.
    pub fn gathered(&mut self) {
        if !self.0.gathering {
            return;
        }
        let inner = Arc::make_mut(&mut self.0);
        inner.gathering = false;
        if let Body::Space(space) = &mut inner.body {
            space.settle();
        }
        if let Some(soft) = &mut inner.soft {
            soft.gathered();
        }
    }

    /// The value of the rule with exactly this match and priority, to change it: older clones keep
    /// the old one.
    pub fn get_mut(&mut self, matching: &Match, priority: u16) -> Option<&mut T> {
        if self.hard(matching, priority).is_none() {
            self.0.soft.as_ref()?.get(matching, priority)?;
            return Arc::make_mut(&mut self.0).soft.as_mut()?.get_mut(matching, priority);
        }
        let rule = (priority, matching);
        let inner = Arc::make_mut(&mut self.0);
        inner.vectors = None;
        let found = match &mut inner.body {
            Body::Linear(list) => list.get_mut(rule),
            Body::Space(space) => space.get_mut(inner.seed, rule),
        };
        found.map(|rule| &mut Arc::make_mut(rule).value)
    }

    /// Adds a rule. One of the same match and priority is replaced: its value is returned.
    pub fn insert(&mut self, matching: Match, priority: u16, value: T) -> Option<T> {
        if let Some(old) = self.remove_soft(&matching, priority) {
            self.add(Rule { matching, priority, value, clauses: None });
            return Some(old);
        }
        if let Some(old) = self.get_mut(&matching, priority) {
            return Some(std::mem::replace(old, value));
        }
        self.add(Rule { matching, priority, value, clauses: None });
        None
    }

    /// The same of a rule that is part of conjunctive matches, and never found by itself.
    pub fn insert_conjunctive(
        &mut self,
        matching: Match,
        priority: u16,
        value: T,
        clauses: Arc<[Clause]>,
    ) -> Option<T> {
        let old = self.remove(&matching, priority);
        let inner = Arc::make_mut(&mut self.0);
        let soft = inner.soft.get_or_insert_with(|| {
            let mut soft = match inner.forced {
                Some(forced) => Self::of_structure(inner.seed, forced),
                None => Self::new(inner.seed),
            };
            if inner.gathering {
                soft.gather();
            }
            soft
        });
        soft.add(Rule { matching, priority, value, clauses: Some(clauses) });
        old
    }

    /// Adds a rule that is not there.
    fn add(&mut self, rule: Rule<T>) {
        let inner = Arc::make_mut(&mut self.0);
        inner.vectors = None;
        inner.terms += rule.matching.terms().len();
        let rule = Arc::new(rule);
        match &mut inner.body {
            Body::Linear(list) => list.insert(rule),
            Body::Space(space) => space.insert(inner.seed, rule),
        }
        inner.len += 1;
        inner.review();
    }

    /// Takes out the rule with exactly this match and priority.
    pub fn remove(&mut self, matching: &Match, priority: u16) -> Option<T> {
        if self.hard(matching, priority).is_none() {
            return self.remove_soft(matching, priority);
        }
        let inner = Arc::make_mut(&mut self.0);
        inner.vectors = None;
        let removed = match &mut inner.body {
            Body::Linear(list) => list.remove((priority, matching)),
            Body::Space(space) => space.remove(inner.seed, (priority, matching)),
        };
        let removed = removed.map(|rule| Arc::unwrap_or_clone(rule).value);
        inner.len -= 1;
        inner.terms -= matching.terms().len();
        inner.review();
        removed
    }

    /// The same of one that is part of conjunctive matches.
    fn remove_soft(&mut self, matching: &Match, priority: u16) -> Option<T> {
        self.0.soft.as_ref()?.get(matching, priority)?;
        let inner = Arc::make_mut(&mut self.0);
        let soft = inner.soft.as_mut()?;
        let removed = soft.remove(matching, priority);
        if soft.is_empty() {
            inner.soft = None;
        }
        removed
    }
}
