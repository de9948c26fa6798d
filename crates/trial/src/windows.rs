//! A trial judged in windows of a fraction of a millisecond, by the send stamps of its packets.
//!
//! A machine that takes a core from the tester or from the DUT spoils some milliseconds of a trial, not
//! all of it. An [`Absence`] is a time in which one side is *proved* not to have run. The windows that it
//! touches are left out, with a margin for what it does to packets already on their way and to the queue
//! that it leaves behind; the rest of the trial counts.
//!
//! The first moments of a longer trial are left out as well ([`warm_up`]).
//!
//! Which windows are left out depends on the absences, the duration and the load alone, never on what was lost. So
//! the loss of a device that loses by itself is estimated without bias, and packets lost outside the
//! windows left out always count. The raw counts stay in [`crate::TrialResult::directions`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Nanos;

/// Time left out at the beginning of a trial of this length: 2 ms from 50 ms on. Caches and buffers are cold after the rest
/// before a trial, and packets cost the tester three times as much for some tenths of a millisecond: more than a share
/// of a short trial that a goal without loss forgives. Of RFC 2544's 60 s it is a thirty-thousandth.
pub fn warm_up(duration: Nanos) -> Nanos {
    if duration.0 < 50_000_000 { Nanos(0) } else { Nanos(2_000_000) }
}

/// A side of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The tester's threads.
    Tester,
    /// The DUT's forwarding threads.
    Dut,
}

/// A time in which a side is proved not to have run, in ticks of the time stamp counter. It may reach
/// beyond the trial at either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The side.
    pub side: Side,
    /// First tick.
    pub from: u64,
    /// The tick at which it ran again.
    pub to: u64,
}

/// Packets of one direction whose send stamps fall into one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Packets the port took.
    pub sent: u32,
    /// Packets the port did not take.
    pub refused: u32,
    /// Packets due in the window that the tester did not offer.
    pub unsent: u32,
    /// Packets offered longer after they were due than [`crate::verdict::limits::late_sent`] allows.
    pub late: u32,
    /// Of the sent, those that came back.
    pub received: u32,
    /// Sum of the delays of the received, in ticks.
    pub delay: u64,
}

impl Window {
    /// Packets due, as far as can be told: offered or missed.
    pub fn intended(&self) -> u64 {
        u64::from(self.sent) + u64::from(self.refused) + u64::from(self.unsent)
    }

    /// Packets due that did not come back.
    pub fn lost(&self) -> u64 {
        self.intended().saturating_sub(u64::from(self.received))
    }
}

/// All windows of a trial, before any is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowLog {
    /// When the trial began, in ticks.
    pub start: u64,
    /// Its length, in ticks.
    pub length: u64,
    /// A window is 2 to the power of this many ticks long.
    pub shift: u32,
    /// Ticks left out at its beginning.
    pub warm_up: u64,
    /// Ticks left out on both sides of an absence, at most: what waits after an absence came meanwhile, so
    /// that twice its own length is enough of a short one.
    pub margin: u64,
    /// Length of a tick, in nanoseconds.
    pub nanos_per_tick: f64,
    /// The windows of each direction, in order of time.
    pub directions: Vec<Vec<Window>>,
}

/// Counts of one direction over the windows that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowCounts {
    /// Packets the port took.
    pub sent: u64,
    /// Packets the port did not take.
    pub refused: u64,
    /// Packets the tester did not offer.
    pub unsent: u64,
    /// Packets offered longer after they were due than [`crate::verdict::limits::late_sent`] allows; nothing in
    /// trials of versions that did not count them by window.
    #[serde(default)]
    pub late: Option<u64>,
    /// Of the sent, those that came back.
    pub received: u64,
}

/// What is proved about one side's absences during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Absences {
    /// How many.
    pub count: u32,
    /// Their sum, within the trial.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// A trial's windows after those were left out that an absence spoilt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// Length of a window.
    pub length: Nanos,
    /// Windows in the trial.
    pub count: u32,
    /// Windows left out.
    pub left_out: u32,
    /// Time left out at the trial's beginning, for caches to warm up; zero in trials of versions that left none out.
    #[serde(default)]
    pub warm_up: Nanos,
    /// Time left out on both sides of an absence, at most.
    pub margin: Nanos,
    /// Time of the windows kept.
    pub kept: Nanos,
    /// Of the windows kept, those in which a packet was lost.
    pub lossy: u32,
    /// The greatest mean delay of a window kept; nothing where no packet came.
    pub worst_delay: Option<Nanos>,
    /// The tester's absences.
    pub tester: Absences,
    /// The DUT's.
    pub dut: Absences,
    /// Counts over the windows kept, one a direction.
    pub counts: Vec<WindowCounts>,
}

