//! Between the control thread and a worker: whether there are commands, how many were carried out, whether the worker
//! sleeps, and how often it came round (`control/vitals.rs`).
//!
//! Why: whoever changed the tables waits until no worker uses the old ones. A worker says so by a number in
//! memory, without a system call among its packets; and of one that sleeps nothing has to be waited for: it
//! takes its commands before it looks at a packet again.
//!
//! Cost: the worker reads one flag a round. Threads: the control thread and one worker. All orders in which their
//! steps can be seen are gone through in `crates/models`, which has this very file.

use crate::model::atomics::{AtomicBool, AtomicU64, Ordering, fence};

/// What both sides know of a worker's command queue.
#[derive(Debug, Default)]
pub(super) struct Doorbell {
    /// There are commands, or were a moment ago.
    bell: AtomicBool,
    /// Commands that were carried out.
    done: AtomicU64,
    asleep: AtomicBool,
    /// Rounds in which the worker did what is due.
    rounds: AtomicU64,
}

impl Doorbell {
    /// Rings. The command is in the queue before.
    pub(super) fn ring(&self) {
        self.bell.store(true, Ordering::SeqCst);
    }

    /// Whether there are commands to be taken. What is put into the queue after this rings again.
    #[inline]
    pub(super) fn has_rung(&self) -> bool {
        // The swap pairs with the ringing: what was put there before it is seen.
        self.bell.load(Ordering::Relaxed) && self.bell.swap(false, Ordering::AcqRel)
    }

    /// The worker has carried out one command.
    pub(super) fn one_done(&self) {
        // Nobody else writes it.
        self.done.store(self.done.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Commands that the worker has carried out.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
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

    /// The worker is about to sleep. False if there are commands, and it may not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may = !self.bell.load(Ordering::SeqCst);
        if !may {
            self.asleep.store(false, Ordering::SeqCst);
        }
        may
    }

    /// The worker is awake, and will take commands before it does anything else.
    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        // Whoever rang and then saw it asleep did so before this: the bell is seen from here on.
        fence(Ordering::SeqCst);
    }

    /// Whether the worker sleeps. If so after the bell was rung, it takes that command before it looks at a packet.
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
        let doorbell = Doorbell::default();
        assert!(!doorbell.has_rung() && doorbell.fall_asleep() && doorbell.is_asleep());
        doorbell.ring();
        doorbell.wake_up();
        assert!(!doorbell.is_asleep() && !doorbell.fall_asleep() && !doorbell.is_asleep());
        assert!(doorbell.has_rung() && !doorbell.has_rung());
        doorbell.one_done();
        assert_eq!(doorbell.done(), 1);
    }

    #[test]
    fn of_mail_that_was_sent_to_a_sleeper_the_first_look_after_waking_sees_all() {
        const COMMANDS: u64 = 20_000;
        let doorbell = Arc::new(Doorbell::default());
        let (send, commands) = channel::<u64>();
        let theirs = doorbell.clone();
        // What the sender may take for known: read, or to be read before anything else.
        let known = Arc::new(AtomicU64::new(0));
        let told = known.clone();
        let worker = thread::spawn(move || {
            let mut last = 0;
            while last < COMMANDS {
                if theirs.has_rung() {
                    while let Ok(command) = commands.try_recv() {
                        last = command;
                        theirs.one_done();
                    }
                }
                // Here a packet would be dealt with.
                assert!(told.load(Ordering::SeqCst) <= last, "a command was taken for known too early");
                if theirs.fall_asleep() {
                    thread::yield_now();
                    theirs.wake_up();
                }
            }
        });
        for command in 1..=COMMANDS {
            send.send(command).unwrap();
            doorbell.ring();
            while doorbell.done() < command && !doorbell.is_asleep() {
                thread::yield_now();
            }
            known.store(command, Ordering::SeqCst);
        }
        worker.join().unwrap();
    }
}
