//! Matches to the wire, in the order of Open vSwitch: what a field needs comes before it.

use super::{EXPERIMENTER, Row, row_for};
use crate::cursor::Put;
use crate::{FlowForm, Version};
use weir_flow::{Field, Key, Mask, Match, ones};

use Field as F;

/// Fields in front of the network's; tags are written apart.
const FIRST: &[Field] =
    &[F::RecircId, F::ConjId, F::InPort, F::ActsetOutput, F::EthSrc, F::EthDst, F::EthType];
/// Fields of a label stack.
const MPLS: &[Field] = &[F::MplsTc, F::MplsBos, F::MplsTtl, F::MplsLabel];
/// Fields of IP behind the addresses.
const IP: &[Field] = &[F::NwFrag, F::NwTos, F::NwEcn, F::NwTtl];
/// Fields of ARP.
const ARP: &[Field] = &[F::ArpOp, F::ArpSpa, F::ArpTpa, F::ArpSha, F::ArpTha];
/// Fields of the tunnel.
const TUNNEL: &[Field] = &[F::TunId, F::TunSrc, F::TunDst];
/// Registers in pairs.
const PAIRS: &[Field] = &[F::Xreg0, F::Xreg1, F::Xreg2, F::Xreg3, F::Xreg4, F::Xreg5, F::Xreg6, F::Xreg7];
/// Fields of tracked connections.
const TRACKED: &[Field] = &[
    F::PktMark,
    F::CtState,
    F::CtZone,
    F::CtMark,
    F::CtLabel,
    F::CtNwSrc,
    F::CtIpv6Src,
    F::CtNwDst,
    F::CtIpv6Dst,
    F::CtNwProto,
    F::CtTpSrc,
    F::CtTpDst,
];
/// What the switch knows of the packet besides.
const LAST: &[Field] = &[F::Metadata, F::SfStage, F::SfAction, F::SfMetadata];
/// Fields that are written somewhere else: tags, and those of the network and transport headers.
const APART: &[Field] = &[
    F::VlanTci,
    F::PbbIsid,
    F::NwSrc,
    F::NwDst,
    F::Ipv6Src,
    F::Ipv6Dst,
    F::Ipv6Label,
    F::Ipv6Exthdr,
    F::NwProto,
    F::TcpSrc,
    F::TcpDst,
    F::TcpFlags,
    F::NdTarget,
];
/// All others, at the end.
const REST: &[Field] = WITHOUT.0.split_at(WITHOUT.1).0;

/// Fields with bits of their own that no list above has.
const WITHOUT: ([Field; Field::ALL.len()], usize) =
    Field::owners_without(&[FIRST, MPLS, IP, ARP, TUNNEL, Field::REGISTERS, TRACKED, LAST, APART]);

/// Writes a header, with that of its experimenter.
pub(crate) fn put_header(out: &mut Vec<u8>, row: &Row, masked: bool) {
    out.u32(row.header(masked));
    if row.class == EXPERIMENTER {
        out.u32(row.experimenter);
    }
}

/// Writes a field with its value and, if it is not whole, its mask.
pub(crate) fn put_value(out: &mut Vec<u8>, row: &Row, value: u128, mask: u128) {
    let masked = mask != ones(row.field.bits());
    put_header(out, row, masked);
    out.number(row.to_wire(value & mask), usize::from(row.bytes));
    if masked {
        out.number(row.mask_to_wire(mask), usize::from(row.bytes));
    }
}

/// What is written of a match.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    key: Key,
    mask: Mask,
    version: Version,
}

