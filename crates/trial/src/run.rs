//! A run: one campaign's stored result, from its plan to every trial.
//!
//! The same types are what the store keeps, `weir show --json` and `weir export --json` print and
//! the report draws. [`SCHEMA_VERSION`] rises when a field changes meaning or goes away.

mod parts;
mod ranking;
mod repeats;

pub use parts::{Bursts, CurveStep, Drift, Estimate, LossStep, Saturation, Soaked};
pub use ranking::Doubt;
pub use repeats::{Repeats, Unit, repeats};

use crate::environment::{Difference, affects, differences};
use crate::verdict::Finding;
use crate::{Floor, Limit, Nf, PacketCheck, SelfCheck, TrialResult, Verdict, judge};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::{LineRate, Nanos, Pps, Ratio};

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
    pub points: Vec<Point>,
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
    /// What configured the DUT: the name of each file that it was given, and its text.
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
    /// Wiring name.
    pub wiring: String,
    /// Trace name, or the path of a capture; two names joined by `|` where the directions differ.
    pub trace: String,
    /// Size label: `64`, `imix`, `web`, or `recorded` for a capture.
    pub size: String,
    /// Mean frame size in bytes, with FCS.
    pub mean_frame_bytes: f64,
    /// Directions with traffic: 1 or 2.
    pub directions: u8,
    /// Whether the lab and the DUT used huge pages.
    pub huge_pages: bool,
    /// The line rate the plan compares with, per direction.
    pub line_rate: LineRate,
}

impl PointKey {
    /// The most packets a second that the line carries over all directions.
    pub fn theoretical(&self) -> Pps {
        Pps(self.line_rate.max_pps(self.mean_frame_bytes).0 * f64::from(self.directions))
    }
}

