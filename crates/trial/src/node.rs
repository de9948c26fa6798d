//! On which NUMA node a DUT's cores are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a DUT's cores are, seen from the tester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeUse {
    /// On the tester's node.
    Same,
    /// On another one.
    Other,
}

impl NodeUse {
    /// Every place.
    pub const ALL: [Self; 2] = [Self::Same, Self::Other];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for NodeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NodeUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| format!("`{text}` is no node; write same or other"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_and_printed() {
        for node in NodeUse::ALL {
            assert_eq!(node.to_string().parse(), Ok(node));
            assert_eq!(serde_json::to_string(&node).unwrap(), format!("\"{node}\""));
        }
        assert!("1".parse::<NodeUse>().unwrap_err().contains("same or other"));
    }
}
