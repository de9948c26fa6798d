//! The bucket of a select group that a packet goes through.
//!
//! By the flow: a hash over what both directions of a connection have in common, the two ends (address and port)
//! in either order and the protocol, so that both go through buckets at the same place of groups with the same buckets. Fragments
//! go by their addresses alone, as later ones have no ports; what has no hosts goes by the addresses of its cards.
//!
//! In turns: each worker's megaflow goes round the group's slots by itself, one a packet, from where the hash of its
//! first packet says, so that many small flows do not all begin with the same bucket.
//!
//! Cost: two folds and a remainder a packet; in turns a store. Threads: one worker's.

use crate::actions::execute::Subject;
use crate::actions::program::{Op, Select};
use weir_flow::{Field, Key, Seed};

/// ICMP and ICMPv6: their type and code lie where others have ports.
const WITHOUT_PORTS: [u8; 2] = [1, 58];

/// The group's choice for a packet, counted.
pub(super) fn choose<'s>(select: &'s Select, subject: &Subject<'_>, seed: Seed) -> &'s [Op] {
    let slots = select.slots.len().max(1);
    let by_flow = || (flow(subject.key, seed) % slots as u64) as usize;
    let slot = match &select.turn {
        None => by_flow(),
        Some(turn) => {
            let now = turn.get().unwrap_or_else(by_flow);
            turn.set(Some(if now + 1 < slots { now + 1 } else { 0 }));
            now
        }
    };
    let place = usize::from(select.slots.get(slot).copied().unwrap_or(0));
    select.choices.get(place).map_or(&[], |choice| {
        choice.count(subject.packet.len());
        &choice.ops
    })
}

/// A hash of a flow, the same for its other direction.
fn flow(key: &Key, seed: Seed) -> u64 {
    let (protocol, both) = (key.protocol(), key.ports());
    let has_ports = key.fragment() == 0 && !WITHOUT_PORTS.contains(&protocol);
    let ports = if has_ports { [u64::from(both >> 16), u64::from(both & 0xffff)] } else { [0; 2] };
    let v4 = key.addresses();
    let hash = if v4 != 0 {
        let ends = [(v4 >> 32) << 16 | ports[0], (v4 & 0xffff_ffff) << 16 | ports[1]];
        seed.fold(ends[0].min(ends[1]), ends[0].max(ends[1]))
    } else {
        wide(key, ports, seed)
    };
    seed.finish(seed.fold_with(hash, u64::from(protocol), 0))
}

/// The same of IPv6; of the addresses of cards, where there are no hosts.
#[inline(never)]
fn wide(key: &Key, ports: [u64; 2], seed: Seed) -> u64 {
    let end = |address: Field, port: u64| {
        let address = address.get(key);
        seed.fold(seed.fold_with((address >> 64) as u64, address as u64, 1), port)
    };
    let hosts = [Field::Ipv6Src, Field::Ipv6Dst];
    let ends = match hosts.iter().any(|host| host.get(key) != 0) {
        true => [end(Field::Ipv6Src, ports[0]), end(Field::Ipv6Dst, ports[1])],
        false => [end(Field::EthSrc, 0), end(Field::EthDst, 0)],
    };
    seed.fold(ends[0].min(ends[1]), ends[0].max(ends[1]))
}
