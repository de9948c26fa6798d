//! What is known of a packet at each action of a list: what the match says, and what the actions before
//! have done to it. From it follows whether a field can be set.

use super::matching::{ADVERTISEMENT, SOLICITATION, TAG, ether, ip};
use weir_flow::{Field, Key, Match, Needs};

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Whether anything is: in a group, nothing is, and everything is let pass.
    checked: bool,
    ether_type: u16,
    protocol: u8,
    later_fragment: bool,
    tags: u8,
    icmp_type: u128,
    /// Whether its connection was found invalid.
    pub(super) invalid: bool,
}

/// `inv` in `ct_state`.
const INVALID: u128 = 0x10;

/// Tags that a packet may carry.
const TAGS: u8 = 2;

impl Known {
    /// What a match says.
    pub(super) fn of(matching: &Match) -> Self {
        Self::of_key(&matching.key())
    }

    /// The same by the values it demands.
    pub(super) fn of_key(key: &Key) -> Self {
        Self {
            checked: true,
            ether_type: Field::EthType.get(key) as u16,
            protocol: Field::NwProto.get(key) as u8,
            later_fragment: Field::NwFrag.get(key) & 2 != 0,
            tags: u8::from(Field::VlanTci.get(key) & TAG != 0),
            icmp_type: Field::Icmpv6Type.get(key),
            invalid: Field::CtState.get(key) & INVALID != 0,
        }
    }

    /// Nothing, so that all is let pass.
    pub(super) fn nothing() -> Self {
        let (ether_type, protocol, tags) = (0, 0, 0);
        Self {
            checked: false,
            ether_type,
            protocol,
            later_fragment: false,
            tags,
            icmp_type: 0,
            invalid: false,
        }
    }

    /// Whether a packet may be set in this field.
    pub(super) fn has(&self, field: Field) -> bool {
        let tagged = field != Field::VlanVid || self.tags > 0;
        !self.checked || (tagged && self.meets(field.about().needs))
    }

    /// Whether a packet is IP of either version.
    pub(super) fn is_ip(&self) -> bool {
        !self.checked || matches!(self.ether_type, ether::IPV4 | ether::IPV6)
    }

    /// Whether a packet is of this EtherType, as far as is known.
    pub(super) fn may_be(&self, ether_type: u16) -> bool {
        !self.checked || self.ether_type == ether_type
    }

    /// Whether a packet is of this IP protocol.
    pub(super) fn is_of(&self, protocol: u8) -> bool {
        !self.checked || self.protocol == protocol
    }

    /// The source or destination port of the protocol that is known.
    pub(super) fn port(&self, source: bool) -> Option<Field> {
        let pair = match self.protocol {
            ip::TCP => (Field::TcpSrc, Field::TcpDst),
            ip::UDP => (Field::UdpSrc, Field::UdpDst),
            ip::SCTP => (Field::SctpSrc, Field::SctpDst),
            _ => return None,
        };
        let field = if source { pair.0 } else { pair.1 };
        (self.checked && self.has(field)).then_some(field)
    }

    /// Whether what a field needs is there.
    pub(super) fn meets(&self, needs: Needs) -> bool {
        let ipv4 = self.ether_type == ether::IPV4;
        let ipv6 = self.ether_type == ether::IPV6;
        let of = |protocol| self.protocol == protocol && !self.later_fragment;
        let nd = ipv6 && of(ip::ICMPV6);
        match needs {
            Needs::Nothing => true,
            Needs::Vlan => self.tags > 0,
            Needs::Mpls => matches!(self.ether_type, ether::MPLS | ether::MPLS_MULTICAST),
            Needs::Pbb => self.ether_type == ether::PBB,
            Needs::Arp => matches!(self.ether_type, ether::ARP | ether::RARP),
            Needs::Ipv4 => ipv4,
            Needs::Ipv6 => ipv6,
            Needs::Ip => ipv4 || ipv6,
            Needs::Tcp => (ipv4 || ipv6) && of(ip::TCP),
            Needs::Udp => (ipv4 || ipv6) && of(ip::UDP),
            Needs::Sctp => (ipv4 || ipv6) && of(ip::SCTP),
            Needs::Icmp => ipv4 && of(ip::ICMP),
            Needs::Icmpv6 => nd,
            Needs::Nd => nd && matches!(self.icmp_type, SOLICITATION | ADVERTISEMENT),
            Needs::NdSolicit => nd && self.icmp_type == SOLICITATION,
            Needs::NdAdvert => nd && self.icmp_type == ADVERTISEMENT,
        }
    }

    /// What a match must say for packets to have a field.
    pub(super) const fn words(needs: Needs) -> &'static str {
        match needs {
            Needs::Nothing => "",
            Needs::Vlan => "dl_vlan, or vlan_tci=0x1000/0x1000 for any tag",
            Needs::Mpls => "mpls",
            Needs::Pbb => "dl_type=0x88e7",
            Needs::Arp => "arp",
            Needs::Ipv4 => "ip",
            Needs::Ipv6 => "ipv6",
            Needs::Ip => "ip or ipv6",
            Needs::Tcp => "tcp or tcp6",
            Needs::Udp => "udp or udp6",
            Needs::Sctp => "sctp or sctp6",
            Needs::Icmp => "icmp",
            Needs::Icmpv6 => "icmp6",
            Needs::Nd => "icmp6 with icmp_type=135 or 136",
            Needs::NdSolicit => "icmp6 with icmp_type=135",
            Needs::NdAdvert => "icmp6 with icmp_type=136",
        }
    }

    /// A tag is pushed; false if there is no room for it.
    pub(super) fn push_tag(&mut self) -> bool {
        let room = self.tags < TAGS;
        self.tags += u8::from(room);
        room || !self.checked
    }

    /// There is a tag, as the action before saw to.
    pub(super) fn tagged(&mut self, is: bool) {
        self.tags = if is { self.tags.max(1) } else { 0 };
    }

    /// The outer tag is popped.
    pub(super) fn pop_tag(&mut self) {
        self.tags = self.tags.saturating_sub(1);
    }

    /// A header was pushed whose payload is opaque.
    pub(super) fn push_header(&mut self, ether_type: u16) {
        (self.ether_type, self.protocol) = (ether_type, 0);
    }

    /// A header was popped; what is behind it is of this EtherType, or, if 0, of none that is known.
    pub(super) fn pop_header(&mut self, ether_type: u16) {
        self.ether_type = ether_type;
    }
}
