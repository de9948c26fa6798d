//! Connection tracking and address translation, as `ct` and its `nat` say it (`ovs-actions(7)`).

use crate::{Action, TableId};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_flow::{Field, Subfield};

/// Connection tracking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ct {
    /// The connection is kept.
    pub commit: bool,
    /// A connection that began the other way round is replaced.
    pub force: bool,
    /// In which zone.
    pub zone: CtZone,
    /// The table that the packet comes to afterwards, with its connection's state; none, and it goes on
    /// as one that is not tracked.
    pub table: Option<TableId>,
    /// The port by which a helper is known ([`Ct::FTP`]); 0 for none.
    pub helper: u16,
    /// What is done to the connection.
    pub steps: Vec<CtStep>,
}

impl Ct {
    /// The helper for FTP: its control connection's port (RFC 959).
    pub const FTP: u16 = 21;

    /// The helper for TFTP: its server's port (RFC 1350).
    pub const TFTP: u16 = 69;

    /// How addresses are translated, if they are.
    pub fn nat(&self) -> Option<&Nat> {
        self.steps.iter().find_map(|step| match step {
            CtStep::Nat(nat) => Some(nat),
            CtStep::Set(_) => None,
        })
    }
}

/// Where connections are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtZone {
    /// This zone.
    Number(u16),
    /// The zone whose number these 16 bits hold.
    Bits(Subfield),
}

/// What is done to a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CtStep {
    /// Its addresses are translated.
    Nat(Nat),
    /// Its mark or label is set.
    Set(Action),
}

/// Address translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Sources are translated.
    pub source: bool,
    /// Destinations are.
    pub destination: bool,
    /// The same host gets the same address after a restart.
    pub persistent: bool,
    /// The port follows from a hash.
    pub hash: bool,
    /// The port is random.
    pub random: bool,
    /// To which addresses.
    pub range: NatRange,
    /// To which ports: the least and the greatest, each 0 if not given.
    pub ports: (u16, u16),
}

/// Addresses to translate to: the least and, if there are several, the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NatRange {
    /// As the connection says.
    #[default]
    None,
    /// IPv4.
    Ipv4(Ipv4Addr, Option<Ipv4Addr>),
    /// IPv6.
    Ipv6(Ipv6Addr, Option<Ipv6Addr>),
}

/// What reads a connection's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Helper {
    /// RFC 959, RFC 2428.
    Ftp,
    /// RFC 1350: the answer to a request comes from another port.
    Tftp,
}

impl Helper {
    /// The helper that `ct` names by this port.
    pub const fn by_port(port: u16) -> Option<Self> {
        match port {
            Ct::FTP => Some(Self::Ftp),
            Ct::TFTP => Some(Self::Tftp),
            _ => None,
        }
    }

    /// Its name, in flows and dumps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Tftp => "tftp",
        }
    }

    /// The IP protocol of connections that it can be of.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Ftp => 6,
            Self::Tftp => 17,
        }
    }
}

/// A `ct` action whose fields are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tracking {
    /// The zone.
    pub zone: u16,
    /// The connection is kept.
    pub commit: bool,
    /// A connection that began the other way round is replaced.
    pub force: bool,
    /// How addresses are translated, if they are.
    pub nat: Option<Nat>,
    /// Bits of the connection's mark that are set: value and mask.
    pub mark: (u32, u32),
    /// The same of its label.
    pub label: (u128, u128),
    /// What reads the data of a connection that is made.
    pub helper: Option<Helper>,
    /// Whether the packet goes on as one that is not tracked.
    pub forgets: bool,
}

impl Tracking {
    /// The fields that say what is known of a packet's connection.
    pub const FIELDS: [Field; 11] = [
        Field::CtState,
        Field::CtZone,
        Field::CtMark,
        Field::CtLabel,
        Field::CtNwSrc,
        Field::CtNwDst,
        Field::CtNwProto,
        Field::CtTpSrc,
        Field::CtTpDst,
        Field::CtIpv6Src,
        Field::CtIpv6Dst,
    ];
}
