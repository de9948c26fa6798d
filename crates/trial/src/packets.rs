//! Whether the right packets came out: each compared with what the network function must produce.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What can be wrong with a packet that came out, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The source or destination MAC address is not what the function must write.
    Macs,
    /// The time to live was not lowered by one, or was changed where it must not be.
    Ttl,
    /// The IPv4 header's checksum does not hold.
    Checksum,
    /// Another header field was changed.
    Header,
    /// The payload was changed.
    Payload,
    /// The packet grew or shrank.
    Length,
    /// It left by another port than the function says.
    Port,
    /// A rule denies it, and it came out.
    Denied,
    /// It must come out, and did not (untimed pass only: under load a packet may be lost).
    Missing,
    /// It came more than once.
    Duplicate,
    /// It overtook an earlier packet of its own flow.
    Order,
    /// It is a packet of an earlier trial.
    Stale,
    /// The tester never sent it.
    Foreign,
}

impl Fault {
    /// Every fault, in the order of the tables people read.
    pub const ALL: [Self; 13] = [
        Self::Macs,
        Self::Ttl,
        Self::Checksum,
        Self::Header,
        Self::Payload,
        Self::Length,
        Self::Port,
        Self::Denied,
        Self::Missing,
        Self::Duplicate,
        Self::Order,
        Self::Stale,
        Self::Foreign,
    ];

    /// What it is, in a few words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Macs => "wrong MAC address",
            Self::Ttl => "wrong time to live",
            Self::Checksum => "broken IPv4 checksum",
            Self::Header => "changed header",
            Self::Payload => "changed payload",
            Self::Length => "changed length",
            Self::Port => "wrong port",
            Self::Denied => "denied, but let through",
            Self::Missing => "missing",
            Self::Duplicate => "came twice",
            Self::Order => "overtook its own flow",
            Self::Stale => "an old packet again",
            Self::Foreign => "never sent",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.says())
    }
}

/// Packets with one fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongPackets {
    /// What is wrong.
    pub fault: Fault,
    /// How many.
    pub count: u64,
    /// The first of them, said so that it can be found: flow, what must be there, what was.
    pub example: String,
}

/// What comparing packets with what the function must produce came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PacketCheck {
    /// Packets compared: those that came out, and in an untimed pass those that must not or did not.
    pub compared: u64,
    /// Faults, each kind once; empty when all was right.
    pub wrong: Vec<WrongPackets>,
    /// What was not compared, and why; nothing when all that could be was.
    pub remark: Option<String>,
}

impl PacketCheck {
    /// Notes a packet's fault; the first of its kind becomes the example.
    pub fn note(&mut self, fault: Fault, example: impl FnOnce() -> String) {
        match self.wrong.iter_mut().find(|wrong| wrong.fault == fault) {
            Some(wrong) => wrong.count += 1,
            None => self.wrong.push(WrongPackets { fault, count: 1, example: example() }),
        }
    }

    /// Whether nothing was wrong. A check that compared nothing finds nothing.
    pub fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }
}
