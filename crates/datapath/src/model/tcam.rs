//! What a table of hints is to be.

use serde::Serialize;
use std::str::FromStr;
use weir_units::Nanos;

/// Entries that a table may have: marks of some NICs are 24 bits wide, and workers share them.
const ENTRIES: std::ops::RangeInclusive<u32> = 1..=65_536;

/// The longest that an update may take.
const SLOWEST: Nanos = Nanos(Nanos::PER_SECOND);

/// How long an update takes where nothing is said: about what NICs' flow tables are reported to take.
const LATENCY: Nanos = Nanos(100_000);

/// Who leaves a full table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The least recently used.
    #[default]
    LeastRecent,
    /// The one that the fewest packets a time met.
    LowestRate,
}

impl Eviction {
    const ALL: [(Self, &'static str); 2] =
        [(Self::LeastRecent, "least-recent"), (Self::LowestRate, "lowest-rate")];
}

/// A table in front of each queue of each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcamConfig {
    /// Entries.
    pub entries: u32,
    /// How long each update takes, where the table is emulated.
    pub latency: Nanos,
    /// Who leaves when it is full.
    pub eviction: Eviction,
}

impl std::fmt::Display for TcamConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let evict = Eviction::ALL.iter().find(|(one, _)| *one == self.eviction).map_or("", |(_, name)| name);
        write!(f, "{},latency={}us,evict={evict}", self.entries, self.latency.0 as f64 / 1e3)
    }
}

impl Serialize for TcamConfig {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for TcamConfig {
    type Err = String;

    /// `N[,latency=TIME][,evict=least-recent|lowest-rate]`
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: String| format!("`{text}`: {what}");
        let mut parts = text.split(',');
        let entries = parts.next().unwrap_or_default();
        let entries = entries.parse().ok().filter(|entries| ENTRIES.contains(entries)).ok_or_else(|| {
            let (least, most) = ENTRIES.into_inner();
            wrong(format!("`{entries}` is no number of entries from {least} to {most}"))
        })?;
        let mut config = Self { entries, latency: LATENCY, eviction: Eviction::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("latency", time)) => {
                    config.latency = time.parse().map_err(|error| wrong(format!("{error}")))?;
                    if config.latency > SLOWEST {
                        return Err(wrong("an update takes a second at most".to_owned()));
                    }
                }
                Some(("evict", policy)) => {
                    let known = Eviction::ALL.iter().find(|(_, name)| *name == policy);
                    config.eviction = known.map(|(eviction, _)| *eviction).ok_or_else(|| {
                        wrong(format!("`{policy}` is neither least-recent nor lowest-rate"))
                    })?;
                }
                _ => return Err(wrong(format!("`{part}` is neither latency=TIME nor evict=POLICY"))),
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_back_as_it_is_written_and_mistakes_are_named() {
        let whole = "1024,latency=0us,evict=lowest-rate";
        let config: TcamConfig = whole.parse().unwrap();
        assert_eq!((config.entries, config.latency, config.eviction), (1024, Nanos(0), Eviction::LowestRate));
        assert_eq!(config.to_string(), whole);
        assert_eq!("8".parse::<TcamConfig>().unwrap().to_string(), "8,latency=100us,evict=least-recent");
        for (text, named) in [
            ("", "1 to 65536"),
            ("0", "1 to 65536"),
            ("many", "`many`"),
            ("8,latency=2s", "a second"),
            ("8,latency=soon", "soon"),
            ("8,evict=random", "least-recent"),
            ("8,size=9", "`size=9`"),
        ] {
            let error = text.parse::<TcamConfig>().unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
