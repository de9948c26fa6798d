//! Which worker has a translated connection, so that its answers find the way there.
//!
//! Why: a worker is chosen by the two addresses of a packet, whichever comes first
//! (`crates/datapath/src/worker/steer.rs`). Of a translated connection, original and answers have different
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
//! Threads: all workers; entries are single atomic words, and only the worker that made one takes it away
//! (`owner_line.rs`).

use super::owner_line::OwnerLine;
use super::packet::{Kind, Packet, Quote};
use super::tracking::own_tuple;
use super::tuple::{IndexKey, Tuple};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_flow::Seed;

/// Lines of the table: room for two million connections, of which about half can be had; fewer under Miri.
const LINES: usize = if cfg!(miri) { 1 << 10 } else { 1 << 18 };

/// The table.
#[derive(Debug)]
pub struct Owners {
    seed: Seed,
    lines: OnceLock<Box<[OwnerLine]>>,
    /// Whether a helper ever expected anything.
    expects: AtomicBool,
}

impl Owners {
    /// Nobody has any, for tuples hashed by this seed.
    pub fn new(seed: Seed) -> Self {
        Self { seed, lines: OnceLock::new(), expects: AtomicBool::new(false) }
    }

    /// Takes the memory, 16 MiB, if it was not taken yet: before the first flow that translates.
    pub fn prepare(&self) {
        self.lines.get_or_init(|| (0..LINES).map(|_| OwnerLine::default()).collect());
    }

    /// The worker that has a packet's connection, if it is one that is translated.
    pub fn of(&self, packet: &Packet<'_>) -> Option<usize> {
        let look = packet.look(0, self.seed);
        let key = match look.kind {
            _ if look.is_flow() => look.key,
            Kind::Report => {
                let quote = Quote::read(packet.transport().ok()?.get(8..)?, packet.v6())?;
                IndexKey::of(&quote.tuple, 0, self.seed)
            }
            _ => return None,
        };
        let found = self.find(&key);
        if found.is_none() && self.expects.load(Ordering::Acquire) && look.is_flow() {
            let tuple = own_tuple(&look)?;
            return self.find(&self.expected(&tuple));
        }
        found
    }

    fn find(&self, key: &IndexKey) -> Option<usize> {
        let name = self.name(key);
        self.line(name)?.find(name)
    }

    /// What stands for a tuple from any port.
    fn expected(&self, tuple: &Tuple) -> IndexKey {
        IndexKey::of(&Tuple { source_port: 0, ..*tuple }, 0, self.seed)
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
    pub(super) fn insert(&self, key: &IndexKey, worker: usize) -> bool {
        let name = self.name(key);
        self.line(name).is_none_or(|line| line.insert(name, worker))
    }

    /// Takes one such word back.
    pub(super) fn remove(&self, key: &IndexKey, worker: usize) {
        let name = self.name(key);
        if let Some(line) = self.line(name) {
            line.remove(name, worker);
        }
    }

    /// Takes all of a worker's words back: it begins without connections.
    pub fn clear(&self, worker: usize) {
        self.lines.get().into_iter().flatten().for_each(|line| line.clear(worker));
    }

    /// The hash's seed, for [`IndexKey::of`] with zone 0.
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    fn name(&self, key: &IndexKey) -> u64 {
        self.seed.finish(self.seed.fold_with(key.a, key.b, 5))
    }

    fn line(&self, name: u64) -> Option<&OwnerLine> {
        self.lines.get()?.get(name as usize & (LINES - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tuple::UDP;
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use weir_testkit::draws;

    #[test]
    fn no_two_workers_own_one_tuple() {
        const ROUNDS: usize = draws(100_000);
        let owners = Owners::new(Seed::new(5));
        owners.prepare();
        let key = |round: usize| {
            let (source, destination, kind, answer) = (round as u128, 9, 0, false);
            let (source_port, destination_port, protocol, v6) = (7, 8, UDP, false);
            let tuple =
                Tuple { v6, source, destination, source_port, destination_port, protocol, kind, answer };
            IndexKey::of(&tuple, 0, owners.seed())
        };
        let arrived = AtomicUsize::new(0);
        let race = |worker: usize| {
            let had: Vec<bool> = (0..ROUNDS)
                .map(|round| {
                    let key = key(round);
                    arrived.fetch_add(1, Ordering::SeqCst);
                    // The other one may have no core at the moment.
                    let there = || arrived.load(Ordering::SeqCst) >= 2 * (round + 1);
                    while !(0..1000).any(|_| there()) {
                        std::thread::yield_now();
                    }
                    owners.insert(&key, worker)
                })
                .collect();
            had
        };
        let [first, second] = std::thread::scope(|scope| {
            [0, 1].map(|worker| scope.spawn(move || race(worker))).map(|thread| thread.join().unwrap())
        });
        let both = first.iter().zip(&second).filter(|(one, other)| **one && **other).count();
        assert_eq!(both, 0, "of {ROUNDS} rounds");
        for round in 0..ROUNDS {
            let found = owners.find(&key(round));
            let had = if first[round] { Some(0) } else { second[round].then_some(1) };
            assert!(found == had || had.is_none() && found.is_none(), "round {round}");
        }
        assert!(first.iter().chain(&second).any(|had| *had));
    }
}
