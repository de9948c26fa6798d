//! A run: one campaign's stored result, from its plan to every trial.
//!
//! The same types are what the store keeps, `weir show --json` and `weir export --json` print and
//! the report draws. [`SCHEMA_VERSION`] rises when a field changes meaning or goes away.

pub mod advice;
pub mod cpu;
mod document;
mod method;
mod ranking;
mod repeats;
mod texts;

pub use advice::{AdviceCheck, Asked};
pub use cpu::CpuUse;
pub use method::*;
pub use ranking::Doubt;
pub use repeats::{Repeats, Unit, changes, repeats};
pub use texts::{MOST_REPEATED, sha256};

use crate::environment::{Difference, affects, differences};
use crate::verdict::Finding;
use crate::{Nf, PacketCheck, Placement, SelfCheck, TrialResult, Verdict, judge};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::{LineRate, Pps};

/// Version of the JSON form of [`Run`].
pub const SCHEMA_VERSION: u32 = 1;

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Being measured, or cut off without a word (SIGKILL, power): `weir bench --resume` goes on.
    Running,
    /// Every point was measured.
    Finished,
    /// Stopped by Ctrl-C or an error; what was measured is kept.
    Interrupted,
}

/// One campaign's stored result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`SCHEMA_VERSION`] of whoever wrote it.
    pub schema: u32,
    /// Number in its database.
    pub id: i64,
    /// The run's identity everywhere: a UUID, version 7 where this Weir began it (RFC 9562).
    #[serde(default)]
    pub uuid: String,
    /// A name to say aloud: `2026-11-21-otter-3f9a`.
    pub name: String,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// End of the last trial, milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<i64>,
    /// How far it came.
    pub state: RunState,
    /// The whole plan, as TOML.
    pub plan: String,
    /// Weir's version and commit.
    pub weir: String,
    /// Facts of the machine, captured: name to value.
    pub environment: BTreeMap<String, String>,
    /// Every later time that it was taken up (`weir bench --resume`), each with its own environment.
    #[serde(default)]
    pub sessions: Vec<Session>,
    /// What the tester itself can do over the run's wirings.
    #[serde(default)]
    pub self_checks: Vec<SelfCheck>,
    /// What was measured.
    #[serde(with = "texts")]
    #[schemars(with = "Vec<Point>")]
    pub points: Vec<Point>,
    /// Advice made from it that was checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<AdviceCheck>,
}

/// A run taken up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// When, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Weir's version and commit then.
    pub weir: String,
    /// Facts of the machine, captured anew: name to value.
    pub environment: BTreeMap<String, String>,
}

impl Run {
    /// In what the run was taken up differently, as far as it can explain a number: its points were then
    /// measured under different conditions, and are a mix.
    pub fn mix(&self) -> Vec<Difference> {
        let mut mix: Vec<Difference> = Vec::new();
        for session in &self.sessions {
            for difference in differences(&self.environment, &session.environment) {
                let known = mix.iter().any(|known| known.key == difference.key);
                if !known && !affects(&difference.key).claims.is_empty() {
                    mix.push(difference);
                }
            }
        }
        mix
    }
}

/// One combination of the plan's axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Place in the plan's order, from 0.
    pub index: u32,
    /// What identifies it.
    pub key: PointKey,
    /// Version and configuration of the DUT as started.
    pub dut_version: Option<String>,
    /// What configured the DUT: the name of each file that it was given, and its text. In a document, in the place of a text of
    /// 1,024 bytes or more that a point before it has, `sha256:` and the hash of that text.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Hashes of the frames sent, one a direction: two points with equal hashes sent equal bytes.
    #[serde(default)]
    pub trace_hashes: Vec<String>,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// What the untimed pass over the whole trace came to; nothing where there was none.
    #[serde(default)]
    pub packets: Option<PacketCheck>,
    /// Why nothing could be measured, where so (unsupported, would not start, crashed).
    pub error: Option<String>,
    /// Whether its measurement came to an end, with results or an error. A point cut off by Ctrl-C or
    /// SIGKILL is not finished: `weir bench --resume` measures it anew.
    pub finished: bool,
    /// The verdicts of the methods.
    pub results: Vec<PointResult>,
    /// Every trial, in order.
    pub trials: Vec<StoredTrial>,
}

/// What identifies a point: the axes of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointKey {
    /// Network function.
    pub nf: Nf,
    /// Adapter name.
    pub dut: String,
    /// Where the functions run; a device that is the function by itself, on cores as they are, needs no word.
    #[serde(default, skip_serializing_if = "Placement::is_plain")]
    pub placement: Placement,
    /// Wiring name.
    pub wiring: String,
    /// Trace name, or the path of a capture; two names joined by `|` where the directions differ.
    pub trace: String,
    /// Size label: `64`, `imix`, `web`, or `recorded` for a capture.
    pub size: String,
    /// Mean frame size in bytes, with FCS.
    pub mean_frame_bytes: f64,
    /// Directions with traffic of each bundle: 1 or 2.
    pub directions: u8,
    /// Whether the lab and the DUT used huge pages.
    pub huge_pages: bool,
    /// The line rate the plan compares with, per direction.
    pub line_rate: LineRate,
}

impl PointKey {
    /// Its frame size as people read it: `64 B`, `imix`.
    pub fn frame(&self) -> String {
        if self.size.parse::<u32>().is_ok() { format!("{} B", self.size) } else { self.size.clone() }
    }

    /// The device, and where it runs: `nf`, `nf in vhost on weir, one core`.
    pub fn device(&self) -> String {
        self.placement.of(&self.dut)
    }

    /// Directions with traffic of all bundles together.
    pub fn all_directions(&self) -> u32 {
        u32::from(self.directions) * self.placement.bundles.max(1)
    }

    /// The most packets a second that the line carries over all directions.
    pub fn theoretical(&self) -> Pps {
        Pps(self.line_rate.max_pps(self.mean_frame_bytes).0 * f64::from(self.all_directions()))
    }
}

/// A trial as kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredTrial {
    /// Place in the point's order, from 0.
    pub sequence: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// Start, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// Decided nothing: the point was cut off and measured anew, or the trial was invalid and run again.
    #[serde(default)]
    pub superseded: bool,
    /// Whether its numbers may be believed, judged when it was measured.
    #[serde(default)]
    pub verdict: Verdict,
    /// What came of it.
    pub result: TrialResult,
}

impl StoredTrial {
    /// A trial with the verdict on it.
    pub fn new(sequence: u32, purpose: Purpose, started_ms: i64, result: TrialResult) -> Self {
        let verdict = judge(&result);
        Self { sequence, purpose, started_ms, superseded: false, verdict, result }
    }

    /// What makes it invalid or wrong, the gravest of it; nothing where its numbers hold.
    pub fn spoilt_by(&self) -> Option<&Finding> {
        self.verdict.findings.first().filter(|_| !self.verdict.is_valid())
    }
}
