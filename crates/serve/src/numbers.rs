//! What runs said that histories were made of. A run that is new makes the histories of its points out of date, but says
//! nothing else of the runs before it: those need not be read again.

use crate::catalogue::Entry;
use lru::LruCache;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_methods::history::RunNumbers;

/// What is kept at most, counted in numbers: some 1 kB each.
const MOST: usize = 100_000;
/// What a run's plan and environment count for.
const OF_A_RUN: usize = 16;

/// The numbers of runs that nobody measures any more; those that were not asked for go first.
pub(crate) struct KeptNumbers {
    most: usize,
    kept: Mutex<Kept>,
}

struct Kept {
    runs: LruCache<String, Found>,
    size: usize,
}

/// Nothing where a run has no such point.
type Found = Option<Arc<RunNumbers>>;

fn size(found: &Found) -> usize {
    found.as_ref().map_or(1, |numbers| OF_A_RUN + numbers.count())
}

impl Default for KeptNumbers {
    fn default() -> Self {
        Self::new(MOST)
    }
}

impl KeptNumbers {
    fn new(most: usize) -> Self {
        Self { most, kept: Mutex::new(Kept { runs: LruCache::unbounded(), size: 0 }) }
    }

    /// What a run says of some points: as it is kept, or as `read` finds it. `points` tells apart which points are meant.
    pub(crate) fn of<E>(
        &self,
        run: &Entry,
        points: &str,
        read: impl FnOnce() -> Result<Found, E>,
    ) -> Result<Found, E> {
        let key = key(run, points);
        if let Some(found) = self.lock().runs.get(&key) {
            return Ok(found.clone());
        }
        let found = read()?;
        if !run.outline.live {
            self.keep(key, found.clone());
        }
        Ok(found)
    }

    fn keep(&self, key: String, found: Found) {
        let mut kept = self.lock();
        kept.size += size(&found);
        if let Some(old) = kept.runs.put(key, found) {
            kept.size -= size(&old);
        }
        while kept.size > self.most
            && let Some((_, oldest)) = kept.runs.pop_lru()
        {
            kept.size -= size(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells apart the runs, what became of them, and which of their points are meant.
fn key(run: &Entry, points: &str) -> String {
    format!("{:?} {points}", run.version())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use weir_store::{Facts, Outline};
    use weir_trial::run::RunState;

    fn entry(id: i64, ended_ms: Option<i64>) -> Entry {
        let outline = Outline {
            id,
            ended_ms,
            uuid: String::new(),
            name: "otter".to_owned(),
            started_ms: 0,
            state: RunState::Finished,
            live: false,
            weir: String::new(),
            share: None,
        };
        Entry {
            outline,
            facts: Facts::default(),
            places: Default::default(),
            day: String::new(),
            text: String::new(),
        }
    }

    /// How often runs are read of which these are asked for.
    fn reads(kept: &KeptNumbers, asked: &[(&Entry, &str)]) -> usize {
        let count = Cell::new(0);
        for (run, points) in asked {
            let read = || {
                count.set(count.get() + 1);
                Ok::<_, ()>(None)
            };
            assert!(kept.of(run, points, read).unwrap().is_none());
        }
        count.get()
    }

    #[test]
    fn a_run_is_read_again_when_it_went_on_or_other_points_are_meant() {
        let kept = KeptNumbers::default();
        let (run, later) = (entry(1, Some(5)), entry(1, Some(6)));
        assert_eq!(reads(&kept, &[(&run, "a"), (&run, "a"), (&run, "b"), (&run, "b"), (&later, "a")]), 3);
        let mut live = entry(2, None);
        live.outline.live = true;
        assert_eq!(reads(&kept, &[(&live, "a"), (&live, "a")]), 2);
    }

    #[test]
    fn what_was_not_asked_for_goes_first() {
        let kept = KeptNumbers::new(2);
        let [one, two, three] = [1, 2, 3].map(|id| entry(id, None));
        assert_eq!(reads(&kept, &[(&one, ""), (&two, ""), (&one, ""), (&three, ""), (&one, "")]), 3);
        assert_eq!(reads(&kept, &[(&two, "")]), 1);
        assert_eq!(kept.lock().size, 2);
    }
}
