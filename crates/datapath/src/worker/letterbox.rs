//! Between the control thread and a worker: whether there is mail, how much of it was read, whether the worker
//! sleeps, and how often it came round (`control/vitals.rs`).
//!
//! Why: whoever changed the tables waits until no worker uses the old ones. A worker says so by a number in
//! memory, without a system call among its packets; and of one that sleeps nothing has to be waited for: it
//! reads its mail before it looks at a packet again.
//!
//! Cost: the worker reads one flag a round. Threads: the control thread and one worker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// What both sides know of a worker's mail.
#[derive(Debug, Default)]
pub(super) struct Letterbox {
    /// There is mail, or was a moment ago.
    bell: AtomicBool,
    /// Letters that were read.
    read: AtomicU64,
    asleep: AtomicBool,
    /// Rounds in which the worker did what is due.
    rounds: AtomicU64,
}

impl Letterbox {
    /// Says that there is mail, which was put there before.
    pub(super) fn ring(&self) {
        self.bell.store(true, Ordering::SeqCst);
    }

    /// Whether there is mail to be read. What is put there after this rings again.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        // The swap pairs with the ringing: what was put there before it is seen.
        self.bell.load(Ordering::Relaxed) && self.bell.swap(false, Ordering::AcqRel)
    }

    /// The worker has done what a letter says.
    pub(super) fn was_read(&self) {
        // Nobody else writes it.
        self.read.store(self.read.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Letters that the worker has done.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// The worker has come round once more.
    pub(super) fn came_round(&self) {
        // Nobody else writes it.
        self.rounds.store(self.rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How often the worker came round.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// The worker is about to sleep. False if it has mail, and may not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may = !self.bell.load(Ordering::SeqCst);
        if !may {
            self.asleep.store(false, Ordering::SeqCst);
        }
        may
    }

    /// The worker is awake, and will look for mail before it does anything else.
    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        // Whoever rang and then saw it asleep did so before this: the bell is seen from here on.
        fence(Ordering::SeqCst);
    }

    /// Whether the worker sleeps. If so after the bell was rung, it reads that mail before it looks at a packet.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn whoever_has_mail_does_not_fall_asleep_and_mail_is_told_once() {
        let letterbox = Letterbox::default();
        assert!(!letterbox.has_mail() && letterbox.fall_asleep() && letterbox.is_asleep());
        letterbox.ring();
        letterbox.wake_up();
        assert!(!letterbox.is_asleep() && !letterbox.fall_asleep() && !letterbox.is_asleep());
        assert!(letterbox.has_mail() && !letterbox.has_mail());
        letterbox.was_read();
        assert_eq!(letterbox.read(), 1);
    }

    #[test]
    fn of_mail_that_was_sent_to_a_sleeper_the_first_look_after_waking_sees_all() {
        const LETTERS: u64 = 20_000;
        let letterbox = Arc::new(Letterbox::default());
        let (send, mail) = channel::<u64>();
        let theirs = letterbox.clone();
        // What the sender may take for known: read, or to be read before anything else.
        let known = Arc::new(AtomicU64::new(0));
        let told = known.clone();
        let worker = thread::spawn(move || {
            let mut last = 0;
            while last < LETTERS {
                if theirs.has_mail() {
                    while let Ok(letter) = mail.try_recv() {
                        last = letter;
                        theirs.was_read();
                    }
                }
                // Here a packet would be dealt with.
                assert!(told.load(Ordering::SeqCst) <= last, "a letter was taken for known too early");
                if theirs.fall_asleep() {
                    thread::yield_now();
                    theirs.wake_up();
                }
            }
        });
        for letter in 1..=LETTERS {
            send.send(letter).unwrap();
            letterbox.ring();
            while letterbox.read() < letter && !letterbox.is_asleep() {
                thread::yield_now();
            }
            known.store(letter, Ordering::SeqCst);
        }
        worker.join().unwrap();
    }
}
