//! Who speaks with whom: the tuple of a packet, the same for both directions of a connection.
//!
//! A tuple is looked up in a *canonical* form, the lower endpoint first, so that one entry, one hash and
//! one comparison serve both directions; whether the packet's source was the higher endpoint tells them
//! apart. ICMP requests and replies have their identifier as the requester's port and their code as the
//! other's, and a bit says which of the two addresses asked: a request and its reply share an entry, two
//! hosts that ping each other with the same identifier do not, and nobody can reply to what it asked.
//!
//! IPv4 tuples are held whole in two words; for IPv6 the first word is a keyed digest, and the addresses
//! are compared where the entry keeps them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_flow::Seed;

/// IP protocol numbers (IANA).
pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;
pub(super) const SCTP: u8 = 132;

/// The two ends of a connection as one of its packets names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// IPv6; otherwise addresses are IPv4's in the lowest 32 bits.
    pub v6: bool,
    /// Who sent it.
    pub source: u128,
    /// Whom it is for.
    pub destination: u128,
    /// Port; for ICMP the requester has the identifier.
    pub source_port: u16,
    /// Port; for ICMP the one who is asked has the code.
    pub destination_port: u16,
    /// Protocol.
    pub protocol: u8,
    /// For ICMP: which kind of request, from 1; otherwise 0.
    pub kind: u8,
    /// For ICMP: whether this is the reply.
    pub answer: bool,
}

/// In the second word: which of the canonical ends asked (ICMP), and IPv6.
const HIGHER_ASKS: u64 = 1 << 31;
const V6: u64 = 1 << 30;

/// A tuple, ready to be looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexKey {
    pub(super) a: u64,
    pub(super) b: u64,
    /// IPv6: canonical addresses.
    pub(super) addresses: [u128; 2],
    pub(super) hash: u32,
    /// The source is the higher endpoint.
    pub(super) flipped: bool,
}

impl IndexKey {
    #[inline]
    pub(super) const fn v6(&self) -> bool {
        Self::word_is_v6(self.b)
    }

    /// Whether the second word is one of an IPv6 tuple.
    #[inline]
    pub(super) const fn word_is_v6(b: u64) -> bool {
        b & V6 != 0
    }

    /// The hash of the two words.
    #[inline]
    pub(super) const fn hash_of(a: u64, b: u64, seed: Seed) -> u32 {
        seed.finish(seed.fold(a, b)) as u32
    }

    /// The second word of an IPv4 tuple with ports, without ICMP's extras.
    #[inline]
    pub(super) const fn second_of(ports: u32, protocol: u8, zone: u16) -> u64 {
        (ports as u64) << 32 | (protocol as u64) << 16 | zone as u64
    }

    /// The key of an IPv4 tuple with ports, without ICMP's extras: what nearly every packet is. Leaves
    /// the IPv6 addresses as they are: nobody reads them.
    #[inline(always)]
    pub(super) fn set_v4(&mut self, addresses: u64, ports: u32, protocol: u8, zone: u16, seed: Seed) {
        let source = (addresses >> 32) << 16 | u64::from(ports >> 16);
        let destination = (addresses & 0xffff_ffff) << 16 | u64::from(ports & 0xffff);
        let flipped = source > destination;
        let turn = u32::from(flipped) * 32;
        let ports = ports.rotate_left(turn / 2);
        self.a = addresses.rotate_left(turn);
        self.b = Self::second_of(ports, protocol, zone);
        self.hash = Self::hash_of(self.a, self.b, seed);
        self.flipped = flipped;
    }

