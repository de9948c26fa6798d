//! Taps: what passes the four edges of the program, by the stamps at the end of a tester's packets.
//!
//! An edge is a port and a direction: received, or sent. On request ([`Taps::switch_on`]) the worker counts the stamped
//! packets at each, with their delay since the tester stamped them, so that whoever asks two programs of a chain, or
//! one at two edges, learns where packets are lost and where they wait. What is sent is what the port took, behind a
//! fault if there is one.
//!
//! A packet counts if its last bytes are a stamp of this key, between [`LONGEST`] old and [`EARLY`] early: of 65,536
//! other packets one begins like a stamp, but says any time at all, and would spoil the sum of the delays. Delays are
//! kept in a log-linear histogram, 16 buckets an octave, and as a sum.
//!
//! Cost: off, a load and a branch a round and a branch a burst. On, one reading of the time stamp counter a burst and
//! edge, and some 10 ns a packet and edge, of which the stamp's last 18 bytes are most where they are not in the cache.
//!
//! Threads: the worker alone counts, with plain stores, and nobody resets: a reader takes differences. The key goes to
//! the worker through a lock that it tries only when a version number has changed.

use crate::ledger::Counter;
use crate::verdict::PORTS;
use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_cpu::Ticks;
use weir_dpdk::{BURST, Burst};
use weir_wire::stamp::{Key, Stamp};

/// The longest delay that is counted, in TSC ticks: 14 s at 5 GHz.
pub const LONGEST: u64 = (1 << OCTAVES) - 1;
/// How far before its stamp, in TSC ticks, a packet may seem to come: clocks of cores differ by some.
pub const EARLY: u64 = 1 << 12;

/// Bits of the longest delay.
const OCTAVES: u32 = 36;
/// Bits of a delay that its bucket keeps behind the highest.
const FINE: u32 = 4;
/// Delays of which each has a bucket.
const EXACT: u64 = 1 << FINE;
/// Buckets of a histogram.
const BUCKETS: usize = ((OCTAVES - FINE + 1) << FINE) as usize;

/// The bucket of a delay, up to [`LONGEST`].
#[inline]
fn bucket_of(ticks: u64) -> usize {
    let shift = (ticks | EXACT).ilog2() - FINE;
    ((shift as usize) << FINE) + (ticks >> shift) as usize
}

/// The least delay of a bucket; of the one behind the last, what no delay reaches.
fn least_of(bucket: usize) -> u64 {
    let octave = (bucket >> FINE).saturating_sub(1);
    ((bucket - (octave << FINE)) as u64) << octave
}

/// Stamped packets of an edge.
#[derive(Debug)]
struct Counts {
    ticks: Counter,
    buckets: [Counter; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self { ticks: Counter::default(), buckets: array::from_fn(|_| Counter::default()) }
    }
}

impl Counts {
    #[inline]
    fn count(&self, delays: &[Option<u64>]) {
        let mut sum = 0;
        for delay in delays.iter().flatten() {
            sum += delay;
            self.buckets[bucket_of(*delay)].add(1);
        }
        self.ticks.add(sum);
    }

    fn read(&self) -> Edge {
        let packets = self.buckets.iter().map(Counter::get).enumerate().filter(|(_, packets)| *packets > 0);
        let bucket = |(place, packets)| Bucket { from: least_of(place), below: least_of(place + 1), packets };
        Edge { ticks: self.ticks.get(), buckets: packets.map(bucket).collect() }
    }
}

/// The edges of one port.
#[derive(Debug, Default)]
struct PortCounts {
    received: Counts,
    sent: Counts,
}

/// The taps, as whoever asks and the worker share them.
#[derive(Debug, Default)]
pub struct Taps {
    /// Rises with every change of `key`; 0 while there was none.
    version: AtomicU32,
    /// The key of the stamps to count; none while the taps are off.
    key: Mutex<Option<Key>>,
    ports: [PortCounts; PORTS],
}

/// What passed the edges of one port while the taps were on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTaps {
    /// Where packets come in.
    pub received: Edge,
    /// Where they leave.
    pub sent: Edge,
}

/// Stamped packets that passed an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Sum of the delays since they were stamped, in TSC ticks.
    pub ticks: u64,
    /// The delays, by buckets that hold any, rising.
    pub buckets: Vec<Bucket>,
}

/// Packets with about the same delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The least delay, in TSC ticks.
    pub from: u64,
    /// What the delay is below, in TSC ticks: a sixteenth more at most.
    pub below: u64,
    /// How many packets.
    pub packets: u64,
}

impl Edge {
    /// How many packets passed.
    pub fn packets(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.packets).sum()
    }

    /// What passed this one and another of the same port.
    fn with(self, other: Self) -> Self {
        let mut buckets: BTreeMap<u64, Bucket> = BTreeMap::new();
        for bucket in self.buckets.into_iter().chain(other.buckets) {
            let sum = buckets.entry(bucket.from).or_insert(Bucket { packets: 0, ..bucket });
            sum.packets += bucket.packets;
        }
        Self { ticks: self.ticks + other.ticks, buckets: buckets.into_values().collect() }
    }
}

impl PortTaps {
    /// What passed one queue of a port and another.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { received: self.received.with(other.received), sent: self.sent.with(other.sent) }
    }
}

impl Taps {
    /// Has the worker count packets with stamps of this key, from the next round of its loop on.
    pub fn switch_on(&self, key: Key) {
        self.change(Some(key));
    }

