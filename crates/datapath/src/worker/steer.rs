//! Which worker owns a flow, where services keep state by flow and there are several workers.
//!
//! Both directions of a conversation, its fragments and the ICMP errors about it must meet at one
//! worker. So the owner is chosen by the two addresses alone, whichever comes first; an ICMP error goes
//! where the packet that it quotes would. The price: all flows between the same two addresses have one
//! owner. Answers of connections whose addresses are translated have other addresses; who has them is asked
//! first (`weir_services::OwnerTable`).
//!
//! Pairs of addresses fall into buckets by a keyed hash, and a bucket belongs to who was first to get a packet
//! of it from a port that has a queue for every worker: where the card has both directions of a conversation
//! at one queue (symmetric RSS over addresses), nothing is handed over, whatever hash the card uses. From other
//! ports a bucket gets an owner by its number, so that work is shared though one worker polls; and so it does from
//! any port once a worker has a quarter more than its share of the buckets.
//!
//! An owner keeps its bucket as long as a service of it knows a connection between addresses of it (`Pairs`), or a
//! packet came within the time for which services know a flow otherwise. After that, who gets a packet of it
//! first has it. Who draws addresses at random therefore holds no bucket for longer than that. While more pairs come
//! by than there are buckets, a new one may find its bucket with another worker, and is handed over.
//!
//! Costs: a hash, and a load from a table of 2 MiB that was fetched ahead; a store every `EPOCH` of `model/kept.rs`. Threads: all
//! workers, without locks.

use crate::model::kept::Age;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_cpu::prefetch;
use weir_dpdk::Mbuf;
use weir_flow::{Field, Key, Layout, Pairs, Seed};

/// ICMP types that quote the packet they are about (RFC 792).
const ICMP_ERRORS: [u128; 5] = [3, 4, 5, 11, 12];

/// Buckets of pairs of addresses. With two workers, one in a hundred of 10,000 pairs finds its bucket with the
/// other one (5,000 of 524,288 are its), one in eleven of 100,000.
const BUCKETS: usize = Pairs::BUCKETS;

/// A bucket that is nobody's.
const FREE: u16 = u16::MAX;

/// An owner, and the epoch of the last packet.
#[inline]
const fn word(owner: u16, epoch: u16) -> u32 {
    (owner as u32) << 16 | epoch as u32
}

/// Which worker has which bucket.
pub(crate) struct SteeringTable {
    buckets: Box<[AtomicU32]>,
    /// Buckets of each worker.
    counts: Box<[AtomicU32]>,
    seed: Seed,
}

impl SteeringTable {
    /// None yet, for so many workers.
    pub(crate) fn new(workers: usize, seed: Seed) -> Self {
        let none = |_| AtomicU32::new(0);
        let free = |_| AtomicU32::new(word(FREE, 0));
        Self { buckets: (0..BUCKETS).map(free).collect(), counts: (0..workers).map(none).collect(), seed }
    }

    /// What a packet's flow has of addresses, for [`Self::owner`], whose memory is fetched. What is not IP has nothing
    /// that a service keeps state of, and nothing here.
    #[inline]
    pub(crate) fn expect(&self, key: &Key, layout: Layout, frame: &[u8]) -> Option<u64> {
        let hash = addresses(key, layout, frame, self.seed)?;
        prefetch(&self.buckets[Pairs::bucket(hash)]);
        Some(hash)
    }

    /// The owner of a flow; `first` becomes it where there is none.
    #[inline]
    pub(crate) fn owner(&self, hash: Option<u64>, first: Option<usize>, age: &Age<'_>) -> usize {
        let Some(hash) = hash else { return 0 };
        let known = self.buckets[Pairs::bucket(hash)].load(Ordering::Relaxed);
        if known as u16 == age.epoch && (known >> 16) as u16 != FREE {
            return (known >> 16) as usize;
        }
        self.owner_anew(hash, known, first, age)
    }

    /// The owner of a flow of which no packet came in this epoch.
    #[cold]
    fn owner_anew(&self, hash: u64, known: u32, first: Option<usize>, age: &Age<'_>) -> usize {
        let (number, owner) = (Pairs::bucket(hash), (known >> 16) as u16);
        let is_free = owner == FREE;
        let stays = !is_free && !age.is_over(known as u16, number);
        let next = if stays { usize::from(owner) } else { self.claimant(hash, first) };
        let wanted = word(next as u16, age.epoch);
        let bucket = &self.buckets[number];
        match bucket.compare_exchange(known, wanted, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) if stays => next,
            Ok(_) => {
                if !is_free {
                    self.counts[usize::from(owner)].fetch_sub(1, Ordering::Relaxed);
                }
                self.counts[next].fetch_add(1, Ordering::Relaxed);
                next
            }
            Err(faster) => (faster >> 16) as usize,
        }
    }

    /// Who a bucket without an owner belongs to.
    fn claimant(&self, hash: u64, first: Option<usize>) -> usize {
        let workers = self.counts.len();
        let most = BUCKETS / workers * 5 / 4;
        let has_room = |worker: &usize| (self.counts[*worker].load(Ordering::Relaxed) as usize) < most;
        first.filter(has_room).unwrap_or((hash >> 32) as usize % workers)
    }
}

