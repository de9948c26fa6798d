//! A tuple space: rules by what bits they are found by, a hash table for each, best first.
//!
//! A tuple's rank is the highest priority in it; a lookup ends at the first tuple that can hold
//! nothing better than what it has. In a space of *exact* tuples each mask of a rule is a tuple. When
//! the masks get many the space is rebuilt of *merged* tuples, after TupleMerge (Daly and others,
//! IEEE/ACM Transactions on Networking 27(4), 2019): a rule lives in any tuple whose mask is between
//! its own and a coarser one (addresses to whole bytes, ports not at all where addresses say enough).
//! Where too many rules share a place, the next one opens a finer tuple. The number of tuples has a
//! limit, and so has that of probes; beyond it, rules go into the finest tuple they fit in and share
//! places.
//!
//! Where more than a few tuples have prefixes of a field, `find` walks that field's trie first (of two
//! fields at most) and probes only what it says is there. Where the tuples are the lengths of one
//! field's prefixes, plus a few others, this is longest prefix match: a walk and a probe.
//!
//! Cost: `find` is a test for each tuple above the answer, a probe for most. A change copies what its
//! tuple says, plus the list of tuples. Threads: as `Arc`.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_flow::{Field, Key, Mask, Match, Seed};

use crate::rule::Rule;
use crate::trie::{self, FIELDS, Trie, Walk};
use crate::tuple::{Tuple, Walks};

/// Tuples of rules' own masks, at most: with more, they are merged.
pub(crate) const EXACT_TUPLES: usize = 16;

/// Merged tuples, at most, but for one more that takes what fits nowhere.
pub(crate) const MERGED_TUPLES: usize = 48;

/// Rules that share a place of a merged tuple before a finer tuple is opened. The authors of
/// TupleMerge find 40 (section IV-C).
const CROWD: usize = 40;

/// Lengths of one field's prefixes before its trie is asked first.
const FEW_LENGTHS: usize = 4;

/// Tries that `find` asks before it looks at tuples, at most.
const ASKED: usize = 2;

/// Masks that may stand beside prefixes of one field.
const OTHERS: usize = 4;

/// A tuple space.
#[derive(Debug)]
pub(crate) struct Space<T> {
    /// By rank.
    tuples: Vec<Arc<Tuple<T>>>,
    /// One for each of [`FIELDS`].
    tries: [Trie; 6],
    merged: bool,
    /// The field, as number in [`FIELDS`], in whose prefixes the tuples differ.
    by_prefix: Option<usize>,
    /// For `find`: of each tuple what may rule it out, side by side.
    heads: Vec<Head>,
    /// The fields whose tries `find` asks first.
    asked: Vec<usize>,
}

/// What `find` knows of a tuple before it looks at it.
#[derive(Clone, Copy, Debug)]
struct Head {
    top: u16,
    /// Its prefix lengths of the fields that are asked, or 0.
    lens: [u8; ASKED],
}

impl<T> Clone for Space<T> {
    fn clone(&self) -> Self {
        Self {
            tuples: self.tuples.clone(),
            tries: self.tries.clone(),
            merged: self.merged,
            by_prefix: self.by_prefix,
            heads: self.heads.clone(),
            asked: self.asked.clone(),
        }
    }
}

/// The coarsest mask of a merged tuple that a rule of this mask goes into.
fn coarse(mask: &Mask) -> Mask {
    let mut coarse = mask.clone();
    let mut bits = 0;
    for (field, _) in FIELDS {
        let named = field.mask_of(mask);
        let width = field.bits();
        let len = if width == 16 {
            // A port: all of it or none, and none where addresses say enough.
            if named.count_ones() == 16 && bits < 16 { 16 } else { 0 }
        } else {
            let step = if width == 32 { 8 } else { 16 };
            (named << (128 - width)).leading_ones() as u8 / step * step
        };
        if width != 16 {
            bits += u32::from(len);
        }
        for (place, _, bits) in field.spread(0, named & !trie::prefix_mask(field, len)) {
            coarse.remove(place, bits);
        }
    }
    coarse
}

