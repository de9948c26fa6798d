//! Matches, from text: fields are collected in any order, then what they need is looked for.
//!
//! As in Open vSwitch a field whose prerequisite is not matched beside it is left out, with a warning;
//! `nw_src` is `arp_spa` beside `arp`, `nw_proto` is `arp_op`, and ports are those of the protocol.

use super::error::{Fault, Parsed, TextWarning};
use super::packet::Known;
use super::scan::{Pair, number_of};
use super::spelling::{self, How, Spelling};
use super::value::{self, Masked};
use crate::Names;
use weir_flow::{Field, Key, Mask, Match, ones};

/// EtherTypes that matches have words for.
pub(super) mod ether {
    pub(in crate::text) const IPV4: u16 = 0x0800;
    pub(in crate::text) const ARP: u16 = 0x0806;
    pub(in crate::text) const RARP: u16 = 0x8035;
    pub(in crate::text) const IPV6: u16 = 0x86dd;
    pub(in crate::text) const MPLS: u16 = 0x8847;
    pub(in crate::text) const MPLS_MULTICAST: u16 = 0x8848;
    pub(in crate::text) const PBB: u16 = 0x88e7;
}

/// IP protocols that matches have words for.
pub(super) mod ip {
    pub(in crate::text) const ICMP: u8 = 1;
    pub(in crate::text) const TCP: u8 = 6;
    pub(in crate::text) const UDP: u8 = 17;
    pub(in crate::text) const ICMPV6: u8 = 58;
    pub(in crate::text) const SCTP: u8 = 132;
}

/// ICMPv6 types of neighbour discovery (RFC 4861).
pub(super) const SOLICITATION: u128 = 135;
/// The answer to it.
pub(super) const ADVERTISEMENT: u128 = 136;

/// The bit of a VLAN TCI that says that there is a tag.
pub(super) const TAG: u128 = 0x1000;
/// The VLAN of OpenFlow 1.0 that stands for no tag.
const NO_VLAN: &str = "0xffff";

/// Words for an EtherType and perhaps a protocol, by which they are read and (the first) printed.
pub(super) const PROTOCOLS: &[(&str, u16, Option<u8>)] = &[
    ("ip", ether::IPV4, None),
    ("ipv4", ether::IPV4, None),
    ("ip4", ether::IPV4, None),
    ("icmp", ether::IPV4, Some(ip::ICMP)),
    ("tcp", ether::IPV4, Some(ip::TCP)),
    ("udp", ether::IPV4, Some(ip::UDP)),
    ("sctp", ether::IPV4, Some(ip::SCTP)),
    ("ipv6", ether::IPV6, None),
    ("ip6", ether::IPV6, None),
    ("icmp6", ether::IPV6, Some(ip::ICMPV6)),
    ("tcp6", ether::IPV6, Some(ip::TCP)),
    ("udp6", ether::IPV6, Some(ip::UDP)),
    ("sctp6", ether::IPV6, Some(ip::SCTP)),
    ("arp", ether::ARP, None),
    ("rarp", ether::RARP, None),
    ("mpls", ether::MPLS, None),
    ("mplsm", ether::MPLS_MULTICAST, None),
];

/// Fields whose prerequisites are looked for by what shares their bits, or, as in Open vSwitch's tools, not at all.
const SETTLED: &[Field] = &[
    Field::NwSrc,
    Field::NwDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::Ipv6Exthdr,
    Field::NwProto,
    Field::NwTos,
    Field::NwEcn,
    Field::NwTtl,
    Field::NwFrag,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::PbbIsid,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::NdTarget,
    Field::ArpSha,
    Field::ArpTha,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtNwProto,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
];

/// All others.
const REST: &[Field] = WITHOUT.0.split_at(WITHOUT.1).0;

const WITHOUT: ([Field; Field::ALL.len()], usize) = Field::owners_without(&[SETTLED]);

/// What a match demands so far.
pub(super) struct Demands {
    key: Key,
    mask: Mask,
    /// ARP's operation, which lies where ports do.
    arp_op: Option<Masked>,
}

impl Demands {
    pub(super) fn new() -> Self {
        Self { key: Key::new(), mask: Mask::new(), arp_op: None }
    }

