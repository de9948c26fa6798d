//! How fast a DUT's cores are: at a clock frequency, or for a share of their time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_units::{Nanos, Ratio};

/// Clock frequencies that may be asked for, in MHz.
const CLOCKS: std::ops::RangeInclusive<u32> = 100..=10_000;

/// Shares that may be asked for, in percent.
const SHARES: std::ops::RangeInclusive<u8> = 5..=100;

/// How fast a DUT's cores are. As text: `1.5GHz`, `800MHz`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Frequency {
    /// So many MHz, by cpufreq: the cores' least and greatest frequency at once.
    Clock(u32),
    /// So many percent of the time of each core, held back for the rest.
    Share(u8),
}

/// What is no frequency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no frequency; write a clock of 100MHz to 10GHz (\"1.5GHz\", \"800MHz\"), or 5% to 100% of the cores' time (\"50%\")"
)]
pub struct FrequencyError(String);

impl Frequency {
    /// The share that a core is held to; nothing where it is held to none.
    pub fn held(self) -> Option<u8> {
        match self {
            Self::Share(percent) => (percent < *SHARES.end()).then_some(percent),
            Self::Clock(_) => None,
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::Clock(megahertz) if *megahertz >= 1_000 => format!("{}GHz", f64::from(*megahertz) / 1e3),
            Self::Clock(megahertz) => format!("{megahertz}MHz"),
            Self::Share(percent) => format!("{percent}%"),
        })
    }
}

impl FromStr for Frequency {
    type Err = FrequencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |suffix: &str| text.strip_suffix(suffix)?.trim_end().parse::<f64>().ok();
        let clock = |scale: f64| move |number: f64| Self::Clock((number * scale).round() as u32);
        let found = number("GHz").map(clock(1e3)).or_else(|| number("MHz").map(clock(1.0))).or_else(|| {
            let percent = number("%").filter(|percent| percent.fract() == 0.0)?;
            Some(Self::Share(percent as u8))
        });
        let possible = found.filter(|found| match found {
            Self::Clock(megahertz) => CLOCKS.contains(megahertz),
            Self::Share(percent) => SHARES.contains(percent),
        });
        possible.ok_or_else(|| FrequencyError(text.to_owned()))
    }
}

impl TryFrom<String> for Frequency {
    type Error = FrequencyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Frequency> for String {
    fn from(frequency: Frequency) -> Self {
        frequency.to_string()
    }
}

/// What a DUT had of its cores in a trial in which it was held back, as the lab's holding threads saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The share that it was to have, in percent.
    pub percent: u8,
    /// Time that its forwarding threads ran, by the kernel's account.
    pub ran: Nanos,
    /// Time that the lab kept its cores from it.
    pub kept: Nanos,
    /// The time of which these are parts: of all its cores together.
    pub of: Nanos,
}

impl Held {
    /// The share that it had.
    pub fn share(&self) -> Ratio {
        Ratio(self.ran.seconds() / self.of.seconds().max(1e-9))
    }
}

impl std::ops::Add for Held {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |a: Nanos, b: Nanos| Nanos(a.0 + b.0);
        Self {
            percent: self.percent.max(other.percent),
            ran: sum(self.ran, other.ran),
            kept: sum(self.kept, other.kept),
            of: sum(self.of, other.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_read_and_printed_and_what_is_none_is_refused() {
        for (text, frequency) in [
            ("1.5GHz", Frequency::Clock(1_500)),
            ("2GHz", Frequency::Clock(2_000)),
            ("800MHz", Frequency::Clock(800)),
            ("50%", Frequency::Share(50)),
            ("100%", Frequency::Share(100)),
        ] {
            assert_eq!(text.parse(), Ok(frequency));
            assert_eq!(frequency.to_string(), text);
            let json = serde_json::to_string(&frequency).unwrap();
            assert_eq!(serde_json::from_str::<Frequency>(&json).unwrap(), frequency);
        }
        assert_eq!("2500 MHz".parse(), Ok(Frequency::Clock(2_500)));
        for text in ["0%", "4%", "101%", "12.5%", "-50%", "1e9GHz", "NaNGHz", "20MHz", "fast", "", "%", "50"]
        {
            let error = text.parse::<Frequency>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("\"1.5GHz\""), "{error}");
        }
    }

    #[test]
    fn a_whole_core_is_held_to_nothing() {
        assert_eq!(Frequency::Share(25).held(), Some(25));
        assert_eq!(Frequency::Share(100).held(), None);
        assert_eq!(Frequency::Clock(1_000).held(), None);
        let held = Held { percent: 25, ran: Nanos(26_000), kept: Nanos(70_000), of: Nanos(100_000) };
        assert!(((held + held).share().0 - 0.26).abs() < 1e-9);
    }
}
