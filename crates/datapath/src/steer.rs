//! Which worker owns a flow, where services keep state by flow and there are several workers.
//!
//! Both directions of a conversation, its fragments and the ICMP errors about it must meet at one
//! worker. So the owner is chosen by the two addresses alone, whichever comes first; an ICMP error goes
//! where the packet that it quotes would. The price: all flows between the same two addresses have one
//! owner. Answers of connections whose addresses are translated have other addresses; who has them is asked
//! first (`weir_services::conntrack::Owners`).

use weir_flow::{Field, Key, Layout, Seed};

/// ICMP types that quote the packet they are about (RFC 792).
const ICMP_ERRORS: [u128; 5] = [3, 4, 5, 11, 12];

/// The owner of a packet's flow, of so many workers.
pub(crate) fn owner(key: &Key, layout: Layout, frame: &[u8], seed: Seed, workers: usize) -> usize {
    let hash = match Field::EthType.get(key) {
        0x0800 => {
            let (source, destination) = quoted_v4(key, layout, frame).unwrap_or_else(|| {
                let both = key.word(3);
                ((both >> 32) as u32, both as u32)
            });
            pair(seed, &[u64::from(source)], &[u64::from(destination)])
        }
        0x86dd => {
            let inner = quoted_v6(key, layout, frame);
            let own = [[key.word(8), key.word(9)], [key.word(10), key.word(11)]];
            let [source, destination] = inner.unwrap_or(own);
            pair(seed, &source, &destination)
        }
        // Nothing that a service keeps state of.
        _ => return 0,
    };
    (hash % workers as u64) as usize
}

fn pair(seed: Seed, a: &[u64], b: &[u64]) -> u64 {
    let one = |words: &[u64]| words.iter().fold(0, |hash, word| seed.fold(hash, *word));
    // Addition does not mind the order.
    seed.finish(one(a).wrapping_add(one(b)))
}

/// Addresses of the packet that an ICMP error quotes.
fn quoted_v4(key: &Key, layout: Layout, frame: &[u8]) -> Option<(u32, u32)> {
    if Field::NwProto.get(key) != 1
        || !ICMP_ERRORS.contains(&Field::IcmpType.get(key))
        || layout.transport == 0
    {
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

    fn owner_of(frame: &[u8]) -> usize {
        let mut key = Key::new();
        let layout = extract(frame, 1, &mut key);
        owner(&key, layout, frame, Seed::new(7), 64)
    }

    #[test]
    fn both_directions_fragments_and_errors_have_one_owner() {
        let ports = [0, 80, 0, 81, 0, 12, 0, 0, 1, 2, 3, 4];
        let there = frame(1, 2, 17, &ports);
        let back = frame(2, 1, 17, &ports);
        let mut later = frame(1, 2, 17, &ports);
        later[21] = 7;
        let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
        error.extend(&there[14..]);
        let error = frame(9, 1, 1, &error);
        let owners = [&there, &back, &later, &error].map(|frame| owner_of(frame));
        assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
        let others = (3..40).map(|last| owner_of(&frame(1, last, 17, &ports)));
        assert!(others.collect::<std::collections::BTreeSet<_>>().len() > 10, "owners are spread");
    }
}
