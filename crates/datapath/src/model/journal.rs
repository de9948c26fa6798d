//! What the last snapshots of the tables changed, and whether something that was made of an older one is
//! concerned by that.
//!
//! What: a forest. A leaf is one snapshot's changes; a node above joins two neighbours, and has a *cover*: a
//! few matches that every change below it is covered by. So a megaflow that has nothing to do with any of a
//! thousand changes finds that out by a few comparisons, and one that has goes down to the very change. Changes
//! that belong together (routes, the rules of one tenant) agree in most of what they demand, which makes covers
//! narrow.
//!
//! Why: changes come by the thousand a second, and every megaflow in use has to be known to be right after each
//! of them. Looking at every change takes longer than making the megaflow again; making all of them again takes
//! the time of the packets.
//!
//! Bounds: a snapshot of more than [`CHANGES`] changes is joined at once; at most two nodes of a height are not
//! joined yet; details are kept up to height [`DETAIL`], covers up to [`HIGHEST`]. A question looks at
//! [`LOOKS`] nodes at most, and what is not settled by then counts as concerned.
//!
//! Cost: a microsecond a snapshot, on the control thread; a clone is some pointers. Threads: as `Arc`.

use crate::model::entries::Touched;
use std::collections::HashMap;
use std::sync::Arc;
use weir_flow::{Mask, Match};
use weir_openflow::TableId;

/// Changes of one snapshot that are kept one by one; more are joined.
const CHANGES: usize = 16;

/// Matches of a cover, at most.
const COVER: usize = 4;

/// Nodes of this height and below have what they were joined of: 1,024 snapshots.
const DETAIL: u32 = 10;

/// Nodes of this height are not joined any more: a million snapshots. Older ones are forgotten.
const HIGHEST: u32 = 20;

/// Nodes that one question looks at, at most: about what making a megaflow again costs.
const LOOKS: u32 = 64;

/// What the last snapshots changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    /// The oldest first. Heights do not rise towards the newest, and no more than two are equal.
    roots: Vec<Arc<Node>>,
    /// Nothing is known of this generation's changes any more, nor of those before.
    forgotten: u64,
}

/// The changes of neighbouring generations.
#[derive(Debug)]
struct Node {
    last: u64,
    height: u32,
    /// Every change is covered by one of these.
    cover: Vec<Touched>,
    parts: Parts,
}

/// What a node is joined of.
#[derive(Debug)]
enum Parts {
    /// The cover says it all, or all that is known.
    Cover,
    /// One snapshot's changes.
    Changes(Vec<Touched>),
    /// The older one and the newer one.
    Halves(Arc<Node>, Arc<Node>),
}

impl Journal {
    /// Notes what a generation changed. Each is the one after the last.
    pub(super) fn push(&mut self, generation: u64, touched: Vec<Touched>) {
        let changes = if touched.len() > CHANGES { condensed(&touched) } else { touched };
        let (cover, parts) = if changes.len() <= COVER {
            (changes, Parts::Cover)
        } else {
            (cover(&changes), Parts::Changes(changes))
        };
        self.roots.push(Arc::new(Node { last: generation, height: 0, cover, parts }));
        // Of three of a height the older two are joined, so that the newest keeps its details.
        let mut end = self.roots.len();
        while let Some([older, newer, newest]) = self.roots.get(end.saturating_sub(3)..end)
            && older.height == newest.height
        {
            if older.height == HIGHEST {
                self.forgotten = older.last;
                self.roots.remove(end - 3);
                break;
            }
            let joined = Arc::new(Node::join(older, newer));
            self.roots.splice(end - 3..end - 1, [joined]);
            end -= 2;
        }
    }

    /// Whether what was made of this generation may be concerned by a change since, as `concerns` says of one.
    pub(crate) fn concerns(&self, generation: u64, concerns: impl Fn(&Touched) -> bool) -> bool {
        let mut looks = LOOKS;
        generation < self.forgotten
            || self.since(generation).any(|root| root.concerns(generation, &concerns, &mut looks))
    }

    /// Whether since this generation entries came or went, and nothing else.
    pub(crate) fn is_of_entries(&self, generation: u64) -> bool {
        !self.concerns(generation, |touched| !touched.is_of_entries())
    }

    /// Whether a change since this generation concerned all packets that come in.
    pub(crate) fn is_of_all(&self, generation: u64) -> bool {
        self.concerns(generation, Touched::is_of_all)
    }

