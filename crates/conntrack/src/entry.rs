//! What is kept of a connection, and where.
//!
//! Why this split: a packet of an established IPv4 connection should touch two cache lines, the index's
//! bucket and [`Hot`]. What only some connections or some packets need stands in arrays of its own:
//! IPv6 addresses, the reply's tuple where addresses are translated, mark and label, byte counts, the
//! timer's links. Memory for the largest size is reserved at the start from zeroed pages and taken from
//! the machine as connections come, so that nothing grows, moves or pauses later.
//!
//! Places are used again, the last freed first; a [`Place`] carries a generation of 24 bits, so that one
//! that was kept finds out that its connection is gone.
//!
//! A connection stands in a queue of its tenant (`shares.rs`): among the half-open ones, or else among the settled.
//!
//! Threads: none; it belongs to one worker.

use super::shares::{Age, Aged, Queues, Tenants};
use super::tcp::Tcp;
use super::tuple::IndexKey;
use super::wheel::{Linked, Links, NONE, Tick};
use weir_flow::Seed;

/// Where a connection is, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number by which it can be found again ([`Tracker::expect_at`](crate::Tracker::expect_at)).
    pub at: u32,
    pub(super) generation: u32,
}

/// How far a connection is. Each state has a timeout of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// A SYN was seen.
    SynSent,
    /// A SYN was answered by one, or crossed by one.
    SynReceived,
    /// Both SYNs are acknowledged.
    Established,
    /// One side sent a FIN.
    FinWait,
    /// One side's FIN is acknowledged.
    CloseWait,
    /// Both sides sent a FIN.
    LastAck,
    /// Both FINs are acknowledged.
    TimeWait,
    /// Reset.
    Closed,
    /// UDP, no answer yet.
    UdpSingle,
    /// UDP, both ways.
    UdpMultiple,
    /// An ICMP request.
    Icmp,
    /// Any other protocol, no answer yet.
    OtherSingle,
    /// Any other protocol, both ways.
    OtherMultiple,
}

impl State {
    /// Every state, by number.
    pub const ALL: [Self; 13] = [
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait,
        Self::CloseWait,
        Self::LastAck,
        Self::TimeWait,
        Self::Closed,
        Self::UdpSingle,
        Self::UdpMultiple,
        Self::Icmp,
        Self::OtherSingle,
        Self::OtherMultiple,
    ];

    /// The name OVS prints in `protoinfo`; empty for what is not TCP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait => "FIN_WAIT_1",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Closed => "CLOSED",
            _ => "",
        }
    }
}

/// The originator's endpoint is the higher one of the tuple.
pub(super) const FLIPPED: u8 = 1;
/// A packet of the other direction was seen.
pub(super) const REPLIED: u8 = 1 << 1;
/// In the queue of half-open connections.
pub(super) const HALF_OPEN: u8 = 1 << 2;
/// The reply's tuple is not the original's reverse; the index has both.
pub(super) const TRANSLATED: u8 = 1 << 3;
/// It has a mark or a label.
pub(super) const MARKED: u8 = 1 << 4;
/// It has a helper: a control connection.
pub(super) const HELPED: u8 = 1 << 5;
/// A helper expected it: a data connection.
pub(super) const RELATED: u8 = 1 << 6;

/// What every packet of a connection needs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Hot {
    /// Canonical addresses, or the digest of IPv6 ones.
    pub(super) a: u64,
    /// Canonical ports, protocol, zone.
    pub(super) b: u64,
    pub(super) tcp: Tcp,
    /// When it times out.
    pub(super) deadline: Tick,
    /// When the wheel looks at it: no later than that.
    due: Tick,
    pub(super) flags: u8,
    generation: [u8; 3],
}

const _: () = assert!(size_of::<Hot>() == 64);

impl Hot {
    /// A connection that begins.
    pub(super) fn new(key: &IndexKey, tcp: Tcp, deadline: Tick) -> Self {
        let flags = if key.flipped { FLIPPED } else { 0 };
        Self { a: key.a, b: key.b, tcp, deadline, due: deadline, flags, generation: [0; 3] }
    }

    #[inline]
    fn generation(&self) -> u32 {
        let [low, middle, high] = self.generation;
        u32::from_le_bytes([low, middle, high, 0])
    }

    fn set_generation(&mut self, generation: u32) {
        let [low, middle, high, _] = generation.to_le_bytes();
        self.generation = [low, middle, high];
    }

    /// The handle of it, where it lives.
    #[inline]
    pub(super) fn place(&self, at: u32) -> Place {
        Place { at, generation: self.generation() }
    }

    /// When the wheel looks at it.
    #[inline]
    pub(super) const fn due(&self) -> Tick {
        self.due
    }

    /// Whether its addresses are IPv6's, and the first word their digest.
    #[inline]
    pub(super) const fn is_v6(&self) -> bool {
        IndexKey::word_is_v6(self.b)
    }
}

