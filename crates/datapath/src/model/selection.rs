//! How a select group chooses a bucket, as the switch's owner says it. `actions/choose.rs` does it.

use serde::Serialize;
use std::str::FromStr;

/// How a select group chooses a bucket for a packet: OpenFlow leaves it to the switch (1.3.5, section 5.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// By a hash of the flow, the same in both directions.
    #[default]
    Flow,
    /// In turns, packet by packet.
    RoundRobin,
}

impl Selection {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::Flow, Self::RoundRobin];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::RoundRobin => "round-robin",
        }
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Selection {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| format!("`{text}` is no way to choose a bucket; write flow or round-robin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_choose_is_read_back_as_it_is_written_and_others_are_refused() {
        for way in Selection::ALL {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        assert!("random".parse::<Selection>().unwrap_err().contains("flow or round-robin"));
    }
}
