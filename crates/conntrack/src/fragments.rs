//! Fragmented packets that are under way: what their first fragment was found to be.
//!
//! Why: only the first fragment has ports. It is judged like a whole packet and leaves a record, by
//! which later fragments with the same addresses, protocol and identification (RFC 791, RFC 8200) are
//! allowed. A later fragment may not reach into the transport header (RFC 1858, RFC 3128) nor overlap others in part
//! (RFC 5722), nor may a second first fragment belong to another connection.
//!
//! A connection does not move by a fragment, but once all of them came and the checksum over the whole packet is
//! right, as far as checksums are verified: by then it is what its receiver will make of it. Where the sum is
//! wrong, the fragment that came last is invalid, so that nobody gets the whole. A connection that the first
//! fragment began stays half-open until then, and ends with a wrong sum.
//!
//! Room: a record that is whole is the first of its tenant to make room (until then it knows its
//! fragments again, if they come twice); otherwise the oldest record of the tenant with the most (`shares.rs`).
//!
//! Cost: a lookup in a chained hash table a fragment. No allocation. Threads: none; it belongs to one worker.

use super::entry::{Place, REPLIED};
use super::packet::{Look, Packet};
use super::pieces::{Added, Pieces};
use super::reason::{Event, Reason};
use super::segment::Segment;
use super::settings::{Checksums, EarlyFragments};
use super::shares::{Age, Aged, Queues, Tenant, Tenants};
use super::tcp::{Step, Tcp};
use super::tracker::{Judgement, Tracker};
use super::tuple::{IndexKey, TCP, Tuple, UDP};
use super::wheel::{NONE, Tick};
use weir_flow::Seed;

/// What names a fragmented packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FragmentKey {
    addresses: [u128; 2],
    id: u32,
    zone: u16,
    protocol: u8,
    v6: bool,
}

impl FragmentKey {
    fn of(packet: &Packet<'_>, id: u32, zone: u16) -> Self {
        let Tuple { v6, source, destination, protocol, .. } = packet.addresses();
        Self { addresses: [source, destination], id, zone, protocol, v6 }
    }
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    key: FragmentKey,
    place: Place,
    /// The side that sends it: 0 is the originator.
    side: usize,
    /// `ct_state` of the first fragment.
    state: u8,
    /// Whether the first fragment began its connection.
    begins: bool,
    /// Whether the sum over the whole is verified.
    summed: bool,
    /// Bytes of the transport header: later fragments start behind it.
    header: u32,
    /// TCP: the segment, as long as the first fragment has it.
    segment: Segment,
    /// UDP: its length field.
    datagram: u32,
    /// Bytes of the first fragment, and their sum.
    first: (u32, u32),
    deadline: Tick,
    pieces: Pieces,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    record: Record,
    tenant: u16,
    age: Age,
    /// The next of those with the same hash, or the next free one.
    next: u32,
}

/// The records.
#[derive(Debug)]
pub(super) struct Fragments {
    slots: Vec<Slot>,
    /// The first of each chain; a power of two of them.
    chains: Vec<u32>,
    queues: Queues,
    free: u32,
    seed: Seed,
}

impl Aged for Vec<Slot> {
    fn age(&mut self, at: u32) -> &mut Age {
        &mut self[at as usize].age
    }
}