    /// The key of any tuple.
    pub(super) fn of(tuple: &Tuple, zone: u16, seed: Seed) -> Self {
        let ports = u32::from(tuple.source_port) << 16 | u32::from(tuple.destination_port);
        if !tuple.v6 && tuple.kind == 0 {
            let addresses = (tuple.source as u64) << 32 | tuple.destination as u64;
            let mut key = Self::default();
            key.set_v4(addresses, ports, tuple.protocol, zone, seed);
            return key;
        }
        let flipped = (tuple.source, tuple.source_port) > (tuple.destination, tuple.destination_port);
        let (addresses, ports) = if flipped {
            ([tuple.destination, tuple.source], ports.rotate_left(16))
        } else {
            ([tuple.source, tuple.destination], ports)
        };
        let asks = tuple.kind != 0 && {
            let (asker, asked) = if tuple.answer {
                (tuple.destination, tuple.source)
            } else {
                (tuple.source, tuple.destination)
            };
            asker > asked
        };
        let b = u64::from(ports) << 32
            | if asks { HIGHER_ASKS } else { 0 }
            | if tuple.v6 { V6 } else { 0 }
            | u64::from(tuple.kind) << 24
            | u64::from(tuple.protocol) << 16
            | u64::from(zone);
        if !tuple.v6 {
            let a = (addresses[0] as u64) << 32 | addresses[1] as u64;
            let hash = Self::hash_of(a, b, seed);
            return Self { a, b, addresses: [0; 2], hash, flipped };
        }
        let [low, high] = addresses;
        let first = seed.fold((low >> 64) as u64, low as u64);
        let second = seed.fold_with((high >> 64) as u64, high as u64, 1);
        let a = seed.fold_with(first, second, 2);
        let hash = Self::hash_of(a, b, seed);
        Self { a, b, addresses, hash, flipped }
    }

    /// The zone in the second word.
    pub(super) const fn zone_of(b: u64) -> u16 {
        b as u16
    }

    /// The tuple that an entry holds, as its originator's packets name it.
    pub(super) fn tuple_of(a: u64, b: u64, addresses: [u128; 2], flipped: bool) -> Tuple {
        let v6 = b & V6 != 0;
        let [low, high] = if v6 { addresses } else { [u128::from(a >> 32), u128::from(a as u32)] };
        let (low_port, high_port) = ((b >> 48) as u16, (b >> 32) as u16);
        let kind = (b >> 24) as u8 & 0x0f;
        let tuple = Tuple {
            v6,
            source: low,
            destination: high,
            source_port: low_port,
            destination_port: high_port,
            protocol: (b >> 16) as u8,
            kind,
            answer: false,
        };
        if flipped { Tuple { answer: false, ..tuple.reversed() } } else { tuple }
    }
}

impl Tuple {
    /// What the answer's packets have.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            answer: !self.answer,
            ..self
        }
    }

    /// The source address.
    pub fn source_address(&self) -> IpAddr {
        address(self.v6, self.source)
    }

    /// The destination address.
    pub fn destination_address(&self) -> IpAddr {
        address(self.v6, self.destination)
    }

    /// Whether ports mean something.
    pub const fn has_ports(&self) -> bool {
        matches!(self.protocol, TCP | UDP | SCTP)
    }

    /// ICMP: type and code of packets with this tuple.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        let request = REQUESTS.iter().find(|role| role.0 == self.v6 && role.1 == self.kind)?;
        let code = if self.answer { self.source_port } else { self.destination_port };
        Some((if self.answer { request.3 } else { request.2 }, code as u8))
    }

    /// ICMP: the identifier.
    pub const fn identifier(&self) -> u16 {
        if self.answer { self.destination_port } else { self.source_port }
    }

    /// As words of a key hold an original tuple: IPv4 addresses; protocol and ports, or ICMP's type and
    /// code; IPv6 addresses.
    pub(super) fn as_words(&self) -> (u64, u64, Option<[u128; 2]>) {
        let (source, destination) = self
            .icmp()
            .map_or((self.source_port, self.destination_port), |(kind, code)| (kind.into(), code.into()));
        let ports = u64::from(self.protocol) << 56 | u64::from(source) << 16 | u64::from(destination);
        let v6 = self.v6.then_some([self.source, self.destination]);
        let addresses =
            if self.v6 { 0 } else { (self.source as u64) << 32 | u64::from(self.destination as u32) };
        (addresses, ports, v6)
    }

    /// As three words, to be kept.
    pub(super) fn pack(&self) -> [u128; 3] {
        let rest = u128::from(self.source_port) << 48
            | u128::from(self.destination_port) << 32
            | u128::from(self.protocol) << 16
            | u128::from(self.kind) << 8
            | u128::from(self.answer) << 1
            | u128::from(self.v6);
        [self.source, self.destination, rest]
    }

    /// From [`Self::pack`].
    pub(super) fn unpack([source, destination, rest]: [u128; 3]) -> Self {
        Self {
            v6: rest & 1 != 0,
            source,
            destination,
            source_port: (rest >> 48) as u16,
            destination_port: (rest >> 32) as u16,
            protocol: (rest >> 16) as u8,
            kind: (rest >> 8) as u8,
            answer: rest & 2 != 0,
        }
    }
}

