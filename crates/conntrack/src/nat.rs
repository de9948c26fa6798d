//! Address translation: which addresses and ports a connection gets (RFC 4787, RFC 5382, RFC 5508).
//!
//! A translated connection is one whose answers have another tuple than the reverse of the original: the
//! index has both. So replies, and ICMP errors about what was sent, are found by the tuple that they have.
//!
//! The address is chosen by a hash of the hosts, so that a host keeps its address; with `persistent` by one
//! that is the same after a restart. The port stays as it is where it can (RFC 4787, section 4.2.1 calls that
//! port preservation), else one of the same class is taken: below 512, below 1024, or above. A tuple that
//! another connection has is never taken; [`TRIED`] are tried, in runs of neighbours from places drawn at random, then
//! the packet is dropped (`nat-exhausted`). Of these, [`FREE`] are each connection's own; the others are taken from
//! an account of [`ACCOUNT`] a tick (17 ms) for all, so that a pool with nothing left costs little, however many ask.
//!
//! What is drawn comes from ChaCha8, keyed at the start, so that nobody outside can tell what comes next.
//!
//! With several workers, the one that made a connection says so, and its answers come to it
//! (`owners.rs`).
//!
//! Cost: a lookup in the index an attempt, for a connection's first packet only. Threads: none.

use super::entry::{Place, RELATED, TRANSLATED};
use super::reason::Event;
use super::tracker::{Tracker, is_reply};
use super::tuple::{IndexKey, Tuple};
use super::wheel::Tick;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use weir_flow::Seed;
use weir_openflow::{Nat, NatRange};

/// Tuples that are tried for a connection at most.
pub(super) const TRIED: u32 = 512;

/// Those of them that are not taken from the account. Neighbours that are tried from one place on.
const FREE: u32 = 8;

/// Tuples beyond those that are tried in a tick, for all connections of a worker together.
const ACCOUNT: u32 = 1024;

/// What a search for a tuple draws from.
#[derive(Debug)]
pub(super) struct Search {
    random: ChaCha8Rng,
    tick: Tick,
    left: u32,
    tried: u64,
}

impl Search {
    pub(super) fn new(seed: Seed, stream: u64) -> Self {
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip(seed.factors()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Self { random, tick: Tick(0), left: ACCOUNT, tried: 0 }
    }

    /// Whether another tuple may be tried, after so many of the same connection.
    pub(super) fn goes_on(&mut self, tried: u32, now: Tick) -> bool {
        if self.tick != now {
            (self.tick, self.left) = (now, ACCOUNT);
        }
        if tried >= FREE {
            if tried >= TRIED || self.left == 0 {
                return false;
            }
            self.left -= 1;
        }
        self.tried += 1;
        true
    }

    /// Tuples that were tried, ever.
    pub(super) const fn tried(&self) -> u64 {
        self.tried
    }

    /// A number below another that is not 0.
    fn below(&mut self, most: u128) -> u128 {
        let drawn = u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64());
        drawn % most
    }
}

/// Addresses and ports to choose from.
struct Choice {
    /// The first address, and how many there are.
    addresses: (u128, u128),
    /// The address that is tried first, counted from the first.
    address: u128,
    /// The first port, how many there are, and the one that is tried first; nothing where ports stay.
    ports: Option<(u16, u32, u16)>,
}

impl Tracker {
    /// Chooses addresses and ports for a connection that was just made. False if there are none left.
    pub(super) fn arrange(&mut self, place: Place, nat: &Nat, now: Tick) -> bool {
        let hot = self.entries.hot(place.at);
        if hot.flags & RELATED != 0 {
            return self.follow_control(place, now);
        }
        if !(nat.source || nat.destination) {
            return self.is_alone(place);
        }
        let zone = IndexKey::zone_of(hot.b);
        let Some((original, _)) = self.tuples(place) else { return false };
        let Some(choice) = self.choose(&original, nat, zone) else { return self.is_alone(place) };
        let plain = original.reversed();
        let (base, count) = choice.addresses;
        let (first, ports, start) = choice.ports.unwrap_or((0, 1, 0));
        let (start, all) = (u128::from(start - first), count.saturating_mul(ports.into()));
        let mut from = (choice.address, start);
        for step in 0..all.min(TRIED.into()) as u32 {
            if !self.search.goes_on(step, now) {
                return false;
            }
            // Few are tried one after the other; of many, runs from places all over them.
            let run = if all <= TRIED.into() { step } else { step % FREE };
            if run == 0 && step > 0 {
                from = (self.search.below(count), self.search.below(ports.into()));
            }
            let behind = from.1 + u128::from(run);
            let address = base + (from.0 + u128::from(run) / u128::from(ports)) % count;
            let port = choice.ports.map(|_| first + (behind % u128::from(ports)) as u16);
            let reply = with(&plain, nat.source, address, port);
            if let Some(done) = self.take(place, &plain, &reply, now) {
                return done;
            }
        }
        false
    }

    /// Whether no other connection has the tuple of this one's answers, which is not translated. One that has would
    /// get its packets.
    pub(super) fn is_alone(&self, place: Place) -> bool {
        let zone = IndexKey::zone_of(self.entries.hot(place.at).b);
        let reply = self.tuples(place).map(|(_, reply)| IndexKey::of(&reply, zone, self.seed));
        reply.is_some_and(|reply| !self.is_taken(&reply, place.at))
    }

