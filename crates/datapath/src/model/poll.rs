//! How a worker waits for packets, as its owner says it. `worker/wait.rs` does it.

use serde::Serialize;
use std::str::FromStr;
use weir_units::Nanos;

/// How long a packet may wait for a worker that is not told.
const WITHIN: Nanos = Nanos(100_000);

/// The least that can be stated: below, no system's timer is of use.
const LEAST: Nanos = Nanos(10_000);

/// The most: a port's ring has to hold what comes meanwhile.
const MOST: Nanos = Nanos(10_000_000);

/// How workers wait for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// By polling on: the least latency, and the whole core.
    #[default]
    Busy,
    /// By polling on, and letting whoever shares the core poll after each round.
    Yield,
    /// By backing off, such that a packet waits no longer than this for its worker, but for sleeps that are late.
    Adaptive {
        /// How long a packet may wait.
        within: Nanos,
    },
}

impl std::fmt::Display for PollMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str("busy"),
            Self::Yield => f.write_str("yield"),
            Self::Adaptive { within } => write!(f, "adaptive:{}us", within.0 as f64 / 1e3),
        }
    }
}

impl Serialize for PollMode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for PollMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let within = match text.split_once(':') {
            None if text == "busy" => return Ok(Self::Busy),
            None if text == "yield" => return Ok(Self::Yield),
            None if text == "adaptive" => WITHIN,
            Some(("adaptive", within)) => {
                within.parse().map_err(|error| format!("`{text}`: {error}; write such as adaptive:100us"))?
            }
            _ => {
                return Err(format!(
                    "`{text}` is no way to wait; write busy, yield, adaptive, or adaptive:TIME such as adaptive:100us"
                ));
            }
        };
        if (LEAST..=MOST).contains(&within) {
            Ok(Self::Adaptive { within })
        } else {
            Err(format!("`{text}`: a packet may wait for 10us to 10ms"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_wait_is_read_back_as_it_is_written() {
        for (text, mode) in [
            ("busy", PollMode::Busy),
            ("yield", PollMode::Yield),
            ("adaptive:100us", PollMode::Adaptive { within: WITHIN }),
            ("adaptive:2000us", PollMode::Adaptive { within: Nanos(2_000_000) }),
        ] {
            assert_eq!(text.parse(), Ok(mode));
            assert_eq!(mode.to_string(), text);
        }
        assert_eq!("adaptive".parse(), Ok(PollMode::Adaptive { within: WITHIN }));
        for (text, named) in [
            ("lazy", "busy, yield, adaptive"),
            ("adaptive:1s", "10us to 10ms"),
            ("adaptive:1us", "10us to 10ms"),
            ("adaptive:soon", "adaptive:100us"),
            ("busy:1us", "busy, yield, adaptive"),
            ("yield:1us", "busy, yield, adaptive"),
        ] {
            let error = text.parse::<PollMode>().unwrap_err();
            assert!(error.contains(named) && error.contains(text), "{error}");
        }
    }
}
