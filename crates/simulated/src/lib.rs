//! A device under test that exists only in arithmetic: known capacity, queue, noise and loss.
//!
//! Per trial the capacity is drawn once around its mean (machine noise between trials); what
//! exceeds it fills a queue and then is lost; a background loss takes its share of the rest.
//! Latency is service time plus queueing. Everything follows from the seed and the order of the
//! trials, so a search over it can be repeated to the packet.

mod parts;

pub use parts::SimulatedParts;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_trial::run::Purpose;
use weir_trial::{DirectionCounts, KeptTrial, Latency, Measurer, TrialResult, TrialSpec};
use weir_units::{LatencyHistogram, Nanos, Pps, Ratio};

/// The device's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedDut {
    /// Packets a second it forwards when undisturbed.
    pub capacity: Pps,
    /// Packets its queue holds.
    pub queue: u64,
    /// Standard deviation of the capacity from trial to trial, as a share of it.
    pub noise: Ratio,
    /// Share of the forwarded packets lost at any load.
    pub loss: Ratio,
    /// Share of the trials in which a disturbance takes the CPU away for [`Self::DISTURBANCE`].
    pub disturbed: Ratio,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Default for SimulatedDut {
    fn default() -> Self {
        Self {
            capacity: Pps(5e6),
            queue: 1024,
            noise: Ratio(0.0),
            loss: Ratio(0.0),
            disturbed: Ratio(0.0),
            seed: 1,
        }
    }
}

/// The device at work.
#[derive(Clone, Debug)]
pub struct Simulation {
    dut: SimulatedDut,
    rng: ChaCha8Rng,
    /// The last trial's latencies: half a megabyte that the system need not find for each trial.
    latencies: LatencyHistogram,
    trials: u32,
}

impl SimulatedDut {
    /// Length of one disturbance.
    pub const DISTURBANCE: Nanos = Nanos(5_000_000);

    /// Starts the device.
    pub fn start(self) -> Simulation {
        let latencies = LatencyHistogram::default();
        Simulation { dut: self, rng: ChaCha8Rng::seed_from_u64(self.seed), latencies, trials: 0 }
    }
}

impl Simulation {
    /// A normal deviate (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (u, v): (f64, f64) = (self.rng.random_range(f64::MIN_POSITIVE..1.0), self.rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Runs one trial in no time.
    pub fn run(&mut self, spec: TrialSpec) -> TrialResult {
        let dut = self.dut;
        let seconds = spec.duration.seconds();
        let intended = (spec.load.0 * seconds).round() as u64;
        let capacity = (dut.capacity.0 * (1.0 + dut.noise.0 * self.normal())).max(1.0);
        let stolen =
            if self.rng.random_bool(dut.disturbed.0) { SimulatedDut::DISTURBANCE.seconds() } else { 0.0 };
        let room = (capacity * (seconds - stolen).max(0.0)) as u64 + dut.queue;
        let burst_room = dut.queue + intended.saturating_sub((spec.load.0 * stolen) as u64);
        let forwarded = intended.min(room).min(burst_room);
        let received = forwarded - (forwarded as f64 * dut.loss.0).round() as u64;
        self.draw_latencies(spec.load, capacity);
        let counts =
            DirectionCounts { intended, sent: intended, received, stamped: intended, ..Default::default() };
        TrialResult {
            directions: vec![counts],
            latency: Latency::of(&self.latencies),
            ..TrialResult::new(spec)
        }
    }

    /// A thousand latencies: service time, and the wait of an M/D/1 queue up to its length.
    fn draw_latencies(&mut self, load: Pps, capacity: f64) {
        self.latencies.clear();
        let service = 1e9 / capacity;
        let utilisation = load.0 / capacity;
        let full = self.dut.queue as f64 * service;
        let mean_wait = if utilisation < 1.0 {
            (service * utilisation / (2.0 * (1.0 - utilisation))).min(full)
        } else {
            full
        };
        for _ in 0..1000 {
            let u: f64 = self.rng.random_range(f64::MIN_POSITIVE..1.0);
            let wait = if utilisation < 1.0 { (-u.ln() * mean_wait).min(full) } else { full };
            self.latencies.record(Nanos((service + wait).round() as u64));
        }
    }
}

impl Measurer for Simulation {
    type Error = std::convert::Infallible;

    /// Keeps nothing, and numbers its trials from 0.
    fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Self::Error> {
        self.trials += 1;
        Ok(KeptTrial { sequence: self.trials - 1, result: self.run(spec) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(load: f64) -> TrialSpec {
        TrialSpec { load: Pps(load), duration: Nanos(Nanos::PER_SECOND) }
    }

    #[test]
    fn below_capacity_nothing_is_lost_and_above_it_the_excess_is() {
        let mut device = SimulatedDut { queue: 0, ..SimulatedDut::default() }.start();
        assert_eq!(device.run(spec(4.9e6)).loss_ratio(), Ratio(0.0));
        assert_eq!(device.run(spec(10e6)).loss_ratio(), Ratio(0.5));
    }

    #[test]
    fn the_same_seed_gives_the_same_trials() {
        let dut = SimulatedDut { noise: Ratio(0.02), disturbed: Ratio(0.2), ..SimulatedDut::default() };
        let run = || {
            let mut device = dut.start();
            (0..20).map(|n| device.run(spec(4.5e6 + 1e5 * f64::from(n)))).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_disturbance_costs_what_the_queue_cannot_hold() {
        let dut = SimulatedDut { disturbed: Ratio(1.0), queue: 100, ..SimulatedDut::default() };
        let lost = dut.start().run(spec(1e6)).total().lost();
        assert_eq!(lost, 5_000 - 100);
    }

    #[test]
    fn latency_rises_with_load() {
        let mut device = SimulatedDut::default().start();
        let median = |result: TrialResult| result.latency.unwrap().percentiles[0];
        assert!(median(device.run(spec(4.9e6))) > median(device.run(spec(1e6))));
    }
}
