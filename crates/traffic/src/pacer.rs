//! When each packet is due.
//!
//! A pacer answers one question per pass of the tester's loop: how many packets are due now? The
//! schedule is fixed by the load, the shape and the seed before the trial starts. It counts ticks from the
//! trial's start, in integers with a fraction of 64 bits: a clock in floating point would lose 0.7 % of
//! 14.88 Mpps on a machine that has been up for 80 days.
//!
//! A tester that lags catches up within a bound that its caller states. Slots older than that are given
//! up and counted as unsent, because sending them in one lump would measure the lump.

use crate::windows::SentWindows;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use weir_cpu::Tsc;
use weir_units::{Nanos, Pps};

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

impl Shape {
    /// How far chance may take the number of packets from this one, five times in ten million; nothing where
    /// a capture decides how many there are.
    pub(crate) fn apart(self, packets: f64) -> Option<u64> {
        match self {
            Self::Constant | Self::Bursts(_) => Some(0),
            Self::Poisson => Some((5.0 * packets.sqrt()).ceil() as u64),
            Self::Recorded => None,
        }
    }
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

/// One tick, in the fixed point of the schedule.
const TICK: u32 = 64;

/// The longest interval told apart: some months.
const LONGEST: u128 = 1 << (TICK + 56);

/// The schedule of one sender in one trial. Times are ticks since the trial's start.
#[derive(Debug)]
pub(crate) struct Pacer {
    shape: Shape,
    /// Slots a tick, as a fraction of 64 bits. A slot is a packet; of [`Shape::Bursts`], a burst.
    rate: u64,
    /// Ticks between two slots, and when the next slot is due, both with a fraction of [`TICK`] bits.
    interval: u128,
    next: u128,
    /// Mean ticks between packets, for [`Shape::Poisson`].
    mean: f64,
    /// Ticks per nanosecond, for recorded gaps.
    ticks_per_nano: f64,
    /// Packets of the current burst still to come, for [`Shape::Bursts`].
    rest_of_burst: u64,
    /// Packets still to come; no bound where chance or a capture decides how many there are.
    left: u64,
    rng: ChaCha8Rng,
}

/// Packets that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) count: usize,
    /// When the first of them was due.
    pub(crate) first: u64,
    /// Ticks from one to the next.
    pub(crate) apart: u64,
}

/// What a sender is to offer in a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) shape: Shape,
    pub(crate) load: Pps,
    pub(crate) duration: Nanos,
    /// Where the first packet stands between two slots: 0 at the trial's very start.
    pub(crate) phase: f64,
    pub(crate) seed: u64,
}

impl Schedule {
    /// Packets in all, from load and duration alone; nothing where chance or a capture decides.
    pub(crate) fn packets(&self) -> Option<u64> {
        match self.shape {
            Shape::Constant | Shape::Bursts(_) => {
                Some((self.load.0 * self.duration.seconds()).round() as u64)
            }
            Shape::Poisson | Shape::Recorded => None,
        }
    }
}

