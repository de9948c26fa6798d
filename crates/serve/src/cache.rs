//! Pages that were made and may be asked for again: those of runs that nobody measures any more.
//!
//! A page is kept for seconds only: advice may be added to a finished run. The oldest go first.

use crate::answer::Answer;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the page of a run is kept.
pub(crate) const OF_RUNS: Duration = Duration::from_secs(10);
/// How long a history is kept, whose address says which runs it is of and how far they came.
pub(crate) const OF_HISTORIES: Duration = Duration::from_secs(300);

/// The pages.
pub(crate) struct Cache {
    most: usize,
    kept: Duration,
    pages: Mutex<VecDeque<(String, Instant, Answer)>>,
}

impl Cache {
    /// A cache of so many bytes, each page for so long.
    pub(crate) fn new(most: usize, kept: Duration) -> Self {
        Self { most, kept, pages: Mutex::default() }
    }

    /// A page by its key.
    pub(crate) fn get(&self, key: &str) -> Option<Answer> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        while pages.front().is_some_and(|(_, made, _)| made.elapsed() > self.kept) {
            pages.pop_front();
        }
        pages.iter().find(|(kept, ..)| kept == key).map(|(.., page)| page.clone())
    }

    /// Keeps a page.
    pub(crate) fn keep(&self, key: String, page: &Answer) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(kept, ..)| *kept != key);
        pages.push_back((key, Instant::now(), page.clone()));
        let mut bytes: usize = pages.iter().map(|(.., page)| page.len()).sum();
        while bytes > self.most
            && let Some((.., page)) = pages.pop_front()
        {
            bytes -= page.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_page_goes_when_there_is_no_room() {
        let cache = Cache::new(10, OF_RUNS);
        let page = |text: &str| Answer::text("text/plain", text.to_owned());
        cache.keep("a".to_owned(), &page("123456"));
        cache.keep("b".to_owned(), &page("1234"));
        assert!(cache.get("a").is_some() && cache.get("b").is_some());
        cache.keep("c".to_owned(), &page("1"));
        assert!(cache.get("a").is_none() && cache.get("b").is_some() && cache.get("c").is_some());
        cache.keep("d".to_owned(), &page("too long for the cache"));
        assert!(cache.get("d").is_none(), "what is larger than the cache is not kept");
    }
}