    /// Demands this of a field instead of what was demanded before.
    fn set(&mut self, field: Field, value: u128, mask: u128) {
        self.release(field);
        field.set_masked(&mut self.key, value, mask);
        field.examine(&mut self.mask, mask);
    }

    /// Demands this of some bits of a field.
    fn set_bits(&mut self, field: Field, value: u128, mask: u128) {
        field.set_masked(&mut self.key, value, mask);
        field.examine(&mut self.mask, mask);
    }

    /// Demands nothing of a field.
    fn release(&mut self, field: Field) {
        for (place, _, bits) in field.spread(0, u128::MAX) {
            self.mask.remove(place, bits);
        }
    }

    fn get(&self, field: Field) -> Masked {
        let mask = field.mask_of(&self.mask);
        (field.get(&self.key) & mask, mask)
    }

    /// Takes a pair if it belongs to a match.
    pub(super) fn take(&mut self, pair: &Pair<'_>, names: &Names) -> Parsed<bool> {
        if let Some(&(_, ether_type, protocol)) = PROTOCOLS.iter().find(|(word, ..)| *word == pair.key) {
            self.set(Field::EthType, u128::from(ether_type), u128::MAX);
            if let Some(protocol) = protocol {
                self.set_protocol(u128::from(protocol), u128::MAX);
            }
            return Ok(true);
        }
        if let Some(spelling) = Spelling::named(pair.key) {
            self.take_field(spelling, pair, names)?;
            return Ok(true);
        }
        if pair.key.contains('[') {
            self.take_bits(pair)?;
            return Ok(true);
        }
        // `eth` says that it is an Ethernet frame, which all are.
        Ok(pair.key == "eth")
    }

    fn set_protocol(&mut self, value: u128, mask: u128) {
        self.arp_op = None;
        self.set(Field::NwProto, value, mask);
    }

    fn take_field(&mut self, spelling: &Spelling, pair: &Pair<'_>, names: &Names) -> Parsed<()> {
        let Spelling { field, how, .. } = *spelling;
        if pair.value.is_empty() {
            let what = format!("`{}` has no value", pair.key);
            return Err(Fault::new(pair.whole, what).mend(format!("write {}=VALUE", pair.key)));
        }
        if how == How::OldVid && (pair.value == NO_VLAN || pair.value == "65535") {
            self.set(Field::VlanTci, 0, u128::MAX);
            return Ok(());
        }
        if matches!(how, How::OldVid) {
            let (value, mask) =
                if pair.value == "*" { (0, 0) } else { (number_of(pair.value, 12)?, ones(12)) };
            if mask != 0 {
                self.set_bits(Field::VlanTci, value | TAG, mask | TAG);
            }
            return Ok(());
        }
        let (value, mask) = value::read(spelling, pair.value, names)?;
        match field {
            Field::VlanPcp if mask != 0 => {
                self.set_bits(Field::VlanTci, value << 13 | TAG, ones(3) << 13 | TAG)
            }
            Field::NwProto => self.set_protocol(value, mask),
            Field::ArpOp => {
                self.release(Field::NwProto);
                self.arp_op = Some((value, mask));
            }
            _ => self.set(field, value, mask),
        }
        Ok(())
    }

    /// `reg0[4..7]=5`.
    fn take_bits(&mut self, pair: &Pair<'_>) -> Parsed<()> {
        let (named, rest) = spelling::subfield(pair.key)?;
        if !rest.is_empty() {
            return Err(
                Fault::new(pair.key, "something follows the bracket").mend("write FIELD[FIRST..LAST]=VALUE")
            );
        }
        let part = named.resolve(pair.key)?;
        if !part.field.about().maskable && part.mask() != ones(part.field.bits()) {
            return Err(Fault::new(pair.key, "this field cannot be matched in part"));
        }
        let value = number_of(pair.value, u32::from(part.bits))?;
        self.set_bits(part.field, value << part.from, part.mask());
        Ok(())
    }

    /// The match, without what has not got what it needs.
    pub(super) fn finish(mut self, warnings: &mut Vec<TextWarning>) -> Match {
        self.settle(warnings);
        let mut matching = Match::any();
        for (place, mask) in self.mask.iter() {
            matching.demand_bits(place, self.key.word(place), mask);
        }
        matching
    }