impl Writer<'_> {
    fn put(&mut self, field: Field) {
        let mask = field.mask_of(&self.mask);
        if mask != 0 {
            put_value(self.out, row_for(field, self.version), field.get(&self.key), mask);
        }
    }

    fn all(&mut self, fields: &[Field]) {
        for &field in fields {
            // Most matches have few fields: the words say quickly that one is not there.
            if self.mask.present() & places(field) != 0 {
                self.put(field);
            }
        }
    }

    /// The value of a field, if it is matched as a whole.
    fn exact(&self, field: Field) -> u128 {
        if field.mask_of(&self.mask) == ones(field.bits()) { field.get(&self.key) } else { 0 }
    }

    fn tag(&mut self, form: FlowForm) {
        if form == FlowForm::Nxm {
            self.put(F::VlanTci);
            return;
        }
        self.put(F::VlanVid);
        // Without a tag there is no priority.
        if F::VlanTci.get(&self.key) & 0x1000 != 0 {
            self.put(F::VlanPcp);
        }
    }

    fn network(&mut self, ether_type: u128) {
        match ether_type {
            0x0800 => self.all(&[F::NwSrc, F::NwDst]),
            0x86dd => self.all(&[F::Ipv6Src, F::Ipv6Dst]),
            0x0806 | 0x8035 => return self.all(ARP),
            0x8847 | 0x8848 => return self.all(MPLS),
            0x88e7 => return self.put(F::PbbIsid),
            _ => return,
        }
        self.all(IP);
        if ether_type == 0x86dd {
            self.all(&[F::Ipv6Label, F::Ipv6Exthdr]);
        }
        self.put(F::NwProto);
        match (self.exact(F::NwProto), ether_type) {
            (6, _) => self.all(&[F::TcpSrc, F::TcpDst, F::TcpFlags]),
            (17, _) => self.all(&[F::UdpSrc, F::UdpDst]),
            (132, _) => self.all(&[F::SctpSrc, F::SctpDst]),
            (1, 0x0800) => self.all(&[F::IcmpType, F::IcmpCode]),
            (58, 0x86dd) => {
                self.all(&[F::Icmpv6Type, F::Icmpv6Code]);
                match self.exact(F::Icmpv6Type) {
                    135 => self.all(&[F::NdTarget, F::NdSll]),
                    136 => self.all(&[F::NdTarget, F::NdTll]),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, form: FlowForm) {
        self.all(FIRST);
        if self.mask.present() & places(F::VlanTci) != 0 {
            self.tag(form);
        }
        self.network(self.exact(F::EthType));
        self.all(TUNNEL);
        self.all(if self.version == Version::V15 { PAIRS } else { Field::REGISTERS });
        self.all(TRACKED);
        self.all(LAST);
        self.all(REST);
    }
}

/// The words of the key that hold a field.
const fn places(field: Field) -> u64 {
    let about = field.about();
    let wide = if about.bits > 64 { 3 } else { 1 };
    wide << about.word
}

fn put_all(out: &mut Vec<u8>, version: Version, matching: &Match, form: FlowForm) {
    Writer { out, key: matching.key(), mask: matching.mask(), version }.fields(form);
}

/// Writes a match of OpenFlow 1.3 and later, with its padding; hands back its length without.
pub(crate) fn put_match(out: &mut Vec<u8>, version: Version, matching: &Match) -> u16 {
    let start = out.open(1);
    if !matching.terms().is_empty() {
        put_all(out, version, matching, FlowForm::Standard);
    }
    out.close(start);
    let length = (out.len() - start) as u16;
    out.pad(start);
    length
}

/// Writes the fields of a packet as a match. Only those that packets do not show are said.
pub(crate) fn put_fields(out: &mut Vec<u8>, version: Version, fields: &Match) {
    put_match(out, version, fields);
}

/// Writes a match of Nicira's, perhaps with a cookie, and its padding; hands back its length without.
pub(crate) fn put_nxm(out: &mut Vec<u8>, matching: &Match, cookie: (u64, u64)) -> usize {
    let start = out.len();
    put_all(out, Version::V10, matching, FlowForm::Nxm);
    if cookie.1 != 0 {
        let masked = cookie.1 != u64::MAX;
        out.u32(if masked { 0x0001_3d10 } else { 0x0001_3c08 });
        out.u64(cookie.0 & cookie.1);
        if masked {
            out.u64(cookie.1);
        }
    }
    let length = out.len() - start;
    out.pad(start);
    length
}

/// Writes fields one behind the other, without padding.
pub(crate) fn put_unpadded(out: &mut Vec<u8>, version: Version, fields: &Match) {
    let form = if version == Version::V10 { FlowForm::Nxm } else { FlowForm::Standard };
    put_all(out, version, fields, form);
}