    /// The newest first.
    fn since(&self, generation: u64) -> impl Iterator<Item = &Arc<Node>> {
        self.roots.iter().rev().take_while(move |root| root.last > generation)
    }
}

impl Node {
    fn join(older: &Arc<Self>, newer: &Arc<Self>) -> Self {
        let height = older.height + 1;
        let parts =
            if height <= DETAIL { Parts::Halves(Arc::clone(older), Arc::clone(newer)) } else { Parts::Cover };
        let both: Vec<Touched> = older.cover.iter().chain(&newer.cover).cloned().collect();
        Self { last: newer.last, height, cover: cover(&both), parts }
    }

    fn concerns(&self, generation: u64, concerns: &impl Fn(&Touched) -> bool, looks: &mut u32) -> bool {
        if self.last <= generation {
            return false;
        }
        if *looks == 0 {
            return true;
        }
        *looks -= 1;
        if !self.cover.iter().any(concerns) {
            return false;
        }
        match &self.parts {
            Parts::Cover => true,
            Parts::Changes(changes) => changes.iter().any(concerns),
            Parts::Halves(older, newer) => {
                newer.concerns(generation, concerns, looks) || older.concerns(generation, concerns, looks)
            }
        }
    }
}

/// Many changes as some [`CHANGES`]: those of one table and mask, in their order, so many at a time.
fn condensed(touched: &[Touched]) -> Vec<Touched> {
    let mut places: HashMap<(TableId, Mask), usize> = HashMap::new();
    let mut kinds: Vec<(TableId, Vec<&Match>)> = Vec::new();
    let mut last = usize::MAX;
    for touched in touched {
        let Touched::Packets(table, matching) = touched else { return vec![Touched::All] };
        // Mostly the next is of the same kind.
        let same = |kind: &(TableId, Vec<&Match>)| kind.0 == *table && is_alike(kind.1[0], matching);
        if !kinds.get(last).is_some_and(same) {
            last = *places.entry((*table, matching.mask())).or_insert(kinds.len());
            if last == kinds.len() {
                kinds.push((*table, Vec::new()));
            }
        }
        kinds[last].1.push(matching);
    }
    let room = CHANGES.saturating_sub(kinds.len()).max(1);
    let together = touched.len().div_ceil(room);
    let around = |table, some: &[&Match]| {
        let around = some.iter().skip(1).fold(some[0].clone(), |around, matching| around.around(matching));
        Touched::Packets(table, around)
    };
    let joined = kinds
        .iter()
        .flat_map(|(table, matches)| matches.chunks(together).map(|some| around(*table, some)))
        .collect::<Vec<_>>();
    if joined.len() > 2 * CHANGES { cover(&joined) } else { joined }
}

/// Whether two matches demand the same bits.
fn is_alike(one: &Match, other: &Match) -> bool {
    one.terms().len() == other.terms().len()
        && one.terms().iter().zip(other.terms()).all(|(a, b)| (a.place, a.mask) == (b.place, b.mask))
}

/// At most [`COVER`] that cover all of these.
fn cover(touched: &[Touched]) -> Vec<Touched> {
    let mut cover: Vec<(TableId, Match)> = Vec::with_capacity(COVER);
    for touched in touched {
        let Touched::Packets(table, matching) = touched else { return vec![Touched::All] };
        let same_table = cover.iter().enumerate().filter(|(_, (other, _))| other == table);
        let nearest = same_table.map(|(at, (_, other))| (at, other.around(matching)));
        match nearest.max_by_key(|(_, around)| bits(around)) {
            Some((at, around)) if around == cover[at].1 => {}
            _ if cover.len() < COVER => cover.push((*table, matching.clone())),
            Some((at, around)) => cover[at].1 = around,
            None => return vec![Touched::All],
        }
    }
    cover.into_iter().map(|(table, matching)| Touched::Packets(table, matching)).collect()
}

