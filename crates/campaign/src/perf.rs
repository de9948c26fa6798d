//! The table of speed: rows of work, each with the devices it is compared on and what is to be reached.
//!
//! - [`ROWS`]: the table;
//! - [`Row::plans`]: a row as plans of one campaign each, which alternate the sides;
//! - [`judge()`]: from the stored runs to a row's numbers, with intervals and where the cycles go.
//!
//! Nothing is measured here: `weir perf` has each plan run by `weir bench`, a process of its own, and each
//! run stored like any other. So everything a row says can be looked up, compared and judged again.

mod aa;
mod drawn;
mod judge;
mod plan;
mod rows;

pub use aa::{Aa, AaCase, AaCount};
pub use judge::{StepCost, judge, judge_service, regressions};
pub use plan::{Effort, PlannedRun, UntilSeen};
pub use rows::{ROWS, Row, find};

use crate::cores::Cores;
use crate::environment::free_huge_pages;
use crate::plan::HugePages;
use rows::{Target, Way, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::Nanos;

/// Version of the JSON form of [`Perf`].
pub const SCHEMA_VERSION: u32 = 1;

/// Free huge pages (of 2 MiB) that a row needs: two devices at once, and the lab.
const HUGE_PAGES: u64 = 1000;

/// The whole table, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Perf {
    /// [`SCHEMA_VERSION`] of whoever wrote it.
    pub schema: u32,
    /// Name: the runs' names begin with it.
    pub name: String,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Weir's version and commit.
    pub weir: String,
    /// The program that every row was compared with, where it was another build and not a peer.
    pub base: Option<String>,
    /// How much was measured.
    pub effort: Effort,
    /// Facts of the machine, captured: name to value.
    pub environment: BTreeMap<String, String>,
    /// The rows, in their order.
    pub rows: Vec<Measured>,
}

/// A row of the table, measured as far as it could be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Its name.
    pub row: String,
    /// What is done, in words.
    pub work: String,
    /// Both sides, and how far they lie apart; first the pair that the target is about.
    pub pairs: Vec<Pair>,
    /// A figure that was not measured here, where the row has one.
    pub quoted: Option<Quoted>,
    /// What is to be reached, and whether it is.
    pub target: Option<Reached>,
    /// Where the cycles of Weir's packets go.
    pub profile: Vec<StepCost>,
    /// Why it could not be measured, or not all of it; what a reader must be told.
    pub remarks: Vec<String>,
}

/// Two sides of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Names of the stored runs it is from; none for a service by itself.
    pub runs: Vec<String>,
    /// What the row is about.
    pub weir: Side,
    /// What it is compared with; nothing where the target is a number.
    pub other: Option<Side>,
    /// Weir's over the other's, or over the target's number.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Whether the sides were measured in turns, trial by trial.
    pub alternated: bool,
    /// p-value of the gap, two-sided; nothing where the scatter is not known.
    pub chance: Option<f64>,
    /// The smallest effect that these starts show in four of five repetitions, as a share.
    #[serde(default)]
    pub visible: Option<f64>,
}

/// The unit of a side's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Packets a second.
    Pps,
    /// Bits of payload a second.
    Bps,
    /// Nanoseconds.
    Ns,
}

/// One side of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The device, and what it did where that differs between the sides.
    pub name: String,
    /// Its version and command line.
    pub version: Option<String>,
    /// What its numbers are.
    pub unit: Unit,
    /// Median of its trials.
    pub median: f64,
    /// Least of them.
    pub min: f64,
    /// Greatest of them.
    pub max: f64,
    /// How many there are. None where all were invalid: then median, least and greatest are of those,
    /// and rank nothing.
    pub count: usize,
    /// How many more were invalid, and are left out.
    pub left_out: usize,
    /// TSC cycles a packet, median of the trials.
    pub cycles_per_packet: Option<f64>,
}

/// A figure from elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quoted {
    /// Whose it is, and how it was come by.
    pub what: String,
    /// Its unit.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
}

/// What is to be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reached {
    /// In words.
    pub says: String,
    /// The ratio to reach: at least.
    pub ratio: f64,
    /// Whether the measured ratio is that much; nothing where it was not measured.
    pub reached: Option<bool>,
    /// Whether the whole interval is on that side.
    pub sure: bool,
}

impl Reached {
    fn new(target: &Target, says: String, pair: Option<&Pair>) -> Self {
        let ratio = target.ratio();
        let found = pair.and_then(|pair| pair.ratio);
        let reached = found.map(|found| found >= ratio);
        let sure = match (reached, pair.and_then(|pair| pair.interval)) {
            (Some(true), Some((low, _))) => low >= ratio,
            (Some(false), Some((_, high))) => high < ratio,
            _ => false,
        };
        Self { says, ratio, reached, sure }
    }
}

impl Measured {
    /// The same beside a base, where the targets' devices and quoted figures mean nothing.
    #[must_use]
    pub fn without_target(self) -> Self {
        Self { quoted: None, target: None, ..self }
    }

    /// A row that could not be measured at all.
    pub fn unavailable(row: &Row, why: impl Into<String>) -> Self {
        let target = row.target.as_ref().map(|target| Reached::new(target, row.target_says(), None));
        Self {
            row: row.id.to_owned(),
            work: row.work.to_owned(),
            pairs: Vec::new(),
            quoted: row.quoted(),
            target,
            profile: Vec::new(),
            remarks: vec![why.into()],
        }
    }
}

impl Row {
    /// Why the row cannot be measured on this machine, where so.
    pub fn obstacle(&self, huge_pages: HugePages) -> Option<String> {
        if self.service().is_some() { None } else { obstacle(huge_pages) }
    }
}

/// What of this machine keeps every row and every comparison but a service's from being measured; nothing
/// where they can be.
pub fn obstacle(huge_pages: HugePages) -> Option<String> {
    let no_cores = || Cores::assign(&weir_cpu::allowed_cores()).err().map(|error| error.to_string());
    too_few_pages(huge_pages, free_huge_pages()).or_else(no_cores)
}

fn too_few_pages(huge_pages: HugePages, free: u64) -> Option<String> {
    (huge_pages == HugePages::On && free < HUGE_PAGES).then(|| {
        format!(
            "{free} huge pages are free and two switches at once need {HUGE_PAGES}: sysctl vm.nr_hugepages={HUGE_PAGES}, \
             or --huge-pages false, whose figures are others"
        )
    })
}

impl Effort {
    /// The whole table's.
    pub const WHOLE: Self = Self {
        quick: false,
        repeats: 5,
        until: Some(UntilSeen { permille: 50, time: Nanos(180 * Nanos::PER_SECOND) }),
        trials: 2,
        duration: Nanos(Nanos::PER_SECOND),
    };
    /// The quick subset's: its six rows take half an hour at most.
    pub const QUICK: Self = Self {
        quick: true,
        until: Some(UntilSeen { permille: 50, time: Nanos(300 * Nanos::PER_SECOND) }),
        duration: Nanos(Nanos::PER_SECOND / 4),
        ..Self::WHOLE
    };
}
