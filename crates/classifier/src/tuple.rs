//! One tuple of a tuple space: the rules that are found by the same bits, in one hash table.
//!
//! An *exact* tuple holds rules whose mask is the tuple's: rules that share a place differ in nothing
//! but their priority. A *merged* tuple has a coarser mask than its rules, so that rules of many masks
//! need one probe together; then rules that share a place are compared one by one, best first.
//!
//! A lookup that has to tell which bits it depended on goes in stages (see `slices`): for each stage
//! but the last a counted set of hashes says whether any rule agrees with the key so far. The first
//! stage that has none ends the lookup, and bits of later stages stay wild. Before a stage is hashed,
//! the tries of its fields may say the same by even fewer bits.
//!
//! Cost: a probe is one hash of a few words and four lines of memory; one more hash probe a stage
//! when bits are told. A change copies one shard of each of at most four hash tables.
//! Threads: as `Arc`.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_flow::{Key, Mask, Match, Seed};

use crate::rule::Rule;
use crate::sharded::Sharded;
use crate::slices::{self, STAGES};
use crate::trie::{self, Trie, Walk};

/// Rules of one place: the best first, the rest of them behind it.
#[derive(Debug)]
struct Bucket<T> {
    first: Arc<Rule<T>>,
    rest: Vec<Arc<Rule<T>>>,
}

impl<T> Clone for Bucket<T> {
    fn clone(&self) -> Self {
        Self { first: Arc::clone(&self.first), rest: self.rest.clone() }
    }
}

impl<T> Bucket<T> {
    fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// Bits of one word that are hashed together.
#[derive(Clone, Copy, Debug)]
struct Part {
    place: u8,
    mask: u64,
}

impl Part {
    #[inline]
    fn of(self, key: &Key) -> u64 {
        key.word(usize::from(self.place)) & self.mask
    }
}

/// A tuple's mask, prepared.
#[derive(Debug)]
struct Plan {
    mask: Mask,
    /// In the order of stages.
    parts: Vec<Part>,
    /// Where the stages end among the parts.
    ends: [usize; STAGES],
    /// Number in [`trie::FIELDS`] and length of the prefixes among the mask.
    prefixes: Vec<(usize, u8)>,
}

impl Plan {
    fn new(mask: Mask) -> Self {
        let (mut parts, mut ends) = (Vec::<Part>::new(), [0; STAGES]);
        for (stage, end) in ends.iter_mut().enumerate() {
            for (place, word) in mask.iter() {
                let place = place as u8;
                let of_stage = slices::of(place).iter().filter(|slice| usize::from(slice.stage) == stage);
                let mask = word & of_stage.fold(0, |bits, slice| bits | slice.mask);
                if mask != 0 {
                    parts.push(Part { place, mask });
                }
            }
            *end = parts.len();
        }
        let prefix = |(number, &(field, _)): (usize, &(_, u8))| {
            Some((number, trie::prefix_len(field, &mask)?)).filter(|&(_, len)| len != 0)
        };
        let prefixes = trie::FIELDS.iter().enumerate().filter_map(prefix).collect();
        Self { mask, parts, ends, prefixes }
    }

    /// The stages but the last that have parts.
    fn early_stages(&self) -> impl Iterator<Item = usize> {
        (0..STAGES).filter(|&stage| {
            let start = if stage == 0 { 0 } else { self.ends[stage - 1] };
            start < self.ends[stage] && self.ends[stage] < self.parts.len()
        })
    }

    #[inline]
    fn hash(&self, seed: Seed, key: &Key) -> u64 {
        seed.finish(fold(seed, 0, &self.parts, key))
    }

    #[inline]
    fn same(&self, key: &Key, words: &[u64]) -> bool {
        self.parts.iter().zip(words).all(|(part, &word)| part.of(key) == word)
    }
}

#[inline]
fn fold(seed: Seed, hash: u64, parts: &[Part], key: &Key) -> u64 {
    parts.iter().fold(hash, |hash, part| seed.fold_with(hash, part.of(key), usize::from(part.place)))
}

/// The tries of a table, and what a lookup found in those it needed.
pub(crate) struct Walks<'a> {
    tries: &'a [Trie; 6],
    walks: [Option<Walk>; 6],
}

