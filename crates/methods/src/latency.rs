//! Latency at given loads.
//!
//! A load is stated absolutely (`1Mpps`), as a share of what a goal proved (`50% ndr`: half of its
//! relevant lower bound, the greatest *offered* load that passes), or as a share of the line rate
//! (`10% line`). RFC 2544 (section 26.2) asks for trials of 120 s at the throughput, repeated 20
//! times; shorter trials are reported with a warning. Each trial keeps its whole histogram.

use crate::compare::numbers::{Quantity, began};
use crate::compare::validity::of_result;
use crate::compare::{Better, Found, Of, Unit};
use crate::mlrsearch::GoalOutcome;
use crate::observe::{Next, Observer, Remaining};
use crate::registry::Stored;
use crate::verify::Named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_trial::run::{LatencyResult, Point, PointResult, Purpose, StoredTrial};
use weir_trial::{KeptTrial, Measurer, TrialSpec};
use weir_units::{Bps, Nanos, PERCENTILES, Pps, Ratio};

/// A load, as stated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum LoadSpec {
    /// Packets a second over all directions: `250kpps`.
    Absolute(Pps),
    /// Bits a second on the wire over all directions, frames with FCS, preamble and gap: `2Gbps`.
    Bits(Bps),
    /// A share of a goal's relevant lower bound: `50% ndr`. Up to 200 %, to look past the border.
    OfGoal {
        /// The share.
        share: Ratio,
        /// The goal's name.
        goal: String,
    },
    /// A share of the forwarded rate at the greatest load: `50% mrr`.
    OfMrr(Ratio),
    /// A share of the theoretical rate of the line: `10% line`.
    OfLine(Ratio),
}

/// A text that states no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no load; write a rate (250kpps, 2Gbps), a share of a goal (50% ndr), of the forwarded rate (50% mrr) or of the line (10% line)"
)]
pub struct ParseLoadError {
    text: String,
}

/// A load that cannot be offered at this point.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The goal was not searched for.
    #[error("`{load}`: no goal `{goal}` was searched for; searched were: {}", searched.join(", "))]
    NoGoal {
        /// The load as stated.
        load: String,
        /// The goal it names.
        goal: String,
        /// The goals there are.
        searched: Vec<String>,
    },
    /// The goal has no lower bound.
    #[error("`{load}`: the search found no load that meets {goal}")]
    NoBound {
        /// The load as stated.
        load: String,
        /// The goal it names.
        goal: String,
    },
    /// The forwarded rate was not measured.
    #[error("`{load}`: no forwarded rate was measured before; add a table [mrr]")]
    NoMrr {
        /// The load as stated.
        load: String,
    },
    /// More than the tester may offer.
    #[error("`{load}`: {rate} is more than the greatest load, {max}")]
    TooMuch {
        /// The load as stated.
        load: String,
        /// What it comes to.
        rate: Pps,
        /// The greatest load.
        max: Pps,
    },
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug)]
pub struct LoadBasis<'a> {
    /// Answers of the searches at this point.
    pub goals: &'a [GoalOutcome],
    /// Mean forwarded rate at the greatest load, where it was measured.
    pub mrr: Option<Pps>,
    /// Theoretical rate of the line, over all directions.
    pub line: Pps,
    /// Greatest load that may be offered.
    pub max_load: Pps,
    /// Bits that a mean packet takes on the wire: frame with FCS, preamble and gap.
    pub wire_bits: f64,
}

impl LoadSpec {
    /// The word that stands for the line rate.
    pub const LINE: &'static str = "line";
    /// The word that stands for the forwarded rate at the greatest load.
    pub const MRR: &'static str = "mrr";
    /// Largest share of a goal's lower bound.
    pub const MAX_GOAL_SHARE: Ratio = Ratio(2.0);

    /// The goal whose answer this load needs.
    pub fn goal(&self) -> Option<&str> {
        match self {
            Self::OfGoal { goal, .. } => Some(goal),
            Self::Absolute(_) | Self::Bits(_) | Self::OfMrr(_) | Self::OfLine(_) => None,
        }
    }

    /// The load in packets a second over all directions.
    pub fn resolve(&self, basis: &LoadBasis<'_>) -> Result<Pps, LoadError> {
        let rate = match self {
            Self::Absolute(rate) => *rate,
            Self::OfLine(share) => Pps(basis.line.0 * share.0),
            Self::Bits(rate) => Pps(rate.0 / basis.wire_bits),
            Self::OfMrr(share) => {
                let mrr = basis.mrr.ok_or_else(|| LoadError::NoMrr { load: self.to_string() })?;
                Pps(mrr.0 * share.0)
            }
            Self::OfGoal { share, goal } => {
                let found = basis.goals.iter().find(|outcome| outcome.goal.name == *goal);
                let outcome = found.ok_or_else(|| LoadError::NoGoal {
                    load: self.to_string(),
                    goal: goal.clone(),
                    searched: basis.goals.iter().map(|outcome| outcome.goal.name.clone()).collect(),
                })?;
                let lower = outcome
                    .best_lower()
                    .ok_or_else(|| LoadError::NoBound { load: self.to_string(), goal: goal.clone() })?;
                Pps(lower.0 * share.0)
            }
        };
        // A share of a bound at the greatest load may exceed it by rounding alone.
        if rate.0 > basis.max_load.0 * (1.0 + 1e-9) {
            return Err(LoadError::TooMuch { load: self.to_string(), rate, max: basis.max_load });
        }
        Ok(rate)
    }
}

impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to a billionth of a per cent, so that 0.07 does not read 7.000000000000001.
        let percent = |share: &Ratio| (share.0 * 100.0 * 1e9).round() / 1e9;
        match self {
            Self::Absolute(rate) if rate.0 >= 1e6 => f.pad(&format!("{}Mpps", rate.0 / 1e6)),
            Self::Absolute(rate) if rate.0 >= 1e3 => f.pad(&format!("{}kpps", rate.0 / 1e3)),
            Self::Absolute(rate) => f.pad(&format!("{}pps", rate.0)),
            Self::OfGoal { share, goal } => f.pad(&format!("{}% {goal}", percent(share))),
            Self::Bits(rate) => f.pad(&format!("{}bps", rate.0)),
            Self::OfMrr(share) => f.pad(&format!("{}% {}", percent(share), Self::MRR)),
            Self::OfLine(share) => f.pad(&format!("{}% {}", percent(share), Self::LINE)),
        }
    }
}

impl FromStr for LoadSpec {
    type Err = ParseLoadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseLoadError { text: text.to_owned() };
        let Some((number, name)) = text.split_once('%') else {
            if let Ok(rate) = text.parse::<Bps>() {
                return if rate.0 > 0.0 { Ok(Self::Bits(rate)) } else { Err(error()) };
            }
            let rate: Pps = text.parse().map_err(|_| error())?;
            return if rate.0 > 0.0 { Ok(Self::Absolute(rate)) } else { Err(error()) };
        };
        let share = Ratio(number.trim().parse::<f64>().map_err(|_| error())? / 100.0);
        let name = name.trim();
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let limit = if name == Self::LINE { 1.0 } else { Self::MAX_GOAL_SHARE.0 };
        if name.is_empty() || !name.chars().all(word) || !(share.0 > 0.0 && share.0 <= limit) {
            return Err(error());
        }
        Ok(match name {
            Self::LINE => Self::OfLine(share),
            Self::MRR => Self::OfMrr(share),
            goal => Self::OfGoal { share, goal: goal.to_owned() },
        })
    }
}

impl From<LoadSpec> for String {
    fn from(load: LoadSpec) -> Self {
        load.to_string()
    }
}

impl TryFrom<String> for LoadSpec {
    type Error = ParseLoadError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The percentiles of latency that are compared, in per cent.
const COMPARED: [f64; 2] = [50.0, 99.0];

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// Loads, each measured once, in this order.
    pub loads: Vec<LoadSpec>,
    /// Length of each trial.
    pub duration: Nanos,
}

/// Latency at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyPoint {
    /// How the load was stated.
    pub label: String,
    /// The trial, with its latencies; or why the load could not be offered.
    pub trial: Result<KeptTrial, LoadError>,
}

impl LatencyPoint {
    /// The point in the form it is stored in; nothing where the load could not be offered.
    pub fn point_result(&self) -> Option<PointResult> {
        let trial = self.trial.as_ref().ok()?;
        let (label, load) = (self.label.clone(), trial.result.spec.load);
        Some(PointResult::Latency(LatencyResult { label, load, trial: trial.sequence, floor: None }))
    }
}

impl LatencyAt {
    /// Trial duration that RFC 2544 asks for (section 26.2): 120 s.
    pub const RFC2544_TRIAL: Nanos = Nanos(120 * Nanos::PER_SECOND);

    /// What a reader of the results must be told.
    pub fn warnings(&self) -> Vec<String> {
        if self.duration >= Self::RFC2544_TRIAL || self.loads.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "latency: trials of {} are shorter than RFC 2544's {} (section 26.2)",
            self.duration,
            Self::RFC2544_TRIAL
        )]
    }

    /// Measures at every load that can be offered.
    pub fn run<M: Measurer, O: Observer>(
        &self,
        basis: &LoadBasis<'_>,
        measurer: &mut M,
        observer: &mut O,
    ) -> Result<Vec<LatencyPoint>, M::Error> {
        let resolved: Vec<_> =
            self.loads.iter().map(|load| (load.to_string(), load.resolve(basis))).collect();
        let mut left = resolved.iter().filter(|(_, rate)| rate.is_ok()).count() as u32;
        let mut cost = self.duration;
        let mut points = Vec::new();
        for (label, rate) in resolved {
            let trial = match rate {
                Err(error) => Err(error),
                Ok(load) => {
                    let spec = TrialSpec { load, duration: self.duration };
                    let time = Nanos(cost.0.saturating_mul(u64::from(left)));
                    observer.next(&Next {
                        purpose: Purpose::Latency,
                        spec,
                        remaining: Remaining { trials: left, time },
                    });
                    let kept = measurer.measure(Purpose::Latency, spec)?;
                    observer.trial(Purpose::Latency, &kept);
                    cost = kept.result.cost();
                    left -= 1;
                    Ok(kept)
                }
            };
            points.push(LatencyPoint { label, trial });
        }
        Ok(points)
    }
}

