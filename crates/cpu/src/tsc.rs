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

/// When the measurement of the frequency began.
static BEGIN: OnceLock<(Ticks, Instant)> = OnceLock::new();

/// A reading of the TSC, in its own cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Reads the counter: about 20 cycles, no system call.
    #[inline]
    pub fn now() -> Self {
        // SAFETY: every x86-64 CPU has the instruction.
        Self(unsafe { core::arch::x86_64::_rdtsc() })
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
    /// machine of 2.6 GHz: so much every load and every delay would be off.
    pub fn get() -> Self {
        static HZ: OnceLock<f64> = OnceLock::new();
        let hz = *HZ.get_or_init(|| {
            let begin = *BEGIN.get_or_init(Ticks::with_clock);
            std::thread::sleep(LEAST_SPAN.saturating_sub(begin.1.elapsed()));
            let end = Ticks::with_clock();
            end.0.since(begin.0) as f64 / end.1.duration_since(begin.1).as_secs_f64()
        });
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
