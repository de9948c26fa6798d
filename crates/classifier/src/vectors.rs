//! Rule vectors: for lists of many masks (access lists), a bit a rule.
//!
//! What: for each of a few slices of the key (an address, a port, the protocol) the slice's values are cut
//! into intervals within which the same rules are satisfied as far as that slice goes; an interval has a
//! row, one bit a rule in order of priority. The rows of a key's intervals, joined by "and", are the rules
//! that may match; the first that does is the answer (Lakshman and Stiliadis, SIGCOMM 1998). A word of
//! each row says which of its words are not zero, so that a lookup reads few of them (Baboescu and
//! Varghese, SIGCOMM 2001).
//!
//! Why: a list of 500 rules has a hundred masks and more, each a probe for a tuple space. Here the cost
//! depends on neither masks nor traffic: at most [`DIMENSIONS`] searches, [`WORDS`] words, and one
//! comparison for each rule that only a slice without intervals rules out.
//!
//! Un-wildcarding: an interval is excluded or proven by the upper bits of the value that keep it inside
//! the interval. Rules above the answer are excluded by the slices that exclude most of them, the last few
//! one by one.
//!
//! Cost: `find` some 40 to 100 cycles. Built at once from all rules, a millisecond for some thousands; so
//! it is made when a table has settled, beside the structure that changes. Threads: as `Arc`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use weir_flow::{Key, Mask, Match, Term, places};

use crate::rule::Rule;
use crate::slices::{SLICES, Slice};

/// Words of a row, at most: one bit of a word says which are not zero.
const WORDS: usize = 64;

/// Rules, at most.
pub(crate) const MOST_RULES: usize = WORDS * 64;

/// Slices that have intervals, at most.
const DIMENSIONS: usize = 6;

/// Upper bits of a value that say where among the intervals to search.
const ROOT_BITS: u32 = 10;

/// So many rules are excluded one by one rather than by a slice.
const FEW: u32 = 2;

/// Rules in order of priority, and the rows of their slices.
#[derive(Debug)]
pub(crate) struct Vectors<T> {
    rules: Vec<Arc<Rule<T>>>,
    /// All rules' terms, one rule's behind the other's.
    terms: Vec<Term>,
    ends: Vec<u32>,
    dimensions: Vec<Dimension>,
    /// Words of a row.
    words: usize,
}

/// A slice, its intervals, and their rows.
#[derive(Debug)]
struct Dimension {
    slice: Slice,
    shift: u32,
    width: u32,
    /// By a value's upper bits: the interval that holds the first value with them.
    root: Vec<u16>,
    /// Where intervals begin, sorted; the first is 0.
    starts: Vec<u64>,
    /// Each interval's row.
    rows: Vec<u16>,
    /// Rows, one behind the other: a word that says which words are not zero, then those.
    bits: Vec<u64>,
}

/// The upper bits of a slice that a match demands, as first and last value: everything where it does not
/// demand such bits. The second says whether that is all it demands of the slice.
fn range(matching: &Match, slice: &Slice) -> (u64, u64) {
    let (shift, all) = (slice.mask.trailing_zeros(), slice.mask >> slice.mask.trailing_zeros());
    let term = matching.terms().iter().find(|term| term.place == slice.place);
    let Some(term) = term else { return (0, all) };
    let (value, mask) = ((term.value & slice.mask) >> shift, (term.mask & slice.mask) >> shift);
    // The ones that the mask begins with, from the top of the slice.
    let missing = !mask & all;
    let lower = if missing == 0 { 0 } else { u64::MAX >> missing.leading_zeros() };
    (value & !lower, value & !lower | lower)
}

