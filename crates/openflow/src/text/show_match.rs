//! Matches, as text, in the order of Open vSwitch; Weir's own fields come first.

use super::matching::{PROTOCOLS, TAG, ether, ip};
use super::spelling::Spelling;
use super::value::{Masked, show_match};
use crate::Names;
use std::fmt::Write;
use weir_flow::{Field, Key, Mask, Match, ones};

/// Fields in front of the protocol.
const FIRST: &[Field] = &[
    Field::SfStage,
    Field::SfAction,
    Field::SfMetadata,
    Field::PktMark,
    Field::RecircId,
    Field::ConjId,
    Field::ActsetOutput,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwSrc,
    Field::CtIpv6Src,
    Field::CtNwDst,
    Field::CtIpv6Dst,
    Field::CtNwProto,
    Field::CtTpSrc,
    Field::CtTpDst,
];

/// Fields between the registers and the tag.
const MIDDLE: &[Field] = &[Field::TunId, Field::TunSrc, Field::TunDst, Field::Metadata, Field::InPort];

/// Fields behind the network addresses.
const LAST: &[Field] = &[
    Field::NwEcn,
    Field::NwTtl,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsTtl,
    Field::MplsBos,
    Field::NwFrag,
];

/// Fields that are printed somewhere else: registers, tags, and those of the network and transport headers.
const APART: &[Field] = &[
    Field::VlanTci,
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::NwSrc,
    Field::NwDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::Ipv6Exthdr,
    Field::PbbIsid,
    Field::NwProto,
    Field::NwTos,
    Field::ArpSha,
    Field::ArpTha,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::NdTarget,
];

/// All others, behind those that they may need.
const REST: &[Field] = WITHOUT.0.split_at(WITHOUT.1).0;

const WITHOUT: ([Field; Field::ALL.len()], usize) =
    Field::owners_without(&[FIRST, MIDDLE, LAST, APART, Field::REGISTERS]);

struct Printer<'a> {
    out: String,
    names: &'a Names,
    key: Key,
    mask: Mask,
}

/// The match as text; empty if everything matches.
pub(super) fn show(matching: &Match, names: &Names, priority: Option<u16>) -> String {
    let mut printer = Printer { out: String::new(), names, key: matching.key(), mask: matching.mask() };
    if let Some(priority) = priority {
        let _ = write!(printer.out, "priority={priority},");
    }
    printer.all();
    let mut out = printer.out;
    if out.ends_with(',') {
        out.pop();
    }
    out
}

