//! Which fields there are, and which of them a flow's packets must have: Open vSwitch refuses an action
//! whose prerequisites neither the match has nor an action before (OpenFlow 1.3.5, section 5.12).

use weir_flow::{Field, Needs};

/// Fields that are matched, and written where they can be.
pub(crate) const FIELDS: &[Field] = &[
    Field::Metadata,
    Field::TunId,
    Field::PktMark,
    Field::Reg0,
    Field::Reg1,
    Field::Reg7,
    Field::Reg15,
    Field::Xreg0,
    Field::Xreg3,
    Field::Xxreg0,
    Field::EthDst,
    Field::EthSrc,
    Field::VlanTci,
    Field::VlanVid,
    Field::VlanPcp,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::ArpOp,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::ArpSha,
    Field::ArpTha,
    Field::NwSrc,
    Field::NwDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::NwTos,
    Field::NwEcn,
    Field::NwTtl,
    Field::NwFrag,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::IcmpType,
    Field::IcmpCode,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::NdTarget,
    Field::NdSll,
    Field::NdTll,
];

/// What is known of the packets of a flow at an action.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) ether_type: u16,
    pub(crate) protocol: u8,
    /// The ICMPv6 type of neighbour discovery, or 0.
    pub(crate) neighbour: u8,
    /// Whether there is a tag, if that is known.
    pub(crate) tag: Option<bool>,
    /// Whether the outermost label is the last, if that is known.
    pub(crate) bottom: Option<bool>,
}

impl Known {
    pub(crate) const NOTHING: Self =
        Self { ether_type: 0, protocol: 0, neighbour: 0, tag: None, bottom: None };

    pub(crate) fn ip(self) -> bool {
        matches!(self.ether_type, 0x0800 | 0x86dd)
    }

    pub(crate) fn mpls(self) -> bool {
        matches!(self.ether_type, 0x8847 | 0x8848)
    }

    pub(crate) fn has(self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Vlan => self.tag == Some(true),
            Needs::Mpls => self.mpls(),
            Needs::Pbb => false,
            Needs::Arp => matches!(self.ether_type, 0x0806 | 0x8035),
            Needs::Ipv4 => self.ether_type == 0x0800,
            Needs::Ipv6 => self.ether_type == 0x86dd,
            Needs::Ip => self.ip(),
            Needs::Tcp => self.ip() && self.protocol == 6,
            Needs::Udp => self.ip() && self.protocol == 17,
            Needs::Sctp => self.ip() && self.protocol == 132,
            Needs::Icmp => self.ether_type == 0x0800 && self.protocol == 1,
            Needs::Icmpv6 => self.ether_type == 0x86dd && self.protocol == 58,
            Needs::Nd => self.neighbour != 0,
            Needs::NdSolicit => self.neighbour == 135,
            Needs::NdAdvert => self.neighbour == 136,
        }
    }

    pub(crate) fn may_write(self, field: Field) -> bool {
        let needs = if field == Field::VlanVid { Needs::Vlan } else { field.about().needs };
        // Open vSwitch has these read only.
        let fixed = matches!(field, Field::EthType | Field::MplsBos | Field::NwProto);
        field.about().writable && !fixed && self.has(needs)
    }
}
