//! When each packet is due.
//!
//! A pacer answers one question per pass of the tester's loop: how many packets are due now? The
//! schedule is fixed by the load, the shape and the seed before the trial starts. A tester that lags catches up over [`CATCH_UP`]; slots older than that are
//! given up and counted as unsent, because sending them in one lump would measure the lump.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use weir_dpdk::{Ticks, Tsc};
use weir_units::{Nanos, Pps};

/// How far behind its schedule the tester may fall and still send what it missed.
pub const CATCH_UP: Nanos = Nanos(1_000_000);

/// How packets are spread over time at a given mean rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Equal gaps.
    #[default]
    Constant,
    /// Independent, exponentially distributed gaps.
    Poisson,
    /// Bursts of this many packets back to back, equal gaps between the bursts.
    Bursts(u32),
    /// The gaps recorded in a capture; the load is the capture's own.
    Recorded,
}

/// A text that names no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no shape of traffic; write constant, poisson, bursts:N (N packets back to back) or recorded"
)]
pub struct ParseShapeError(String);

impl FromStr for Shape {
    type Err = ParseShapeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseShapeError(text.to_owned());
        match text {
            "constant" => Ok(Self::Constant),
            "poisson" => Ok(Self::Poisson),
            "recorded" => Ok(Self::Recorded),
            other => {
                let packets = other.strip_prefix("bursts:").and_then(|number| number.parse().ok());
                packets.filter(|packets| *packets > 0).map(Self::Bursts).ok_or_else(error)
            }
        }
    }
}

/// The schedule of one direction of one trial.
#[derive(Debug)]
pub(crate) struct Pacer {
    shape: Shape,
    /// Mean ticks between packets.
    interval: f64,
    /// Ticks per nanosecond, for recorded gaps.
    ticks_per_nano: f64,
    /// When the next packet (or burst) is due, in ticks.
    next: f64,
    /// Packets of the current burst still to come, for [`Shape::Bursts`].
    rest_of_burst: u32,
    catch_up: f64,
    rng: ChaCha8Rng,
    given_up: u64,
}

impl Pacer {
    pub(crate) fn new(shape: Shape, load: Pps, start: Ticks, tsc: Tsc, seed: u64) -> Self {
        Self {
            shape,
            interval: if load.0 > 0.0 { tsc.hz() / load.0 } else { f64::INFINITY },
            ticks_per_nano: tsc.hz() / 1e9,
            next: start.0 as f64,
            rest_of_burst: 0,
            catch_up: tsc.ticks(CATCH_UP) as f64,
            rng: ChaCha8Rng::seed_from_u64(seed),
            given_up: 0,
        }
    }

    /// Packets due at `now`, at most `most`; the caller offers exactly that many.
    #[inline]
    pub(crate) fn due(&mut self, now: Ticks, most: usize) -> usize {
        let now = now.0 as f64;
        if now < self.next && self.rest_of_burst == 0 {
            return 0;
        }
        self.give_up_before(now - self.catch_up);
        match self.shape {
            Shape::Constant => {
                let due = (((now - self.next) / self.interval) as usize + 1).min(most);
                self.next += due as f64 * self.interval;
                due
            }
            Shape::Poisson => {
                let mut due = 0;
                while due < most && self.next <= now {
                    due += 1;
                    self.next += self.exponential();
                }
                due
            }
            Shape::Bursts(size) => {
                if self.rest_of_burst == 0 {
                    self.rest_of_burst = size.max(1);
                    self.next += f64::from(size.max(1)) * self.interval;
                }
                let due = (self.rest_of_burst as usize).min(most);
                self.rest_of_burst -= due as u32;
                due
            }
            // One at a time: the gap to the next is known only when the packet is read.
            Shape::Recorded => 1.min(most),
        }
    }

    /// After a recorded packet: the gap that precedes the next one.
    #[inline]
    pub(crate) fn wait(&mut self, gap: Nanos) {
        self.next += gap.0 as f64 * self.ticks_per_nano;
    }

    /// Moves everything that is still to come by so many ticks.
    pub(crate) fn pause(&mut self, ticks: u64) {
        self.next += ticks as f64;
    }