impl Windows {
    /// What is proved about a side.
    pub fn absences(&self, side: Side) -> Absences {
        match side {
            Side::Tester => self.tester,
            Side::Dut => self.dut,
        }
    }

    /// Sum over the directions.
    pub fn total(&self) -> WindowCounts {
        self.counts.iter().fold(WindowCounts::default(), |sum, one| WindowCounts {
            sent: sum.sent + one.sent,
            refused: sum.refused + one.refused,
            unsent: sum.unsent + one.unsent,
            late: sum.late.into_iter().chain(one.late).reduce(|sum, one| sum + one),
            received: sum.received + one.received,
        })
    }
}

impl WindowCounts {
    /// Packets due.
    pub fn intended(&self) -> u64 {
        self.sent + self.refused + self.unsent
    }

    /// Packets due that did not come back.
    pub fn lost(&self) -> u64 {
        self.intended().saturating_sub(self.received)
    }
}

impl WindowLog {
    /// Leaves out the windows that these absences touch, and sums up the others.
    pub fn leave_out(&self, absences: &[Absence]) -> Windows {
        let count = self.length.div_ceil(1 << self.shift).max(1) as usize;
        let mut spoilt = vec![false; count];
        let mut windows = Windows {
            length: self.nanos(1 << self.shift),
            warm_up: self.nanos(self.warm_up),
            count: count as u32,
            margin: self.nanos(self.margin),
            counts: vec![WindowCounts::default(); self.directions.len()],
            ..Windows::default()
        };
        spoilt
            .iter_mut()
            .take(self.warm_up.div_ceil(1 << self.shift) as usize)
            .for_each(|window| *window = true);
        for absence in absences {
            // Ticks of the trial, as far as the margin reaches.
            let margin = self.margin.min(absence.to.saturating_sub(absence.from).saturating_mul(2));
            let from = absence.from.saturating_sub(margin).saturating_sub(self.start);
            let Some(to) = absence.to.saturating_add(margin).checked_sub(self.start) else { continue };
            let first = (from >> self.shift) as usize;
            for window in spoilt.iter_mut().take((to >> self.shift).saturating_add(1) as usize).skip(first) {
                *window = true;
            }
            self.note(absence, &mut windows);
        }
        for (place, _) in spoilt.iter().enumerate().filter(|(_, spoilt)| !**spoilt) {
            self.keep(place, count, &mut windows);
        }
        windows.left_out = spoilt.iter().filter(|spoilt| **spoilt).count() as u32;
        windows
    }

    /// Adds the part of an absence that lies within the trial to its side's account.
    fn note(&self, absence: &Absence, windows: &mut Windows) {
        let from = absence.from.max(self.start);
        let within = absence.to.min(self.start + self.length).saturating_sub(from);
        if within == 0 {
            return;
        }
        let lasted = self.nanos(within);
        let side = match absence.side {
            Side::Tester => &mut windows.tester,
            Side::Dut => &mut windows.dut,
        };
        side.count += 1;
        side.total.0 += lasted.0;
        side.longest = side.longest.max(lasted);
    }

    /// Adds a window that counts. What was sent behind the last window's end belongs to it.
    fn keep(&self, place: usize, count: usize, windows: &mut Windows) {
        let begin = (place as u64) << self.shift;
        windows.kept.0 += self.nanos((self.length.saturating_sub(begin)).min(1 << self.shift)).0;
        let mut is_lossy = false;
        for (counts, direction) in windows.counts.iter_mut().zip(&self.directions) {
            let end = if place + 1 == count { direction.len() } else { place + 1 };
            for window in direction.get(place..end).unwrap_or_default() {
                counts.sent += u64::from(window.sent);
                counts.refused += u64::from(window.refused);
                counts.unsent += u64::from(window.unsent);
                counts.late = Some(counts.late.unwrap_or(0) + u64::from(window.late));
                counts.received += u64::from(window.received);
                is_lossy |= window.lost() > 0;
                if let Some(mean) = window.delay.checked_div(u64::from(window.received)) {
                    windows.worst_delay = windows.worst_delay.max(Some(self.nanos(mean)));
                }
            }
        }
        windows.lossy += u32::from(is_lossy);
    }

    fn nanos(&self, ticks: u64) -> Nanos {
        Nanos((ticks as f64 * self.nanos_per_tick).round() as u64)
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
