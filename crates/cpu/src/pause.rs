//! Waiting without work: instructions that tell the CPU, and timers that wake on time.
//!
//! Why: a thread that polls in vain takes its core's power, and the execution units that it shares with
//! the core's other hardware thread. `tpause` (Intel, WAITPKG) and `mwaitx` (AMD, MONITORX) are allowed
//! to programs, and let the core rest until a time that the program names. The system still counts
//! such a core as busy; only sleeping gives it to others.
//! Cost: the core is back within about a microsecond (Intel's and AMD's optimisation manuals say less).
//! Threads: each for itself.

use crate::Ticks;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};

/// Bit of WAITPKG in ECX of CPUID leaf 7 (Intel SDM, volume 2, CPUID).
const WAITPKG: u32 = 1 << 5;

/// Bit of MONITORX in ECX of CPUID leaf 0x8000_0001 (AMD APM, volume 3, appendix E).
const MONITORX: u32 = 1 << 29;

/// An instruction by which this CPU rests for a time that a program names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerHint(Instruction);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    Tpause,
    Mwaitx,
}

/// A line that is watched and never written.
#[repr(align(64))]
struct Line([u8; 64]);

static NOBODY_WRITES: Line = Line([0; 64]);

impl PowerHint {
    /// What this CPU has; nothing where it has neither, or where a hypervisor keeps both to itself.
    pub fn of_this_cpu() -> Option<Self> {
        if cfg!(miri) {
            return None; // it follows no assembly
        }
        let (leaf7, leaf81) = (highest(0) >= 7, highest(0x8000_0000) >= 0x8000_0001);
        if leaf7 && __cpuid_count(7, 0).ecx & WAITPKG != 0 {
            Some(Self(Instruction::Tpause))
        } else if leaf81 && __cpuid(0x8000_0001).ecx & MONITORX != 0 {
            Some(Self(Instruction::Mwaitx))
        } else {
            None
        }
    }

    /// The instruction's name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instruction::Tpause => "tpause",
            Instruction::Mwaitx => "mwaitx",
        }
    }

    /// Rests for so many ticks, or less: an interrupt ends it, and so does the system's own limit.
    #[inline]
    pub fn rest(self, now: Ticks, ticks: u64) {
        match self.0 {
            // SAFETY: made by `of_this_cpu` only, so the CPU has the instruction.
            Instruction::Tpause => unsafe { tpause(now.0.saturating_add(ticks)) },
            // SAFETY: as above.
            Instruction::Mwaitx => unsafe { mwaitx(u32::try_from(ticks).unwrap_or(u32::MAX)) },
        }
    }
}

/// Rests until the counter reads so much.
///
/// # Safety
/// The CPU has the instruction: it is a fault on one that does not.
#[inline]
unsafe fn tpause(deadline: u64) {
    /// The deeper of the two states, C0.2.
    const STATE: u32 = 0;
    let (low, high) = (deadline as u32, (deadline >> 32) as u32);
    // SAFETY: reads three registers, and writes flags only.
    unsafe {
        asm!("tpause {state:e}", state = in(reg) STATE, in("eax") low, in("edx") high, options(nostack))
    };
}

/// Rests until [`NOBODY_WRITES`] is written or so many ticks went by.
///
/// # Safety
/// The CPU has the instructions: they are faults on one that does not.
#[inline]
unsafe fn mwaitx(ticks: u32) {
    /// The limit in EBX counts.
    const WITH_LIMIT: u32 = 2;
    let line = NOBODY_WRITES.0.as_ptr();
    // SAFETY: names a line to be watched, which is static; then reads registers, and gives back the one that
    // the compiler keeps for itself.
    unsafe {
        asm!("monitorx", in("rax") line, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags));
        asm!(
            "xchg rbx, {limit}",
            "mwaitx",
            "mov rbx, {limit}",
            limit = inout(reg) u64::from(ticks) => _,
            in("eax") 0, // state C1
            in("ecx") WITH_LIMIT,
            options(nostack, preserves_flags),
        );
    }
}

fn highest(of: u32) -> u32 {
    __cpuid(of).eax
}

/// Has this thread's sleeps end on time: without, the kernel may add up to 50 µs to each so that it
/// wakes less often. A refusal is none of the caller's concern: sleeps are late then, as they were.
pub fn fine_timers() {
    if cfg!(miri) {
        return;
    }
    // SAFETY: sets a number of this thread; no memory is touched.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_ends_where_the_cpu_has_one_and_is_not_offered_where_it_has_none() {
        let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let has = |flag: &str| features.split_whitespace().any(|word| word == flag);
        let hint = PowerHint::of_this_cpu();
        assert!(hint.is_some() || !has("waitpkg"), "the kernel names waitpkg");
        if let Some(hint) = hint {
            hint.rest(Ticks::now(), 1000);
            assert!(["tpause", "mwaitx"].contains(&hint.name()));
        }
        fine_timers();
    }
}
