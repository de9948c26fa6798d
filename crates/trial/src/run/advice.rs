//! Advice that was checked: what a model said of a run's points, and what a trial of it came to.

use super::PointKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_units::{Interval, Nanos, Pps, Ratio};

/// What was asked of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// The load that is to be carried, over all directions; nothing where none was named.
    #[serde(default)]
    pub load: Option<Pps>,
    /// Share of its packets that may be lost.
    #[serde(default)]
    pub loss: Ratio,
    /// How long packets may take; nothing where that does not matter.
    #[serde(default)]
    pub delay: Option<DelayGoal>,
}

impl Asked {
    /// Packets a second that have to be forwarded.
    pub fn needed(&self) -> Option<f64> {
        Some(self.load?.0 * (1.0 - self.loss.0))
    }
}

/// A bound of the one-way delay. As text `p99 < 50us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct DelayGoal {
    /// Of which delay.
    pub statistic: Statistic,
    /// What it must stay below.
    pub below: Nanos,
}

/// A text that bounds no delay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` bounds no delay; write mean, p50, p90, p99, p99.9, p99.99 or max, `<`, and a duration: \"p99 < 50us\""
)]
pub struct DelayGoalError(String);

impl FromStr for DelayGoal {
    type Err = DelayGoalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || DelayGoalError(text.to_owned());
        let (statistic, below) = text.split_once('<').ok_or_else(wrong)?;
        let statistic = Statistic::ALL.into_iter().find(|one| one.name() == statistic.trim());
        let below: Nanos = below.trim_start_matches('=').trim().parse().map_err(|_| wrong())?;
        match statistic {
            Some(statistic) if below.0 > 0 => Ok(Self { statistic, below }),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for DelayGoal {
    type Error = DelayGoalError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DelayGoal> for String {
    fn from(goal: DelayGoal) -> Self {
        format!("{} < {}ns", goal.statistic, goal.below.0)
    }
}

impl fmt::Display for DelayGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < ", self.statistic)?;
        // Never another delay than is meant: a rounded one reads as itself only where nothing was cut off.
        let Nanos(nanos) = self.below;
        match self.below.to_string() {
            shown if shown.parse() == Ok(self.below) => f.write_str(&shown),
            _ if nanos.is_multiple_of(1_000) => write!(f, "{} µs", nanos / 1_000),
            _ => write!(f, "{nanos} ns"),
        }
    }
}

/// A number that stands for a distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Statistic {
    /// The mean.
    #[serde(rename = "mean")]
    Mean,
    /// The median.
    #[serde(rename = "p50")]
    P50,
    /// The 90th percentile.
    #[serde(rename = "p90")]
    P90,
    /// The 99th percentile.
    #[serde(rename = "p99")]
    P99,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    P999,
    /// The 99.99th percentile.
    #[serde(rename = "p99.99")]
    P9999,
    /// The greatest.
    #[serde(rename = "max")]
    Max,
}

impl Statistic {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Mean, Self::P50, Self::P90, Self::P99, Self::P999, Self::P9999, Self::Max];

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::P9999 => "p99.99",
            Self::Max => "max",
        }
    }

    /// Of a trial's delays, in nanoseconds; nothing where too few packets were timed to tell it.
    pub fn of(self, latency: &crate::Latency) -> Option<f64> {
        let percentile = |place: usize| latency.tells(place).then(|| latency.percentiles[place].0 as f64);
        match self {
            Self::Mean => Some(latency.mean),
            Self::P50 => percentile(0),
            Self::P90 => percentile(1),
            Self::P99 => percentile(2),
            Self::P999 => percentile(3),
            Self::P9999 => percentile(4),
            Self::Max => Some(latency.max.0 as f64),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A question that measured points may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The lowest clock, or share of the cores' time.
    Speed,
    /// The fewest cores.
    Cores,
    /// How many copies of the chain.
    Copies,
    /// How many virtual ports of each function.
    Vnics,
    /// How many queues of each port.
    Queues,
    /// Where the chain runs.
    Placement,
    /// From which load on a device's traffic is to be split.
    Split,
}

impl Question {
    /// Every one, in the order of the answers.
    pub const ALL: [Self; 7] =
        [Self::Speed, Self::Cores, Self::Copies, Self::Vnics, Self::Queues, Self::Placement, Self::Split];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Cores => "cores",
            Self::Copies => "copies",
            Self::Vnics => "vnics",
            Self::Queues => "queues",
            Self::Placement => "placement",
            Self::Split => "split",
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Question {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no question; it answers {}", known()))
    }
}

/// A quantity that is predicted, and then measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Quantity {
    /// Packets a second forwarded at the greatest load, over all directions.
    Forwarded,
    /// Packets a second of a throughput search, over all directions.
    Throughput {
        /// The search's goal.
        goal: String,
    },
    /// One-way delay, in nanoseconds.
    Delay {
        /// At which load, over all directions.
        load: Pps,
        /// Which delay.
        statistic: Statistic,
    },
    /// Share of the packets lost.
    Loss {
        /// At which load, over all directions.
        load: Pps,
    },
}

