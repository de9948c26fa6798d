//! Where the headers of a packet start.

/// Offsets into a frame, found once when its key is extracted, so that actions and services need not
/// parse again. An offset is 0 where the packet has no such header: nothing but Ethernet starts there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// The EtherType that the key has: 12, or behind the tags.
    pub ether_type: u16,
    /// The first MPLS label stack entry.
    pub mpls: u16,
    /// The network header (IPv4, IPv6, ARP).
    pub network: u16,
    /// The transport header (TCP, UDP, SCTP, ICMP); 0 also for fragments other than the first.
    pub transport: u16,
    /// What the transport header carries.
    pub payload: u16,
    /// Where the network packet ends: padding of short frames is behind it.
    pub end: u16,
}
