//! Which worker has a translated connection, so that its answers find the way there.
//!
//! Why: a worker is chosen by the two addresses of a packet, whichever comes first
//! (`crates/datapath/src/steer.rs`). Of a translated connection, original and answers have different
//! addresses, and would come to different workers. So whoever makes such a connection says here that it has
//! the answers' tuple, and packets are asked here first. Where another worker has the tuple already, in
//! another zone, the next port is taken instead.
//!
//! Cost: 8 bytes a translated connection, in lines of eight; a packet's tuple is hashed and one line read,
//! only with several workers and flows that translate. A full line refuses more (another port is tried).
//! Later fragments have no ports: those of answers go to the worker of their addresses, where they are
//! invalid if that is another.
//!
//! Connections that a helper expects stand here with no source port, as that may be any: from the first of them
//! on, packets that nobody owns are asked for that way, too.
//!
//! Threads: all workers; entries are single atomic words, and only the worker that made one takes it away.

use super::packet::{Kind, Packet, Quote};
use super::tracking::own_tuple;
use super::tuple::{Sight, Tuple};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_flow::Seed;

/// Lines of the table: room for two million connections, of which about half can be had.
const LINES: usize = 1 << 18;

/// Bits of an entry that name the worker, counted from 1; 0 is no entry.
const WORKER: u64 = 0xffff;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// The table.
#[derive(Debug)]
pub struct Owners {
    seed: Seed,
    lines: OnceLock<Box<[Line]>>,
    /// Whether a helper ever expected anything.
    expects: AtomicBool,
}

impl Owners {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, lines: OnceLock::new(), expects: AtomicBool::new(false) }
    }

    /// Takes the memory, 16 MiB, if it was not taken yet: before the first flow that translates.
    pub fn prepare(&self) {
        self.lines.get_or_init(|| (0..LINES).map(|_| Line::default()).collect());
    }

    /// The worker that has a packet's connection, if it is one that is translated.
    pub fn of(&self, packet: &Packet<'_>) -> Option<usize> {
        let look = packet.look(0, self.seed);
        let sight = match look.kind {
            _ if look.is_flow() => look.sight,
            Kind::Report => {
                let quote = Quote::read(packet.transport().ok()?.get(8..)?, packet.v6())?;
                Sight::of(&quote.tuple, 0, self.seed)
            }
            _ => return None,
        };
        let found = self.find(&sight);
        if found.is_none() && self.expects.load(Ordering::Acquire) && look.is_flow() {
            let tuple = own_tuple(&look)?;
            return self.find(&self.expected(&tuple));
        }
        found
    }

    fn find(&self, sight: &Sight) -> Option<usize> {
        let name = self.name(sight);
        let entry = self.line(name)?.0.iter().map(|entry| entry.load(Ordering::Acquire));
        let found = entry.into_iter().find(|entry| *entry & !WORKER == name & !WORKER && *entry != 0)?;
        Some((found & WORKER) as usize - 1)
    }

    /// What stands for a tuple from any port.
    fn expected(&self, tuple: &Tuple) -> Sight {
        Sight::of(&Tuple { source_port: 0, ..*tuple }, 0, self.seed)
    }

    /// Says that a worker expects a connection of this tuple, from any port. False as by [`Self::insert`].
    pub(super) fn insert_expected(&self, tuple: &Tuple, worker: usize) -> bool {
        self.expects.store(true, Ordering::Release);
        self.insert(&self.expected(tuple), worker)
    }

    /// Takes one such word back.
    pub(super) fn remove_expected(&self, tuple: &Tuple, worker: usize) {
        self.remove(&self.expected(tuple), worker);
    }

    /// Says that a worker has a tuple, whatever its zone. False if another has it, or there is no room.
    pub(super) fn insert(&self, sight: &Sight, worker: usize) -> bool {
        let name = self.name(sight);
        let Some(line) = self.line(name) else { return true };
        let entry = name & !WORKER | (worker as u64 + 1);
        let others = line.0.iter().map(|entry| entry.load(Ordering::Acquire));
        if others.into_iter().any(|other| other & !WORKER == name & !WORKER && other != 0 && other != entry) {
            return false;
        }
        line.0
            .iter()
            .any(|place| place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Takes one such word back.
    pub(super) fn remove(&self, sight: &Sight, worker: usize) {
        let name = self.name(sight);
        let entry = name & !WORKER | (worker as u64 + 1);
        if let Some(line) = self.line(name) {
            line.0
                .iter()
                .any(|place| place.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        }
    }

    /// Takes all of a worker's words back: it begins without connections.
    pub(super) fn clear(&self, worker: usize) {
        for place in self.lines.get().into_iter().flatten().flat_map(|line| &line.0) {
            let entry = place.load(Ordering::Relaxed);
            if entry & WORKER == worker as u64 + 1 {
                place.store(0, Ordering::Release);
            }
        }
    }

    /// The hash's seed, for [`Sight::of`] with zone 0.
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    fn name(&self, sight: &Sight) -> u64 {
        self.seed.finish(self.seed.fold_with(sight.a, sight.b, 5))
    }

    fn line(&self, name: u64) -> Option<&Line> {
        self.lines.get()?.get(name as usize & (LINES - 1))
    }
}
