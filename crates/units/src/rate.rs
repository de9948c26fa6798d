//! Rates, durations and ratios, with the text forms people type: `12.4Mpps`, `10Gbps`, `250ms`, `0.5%`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Pps(pub f64);

/// Bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bps(pub f64);

/// Nanoseconds: a duration, or an instant since a stated epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A part of a whole, 0 to 1 (0.005 is half a percent).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Ratio(pub f64);

/// A text that is not a quantity with a known unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write {example}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl Nanos {
    /// Nanoseconds in one second.
    pub const PER_SECOND: u64 = 1_000_000_000;

    /// The duration in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / Self::PER_SECOND as f64
    }

    /// A duration from seconds; negative and non-finite values become zero.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds.max(0.0) * Self::PER_SECOND as f64).round() as u64)
    }

    /// As the standard library's duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: f64, unit: &str, prefixes: &[(f64, &str)]) -> fmt::Result {
    let magnitude = value.abs();
    let (scale, prefix) =
        prefixes.iter().copied().find(|(scale, _)| magnitude >= *scale).unwrap_or((1.0, ""));
    let scaled = value / scale;
    let decimals = f.precision().unwrap_or(match scaled.abs() {
        _ if prefix.is_empty() && scaled.fract() == 0.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    });
    f.pad(&format!("{scaled:.decimals$} {prefix}{unit}"))
}

impl fmt::Display for Pps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, "pps", &[(1e6, "M"), (1e3, "k")])
    }
}

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, "b/s", &[(1e9, "G"), (1e6, "M"), (1e3, "k")])
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..1_000 => (1.0, "ns"),
            1_000..1_000_000 => (1e3, "µs"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / scale;
        let decimals = f.precision().unwrap_or(match value {
            v if v.fract() == 0.0 || v >= 100.0 => 0,
            v if v >= 10.0 => 1,
            _ => 2,
        });
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let decimals = f.precision().unwrap_or(if percent != 0.0 && percent.abs() < 0.01 { 5 } else { 2 });
        f.pad(&format!("{percent:.decimals$} %"))
    }
}

/// Splits `12.4Mpps` into the number and the unit, both trimmed.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(i, c)| {
            let exponent_sign = matches!(c, '+' | '-') && text[..*i].ends_with(['e', 'E']);
            let exponent = matches!(c, 'e' | 'E')
                && text[i + 1..].starts_with(|n: char| n.is_ascii_digit() || n == '-' || n == '+');
            !(c.is_ascii_digit() || matches!(c, '.' | '_') || exponent || exponent_sign)
        })
        .map_or(text.len(), |(i, _)| i);
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number, text[end..].trim()))
}

fn parse<T>(
    text: &str,
    what: &'static str,
    example: &'static str,
    convert: impl Fn(f64, &str) -> Option<T>,
) -> Result<T, ParseUnitError> {
    split(text).and_then(|(number, unit)| convert(number, unit)).ok_or_else(|| ParseUnitError {
        text: text.to_owned(),
        what,
        example,
    })
}

impl FromStr for Pps {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, "a packet rate", "for example 9001pps, 250kpps or 1.5Mpps", |number, unit| {
            let scale = match unit.to_ascii_lowercase().as_str() {
                "pps" => 1.0,
                "kpps" => 1e3,
                "mpps" => 1e6,
                "gpps" => 1e9,
                _ => return None,
            };
            Some(Self(number * scale))
        })
    }
}

impl FromStr for Bps {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, "a bit rate", "for example 100Mbps, 10Gbps or 40Gb/s", |number, unit| {
            let unit = unit.to_ascii_lowercase();
            let scale = match unit.strip_suffix("bps").or_else(|| unit.strip_suffix("b/s"))? {
                "" => 1.0,
                "k" => 1e3,
                "m" => 1e6,
                "g" => 1e9,
                "t" => 1e12,
                _ => return None,
            };
            Some(Self(number * scale))
        })
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, "a duration", "for example 500ms, 1s, 2min or 1h", |number, unit| {
            let scale = match unit {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" | "min" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
            Some(Self((number * scale).round() as u64))
        })
    }
}

impl FromStr for Ratio {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, "a ratio between 0 and 1", "for example 0.005 or 0.5%", |number, unit| {
            let value = match unit {
                "" => number,
                "%" => number / 100.0,
                _ => return None,
            };
            (value <= 1.0).then_some(Self(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_print_with_three_or_more_figures() {
        assert_eq!(Pps(12_412_345.0).to_string(), "12.41 Mpps");
        assert_eq!(Pps(9_001.0).to_string(), "9.001 kpps");
        assert_eq!(Pps(100.0).to_string(), "100 pps");
        assert_eq!(Bps(10e9).to_string(), "10.00 Gb/s");
        assert_eq!(Nanos(9_100).to_string(), "9.10 µs");
        assert_eq!(Nanos(60_000_000_000).to_string(), "60 s");
        assert_eq!(Ratio(0.005).to_string(), "0.50 %");
        assert_eq!(format!("{:>12}", Pps(1e6)), "  1.000 Mpps");
    }

    #[test]
    fn what_people_type_is_read() {
        assert_eq!("1.5Mpps".parse(), Ok(Pps(1.5e6)));
        assert_eq!("1e3 pps".parse(), Ok(Pps(1e3)));
        assert_eq!("10_000pps".parse(), Ok(Pps(1e4)));
        assert_eq!("40Gbps".parse(), Ok(Bps(40e9)));
        assert_eq!("40 Gb/s".parse(), Ok(Bps(40e9)));
        assert_eq!("250ms".parse(), Ok(Nanos(250_000_000)));
        assert_eq!("0.5%".parse(), Ok(Ratio(0.005)));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        let error = "fast".parse::<Pps>().unwrap_err().to_string();
        assert!(error.contains("`fast`") && error.contains("1.5Mpps"), "{error}");
        assert!("-1Mpps".parse::<Pps>().is_err());
        assert!("12".parse::<Pps>().is_err(), "a rate without its unit is ambiguous");
        assert!("101%".parse::<Ratio>().is_err());
        assert!("NaNs".parse::<Nanos>().is_err());
    }
}