    /// Leaves out what has not got what it needs, and settles what shared fields mean.
    fn settle(&mut self, warnings: &mut Vec<TextWarning>) {
        use Field as F;
        let ether_type = self.get(F::EthType).0 as u16;
        let v4 = ether_type == ether::IPV4;
        let v6 = ether_type == ether::IPV6;
        let arp = matches!(ether_type, ether::ARP | ether::RARP);
        let mpls = matches!(ether_type, ether::MPLS | ether::MPLS_MULTICAST);

        self.need(v4 || arp, &[F::NwSrc, F::NwDst], "ip or arp", warnings);
        self.need(v6, &[F::Ipv6Src, F::Ipv6Dst, F::Ipv6Label, F::Ipv6Exthdr], "ipv6", warnings);
        self.need(v4 || v6 || arp, &[F::NwProto], "ip or ipv6", warnings);
        self.need(v4 || v6, &[F::NwTos, F::NwEcn, F::NwTtl], "ip or ipv6", warnings);
        self.need(mpls, &[F::MplsLabel, F::MplsTc, F::MplsBos, F::MplsTtl], "mpls", warnings);
        self.need(ether_type == ether::PBB, &[F::PbbIsid], "dl_type=0x88e7", warnings);

        let protocol = if v4 || v6 { self.get(F::NwProto).0 as u8 } else { 0 };
        let icmp = (v4 && protocol == ip::ICMP) || (v6 && protocol == ip::ICMPV6);
        let ports = icmp || matches!(protocol, ip::TCP | ip::UDP | ip::SCTP);
        self.need(ports, &[F::TcpSrc, F::TcpDst], "tcp, udp, sctp or icmp", warnings);
        self.need(protocol == ip::TCP, &[F::TcpFlags], "tcp", warnings);

        let kind = if icmp && v6 { self.get(F::TcpSrc) } else { (0, 0) };
        let (solicited, advertised) = (kind.0 == SOLICITATION, kind.0 == ADVERTISEMENT);
        self.need(solicited || advertised, &[F::NdTarget], "icmp6 with icmp_type 135 or 136", warnings);
        let sha = "arp, or icmp6 with icmp_type=135";
        self.need(arp || solicited, &[F::ArpSha], sha, warnings);
        let tha = "arp, or icmp6 with icmp_type=136";
        self.need(arp || advertised, &[F::ArpTha], tha, warnings);

        self.need_rest(warnings);
        if icmp {
            self.narrow(F::TcpSrc);
            self.narrow(F::TcpDst);
        }
        self.settle_operation(arp, warnings);
    }

    /// Leaves out what else has not got what it needs.
    fn need_rest(&mut self, warnings: &mut Vec<TextWarning>) {
        let rest = REST.iter().filter(|field| field.mask_of(&self.mask) != 0);
        let rest: Vec<Field> = rest.copied().collect();
        for field in rest {
            let needs = field.about().needs;
            self.need(Known::of_key(&self.key).meets(needs), &[field], Known::words(needs), warnings);
        }
    }

    /// ARP's operation may have come as `nw_proto`.
    fn settle_operation(&mut self, arp: bool, warnings: &mut Vec<TextWarning>) {
        let protocol = self.get(Field::NwProto);
        match self.arp_op {
            Some((_, 0)) | None if !arp => {}
            None => {
                self.release(Field::NwProto);
                if protocol.1 != 0 {
                    self.set(Field::ArpOp, protocol.0, u128::MAX);
                }
            }
            Some((value, mask)) if arp => self.set(Field::ArpOp, value, mask),
            Some(_) => warnings.push(TextWarning { line: None, field: "arp_op", needs: "arp" }),
        }
    }

    fn need(&mut self, met: bool, fields: &[Field], needs: &'static str, warnings: &mut Vec<TextWarning>) {
        for &field in fields.iter().filter(|_| !met) {
            if field.mask_of(&self.mask) != 0 {
                self.release(field);
                let field = Spelling::of(field).map_or(field.name(), |spelling| spelling.name);
                warnings.push(TextWarning { line: None, field, needs });
            }
        }
    }

    /// ICMP's types and codes have 8 bits: that the upper bits of the port they lie in are zero, says
    /// nothing.
    fn narrow(&mut self, port: Field) {
        let (value, mask) = self.get(port);
        if value >> 8 == 0 {
            self.set(port, value, mask & 0xff);
        }
    }
}
