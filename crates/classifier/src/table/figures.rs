//! A table in words and figures, for people who ask what it is like.

use super::{Body, Table};
use crate::rule::Rule;
use std::collections::HashSet;
use weir_flow::Term;

impl<T> Table<T> {
    /// Masks of its rules, each counted once.
    pub fn masks(&self) -> usize {
        if let Body::Space(space) = &self.0.body
            && !space.merged()
            && self.0.soft.is_none()
        {
            return space.tuples();
        }
        self.iter().map(|rule| rule.matching.mask()).collect::<HashSet<_>>().len()
    }

    /// What the rules are kept in, in words, with figures.
    pub fn structure(&self) -> String {
        match &self.0.soft {
            None => self.hard_structure(),
            Some(soft) => {
                format!("{}; of conjunctions: {}", self.hard_structure(), soft.hard_structure())
            }
        }
    }

    fn hard_structure(&self) -> String {
        let entries = self.0.len;
        if let Some(vectors) = &self.0.vectors {
            return format!("rule vectors over {} slices, {entries} entries", vectors.dimensions());
        }
        match &self.0.body {
            Body::Linear(_) => format!("linear, {entries} entries"),
            Body::Space(space) => match (space.by_prefix(), space.tuples()) {
                (Some((lengths, field)), _) => {
                    format!("prefixes of {}, {lengths} lengths, {entries} entries", field.name())
                }
                (None, tuples) if space.merged() => format!("{tuples} merged tuples, {entries} entries"),
                (None, 1) => format!("hash, {entries} entries"),
                (None, tuples) => format!("{tuples} tuples, {entries} entries"),
            },
        }
    }

    /// Bytes held by the structure and its rules, without what their values point to and without
    /// what other clones hold alone. Looks at no rule.
    pub fn memory(&self) -> usize {
        let rule = size_of::<Rule<T>>() + 2 * size_of::<usize>();
        self.0.len * rule
            + self.0.terms * size_of::<Term>()
            + self.0.vectors.as_ref().map_or(0, |vectors| vectors.memory())
            + self.0.soft.as_ref().map_or(0, Self::memory)
            + match &self.0.body {
                Body::Linear(list) => list.memory(),
                Body::Space(space) => space.memory(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_flow::{Field, Match, Seed};

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn the_terms_of_a_tables_rules_are_counted_as_they_come_and_go(
            steps in proptest::collection::vec((0..80_u32, 0..8_u32, 0..3_u16, any::<bool>()), 0..400),
        ) {
            let mut table = Table::new(Seed::new(1));
            for (number, (address, fields, priority, comes)) in steps.into_iter().enumerate() {
                let mut matching = Match::any();
                for (bit, field) in [Field::NwDst, Field::TcpDst, Field::Metadata].into_iter().enumerate() {
                    if fields >> bit & 1 == 1 {
                        matching.demand(field, u128::from(address), 0xffff);
                    }
                }
                if comes {
                    table.insert(matching, priority, number);
                } else {
                    table.remove(&matching, priority);
                }
                let terms: usize = table.iter().map(|rule| rule.matching.terms().len()).sum();
                prop_assert_eq!(table.0.terms, terms, "{}", table.structure());
            }
        }
    }
}
