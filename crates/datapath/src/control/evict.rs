//! Which flow entry goes to make room for another where a controller asked for that (OpenFlow 1.4.1, section
//! 6.5).
//!
//! What: entries of a table in the order in which they would go: by importance if that is asked for, by how soon
//! they go by themselves if that is asked for, the oldest first. An entry never goes for one that is less
//! important.
//!
//! How: as in `expiry.rs`, nobody tells the queue of entries that were used or removed; one whose turn has come
//! is looked at, and takes the place that it has now. A queue is made when a table has to evict for the first
//! time.
//!
//! Cost: the logarithm of their number for each entry that goes. Threads: the control thread.

use crate::control::tables::{Draft, refuse_as};
use crate::model::entries::Entry;
use crate::model::pipeline::Pipeline;
use crate::model::requests::{Evict, Refusal, Refused, Removal};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Weak};
use weir_openflow::{Flow, MOST_FLOWS, TableId};
use weir_units::Nanos;

/// So many that are gone do not matter.
const SPARE: usize = 1024;

/// How early an entry goes: importance, its end, its begin.
type Rank = (u16, Nanos, Nanos);

/// The queues of those tables that evicted before.
#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<TableId, Queue>);

#[derive(Debug)]
struct Queue {
    by: Evict,
    heap: BinaryHeap<Reverse<Candidate>>,
}

#[derive(Debug)]
struct Candidate {
    rank: Rank,
    entry: Weak<Entry>,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

fn rank(by: Evict, entry: &Entry) -> Rank {
    let importance = if by.importance { entry.flow.importance } else { 0 };
    let end = if by.lifetime { entry.over_at().map(|(at, _)| at) } else { None };
    (importance, end.unwrap_or(Nanos(u64::MAX)), entry.created())
}

impl Queue {
    fn new<'a>(by: Evict, entries: impl Iterator<Item = &'a Arc<Entry>>) -> Self {
        let candidate =
            |entry: &Arc<Entry>| Reverse(Candidate { rank: rank(by, entry), entry: Arc::downgrade(entry) });
        Self { by, heap: entries.map(candidate).collect() }
    }

    fn add(&mut self, entry: &Arc<Entry>) {
        let rank = rank(self.by, entry);
        self.heap.push(Reverse(Candidate { rank, entry: Arc::downgrade(entry) }));
    }
}

impl Queues {
    /// An entry came.
    pub(super) fn add(&mut self, entry: &Arc<Entry>) {
        if let Some(queue) = self.0.get_mut(&entry.flow.table) {
            queue.add(entry);
        }
    }

    /// The entry of a table that goes first.
    fn first(&mut self, pipeline: &Pipeline, table: TableId, by: Evict) -> Option<Arc<Entry>> {
        let there = &pipeline.tables[usize::from(table.0)];
        let usable = |queue: &Queue| queue.by == by && queue.heap.len() <= 2 * there.len() + SPARE;
        if !self.0.get(&table).is_some_and(usable) {
            self.0.insert(table, Queue::new(by, there.iter().map(|rule| &rule.value)));
        }
        let queue = self.0.get_mut(&table)?;
        while let Some(Reverse(candidate)) = queue.heap.pop() {
            let Some(entry) = candidate.entry.upgrade().filter(|entry| pipeline.holds(entry)) else {
                continue;
            };
            if rank(by, &entry) <= candidate.rank {
                return Some(entry);
            }
            queue.add(&entry);
        }
        None
    }
}

impl Draft {
    /// Makes room for an entry, where its table may.
    pub(super) fn make_room(&mut self, flow: &Flow) -> Result<(), Refused> {
        let by = self.pipeline.eviction.get(&flow.table).copied();
        let first = by.and_then(|by| self.evictions.first(&self.pipeline, flow.table, by).zip(Some(by)));
        match first {
            Some((entry, by)) if by.importance && entry.flow.importance > flow.importance => {
                self.evictions.add(&entry);
                let text = format!(
                    "table {}: the switch has {MOST_FLOWS} flows, and none here is of importance {} or less",
                    flow.table, flow.importance
                );
                refuse_as(Refusal::TableFull, text)
            }
            Some((entry, _)) => {
                self.delete(&entry, Removal::Eviction);
                Ok(())
            }
            None => {
                let text =
                    format!("table {}: the switch has {MOST_FLOWS} flows, and takes no more", flow.table);
                refuse_as(Refusal::TableFull, text)
            }
        }
    }

