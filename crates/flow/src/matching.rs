//! What a flow entry matches: values and masks, only of the words that matter.

use crate::field::Field;
use crate::key::{Key, Mask};

/// One word of a match. The value has no bit outside the mask, and the mask is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// Which word of the key.
    pub place: u8,
    /// The bits it must have.
    pub value: u64,
    /// The bits that matter.
    pub mask: u64,
}

/// A match: all its terms must hold. Without a term, every packet matches.
///
/// Two matches are equal exactly when they match the same packets: terms are in order of their place,
/// one a place. Prerequisites (EtherType, protocol) are terms like the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Match(Vec<Term>);

impl Match {
    /// Matches every packet.
    pub const fn any() -> Self {
        Self(Vec::new())
    }

    /// Demands that the bits of the field that `mask` names have the given value. Bits demanded
    /// before keep their value where the mask does not name them.
    pub fn demand(&mut self, field: Field, value: u128, mask: u128) {
        for (place, value, mask) in field.spread(value, mask) {
            self.demand_bits(place, value, mask);
        }
    }

    /// The same by a word of the key.
    pub fn demand_bits(&mut self, place: usize, value: u64, mask: u64) {
        if mask == 0 {
            return;
        }
        let place = u8::try_from(place).expect("a key has fewer words than that");
        match self.0.binary_search_by_key(&place, |term| term.place) {
            Ok(at) => {
                let term = &mut self.0[at];
                term.value = (term.value & !mask) | (value & mask);
                term.mask |= mask;
            }
            Err(at) => self.0.insert(at, Term { place, value: value & mask, mask }),
        }
    }

    /// Its terms, by place.
    pub fn terms(&self) -> &[Term] {
        &self.0
    }

    /// Value and mask of a field in it.
    pub fn field(&self, field: Field) -> (u128, u128) {
        (field.get(&self.key()), field.mask_of(&self.mask()))
    }

    /// The same without what it demands of a field.
    pub fn without(&self, field: Field) -> Self {
        let mut out = self.clone();
        for (place, _, bits) in field.spread(0, u128::MAX) {
            for term in out.0.iter_mut().filter(|term| usize::from(term.place) == place) {
                term.mask &= !bits;
                term.value &= term.mask;
            }
        }
        out.0.retain(|term| term.mask != 0);
        out
    }

    /// Whether a key matches.
    #[inline]
    pub fn matches(&self, key: &Key) -> bool {
        self.0.iter().all(|term| key.word(usize::from(term.place)) & term.mask == term.value)
    }

    /// The key with the bits it demands, all others zero.
    pub fn key(&self) -> Key {
        let mut key = Key::new();
        for term in &self.0 {
            key.set_word(usize::from(term.place), term.value);
        }
        key
    }

    /// The bits that matter.
    pub fn mask(&self) -> Mask {
        let mut mask = Mask::new();
        for term in &self.0 {
            mask.add(usize::from(term.place), term.mask);
        }
        mask
    }

    /// Whether some packet matches both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let mut others = other.0.iter().peekable();
        self.0.iter().all(|term| {
            while others.next_if(|other| other.place < term.place).is_some() {}
            let same = others.peek().filter(|other| other.place == term.place);
            same.is_none_or(|other| (term.value ^ other.value) & term.mask & other.mask == 0)
        })
    }

    /// The narrowest match that covers both: what they demand alike.
    pub fn around(&self, other: &Self) -> Self {
        let mut others = other.0.iter().peekable();
        let alike = |term: &Term| {
            while others.next_if(|other| other.place < term.place).is_some() {}
            let other = others.next_if(|other| other.place == term.place)?;
            let mask = term.mask & other.mask & !(term.value ^ other.value);
            (mask != 0).then_some(Term { place: term.place, value: term.value & mask, mask })
        };
        Self(self.0.iter().filter_map(alike).collect())
    }

    /// Whether every packet that matches the other matches this one.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.iter().all(|term| {
            let same = other.0.binary_search_by_key(&term.place, |other| other.place);
            same.is_ok_and(|at| {
                let other = &other.0[at];
                other.mask & term.mask == term.mask && other.value & term.mask == term.value
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matching(terms: &[(u8, u64, u64)]) -> Match {
        let mut out = Match::any();
        for &(place, value, mask) in terms {
            out.demand_bits(usize::from(place), value, mask);
        }
        out
    }

    fn terms() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
        proptest::collection::vec((0..4_u8, 0..8_u64, 0..8_u64), 0..4)
    }

    #[test]
    fn what_is_left_without_a_field_demands_all_else() {
        let mut with = Match::any();
        with.demand(Field::ActsetOutput, 3, u128::MAX);
        let without = with.clone();
        assert_eq!(without.without(Field::ConjId), without);
        with.demand(Field::ConjId, 7, u128::MAX);
        assert_eq!(with.without(Field::ConjId), without, "they lie in one word");
        let mut alone = Match::any();
        alone.demand(Field::ConjId, 7, 0xff);
        assert_eq!(alone.without(Field::ConjId), Match::any());
    }

    proptest! {
        #[test]
        fn overlap_and_cover_say_what_some_or_every_key_would(a in terms(), b in terms()) {
            let (a, b) = (matching(&a), matching(&b));
            let (mut some, mut every) = (false, true);
            for bits in 0..4096_u64 {
                let mut key = Key::new();
                for place in 0..4 {
                    key.set_word(place, bits >> (3 * place) & 7);
                }
                some |= a.matches(&key) && b.matches(&key);
                every &= a.matches(&key) || !b.matches(&key);
            }
            prop_assert_eq!(a.overlaps(&b), some);
            prop_assert_eq!(a.covers(&b), every);
        }

        #[test]
        fn what_is_around_two_covers_both_and_demands_whatever_both_do(a in terms(), b in terms()) {
            let (a, b) = (matching(&a), matching(&b));
            let around = a.around(&b);
            prop_assert!(around.covers(&a) && around.covers(&b));
            prop_assert_eq!(&around, &b.around(&a));
            for place in 0..4_usize {
                for bit in [1, 2, 4] {
                    let demands = |of: &Match| {
                        let term = of.terms().iter().find(|term| usize::from(term.place) == place);
                        term.filter(|term| term.mask & bit != 0).map(|term| term.value & bit)
                    };
                    let alike = demands(&a).filter(|value| demands(&b) == Some(*value));
                    prop_assert_eq!(demands(&around), alike);
                }
            }
        }
    }
}
