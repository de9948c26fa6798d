//! Tuple-space explosion: traffic that draws as many masks out of a cache of megaflows as there are.
//!
//! Both variants of the attack (Csikor and others, "Tuple Space Explosion: A Denial-of-Service Attack Against a
//! Software Packet Classifier", CoNEXT 2019) against the function `exposed:N`, each mixed with traffic of users:
//!
//! - *co-located*: who knows the list sends, for each of the denied values, one packet a bit: all bits
//!   before that one are those of the denied value, the bit is inverted, those behind it are drawn. All
//!   combinations over one, two or three fields are 16, 512 or 8,192 packets, and as many masks.
//! - *general*: who knows nothing sends values drawn evenly; half of them differ in a field's first bit,
//!   a quarter first in its second, and so on, so that N packets reach some of the masks.
//!
//! The users are [`USERS`] flows, those of `flows:N`. A lap gives each attacker's packet and each user's its
//! turn, one after the other; the shorter list goes round. What the attacker sends passes the list as well,
//! so that nothing is to be lost. Compare with `flows:10000`, which is the users alone.
//!
//! Cost: some milliseconds, once.

use super::synthetic::{Flow, PORT_0_MAC, PORT_1_MAC, destination_address};
use super::{TraceName, TraceSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::net::Ipv4Addr;
use weir_trial::{DENIED_BITS as BITS, DENIED_DESTINATION_PORT, DENIED_SOURCE, DENIED_SOURCE_PORT};

/// Flows of users.
pub(super) const USERS: u32 = 10_000;

/// Packets of the co-located attack over so many fields.
pub(super) const fn colocated(fields: u32) -> u32 {
    let (mut all, mut field) = (1, 0);
    while field < fields {
        all *= BITS[field as usize];
        field += 1;
    }
    all
}

/// Packets of a lap.
pub(super) const fn lap(attack: u32) -> u32 {
    2 * if attack > USERS { attack } else { USERS }
}

/// The packets of a lap, users' and attacker's in turn.
pub(super) fn flows(spec: &TraceSpec) -> Option<Vec<Flow>> {
    let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
    let attack: Vec<Flow> = match spec.name {
        TraceName::Colocated(fields) => (0..colocated(fields)).map(|k| aimed(k, fields, &mut rng)).collect(),
        TraceName::General(packets) => (0..packets).map(|_| drawn(&mut rng)).collect(),
        _ => return None,
    };
    let users = TraceName::Flows(USERS);
    let half = lap(attack.len() as u32) / 2;
    let pair = |k: u32| [Flow::of(&users, k % USERS), attack[k as usize % attack.len()]];
    Some((0..half).flat_map(pair).collect())
}

/// The value with its `bit`th bit inverted, counted from the top of `bits`, and what follows drawn.
fn beside(value: u32, bit: u32, bits: u32, rng: &mut ChaCha8Rng) -> u32 {
    let inverted = 1 << (bits - 1 - bit);
    (value ^ inverted) & !(inverted - 1) | rng.next_u32() & (inverted - 1)
}

/// Packet `k` of the co-located attack. Fields that are not attacked have values that nobody denies.
fn aimed(k: u32, fields: u32, rng: &mut ChaCha8Rng) -> Flow {
    let bit = |field: usize| k / colocated(field as u32) % BITS[field];
    let mut flow = drawn(rng);
    flow.destination_port = beside(DENIED_DESTINATION_PORT.into(), bit(0), BITS[0], rng) as u16;
    if fields > 1 {
        flow.source = Ipv4Addr::from_bits(beside(DENIED_SOURCE.to_bits(), bit(1), BITS[1], rng));
    }
    if fields > 2 {
        flow.source_port = beside(DENIED_SOURCE_PORT.into(), bit(2), BITS[2], rng) as u16;
    }
    flow
}

/// A packet of the general attack.
fn drawn(rng: &mut ChaCha8Rng) -> Flow {
    loop {
        let (source, ports) = (Ipv4Addr::from_bits(rng.next_u32()), rng.next_u32());
        let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
        let denied = source == DENIED_SOURCE
            || source_port == DENIED_SOURCE_PORT
            || destination_port == DENIED_DESTINATION_PORT;
        if !denied && source_port != 0 && destination_port != 0 {
            return Flow {
                source_mac: PORT_0_MAC,
                destination_mac: PORT_1_MAC,
                source,
                destination: destination_address(0, 1),
                source_port,
                destination_port,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weir_trial::Nf;
    use weir_wire::ipv4;
    use weir_wire::table::{Action, FiveTuple, first_match};

    fn tuple(flow: &Flow) -> FiveTuple {
        let ports = Some((flow.source_port, flow.destination_port));
        FiveTuple { protocol: ipv4::UDP, source: flow.source, destination: flow.destination, ports }
    }

    #[test]
    fn the_co_located_attack_differs_from_each_denied_value_at_every_combination_of_bits() {
        for fields in 1..=3 {
            let spec = TraceSpec::of(TraceName::Colocated(fields));
            let flows = flows(&spec).unwrap();
            assert_eq!(flows, super::flows(&spec).unwrap(), "the same seed, the same packets");
            let differs = |flow: &&Flow| {
                let all = [
                    (flow.destination_port ^ DENIED_DESTINATION_PORT).leading_zeros(),
                    (flow.source.to_bits() ^ DENIED_SOURCE.to_bits()).leading_zeros(),
                    (flow.source_port ^ DENIED_SOURCE_PORT).leading_zeros(),
                ];
                all[..fields as usize].to_vec()
            };
            let attack: Vec<&Flow> = flows.iter().skip(1).step_by(2).collect();
            let combinations: HashSet<Vec<u32>> = attack.iter().map(differs).collect();
            assert_eq!(combinations.len(), colocated(fields) as usize);
        }
    }

    #[test]
    fn nothing_that_either_attack_sends_is_denied() {
        let rules = Nf::Exposed { fields: 3 }.rules();
        for name in [TraceName::Colocated(3), TraceName::General(20_000)] {
            let flows = flows(&TraceSpec::of(name.clone())).unwrap();
            assert_eq!(flows.len() as u32, super::super::synthetic::flows(&name));
            for flow in &flows {
                let rule = first_match(&rules, &tuple(flow)).expect("the last matches all");
                assert_eq!(rule.action, Action::Allow, "{flow:?}");
            }
        }
    }
}
