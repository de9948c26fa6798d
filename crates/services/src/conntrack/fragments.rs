//! Fragmented packets that are under way: what their first fragment was found to be.
//!
//! Why: only the first fragment has ports. It is judged like a whole packet and leaves a record, by
//! which later fragments with the same addresses, protocol and identification (RFC 791, RFC 8200) are
//! allowed. A later fragment may not reach into the transport header (RFC 1858, RFC 3128), nor may a
//! second first fragment belong to another connection.
//!
//! Cost: a fixed table in sets of four; a full set whose records all live refuses more. Records die by
//! their deadline where they stand. Threads: none; it belongs to one worker.

use super::entry::Place;
use super::packet::{Look, Packet};
use super::reason::{Event, Reason};
use super::segment::{Segment, flag};
use super::settings::EarlyFragments;
use super::tracker::{Judgement, Tracker};
use super::tuple::{Sight, TCP, Tuple};
use super::wheel::Tick;
use weir_flow::Seed;

/// Records in a set.
const WAYS: usize = 4;

/// What names a fragmented packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FragmentKey {
    pub(super) addresses: [u128; 2],
    pub(super) id: u32,
    pub(super) zone: u16,
    pub(super) protocol: u8,
    pub(super) v6: bool,
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) key: FragmentKey,
    pub(super) place: Place,
    /// The side that sends it: 0 is the originator.
    pub(super) side: usize,
    /// `ct_state` of the first fragment.
    pub(super) state: u8,
    /// Bytes of the transport header: later fragments start behind it.
    pub(super) header: u32,
    /// TCP: the sequence number that the packet's first byte would have, and whether it has a FIN.
    pub(super) tcp: Option<(u32, bool)>,
    pub(super) deadline: Tick,
}

/// The records.
#[derive(Debug)]
pub(super) struct Fragments {
    sets: Vec<[Option<Record>; WAYS]>,
    seed: Seed,
}

impl Fragments {
    /// Room for at least as many; none for 0.
    pub(super) fn new(most: u32, seed: Seed) -> Self {
        let sets = if most == 0 { 0 } else { (most as usize).div_ceil(WAYS).next_power_of_two() };
        Self { sets: vec![[None; WAYS]; sets], seed }
    }

    pub(super) fn memory(&self) -> usize {
        self.sets.len() * size_of::<[Option<Record>; WAYS]>()
    }

    fn set(&mut self, key: &FragmentKey) -> Option<&mut [Option<Record>; WAYS]> {
        let half = |value: u128| self.seed.fold((value >> 64) as u64, value as u64);
        let rest = u64::from(key.id) << 32 | u64::from(key.zone) << 16 | u64::from(key.protocol);
        let hash = self.seed.fold_with(half(key.addresses[0]), half(key.addresses[1]), 3);
        let hash = self.seed.finish(self.seed.fold(hash, rest));
        let sets = self.sets.len();
        self.sets.get_mut(hash as usize & sets.wrapping_sub(1))
    }

    /// The record of a packet, if it lives.
    pub(super) fn find(&mut self, key: &FragmentKey, now: Tick) -> Option<Record> {
        let alive = |record: &&mut Record| record.key == *key && !record.deadline.reached(now);
        self.set(key)?.iter_mut().flatten().find(alive).copied()
    }

    /// Keeps a record, in place of an older one of the same packet. False where there is no room.
    pub(super) fn keep(&mut self, record: Record, now: Tick) -> bool {
        let Some(set) = self.set(&record.key) else { return false };
        let same = |slot: &Option<Record>| slot.as_ref().is_some_and(|old| old.key == record.key);
        let free = |slot: &Option<Record>| slot.as_ref().is_none_or(|old| old.deadline.reached(now));
        match set.iter().position(same).or_else(|| set.iter().position(free)) {
            Some(way) => {
                set[way] = Some(record);
                true
            }
            None => false,
        }
    }
}

impl Tracker {
    /// Counts a packet, and remembers a first fragment.
    #[inline(never)]
    pub(super) fn note(
        &mut self,
        packet: &Packet<'_>,
        judgement: Judgement,
        (side, segment): (usize, Segment),
        now: Tick,
    ) -> Result<(), Reason> {
        let Some(place) = judgement.place else { return Ok(()) };
        if let Some(counts) = self.entries.counts.get_mut(place.at as usize) {
            counts[side][0] += 1;
            counts[side][1] += packet.bytes();
        }
        if !packet.is_first_fragment() {
            return Ok(());
        }
        let header = packet.fragment().ok_or(Reason::Truncated)?;
        let key = fragment_key(packet, header.id, Sight::zone_of(self.entries.hot(place.at).b));
        let known = self.fragments.find(&key, now);
        if known.is_some_and(|record| record.place != place) {
            return Err(Reason::Fragment);
        }
        let transport = match packet.protocol() {
            TCP => header.length.saturating_sub(segment.length),
            _ => 8,
        };
        let tcp = (packet.protocol() == TCP).then(|| {
            let syn = u32::from(segment.flags & flag::SYN != 0);
            (segment.seq.wrapping_add(syn).wrapping_sub(transport), segment.flags & flag::FIN != 0)
        });
        let deadline = now.after(Tick::seconds(self.settings.timeouts.fragment));
        let record = Record { key, place, side, state: judgement.state, header: transport, tcp, deadline };
        if !self.fragments.keep(record, now) {
            return Err(Reason::LimitFragments);
        }
        self.counters.count(Event::FragmentRecords);
        Ok(())
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
        let key = fragment_key(packet, header.id, look.zone);
        let Some(record) = self.fragments.find(&key, now) else {
            return match self.settings.early_fragments {
                EarlyFragments::Drop => Err(Reason::Fragment),
                EarlyFragments::Pass => Ok(Judgement::UNTRACKED),
            };
        };
        let at = self.entries.alive(record.place).ok_or(Reason::Fragment)?;
        if header.offset < record.header || header.length == 0 {
            return Err(Reason::Fragment);
        }
        if let Some((base, fin)) = record.tcp {
            let end = base.wrapping_add(header.offset + header.length);
            if !self.entries.hot_mut(at).tcp.extend(record.side, end, fin) {
                return Err(Reason::SeqAbove);
            }
        }
        if let Some(counts) = self.entries.counts.get_mut(at as usize) {
            counts[record.side][0] += 1;
            counts[record.side][1] += packet.bytes();
        }
        self.counters.count(Event::Fragments);
        Ok(Judgement { state: record.state, place: Some(record.place), refused: None })
    }
}

fn fragment_key(packet: &Packet<'_>, id: u32, zone: u16) -> FragmentKey {
    let Tuple { v6, source, destination, protocol, .. } = packet.addresses();
    FragmentKey { addresses: [source, destination], id, zone, protocol, v6 }
}