/// The field, as number in [`FIELDS`], in whose prefixes nearly all of the masks differ.
fn one_prefix<'a>(masks: impl Iterator<Item = &'a Mask> + Clone) -> Option<usize> {
    (0..FIELDS.len()).find(|&number| {
        let field = FIELDS[number].0;
        let (mut lengths, mut others) = (0, Vec::new());
        for mask in masks.clone() {
            let mut rest = mask.clone();
            match trie::prefix_len(field, mask) {
                Some(len) if len != 0 => lengths += 1,
                _ => {}
            }
            if trie::prefix_len(field, mask).is_some() {
                for (place, _, bits) in field.spread(0, field.mask_of(mask)) {
                    rest.remove(place, bits);
                }
            }
            if !others.contains(&rest) {
                others.push(rest);
            }
            if others.len() > OTHERS {
                return false;
            }
        }
        lengths > FEW_LENGTHS
    })
}

impl<T> Space<T> {
    pub(crate) fn new(merged: bool) -> Self {
        Self {
            tuples: Vec::new(),
            tries: Default::default(),
            merged,
            by_prefix: None,
            heads: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rule<T>>> {
        self.tuples.iter().flat_map(|tuple| tuple.iter())
    }

    /// The rules that demand all that a match does.
    pub(crate) fn within<'a>(
        &'a self,
        seed: Seed,
        matching: &'a Match,
    ) -> impl Iterator<Item = &'a Arc<Rule<T>>> {
        let (key, mask) = (matching.key(), matching.mask());
        let tuples = self.tuples.iter().filter({
            let mask = mask.clone();
            move |tuple| tuple.can_demand(&mask)
        });
        let rules = tuples.flat_map(move |tuple| tuple.agreeing(seed, &key, &mask));
        rules.filter(|rule| matching.covers(&rule.matching))
    }

    /// A rule of this priority that matches something that a match does, and is not of this very match.
    pub(crate) fn overlap(&self, seed: Seed, (priority, matching): (u16, &Match)) -> Option<&Arc<Rule<T>>> {
        let (key, mask) = (matching.key(), matching.mask());
        let tuples = self.tuples.iter().take_while(|tuple| tuple.top() >= priority);
        tuples
            .flat_map(|tuple| tuple.agreeing(seed, &key, &mask))
            .find(|rule| rule.overlaps(priority, matching))
    }

    pub(crate) fn tuples(&self) -> usize {
        self.tuples.len()
    }

    pub(crate) fn merged(&self) -> bool {
        self.merged
    }

    /// Many rules are to come; see [`Trie::gather`].
    pub(crate) fn gather(&mut self) {
        self.tries.iter_mut().for_each(Trie::gather);
    }

    /// They have come.
    pub(crate) fn settle(&mut self) {
        self.tries.iter_mut().for_each(Trie::settle);
    }

    /// Prefix lengths and the field, when its trie is asked first.
    pub(crate) fn by_prefix(&self) -> Option<(usize, Field)> {
        let number = self.by_prefix?;
        let has = |tuple: &&Arc<Tuple<T>>| tuple.prefix(number) != 0;
        Some((self.tuples.iter().filter(has).count(), FIELDS[number].0))
    }

    /// Whether there are more masks than exact tuples are good for.
    pub(crate) fn crowded(&self) -> bool {
        !self.merged && self.by_prefix.is_none() && self.tuples.len() > EXACT_TUPLES
    }

    pub(crate) fn memory(&self) -> usize {
        self.tuples.iter().map(|tuple| tuple.memory()).sum()
    }

    /// The best rule, with no word about what it depends on.
    #[inline]
    pub(crate) fn find(&self, seed: Seed, key: &Key) -> Option<&Arc<Rule<T>>> {
        let mut walks = [Walk::default(); ASKED];
        for (walk, &number) in walks.iter_mut().zip(&self.asked) {
            *walk = self.tries[number].walk(trie::aligned(FIELDS[number].0, key));
        }
        let mut best: Option<&Arc<Rule<T>>> = None;
        for (tuple, head) in self.tuples.iter().zip(&self.heads) {
            if best.is_some_and(|best| best.priority >= head.top) {
                break;
            }
            if head.lens.iter().zip(&walks).any(|(&len, walk)| len != 0 && !walk.has(len)) {
                continue;
            }
            if let Some(rule) = tuple.find(seed, key)
                && best.is_none_or(|best| rule.priority > best.priority)
            {
                best = Some(rule);
            }
        }
        best
    }