fn address(v6: bool, bits: u128) -> IpAddr {
    if v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}

/// Requests that open a connection: IPv6, kind, type of the request, type of the reply (RFC 792, RFC
/// 950, RFC 4443, RFC 4620).
const REQUESTS: [(bool, u8, u8, u8); 6] = [
    (false, 1, 8, 0),
    (false, 2, 13, 14),
    (false, 3, 15, 16),
    (false, 4, 17, 18),
    (true, 1, 128, 129),
    (true, 2, 139, 140),
];

/// What kind of request an ICMP type belongs to, and whether it is the reply.
pub(super) fn icmp_role(v6: bool, icmp_type: u8) -> Option<(u8, bool)> {
    let role = REQUESTS.iter().find(|role| role.0 == v6 && (role.2 == icmp_type || role.3 == icmp_type))?;
    Some((role.1, role.3 == icmp_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tuple() -> impl Strategy<Value = Tuple> {
        let ends = (0_u128..4, 1_u128..4, 0_u16..4, 0_u16..4);
        (
            any::<bool>(),
            ends,
            prop_oneof![Just((TCP, 0)), Just((UDP, 0)), Just((ICMP, 1)), Just((ICMP, 2))],
            any::<bool>(),
        )
            .prop_map(
                |(v6, (source, destination, source_port, destination_port), (protocol, kind), answer)| {
                    let (answer, destination) = (answer && kind != 0, (source + destination) % 4);
                    Tuple { v6, source, destination, source_port, destination_port, protocol, kind, answer }
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn two_tuples_share_an_entry_only_if_they_are_the_same_or_the_reverse(one in tuple(), other in tuple()) {
            let seed = Seed::new(5);
            let (x, y) = (IndexKey::of(&one, 3, seed), IndexKey::of(&other, 3, seed));
            let same = (x.a, x.b, x.addresses) == (y.a, y.b, y.addresses);
            let reverse = if one.kind == 0 { Tuple { answer: false, ..one.reversed() } } else { one.reversed() };
            prop_assert_eq!(same, one == other || reverse == other);
            if same {
                prop_assert_eq!(x.hash, y.hash);
                prop_assert_eq!(x.flipped == y.flipped, one == other);
            }
            prop_assert_eq!(Tuple::unpack(one.pack()), one);
            let back = IndexKey::tuple_of(x.a, x.b, x.addresses, x.flipped);
            prop_assert_eq!(back, Tuple { answer: false, ..one });
        }
    }

    #[test]
    fn zones_have_entries_of_their_own() {
        let tuple = Tuple {
            v6: false,
            source: 1,
            destination: 2,
            source_port: 3,
            destination_port: 4,
            protocol: UDP,
            kind: 0,
            answer: false,
        };
        let seed = Seed::new(5);
        assert_ne!(IndexKey::of(&tuple, 1, seed).b, IndexKey::of(&tuple, 2, seed).b);
        assert_eq!(IndexKey::zone_of(IndexKey::of(&tuple, 0xffff, seed).b), 0xffff);
    }
}
