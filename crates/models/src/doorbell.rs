//! The doorbell between the control thread and a worker, with the queue of commands beside it.

use crate::every_order;
use crate::the_doorbell::Doorbell;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;

/// What both sides have of the bell.
trait Bell: Default + Send + Sync + 'static {
    fn ring(&self);
    fn has_rung(&self) -> bool;
    fn one_done(&self);
    fn done(&self) -> u64;
    fn fall_asleep(&self) -> bool;
    fn wake_up(&self);
    fn is_asleep(&self) -> bool;
}

impl Bell for Doorbell {
    fn ring(&self) {
        Doorbell::ring(self);
    }
    fn has_rung(&self) -> bool {
        Doorbell::has_rung(self)
    }
    fn one_done(&self) {
        Doorbell::one_done(self);
    }
    fn done(&self) -> u64 {
        Doorbell::done(self)
    }
    fn fall_asleep(&self) -> bool {
        Doorbell::fall_asleep(self)
    }
    fn wake_up(&self) {
        Doorbell::wake_up(self);
    }
    fn is_asleep(&self) -> bool {
        Doorbell::is_asleep(self)
    }
}

/// The same without the order that all agree on: what the model must find something wrong with.
#[derive(Debug, Default)]
struct Careless {
    bell: AtomicBool,
    done: loom::sync::atomic::AtomicU64,
    asleep: AtomicBool,
}

impl Bell for Careless {
    fn ring(&self) {
        self.bell.store(true, Ordering::Release);
    }
    fn has_rung(&self) -> bool {
        self.bell.swap(false, Ordering::AcqRel)
    }
    fn one_done(&self) {
        self.done.fetch_add(1, Ordering::Release);
    }
    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }
    fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Release);
        let may = !self.bell.load(Ordering::Acquire);
        if !may {
            self.asleep.store(false, Ordering::Release);
        }
        may
    }
    fn wake_up(&self) {
        self.asleep.store(false, Ordering::Release);
    }
    fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }
}

/// What both threads have.
struct Shared<B> {
    bell: B,
    commands: Mutex<VecDeque<usize>>,
    /// Tables by their number: used by the worker, and freed by who changed them.
    tables: [UnsafeCell<()>; 3],
}

impl<B: Bell> Shared<B> {
    fn new() -> Arc<Self> {
        let tables = [(), (), ()].map(UnsafeCell::new);
        Arc::new(Self { bell: B::default(), commands: Mutex::new(VecDeque::new()), tables })
    }

    /// The worker: takes commands, looks at a packet by the tables that it has, sleeps once nothing has come.
    fn work(&self, rounds: usize) {
        let (mut tables, mut round) = (0, 0);
        loop {
            if self.bell.has_rung() {
                while let Some(newer) = self.take() {
                    tables = newer;
                    self.bell.one_done();
                }
            }
            // Loom sees to it that nobody frees them meanwhile, or has freed them.
            self.tables[tables].with(|_| ());
            round += 1;
            if self.bell.fall_asleep() {
                if round >= rounds {
                    // It sleeps for good.
                    return;
                }
                self.bell.wake_up();
            }
        }
    }

    fn take(&self) -> Option<usize> {
        self.commands.lock().expect("nobody panics").pop_front()
    }

    /// The control thread: new tables, and the old ones are freed once it is known that nobody uses them.
    fn change(&self, tables: usize) {
        self.commands.lock().expect("nobody panics").push_back(tables);
        self.bell.ring();
        while self.bell.done() < tables as u64 && !self.bell.is_asleep() {
            thread::yield_now();
        }
        self.tables[tables - 1].with_mut(|_| ());
    }
}

fn tables_are_freed<B: Bell>(changes: usize, rounds: usize, interruptions: Option<usize>) -> u64 {
    every_order(interruptions, move || {
        let shared = Shared::<B>::new();
        let theirs = shared.clone();
        let worker = thread::spawn(move || theirs.work(rounds));
        (1..=changes).for_each(|tables| shared.change(tables));
        worker.join().expect("it does not panic");
    })
}

/// A worker uses no tables that were freed; orders of steps.
pub fn freed_tables_are_not_used() -> u64 {
    tables_are_freed::<Doorbell>(1, 2, None)
}

/// Nor if they change twice.
pub fn nor_when_they_change_twice() -> u64 {
    tables_are_freed::<Doorbell>(2, 2, Some(3))
}

/// A bell without one order that all agree on: this is to panic.
pub fn a_careless_bell_is_found_out() {
    tables_are_freed::<Careless>(1, 2, None);
}
