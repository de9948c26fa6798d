//! Readings of a DUT's counters.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Instant;
use weir_trial::{StageReading, StageTaps};
use weir_units::Nanos;

/// A reading of a DUT's counters, all since its start, and of what it holds.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Packets received over all ports.
    pub received: u64,
    /// Packets sent over all ports.
    pub sent: u64,
    /// CPU time of the forwarding threads.
    pub cpu: Nanos,
    /// When it was read.
    pub at: Instant,
    /// What else the dataplane counts, by its own names (`emc hits`, `upcalls`).
    pub details: BTreeMap<String, u64>,
    /// What it holds at that moment, such as megaflows, by its own names: of two readings the later one tells.
    pub states: BTreeMap<String, u64>,
    /// By port, in order; none of a dataplane that does not tell its ports apart.
    pub ports: Vec<PortCounts>,
    /// TSC cycles that its thread spent on rounds which found packets; nothing where it does not say.
    pub busy: Option<u64>,
    /// Packets that no port took, their queues being full; nothing where the dataplane does not say.
    pub refused: Option<u64>,
    /// What its taps say, by pair of ports, in order; none where they are off, or it has none.
    pub taps: Vec<StageTaps>,
    /// Of a chain, by stage, from the chain's port 0 on.
    pub stages: Vec<StageReading>,
}

/// Packets of one port of a DUT, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PortCounts {
    /// Packets that came in by it.
    pub received: u64,
    /// Packets that left by it.
    pub sent: u64,
    /// Packets that it did not take; nothing where the dataplane does not say.
    #[serde(default, alias = "send_dropped")]
    pub refused: Option<u64>,
}

impl PortCounts {
    /// Packets received and sent by all ports.
    pub fn totals(ports: &[Self]) -> (u64, u64) {
        ports.iter().fold((0, 0), |(received, sent), port| (received + port.received, sent + port.sent))
    }
}

impl Counters {
    /// What every dataplane counts.
    pub fn new(received: u64, sent: u64, cpu: Nanos, at: Instant) -> Self {
        let (details, states) = (BTreeMap::new(), BTreeMap::new());
        let (ports, stages) = (Vec::new(), Vec::new());
        Self {
            received,
            sent,
            cpu,
            at,
            details,
            states,
            ports,
            busy: None,
            refused: None,
            taps: Vec::new(),
            stages,
        }
    }

    /// What the details have grown by since an earlier reading, and what it holds now.
    pub fn details_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let grown = |(name, now): (&String, &u64)| {
            let then = before.details.get(name).copied().unwrap_or_default();
            (name.clone(), now.saturating_sub(then))
        };
        let states = self.states.iter().map(|(name, now)| (name.clone(), *now));
        self.details.iter().map(grown).chain(states).collect()
    }

    /// What the stages did since an earlier reading.
    pub fn stages_since(&self, before: &Self) -> Vec<StageReading> {
        self.stages.iter().zip(&before.stages).map(|(now, then)| now.since(then)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_subtracted_and_of_what_is_held_the_later_reading_tells() {
        let reading = |upcalls, megaflows| Counters {
            details: [("upcalls".to_owned(), upcalls)].into(),
            states: [("megaflows".to_owned(), megaflows)].into(),
            ..Counters::new(0, 0, Nanos(0), Instant::now())
        };
        let since = reading(9, 258).details_since(&reading(7, 250));
        assert_eq!(since, [("megaflows".to_owned(), 258), ("upcalls".to_owned(), 2)].into());
    }

    #[test]
    fn a_port_says_what_it_did_not_take_under_either_name() {
        let read = |text: &str| serde_json::from_str::<PortCounts>(text).unwrap();
        let weir = read(r#"{"number":1,"received":7,"sent":5,"send_dropped":2}"#);
        assert_eq!(weir, PortCounts { received: 7, sent: 5, refused: Some(2) });
        assert_eq!(read(r#"{"received":7,"sent":5}"#).refused, None);
        assert_eq!(PortCounts::totals(&[weir, weir]), (14, 10));
    }
}
