//! What a fault port is to do wrong.

use super::Chance;
use weir_units::Nanos;

/// `KEY=VALUE` with commas between them, before the `:` of the port behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultSpec {
    pub(crate) drop: Chance,
    pub(crate) dup: Chance,
    pub(crate) reorder: Chance,
    pub(crate) corrupt: Chance,
    pub(crate) truncate: Chance,
    /// How late each packet comes.
    pub(crate) delay: Nanos,
    pub(crate) partial: Chance,
    pub(crate) stall: Chance,
    /// How long the port stands still then.
    pub(crate) pause: Nanos,
    pub(crate) seed: u64,
}

/// How long the port stands still if that is not said.
const PAUSE: Nanos = Nanos(1_000_000);

impl FaultSpec {
    /// Reads what stands between `fault:` and the next colon.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Self { pause: PAUSE, ..Self::default() };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "drop" => spec.drop = chance(key, value)?,
                "dup" => spec.dup = chance(key, value)?,
                "reorder" => spec.reorder = chance(key, value)?,
                "corrupt" => spec.corrupt = chance(key, value)?,
                "truncate" => spec.truncate = chance(key, value)?,
                "delay" => spec.delay = time(key, value)?,
                "partial" => spec.partial = chance(key, value)?,
                "stall" => {
                    let (share, pause) = value.split_once('/').unwrap_or((value, ""));
                    spec.stall = chance(key, share)?;
                    if !pause.is_empty() {
                        spec.pause = time(key, pause)?;
                    }
                }
                "seed" => {
                    spec.seed = value.parse().map_err(|_| format!("`{part}`: write a whole number"))?;
                }
                _ => {
                    return Err(format!(
                        "`{part}` is none of drop=, dup=, reorder=, corrupt=, truncate=, delay=, partial=, \
                         stall=, seed="
                    ));
                }
            }
        }
        if spec == (Self { pause: spec.pause, seed: spec.seed, ..Self::default() }) {
            return Err("it does nothing wrong: write such as fault:drop=0.01:null".to_owned());
        }
        Ok(spec)
    }
}

/// A share such as `0.01` or `1%`.
fn chance(key: &str, value: &str) -> Result<Chance, String> {
    let (number, scale) = value.strip_suffix('%').map_or((value, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / scale);
    share
        .and_then(Chance::new)
        .ok_or_else(|| format!("`{key}={value}`: write a share of the packets, 0 to 1 or 0% to 100%"))
}

fn time(key: &str, value: &str) -> Result<Nanos, String> {
    const UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = UNITS.iter().find_map(|(unit, nanos)| {
        let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
        (0.0..=60e9).contains(&(number * nanos)).then_some(Nanos((number * nanos) as u64))
    });
    found.ok_or_else(|| format!("`{key}`: `{value}` is no time up to 60s; write such as 50us or 2ms"))
}