impl<'a> Walks<'a> {
    pub(crate) fn new(tries: &'a [Trie; 6]) -> Self {
        Self { tries, walks: [None; 6] }
    }

    fn of(&mut self, number: usize, key: &Key) -> &Walk {
        let walk = || self.tries[number].walk(trie::aligned(trie::FIELDS[number].0, key));
        self.walks[number].get_or_insert_with(walk)
    }
}

/// The rules that are found by the same bits.
#[derive(Debug)]
pub(crate) struct Tuple<T> {
    plan: Arc<Plan>,
    exact: bool,
    rules: Sharded<Bucket<T>>,
    /// For each of [`Plan::early_stages`]: the hashes so far, and how many buckets have them.
    stages: Vec<(usize, Sharded<u32>)>,
    len: usize,
    /// No rule's priority is higher.
    top: u16,
    /// Rules that were removed since `top` was the highest priority there was.
    stale: usize,
}

impl<T> Clone for Tuple<T> {
    fn clone(&self) -> Self {
        Self {
            plan: Arc::clone(&self.plan),
            exact: self.exact,
            rules: self.rules.clone(),
            stages: self.stages.clone(),
            len: self.len,
            top: self.top,
            stale: self.stale,
        }
    }
}

/// Where rules of equal place rank.
fn rank<T>(rule: &Rule<T>) -> (Reverse<u16>, &Match) {
    (Reverse(rule.priority), &rule.matching)
}

impl<T> Tuple<T> {
    pub(crate) fn new(mask: Mask, exact: bool) -> Self {
        let plan = Plan::new(mask);
        let stages = plan.early_stages().map(|stage| (stage, Sharded::new(0))).collect();
        let rules = Sharded::new(plan.parts.len());
        Self { plan: Arc::new(plan), exact, rules, stages, len: 0, top: 0, stale: 0 }
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.plan.mask
    }

