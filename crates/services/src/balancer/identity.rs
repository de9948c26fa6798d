//! What makes packets one connection: addresses, ports and protocol, the same for both directions.
//!
//! A connection is known by a keyed 64-bit hash of these. Two connections whose hashes are equal (one
//! chance in ten thousand million with 65,536 of them) go to the same place, which is all that happens.
//!
//! Fragments, and protocols without ports, are known by addresses and protocol alone, so that the
//! fragments of a packet stay together. Packets that are not IP are all one connection.

use weir_flow::{Field, Key, Seed};

const IPV6: u128 = 0x86dd;
/// TCP, UDP, SCTP.
const WITH_PORTS: [u128; 3] = [6, 17, 132];

/// The hash of a packet's connection; never 0.
#[inline]
pub(super) fn fingerprint(key: &Key, seed: Seed) -> u64 {
    let protocol = Field::NwProto.get(key);
    let (mut source, mut destination) = (0, 0);
    if WITH_PORTS.contains(&protocol) && Field::NwFrag.get(key) == 0 {
        source = Field::TcpSrc.get(key) as u64;
        destination = Field::TcpDst.get(key) as u64;
    }
    let protocol = (protocol as u64) << 56;
    let hash = if Field::EthType.get(key) == IPV6 {
        let from = (Field::Ipv6Src.get(key), source);
        let to = (Field::Ipv6Dst.get(key), destination);
        let (low, high) = if from <= to { (from, to) } else { (to, from) };
        let addresses = seed.fold((low.0 >> 64) as u64, low.0 as u64)
            ^ seed.fold_with((high.0 >> 64) as u64, high.0 as u64, 1);
        seed.fold_with(addresses, protocol | low.1 << 16 | high.1, 2)
    } else {
        let from = (Field::NwSrc.get(key) as u64) << 16 | source;
        let to = (Field::NwDst.get(key) as u64) << 16 | destination;
        seed.fold(protocol | from.min(to), from.max(to))
    };
    seed.finish(hash).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(v6: bool, from: (u128, u128), to: (u128, u128), protocol: u128) -> Key {
        let mut key = Key::new();
        let (source, destination) =
            if v6 { (Field::Ipv6Src, Field::Ipv6Dst) } else { (Field::NwSrc, Field::NwDst) };
        Field::EthType.set(&mut key, if v6 { IPV6 } else { 0x0800 });
        source.set(&mut key, from.0);
        destination.set(&mut key, to.0);
        Field::NwProto.set(&mut key, protocol);
        Field::TcpSrc.set(&mut key, from.1);
        Field::TcpDst.set(&mut key, to.1);
        key
    }

    #[test]
    fn both_directions_are_one_connection_and_any_other_port_is_another() {
        let seed = Seed::new(3);
        for v6 in [false, true] {
            let (a, b) = ((0x0a00_0001, 999), (0x0a00_0002, 80));
            let there = fingerprint(&key(v6, a, b, 6), seed);
            assert_eq!(there, fingerprint(&key(v6, b, a, 6), seed));
            for other in [
                key(v6, (a.0, 998), b, 6),
                key(v6, (a.0 + 1, a.1), b, 6),
                key(v6, (a.0, b.1), (b.0, a.1), 6),
                key(v6, a, b, 17),
            ] {
                assert_ne!(there, fingerprint(&other, seed));
            }
            assert_ne!(there, fingerprint(&key(v6, a, b, 6), Seed::new(4)));
        }
    }

    #[test]
    fn all_fragments_of_a_packet_stay_together() {
        let seed = Seed::new(3);
        let mut first = key(false, (1, 1000), (2, 80), 17);
        let mut later = key(false, (1, 0), (2, 0), 17);
        Field::NwFrag.set(&mut first, 1);
        Field::NwFrag.set(&mut later, 3);
        assert_eq!(fingerprint(&first, seed), fingerprint(&later, seed));
    }
}
