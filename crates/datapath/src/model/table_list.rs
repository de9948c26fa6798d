//! The tables of a snapshot, by number.
//!
//! Why not a list: there are 255 of them, most empty, and the control thread makes a snapshot for each change.
//! So they lie on racks of sixteen that snapshots share until one of their tables changes; and tables that
//! never had an entry are not looked at where only those with entries matter.
//!
//! Cost: a clone is sixteen pointers; changing a table copies sixteen more. Threads: as `Arc`.

use crate::model::entries::{Entry, TABLES};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use weir_classifier::Table;
use weir_flow::Seed;

/// Tables of a rack.
const RACK: usize = 16;

type Of = Table<Arc<Entry>>;

/// All tables.
#[derive(Clone, Debug)]
pub(crate) struct TableList {
    racks: [Arc<[Of; RACK]>; TABLES.div_ceil(RACK)],
    /// A bit for each table that may have entries.
    used: [u64; TABLES.div_ceil(64)],
}

impl TableList {
    /// Empty tables.
    pub(super) fn new(seed: Seed) -> Self {
        let rack: Arc<[Of; RACK]> = Arc::new(std::array::from_fn(|_| Table::new(seed)));
        Self { racks: std::array::from_fn(|_| Arc::clone(&rack)), used: [0; _] }
    }

    /// A table, if there is one of that number.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&Of> {
        (at < TABLES).then(|| &self.racks[at / RACK][at % RACK])
    }

    /// All tables, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Of> {
        self.racks.iter().flat_map(|rack| rack.iter()).take(TABLES)
    }

    /// Numbers of the tables that may have entries, from the first on.
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> + use<> {
        let used = self.used;
        (0..TABLES).filter(move |at| used[at / 64] >> (at % 64) & 1 != 0)
    }

    /// The tables that may have entries.
    pub(crate) fn iter_used(&self) -> impl Iterator<Item = &Of> {
        self.used().map(|at| &self[at])
    }
}

impl Index<usize> for TableList {
    type Output = Of;

    #[inline]
    fn index(&self, at: usize) -> &Of {
        &self.racks[at / RACK][at % RACK]
    }
}

impl IndexMut<usize> for TableList {
    fn index_mut(&mut self, at: usize) -> &mut Of {
        self.used[at / 64] |= 1 << (at % 64);
        &mut Arc::make_mut(&mut self.racks[at / RACK])[at % RACK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entries::Birth;
    use weir_flow::Match;
    use weir_openflow::Flow;
    use weir_units::Nanos;

    #[test]
    fn a_clone_keeps_its_tables_and_shares_those_that_did_not_change() {
        let mut list = TableList::new(Seed::new(1));
        assert_eq!((list.iter().count(), list.used().count()), (TABLES, 0));
        let entry = || Arc::new(Entry::new(Flow::default(), Birth::new(Nanos(0)), None));
        list[3].insert(Match::any(), 1, entry());
        let old = list.clone();
        list[TABLES - 1].insert(Match::any(), 1, entry());
        list[3].remove(&Match::any(), 1);
        assert_eq!(old.used().collect::<Vec<_>>(), [3]);
        assert_eq!((old[3].len(), old[TABLES - 1].len()), (1, 0));
        assert_eq!((list[3].len(), list[TABLES - 1].len()), (0, 1));
        assert_eq!(list.iter_used().map(Table::len).sum::<usize>(), 1);
        let shared = old.racks.iter().zip(&list.racks).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, old.racks.len() - 2);
        assert!(list.get(TABLES - 1).is_some() && list.get(TABLES).is_none());
    }
}
