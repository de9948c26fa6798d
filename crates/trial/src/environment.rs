//! What differs between the environments of two runs, and which claims each difference can explain.
//!
//! Pure. The facts themselves are read by `weir-campaign`; `docs/environment.md` lists them.

use Claim::{Cycles, LatencyTail, Throughput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What people conclude from numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Throughput: NDR, PDR, MRR.
    Throughput,
    /// The tail of the latency: p99 and beyond.
    LatencyTail,
    /// Cycles per packet.
    Cycles,
    /// That two runs on this machine may be compared.
    Repeatability,
    /// That figures from this machine may stand beside those of another.
    Portability,
}

impl Claim {
    /// Every claim.
    pub const ALL: [Self; 5] =
        [Self::Throughput, Self::LatencyTail, Self::Cycles, Self::Repeatability, Self::Portability];

    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::LatencyTail => "latency tail",
            Self::Cycles => "cycles per packet",
            Self::Repeatability => "comparison between runs",
            Self::Portability => "comparison with other machines",
        }
    }
}

/// A fact that differs; nothing stands for a fact that one side does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Name of the fact.
    pub key: String,
    /// Its value in the first environment.
    pub a: Option<String>,
    /// Its value in the second.
    pub b: Option<String>,
}

/// What a fact has a hand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affects {
    /// Claims that a difference can explain; none for facts of the moment and mere names.
    pub claims: &'static [Claim],
    /// Why, in a few words.
    pub why: &'static str,
}

/// Facts that differ, by name.
pub fn differences(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    differ
        .map(|name| Difference { key: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() })
        .collect()
}

const ALL_THREE: &[Claim] = &[Throughput, LatencyTail, Cycles];
const RATE: &[Claim] = &[Throughput, Cycles];
const RATE_AND_TAIL: &[Claim] = &[Throughput, LatencyTail];
const TAIL: &[Claim] = &[LatencyTail];
const NONE: &[Claim] = &[];

/// Beginnings of names; the first that fits decides, so the special stand before the general.
const AFFECTS: &[(&str, &[Claim], &str)] = &[
    ("cpu.frequency-now", NONE, "of the moment"),
    ("cpu.frequency", ALL_THREE, "cores run at another frequency"),
    ("cpu.governor", ALL_THREE, "cores reach another frequency, or later"),
    ("cpu.turbo", ALL_THREE, "turbo changes the frequency with heat and load"),
    ("cpu.idle", TAIL, "cores that sleep wake later"),
    ("cpu.isolated", RATE_AND_TAIL, "other programs may or may not run on the cores"),
    ("cpu.nohz-full", TAIL, "the timer tick interrupts or does not"),
    ("cpu.rcu-nocbs", TAIL, "the kernel does its deferred work on other cores"),
    ("cpu.irq-affinity", TAIL, "interrupts go to other cores"),
    ("cpu.allowed", RATE_AND_TAIL, "other cores are used"),
    ("cpu.mitigation", RATE, "mitigations cost cycles, most in system calls"),
    ("cpu.microcode", RATE, "microcode changes instructions' cost"),
    ("cpu.", ALL_THREE, "another CPU"),
    ("clock.tsc-frequency", &[Cycles], "cycles are counted in ticks of the TSC"),
    ("clock.", TAIL, "time is read in another way"),
    ("memory.available", NONE, "of the moment"),
    ("memory.swap-used", NONE, "of the moment"),
    ("memory.huge-page", RATE, "address translation costs more in small pages"),
    ("memory.transparent-huge-pages", RATE_AND_TAIL, "the kernel merges pages behind the program's back"),
    ("memory.numa-balancing", TAIL, "the kernel moves pages between nodes"),
    ("memory.", NONE, "size alone changes no rate"),
    ("numa.", RATE_AND_TAIL, "memory is nearer or farther"),
    ("virtual.steal", NONE, "of the moment"),
    ("virtual.", ALL_THREE, "somebody else shares the hardware, or in another way"),
    ("kernel.", RATE_AND_TAIL, "another kernel, or another setting of it"),
    ("os.", RATE, "other compilers and libraries"),
    ("machine.", ALL_THREE, "another machine"),
    ("services.", TAIL, "services move interrupts, frequencies or memory"),
    ("load.", NONE, "of the moment"),
    ("nic.", RATE_AND_TAIL, "another card, firmware, driver or link"),
    ("iommu.", RATE, "cards reach memory through a translation"),
    ("dpdk.", ALL_THREE, "another DPDK below the tester and `nf`"),
    ("build.", ALL_THREE, "the tester and `nf` are other machine code"),
    ("weir.", ALL_THREE, "another Weir measured, and another `nf` was measured"),
    ("package.", ALL_THREE, "another version of a device under test"),
    ("user.", NONE, "privileges decide what runs, not how fast"),
    ("plan.", NONE, "a name"),
];

/// What a difference in a fact can explain. A fact that is not known here may explain anything.
pub fn affects(key: &str) -> Affects {
    if key.ends_with(".free") {
        return Affects { claims: NONE, why: "of the moment; each point says whether it used huge pages" };
    }
    match AFFECTS.iter().find(|(beginning, _, _)| key.starts_with(beginning)) {
        Some((_, claims, why)) => Affects { claims, why },
        None => Affects { claims: ALL_THREE, why: "not known to this Weir" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn facts_of_one_side_and_facts_that_differ_are_told_in_order() {
        let a = facts(&[("cpu.model", "X"), ("kernel.release", "6.1"), ("only.a", "1")]);
        let b = facts(&[("cpu.model", "X"), ("kernel.release", "6.2"), ("cpu.turbo", "on")]);
        let found: Vec<_> = differences(&a, &b).into_iter().map(|d| (d.key, d.a, d.b)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("cpu.turbo".to_owned(), None, some("on")),
                ("kernel.release".to_owned(), some("6.1"), some("6.2")),
                ("only.a".to_owned(), some("1"), None),
            ]
        );
        assert!(differences(&a, &a).is_empty());
    }

    #[test]
    fn facts_of_the_moment_explain_nothing_and_unknown_ones_may_explain_anything() {
        for moment in ["load.average", "cpu.frequency-now", "numa.node.0.huge-pages.2M.free", "virtual.steal"]
        {
            assert!(affects(moment).claims.is_empty(), "{moment}");
        }
        assert_eq!(affects("cpu.nohz-full").claims, [LatencyTail]);
        assert_eq!(affects("cpu.governor").claims, ALL_THREE);
        assert_eq!(affects("some.thing").claims, ALL_THREE);
    }
}