    /// The best rule, naming all bits on which it depends.
    pub(crate) fn lookup(&self, seed: Seed, key: &Key, examined: &mut Mask) -> Option<&Arc<Rule<T>>> {
        let mut walks = Walks::new(&self.tries);
        let mut best: Option<&Arc<Rule<T>>> = None;
        for tuple in &self.tuples {
            let above = best.map(|best| best.priority);
            if above.is_some_and(|above| above >= tuple.top()) {
                break;
            }
            best = tuple.lookup((seed, key), above, &mut walks, examined).or(best);
        }
        best
    }

    /// All rules of a higher priority than `above` that match.
    pub(crate) fn each(&self, (seed, key): (Seed, &Key), above: Option<u16>, mut meet: impl FnMut(&Rule<T>)) {
        let mut walks = [Walk::default(); ASKED];
        for (walk, &number) in walks.iter_mut().zip(&self.asked) {
            *walk = self.tries[number].walk(trie::aligned(FIELDS[number].0, key));
        }
        for (tuple, head) in self.tuples.iter().zip(&self.heads) {
            if above.is_some_and(|above| above >= head.top) {
                break;
            }
            if !head.lens.iter().zip(&walks).any(|(&len, walk)| len != 0 && !walk.has(len)) {
                tuple.each((seed, key), above, &mut meet);
            }
        }
    }

    /// The same, naming all bits on which it depends which they are.
    pub(crate) fn each_named(
        &self,
        (seed, key): (Seed, &Key),
        above: Option<u16>,
        examined: &mut Mask,
        mut meet: impl FnMut(&Rule<T>),
    ) {
        let mut walks = Walks::new(&self.tries);
        for tuple in self.tuples.iter().take_while(|tuple| above.is_none_or(|above| tuple.top() > above)) {
            tuple.each_named((seed, key), above, (&mut walks, examined), &mut meet);
        }
    }

    /// The tuple that holds a rule.
    fn home(&self, seed: Seed, key: &Key, rule: (u16, &Match)) -> Option<usize> {
        let mask = rule.1.mask();
        let may =
            |tuple: &Tuple<T>| if self.merged { mask.covers(tuple.mask()) } else { mask == *tuple.mask() };
        self.tuples.iter().position(|tuple| may(tuple) && tuple.get(seed, key, rule).is_some())
    }

    pub(crate) fn get(&self, seed: Seed, rule: (u16, &Match)) -> Option<&Arc<Rule<T>>> {
        let key = rule.1.key();
        self.tuples[self.home(seed, &key, rule)?].get(seed, &key, rule)
    }

    pub(crate) fn get_mut(&mut self, seed: Seed, rule: (u16, &Match)) -> Option<&mut Arc<Rule<T>>> {
        let key = rule.1.key();
        let at = self.home(seed, &key, rule)?;
        Arc::make_mut(&mut self.tuples[at]).get_mut(seed, &key, rule)
    }

    /// Adds a rule that is not there.
    pub(crate) fn insert(&mut self, seed: Seed, rule: Arc<Rule<T>>) {
        let (key, mask) = (rule.matching.key(), rule.matching.mask());
        let at = if self.merged { self.room(seed, &key, &mask) } else { self.tuple_of(&mask) };
        let before = self.tuples[at].top();
        let tuple = Arc::make_mut(&mut self.tuples[at]);
        tuple.insert(seed, &key, rule, &mut self.tries);
        if tuple.top() != before || tuple.len() == 1 {
            self.rank();
        }
    }

    /// The tuple of this very mask, made when there is none.
    fn tuple_of(&mut self, mask: &Mask) -> usize {
        self.tuples.iter().position(|tuple| tuple.mask() == mask).unwrap_or_else(|| {
            self.tuples.push(Arc::new(Tuple::new(mask.clone(), !self.merged)));
            if !self.merged {
                self.by_prefix = one_prefix(self.tuples.iter().map(|tuple| tuple.mask()));
            }
            self.tuples.len() - 1
        })
    }