/// A hash of a packet's addresses, the same both ways.
#[inline]
fn addresses(key: &Key, layout: Layout, frame: &[u8], seed: Seed) -> Option<u64> {
    const ICMP: u128 = 1;
    match Field::EthType.get(key) {
        0x0800 if Field::NwProto.get(key) == ICMP => {
            Some(Pairs::v4(seed, quoted_v4(key, layout, frame).unwrap_or(own_v4(key))))
        }
        0x0800 => Some(Pairs::v4(seed, own_v4(key))),
        0x86dd => Some(addresses_v6(key, layout, frame, seed)),
        _ => None,
    }
}

#[inline(never)]
fn addresses_v6(key: &Key, layout: Layout, frame: &[u8], seed: Seed) -> u64 {
    let wide = |words: [u64; 2]| u128::from(words[0]) << 64 | u128::from(words[1]);
    let quoted = quoted_v6(key, layout, frame).map(|pair| pair.map(wide));
    let [a, b] = quoted.unwrap_or_else(|| [Field::Ipv6Src, Field::Ipv6Dst].map(|field| field.get(key)));
    Pairs::v6(seed, a, b)
}

/// The packet's own addresses.
#[inline]
fn own_v4(key: &Key) -> (u32, u32) {
    let both = key.addresses();
    ((both >> 32) as u32, both as u32)
}

/// Addresses of the packet that an ICMP error quotes.
#[inline(never)]
fn quoted_v4(key: &Key, layout: Layout, frame: &[u8]) -> Option<(u32, u32)> {
    if !ICMP_ERRORS.contains(&Field::IcmpType.get(key)) || layout.transport == 0 {
        return None;
    }
    let inner = frame.get(usize::from(layout.transport) + 8..)?.first_chunk::<20>()?;
    let address = |at: usize| u32::from_be_bytes([inner[at], inner[at + 1], inner[at + 2], inner[at + 3]]);
    (inner[0] >> 4 == 4).then(|| (address(12), address(16)))
}

/// The same for ICMPv6: types below 128 are errors (RFC 4443).
fn quoted_v6(key: &Key, layout: Layout, frame: &[u8]) -> Option<[[u64; 2]; 2]> {
    if Field::NwProto.get(key) != 58 || Field::Icmpv6Type.get(key) >= 128 || layout.transport == 0 {
        return None;
    }
    let inner = frame.get(usize::from(layout.transport) + 8..)?.first_chunk::<40>()?;
    let half = |at: usize| u64::from_be_bytes(inner[at..at + 8].try_into().unwrap_or_default());
    (inner[0] >> 4 == 6).then(|| [[half(8), half(16)], [half(24), half(32)]])
}

/// A packet on its way from one worker to another.
#[derive(Debug)]
pub(super) struct Handed {
    pub(crate) mbuf: Mbuf,
    pub(super) in_port: u32,
}

/// A worker among the others.
pub(super) struct Steering {
    /// Its number.
    pub(super) number: usize,
    /// Whose flows are whose.
    pub(super) table: Arc<SteeringTable>,
    /// Rings into every worker; this one's own is at its number.
    pub(super) rings: Vec<Arc<ArrayQueue<Handed>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kept::Kept;
    use weir_flow::extract;
    use weir_services::{Burst, Group, GroupConfig, Memo, Service, Slot, Verdict, registered};
    use weir_units::Nanos;

    /// An IPv4 frame: addresses by their last byte, protocol, and what it carries.
    fn frame(source: u8, destination: u8, protocol: u8, carried: &[u8]) -> Vec<u8> {
        let host = |last| [198, 18, 0, last].into();
        weir_frames::ip(host(source), host(destination), protocol, carried.to_vec(), None)
    }

    fn owner_of(table: &SteeringTable, frame: &[u8], first: Option<usize>) -> usize {
        owner_at(table, frame, first, &Kept::default().at(Nanos(0)))
    }

    fn owner_at(table: &SteeringTable, frame: &[u8], first: Option<usize>, age: &Age<'_>) -> usize {
        let mut key = Key::new();
        let layout = extract(frame, 1, &mut key);
        table.owner(table.expect(&key, layout, frame), first, age)
    }

