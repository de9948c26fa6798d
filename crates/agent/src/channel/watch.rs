//! Who polls the connections: the switch's thread while it has nothing else to do, or the channel's own.
//!
//! Why: whoever waits for an answer waits for each thread that has to be woken on the way, and `ovs-ofctl`
//! waits for a barrier behind each flow-mod. So the switch's thread polls by itself: what it reads it does, and
//! it writes the answer. It may also be busy for long, and then nobody's echo may wait for that: when it has
//! not polled for [`AWAY`], or says that it does not, `weir-openflow` polls until it is back.
//!
//! Cost: two locks a turn that nobody else wants; taking over wakes a thread; for a tenth of a millisecond after
//! each message the switch's thread does not sleep. Threads: these two.

use super::hub::Hub;
use super::waker::Waker;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How long the switch's thread may be at something else before another polls.
const AWAY: Duration = Duration::from_millis(10);

/// The connections, and who polls them.
pub(super) struct Watch {
    hub: Mutex<Hub>,
    post: Mutex<Post>,
    called: Condvar,
    waker: Waker,
}

/// What is known of the switch's thread.
#[derive(Default)]
struct Post {
    /// How often it has polled.
    turns: u64,
    /// It polls now.
    there: bool,
    /// There is something to be done at once, whoever does it.
    called: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// The channel's own thread polls at first.
    pub(super) fn new(hub: Hub, waker: Waker) -> Self {
        Self { hub: Mutex::new(hub), post: Mutex::default(), called: Condvar::new(), waker }
    }

    /// The switch's thread polls once: until something came and was dealt with, or for so long.
    pub(super) fn attend(&self, most: Duration) {
        {
            let mut post = lock(&self.post);
            post.turns += 1;
            post.there = true;
        }
        let mut hub = match self.hub.try_lock() {
            Ok(hub) => hub,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waker.wake();
                lock(&self.hub)
            }
        };
        hub.turn(Some(most));
        drop(hub);
        lock(&self.post).there = false;
    }

    /// Something is to be done that the poll does not wait for, or the switch's thread does not poll any more.
    pub(super) fn call(&self) {
        lock(&self.post).called = true;
        self.called.notify_one();
        self.waker.wake();
    }

    /// The channel's own thread: polls while the switch's does not, until told to stop.
    pub(super) fn stand_in(&self) {
        let mut seen = 0;
        loop {
            while lock(&self.post).turns == seen {
                if lock(&self.hub).turn(None) {
                    return;
                }
            }
            seen = self.until_needed();
        }
    }

    /// Waits until the switch's thread is away; how often it has polled by then.
    fn until_needed(&self) -> u64 {
        let mut post = lock(&self.post);
        loop {
            let before = post.turns;
            if !post.called {
                post = self.called.wait_timeout(post, AWAY).unwrap_or_else(PoisonError::into_inner).0;
            }
            let called = std::mem::take(&mut post.called);
            if !post.there && (called || post.turns == before) {
                return post.turns;
            }
        }
    }
}