impl Dimension {
    fn new<T>(rules: &[Arc<Rule<T>>], slice: Slice, words: usize) -> Option<Self> {
        let (shift, width) = (slice.mask.trailing_zeros(), slice.mask.count_ones());
        let all = slice.mask >> shift;
        let ranges: Vec<(u64, u64)> = rules.iter().map(|rule| range(&rule.matching, &slice)).collect();
        // Where rules begin and end to be satisfied.
        let mut events: Vec<(u64, u32)> = Vec::with_capacity(2 * rules.len());
        for (number, &(first, last)) in ranges.iter().enumerate() {
            events.push((first, number as u32));
            if last != all {
                events.push((last + 1, number as u32));
            }
        }
        // The first interval begins at 0, whether or not a rule does.
        events.push((0, u32::MAX));
        events.sort_unstable();
        let mut dimension = Self {
            slice,
            shift,
            width,
            root: Vec::new(),
            starts: Vec::new(),
            rows: Vec::new(),
            bits: Vec::new(),
        };
        let mut known: HashMap<Vec<u64>, u16> = HashMap::new();
        let mut row = vec![0; words];
        for together in events.chunk_by(|a, b| a.0 == b.0) {
            for &(_, rule) in together.iter().filter(|(_, rule)| *rule != u32::MAX) {
                row[rule as usize / 64] ^= 1 << (rule % 64);
            }
            let number = match known.get(&row) {
                Some(&number) => number,
                None => {
                    let number = u16::try_from(known.len()).ok()?;
                    let used = |(at, &word): (usize, &u64)| u64::from(word != 0) << at;
                    dimension.bits.push(row.iter().enumerate().map(used).fold(0, |all, bit| all | bit));
                    dimension.bits.extend_from_slice(&row);
                    known.insert(row.clone(), number);
                    number
                }
            };
            if dimension.rows.last() != Some(&number) {
                dimension.starts.push(together[0].0);
                dimension.rows.push(number);
            }
        }
        u16::try_from(dimension.starts.len()).ok()?;
        let roots = 1_u64 << width.min(ROOT_BITS);
        let below = |root: u64| root << (width - width.min(ROOT_BITS));
        let holds = |value| dimension.starts.partition_point(|&start| start <= value) - 1;
        dimension.root = (0..roots).map(|root| holds(below(root)) as u16).collect();
        dimension.root.push(dimension.starts.len() as u16 - 1);
        Some(dimension)
    }

    #[inline]
    fn value(&self, key: &Key) -> u64 {
        (key.word(usize::from(self.slice.place)) & self.slice.mask) >> self.shift
    }

    /// The interval of a value.
    #[inline]
    fn interval(&self, value: u64) -> usize {
        let root = (value >> (self.width - self.width.min(ROOT_BITS))) as usize;
        let mut from = usize::from(self.root[root]);
        let mut left = usize::from(self.root[root + 1]) - from + 1;
        while left > 1 {
            let half = left / 2;
            // Without a branch, which nothing could predict.
            from += if self.starts[from + half] <= value { half } else { 0 };
            left -= half;
        }
        from
    }

    #[inline]
    fn row(&self, interval: usize, words: usize) -> &[u64] {
        &self.bits[usize::from(self.rows[interval]) * (words + 1)..][..words + 1]
    }

    /// The upper bits of a value that show in which interval it lies, as a mask of the word.
    fn shown(&self, value: u64, interval: usize) -> u64 {
        // As many bits as tell it from the last value before the interval and from the first behind it.
        let apart = |other: u64| (value ^ other).leading_zeros() + 1 + self.width - 64;
        let before = self.starts[interval].checked_sub(1).map_or(0, apart);
        let behind = self.starts.get(interval + 1).map_or(0, |&start| apart(start));
        let len = before.max(behind);
        let all = self.slice.mask >> self.shift;
        (all & !(all.checked_shr(len).unwrap_or(0))) << self.shift
    }

    fn memory(&self) -> usize {
        8 * (self.bits.len() + self.starts.len()) + 2 * (self.rows.len() + self.root.len())
    }
}

