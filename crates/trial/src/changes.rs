//! Changes of a device's flow entries during a trial: what a controller asked for, and what data packets said of it.
//!
//! A switch says by a barrier's reply that all changes before it are done. Some say so before it is true. So the last
//! change of a batch turns one entry between two ports, and the tester sends a packet for that entry ten thousand
//! times a second: those sent after the reply must come out by the new port ([`check`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Nanos;

/// What a controller does to a device while a load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It is connected, its entry is looked for, and nothing changes: what changes are compared with.
    Idle,
    /// It changes flow entries as fast as the device takes them.
    Changes {
        /// Changes before each barrier; at least 1.
        batch: u32,
    },
}

/// Changes of flow entries in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesMade {
    /// Changes before each barrier; 0 where none were asked for.
    pub batch: u32,
    /// Changes that came to their barrier.
    pub made: u64,
    /// From the first change sent to the last barrier's reply.
    pub elapsed: Nanos,
    /// Looks, with data packets, for the last change of a batch.
    pub checks: Vec<EntryCheck>,
}

impl ChangesMade {
    /// Changes a second; nothing where none came to a barrier.
    pub fn rate(&self) -> Option<f64> {
        (self.made > 0 && self.elapsed.0 > 0).then(|| self.made as f64 / self.elapsed.seconds())
    }

    /// The longest time in which an entry was not in force that the device had confirmed; nothing where no packet
    /// told.
    pub fn lag(&self) -> Option<Nanos> {
        self.checks.iter().filter(|check| check.probes > 0).map(|check| check.lag).max()
    }
}

/// Whether a confirmed change was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryCheck {
    /// Packets that were sent after the barrier's reply and before the entry changed again, and came out.
    pub probes: u32,
    /// Of these, those that came out as the former entry says.
    pub stale: u32,
    /// From the reply to when the last of these was sent; 0 where there was none.
    pub lag: Nanos,
    /// Whether the last packet came out as the new entry says.
    pub in_force: bool,
}

/// A change that was confirmed, as the controller saw it; times in ticks of the time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The port by which packets of the entry come out from then on.
    pub port: u8,
    /// When the barrier's reply came.
    pub at: u64,
    /// When the entry was changed again.
    pub until: u64,
}

/// A packet for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// When it was sent, in ticks.
    pub sent: u64,
    /// By which port it came out; nothing where it did not.
    pub port: Option<u8>,
}

/// Holds packets, in the order sent, against a confirmed change.
pub fn check(change: &Confirmed, probes: &[Probe], nanos_per_tick: f64) -> EntryCheck {
    let mut found = EntryCheck::default();
    let within = |probe: &&Probe| (change.at..change.until).contains(&probe.sent);
    for probe in probes.iter().filter(within) {
        let Some(port) = probe.port else { continue };
        found.probes += 1;
        found.in_force = port == change.port;
        if !found.in_force {
            found.stale += 1;
            found.lag = Nanos(((probe.sent - change.at) as f64 * nanos_per_tick).round() as u64);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: Confirmed = Confirmed { port: 1, at: 100, until: 200 };

    fn probes(ports: &[(u64, Option<u8>)]) -> Vec<Probe> {
        ports.iter().map(|(sent, port)| Probe { sent: *sent, port: *port }).collect()
    }

    #[test]
    fn a_reply_that_is_true_has_no_lag_whatever_was_on_its_way() {
        let all = probes(&[
            (90, Some(0)),
            (99, Some(0)),
            (100, Some(1)),
            (150, None),
            (160, Some(1)),
            (200, Some(0)),
        ]);
        let said = check(&CHANGE, &all, 2.0);
        assert_eq!(said, EntryCheck { probes: 2, stale: 0, lag: Nanos(0), in_force: true });
    }

    #[test]
    fn a_reply_that_lies_lags_until_the_last_packet_by_the_former_entry() {
        let all = probes(&[(110, Some(0)), (130, Some(1)), (150, Some(0)), (160, None), (170, Some(1))]);
        let said = check(&CHANGE, &all, 2.0);
        assert_eq!(said, EntryCheck { probes: 4, stale: 2, lag: Nanos(100), in_force: true });
        let never = check(&CHANGE, &all[..3], 1.0);
        assert_eq!((never.in_force, never.lag), (false, Nanos(50)));
        let made = |checks| ChangesMade { made: 10, elapsed: Nanos(1_000_000), batch: 5, checks };
        assert_eq!(made(vec![said, never]).lag(), Some(Nanos(100)));
        assert_eq!(made(vec![EntryCheck::default()]).lag(), None, "no packet told");
        assert_eq!((made(Vec::new()).rate(), ChangesMade::default().rate()), (Some(10_000.0), None));
    }
}
