//! A rule of a table, and what a key must be looked at to see that a rule does not match it.

use std::sync::Arc;

use weir_flow::{Key, Mask, Match};

use crate::slices;

/// A rule's part in a conjunctive match: keys that the rule matches meet one dimension of it (`ovs-fields(7)`,
/// "Conjunctive Match").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clause {
    /// The conjunction's number: what `conj_id` is where all of its dimensions are met.
    pub id: u32,
    /// How many dimensions it has, 64 at most.
    pub dimensions: u8,
    /// Which of them this is, from 0.
    pub dimension: u8,
}

/// What a table holds: a match, how it ranks, and what it means to the table's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<T> {
    /// What it demands.
    pub matching: Match,
    /// The highest that matches wins.
    pub priority: u16,
    /// The owner's.
    pub value: T,
    /// What it is part of, if it decides nothing by itself.
    pub clauses: Option<Arc<[Clause]>>,
}

impl<T> Rule<T> {
    /// Whether it is another rule of this priority, and some keys match both.
    pub(crate) fn overlaps(&self, priority: u16, matching: &Match) -> bool {
        self.priority == priority && self.matching != *matching && self.matching.overlaps(matching)
    }

    /// Names every bit that the rule demands.
    pub(crate) fn examine(&self, examined: &mut Mask) {
        for term in self.matching.terms() {
            examined.add(usize::from(term.place), term.mask);
        }
    }

    /// Names, of a key that the rule does not match, bits that show it: none when some that are
    /// named already do; of an address or port the upper bits as far as the first that differs;
    /// of anything else the bits that the rule demands.
    pub(crate) fn exclude(&self, key: &Key, examined: &mut Mask) {
        let mut best: Option<(u8, usize, u64)> = None;
        for term in self.matching.terms() {
            let place = usize::from(term.place);
            let differs = (key.word(place) ^ term.value) & term.mask;
            if differs & examined.word(place) != 0 {
                return;
            }
            if differs == 0 {
                continue;
            }
            for slice in slices::of(term.place) {
                let differs = differs & slice.mask;
                if differs == 0 || best.is_some_and(|best| best.0 <= slice.stage) {
                    continue;
                }
                let first = if slice.prefix { u64::MAX << (63 - differs.leading_zeros()) } else { u64::MAX };
                best = Some((slice.stage, place, slice.mask & term.mask & first));
            }
        }
        let (_, place, bits) = best.expect("a rule that does not match differs somewhere");
        examined.add(place, bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Field;

    fn rule() -> Rule<()> {
        let mut matching = Match::any();
        matching.demand(Field::NwDst, 0xc612_0000, 0xffff_0000);
        matching.demand(Field::TcpDst, 80, 0xffff);
        Rule { matching, priority: 1, value: (), clauses: None }
    }

    #[test]
    fn a_rule_is_excluded_by_the_first_bits_of_an_address_before_a_port() {
        let mut key = Key::new();
        Field::NwDst.set(&mut key, 0xc600_0001);
        let mut examined = Mask::new();
        rule().exclude(&key, &mut examined);
        assert_eq!(Field::NwDst.mask_of(&examined), 0xfff0_0000);
        assert_eq!(examined.bits(), 12);
    }

    #[test]
    fn what_is_examined_already_is_enough_when_it_differs() {
        let mut examined = Mask::new();
        Field::TcpDst.examine(&mut examined, 0xffff);
        rule().exclude(&Key::new(), &mut examined);
        assert_eq!(examined.bits(), 16);
    }
}
