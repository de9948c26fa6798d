//! Which worker owns a flow, where services keep state by flow and there are several workers.
//!
//! Both directions of a conversation, its fragments and the ICMP errors about it must meet at one
//! worker. So the owner is chosen by the two addresses alone, whichever comes first; an ICMP error goes
//! where the packet that it quotes would. The price: all flows between the same two addresses have one
//! owner. Answers of connections whose addresses are translated have other addresses; who has them is asked
//! first (`weir_services::conntrack::Owners`).
//!
//! Pairs of addresses fall into buckets by a keyed hash, and a bucket belongs to who was first to get a packet
//! of it from a port that has a queue for every worker: where the card has both directions of a conversation
//! at one queue (symmetric RSS over addresses), nothing is handed over, whatever hash the card uses. From other
//! ports a bucket gets an owner by its number, so that work is shared though one worker polls. An owner is for
//! good, as its service may hold state; once more pairs have come by than there are buckets, a new one may
//! find its bucket with another worker, and is handed over.
//!
//! Costs: a hash, and a load from a table of [`BUCKETS`] that was fetched ahead. Threads: all workers, without locks.

use std::sync::atomic::{AtomicU16, Ordering};
use weir_dpdk::prefetch;
use weir_flow::{Field, Key, Layout, Seed};

/// ICMP types that quote the packet they are about (RFC 792).
const ICMP_ERRORS: [u128; 5] = [3, 4, 5, 11, 12];

/// Buckets of pairs of addresses: 1 MiB. With two workers, one in a hundred of 10,000 pairs finds its bucket with the
/// other one (5,000 of 524,288 are its), one in eleven of 100,000.
const BUCKETS: usize = 1 << 19;

/// A bucket that is nobody's.
const FREE: u16 = u16::MAX;

/// Which worker has which bucket.
pub(crate) struct Claims {
    buckets: Box<[AtomicU16]>,
    workers: usize,
    seed: Seed,
}

impl Claims {
    /// None yet, for so many workers.
    pub(crate) fn new(workers: usize, seed: Seed) -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU16::new(FREE)).collect(), workers, seed }
    }

    /// What a packet's flow has of addresses, for [`Self::owner`], whose memory is fetched. What is not IP has nothing
    /// that a service keeps state of, and nothing here.
    #[inline]
    pub(crate) fn expect(&self, key: &Key, layout: Layout, frame: &[u8]) -> Option<u64> {
        let hash = addresses(key, layout, frame, self.seed)?;
        prefetch(&self.buckets[hash as usize % BUCKETS]);
        Some(hash)
    }

    /// The owner of a flow; `first` becomes it where there is none.
    #[inline]
    pub(crate) fn owner(&self, hash: Option<u64>, first: Option<usize>) -> usize {
        let Some(hash) = hash else { return 0 };
        let bucket = &self.buckets[hash as usize % BUCKETS];
        let known = bucket.load(Ordering::Relaxed);
        if known != FREE {
            return usize::from(known);
        }
        self.claim(bucket, first.unwrap_or((hash >> 32) as usize % self.workers))
    }

    #[cold]
    fn claim(&self, bucket: &AtomicU16, claim: usize) -> usize {
        match bucket.compare_exchange(FREE, claim as u16, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => claim,
            Err(faster) => usize::from(faster),
        }
    }
}

/// A hash of a packet's addresses, the same both ways.
#[inline]
fn addresses(key: &Key, layout: Layout, frame: &[u8], seed: Seed) -> Option<u64> {
    const ICMP: u128 = 1;
    match Field::EthType.get(key) {
        0x0800 if Field::NwProto.get(key) == ICMP => {
            let own = ((key.word(3) >> 32) as u32, key.word(3) as u32);
            Some(pair(seed, quoted_v4(key, layout, frame).unwrap_or(own)))
        }
        0x0800 => Some(pair(seed, ((key.word(3) >> 32) as u32, key.word(3) as u32))),
        0x86dd => Some(addresses_v6(key, layout, frame, seed)),
        _ => None,
    }
}

#[inline]
fn pair(seed: Seed, (a, b): (u32, u32)) -> u64 {
    seed.fold(u64::from(a.min(b)), u64::from(a.max(b)))
}

#[inline(never)]
fn addresses_v6(key: &Key, layout: Layout, frame: &[u8], seed: Seed) -> u64 {
    let own = [[key.word(8), key.word(9)], [key.word(10), key.word(11)]];
    let both = quoted_v6(key, layout, frame).unwrap_or(own);
    let one = |words: &[u64; 2]| seed.fold(words[0], words[1]);
    // Addition does not mind the order.
    seed.finish(one(&both[0]).wrapping_add(one(&both[1])))
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::extract;

    /// An IPv4 frame: addresses by their last byte, protocol, and what it carries.
    fn frame(source: u8, destination: u8, protocol: u8, carried: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 20 + carried.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([198, 18, 0, source, 198, 18, 0, destination]);
        frame.extend(carried);
        frame
    }

    fn owner_of(claims: &Claims, frame: &[u8], first: Option<usize>) -> usize {
        let mut key = Key::new();
        let layout = extract(frame, 1, &mut key);
        claims.owner(claims.expect(&key, layout, frame), first)
    }

    #[test]
    fn both_directions_fragments_and_errors_have_one_owner() {
        let claims = Claims::new(64, Seed::new(7));
        let ports = [0, 80, 0, 81, 0, 12, 0, 0, 1, 2, 3, 4];
        let there = frame(1, 2, 17, &ports);
        let back = frame(2, 1, 17, &ports);
        let mut later = frame(1, 2, 17, &ports);
        later[21] = 7;
        let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
        error.extend(&there[14..]);
        let error = frame(9, 1, 1, &error);
        let owners = [&there, &back, &later, &error].map(|frame| owner_of(&claims, frame, None));
        assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
        let others = (3..40).map(|last| owner_of(&claims, &frame(1, last, 17, &ports), None));
        assert!(others.collect::<std::collections::BTreeSet<_>>().len() > 10, "owners are spread");
    }

    #[test]
    fn who_has_a_flow_first_keeps_it() {
        let claims = Claims::new(4, Seed::new(7));
        let there = frame(1, 2, 17, &[0, 80, 0, 81, 0, 12, 0, 0]);
        let back = frame(2, 1, 17, &[0, 81, 0, 80, 0, 12, 0, 0]);
        assert_eq!(owner_of(&claims, &there, Some(3)), 3);
        assert_eq!(owner_of(&claims, &back, Some(1)), 3);
        assert_eq!(owner_of(&claims, &there, None), 3);
        assert_eq!(owner_of(&claims, &frame(5, 6, 17, &[0; 8]), Some(1)), 1);
    }
}
