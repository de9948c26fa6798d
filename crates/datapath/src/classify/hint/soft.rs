//! The soft TCAM: a port that classifies, emulated where no port does.
//!
//! It stands in front of a port's queue ([`SoftPort`]) and marks what comes in by that, as a NIC does by its flow rules;
//! whoever polls sees packets with marks, and knows of no emulation. The other end ([`SoftTable`]) is where updates are
//! written, as they are to a NIC's rules.
//!
//! Both ends are one worker's, for there is no other place that sees each packet: so the lock between them is always
//! free. The cycles of the emulation, its own reading of headers included, are counted at the port, so that they can be
//! kept apart from those of the switch's work.

use super::HintSource;
use crate::model::clock::Clock;
use crate::model::tcam::TcamConfig;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_classifier::{Mark, Refusal, Tcam};
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst};
use weir_flow::{Key, Mask, Seed, extract};
use weir_openflow::PortNo;
use weir_port::{Receive, Rx, TooLong};
use weir_units::Nanos;

/// Updates between two rankings of the emulation's own tables.
const RANK: u32 = 256;

/// What both ends share.
#[derive(Debug)]
struct Emulation {
    tcam: Tcam,
    /// Cycles that emulating took, since somebody asked.
    spent: u64,
    updates: u32,
}

impl Emulation {
    /// Does what a table in hardware would do by itself.
    #[inline]
    fn emulate<T>(&mut self, work: impl FnOnce(&mut Tcam) -> T) -> T {
        let begin = Ticks::now();
        let done = work(&mut self.tcam);
        self.spent += Ticks::now().since(begin);
        done
    }
}

fn lock(shared: &Mutex<Emulation>) -> MutexGuard<'_, Emulation> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The port's end: packets come out of it with the marks that the table gives them.
pub(crate) struct SoftPort {
    inner: Rx,
    number: PortNo,
    clock: Clock,
    shared: Arc<Mutex<Emulation>>,
    keys: Vec<Key>,
}

/// The driver's end.
pub(crate) struct SoftTable(Arc<Mutex<Emulation>>);

/// Puts a table in front of a queue of a port.
pub(crate) fn in_front_of(
    inner: Rx,
    number: PortNo,
    (seed, config): (Seed, &TcamConfig),
    clock: Clock,
) -> (SoftPort, SoftTable) {
    let tcam = Tcam::new(seed, config.entries as usize, config.latency);
    let shared = Arc::new(Mutex::new(Emulation { tcam, spent: 0, updates: 0 }));
    let keys = vec![Key::new(); BURST];
    (SoftPort { inner, number, clock, shared: shared.clone(), keys }, SoftTable(shared))
}

impl SoftPort {
    /// Marks packets of a burst from a place on, as the table answers by now.
    pub(super) fn mark(&mut self, burst: &mut Burst, from: usize, now: Nanos) {
        let Self { number, shared, keys, .. } = self;
        lock(shared).emulate(|tcam| {
            let mut fresh = 0;
            for (at, packet) in burst.iter().enumerate().skip(from) {
                extract(packet.data(), number.0, &mut keys[at]);
                fresh |= 1 << at;
            }
            let mut marks = [0; BURST];
            tcam.lookup_burst(keys, fresh, now, &mut marks);
            for (packet, mark) in burst.iter_mut().zip(marks).skip(from) {
                packet.set_mark((mark != 0).then_some(mark));
            }
        });
    }
}

impl fmt::Debug for SoftPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftPort").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Receive for SoftPort {
    fn receive(&mut self, burst: &mut Burst) -> usize {
        let from = burst.len();
        let count = self.inner.receive(burst);
        if count > 0 {
            self.mark(burst, from, self.clock.at(Ticks::now()));
        }
        count
    }

    fn take_too_long(&mut self) -> TooLong {
        self.inner.take_too_long()
    }

    fn take_emulated(&mut self) -> u64 {
        std::mem::take(&mut lock(&self.shared).spent) + self.inner.take_emulated()
    }
}

impl HintSource for SoftTable {
    fn is_ready(&self, now: Nanos) -> bool {
        lock(&self.0).tcam.is_ready(now)
    }

    fn write(&mut self, mark: Mark, key: &Key, mask: &Mask, now: Nanos) -> Result<(), Refusal> {
        let mut emulation = lock(&self.0);
        emulation.updates = (emulation.updates + 1) % RANK;
        let rank = emulation.updates == 0;
        emulation.emulate(|tcam| {
            if rank {
                tcam.rank();
            }
            tcam.write(mark, key, mask, now)
        })
    }

    fn erase(&mut self, mark: Mark, now: Nanos) -> Result<(), Refusal> {
        lock(&self.0).emulate(|tcam| tcam.erase(mark, now))
    }

    fn gone(&mut self, now: Nanos) -> Option<Mark> {
        lock(&self.0).emulate(|tcam| tcam.gone(now))
    }
}