impl<T> Vectors<T> {
    /// For these rules; nothing where there are too many.
    pub(crate) fn new(mut rules: Vec<Arc<Rule<T>>>) -> Option<Self> {
        if rules.is_empty() || rules.len() > MOST_RULES {
            return None;
        }
        rules.sort_by(|a, b| (Reverse(a.priority), &a.matching).cmp(&(Reverse(b.priority), &b.matching)));
        let words = rules.len().div_ceil(64);
        let mut dimensions: Vec<Dimension> =
            SLICES.iter().filter_map(|&slice| Dimension::new(&rules, slice, words)).collect();
        // Those that tell most rules apart.
        dimensions.retain(|dimension| dimension.rows.len() > 1);
        dimensions.sort_by_key(|dimension| Reverse(dimension.rows.len()));
        dimensions.truncate(DIMENSIONS);
        let (mut terms, mut ends) = (Vec::new(), Vec::new());
        for rule in &rules {
            terms.extend_from_slice(rule.matching.terms());
            ends.push(terms.len() as u32);
        }
        Some(Self { rules, terms, ends, dimensions, words })
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions.len()
    }

    pub(crate) fn memory(&self) -> usize {
        let lists = self.terms.len() * size_of::<Term>() + 4 * self.ends.len() + 8 * self.rules.len();
        lists + self.dimensions.iter().map(Dimension::memory).sum::<usize>()
    }

    #[inline]
    fn matches(&self, rule: usize, key: &Key) -> bool {
        let start = if rule == 0 { 0 } else { self.ends[rule - 1] as usize };
        let terms = &self.terms[start..self.ends[rule] as usize];
        !terms.iter().any(|term| key.word(usize::from(term.place)) & term.mask != term.value)
    }

    /// The number of the best rule.
    #[inline]
    fn best(&self, key: &Key) -> Option<usize> {
        let mut rows: [&[u64]; DIMENSIONS] = [&[]; DIMENSIONS];
        let mut used = u64::MAX >> (WORDS - self.words);
        for (row, dimension) in rows.iter_mut().zip(&self.dimensions) {
            *row = dimension.row(dimension.interval(dimension.value(key)), self.words);
            used &= row[0];
        }
        let rows = &rows[..self.dimensions.len()];
        for word in places(used) {
            let all = u64::MAX >> if word + 1 == self.words { (64 - self.rules.len() % 64) % 64 } else { 0 };
            let mut may = rows.iter().fold(all, |may, row| may & row[word + 1]);
            while may != 0 {
                let rule = word * 64 + may.trailing_zeros() as usize;
                if self.matches(rule, key) {
                    return Some(rule);
                }
                may &= may - 1;
            }
        }
        None
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<&Arc<Rule<T>>> {
        self.best(key).map(|rule| &self.rules[rule])
    }

    /// The best rule, naming bits of the key that prove it.
    pub(crate) fn lookup(&self, key: &Key, examined: &mut Mask) -> Option<&Arc<Rule<T>>> {
        let best = self.best(key);
        let found = best.map(|rule| &self.rules[rule]);
        if let Some(rule) = found {
            rule.examine(examined);
        }
        let above = best.unwrap_or(self.rules.len());
        // Rules above it that nothing named so far excludes.
        let mut left = [0_u64; WORDS];
        for (at, word) in left[..above.div_ceil(64)].iter_mut().enumerate() {
            *word = if (at + 1) * 64 <= above { u64::MAX } else { u64::MAX >> (64 - above % 64) };
        }
        let left = &mut left[..above.div_ceil(64)];
        loop {
            let excluded = |dimension: &Dimension| -> u32 {
                let row = &dimension.row(dimension.interval(dimension.value(key)), self.words)[1..];
                left.iter().zip(row).map(|(left, row)| (left & !row).count_ones()).sum()
            };
            // What says more than others; of equals, what is looked at earlier.
            let gains = self.dimensions.iter().map(|dimension| (excluded(dimension), dimension));
            let most = gains.max_by_key(|&(gain, dimension)| (gain, Reverse(dimension.slice.stage)));
            let Some((_, dimension)) = most.filter(|&(gain, _)| gain > FEW) else { break };
            let value = dimension.value(key);
            let interval = dimension.interval(value);
            examined.add(usize::from(dimension.slice.place), dimension.shown(value, interval));
            let row = &dimension.row(interval, self.words)[1..];
            left.iter_mut().zip(row).for_each(|(left, row)| *left &= row);
        }
        for (at, word) in left.iter().enumerate() {
            for bit in places(*word) {
                self.rules[at * 64 + bit].exclude(key, examined);
            }
        }
        found
    }
}
