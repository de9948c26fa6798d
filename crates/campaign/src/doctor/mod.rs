//! What on this machine will spoil which claim, and the command that mends it.
//!
//! [`Measured`] watches the machine for a moment; [`examine`] then judges it together with the
//! environment's facts: a table of rules, each a pure function, so that tests can show it other
//! machines. A fact that a machine does not tell is neither good nor bad: its rules are listed as
//! untold. Threads: the watching takes one pinned thread a core, for the time it is told.

mod clock;
mod cores;
mod machine;
mod measured;
mod memory;
mod neighbours;
mod quiet;
mod software;
mod stalls;

pub use machine::Machine;
pub use measured::{Measured, Missing};
pub use quiet::{Done, Quiet, QuietError, Setting};
pub use stalls::{CoreStalls, STALL, watch_cores};

use crate::Cores;
use crate::environment::Claim;
use schemars::JsonSchema;
use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing can be measured.
    Blocks,
    /// The claims it names would be wrong, or would not be found again.
    Spoils,
    /// The claims it names hold with a reservation, or something cannot be used.
    Weakens,
}

/// Something that a rule does not like.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The claims that suffer.
    pub spoils: Vec<Claim>,
    /// What is the matter, with the figures of this machine.
    pub says: String,
    /// What mends it: a command, and where it must be given if not here.
    pub mend: String,
}

/// A rule that has nothing to say against the machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Passed {
    /// The rule.
    pub rule: &'static str,
    /// What it found.
    pub says: String,
}

/// All that was found, worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Checkup {
    /// What is the matter.
    pub findings: Vec<Finding>,
    /// What is well.
    pub passed: Vec<Passed>,
    /// Rules whose facts this machine does not tell.
    pub untold: Vec<&'static str>,
}

impl Checkup {
    /// Whether a claim made on this machine, as it is, would be spoilt.
    pub fn spoils(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity <= Severity::Spoils)
    }
}

/// What a rule thinks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// All is well.
    Good(String),
    /// It is not.
    Bad(Severity, &'static [Claim], String, String),
    /// The facts are not there.
    Untold,
}

impl Verdict {
    fn good(says: impl Into<String>) -> Self {
        Self::Good(says.into())
    }
    fn blocks(says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Bad(Severity::Blocks, &Claim::ALL, says.into(), mend.into())
    }
    fn spoils(claims: &'static [Claim], says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Bad(Severity::Spoils, claims, says.into(), mend.into())
    }
    fn weakens(claims: &'static [Claim], says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Bad(Severity::Weakens, claims, says.into(), mend.into())
    }
}

type Rule = fn(&Machine<'_>) -> Verdict;

/// Every rule; within a severity findings keep this order.
const RULES: &[(&str, Rule)] = &[
    ("cores", cores::enough),
    ("cpu quota", cores::quota),
    ("core stalls", stalls::rule),
    ("stolen time", neighbours::steal),
    ("busy neighbours", neighbours::busy),
    ("siblings", cores::siblings),
    ("numa", cores::numa),
    ("isolation", cores::isolation),
    ("build", software::build),
    ("memory", memory::room),
    ("huge pages", memory::huge_pages),
    ("tsc", clock::tsc),
    ("clock source", clock::source),
    ("governor", clock::governor),
    ("turbo", clock::turbo),
    ("disk", software::disk),
    ("swap", memory::swap),
    ("irqbalance", neighbours::irqbalance),
    ("transparent huge pages", memory::transparent),
    ("numa balancing", memory::balancing),
    ("nmi watchdog", clock::watchdog),
    ("idle states", clock::idle),
    ("nic", cores::nic),
    ("hypervisor", neighbours::hypervisor),
    ("devices", software::devices),
    ("privileges", software::privileges),
];

/// Huge pages (of 2 MiB) that a quieted machine has: room for the lab and a device.
pub const HUGE_PAGES: u64 = memory::RESERVE;

/// Names of all rules.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(name, _)| *name)
}

/// Judges a machine.
pub fn examine(machine: &Machine<'_>) -> Checkup {
    let mut checkup = Checkup::default();
    for (rule, check) in RULES {
        match check(machine) {
            Verdict::Good(says) => checkup.passed.push(Passed { rule, says }),
            Verdict::Untold => checkup.untold.push(rule),
            Verdict::Bad(severity, claims, says, mend) => {
                checkup.findings.push(Finding { rule, severity, spoils: claims.to_vec(), says, mend });
            }
        }
    }
    checkup.findings.sort_by_key(|finding| finding.severity);
    checkup
}

/// The cores that a campaign on this machine would use.
pub fn cores_here() -> Option<Cores> {
    Cores::assign(&weir_cpu::allowed_cores()).ok()
}
