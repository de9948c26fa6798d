//! Messages of Nicira's that have no counterpart in OpenFlow.

use std::net::Ipv6Addr;

/// One direction of a tracked connection; what is none may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtTuple {
    /// Source; an IPv4 address is mapped (::ffff:198.18.0.1).
    pub source: Option<Ipv6Addr>,
    /// Destination.
    pub destination: Option<Ipv6Addr>,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// ICMP identifier.
    pub icmp_id: Option<u16>,
    /// ICMP type.
    pub icmp_type: Option<u8>,
    /// ICMP code.
    pub icmp_code: Option<u8>,
}

/// Tracked connections that are to be forgotten (`NXT_CT_FLUSH`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtFlush {
    /// Their IP protocol; 0 for any.
    pub protocol: u8,
    /// Their zone; none for all.
    pub zone: Option<u16>,
    /// Their original direction.
    pub original: Option<CtTuple>,
    /// Their reply direction.
    pub reply: Option<CtTuple>,
}
