//! Wakes the channel's thread from its poll.
//!
//! Cost: one system call, if it sleeps and nobody has woken it yet. Threads: any may wake.

use super::wish::Wish;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes the thread that polls the other end.
#[derive(Clone, Debug)]
pub(super) struct Waker {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pipe: UnixStream,
    wish: Wish,
}

/// What the thread polls.
#[derive(Debug)]
pub(super) struct Woken {
    pipe: UnixStream,
    waker: Waker,
}

/// A waker, and what it wakes.
pub(super) fn waker() -> io::Result<(Waker, Woken)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let waker = Waker { inner: Arc::new(Inner { pipe: ours, wish: Wish::new() }) };
    Ok((waker.clone(), Woken { pipe: theirs, waker }))
}

impl Waker {
    /// Has the thread look at everything once more.
    pub(super) fn wake(&self) {
        if self.inner.wish.wish() {
            // A full pipe wakes it as well, and a closed one has nobody behind it.
            let _ = (&self.inner.pipe).write(&[1]);
        }
    }
}

impl Woken {
    /// Takes what woke the thread: called before it looks, so that what comes after wakes it again.
    pub(super) fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.pipe).read(&mut bytes), Ok(1..)) {}
        self.waker.inner.wish.begin();
    }
}

impl AsFd for Woken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn is_awake(woken: &Woken) -> bool {
        let mut look = [PollFd::new(woken.as_fd(), PollFlags::POLLIN)];
        poll(&mut look, PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn many_wakes_are_one_and_the_next_counts_again() {
        let (waker, woken) = waker().unwrap();
        assert!(!is_awake(&woken));
        (0..100_000).for_each(|_| waker.wake());
        assert!(is_awake(&woken));
        woken.clear();
        assert!(!is_awake(&woken));
        waker.wake();
        assert!(is_awake(&woken));
    }
}