/// What timers and queues need.
#[derive(Clone, Copy, Debug)]
struct Cold {
    timer: Links,
    /// Its neighbours in its tenant's queue; for free places, `older` is the next free.
    age: Age,
    /// Its tenant's number.
    tenant: u16,
}

impl Cold {
    const UNLINKED: Self = Self { timer: Links::NONE, age: Age::NONE, tenant: 0 };
}

impl Aged for Vec<Cold> {
    fn age(&mut self, at: u32) -> &mut Age {
        &mut self[at as usize].age
    }
}

/// Packets and bytes of both directions, the originator's first.
pub(super) type Counts = [[u64; 2]; 2];

/// Every connection of an instance.
#[derive(Debug)]
pub(super) struct Entries {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// IPv6: canonical addresses.
    pub(super) addresses: Vec<[u128; 2]>,
    /// Where translated: what replies look like, as [`super::tuple::Tuple::pack`] writes it.
    pub(super) replies: Vec<[u128; 3]>,
    pub(super) labels: Vec<u128>,
    pub(super) marks: Vec<u32>,
    /// Empty where nobody counts.
    pub(super) counts: Vec<Counts>,
    pub(super) tenants: Tenants,
    half_open: Queues,
    settled: Queues,
    free: u32,
    live: u32,
}

impl Linked for Entries {
    #[inline]
    fn links(&mut self, place: u32) -> &mut Links {
        &mut self.cold[place as usize].timer
    }

    #[inline]
    fn set_due(&mut self, place: u32, due: Tick) {
        self.hot[place as usize].due = due;
    }
}

impl Entries {
    /// Room for as many. With `prefault`, all memory is taken now.
    pub(super) fn new(capacity: usize, counting: bool, prefault: bool, seed: Seed) -> Self {
        let mut entries = Self {
            hot: Vec::with_capacity(capacity),
            cold: Vec::with_capacity(capacity),
            addresses: vec![[0; 2]; capacity],
            replies: vec![[0; 3]; capacity],
            labels: vec![0; capacity],
            marks: vec![0; capacity],
            counts: if counting { vec![[[0; 2]; 2]; capacity] } else { Vec::new() },
            tenants: Tenants::new(seed),
            half_open: Queues::new(),
            settled: Queues::new(),
            free: NONE,
            live: 0,
        };
        let blank = Hot::new(&IndexKey::default(), Tcp::only(State::Closed), Tick(0));
        super::memory::reserve(&mut entries.hot, blank, prefault);
        super::memory::reserve(&mut entries.cold, Cold::UNLINKED, prefault);
        super::memory::zeroed(&mut entries.addresses, prefault);
        super::memory::zeroed(&mut entries.replies, prefault);
        super::memory::zeroed(&mut entries.labels, prefault);
        super::memory::zeroed(&mut entries.marks, prefault);
        super::memory::zeroed(&mut entries.counts, prefault);
        entries
    }

