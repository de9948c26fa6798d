//! Address translation: which addresses and ports a connection gets (RFC 4787, RFC 5382, RFC 5508).
//!
//! A translated connection is one whose answers have another tuple than the reverse of the original: the
//! index has both. So replies, and ICMP errors about what was sent, are found by the tuple that they have.
//!
//! The address is chosen by a hash of the hosts, so that a host keeps its address; with `persistent` by one
//! that is the same after a restart. The port stays as it is where it can (RFC 4787, section 4.2.1 calls that
//! port preservation), else one of the same class is taken: below 512, below 1024, or above. A tuple that
//! another connection has is never taken; [`ATTEMPTS`] are tried, then the packet is dropped
//! (`nat-exhausted`).
//!
//! With several workers, the one that made a connection says so, and its answers come to it
//! (`owners.rs`).
//!
//! Cost: a lookup in the index an attempt, for a connection's first packet only. Threads: none.

use super::entry::{Place, RELATED, TRANSLATED};
use super::reason::Event;
use super::tracker::{Tracker, is_reply};
use super::tuple::{Sight, Tuple};
use super::wheel::Tick;
use weir_flow::Seed;
use weir_openflow::{Nat, NatRange};

/// Tuples that are tried for a connection.
const ATTEMPTS: u32 = 512;

/// Addresses of a range that are tried.
const ADDRESSES: u128 = 8;

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
            return true;
        }
        let zone = Sight::zone_of(hot.b);
        let Some((original, _)) = self.tuples(place) else { return false };
        let Some(choice) = self.choose(&original, nat, zone) else { return true };
        let plain = original.reversed();
        let (base, count) = choice.addresses;
        let mut left = ATTEMPTS;
        for step in 0..count.min(ADDRESSES) {
            let address = base + (choice.address + step) % count;
            let (first, ports, start) = choice.ports.unwrap_or((0, 1, 0));
            for next in 0..ports {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let port = choice.ports.map(|_| first + ((u32::from(start - first) + next) % ports) as u16);
                let reply = with(&plain, nat.source, address, port);
                if let Some(done) = self.take(place, &plain, &reply, now) {
                    return done;
                }
            }
        }
        false
    }

    /// Gives a connection's answers a tuple in the place of their plain one; nothing where that is taken.
    pub(super) fn take(&mut self, place: Place, plain: &Tuple, reply: &Tuple, now: Tick) -> Option<bool> {
        let zone = Sight::zone_of(self.entries.hot(place.at).b);
        if self.is_taken(&Sight::of(reply, zone, self.seed), place.at) {
            return None;
        }
        if reply == plain {
            return Some(true);
        }
        if let Some((owners, worker)) = &self.owners
            && !owners.insert(&Sight::of(reply, 0, owners.seed()), *worker)
        {
            return None;
        }
        self.counters.count(Event::Translated);
        // What is not taken can be had: the index has room for two of each connection.
        Some(self.translate(place, reply, now))
    }

    /// What there is to choose from; nothing if the range is one of the other kind of address.
    fn choose(&self, original: &Tuple, nat: &Nat, zone: u16) -> Option<Choice> {
        let own = if nat.source { original.source } else { original.destination };
        let (low, high) = match nat.range {
            NatRange::None => (own, own),
            NatRange::Ipv4(low, high) if !original.v6 => {
                (u128::from(low.to_bits()), u128::from(high.unwrap_or(low).to_bits()))
            }
            NatRange::Ipv6(low, high) if original.v6 => (low.to_bits(), high.unwrap_or(low).to_bits()),
            _ => return None,
        };
        // All zero: the address stays, and only what is taken is avoided.
        let (low, high) = if high == 0 { (own, own) } else { (low, high) };
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

    fn ports(&self, original: &Tuple, nat: &Nat, zone: u16) -> Option<(u16, u32, u16)> {
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
        let draw = |salt: u64| {
            let hash = self.seed.fold(original.source as u64 ^ salt, original.destination as u64 ^ ports);
            low + (self.seed.finish(hash ^ u64::from(zone)) % u64::from(count)) as u16
        };
        let start = match own {
            _ if nat.random => draw(self.counters.of(Event::Created)),
            _ if nat.hash => draw(0),
            own if (low..=high).contains(&own) => own,
            _ => draw(0),
        };
        Some((low, count, start))
    }

    /// Whether another connection has a tuple, in either direction.
    fn is_taken(&self, sight: &Sight, except: u32) -> bool {
        let entries = &self.entries;
        let of = |at: u32| at != except && (entries.is(at, sight) || is_reply(entries, at, sight, self.seed));
        self.index.find(sight.hash, of).is_some()
    }

    /// Both tuples of a connection: the original, and that of the answers.
    pub(super) fn tuples(&self, place: Place) -> Option<(Tuple, Tuple)> {
        let at = self.entries.alive(place)?;
        let hot = self.entries.hot(at);
        let flipped = hot.flags & super::entry::FLIPPED != 0;
        let original = Sight::tuple_of(hot.a, hot.b, self.entries.addresses[at as usize], flipped);
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

    /// The connection with this tuple, also if the packet's addresses were translated already.
    pub(super) fn find_again(&mut self, sight: &Sight, now: Tick) -> Option<u32> {
        if let Some((at, _)) = self.find(sight, now) {
            return Some(at);
        }
        let turned = Sight { flipped: !sight.flipped, ..*sight };
        self.index.find(sight.hash, |at| is_reply(&self.entries, at, &turned, self.seed))
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