impl Fragments {
    /// Room for so many; none for 0.
    pub(super) fn new(most: u32, seed: Seed) -> Self {
        let chains = (most as usize).next_power_of_two();
        Self {
            slots: Vec::with_capacity(most as usize),
            chains: vec![NONE; chains],
            queues: Queues::new(),
            free: NONE,
            seed,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.chains.len() * 4 + self.queues.memory()
    }

    /// Records of a tenant.
    pub(super) fn of(&self, tenant: u16) -> u32 {
        self.queues.of(tenant)
    }

    fn chain(&self, key: &FragmentKey) -> usize {
        let half = |value: u128| self.seed.fold((value >> 64) as u64, value as u64);
        let rest = u64::from(key.id) << 32 | u64::from(key.zone) << 16 | u64::from(key.protocol);
        let hash = self.seed.fold_with(half(key.addresses[0]), half(key.addresses[1]), 3);
        self.seed.finish(self.seed.fold(hash, rest)) as usize & (self.chains.len() - 1)
    }

    /// Where the record of a packet is.
    fn place(&self, key: &FragmentKey) -> Option<u32> {
        let mut at = self.chains[self.chain(key)];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.record.key == *key {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// The record of a packet, if it lives.
    fn find(&mut self, key: &FragmentKey, now: Tick) -> Option<(u32, &mut Record)> {
        let at = self.place(key)?;
        let record = &mut self.slots[at as usize].record;
        (!record.deadline.reached(now)).then_some((at, record))
    }

    /// Forgets the record at a place, which is free then.
    fn forget(&mut self, at: u32, tenants: &mut Tenants) {
        let Slot { record, tenant, next, .. } = self.slots[at as usize];
        let chain = self.chain(&record.key);
        if self.chains[chain] == at {
            self.chains[chain] = next;
        } else {
            let mut before = self.chains[chain];
            while self.slots[before as usize].next != at {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
        }
        self.queues.take(&mut self.slots, tenant, at);
        tenants.leave(tenant);
        self.slots[at as usize].next = std::mem::replace(&mut self.free, at);
    }

    /// Keeps a record of a packet that has none. Whether another one that was not whole had to go for it; or that
    /// there is no room at all.
    fn keep(
        &mut self,
        record: Record,
        tenant: Tenant,
        tenants: &mut Tenants,
        now: Tick,
    ) -> Result<bool, Reason> {
        let number = tenants.join(tenant);
        let mut evicted = false;
        if self.free == NONE && self.slots.len() == self.slots.capacity() {
            let most = self.queues.greatest(number).and_then(|most| Some((most, self.queues.oldest(most)?)));
            let Some((most, oldest)) = most else {
                tenants.leave(number);
                return Err(Reason::LimitFragments);
            };
            let gone = &self.slots[oldest as usize].record;
            evicted = gone.pieces.whole().is_none() && !gone.deadline.reached(now);
            if evicted {
                tenants.evicted(most);
            }
            self.forget(oldest, tenants);
        }
        let chain = self.chain(&record.key);
        let slot = Slot { record, tenant: number, age: Age::NONE, next: self.chains[chain] };
        let at = if self.free == NONE {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = std::mem::replace(&mut self.slots[at as usize], slot).next;
            at
        };
        self.chains[chain] = at;
        self.queues.push(&mut self.slots, number, at);
        Ok(evicted)
    }

    /// A packet is whole: its record is the first to make room.
    fn complete(&mut self, at: u32) {
        let tenant = self.slots[at as usize].tenant;
        self.queues.take(&mut self.slots, tenant, at);
        self.queues.push_first(&mut self.slots, tenant, at);
    }
}

impl Tracker {
    /// A first fragment of a connection that is kept.
    #[inline(never)]
    pub(super) fn first_fragment(
        &mut self,
        packet: &Packet<'_>,
        (at, side): (u32, usize),
        segment: &Segment,
        begins: bool,
        now: Tick,
    ) -> Result<Judgement, Reason> {
        let header = packet.fragment().ok_or(Reason::Truncated)?;
        if !begins && packet.protocol() == TCP {
            // What the whole segment will do, as far as it is known; the connection stays as it is.
            let mut tcp: Tcp = self.entries.hot(at).tcp;
            if tcp.step(side, segment)? == Step::Reopens {
                return Err(Reason::Fragment);
            }
        }
        let judgement = self.passes(at, side);
        self.count(packet, at, side);
        let bytes = packet.carried().ok_or(Reason::Truncated)?;
        let summed = self.is_summed(packet);
        let mut pieces = Pieces::none();
        pieces.add(header, || if summed { weir_wire::checksum::sum(bytes) } else { 0 })?;
        let first = (header.length, pieces.sum());
        let zone = IndexKey::zone_of(self.entries.hot(at).b);
        let key = FragmentKey::of(packet, header.id, zone);
        let place = self.entries.place(at);
        if let Some((known, record)) = self.fragments.find(&key, now) {
            if record.place != place {
                return Err(Reason::Fragment);
            }
            // One that comes twice changes nothing; another one with the identification of one before it does.
            if record.pieces.whole().is_none() && (record.first, record.segment) == (first, *segment) {
                return Ok(judgement);
            }
            self.fragments.forget(known, &mut self.entries.tenants);
        } else if let Some(dead) = self.fragments.place(&key) {
            self.fragments.forget(dead, &mut self.entries.tenants);
        }
        let (header, datagram) = match packet.protocol() {
            TCP => (header.length.saturating_sub(segment.length), 0),
            UDP => {
                (8, bytes.get(4..6).map_or(0, |field| u32::from(u16::from_be_bytes([field[0], field[1]]))))
            }
            _ => (8, 0),
        };
        let deadline = now.after(Tick::seconds(self.settings.timeouts.fragment));
        let (state, segment) = (judgement.state, *segment);
        let record = Record {
            key,
            place,
            side,
            state,
            begins,
            summed,
            header,
            segment,
            datagram,
            first,
            deadline,
            pieces,
        };
        let tenant = Tenant { zone, port: packet.in_port() };
        if self.fragments.keep(record, tenant, &mut self.entries.tenants, now)? {
            self.counters.count(Event::FragmentsEvicted);
        }
        self.counters.count(Event::FragmentRecords);
        Ok(judgement)
    }

    /// Whether the sum over a whole packet is verified, by its first fragment.
    fn is_summed(&self, packet: &Packet<'_>) -> bool {
        let unsummed = || {
            let sum = packet.transport().ok().and_then(|bytes| bytes.get(6..8));
            packet.protocol() == UDP && sum == Some(&[0, 0])
        };
        match self.settings.checksums {
            Checksums::None => false,
            Checksums::State => packet.protocol() != UDP && packet.has_checksum(),
            Checksums::All => packet.has_checksum() && !unsummed(),
        }
    }

    /// A fragment that has no ports.
    #[inline(never)]
    pub(super) fn later_fragment(
        &mut self,
        packet: &Packet<'_>,
        look: &Look,
        now: Tick,
    ) -> Result<Judgement, Reason> {
        let header = packet.fragment().ok_or(Reason::Truncated)?;
        let bytes = packet.carried().ok_or(Reason::Truncated)?;
        let key = FragmentKey::of(packet, header.id, look.zone);
        let Some((known, record)) = self.fragments.find(&key, now) else {
            return match self.settings.early_fragments {
                EarlyFragments::Drop => Err(Reason::Fragment),
                EarlyFragments::Pass => Ok(Judgement::UNTRACKED),
            };
        };
        let at = self.entries.alive(record.place).ok_or(Reason::Fragment)?;
        if header.offset < record.header {
            return Err(Reason::Fragment);
        }
        let behind = header.offset + header.length - record.header;
        let follows = key.protocol == TCP && !record.begins;
        if follows && !self.entries.hot(at).tcp.may_send(record.side, &record.segment, behind) {
            return Err(Reason::SeqAbove);
        }
        let summed = record.summed;
        let added = record.pieces.add(header, || if summed { weir_wire::checksum::sum(bytes) } else { 0 })?;
        let (side, judgement) =
            (record.side, Judgement { state: record.state, place: Some(record.place), refused: None });
        if let Added::Whole(length) = added {
            let record = *record;
            self.fragments.complete(known);
            self.counters.count(Event::FragmentsWhole);
            self.whole(packet, &record, at, length, now)?;
        }
        self.count(packet, at, side);
        self.counters.count(Event::Fragments);
        Ok(judgement)
    }

    /// All fragments of a packet of so many bytes have come: its connection moves.
    fn whole(
        &mut self,
        packet: &Packet<'_>,
        record: &Record,
        at: u32,
        length: u32,
        now: Tick,
    ) -> Result<(), Reason> {
        if record.datagram > length {
            return Err(Reason::Truncated);
        }
        let untouched = record.begins && self.entries.hot(at).flags & REPLIED == 0;
        if record.summed && !packet.sum_is_right(record.pieces.sum(), record.key.protocol, length) {
            if untouched {
                self.remove(at);
            }
            return Err(Reason::Checksum);
        }
        let mut segment = record.segment;
        if record.key.protocol == TCP {
            segment.length = length - record.header;
        }
        if untouched {
            if record.key.protocol == TCP {
                self.entries.hot_mut(at).tcp = Tcp::open(&segment, self.settings.loose)?;
            }
            return Ok(());
        }
        self.follow(at, record.side, &segment, now)?.map(drop).ok_or(Reason::Fragment)
    }

    /// Counts a packet of a connection, where that is done.
    #[inline]
    pub(super) fn count(&mut self, packet: &Packet<'_>, at: u32, side: usize) {
        if let Some(counts) = self.entries.counts.get_mut(at as usize) {
            counts[side][0] += 1;
            counts[side][1] += packet.bytes();
        }
    }
}