    /// Has the worker count no more. What was counted stays.
    pub fn switch_off(&self) {
        self.change(None);
    }

    fn change(&self, key: Option<Key>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// What was counted so far, by port; nothing where the taps were never on.
    pub fn read(&self) -> Option<[PortTaps; PORTS]> {
        (self.version.load(Ordering::Relaxed) > 0).then(|| {
            self.ports
                .each_ref()
                .map(|port| PortTaps { received: port.received.read(), sent: port.sent.read() })
        })
    }
}

/// What the worker knows of the taps.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    version: u32,
    key: Option<Key>,
}

impl Watch {
    /// Takes up what was asked for since. Never waits: while somebody else is at the key, the next round tries again.
    #[inline]
    pub(crate) fn renew(&mut self, taps: &Taps) {
        let version = taps.version.load(Ordering::Acquire);
        if version != self.version
            && let Ok(key) = taps.key.try_lock()
        {
            *self = Self { version, key: *key };
        }
    }

    /// The key, while the taps are on.
    #[inline]
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }
}

/// The delays of a burst's packets, by place; none where a packet has no stamp.
pub(crate) type Delays = [Option<u64>; BURST];

/// How long ago the packets of a burst were stamped.
#[inline(never)]
pub(crate) fn delays(burst: &Burst, key: &Key) -> Delays {
    let now = Ticks::now();
    let mut delays = [None; BURST];
    for (delay, packet) in delays.iter_mut().zip(burst.iter()) {
        *delay = Stamp::read(packet.data(), key).and_then(|stamp| delay_at(now, stamp));
    }
    delays
}

/// How old a stamp is, if it can be one.
#[inline]
fn delay_at(now: Ticks, stamp: Stamp) -> Option<u64> {
    let late = now.0.wrapping_sub(stamp.tsc);
    let early = stamp.tsc.wrapping_sub(now.0);
    if late <= LONGEST { Some(late) } else { (early <= EARLY).then_some(0) }
}

impl Taps {
    /// Counts what came in by a port.
    #[inline]
    pub(crate) fn count_received(&self, port: usize, delays: &[Option<u64>]) {
        self.ports[port].received.count(delays);
    }

    /// Counts what left by a port.
    #[inline]
    pub(crate) fn count_sent(&self, port: usize, delays: &[Option<u64>]) {
        self.ports[port].sent.count(delays);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delay_is_in_a_bucket_a_sixteenth_wide_at_most() {
        let near = (0..OCTAVES).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << bit) / 3]);
        for ticks in near.chain(0..5_000).chain([LONGEST]) {
            let bucket = bucket_of(ticks);
            let (from, below) = (least_of(bucket), least_of(bucket + 1));
            assert!(bucket < BUCKETS && (from..below).contains(&ticks), "{ticks}: {bucket} {from} {below}");
            assert!((below - from) * EXACT <= from.max(EXACT), "{ticks}: {from} to {below}");
        }
        assert_eq!((bucket_of(LONGEST), least_of(BUCKETS)), (BUCKETS - 1, LONGEST + 1));
    }

    #[test]
    fn what_no_packet_can_have_waited_is_no_delay() {
        let delay = |now, tsc| delay_at(Ticks(now), Stamp { trial: 0, sequence: 0, tsc });
        let now = 1 << 50;
        assert_eq!([delay(now, now), delay(now, now - 700)], [Some(0), Some(700)]);
        assert_eq!([delay(now, now + EARLY), delay(now, now + EARLY + 1)], [Some(0), None]);
        assert_eq!([delay(now, now - LONGEST), delay(now, now - LONGEST - 1)], [Some(LONGEST), None]);
        assert_eq!([delay(5, u64::MAX), delay(now, 0), delay(now, u64::MAX)], [Some(6), None, None]);
    }

    #[test]
    fn counts_are_read_with_their_exact_sum() {
        let taps = Taps::default();
        assert_eq!(taps.read(), None);
        taps.switch_on(Key::new([1; Key::WORDS]));
        taps.count_received(1, &[Some(3), None, Some(1_000), Some(1_001), None]);
        taps.count_received(1, &[Some(3)]);
        let [idle, busy] = taps.read().unwrap();
        assert_eq!((idle.received.packets(), idle.sent.packets(), busy.sent.packets()), (0, 0, 0));
        let bucket = |from, below, packets| Bucket { from, below, packets };
        assert_eq!(busy.received.buckets, [bucket(3, 4, 2), bucket(992, 1_024, 2)]);
        assert_eq!((busy.received.ticks, busy.received.packets()), (2_007, 4));
        taps.count_received(0, &[Some(5), Some(1_000)]);
        let [other, _] = taps.read().unwrap();
        let both = busy.with(other).received;
        assert_eq!(both.buckets, [bucket(3, 4, 2), bucket(5, 6, 1), bucket(992, 1_024, 3)]);
        assert_eq!((both.ticks, both.packets()), (3_012, 6));
    }

    #[test]
    fn a_change_is_taken_up_once_and_never_waited_for() {
        let (taps, key) = (Taps::default(), Key::new([7; Key::WORDS]));
        let mut watch = Watch::default();
        taps.switch_on(key);
        {
            let _held = taps.key.lock().unwrap();
            watch.renew(&taps);
            assert_eq!(watch.key(), None);
        }
        watch.renew(&taps);
        assert_eq!(watch.key(), Some(&key));
        taps.switch_off();
        watch.renew(&taps);
        assert_eq!(watch.key(), None);
    }
}
