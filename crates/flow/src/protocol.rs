//! Numbers of protocols that keys tell apart: EtherTypes (IEEE 802 registry) and IP protocols (IANA).

/// The least number that is an EtherType; below it is the length of an IEEE 802.3 frame.
pub const ETHER_TYPE_MIN: u16 = 0x0600;
/// The `eth_type` of IEEE 802.3 frames without a SNAP header that names an EtherType (OpenFlow 1.0,
/// section 3.4).
pub const NO_ETHER_TYPE: u16 = 0x05ff;
/// IPv4.
pub const IPV4: u16 = 0x0800;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// ARP (RFC 826).
pub const ARP: u16 = 0x0806;
/// RARP (RFC 903).
pub const RARP: u16 = 0x8035;
/// A customer VLAN tag follows (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// A service VLAN tag follows (IEEE 802.1ad).
pub const SERVICE_VLAN: u16 = 0x88a8;
/// MPLS (RFC 3032).
pub const MPLS: u16 = 0x8847;
/// MPLS, with an upstream-assigned label (RFC 5332).
pub const MPLS_UPSTREAM: u16 = 0x8848;
/// A service instance tag follows (IEEE 802.1ah, provider backbone bridges).
pub const PBB: u16 = 0x88e7;

/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;

/// ICMPv6 type of neighbour solicitations (RFC 4861, section 4.3).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// ICMPv6 type of neighbour advertisements (RFC 4861, section 4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Bytes of an Ethernet header without tags.
pub const ETHERNET_LEN: usize = 14;
/// Bytes of a VLAN tag, of an MPLS label stack entry, and of a service instance tag behind its TPID up
/// to the customer's addresses.
pub const TAG_LEN: usize = 4;
/// Tags that a key has room for.
pub const MAX_TAGS: usize = 2;
/// MPLS label stack entries that a key has room for.
pub const MAX_LABELS: usize = 3;
/// The bit of `vlan_tci` that says that there is a tag; in the frame it is the drop eligible indicator,
/// which no field has.
pub const TAG_PRESENT: u16 = 0x1000;
/// The bit of a label stack entry that says that it is the last (RFC 3032, section 2.1).
pub const BOTTOM_OF_STACK: u32 = 0x100;

/// Bit 0 of `nw_frag`: a fragment.
pub const FRAGMENT_ANY: u8 = 1;
/// Bit 1 of `nw_frag`: not the first.
pub const FRAGMENT_LATER: u8 = 2;

/// Whether a VLAN tag follows an EtherType.
#[inline]
pub const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, VLAN | SERVICE_VLAN)
}

/// Whether a label stack follows an EtherType.
#[inline]
pub const fn is_mpls(ether_type: u16) -> bool {
    matches!(ether_type, MPLS | MPLS_UPSTREAM)
}