impl Stored for LatencyResult {
    fn holds(&self, trials: &mut Named<'_>) -> bool {
        trials.trial(self.trial, Some(self.load));
        true
    }

    fn compared(point: &Point, found: &mut Found) {
        for result in &point.results {
            let PointResult::Latency(LatencyResult { label, load, trial, .. }) = result else { continue };
            let trial = point.trial(*trial);
            let trials: Vec<&StoredTrial> = trial.into_iter().collect();
            for percent in COMPARED {
                let name = format!("p{percent} latency at {label}");
                let quantity = Quantity { name, unit: Unit::Nanoseconds, better: Better::Lower };
                let numbers = found.numbers(quantity);
                numbers.of = Of::Repeat;
                // Loads that follow from a search differ a little from repeat to repeat.
                numbers.load = Some(numbers.load.map_or(*load, |other| Pps((other.0 * load.0).sqrt())));
                let place = PERCENTILES.iter().position(|known| *known == percent);
                let latency = trial.and_then(|trial| trial.result.latency.as_ref());
                let number = place.zip(latency).map(|(place, latency)| latency.percentiles[place].0 as f64);
                numbers.take(number, began(&trials), of_result(None, &trials, &trials));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlrsearch::{Goal, Search, SearchConfig};
    use crate::observe::Silent;
    use weir_simulated::SimulatedDut;

    fn searched() -> Vec<GoalOutcome> {
        let search = Search::new(SearchConfig::new(vec![Goal::ndr()], Pps(20e6))).unwrap();
        search.run(&mut SimulatedDut::default().start(), &mut Silent).unwrap().goals
    }

    #[test]
    fn bits_a_second_count_what_a_packet_takes_on_the_wire() {
        let basis =
            LoadBasis { goals: &[], mrr: None, line: Pps(14.88e6), max_load: Pps(20e6), wire_bits: 672.0 };
        let load: LoadSpec = "6.72Gbps".parse().unwrap();
        assert_eq!(load.resolve(&basis), Ok(Pps(10e6)));
        assert_eq!(load.to_string().parse(), Ok(load));
        assert!("0Gbps".parse::<LoadSpec>().is_err());
    }

    #[test]
    fn loads_are_read_and_printed_as_typed() {
        for text in ["250kpps", "1.5Mpps", "900pps", "50% ndr", "7% line", "12.5% my-goal"] {
            assert_eq!(text.parse::<LoadSpec>().unwrap().to_string(), text);
        }
        assert_eq!("10 %line".parse(), Ok(LoadSpec::OfLine(Ratio(0.1))));
    }

    #[test]
    fn texts_that_state_no_load_are_refused_with_the_three_forms() {
        for text in ["", "50%", "ndr", "0% ndr", "101% line", "201% ndr", "0pps", "x% ndr", "5% two words"] {
            let error = text.parse::<LoadSpec>().unwrap_err().to_string();
            assert!(error.contains("50% ndr") && error.contains("10% line"), "{error}");
        }
    }

    #[test]
    fn shares_are_of_the_goals_lower_bound_and_of_the_line() {
        let goals = searched();
        let basis = LoadBasis {
            goals: &goals,
            mrr: Some(Pps(6e6)),
            line: Pps(14.88e6),
            max_load: Pps(20e6),
            wire_bits: 672.0,
        };
        let lower = goals[0].lower.unwrap();
        let rate = |text: &str| text.parse::<LoadSpec>().unwrap().resolve(&basis);
        assert_eq!(rate("50% ndr"), Ok(Pps(lower.0 * 0.5)));
        assert_eq!(rate("10% line"), Ok(Pps(1.488e6)));
        assert_eq!(rate("100kpps"), Ok(Pps(1e5)));
        let error = rate("50% pdr").unwrap_err().to_string();
        assert!(error.contains("no goal `pdr`") && error.contains("searched were: ndr"), "{error}");
        assert!(rate("21Mpps").unwrap_err().to_string().contains("more than the greatest load"));
    }

    #[test]
    fn latency_rises_towards_the_border_and_impossible_loads_do_not_stop_the_rest() {
        let goals = searched();
        let basis = LoadBasis {
            goals: &goals,
            mrr: Some(Pps(6e6)),
            line: Pps(14.88e6),
            max_load: Pps(20e6),
            wire_bits: 672.0,
        };
        let loads = ["10% ndr", "50% pdr", "99% ndr"].map(|text| text.parse().unwrap()).to_vec();
        let latency = LatencyAt { loads, duration: Nanos(Nanos::PER_SECOND) };
        let points = latency.run(&basis, &mut SimulatedDut::default().start(), &mut Silent).unwrap();
        let median =
            |n: usize| points[n].trial.as_ref().unwrap().result.latency.as_ref().unwrap().percentiles[0];
        assert!(median(2) > median(0));
        assert!(points[1].trial.is_err());
        assert!(latency.warnings()[0].contains("shorter than RFC 2544's 120 s"));
    }
}
