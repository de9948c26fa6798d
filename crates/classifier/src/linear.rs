//! A few rules, best first, compared one after the other.
//!
//! Below some number of rules nothing beats it: no hash, and all terms lie side by side. It also names
//! the fewest bits: of each better rule that does not match, just what shows it.
//!
//! Cost: one or two cycles a term. A change copies the list. Threads: plain data.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_flow::{Key, Mask, Match, Term};

use crate::rule::Rule;

/// A list of rules, best first.
#[derive(Debug)]
pub(crate) struct Linear<T> {
    rules: Vec<Arc<Rule<T>>>,
    /// All rules' terms, one rule's behind the other's.
    terms: Vec<Term>,
    /// Where each rule's terms end.
    ends: Vec<usize>,
}

impl<T> Clone for Linear<T> {
    fn clone(&self) -> Self {
        Self { rules: self.rules.clone(), terms: self.terms.clone(), ends: self.ends.clone() }
    }
}

impl<T> Linear<T> {
    pub(crate) fn new(mut rules: Vec<Arc<Rule<T>>>) -> Self {
        rules.sort_by(|a, b| (Reverse(a.priority), &a.matching).cmp(&(Reverse(b.priority), &b.matching)));
        let mut list = Self { rules, terms: Vec::new(), ends: Vec::new() };
        list.flatten();
        list
    }

    fn flatten(&mut self) {
        self.terms.clear();
        self.ends.clear();
        for rule in &self.rules {
            self.terms.extend_from_slice(rule.matching.terms());
            self.ends.push(self.terms.len());
        }
    }

    fn place(&self, (priority, matching): (u16, &Match)) -> Result<usize, usize> {
        let ranks = (Reverse(priority), matching);
        self.rules.binary_search_by(|rule| (Reverse(rule.priority), &rule.matching).cmp(&ranks))
    }

    pub(crate) fn rules(&self) -> &[Arc<Rule<T>>] {
        &self.rules
    }

    pub(crate) fn memory(&self) -> usize {
        self.terms.capacity() * size_of::<Term>() + (self.ends.capacity() + self.rules.capacity()) * 8
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<&Arc<Rule<T>>> {
        let mut start = 0;
        for (rule, &end) in self.rules.iter().zip(&self.ends) {
            let differs = |term: &Term| key.word(usize::from(term.place)) & term.mask != term.value;
            if !self.terms[start..end].iter().any(differs) {
                return Some(rule);
            }
            start = end;
        }
        None
    }

    pub(crate) fn lookup(&self, key: &Key, examined: &mut Mask) -> Option<&Arc<Rule<T>>> {
        for rule in &self.rules {
            if rule.matching.matches(key) {
                rule.examine(examined);
                return Some(rule);
            }
            rule.exclude(key, examined);
        }
        None
    }

    /// All rules of a higher priority than `above` that match, naming the bits that show it where that is asked for.
    pub(crate) fn each(
        &self,
        (key, above): (&Key, Option<u16>),
        mut examined: Option<&mut Mask>,
        mut meet: impl FnMut(&Rule<T>),
    ) {
        for rule in self.rules.iter().take_while(|rule| above.is_none_or(|above| rule.priority > above)) {
            let matches = rule.matching.matches(key);
            match &mut examined {
                Some(examined) if matches => rule.examine(examined),
                Some(examined) => rule.exclude(key, examined),
                None => {}
            }
            if matches {
                meet(rule);
            }
        }
    }

    pub(crate) fn get(&self, rule: (u16, &Match)) -> Option<&Arc<Rule<T>>> {
        self.place(rule).ok().map(|at| &self.rules[at])
    }

    pub(crate) fn get_mut(&mut self, rule: (u16, &Match)) -> Option<&mut Arc<Rule<T>>> {
        self.place(rule).ok().map(|at| &mut self.rules[at])
    }

    /// Adds a rule that is not there.
    pub(crate) fn insert(&mut self, rule: Arc<Rule<T>>) {
        if let Err(at) = self.place((rule.priority, &rule.matching)) {
            self.rules.insert(at, rule);
            self.flatten();
        }
    }

    pub(crate) fn remove(&mut self, rule: (u16, &Match)) -> Option<Arc<Rule<T>>> {
        let at = self.place(rule).ok()?;
        let removed = self.rules.remove(at);
        self.flatten();
        Some(removed)
    }
}