/// Bits that a match demands.
fn bits(matching: &Match) -> u32 {
    matching.terms().iter().map(|term| term.mask.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_flow::Field;

    /// A match on words of few bits, so that many overlap.
    fn matching() -> impl Strategy<Value = Match> {
        proptest::collection::vec((0..3_usize, 0..16_u64, 0..16_u64), 0..4).prop_map(|terms| {
            let mut matching = Match::any();
            terms.iter().for_each(|&(place, value, mask)| matching.demand_bits(place, value, mask));
            matching
        })
    }

    fn touched() -> impl Strategy<Value = Touched> {
        prop_oneof![
            40 => (0..3_u8, matching()).prop_map(|(table, matching)| Touched::Packets(TableId(table), matching)),
            1 => Just(Touched::All),
        ]
    }

    /// Whether a change may concern what matches this in this table.
    fn concerns(table: u8, matching: &Match) -> impl Fn(&Touched) -> bool {
        move |touched| match touched {
            Touched::All => true,
            Touched::Packets(other, changed) => other.0 == table && changed.overlaps(matching),
        }
    }

    /// A route in table 0.
    fn route(number: u32) -> Touched {
        let mut matching = Match::any();
        matching.demand(Field::EthType, 0x0800, 0xffff);
        matching.demand(Field::NwDst, (0x0a00_0000 + number).into(), 0xffff_ffff);
        Touched::Packets(TableId(0), matching)
    }

    fn to(address: u32) -> Match {
        let mut matching = Match::any();
        matching.demand(Field::NwDst, address.into(), 0xffff_ffff);
        matching
    }

    proptest! {
        #[test]
        fn no_change_that_concerns_anything_is_ever_missed(
            snapshots in proptest::collection::vec(proptest::collection::vec(touched(), 0..40), 1..60),
            asked in proptest::collection::vec((0..3_u8, matching()), 4),
        ) {
            let mut journal = Journal::default();
            for (generation, touched) in (1..).zip(&snapshots) {
                journal.push(generation, touched.clone());
            }
            for since in 0..=snapshots.len() {
                let later = || snapshots[since..].iter().flatten();
                for (table, matching) in &asked {
                    let concerned = later().any(concerns(*table, matching));
                    let said = journal.concerns(since as u64, concerns(*table, matching));
                    prop_assert!(said || !concerned, "{matching:?} since {since}");
                }
                let of_entries = later().all(Touched::is_of_entries);
                prop_assert!(of_entries || !journal.is_of_entries(since as u64));
                prop_assert!(!later().any(Touched::is_of_all) || journal.is_of_all(since as u64));
            }
        }
    }

    #[test]
    fn thousands_of_changes_concern_those_they_concern_and_nobody_else() {
        let mut journal = Journal::default();
        for number in 0..3000_u32 {
            journal.push(u64::from(number) + 1, vec![route(number)]);
        }
        assert!(journal.is_of_entries(0) && !journal.is_of_all(0));
        assert!(!journal.concerns(0, concerns(0, &to(0xc612_0001))), "another network");
        assert!(!journal.concerns(0, concerns(1, &to(0x0a00_0001))), "another table");
        assert!(!journal.concerns(2500, concerns(0, &to(0x0a00_0001))), "changed before");
        for since in [2000, 2500, 2998] {
            assert!(journal.concerns(since, concerns(0, &to(0x0a00_0000 + 2999))), "since {since}");
            assert!(!journal.concerns(since, concerns(0, &to(0x0a00_0000 + 3001))), "since {since}");
        }
        let (roots, details) =
            (journal.roots.len(), journal.roots.iter().map(|root| leaves(root)).sum::<usize>());
        assert!(roots <= 2 * 12 && details <= 3072, "{roots} roots, {details} leaves");
    }

    fn leaves(node: &Node) -> usize {
        match &node.parts {
            Parts::Halves(older, newer) => leaves(older) + leaves(newer),
            _ => 1,
        }
    }

    #[test]
    fn a_large_change_is_joined_to_few_matches_that_say_as_much() {
        let mut journal = Journal::default();
        journal.push(1, (0..50_000).map(route).collect());
        assert!(!journal.concerns(0, concerns(0, &to(0x0b00_0000))));
        assert!((0..50_000).step_by(777).all(|at| journal.concerns(0, concerns(0, &to(0x0a00_0000 + at)))));
        let Parts::Changes(changes) = &journal.roots[0].parts else { panic!("{:?}", journal.roots[0]) };
        assert!(changes.len() <= 2 * CHANGES, "{}", changes.len());
    }

    #[test]
    fn what_is_older_than_all_that_is_known_is_concerned() {
        let journal = Journal { roots: Vec::new(), forgotten: 5 };
        assert!(journal.concerns(4, |_| false) && !journal.concerns(5, |_| false));
    }
}