/// One verdict of a method about a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PointResult {
    /// A throughput search's answer to one goal.
    Throughput {
        /// Goal name: `ndr`, `pdr`, `rfc2544`, `bswlv` or the plan's own.
        goal: String,
        /// Loss ratio the goal tolerates.
        loss_ratio: Ratio,
        /// Conditional throughput: forwarded packets a second at the lower bound.
        throughput: Option<Pps>,
        /// Greatest load that meets the goal.
        lower: Option<Pps>,
        /// Least load that does not.
        upper: Option<Pps>,
        /// Set when a bound is missing: the least load failed, the greatest passed, or time ran out.
        irregular: Option<String>,
        /// What is known all the same, where the search did not settle the goal.
        #[serde(default)]
        estimate: Option<Estimate>,
        /// Length of the goal's final trials.
        trial_duration: Nanos,
        /// Sum of trial durations the goal asks for.
        duration_sum: Nanos,
        /// Trials the search took, over all its goals.
        trials: u32,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
    /// Forwarded rate at the greatest load, over several trials.
    Mrr {
        /// Load that was offered; nothing for `fed`, where the source is in the DUT.
        load: Option<Pps>,
        /// Forwarded rate of each trial.
        rates: Vec<Pps>,
        /// Mean of the rates.
        mean: Pps,
        /// Sample standard deviation of the rates.
        deviation: Pps,
        /// TSC cycles per packet of the DUT's forwarding threads, median of the trials.
        cycles_per_packet: Option<f64>,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
    /// Latency at one load. The trial's histogram stands in the trial.
    Latency {
        /// How the load was stated: `50% ndr`, `1Mpps`.
        label: String,
        /// Load offered, over all directions.
        load: Pps,
        /// The point's trial that measured it ([`StoredTrial::sequence`]).
        trial: u32,
        /// What the bare wiring takes at about this load; nothing where it was not checked.
        #[serde(default)]
        floor: Option<Floor>,
    },
    /// Latency and loss from the least load to beyond saturation.
    LatencyCurve {
        /// Loads and their trials, the least load first.
        steps: Vec<CurveStep>,
        /// Between which loads packets begin to be lost.
        saturation: Saturation,
        /// Load at which forwarded rate over median delay is greatest (Kleinrock's power): beyond
        /// it delay grows faster than the rate does. Nothing for a curve that never turns.
        knee: Option<Pps>,
        /// Load from which on the 99th percentile stays above [`Self::TAIL`] times what it is at the
        /// least loads; nothing where it never does.
        tail: Option<Pps>,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
    /// Loss against load, from the line rate down (RFC 2544, section 26.3).
    FrameLoss {
        /// The line rate over all directions: 100 %.
        line: Pps,
        /// Loads in the order offered, the greatest first.
        steps: Vec<LossStep>,
        /// Share of the line rate of the first of two successive trials without loss; nothing where
        /// the loads came to an end before.
        zero_loss: Option<Ratio>,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
    /// The longest burst at the line rate that comes through whole (RFC 9004).
    BackToBack {
        /// The line rate over all directions.
        line: Pps,
        /// The throughput that the correction is made with; nothing where the search found none.
        throughput: Option<Pps>,
        /// The goal that found it.
        goal: String,
        /// Lengths found; nothing where there is no valid one.
        bursts: Option<Bursts>,
        /// Time that the mean burst takes at the line rate (RFC 9004, implied buffer time).
        implied: Option<Nanos>,
        /// The same without the packets that left during the burst (corrected buffer time).
        corrected: Option<Nanos>,
        /// Frames to which each search went.
        step: u64,
        /// Greatest burst tried.
        ceiling: u64,
        /// Why there is no valid length, or the lengths are not valid; nothing for a valid one.
        invalid: Option<String>,
        /// Every trial of every search, in order.
        trials: Vec<u32>,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
    /// One load over a long time.
    Soak {
        /// How the load was stated: `90% ndr`, `1Mpps`.
        label: String,
        /// Load offered, over all directions.
        load: Pps,
        /// Length of a slice.
        slice: Nanos,
        /// What came of the slices.
        #[serde(flatten)]
        found: Soaked,
        /// Who limits it; nothing where the wiring was not checked.
        #[serde(default)]
        limit: Option<Limit>,
    },
}

impl PointResult {
    /// How many times its level at the least loads the 99th percentile may reach before a curve's
    /// tail counts as risen.
    pub const TAIL: f64 = 10.0;

    /// Who limits it, where that is known.
    pub fn limit(&self) -> Option<&Limit> {
        match self {
            Self::Throughput { limit, .. }
            | Self::Mrr { limit, .. }
            | Self::LatencyCurve { limit, .. }
            | Self::FrameLoss { limit, .. }
            | Self::BackToBack { limit, .. }
            | Self::Soak { limit, .. } => limit.as_ref(),
            Self::Latency { .. } => None,
        }
    }

    /// What it is called in a table: the goal's name, else the method's.
    pub fn name(&self) -> &str {
        match self {
            Self::Throughput { goal, .. } => goal,
            Self::Mrr { .. } => "mrr",
            Self::Latency { .. } => "latency",
            Self::LatencyCurve { .. } => "curve",
            Self::FrameLoss { .. } => "frame loss",
            Self::BackToBack { .. } => "back-to-back",
            Self::Soak { .. } => "soak",
        }
    }
}

/// What a trial was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Discarded: fills caches and tables.
    WarmUp,
    /// Asked for by a throughput search.
    Search,
    /// Latency at a given load.
    Latency,
    /// Greatest load.
    Mrr,
    /// Frame loss at a share of the line rate (RFC 2544, section 26.3).
    FrameLoss,
    /// A burst at the line rate (RFC 9004).
    BackToBack,
    /// One load over a long time.
    Soak,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 7] =
        [Self::WarmUp, Self::Search, Self::Latency, Self::Mrr, Self::FrameLoss, Self::BackToBack, Self::Soak];

    /// Its name, as stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Search => "search",
            Self::Latency => "latency",
            Self::Mrr => "mrr",
            Self::FrameLoss => "frame-loss",
            Self::BackToBack => "back-to-back",
            Self::Soak => "soak",
        }
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
