//! The longest burst that comes through whole.

use super::{Method, MethodResult, Unit};
use crate::Limit;
use crate::run::{Point, StoredTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps};

/// The longest burst at the line rate that comes through whole (RFC 9004).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct BackToBackResult {
    /// The line rate over all directions.
    pub line: Pps,
    /// The throughput that the correction is made with; nothing where the search found none.
    pub throughput: Option<Pps>,
    /// The goal that found it.
    pub goal: String,
    /// Lengths found; nothing where there is no valid one.
    pub bursts: Option<Bursts>,
    /// Time that the mean burst takes at the line rate (RFC 9004, implied buffer time).
    pub implied: Option<Nanos>,
    /// The same without the packets that left during the burst (corrected buffer time).
    pub corrected: Option<Nanos>,
    /// Frames to which each search went.
    pub step: u64,
    /// Greatest burst tried.
    pub ceiling: u64,
    /// Why there is no valid length, or the lengths are not valid; nothing for a valid one.
    pub invalid: Option<String>,
    /// Every trial of every search, in order.
    pub trials: Vec<u32>,
    /// Who limits it; nothing where the wiring was not checked.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// How the bursts were sent; nothing in runs of before that was looked at.
    #[serde(default)]
    pub sending: Option<BurstSending>,
}

impl BackToBackResult {
    /// Why there is no corrected buffer time beside a valid length; nothing where there is one.
    pub fn uncorrected(&self) -> Option<String> {
        let is_missing = self.invalid.is_none() && self.implied.is_some() && self.throughput.is_none();
        is_missing.then(|| format!("not corrected: the search found no throughput for {}", self.goal))
    }
}

/// How the bursts of a back-to-back measurement were sent. RFC 9004 (section 5.3) speaks of frames with the least gap
/// between them; a tester that falls behind leaves a gap and sends a lump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct BurstSending {
    /// The trials that decided, in order: of each burst the attempt whose frames were least late.
    pub decided: Vec<u32>,
    /// Attempts that were made again, because they were not back to back or the machine spoilt them.
    pub repeated: u32,
    /// The most that a frame of a burst that decided was sent behind its time, in frames at the line rate; nothing
    /// where nobody kept account.
    pub late: Option<u64>,
    /// How late a frame of a burst that is back to back may be, in frames at the line rate.
    pub tolerated: u64,
    /// Bursts that decided though no attempt was back to back.
    pub apart: u32,
}

impl BurstSending {
    /// Why what rests on these bursts is an estimate; nothing where all were back to back.
    pub fn estimate(&self) -> Option<String> {
        let Self { decided, apart, tolerated, .. } = self;
        let late = self.late.map_or(String::new(), |late| format!(", a frame up to {late} frames late"));
        (*apart > 0).then(|| {
            format!(
                "{apart} of {} bursts were never sent back to back{late}, {tolerated} are tolerated",
                decided.len()
            )
        })
    }
}

/// Burst lengths of a back-to-back measurement, in frames over all directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Longest burst without loss of each complete search.
    pub frames: Vec<u64>,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Greatest.
    pub max: u64,
    /// Sample standard deviation; zero for a single search.
    pub deviation: f64,
}

impl MethodResult for BackToBackResult {
    fn method(&self) -> Method {
        Method::BackToBack
    }

    fn name(&self) -> &str {
        "back-to-back"
    }

    fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    fn rests_on<'a>(&self, point: &'a Point) -> Vec<&'a StoredTrial> {
        point.numbered(self.sending.as_ref().map_or(&self.trials, |sending| &sending.decided))
    }

    fn number(&self) -> Option<(&str, Unit, f64)> {
        Some(("buffer", Unit::Nanoseconds, self.corrected?.0 as f64))
    }

    fn says_invalid(&self) -> Option<&str> {
        self.invalid.as_deref()
    }
}
