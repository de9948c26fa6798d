//! Which new flows get a megaflow: those that send a second packet ([`NewFlowFilter`]), as many a second as a port may
//! have made ([`UpcallBudget`]).
//!
//! A megaflow pays when it is hit. A flow of one packet, and a flow of a million whose next packet comes
//! after the cache has forgotten it, is cheaper taken directly ([`crate::classify::table_walk`]). So a small table
//! remembers by hash who was here lately, and the second packet asks for a megaflow. Making one costs
//! some microseconds on the core that forwards: each port has so many a second ([`crate::Config`]), and
//! as many more as it did not use in the last [`PATIENCE`], so that new flows cannot starve those that
//! are established.
//!
//! A newcomer takes any place of its set, drawn anew each time. Flows come in turns, as those of a replayed
//! trace do: were the oldest always to go, of five flows in four places none would ever be known, and a
//! tenth of a million flows would never have a megaflow.
//!
//! Cost: a line a miss; a clock's comparison for each megaflow asked for. Threads: one worker's.

use weir_units::Nanos;

/// Flows that are remembered, a power of two: as many as may have megaflows, in 4 MiB. A packet that takes its way
/// through the tables costs several times what it costs by a megaflow, so each of a million flows is worth one.
const REMEMBERED: usize = 1 << 21;

/// Flows of the same place that are remembered.
const WAYS: usize = 4;

/// Megaflows that were not made are saved up for so long.
const PATIENCE: Nanos = Nanos(Nanos::PER_SECOND / 5);

/// Who was here lately: the new-flow filter.
#[derive(Debug)]
pub(crate) struct NewFlowFilter {
    /// By a part of the flow's hash, another part of four that were here.
    seen: Vec<u64>,
    /// What places are drawn from.
    drawn: u64,
}

impl NewFlowFilter {
    /// It knows no flow.
    pub(super) fn new() -> Self {
        Self { seen: vec![0; REMEMBERED / WAYS], drawn: 0 }
    }

    /// Whether a flow of this hash was here lately; it was from now on.
    #[inline]
    pub(crate) fn was_here(&mut self, hash: u64) -> bool {
        let seen = &mut self.seen[hash as usize & (REMEMBERED / WAYS - 1)];
        let tag = (hash >> 48) | 1;
        let has = |tag: u64| (0..WAYS).find(|way| *seen >> (16 * way) & 0xffff == tag);
        if has(tag).is_some() {
            return true;
        }
        // Knuth's multiplier for 64 bits, of which the upper ones are drawn (TAOCP, volume 2, section 3.3.4).
        self.drawn = self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let place = 16 * has(0).unwrap_or((self.drawn >> 62) as usize);
        *seen = *seen & !(0xffff << place) | tag << place;
        false
    }
}

/// How many megaflows each port may still have made: the upcall budget.
#[derive(Debug)]
pub(crate) struct UpcallBudget {
    /// The time that one megaflow takes of a port's budget.
    each: Nanos,
    /// By port: when its budget is full again.
    ports: Vec<(u32, Nanos)>,
}

impl UpcallBudget {
    /// For so many megaflows a second and port.
    pub(super) fn new(rate: u32) -> Self {
        Self { each: Nanos(Nanos::PER_SECOND / u64::from(rate.max(1))), ports: Vec::new() }
    }

    /// Takes one megaflow from a port's budget, if there is one.
    pub(crate) fn admit(&mut self, port: u32, now: Nanos) -> bool {
        let at = self.ports.iter().position(|(other, _)| *other == port).unwrap_or_else(|| {
            self.ports.push((port, Nanos(0)));
            self.ports.len() - 1
        });
        let full = &mut self.ports[at].1;
        if full.0 > now.0 + PATIENCE.0 {
            return false;
        }
        *full = Nanos(full.0.max(now.0) + self.each.0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_its_rate_and_what_it_saved_and_another_port_has_its_own() {
        let mut budget = UpcallBudget::new(1000);
        let start = Nanos(7 * Nanos::PER_SECOND);
        let at_once = (0..5000).filter(|_| budget.admit(1, start)).count();
        assert_eq!(at_once, 201, "a fifth of a second's, and one");
        let mut later = 0;
        for milli in 1..=1000 {
            let now = Nanos(start.0 + milli * Nanos::PER_SECOND / 1000);
            later += (0..50).filter(|_| budget.admit(1, now)).count();
        }
        assert_eq!(later, 1000);
        assert!(budget.admit(2, start));
    }

    #[test]
    fn of_flows_that_come_in_turn_few_are_left_unknown_after_a_few_rounds() {
        let mut filter = NewFlowFilter::new();
        let mut unknown: Vec<u64> =
            (0..REMEMBERED as u64 / 2).map(|flow| weir_flow::Seed::new(3).fold(flow, 1)).collect();
        // Who is known gets a megaflow, and is not asked for again.
        for _ in 0..6 {
            unknown.retain(|&hash| !filter.was_here(hash));
        }
        assert!(unknown.len() < REMEMBERED / 2000, "{} of {}", unknown.len(), REMEMBERED / 2);
    }

    #[test]
    fn a_flow_is_known_when_it_comes_again() {
        let mut filter = NewFlowFilter::new();
        let hash = |flow: u64| weir_flow::Seed::new(3).fold(flow, 1);
        assert_eq!((0..1000).filter(|&flow| filter.was_here(hash(flow))).count(), 0);
        let known = (0..1000).filter(|&flow| filter.was_here(hash(flow))).count();
        assert!(known > 950, "{known} of 1,000");
    }
}
