//! Network functions, described once for every dataplane.
//!
//! What an [`Nf`] says in a word, [`Nf::routes`] and [`Nf::rules`] say in full: adapters translate
//! these to their dataplane's own language, so that all devices are given the same work.

mod routes;
mod rules;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weir_wire::table::{Route, Rule};

/// A network function: what must happen to a packet, whatever the dataplane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Nf {
    /// Forward from each port to the other; MAC addresses untouched.
    L2Fwd,
    /// Route IPv4 by longest prefix: TTL lowered, checksum mended, both MAC addresses rewritten.
    L3Fwd {
        /// Routes in the table, as [`Nf::routes`] lays them out.
        routes: u32,
    },
    /// Forward from each port to the other what no rule denies; rules match the IPv4 five-tuple.
    Firewall {
        /// Rules in the list, as [`Nf::rules`] lays them out, the last one included that lets
        /// everything else pass.
        rules: u32,
    },
}

/// The kind of a network function, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NfKind {
    /// [`Nf::L2Fwd`].
    L2Fwd,
    /// [`Nf::L3Fwd`].
    L3Fwd,
    /// [`Nf::Firewall`].
    Firewall,
}

/// A text that names no network function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no network function Weir knows; write l2fwd, l3fwd, l3fwd:N (N routes), firewall or firewall:N (N rules), \
     with N from 1 to {}",
    Nf::MAX_ENTRIES
)]
pub struct ParseNfError {
    text: String,
}

impl Nf {
    /// Routes and rules when none are stated: what both editions of the benchmarking paper use (section 3.3).
    pub const DEFAULT_ENTRIES: u32 = 10;
    /// The largest table the adapters build.
    pub const MAX_ENTRIES: u32 = 100_000;

    /// The kind.
    pub const fn kind(self) -> NfKind {
        match self {
            Self::L2Fwd => NfKind::L2Fwd,
            Self::L3Fwd { .. } => NfKind::L3Fwd,
            Self::Firewall { .. } => NfKind::Firewall,
        }
    }

    /// Routes or rules; nothing for a function without a table.
    pub const fn entries(self) -> Option<u32> {
        match self {
            Self::L2Fwd => None,
            Self::L3Fwd { routes } => Some(routes),
            Self::Firewall { rules } => Some(rules),
        }
    }

    /// The routing table; empty unless this is [`Nf::L3Fwd`].
    ///
    /// The test network is 198.18.0.0/15 (RFC 2544, appendix C.2.2.2): 198.18.0.0/16 leaves by port
    /// 0, 198.19.0.0/16 by port 1. Of `N` routes half, and the odd one, divide 198.19.0.0/16; the
    /// others divide 198.18.0.0/16. Each half is covered exactly: its largest prefix is halved, the
    /// lowest first, until there are enough, so lengths differ by one at most. A single route is
    /// 198.19.0.0/16 alone, and what goes the other way has none.
    pub fn routes(self) -> Vec<Route> {
        match self {
            Self::L3Fwd { routes } => routes::divide(routes),
            _ => Vec::new(),
        }
    }

    /// The list of rules; empty unless this is [`Nf::Firewall`].
    ///
    /// Of `N` rules `N - 1` deny, and the last lets everything pass. Each deny rule names TCP or
    /// UDP, a source and a destination prefix (/16 to /32) in opposite halves of the test network,
    /// all client ports or one range of them, and a destination port or range below
    /// [`FIRST_FREE_PORT`]. Weir's traces keep to ports from there on: their packets pass by
    /// the last rule. A classifier that tells those ports apart first never looks at the others, so
    /// what a rule costs shows only under traffic to lower ports. The list is the same wherever it is made, and a longer list begins
    /// with the deny rules of a shorter one.
    pub fn rules(self) -> Vec<Rule> {
        match self {
            Self::Firewall { rules } => rules::list(rules),
            _ => Vec::new(),
        }
    }
}

/// The first port that no deny rule of [`Nf::rules`] names as destination: below lie the system
/// ports (RFC 6335, section 6).
pub const FIRST_FREE_PORT: u16 = 1024;

impl NfKind {
    /// Every kind, in the order of the tables people read.
    pub const ALL: [Self; 3] = [Self::L2Fwd, Self::L3Fwd, Self::Firewall];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2Fwd => "l2fwd",
            Self::L3Fwd => "l3fwd",
            Self::Firewall => "firewall",
        }
    }
}

impl fmt::Display for Nf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::L2Fwd => f.pad("l2fwd"),
            Self::L3Fwd { routes } => f.pad(&format!("l3fwd:{routes}")),
            Self::Firewall { rules } => f.pad(&format!("firewall:{rules}")),
        }
    }
}

impl FromStr for Nf {
    type Err = ParseNfError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseNfError { text: text.to_owned() };
        let (name, entries) = match text.split_once(':') {
            None => (text, None),
            Some((name, number)) => {
                let entries = number.parse().ok().filter(|n| (1..=Self::MAX_ENTRIES).contains(n));
                (name, Some(entries.ok_or_else(error)?))
            }
        };
        match (name, entries) {
            ("l2fwd", None) => Ok(Self::L2Fwd),
            ("l3fwd", routes) => Ok(Self::L3Fwd { routes: routes.unwrap_or(Self::DEFAULT_ENTRIES) }),
            ("firewall", rules) => Ok(Self::Firewall { rules: rules.unwrap_or(Self::DEFAULT_ENTRIES) }),
            _ => Err(error()),
        }
    }
}

impl From<Nf> for String {
    fn from(nf: Nf) -> Self {
        nf.to_string()
    }
}

impl TryFrom<String> for Nf {
    type Error = ParseNfError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for (text, nf) in [
            ("l2fwd", Nf::L2Fwd),
            ("l3fwd:1000", Nf::L3Fwd { routes: 1000 }),
            ("firewall:10", Nf::Firewall { rules: 10 }),
        ] {
            assert_eq!(text.parse(), Ok(nf));
            assert_eq!(nf.to_string(), text);
        }
        assert_eq!("l3fwd".parse(), Ok(Nf::L3Fwd { routes: 10 }));
    }

    #[test]
    fn unknown_names_and_sizes_are_refused_with_the_choices() {
        for text in ["router", "l2fwd:3", "l3fwd:0", "firewall:x", "l3fwd:100001"] {
            let error = text.parse::<Nf>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("l3fwd:N"), "{error}");
        }
    }
}