    #[test]
    fn both_directions_fragments_and_errors_have_one_owner() {
        let table = SteeringTable::new(64, Seed::new(7));
        let ports = [0, 80, 0, 81, 0, 12, 0, 0, 1, 2, 3, 4];
        let there = frame(1, 2, 17, &ports);
        let back = frame(2, 1, 17, &ports);
        let mut later = frame(1, 2, 17, &ports);
        later[21] = 7;
        let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
        error.extend(&there[14..]);
        let error = frame(9, 1, 1, &error);
        let owners = [&there, &back, &later, &error].map(|frame| owner_of(&table, frame, None));
        assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
        let others = (3..40).map(|last| owner_of(&table, &frame(1, last, 17, &ports), None));
        assert!(others.collect::<std::collections::BTreeSet<_>>().len() > 10, "owners are spread");
    }

    #[test]
    fn who_has_a_flow_first_keeps_it() {
        let table = SteeringTable::new(4, Seed::new(7));
        let there = frame(1, 2, 17, &[0, 80, 0, 81, 0, 12, 0, 0]);
        let back = frame(2, 1, 17, &[0, 81, 0, 80, 0, 12, 0, 0]);
        assert_eq!(owner_of(&table, &there, Some(3)), 3);
        assert_eq!(owner_of(&table, &back, Some(1)), 3);
        assert_eq!(owner_of(&table, &there, None), 3);
        assert_eq!(owner_of(&table, &frame(5, 6, 17, &[0; 8]), Some(1)), 1);
    }

    fn tracker(seed: u64) -> Arc<dyn Group> {
        let settings = serde_json::json!({ "connections": 1000 });
        let config = GroupConfig { name: "conntrack", settings: &settings, workers: 2, seed };
        (registered("conntrack").unwrap().build)(&config).unwrap()
    }

    /// Has a worker's tracker begin a connection by a datagram.
    fn begin(service: &mut dyn Service, frame: &mut [u8], now: Nanos) {
        let mut key = Key::new();
        let layout = extract(frame, 1, &mut key);
        let mut slots = [Slot {
            frame,
            layout,
            key: &mut key,
            argument: 1,
            arguments: &[],
            tracking: None,
            metadata: 0,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        }];
        service.process(&mut Burst::new(&mut slots, now));
        assert_eq!(slots[0].metadata, 1);
    }

    #[test]
    fn a_pair_is_released_when_nothing_comes_of_it_and_no_connection_is_there() {
        let table = SteeringTable::new(2, Seed::new(7));
        let group = tracker(7);
        let mut service = group.instance(0);
        let kept = Kept::of(std::iter::once(&*group));
        let at = |seconds: u64| Nanos(seconds * Nanos::PER_SECOND);
        let datagram = [0, 80, 0, 81, 0, 12, 0, 0, 1, 2, 3, 4];
        let (mut held, loose) = (frame(1, 2, 17, &datagram), frame(3, 4, 17, &datagram));
        begin(&mut *service, &mut held, at(0));
        for frame in [&held, &loose] {
            assert_eq!(owner_at(&table, frame, Some(0), &kept.at(at(0))), 0);
            assert_eq!(owner_at(&table, frame, Some(1), &kept.at(at(20))), 0, "it was used a moment ago");
        }
        // The connection lasts for 30 seconds of its own time; the service was not asked since.
        assert_eq!(owner_at(&table, &held, Some(1), &kept.at(at(400))), 0, "a connection is there");
        assert_eq!(owner_at(&table, &loose, Some(1), &kept.at(at(400))), 1);
        service.tick(at(401));
        assert_eq!(owner_at(&table, &held, Some(1), &kept.at(at(402))), 0, "it was used a moment ago");
        assert_eq!(owner_at(&table, &held, Some(1), &kept.at(at(800))), 1);
    }

    #[test]
    fn who_draws_addresses_gets_no_more_than_its_share_and_not_for_long() {
        let table = SteeringTable::new(2, Seed::new(7));
        let group = tracker(7);
        let kept = Kept::of(std::iter::once(&*group));
        let first = kept.at(Nanos(0));
        let owned = |worker: usize, age: &Age<'_>| {
            (0..1_u64 << 22)
                .filter(|number| {
                    let hash = Pairs::v4(Seed::new(7), (*number as u32, 9));
                    table.owner(Some(hash), Some(worker), age) == worker
                })
                .count() as f64
                / f64::from(1 << 22)
        };
        let share = owned(0, &first);
        assert!((0.6..0.85).contains(&share), "{share} of the pairs");
        let later = kept.at(Nanos(600 * Nanos::PER_SECOND));
        let other = owned(1, &later);
        assert!((0.6..0.85).contains(&other), "{other} of the pairs, ten minutes later");
    }
}
