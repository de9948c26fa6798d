//! The time of a plan's searches, shared.
//!
//! A plan says what one search may take. What a search leaves goes to those that come after it, and a
//! search that needs more may take of what they are likely to leave; all together never take more than
//! the plan says. So a machine that disturbs one point does not leave it without a result while others
//! were done early.

use weir_units::Nanos;

/// A search may take so many times its own share.
const MOST: u64 = 2;
/// Of the shares of the searches still to come, so many parts in a hundred stay theirs: the first searches
/// must not leave the last ones without.
const KEPT_PERCENT: u64 = 80;

/// What is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purse {
    share: Nanos,
    searches: u64,
    left: Nanos,
}

impl Purse {
    /// The time of so many searches, each with this share.
    pub(crate) fn new(share: Nanos, searches: u64) -> Self {
        Self { share, searches, left: Nanos(share.0.saturating_mul(searches)) }
    }

    /// What the next search may take, at least its smallest sensible budget `least`.
    pub(crate) fn allows(&self, least: Nanos) -> Nanos {
        let later = self.searches.saturating_sub(1);
        let kept = (self.share.0 * KEPT_PERCENT / 100).saturating_mul(later);
        let most = self.share.0.saturating_mul(MOST);
        Nanos(self.left.0.saturating_sub(kept).min(most)).max(least)
    }

    /// A search is over and took so long.
    pub(crate) fn take(&mut self, spent: Nanos) {
        self.left = Nanos(self.left.0.saturating_sub(spent.0));
        self.searches = self.searches.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Nanos = Nanos(5_000);
    const LEAST: Nanos = Nanos(500);

    #[test]
    fn searches_that_take_all_they_may_never_take_more_than_all_shares() {
        let mut purse = Purse::new(SHARE, 12);
        let mut spent = 0;
        for search in 0..12 {
            let allowed = purse.allows(LEAST);
            assert!(
                (SHARE.0 * KEPT_PERCENT / 100..=SHARE.0 * MOST).contains(&allowed.0),
                "search {search}: {allowed:?}"
            );
            purse.take(allowed);
            spent += allowed.0;
        }
        assert_eq!(spent, 12 * SHARE.0);
    }

    #[test]
    fn what_one_search_leaves_another_may_take() {
        let mut purse = Purse::new(SHARE, 2);
        purse.take(Nanos(1_000));
        assert_eq!(purse.allows(LEAST), Nanos(9_000));
    }

    #[test]
    fn a_search_never_gets_less_than_it_needs_to_begin() {
        let mut purse = Purse::new(SHARE, 1);
        purse.take(Nanos(u64::MAX));
        assert_eq!(purse.allows(LEAST), LEAST);
    }
}