    /// Says whether a table, or each, makes room, and how.
    pub(super) fn set_eviction(&mut self, table: Option<TableId>, by: Option<Evict>) {
        let eviction = Arc::make_mut(&mut self.pipeline.eviction);
        let all = (0..=TableId::LAST.0).map(TableId);
        for table in all.filter(|one| table.is_none_or(|table| table == *one)) {
            match by {
                Some(by) => drop(eviction.insert(table, by)),
                None => drop(eviction.remove(&table)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::requests::Change;
    use weir_flow::Seed;
    use weir_openflow::{FlowMod, Names};

    const SECOND: u64 = Nanos::PER_SECOND;

    /// A table that is full with so many entries.
    struct Bench {
        pipeline: Pipeline,
        evictions: Queues,
        most: usize,
        now: Nanos,
    }

    impl Bench {
        fn new(most: usize, by: Evict) -> Self {
            let pipeline = Pipeline::new(Seed::new(1), Vec::new(), true);
            let mut bench = Self { pipeline, evictions: Queues::default(), most, now: Nanos(0) };
            assert_eq!(bench.change(Change::SetEviction(Some(TableId(0)), Some(by))), Ok(vec![]));
            bench
        }

        /// Does a change; the ports of the entries that went for it.
        fn change(&mut self, change: Change) -> Result<Vec<u128>, Refusal> {
            self.now = Nanos(self.now.0 + SECOND);
            let mut draft = Draft::new(self.pipeline.clone(), self.now);
            (draft.most, draft.evictions) = (self.most, std::mem::take(&mut self.evictions));
            let done = draft.change(change).map_err(|refused| refused.why);
            let gone = std::mem::take(&mut draft.removed);
            (self.pipeline, self.evictions) = (draft.pipeline, draft.evictions);
            done.map(|()| {
                gone.iter()
                    .map(|(entry, why)| {
                        assert_eq!(*why, Removal::Eviction);
                        entry.flow.matching.field(weir_flow::Field::UdpDst).0
                    })
                    .collect()
            })
        }

        fn add(&mut self, port: u16, more: &str) -> Result<Vec<u128>, Refusal> {
            let text = format!("{more}send_flow_rem,udp,tp_dst={port} actions=drop");
            self.change(Change::Flow(FlowMod::Add(Flow::parse(&text, &Names::default()).unwrap())))
        }

        fn len(&self) -> usize {
            self.pipeline.tables[0].len()
        }
    }

    #[test]
    fn the_least_important_goes_first_and_never_for_one_that_is_less_important() {
        let mut bench = Bench::new(3, Evict { importance: true, lifetime: false });
        for (port, importance) in [(1, 5), (2, 3), (3, 3)] {
            assert_eq!(bench.add(port, &format!("importance={importance},")), Ok(vec![]));
        }
        assert_eq!(bench.add(4, "importance=2,"), Err(Refusal::TableFull));
        assert_eq!(bench.add(5, "importance=3,"), Ok(vec![2]), "of equals the oldest");
        assert_eq!(bench.add(3, "importance=9,"), Ok(vec![]), "one that is replaced needs no room");
        assert_eq!(
            bench.add(6, "importance=9,"),
            Ok(vec![5]),
            "what was replaced is as important as it is now"
        );
        assert_eq!(bench.add(7, "importance=9,"), Ok(vec![1]));
        assert_eq!(bench.len(), 3);
    }

    #[test]
    fn what_goes_soon_by_itself_goes_first_and_what_was_used_is_looked_at_as_it_is() {
        let mut bench = Bench::new(3, Evict { importance: false, lifetime: true });
        for (port, more) in [(1, ""), (2, "idle_timeout=10,"), (3, "hard_timeout=60,")] {
            assert_eq!(bench.add(port, more), Ok(vec![]));
        }
        assert_eq!(bench.add(4, "hard_timeout=600,"), Ok(vec![2]));
        assert_eq!(bench.add(5, "idle_timeout=20,"), Ok(vec![3]));
        let idle = bench.pipeline.tables[0].iter().find(|rule| rule.value.flow.idle_timeout == 20).unwrap();
        idle.value.counts().add(1, 60, Nanos(5000 * SECOND));
        assert_eq!(
            bench.add(6, ""),
            Ok(vec![4]),
            "the idle one was used, and goes later than in 600 seconds"
        );
        assert_eq!(bench.add(7, ""), Ok(vec![5]));
        assert_eq!(bench.add(8, ""), Ok(vec![1]), "of those that stay for ever the oldest");
    }

    #[test]
    fn a_table_that_was_not_told_to_evict_is_full() {
        let mut bench = Bench::new(2, Evict::default());
        assert_eq!(bench.change(Change::SetEviction(None, None)), Ok(vec![]));
        assert_eq!([bench.add(1, ""), bench.add(2, "")], [Ok(vec![]), Ok(vec![])]);
        assert_eq!((bench.add(3, ""), bench.len()), (Err(Refusal::TableFull), 2));
        assert_eq!(bench.change(Change::SetEviction(None, Some(Evict::default()))), Ok(vec![]));
        assert_eq!((bench.add(3, ""), bench.len()), (Ok(vec![1]), 2));
    }
}