impl Pacer {
    pub(crate) fn new(schedule: Schedule, tsc: Tsc) -> Self {
        let Schedule { shape, load, phase, seed, .. } = schedule;
        let mean = if load.0 > 0.0 { tsc.hz() / load.0 } else { f64::INFINITY };
        let of_slot = match shape {
            Shape::Bursts(size) => mean * f64::from(size.max(1)),
            _ => mean,
        };
        let fraction = 2.0_f64.powi(TICK as i32);
        Self {
            shape,
            rate: (fraction / of_slot) as u64,
            interval: ((of_slot * fraction) as u128).min(LONGEST),
            next: if phase > 0.0 { (of_slot * phase * fraction) as u128 } else { 0 },
            mean,
            ticks_per_nano: tsc.hz() / 1e9,
            rest_of_burst: 0,
            left: schedule.packets().unwrap_or(u64::MAX),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Packets due at `now`, at most `most`; the caller offers exactly that many.
    #[inline]
    pub(crate) fn due(&mut self, now: u64, most: usize) -> Due {
        let first = self.first();
        if now < first && self.rest_of_burst == 0 || self.left == 0 {
            return Due::default();
        }
        let most = self.left.min(most as u64);
        let (count, apart) = match self.shape {
            Shape::Constant => {
                let count = self.slots_before(now + 1).min(most);
                self.pass(count);
                (count, (self.interval >> TICK) as u64)
            }
            Shape::Poisson => {
                let mut count = 0;
                while count < most && self.first() <= now {
                    count += 1;
                    self.next += self.exponential();
                }
                (count, 0)
            }
            Shape::Bursts(size) => {
                if self.rest_of_burst == 0 {
                    self.rest_of_burst = u64::from(size.max(1));
                    self.pass(1);
                }
                let count = self.rest_of_burst.min(most);
                self.rest_of_burst -= count;
                (count, 0)
            }
            // One at a time: the gap to the next is known only when the packet is read.
            Shape::Recorded => (most.min(1), 0),
        };
        if self.left != u64::MAX {
            self.left -= count;
        }
        Due { count: count as usize, first, apart }
    }

    /// After a recorded packet: the gap that precedes the next one.
    #[inline]
    pub(crate) fn wait(&mut self, gap: Nanos) {
        self.next += ((gap.0 as f64 * self.ticks_per_nano * 2.0_f64.powi(32)) as u128) << (TICK - 32);
    }

    /// When the next packet is due, rounded up to a whole tick.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        (self.next >> TICK) as u64 + u64::from(self.next as u64 != 0)
    }

    /// Gives up the packets that were due before a moment, window by window. Returns how many. Of a
    /// burst that has begun the rest is still to come, and recorded packets are given up one by one by
    /// whoever reads them.
    #[inline]
    pub(crate) fn give_up(&mut self, before: u64, windows: &mut SentWindows) -> u64 {
        if self.first() >= before || self.shape == Shape::Recorded { 0 } else { self.skip(before, windows) }
    }

    #[cold]
    fn skip(&mut self, before: u64, windows: &mut SentWindows) -> u64 {
        let mut given_up = 0;
        while self.first() < before && self.left > 0 {
            let at = self.first();
            let packets = match self.shape {
                Shape::Poisson | Shape::Recorded => {
                    self.next += self.exponential();
                    1
                }
                Shape::Constant | Shape::Bursts(_) => {
                    let size = if let Shape::Bursts(size) = self.shape { u64::from(size.max(1)) } else { 1 };
                    let slots =
                        self.slots_before(before.min(windows.end_of(at))).clamp(1, self.left.div_ceil(size));
                    self.pass(slots);
                    (slots * size).min(self.left)
                }
            };
            if self.left != u64::MAX {
                self.left -= packets;
            }
            windows.unsent(at, packets);
            given_up += packets;
        }
        given_up
    }

    /// Gives up all that is left of a trial of this length.
    pub(crate) fn end(&mut self, length: u64, windows: &mut SentWindows) -> u64 {
        let mut given_up = std::mem::take(&mut self.rest_of_burst).min(self.left);
        windows.unsent(length.saturating_sub(1), given_up);
        if self.left != u64::MAX {
            self.left -= given_up;
        }
        given_up += self.give_up(length, windows);
        // Rounded to whole packets, the last may fall on the very end.
        if self.left != u64::MAX && self.left > 0 {
            windows.unsent(length.saturating_sub(1), self.left);
            given_up += std::mem::take(&mut self.left);
        }
        given_up
    }

    /// Slots due before a moment that lies behind the next one.
    #[inline]
    fn slots_before(&self, moment: u64) -> u64 {
        let since = (u128::from(moment - 1) << TICK).saturating_sub(self.next) >> TICK;
        ((since * u128::from(self.rate)) >> TICK) as u64 + 1
    }

    #[inline]
    fn pass(&mut self, slots: u64) {
        // Far from any overflow: an interval is at most 2^56 ticks, and slots are as many as passed by.
        self.next = self.next.saturating_add(self.interval.wrapping_mul(u128::from(slots)));
    }

    fn exponential(&mut self) -> u128 {
        let u: f64 = self.rng.random_range(f64::MIN_POSITIVE..1.0);
        (((-u.ln() * self.mean * 2.0_f64.powi(32)) as u128) << (TICK - 32)).min(LONGEST)
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