    /// Slots that were given up so far.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    fn give_up_before(&mut self, horizon: f64) {
        if self.next >= horizon || self.shape == Shape::Recorded {
            return;
        }
        let slots = ((horizon - self.next) / self.interval) as u64;
        self.given_up += slots;
        self.next += slots as f64 * self.interval;
    }

    fn exponential(&mut self) -> f64 {
        let u: f64 = self.rng.random_range(f64::MIN_POSITIVE..1.0);
        -u.ln() * self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dpdk::{Eal, EalConfig, Memory};

    fn tsc() -> Tsc {
        let config = EalConfig { memory: Memory::Normal, megabytes: 64, pci: false };
        Tsc::get(Eal::init(config).expect("EAL starts anywhere"))
    }

    /// Polls a pacer every `step` for a second and returns what was due at each poll.
    fn poll(shape: Shape, load: Pps, step: Nanos) -> (Vec<usize>, u64) {
        let tsc = tsc();
        let start = Ticks(1_000_000);
        let mut pacer = Pacer::new(shape, load, start, tsc, 7);
        let polls = Nanos::PER_SECOND / step.0;
        let dues = (0..polls)
            .map(|poll| {
                let now = Ticks(start.0 + tsc.ticks(Nanos(poll * step.0)));
                let mut due = 0;
                loop {
                    match pacer.due(now, 32) {
                        0 => break due,
                        more => due += more,
                    }
                }
            })
            .collect();
        (dues, pacer.given_up())
    }

    #[test]
    fn shapes_are_read_by_name_and_nonsense_is_refused_with_the_choices() {
        for (text, shape) in [
            ("constant", Shape::Constant),
            ("poisson", Shape::Poisson),
            ("bursts:256", Shape::Bursts(256)),
            ("recorded", Shape::Recorded),
        ] {
            assert_eq!(text.parse(), Ok(shape));
        }
        for text in ["bursts", "bursts:0", "bursts:x", "square", ""] {
            assert!(text.parse::<Shape>().unwrap_err().to_string().contains("bursts:N"));
        }
    }

    #[test]
    fn a_constant_load_is_due_evenly_and_in_full() {
        let (dues, given_up) = poll(Shape::Constant, Pps(1e6), Nanos(10_000));
        let total: usize = dues.iter().sum();
        assert!((999_980..=1_000_000).contains(&total), "{total}");
        assert!(dues[1..].iter().all(|due| (9..=11).contains(due)), "ten packets every ten microseconds");
        assert_eq!(given_up, 0);
    }

    #[test]
    fn a_poisson_load_has_the_mean_and_the_variance_of_poisson() {
        let (dues, _) = poll(Shape::Poisson, Pps(1e6), Nanos(10_000));
        let count = dues.len() as f64;
        let mean = dues.iter().sum::<usize>() as f64 / count;
        let variance = dues.iter().map(|due| (*due as f64 - mean).powi(2)).sum::<f64>() / count;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!((variance - 10.0).abs() < 0.5, "{variance}");
    }

    #[test]
    fn bursts_come_whole_and_keep_the_mean_rate() {
        let (dues, _) = poll(Shape::Bursts(100), Pps(1e6), Nanos(10_000));
        assert!(dues.iter().all(|due| due % 100 == 0));
        let total: usize = dues.iter().sum();
        assert!((999_900..=1_000_100).contains(&total), "{total}");
    }

    #[test]
    fn slots_beyond_the_catch_up_time_are_given_up_and_counted() {
        let tsc = tsc();
        let mut pacer = Pacer::new(Shape::Constant, Pps(1e6), Ticks(0), tsc, 1);
        let late = Ticks(tsc.ticks(Nanos(5_000_000)));
        let mut due = 0;
        while let more @ 1.. = pacer.due(late, 32) {
            due += more;
        }
        let total = due as u64 + pacer.given_up();
        assert!((5_000..=5_001).contains(&total), "{total}");
        assert!((1_000..=1_002).contains(&due), "{due}");
    }
}
