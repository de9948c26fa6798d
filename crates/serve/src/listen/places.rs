//! The places of connections. Where all are taken, the connection that has been idle longest makes room, so that a thousand silent
//! clients keep nobody out; only if every one is being answered a new client is sent away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The places of connections.
#[derive(Default)]
pub(super) struct Places {
    most: usize,
    next: AtomicU64,
    taken: Mutex<BTreeMap<u64, Arc<Seat>>>,
}

/// What is known of a connection.
pub(super) struct Seat {
    /// Requests of it that are being answered.
    working: AtomicUsize,
    /// When it last began or ended one, milliseconds since `begun`.
    last: AtomicU64,
    begun: Instant,
    pub(super) leave: Notify,
}

impl Seat {
    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Says that a request is being answered, for as long as what it gives lives.
    pub(super) fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Working(Arc::clone(self))
    }

    /// How long nothing happened; nothing while it is being answered.
    fn idle(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        (self.working.load(Ordering::Relaxed) == 0).then(|| self.begun.elapsed().saturating_sub(last))
    }
}

/// A request that is being answered.
pub(super) struct Working(Arc<Seat>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.touch();
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place that is taken, until this goes.
pub(super) struct Place {
    number: u64,
    pub(super) seat: Arc<Seat>,
    of: Arc<Places>,
}

impl Places {
    /// So many places, one at least.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), ..Self::default() })
    }

    /// A place; where there is none, that of whoever has been idle longest. Nothing where nobody is idle.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.most {
            let idle = taken.iter().filter_map(|(number, seat)| Some((seat.idle()?, *number)));
            let (_, number) = idle.max()?;
            if let Some(seat) = taken.remove(&number) {
                seat.leave.notify_one();
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat {
            working: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            begun: Instant::now(),
            leave: Notify::new(),
        });
        taken.insert(number, Arc::clone(&seat));
        Some(Place { number, seat, of: Arc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_longest_idle_is_taken_and_never_one_that_is_answered() {
        let places = Places::new(2);
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        std::thread::sleep(Duration::from_millis(5));
        drop(first.seat.work());
        let third = places.take().unwrap();
        let there = || places.taken.lock().unwrap().keys().copied().collect::<Vec<_>>();
        assert_eq!(there(), [first.number, third.number], "the second was idle longer");
        let (_a, _b) = (first.seat.work(), third.seat.work());
        assert!(places.take().is_none());
        drop(second);
        assert_eq!(there().len(), 2, "a place that was taken away is not given back twice");
        drop(third);
        assert_eq!(there(), [first.number]);
    }
}
