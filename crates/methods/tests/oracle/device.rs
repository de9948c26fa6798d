//! The oracle's device under test: whole-number arithmetic, the same as in `device.py`.

use serde::Serialize;
use std::convert::Infallible;
use weir_trial::run::Purpose;
use weir_trial::{DirectionCounts, KeptTrial, Measurer, TrialResult, TrialSpec};
use weir_units::Nanos;

/// Times are given in 64ths of a second: such times and their sums are exact in binary.
pub(crate) const TICK: Nanos = Nanos(Nanos::PER_SECOND / 64);

const MILLION: u64 = 1_000_000;
const BILLION: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Device {
    pub(crate) capacity: u64,
    pub(crate) queue: u64,
    pub(crate) loss_ppb: u64,
    pub(crate) noise_ppm: u64,
    pub(crate) disturbed_permille: u64,
    pub(crate) overhead_ticks: u64,
    pub(crate) seed: u64,
}

/// SplitMix64: one well-mixed 64-bit number from another.
pub(crate) fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Device {
    /// Counts (intended, lost) of the trial of that number, from 0.
    pub(crate) fn trial(&self, number: u64, load: f64, seconds: f64) -> (u64, u64) {
        let chance = scramble(self.seed ^ (number << 32));
        let (first, second) = (chance & 0xFFFF_FFFF, chance >> 32);
        let swing = (first % MILLION + second % MILLION) as i64 - (MILLION as i64 - 1);
        let shift = (self.noise_ppm as i64 * swing).div_euclid(MILLION as i64);
        let share = (MILLION as i64 + shift) as u64;
        let capacity = (self.capacity * share / MILLION).max(1);
        let intended = (load * seconds) as u64;
        let forwarded = intended.min((capacity as f64 * seconds) as u64 + self.queue);
        let background = u128::from(forwarded) * u128::from(self.loss_ppb) / BILLION;
        let mut received = forwarded - background as u64;
        if scramble(chance) % 1000 < self.disturbed_permille {
            received -= received / 20;
        }
        (intended, intended - received)
    }
}

/// The device with its trials counted.
pub(crate) struct Running {
    device: Device,
    pub(crate) trials: u64,
}

impl Running {
    pub(crate) fn new(device: Device) -> Self {
        Self { device, trials: 0 }
    }
}

impl Measurer for Running {
    type Error = Infallible;

    fn measure(&mut self, _: Purpose, spec: TrialSpec) -> Result<KeptTrial, Infallible> {
        let (intended, lost) = self.device.trial(self.trials, spec.load.0, spec.duration.seconds());
        self.trials += 1;
        let counts = DirectionCounts {
            intended,
            sent: intended,
            received: intended - lost,
            ..DirectionCounts::default()
        };
        let overhead = Nanos(TICK.0 * self.device.overhead_ticks);
        let result = TrialResult { overhead, directions: vec![counts], ..TrialResult::new(spec) };
        Ok(KeptTrial { sequence: self.trials as u32 - 1, result })
    }
}