    /// The merged tuple that a new rule goes into.
    fn room(&mut self, seed: Seed, key: &Key, mask: &Mask) -> usize {
        let coarse = coarse(mask);
        let fits = |tuple: &Tuple<T>| mask.covers(tuple.mask()) && tuple.mask().covers(&coarse);
        let of_size = |(at, tuple): (usize, &Arc<Tuple<T>>)| (tuple.mask().bits(), at);
        let fitting = self.tuples.iter().enumerate().filter(|(_, tuple)| fits(tuple));
        let roomy = fitting.filter(|(_, tuple)| tuple.shared(seed, key) < CROWD).map(of_size).max();
        if let Some((_, at)) = roomy {
            return at;
        }
        if self.tuples.len() < MERGED_TUPLES {
            let exists = self.tuples.iter().any(|tuple| *tuple.mask() == coarse);
            return self.tuple_of(if exists { mask } else { &coarse });
        }
        let covered = self.tuples.iter().enumerate().filter(|(_, tuple)| mask.covers(tuple.mask()));
        match covered.map(of_size).max() {
            Some((_, at)) => at,
            None => self.tuple_of(&Mask::new()),
        }
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, seed: Seed, rule: (u16, &Match)) -> Option<Arc<Rule<T>>> {
        let key = rule.1.key();
        let at = self.home(seed, &key, rule)?;
        let before = self.tuples[at].top();
        let tuple = Arc::make_mut(&mut self.tuples[at]);
        let removed = tuple.remove(seed, &key, rule, &mut self.tries);
        let (left, top) = (tuple.len(), tuple.top());
        if left == 0 {
            self.tuples.remove(at);
            if !self.merged {
                self.by_prefix = one_prefix(self.tuples.iter().map(|tuple| tuple.mask()));
            }
        }
        if left == 0 || top != before {
            self.rank();
        }
        removed
    }

    /// Puts the tuples in order, after one came or went or has another highest priority.
    fn rank(&mut self) {
        self.tuples.sort_by_key(|tuple| Reverse(tuple.top()));
        self.asked = match self.by_prefix {
            Some(number) => vec![number],
            None => {
                let uses = |number: usize| {
                    let has = |tuple: &&Arc<Tuple<T>>| tuple.prefix(number) != 0;
                    (self.tuples.iter().filter(has).count(), number)
                };
                let mut uses: Vec<_> = (0..FIELDS.len()).map(uses).collect();
                uses.retain(|&(tuples, _)| tuples > FEW_LENGTHS);
                uses.sort_unstable_by_key(|&(tuples, _)| Reverse(tuples));
                uses.iter().take(ASKED).map(|&(_, number)| number).collect()
            }
        };
        let head = |tuple: &Arc<Tuple<T>>| {
            let len = |at| self.asked.get(at).map_or(0, |&number| tuple.prefix(number));
            Head { top: tuple.top(), lens: std::array::from_fn(len) }
        };
        self.heads = self.tuples.iter().map(head).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(terms: &[(Field, u128)]) -> Mask {
        let mut mask = Mask::new();
        for &(field, bits) in terms {
            field.examine(&mut mask, bits);
        }
        mask
    }

    #[test]
    fn prefixes_of_one_field_beside_a_default_are_seen_as_such() {
        let route =
            |len| mask(&[(Field::EthType, 0xffff), (Field::NwDst, trie::prefix_mask(Field::NwDst, len))]);
        let mut masks: Vec<Mask> = (8..=24).map(route).collect();
        masks.push(Mask::new());
        assert_eq!(one_prefix(masks.iter()), Some(1));
        assert_eq!(one_prefix(masks[..4].iter()), None);
        masks.extend((0..8).map(|bit| mask(&[(Field::InPort, 1 << bit)])));
        assert_eq!(one_prefix(masks.iter()), None);
    }

    #[test]
    fn a_coarse_mask_is_of_whole_bytes_and_has_ports_only_where_addresses_say_little() {
        let long = mask(&[(Field::NwSrc, 0xffff_fe00), (Field::NwDst, 0xff00_0000), (Field::TcpDst, 0xffff)]);
        assert_eq!(coarse(&long), mask(&[(Field::NwSrc, 0xffff_0000), (Field::NwDst, 0xff00_0000)]));
        let short = mask(&[(Field::NwSrc, 0xfff0_0000), (Field::TcpDst, 0xffff), (Field::TcpSrc, 0xff00)]);
        assert_eq!(coarse(&short), mask(&[(Field::NwSrc, 0xff00_0000), (Field::TcpDst, 0xffff)]));
        let odd = mask(&[(Field::Ipv6Dst, !0 << 70), (Field::NwDst, 0x0000_ffff)]);
        assert_eq!(coarse(&odd), mask(&[(Field::Ipv6Dst, !0 << 80)]));
    }
}