    /// Bytes of what was ever in use, all arrays counted.
    pub(super) fn memory(&self) -> usize {
        let each = size_of::<Hot>() + size_of::<Cold>() + 2 * 16 + 3 * 16 + 16 + 4;
        let each = each + if self.counts.is_empty() { 0 } else { size_of::<Counts>() };
        let shares = self.tenants.memory() + self.half_open.memory() + self.settled.memory();
        self.hot.len() * each + shares
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    pub(super) fn half_open(&self) -> u32 {
        self.half_open.entries()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == NONE && self.hot.len() == self.hot.capacity().min(self.marks.len())
    }

    /// Places that were ever used: those below this number.
    pub(super) fn reach(&self) -> u32 {
        self.hot.len() as u32
    }

    #[inline]
    pub(super) fn hot(&self, at: u32) -> &Hot {
        &self.hot[at as usize]
    }

    #[inline]
    pub(super) fn hot_mut(&mut self, at: u32) -> &mut Hot {
        &mut self.hot[at as usize]
    }

    /// Whether this is the connection that the key names by its original tuple.
    #[inline]
    pub(super) fn is(&self, at: u32, key: &IndexKey) -> bool {
        let hot = &self.hot[at as usize];
        hot.a == key.a && hot.b == key.b && (!key.v6() || self.addresses[at as usize] == key.addresses)
    }

    /// Asks the CPU for what may be a connection: there may be none at this place.
    #[inline]
    pub(super) fn prefetch_hot(&self, at: u32) {
        if let Some(hot) = self.hot.get(at as usize) {
            weir_cpu::prefetch(hot);
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, at: u32, v6: bool) {
        weir_cpu::prefetch(&self.hot[at as usize]);
        if v6 {
            weir_cpu::prefetch(&self.addresses[at as usize]);
        }
    }

    /// The handle of a live place.
    #[inline]
    pub(super) fn place(&self, at: u32) -> Place {
        self.hot[at as usize].place(at)
    }

    /// Where the connection is, if it still lives.
    #[inline]
    pub(super) fn alive(&self, place: Place) -> Option<u32> {
        let hot = self.hot.get(place.at as usize)?;
        (hot.generation() == place.generation).then_some(place.at)
    }

    /// Whether a connection lives at this place. Generations of live places are odd.
    #[inline]
    pub(super) fn lives(&self, at: u32) -> bool {
        self.hot.get(at as usize).is_some_and(|hot| hot.generation[0] & 1 == 1)
    }

    /// Whether what lives at a place is the connection that the key names by its original tuple.
    #[inline(always)]
    pub(super) fn verify(&self, at: u32, key: &IndexKey) -> bool {
        let Some(hot) = self.hot.get(at as usize) else { return false };
        let same = hot.generation[0] & 1 == 1 && hot.a == key.a && hot.b == key.b;
        same && (!key.v6() || self.addresses[at as usize] == key.addresses)
    }

    /// Whether what lives at a place is the connection of a packet of IPv4 with these addresses, and
    /// protocol and ports; and if so, whether its source is the higher endpoint.
    #[inline(always)]
    pub(super) fn is_of(&self, at: u32, addresses: u64, ports: (u8, u32), zone: u16) -> Option<bool> {
        let hot = self.hot.get(at as usize)?;
        let (protocol, ports) = ports;
        let straight = (addresses, IndexKey::second_of(ports, protocol, zone));
        let flipped = (hot.a, hot.b) != straight;
        let turn = u32::from(flipped) * 32;
        let turned =
            (addresses.rotate_left(turn), IndexKey::second_of(ports.rotate_left(turn / 2), protocol, zone));
        (hot.generation[0] & 1 == 1 && (hot.a, hot.b) == turned).then_some(flipped)
    }

    /// Takes a place for a half-open connection of a tenant that has joined; none if it is full.
    pub(super) fn add(&mut self, mut hot: Hot, tenant: u16) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        self.live += 1;
        hot.flags |= HALF_OPEN;
        let at = if self.free == NONE {
            hot.set_generation(1);
            self.hot.push(hot);
            self.cold.push(Cold::UNLINKED);
            self.hot.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.cold[at as usize].age.older;
            hot.set_generation(self.hot[at as usize].generation().wrapping_add(1));
            self.hot[at as usize] = hot;
            at
        };
        self.cold[at as usize].tenant = tenant;
        self.half_open.push(&mut self.cold, tenant, at);
        Some(at)
    }

    /// Gives a place back. The wheel must not have it.
    pub(super) fn free(&mut self, at: u32) {
        let (flags, tenant) = (self.hot[at as usize].flags, self.cold[at as usize].tenant);
        let queues = if flags & HALF_OPEN != 0 { &mut self.half_open } else { &mut self.settled };
        queues.take(&mut self.cold, tenant, at);
        self.tenants.leave(tenant);
        if flags & MARKED != 0 {
            self.marks[at as usize] = 0;
            self.labels[at as usize] = 0;
        }
        if let Some(counts) = self.counts.get_mut(at as usize) {
            *counts = [[0; 2]; 2];
        }
        let hot = &mut self.hot[at as usize];
        hot.set_generation(hot.generation().wrapping_add(1));
        self.cold[at as usize].age.older = self.free;
        self.free = at;
        self.live -= 1;
    }

    /// A connection is half-open no more.
    pub(super) fn settle(&mut self, at: u32) {
        let hot = &mut self.hot[at as usize];
        if hot.flags & HALF_OPEN == 0 {
            return;
        }
        hot.flags &= !HALF_OPEN;
        let tenant = self.cold[at as usize].tenant;
        self.half_open.take(&mut self.cold, tenant, at);
        self.settled.push(&mut self.cold, tenant, at);
    }

    /// The tenant of a connection.
    pub(super) fn tenant(&self, at: u32) -> u16 {
        self.cold[at as usize].tenant
    }

    /// Half-open connections of a tenant, and settled ones.
    pub(super) fn of(&self, tenant: u16) -> [u32; 2] {
        [self.half_open.of(tenant), self.settled.of(tenant)]
    }

    /// The half-open connection that makes room for one of this tenant.
    pub(super) fn oldest_half_open(&self, own: u16) -> Option<u32> {
        self.half_open.oldest(self.half_open.greatest(own)?)
    }

    /// The oldest half-open connection of this tenant.
    pub(super) fn oldest_half_open_of(&self, tenant: u16) -> Option<u32> {
        self.half_open.oldest(tenant)
    }

    /// The tenant whose settled connection makes room for one of this tenant.
    pub(super) fn most_settled(&self, own: u16) -> Option<u16> {
        self.settled.greatest(own)
    }

    /// The next settled connection of a tenant to be looked at, by turns.
    pub(super) fn next_settled(&mut self, tenant: u16) -> Option<u32> {
        let at = self.settled.oldest(tenant)?;
        self.settled.take(&mut self.cold, tenant, at);
        self.settled.push(&mut self.cold, tenant, at);
        Some(at)
    }
}
