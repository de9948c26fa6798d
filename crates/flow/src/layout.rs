//! Where the headers of a packet start.

/// Offsets into a frame, found once when its key is extracted, so that actions and services need not
/// parse again. An offset is 0 where the packet has no such header: nothing but Ethernet starts there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// The EtherType that the key has: 12, or behind tags, LLC and SNAP. In an IEEE 802.3 frame that has
    /// none, its length. 0 only in frames shorter than an Ethernet header, which have no other offset.
    pub ether_type: u16,
    /// The first MPLS label stack entry.
    pub mpls: u16,
    /// The network header (IPv4, IPv6, ARP); 0 also where it is malformed, and below MPLS and PBB.
    pub network: u16,
    /// The transport header (TCP, UDP, SCTP, ICMP), if it is whole; 0 also for fragments other than
    /// the first.
    pub transport: u16,
    /// What the transport header carries; for ICMP, what is behind its first 8 bytes.
    pub payload: u16,
    /// Where the network packet ends: padding of short frames is behind it. Without a network header,
    /// where the frame ends.
    pub end: u16,
}
