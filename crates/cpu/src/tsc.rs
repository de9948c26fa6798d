//! The time stamp counter: the clock of everything that is measured per packet.
//!
//! Invariant TSCs tick at one rate on all cores of a machine and across processes, so a stamp
//! written by one process may be read by another on the same machine.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use weir_units::Nanos;

/// How often counter and clock are read together to find the closest pair.
const PAIRINGS: u32 = 8;

/// Least time over which the counter's frequency is measured.
const LEAST_SPAN: Duration = Duration::from_millis(200);

/// Least time over which it is measured to some ten-thousandths.
const BRIEFLY: Duration = Duration::from_millis(2);

/// How far a frequency that another process measured may be from what is seen here in [`BRIEFLY`].
const APART: f64 = 1e-3;

/// The variable by which a process tells its children the frequency, in hertz: they need not measure it anew.
const VARIABLE: &str = "WEIR_TSC_HZ";

/// When the measurement of the frequency began.
static BEGIN: OnceLock<(Ticks, Instant)> = OnceLock::new();

/// The frequency, in hertz, once it is known to a millionth.
static HZ: OnceLock<f64> = OnceLock::new();

/// A reading of the TSC, in its own cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Reads the counter: about 20 cycles, no system call.
    #[inline]
    #[cfg(not(miri))]
    pub fn now() -> Self {
        // SAFETY: every x86-64 CPU has the instruction.
        Self(unsafe { core::arch::x86_64::_rdtsc() })
    }

    /// The same for Miri, which does not know the instruction: a counter of 1 GHz.
    #[cfg(miri)]
    pub fn now() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        Self(START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
    }

    /// Reads the counter and the system's clock at the same instant: again, where the core was taken
    /// away between the two, for a bounded number of times.
    pub fn with_clock() -> (Self, Instant) {
        let mut best: Option<(u64, Self, Instant)> = None;
        for _ in 0..PAIRINGS {
            let before = Self::now();
            let clock = Instant::now();
            let apart = Self::now().since(before);
            if best.is_none_or(|(least, _, _)| apart < least) {
                best = Some((apart, before, clock));
            }
        }
        best.map_or_else(|| (Self::now(), Instant::now()), |(_, ticks, clock)| (ticks, clock))
    }

    /// Cycles since an earlier reading; zero if the other is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The TSC's frequency, and conversions by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tsc {
    hz: f64,
    nanos_per_tick: f64,
}

impl Tsc {
    /// The machine's TSC, measured against the system's clock since [`Self::begin`]: to about a
    /// millionth. DPDK's own measurement is rounded to 10 MHz, which is off by up to 0.2 % on a
    /// machine of 2.6 GHz: so much every load and every delay would be off. Where the process that started this one tells
    /// what it measured ([`Self::told`]), that is taken, if it agrees with what is seen here in two milliseconds.
    pub fn get() -> Self {
        Self::of(*HZ.get_or_init(|| told_here().unwrap_or_else(|| measured(LEAST_SPAN))))
    }

    /// The frequency to some ten-thousandths, without the wait that a millionth takes.
    pub fn roughly() -> Self {
        Self::of(HZ.get().copied().or_else(told_here).unwrap_or_else(|| measured(BRIEFLY)))
    }

    /// The variable, and its value, by which children of this process need not measure the frequency; nothing before it
    /// is known here.
    pub fn told() -> Option<(&'static str, String)> {
        HZ.get().map(|hz| (VARIABLE, hz.to_string()))
    }

    fn of(hz: f64) -> Self {
        Self { hz, nanos_per_tick: 1e9 / hz }
    }

    /// Notes when the measurement of the frequency begins, the first time: what calls it early (DPDK's start does) need
    /// not wait for the measurement later.
    pub fn begin() {
        BEGIN.get_or_init(Ticks::with_clock);
    }

    /// Ticks a second.
    pub fn hz(self) -> f64 {
        self.hz
    }

    /// Ticks as time.
    #[inline]
    pub fn nanos(self, ticks: u64) -> Nanos {
        Nanos((ticks as f64 * self.nanos_per_tick) as u64)
    }

    /// Time as ticks.
    pub fn ticks(self, nanos: Nanos) -> u64 {
        (nanos.0 as f64 / self.nanos_per_tick).round() as u64
    }
}

/// The frequency over the time since [`Tsc::begin`], which is so long at least.
fn measured(least: Duration) -> f64 {
    let begin = *BEGIN.get_or_init(Ticks::with_clock);
    std::thread::sleep(least.saturating_sub(begin.1.elapsed()));
    let end = Ticks::with_clock();
    end.0.since(begin.0) as f64 / end.1.duration_since(begin.1).as_secs_f64()
}

/// What the process that started this one says, where it is of this machine.
fn told_here() -> Option<f64> {
    let told = std::env::var(VARIABLE).ok()?;
    believed(&told, measured(BRIEFLY))
}

/// A frequency that somebody tells, if it is about what is seen.
fn believed(told: &str, seen: f64) -> Option<f64> {
    told.parse().ok().filter(|told: &f64| (told / seen - 1.0).abs() < APART)
}

/// The signature of the hypervisor that this runs under (CPUID leaf 0x40000000, for example
/// `KVMKVMKVM`); nothing on bare metal, where bit 31 of leaf 1's ECX is clear.
pub fn hypervisor() -> Option<String> {
    use core::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_end_matches('\0').to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_is_believed_that_is_about_what_is_seen_and_no_other() {
        assert_eq!(believed("2599998765.5", 2.6e9), Some(2_599_998_765.5));
        for wrong in ["2500000000", "2.6", "0", "-2.6e9", "NaN", "inf", "fast", ""] {
            assert_eq!(believed(wrong, 2.6e9), None, "{wrong}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri's clock is its own")]
    fn two_milliseconds_tell_the_frequency_to_a_thousandth_and_children_are_told_all_of_it() {
        // Both are of the same counter; a core that was taken away between counter and clock is measured again.
        let (roughly, exactly) = (Tsc::roughly().hz(), Tsc::get().hz());
        assert!((roughly / exactly - 1.0).abs() < APART, "{roughly} {exactly}");
        let (name, value) = Tsc::told().expect("it is known by now");
        assert_eq!((name, value.parse()), (VARIABLE, Ok(exactly)));
        assert_eq!(believed(&value, measured(BRIEFLY)), Some(exactly));
        // Also where it was told, and not measured here.
        assert!((measured(LEAST_SPAN) / exactly - 1.0).abs() < APART, "{exactly}");
    }
}
