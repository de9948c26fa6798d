//! A simulated device that is made of parts: functions, what carries packets between them, cores and a clock.
//!
//! Its capacity at a point follows from the point's function and placement. A packet takes `io` of each process that it goes
//! through and what each function there asks; a host takes `hop` for each time that it passes a packet on. Processes on one
//! core take turns, so that their times add up; of several cores the busiest decides. A slower clock makes longer what is
//! not `memory`; a share of a core gives the device turns, each of which costs `turn` of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::{CoreUse, Deployment, Frequency, Nf, NfKind, Placement};
use weir_units::{Nanos, Pps, Ratio};

/// What a packet takes of each part, at the device's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedParts {
    /// Receiving and sending, of each process.
    pub io: Nanos,
    /// What L2 forwarding adds.
    pub l2fwd: Nanos,
    /// What routing adds.
    pub l3fwd: Nanos,
    /// What a filter adds.
    pub firewall: Nanos,
    /// Passing a packet on, of a host; of a deployment without one, of each process.
    pub hop: Nanos,
    /// Part of all these times that the clock does not shorten.
    pub memory: Ratio,
    /// The clock that the times are of, in MHz.
    pub clock: u32,
    /// What a turn costs a device that has a share of a core, as a part of its time.
    pub turn: Ratio,
}

impl Default for SimulatedParts {
    fn default() -> Self {
        Self {
            io: Nanos(60),
            l2fwd: Nanos(20),
            l3fwd: Nanos(60),
            firewall: Nanos(120),
            hop: Nanos(50),
            memory: Ratio(0.25),
            clock: 2_500,
            turn: Ratio(0.06),
        }
    }
}

impl SimulatedParts {
    /// Packets a second, over all directions, that a function forwards where it is placed so.
    pub fn capacity(&self, nf: Nf, placement: &Placement) -> Pps {
        let times = self.processes(nf, placement);
        let cores = match &placement.cores {
            CoreUse::Own => times.len(),
            CoreUse::Shared => 1,
            counted => counted.fixed().unwrap_or(1),
        };
        let mut busy = vec![0.0; cores.clamp(1, times.len())];
        let cores = busy.len();
        for (process, time) in times.iter().enumerate() {
            busy[process % cores] += time;
        }
        let longest = busy.into_iter().fold(f64::MIN_POSITIVE, f64::max) * self.slowed(placement.frequency);
        Pps(1e9 / longest)
    }

    /// Nanoseconds of each process for a packet of the chain, the host first. A process of several side by side has its
    /// share of the packets.
    fn processes(&self, nf: Nf, placement: &Placement) -> Vec<f64> {
        let ns = |time: Nanos| time.0 as f64;
        let work: Vec<f64> = nf.members().into_iter().map(|member| ns(self.work(member))).collect();
        let side_by_side = f64::from(placement.copies.max(1) * placement.bundles.max(1));
        let each = |own: f64| -> Vec<f64> {
            let times: Vec<f64> = work.iter().map(|work| (own + work) / side_by_side).collect();
            times.repeat(side_by_side as usize)
        };
        match placement.deployment {
            Deployment::Inline => {
                // A thread for each queue, with its share of the packets.
                let threads = placement.forwarding(work.len()).max(1);
                vec![(ns(self.io) + work.iter().sum::<f64>()) / threads as f64; threads]
            }
            // A graph has no computed devices.
            Deployment::Vale | Deployment::Graph => each(ns(self.io) + ns(self.hop)),
            Deployment::Shared => [vec![ns(self.io)], each(ns(self.hop))].concat(),
            Deployment::Vhost | Deployment::Container | Deployment::Vm => {
                let host = ns(self.hop) * (work.len() + 1) as f64;
                [vec![host], each(ns(self.io))].concat()
            }
        }
    }

    /// What one function asks beside receiving and sending.
    fn work(&self, nf: Nf) -> Nanos {
        match nf.kind() {
            NfKind::L2Fwd => self.l2fwd,
            NfKind::L3Fwd | NfKind::Nat => self.l3fwd,
            _ => self.firewall,
        }
    }

    /// How many times as long everything takes at this speed of the cores.
    fn slowed(&self, frequency: Option<Frequency>) -> f64 {
        match frequency {
            None => 1.0,
            Some(Frequency::Clock(megahertz)) => {
                let slower = f64::from(self.clock) / f64::from(megahertz.max(1));
                self.memory.0 + (1.0 - self.memory.0) * slower
            }
            Some(share) => {
                share.held().map_or(1.0, |percent| (1.0 + self.turn.0) * 100.0 / f64::from(percent))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(nf: &str, placement: &Placement) -> f64 {
        (1e9 / SimulatedParts::default().capacity(nf.parse().unwrap(), placement).0 * 1e6).round() / 1e6
    }

    #[test]
    fn times_add_up_on_one_core_and_the_busiest_of_several_decides() {
        let inline = Placement::default();
        assert_eq!(nanoseconds("l2fwd", &inline), 80.0);
        assert_eq!(nanoseconds("firewall:10+l3fwd:10", &inline), 60.0 + 120.0 + 60.0);
        assert_eq!(nanoseconds("l2fwd", &Placement { queues: 4, ..inline.clone() }), 20.0);
        let one_thread = Placement { queues: 4, cores: CoreUse::Shared, ..inline };
        assert_eq!(nanoseconds("l2fwd", &one_thread), 80.0, "of four queues");
        let own =
            Placement { deployment: Deployment::Vhost, host: Some("weir".into()), ..Placement::default() };
        assert_eq!(nanoseconds("firewall:10+l3fwd:10", &own), 180.0, "the filter is the slowest");
        let shared = Placement { cores: CoreUse::Shared, ..own.clone() };
        assert_eq!(nanoseconds("firewall:10+l3fwd:10", &shared), 150.0 + 180.0 + 120.0);
        let two = Placement { cores: CoreUse::Count(2), ..own.clone() };
        assert_eq!(nanoseconds("firewall:10+l3fwd:10", &two), 150.0 + 120.0, "the host, then every other");
        let copies = Placement { copies: 2, ..own };
        assert_eq!(nanoseconds("firewall:10", &copies), 100.0, "the host, of twice 90");
    }

    #[test]
    fn a_slower_clock_and_a_share_make_a_packet_longer() {
        let at = |frequency: &str| {
            let frequency = Some(frequency.parse().unwrap());
            nanoseconds("l2fwd", &Placement { frequency, ..Placement::default() })
        };
        assert_eq!(at("2.5GHz"), 80.0);
        assert_eq!(at("1.25GHz"), 140.0, "a quarter of it waits for memory");
        assert_eq!(at("50%"), 169.6, "twice as long, and the turns");
        assert_eq!(at("100%"), 80.0);
    }
}