impl Printer<'_> {
    fn get(&self, field: Field) -> Masked {
        (field.get(&self.key), field.mask_of(&self.mask))
    }

    fn field_as(&mut self, name: &str, field: Field) {
        let masked = self.get(field);
        show_match(&mut self.out, name, field, masked, self.names);
    }

    fn fields(&mut self, fields: &[Field]) {
        for &field in fields {
            self.field_as(field.name(), field);
        }
    }

    fn all(&mut self) {
        let ether_type = self.get(Field::EthType);
        let known = ether_type.1 == ones(16);
        let kind = if known { ether_type.0 as u16 } else { 0 };
        let (protocol, protocol_mask) = self.get(Field::NwProto);
        let protocol = (protocol_mask == ones(8)).then_some(protocol as u8);

        self.fields(FIRST);
        let (named_type, named_protocol) = self.protocol(kind, protocol);
        self.fields(Field::REGISTERS);
        self.fields(MIDDLE);
        self.tag();
        self.fields(&[Field::EthSrc, Field::EthDst]);
        if !named_type && ether_type.1 != 0 {
            let whole = (ether_type.0, ones(16));
            let _ = write!(self.out, "dl_type={:#06x},", whole.0);
        }
        self.network(kind, if named_protocol { None } else { protocol });
        self.transport(kind, protocol);
        self.fields(REST);
    }

    /// `tcp` and the like; says whether it covers the EtherType, and the protocol.
    fn protocol(&mut self, kind: u16, protocol: Option<u8>) -> (bool, bool) {
        let arp = matches!(kind, ether::ARP | ether::RARP);
        let of = |wanted| PROTOCOLS.iter().find(|row| (row.1, row.2) == (kind, wanted) && kind != 0);
        let both = of(protocol).filter(|_| protocol.is_some() && !arp);
        // Open vSwitch prints `ipv6`, not `ip6`: the first of its words.
        let Some(row) = both.or_else(|| of(None)) else { return (false, false) };
        self.out.push_str(row.0);
        self.out.push(',');
        (true, both.is_some())
    }

    fn tag(&mut self) {
        let (value, mask) = self.get(Field::VlanTci);
        let (vid, pcp) = (mask & ones(12), mask & ones(3) << 13);
        let whole = |part: u128, all: u128| part == 0 || part == all;
        let tagged = mask & TAG != 0 && value & TAG != 0;
        if mask == 0 {
        } else if tagged && mask != TAG && whole(vid, ones(12)) && whole(pcp, ones(3) << 13) {
            if vid != 0 {
                let _ = write!(self.out, "dl_vlan={},", value & ones(12));
            }
            if pcp != 0 {
                let _ = write!(self.out, "dl_vlan_pcp={},", value >> 13);
            }
        } else if mask == ones(16) {
            let _ = write!(self.out, "vlan_tci={value:#06x},");
        } else {
            let _ = write!(self.out, "vlan_tci={value:#06x}/{mask:#06x},");
        }
    }

    fn network(&mut self, kind: u16, protocol: Option<u8>) {
        match kind {
            ether::IPV6 => {
                self.fields(&[Field::Ipv6Src, Field::Ipv6Dst]);
                self.label();
                self.fields(&[Field::Ipv6Exthdr]);
            }
            ether::ARP | ether::RARP => self.fields(&[Field::ArpSpa, Field::ArpTpa]),
            ether::PBB => self.fields(&[Field::PbbIsid]),
            _ => self.fields(&[Field::NwSrc, Field::NwDst]),
        }
        if let Some(protocol) = protocol {
            let _ = write!(self.out, "nw_proto={protocol},");
        }
        if matches!(kind, ether::ARP | ether::RARP) {
            self.fields(&[Field::ArpOp, Field::ArpSha, Field::ArpTha]);
        }
        let (tos, mask) = self.get(Field::NwTos);
        if mask != 0 {
            let _ = write!(self.out, "nw_tos={},", tos << 2);
        }
        self.fields(LAST);
    }

    /// Five digits, and with a mask as 32 bits.
    fn label(&mut self) {
        let (value, mask) = self.get(Field::Ipv6Label);
        let _ = match mask {
            0 => Ok(()),
            mask if mask == ones(20) => write!(self.out, "ipv6_label={value:#07x},"),
            mask => write!(self.out, "ipv6_label={value:#07x}/{mask:#07x},"),
        };
    }

    fn transport(&mut self, kind: u16, protocol: Option<u8>) {
        let (ipv4, ipv6) = (kind == ether::IPV4, kind == ether::IPV6);
        match protocol {
            Some(ip::ICMP) if ipv4 => self.icmp(),
            Some(ip::ICMPV6) if ipv6 => {
                self.icmp();
                self.fields(&[Field::NdTarget, Field::NdSll, Field::NdTll]);
            }
            Some(ip::TCP | ip::UDP | ip::SCTP) if ipv4 || ipv6 => {
                self.field_as("tp_src", Field::TcpSrc);
                self.field_as("tp_dst", Field::TcpDst);
                if protocol == Some(ip::TCP) {
                    self.fields(&[Field::TcpFlags]);
                }
            }
            _ => {}
        }
    }

    fn icmp(&mut self) {
        for (name, port, field) in
            [("icmp_type", "tp_src", Field::TcpSrc), ("icmp_code", "tp_dst", Field::TcpDst)]
        {
            let (value, mask) = self.get(field);
            if mask == 0xff {
                let _ = write!(self.out, "{name}={value},");
            } else {
                // Other masks, and values that no packet has, are only to be had by the port's name.
                self.field_as(port, field);
            }
        }
    }
}

/// The name of a field where it is set.
pub(super) fn set_name(field: Field) -> &'static str {
    Spelling::of(field).map_or(field.name(), |spelling| spelling.name)
}
