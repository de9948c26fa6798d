//! The machine, as it says itself: facts that are read, never typed.
//!
//! A fact has a dotted name and a value, both text; `docs/environment.md` lists the names. What a
//! machine does not tell is left out, nothing is guessed, and no root is needed. One file here
//! reads one part of the machine.
//!
//! Cost: about 0.1 s, in which it also sees who else is at work. It runs once, before a
//! campaign, on the caller's thread.

mod busy;
pub mod core_list;
mod cpu;
mod facts;
mod frequency;
mod kernel;
mod memory;
mod nic;
mod software;
mod source;
mod virtualisation;

pub use busy::{Neighbour, neighbours};
pub use memory::free_huge_pages;
pub use source::Source;
pub use weir_trial::environment::{Affects, Claim, Difference, affects, differences};

use std::collections::BTreeMap;
use std::time::Duration;
use weir_cpu::{RealTime, Ticks};

/// How long other processes are watched.
const SAMPLE: Duration = Duration::from_millis(100);

/// Reads the facts that stand with every run of this machine.
pub fn capture() -> BTreeMap<String, String> {
    capture_from(&Source::here())
}

/// Reads the facts of a machine, this or another.
pub fn capture_from(source: &Source) -> BTreeMap<String, String> {
    let mut facts = facts::Facts::default();
    let watch = source.is_here().then(|| busy::Watch::begin(source));
    let (ticks, clock) = Ticks::with_clock();
    cpu::read(source, &mut facts);
    frequency::read(source, &mut facts);
    memory::read(source, &mut facts);
    kernel::read(source, &mut facts);
    virtualisation::read(source, &mut facts);
    nic::read(source, &mut facts);
    software::read(source, &mut facts);
    busy::read(source, watch, SAMPLE, &mut facts);
    if source.is_here() {
        let real_time = match RealTime::raise(&[]) {
            Ok(_) => "allowed".to_owned(),
            Err(error) => format!("refused: {error}"),
        };
        facts.put("kernel.real-time", Some(real_time));
        // The wait for the sample is long enough to see the counter's rate to a few ppm.
        let (ticks_now, clock_now) = Ticks::with_clock();
        let hertz = ticks_now.since(ticks) as f64 / clock_now.duration_since(clock).as_secs_f64();
        facts.put("clock.tsc-frequency", Some(format!("{:.2} GHz", hertz / 1e9)));
    }
    facts.into_map()
}

/// Ticks that a hypervisor took from all cores of this machine since boot, and all ticks.
pub fn steal_ticks() -> Option<(u64, u64)> {
    virtualisation::steal_ticks(&Source::here())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use weir_trial::health::ThreadReading;
    use weir_units::Nanos;

    #[test]
    fn this_machine_tells_sane_facts_in_less_than_a_third_of_a_second_of_work() {
        let (began, before) = (Instant::now(), ThreadReading::of_self().unwrap());
        let facts = capture();
        let (elapsed, did) = (began.elapsed(), ThreadReading::of_self().unwrap().since(before));
        assert!(did.ran < Nanos(333_000_000), "{did:?}");
        let of_its_own = elapsed.saturating_sub(did.waited.duration());
        assert!(of_its_own < Duration::from_secs(3), "{elapsed:?}, {did:?}");
        let cores: usize = facts["cpu.cores"].parse().unwrap();
        assert!(cores >= 1);
        assert_eq!(core_list::parse(&facts["cpu.allowed"]), weir_cpu::allowed_cores());
        assert!(facts["kernel.release"].contains('.'));
        assert!(facts["dpdk.version"].starts_with("DPDK "));
        assert!(facts["build.rustc"].starts_with("rustc "));
        let gigahertz: f64 = facts["clock.tsc-frequency"].trim_end_matches(" GHz").parse().unwrap();
        assert!((0.4..10.0).contains(&gigahertz));
        for (name, value) in &facts {
            assert!(!value.trim().is_empty() && !value.contains('\n'), "{name}: {value:?}");
        }
    }

    #[test]
    fn every_fact_of_this_machine_is_classified() {
        for name in capture().keys() {
            assert_ne!(affects(name).why, "not known to this Weir", "{name}");
        }
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_facts() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(capture_from(&Source::recorded(empty.path())), BTreeMap::new());
    }
}