impl Quantity {
    /// A value of it, with its unit.
    pub fn show(&self, value: f64) -> String {
        match self {
            Self::Forwarded | Self::Throughput { .. } => Pps(value).to_string(),
            Self::Delay { .. } => Nanos(value.max(0.0).round() as u64).to_string(),
            Self::Loss { .. } => Ratio(value).to_string(),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forwarded => f.write_str("forwarded"),
            Self::Throughput { goal } => f.write_str(goal),
            Self::Delay { load, statistic } => write!(f, "{statistic} at {load}"),
            Self::Loss { load } => write!(f, "loss at {load}"),
        }
    }
}

/// What a model says of a quantity, in the unit of [`Quantity`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Which.
    pub quantity: Quantity,
    /// The value; of a loss, the most that was allowed.
    pub value: f64,
    /// 95 % prediction interval; nothing where the points do not tell one.
    pub interval: Option<Interval>,
}

/// A prediction beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// What was said.
    #[serde(flatten)]
    pub predicted: Prediction,
    /// Mean of what was measured, in the same unit.
    pub measured: f64,
    /// Trials, or starts of the device, that it is the mean of.
    pub count: u32,
    /// Whether it lies in the interval; nothing where there is none.
    pub inside: Option<bool>,
}

impl Compared {
    /// Measured over predicted, less 1; nothing of a loss, or where nothing was predicted.
    pub fn error(&self) -> Option<f64> {
        let of_loss = matches!(self.predicted.quantity, Quantity::Loss { .. });
        (!of_loss && self.predicted.value > 0.0).then(|| self.measured / self.predicted.value - 1.0)
    }
}

/// What a check said of an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// Everything measured lies in its interval, and what was asked for was met.
    Confirmed,
    /// Something does not, or was not.
    Refuted,
    /// It could not be measured, or there was no interval to hold it against.
    Undecided,
}

impl CheckVerdict {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
        }
    }
}

/// An advice that was checked: kept with the run that it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviceCheck {
    /// When the check began, milliseconds since 1970-01-01 UTC.
    pub started_ms: i64,
    /// The question.
    pub question: Question,
    /// What was asked for.
    pub asked: Asked,
    /// The advice in words.
    pub advice: String,
    /// What was advised, and measured.
    pub key: PointKey,
    /// Points of this run that the advice was made from.
    pub derived_from: Vec<u32>,
    /// What was extrapolated; nothing where the model stayed between its points.
    #[serde(default)]
    pub extrapolated: Vec<String>,
    /// Predictions and measurements.
    pub compared: Vec<Compared>,
    /// What it came to.
    pub verdict: CheckVerdict,
    /// Why.
    pub why: String,
    /// Name of the run that measured it, in the same database.
    pub run: String,
    /// That run's identity.
    pub uuid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_delay_are_read_and_printed_and_nonsense_is_refused() {
        let goal: DelayGoal = "p99 < 50us".parse().unwrap();
        assert_eq!(goal, DelayGoal { statistic: Statistic::P99, below: Nanos(50_000) });
        assert_eq!("p99.9<=1.5ms".parse::<DelayGoal>().unwrap().below, Nanos(1_500_000));
        assert_eq!(goal.to_string(), "p99 < 50 µs");
        for (text, shown) in [("p50<10002us", "p50 < 10002 µs"), ("mean<1000001ns", "mean < 1000001 ns")] {
            let goal: DelayGoal = text.parse().unwrap();
            assert_eq!((goal.to_string().as_str(), goal.to_string().parse()), (shown, Ok(goal)));
        }
        let json = serde_json::to_string(&goal).unwrap();
        assert_eq!(serde_json::from_str::<DelayGoal>(&json).unwrap(), goal);
        for text in ["", "p99", "p99 < ", "p99 < 50", "p98 < 50us", "p99 > 50us", "p99 < 0ns", "50us"] {
            let error = text.parse::<DelayGoal>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("p99 < 50us"), "{error}");
        }
    }

    #[test]
    fn questions_are_typed_as_they_are_stored() {
        for question in Question::ALL {
            assert_eq!(question.name().parse(), Ok(question));
            assert_eq!(serde_json::to_value(question).unwrap(), question.name());
        }
        assert!("hosts".parse::<Question>().unwrap_err().contains("speed, cores, copies"));
    }
}