    /// Gives a connection's answers a tuple in the place of their plain one; nothing where that is taken.
    pub(super) fn take(&mut self, place: Place, plain: &Tuple, reply: &Tuple, now: Tick) -> Option<bool> {
        let zone = IndexKey::zone_of(self.entries.hot(place.at).b);
        if self.is_taken(&IndexKey::of(reply, zone, self.seed), place.at) {
            return None;
        }
        if reply == plain {
            return Some(true);
        }
        if let Some((owners, worker)) = &self.owners
            && !owners.insert(&IndexKey::of(reply, 0, owners.seed()), *worker)
        {
            return None;
        }
        self.counters.count(Event::Translated);
        // What is not taken can be had: the index has room for two of each connection.
        Some(self.translate(place, reply, now))
    }

    /// What there is to choose from; nothing if the range is one of the other kind of address.
    fn choose(&mut self, original: &Tuple, nat: &Nat, zone: u16) -> Option<Choice> {
        let own = if nat.source { original.source } else { original.destination };
        let (low, high) = match nat.range {
            NatRange::None => (own, own),
            NatRange::Ipv4(low, high) if !original.v6 => {
                (u128::from(low.to_bits()), u128::from(high.unwrap_or(low).to_bits()))
            }
            NatRange::Ipv6(low, high) if original.v6 => (low.to_bits(), high.unwrap_or(low).to_bits()),
            _ => return None,
        };
        // As with Open vSwitch: where the first is all zero, the address stays, and only what is taken is avoided.
        let (low, high) = if low == 0 { (own, own) } else { (low, high) };
        let count = (high - low).saturating_add(1);
        let hash = |seed: Seed, other: u128| {
            let half = |value: u128| seed.fold((value >> 64) as u64, value as u64);
            seed.finish(seed.fold(half(original.source), half(other)))
        };
        let address = if nat.persistent {
            hash(Seed::new(0), 0)
        } else {
            hash(self.seed, if nat.source { 0 } else { original.destination })
        };
        let ports = self.ports(original, nat, zone);
        Some(Choice { addresses: (low, count), address: u128::from(address) % count, ports })
    }

    fn ports(&mut self, original: &Tuple, nat: &Nat, zone: u16) -> Option<(u16, u32, u16)> {
        let icmp = original.kind != 0;
        if !(original.has_ports() || icmp && nat.source) {
            return None;
        }
        let own = if nat.source { original.source_port } else { original.destination_port };
        let (low, high) = match nat.ports {
            // A destination's port stays where no other is named.
            (0, _) if nat.destination => return None,
            (0, _) if icmp => (0, u16::MAX),
            (0, _) => match own {
                0..=511 => (1, 511),
                512..=1023 => (600, 1023),
                _ => (1024, u16::MAX),
            },
            (low, 0) => (low, low),
            (low, high) => (low, high.max(low)),
        };
        let count = u32::from(high - low) + 1;
        let ports = u64::from(original.source_port) << 16 | u64::from(original.destination_port);
        let hashed = || {
            let hash = self.seed.fold(original.source as u64, original.destination as u64 ^ ports);
            low + (self.seed.finish(hash ^ u64::from(zone)) % u64::from(count)) as u16
        };
        let start = match own {
            _ if nat.random => low + self.search.below(count.into()) as u16,
            _ if nat.hash => hashed(),
            own if (low..=high).contains(&own) => own,
            _ => hashed(),
        };
        Some((low, count, start))
    }

    /// Whether another connection has a tuple, in either direction.
    fn is_taken(&self, key: &IndexKey, except: u32) -> bool {
        let entries = &self.entries;
        let of = |at: u32| at != except && (entries.is(at, key) || is_reply(entries, at, key, self.seed));
        self.index.find(key.hash, of).is_some()
    }

    /// Both tuples of a connection: the original, and that of the answers.
    pub(super) fn tuples(&self, place: Place) -> Option<(Tuple, Tuple)> {
        let at = self.entries.alive(place)?;
        let hot = self.entries.hot(at);
        let flipped = hot.flags & super::entry::FLIPPED != 0;
        let original = IndexKey::tuple_of(hot.a, hot.b, self.entries.addresses[at as usize], flipped);
        let translated = hot.flags & TRANSLATED != 0;
        let reply =
            if translated { Tuple::unpack(self.entries.replies[at as usize]) } else { original.reversed() };
        Some((original, reply))
    }

    /// The same, if it is translated.
    pub(super) fn ends(&self, place: Place) -> Option<(Tuple, Tuple)> {
        let at = self.entries.alive(place)?;
        let translated = self.entries.hot(at).flags & TRANSLATED != 0;
        if translated { self.tuples(place) } else { None }
    }

    /// The connection with this tuple and the side that speaks, also if the packet's addresses were translated
    /// already.
    pub(super) fn find_again(&mut self, key: &IndexKey, now: Tick) -> Option<(u32, usize)> {
        if let Some(found) = self.find(key, now) {
            return Some(found);
        }
        let turned = IndexKey { flipped: !key.flipped, ..*key };
        let at = self.index.find(key.hash, |at| is_reply(&self.entries, at, &turned, self.seed))?;
        Some((at, 0))
    }
}

/// The tuple of answers with another address and port of the originator, or of the other side.
fn with(plain: &Tuple, source: bool, address: u128, port: Option<u16>) -> Tuple {
    let mut reply = *plain;
    if source {
        reply.destination = address;
        reply.destination_port = port.unwrap_or(plain.destination_port);
    } else {
        reply.source = address;
        reply.source_port = port.unwrap_or(plain.source_port);
    }
    reply
}