    pub(crate) fn top(&self) -> u16 {
        self.top
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The length of the mask's prefix of a field, by its number in [`trie::FIELDS`]; 0 where it has
    /// none.
    pub(crate) fn prefix(&self, number: usize) -> u8 {
        self.plan.prefixes.iter().find(|prefix| prefix.0 == number).map_or(0, |prefix| prefix.1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.rules.iter().flat_map(Bucket::iter)
    }

    /// The rules that can agree with a key in the bits of a mask: those of one place where the mask says which.
    pub(crate) fn agreeing<'a>(
        &'a self,
        seed: Seed,
        key: &Key,
        mask: &Mask,
    ) -> impl Iterator<Item = &'a Arc<Rule<T>>> + use<'a, T> {
        let known = mask.covers(&self.plan.mask);
        let place = if known { self.bucket(seed, key) } else { None };
        let all = (!known).then(|| self.iter());
        place.into_iter().flat_map(Bucket::iter).chain(all.into_iter().flatten())
    }

    /// Whether it can hold a rule that demands all of these bits.
    pub(crate) fn can_demand(&self, mask: &Mask) -> bool {
        !self.exact || self.plan.mask.covers(mask)
    }

    pub(crate) fn memory(&self) -> usize {
        self.rules.memory() + self.stages.iter().map(|(_, set)| set.memory()).sum::<usize>()
    }

    #[inline]
    fn bucket(&self, seed: Seed, key: &Key) -> Option<&Bucket<T>> {
        self.rules.find(self.plan.hash(seed, key), |words| self.plan.same(key, words))
    }

    /// Rules that share the place of this key.
    pub(crate) fn shared(&self, seed: Seed, key: &Key) -> usize {
        self.bucket(seed, key).map_or(0, |bucket| 1 + bucket.rest.len())
    }

    /// The best rule for a key.
    #[inline]
    pub(crate) fn find(&self, seed: Seed, key: &Key) -> Option<&Arc<Rule<T>>> {
        let bucket = self.bucket(seed, key)?;
        if self.exact {
            return Some(&bucket.first);
        }
        bucket.iter().find(|rule| rule.matching.matches(key))
    }

    /// The best rule for a key that is of a higher priority than `above`, naming the bits on which
    /// it depends that it is this one, or that there is none.
    pub(crate) fn lookup(
        &self,
        (seed, key): (Seed, &Key),
        above: Option<u16>,
        walks: &mut Walks<'_>,
        examined: &mut Mask,
    ) -> Option<&Arc<Rule<T>>> {
        let bucket = self.named_bucket((seed, key), walks, examined)?;
        for rule in bucket.iter().take_while(|rule| above.is_none_or(|above| rule.priority > above)) {
            if self.exact || rule.matching.matches(key) {
                rule.examine(examined);
                return Some(rule);
            }
            rule.exclude(key, examined);
        }
        None
    }

    /// All rules for a key that are of a higher priority than `above`.
    pub(crate) fn each(
        &self,
        (seed, key): (Seed, &Key),
        above: Option<u16>,
        meet: &mut impl FnMut(&Rule<T>),
    ) {
        let Some(bucket) = self.bucket(seed, key) else { return };
        for rule in bucket.iter().take_while(|rule| above.is_none_or(|above| rule.priority > above)) {
            if self.exact || rule.matching.matches(key) {
                meet(rule);
            }
        }
    }

    /// The same, naming the bits on which it depends that it is these and no others.
    pub(crate) fn each_named(
        &self,
        (seed, key): (Seed, &Key),
        above: Option<u16>,
        (walks, examined): (&mut Walks<'_>, &mut Mask),
        meet: &mut impl FnMut(&Rule<T>),
    ) {
        let Some(bucket) = self.named_bucket((seed, key), walks, examined) else { return };
        for rule in bucket.iter().take_while(|rule| above.is_none_or(|above| rule.priority > above)) {
            if self.exact || rule.matching.matches(key) {
                rule.examine(examined);
                meet(rule);
            } else {
                rule.exclude(key, examined);
            }
        }
    }

    /// The place of a key, naming the bits by which it is found, or that show that there is none.
    fn named_bucket(
        &self,
        (seed, key): (Seed, &Key),
        walks: &mut Walks<'_>,
        examined: &mut Mask,
    ) -> Option<&Bucket<T>> {
        let plan = &*self.plan;
        let (mut hash, mut start) = (0, 0);
        let mut stages = self.stages.iter();
        for stage in 0..STAGES {
            for &(number, len) in &plan.prefixes {
                let (field, at) = trie::FIELDS[number];
                if usize::from(at) != stage {
                    continue;
                }
                if let Some(bits) = walks.of(number, key).excludes(len) {
                    field.examine(examined, trie::prefix_mask(field, bits));
                    return None;
                }
            }
            let end = plan.ends[stage];
            hash = fold(seed, hash, &plan.parts[start..end], key);
            if let Some((_, set)) = stages.as_slice().first().filter(|(at, _)| *at == stage) {
                stages.next();
                if set.find(seed.finish(hash), |_| true).is_none() {
                    examine(&plan.parts[..end], examined);
                    return None;
                }
            }
            start = end;
        }
        examine(&plan.parts, examined);
        self.rules.find(seed.finish(hash), |words| plan.same(key, words))
    }

    /// The rule of this match and priority; `key` is the match's.
    pub(crate) fn get(&self, seed: Seed, key: &Key, rule: (u16, &Match)) -> Option<&Arc<Rule<T>>> {
        let bucket = self.bucket(seed, key)?;
        bucket.iter().find(|other| (other.priority, &other.matching) == rule)
    }

    /// The same to change it.
    pub(crate) fn get_mut(
        &mut self,
        seed: Seed,
        key: &Key,
        rule: (u16, &Match),
    ) -> Option<&mut Arc<Rule<T>>> {
        self.get(seed, key, rule)?;
        let plan = &*self.plan;
        let bucket = self.rules.find_mut(plan.hash(seed, key), |words| plan.same(key, words))?;
        let mut all = std::iter::once(&mut bucket.first).chain(&mut bucket.rest);
        all.find(|other| (other.priority, &other.matching) == rule)
    }

    /// Adds a rule that is not there; `key` is its match's.
    pub(crate) fn insert(&mut self, seed: Seed, key: &Key, rule: Arc<Rule<T>>, tries: &mut [Trie; 6]) {
        let plan = &*self.plan;
        self.len += 1;
        self.top = if self.len == 1 { rule.priority } else { self.top.max(rule.priority) };
        let hash = plan.hash(seed, key);
        if let Some(bucket) = self.rules.find_mut(hash, |words| plan.same(key, words)) {
            if rank(&rule) < rank(&bucket.first) {
                let second = std::mem::replace(&mut bucket.first, rule);
                bucket.rest.insert(0, second);
            } else {
                let at = bucket.rest.partition_point(|other| rank(other) < rank(&rule));
                bucket.rest.insert(at, rule);
            }
            return;
        }
        let words = plan.parts.iter().map(|part| part.of(key));
        self.rules.insert(hash, words, Bucket { first: rule, rest: Vec::new() });
        for (stage, set) in &mut self.stages {
            let hash = seed.finish(fold(seed, 0, &plan.parts[..plan.ends[*stage]], key));
            match set.find_mut(hash, |_| true) {
                Some(count) => *count += 1,
                None => set.insert(hash, std::iter::empty(), 1),
            }
        }
        for &(number, len) in &plan.prefixes {
            tries[number].insert(trie::aligned(trie::FIELDS[number].0, key), len);
        }
    }

    /// Takes a rule out; `key` is its match's.
    pub(crate) fn remove(
        &mut self,
        seed: Seed,
        key: &Key,
        rule: (u16, &Match),
        tries: &mut [Trie; 6],
    ) -> Option<Arc<Rule<T>>> {
        self.get(seed, key, rule)?;
        let plan = Arc::clone(&self.plan);
        let hash = plan.hash(seed, key);
        let same = |words: &[u64]| plan.same(key, words);
        let bucket = self.rules.find_mut(hash, same)?;
        let is = |other: &Arc<Rule<T>>| (other.priority, &other.matching) == rule;
        let (removed, gone) = if !is(&bucket.first) {
            let at = bucket.rest.iter().position(is)?;
            (bucket.rest.remove(at), false)
        } else if bucket.rest.is_empty() {
            (self.rules.remove(hash, same)?.first, true)
        } else {
            let second = bucket.rest.remove(0);
            (std::mem::replace(&mut bucket.first, second), false)
        };
        if gone {
            self.forget(seed, key, tries);
        }
        self.len -= 1;
        if removed.priority == self.top || self.stale != 0 {
            self.lower_top();
        }
        Some(removed)
    }

    /// Takes the place of a key, whose last rule went, out of stages and tries.
    fn forget(&mut self, seed: Seed, key: &Key, tries: &mut [Trie; 6]) {
        let plan = &*self.plan;
        for (stage, set) in &mut self.stages {
            let hash = seed.finish(fold(seed, 0, &plan.parts[..plan.ends[*stage]], key));
            let left = set.find_mut(hash, |_| true).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                set.remove(hash, |_| true);
            }
        }
        for &(number, len) in &plan.prefixes {
            tries[number].remove(trie::aligned(trie::FIELDS[number].0, key), len);
        }
    }

    /// Finds the highest priority again, unless too few rules went since it was last known to pay
    /// for the walk: one that is too high costs lookups a probe and no more.
    fn lower_top(&mut self) {
        self.stale += 1;
        if self.stale * 8 > self.len {
            self.top = self.rules.iter().map(|bucket| bucket.first.priority).max().unwrap_or(0);
            self.stale = 0;
        }
    }
}

fn examine(parts: &[Part], examined: &mut Mask) {
    for part in parts {
        examined.add(usize::from(part.place), part.mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Field;

    #[test]
    fn the_highest_priority_follows_what_is_left() {
        let seed = Seed::new(1);
        let matching = |number: u16| {
            let mut matching = Match::any();
            matching.demand(Field::TcpDst, number.into(), 0xffff);
            matching
        };
        let mut tries = Default::default();
        let mut tuple = Tuple::new(matching(0).mask(), true);
        for number in 0..100 {
            let rule = Rule { matching: matching(number), priority: number, value: (), clauses: None };
            tuple.insert(seed, &rule.matching.key(), Arc::new(rule), &mut tries);
            assert_eq!(tuple.top(), number);
        }
        for number in (1..100).rev() {
            let matching = matching(number);
            assert!(tuple.remove(seed, &matching.key(), (number, &matching), &mut tries).is_some());
            let (top, highest) = (tuple.top(), number - 1);
            assert!(top >= highest && top <= highest + number / 8 + 1, "{top} where {highest} is");
        }
        assert_eq!((tuple.top(), tuple.len()), (0, 1));
    }
}
