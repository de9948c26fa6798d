//! How fields are spelt: the names of `ovs-fields(7)`, and the NXM and OXM names that `move`, `load` and
//! `output` print.
//!
//! Not one to one with [`Field`]: a field without a row here has the names of the table of fields, and some spellings see a field otherwise than the key holds it, such as
//! `nw_tos`, whose two low bits belong to another field.

use super::error::{Fault, Parsed};
use super::scan::number_of;
use std::collections::HashMap;
use std::sync::LazyLock;
use weir_flow::{About, Field, Subfield};

/// How a spelling sees the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As the key has it.
    Plain,
    /// With two more bits, which are zero, to the right (`nw_tos`).
    Tos,
    /// The VLAN of OpenFlow 1.0: writing it adds a tag, and 0xffff is no tag.
    OldVid,
    /// The VLAN priority of OpenFlow 1.0: writing it adds a tag.
    OldPcp,
    /// A port of OpenFlow 1.0, of 16 bits.
    Port16,
}

/// A spelling of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    /// The name `set_field` prints.
    pub(super) name: &'static str,
    /// Other names.
    aliases: &'static [&'static str],
    /// NXM and OXM names, that which is printed first.
    nxm: &'static [&'static str],
    /// The field.
    pub(super) field: Field,
    /// Its bits, by this spelling.
    pub(super) bits: u8,
    /// How it sees the field.
    pub(super) how: How,
}

macro_rules! spellings {
    ($($name:literal $aliases:tt $nxm:tt $field:ident $bits:tt $how:ident;)*) => {
        /// Spellings that the table of fields does not have.
        const ROWS: &[Spelling] = &[$(Spelling {
            name: $name,
            aliases: &$aliases,
            nxm: &$nxm,
            field: Field::$field,
            bits: spellings!(@ $bits $field),
            how: How::$how,
        }),*];
    };
    (@ _ $field:ident) => { Field::$field.about().bits };
    (@ $bits:literal $field:ident) => { $bits };
}

spellings! {
    "tun_id" ["tunnel_id"] ["NXM_NX_TUN_ID", "OXM_OF_TUNNEL_ID"] TunId _ Plain;
    "tun_src" [] ["NXM_NX_TUN_IPV4_SRC"] TunSrc _ Plain;
    "tun_dst" [] ["NXM_NX_TUN_IPV4_DST"] TunDst _ Plain;
    "metadata" [] ["OXM_OF_METADATA"] Metadata _ Plain;
    "in_port" [] ["NXM_OF_IN_PORT"] InPort 16 Port16;
    "in_port_oxm" [] ["OXM_OF_IN_PORT"] InPort _ Plain;
    "pkt_mark" [] ["NXM_NX_PKT_MARK"] PktMark _ Plain;
    "recirc_id" [] ["NXM_NX_RECIRC_ID"] RecircId _ Plain;
    "conj_id" [] ["NXM_NX_CONJ_ID"] ConjId _ Plain;
    "actset_output" [] ["ONFOXM_ET_ACTSET_OUTPUT", "OXM_OF_ACTSET_OUTPUT"] ActsetOutput _ Plain;
    "sf_stage" [] [] SfStage _ Plain;
    "sf_action" [] [] SfAction _ Plain;
    "sf_metadata" [] [] SfMetadata _ Plain;
    "reg0" [] ["NXM_NX_REG0"] Reg0 _ Plain;
    "reg1" [] ["NXM_NX_REG1"] Reg1 _ Plain;
    "reg2" [] ["NXM_NX_REG2"] Reg2 _ Plain;
    "reg3" [] ["NXM_NX_REG3"] Reg3 _ Plain;
    "reg4" [] ["NXM_NX_REG4"] Reg4 _ Plain;
    "reg5" [] ["NXM_NX_REG5"] Reg5 _ Plain;
    "reg6" [] ["NXM_NX_REG6"] Reg6 _ Plain;
    "reg7" [] ["NXM_NX_REG7"] Reg7 _ Plain;
    "reg8" [] ["NXM_NX_REG8"] Reg8 _ Plain;
    "reg9" [] ["NXM_NX_REG9"] Reg9 _ Plain;
    "reg10" [] ["NXM_NX_REG10"] Reg10 _ Plain;
    "reg11" [] ["NXM_NX_REG11"] Reg11 _ Plain;
    "reg12" [] ["NXM_NX_REG12"] Reg12 _ Plain;
    "reg13" [] ["NXM_NX_REG13"] Reg13 _ Plain;
    "reg14" [] ["NXM_NX_REG14"] Reg14 _ Plain;
    "reg15" [] ["NXM_NX_REG15"] Reg15 _ Plain;
    "xreg0" [] ["OXM_OF_PKT_REG0"] Xreg0 _ Plain;
    "xreg1" [] ["OXM_OF_PKT_REG1"] Xreg1 _ Plain;
    "xreg2" [] ["OXM_OF_PKT_REG2"] Xreg2 _ Plain;
    "xreg3" [] ["OXM_OF_PKT_REG3"] Xreg3 _ Plain;
    "xreg4" [] ["OXM_OF_PKT_REG4"] Xreg4 _ Plain;
    "xreg5" [] ["OXM_OF_PKT_REG5"] Xreg5 _ Plain;
    "xreg6" [] ["OXM_OF_PKT_REG6"] Xreg6 _ Plain;
    "xreg7" [] ["OXM_OF_PKT_REG7"] Xreg7 _ Plain;
    "xxreg0" [] ["NXM_NX_XXREG0"] Xxreg0 _ Plain;
    "xxreg1" [] ["NXM_NX_XXREG1"] Xxreg1 _ Plain;
    "xxreg2" [] ["NXM_NX_XXREG2"] Xxreg2 _ Plain;
    "xxreg3" [] ["NXM_NX_XXREG3"] Xxreg3 _ Plain;
    "eth_src" ["dl_src"] ["NXM_OF_ETH_SRC", "OXM_OF_ETH_SRC"] EthSrc _ Plain;
    "eth_dst" ["dl_dst"] ["NXM_OF_ETH_DST", "OXM_OF_ETH_DST"] EthDst _ Plain;
    "eth_type" ["dl_type"] ["NXM_OF_ETH_TYPE", "OXM_OF_ETH_TYPE"] EthType _ Plain;
    "vlan_tci" [] ["NXM_OF_VLAN_TCI"] VlanTci _ Plain;
    "dl_vlan" [] [] VlanVid 12 OldVid;
    "vlan_vid" [] ["OXM_OF_VLAN_VID"] VlanVid 12 Plain;
    "dl_vlan_pcp" [] [] VlanPcp _ OldPcp;
    "vlan_pcp" [] ["OXM_OF_VLAN_PCP"] VlanPcp _ Plain;
    "mpls_label" [] ["OXM_OF_MPLS_LABEL"] MplsLabel _ Plain;
    "mpls_tc" [] ["OXM_OF_MPLS_TC"] MplsTc _ Plain;
    "mpls_bos" [] ["OXM_OF_MPLS_BOS"] MplsBos _ Plain;
    "mpls_ttl" [] ["NXM_NX_MPLS_TTL"] MplsTtl _ Plain;
    "pbb_isid" [] ["OXM_OF_PBB_ISID"] PbbIsid _ Plain;
    "ip_src" ["nw_src"] ["NXM_OF_IP_SRC", "OXM_OF_IPV4_SRC"] NwSrc _ Plain;
    "ip_dst" ["nw_dst"] ["NXM_OF_IP_DST", "OXM_OF_IPV4_DST"] NwDst _ Plain;
    "ipv6_src" [] ["NXM_NX_IPV6_SRC", "OXM_OF_IPV6_SRC"] Ipv6Src _ Plain;
    "ipv6_dst" [] ["NXM_NX_IPV6_DST", "OXM_OF_IPV6_DST"] Ipv6Dst _ Plain;
    "ipv6_label" [] ["NXM_NX_IPV6_LABEL", "OXM_OF_IPV6_FLABEL"] Ipv6Label _ Plain;
    "ipv6_exthdr" [] ["OXM_OF_IPV6_EXTHDR"] Ipv6Exthdr _ Plain;
    "nw_proto" ["ip_proto"] ["NXM_OF_IP_PROTO", "OXM_OF_IP_PROTO"] NwProto _ Plain;
    "nw_tos" [] ["NXM_OF_IP_TOS"] NwTos 8 Tos;
    "ip_dscp" [] ["OXM_OF_IP_DSCP"] NwTos _ Plain;
    "nw_ecn" ["ip_ecn"] ["NXM_NX_IP_ECN", "OXM_OF_IP_ECN"] NwEcn _ Plain;
    "nw_ttl" ["ip_ttl"] ["NXM_NX_IP_TTL"] NwTtl _ Plain;
    "ip_frag" ["nw_frag"] ["NXM_NX_IP_FRAG"] NwFrag _ Plain;
    "arp_op" [] ["NXM_OF_ARP_OP", "OXM_OF_ARP_OP"] ArpOp _ Plain;
    "arp_spa" [] ["NXM_OF_ARP_SPA", "OXM_OF_ARP_SPA"] ArpSpa _ Plain;
    "arp_tpa" [] ["NXM_OF_ARP_TPA", "OXM_OF_ARP_TPA"] ArpTpa _ Plain;
    "arp_sha" [] ["NXM_NX_ARP_SHA", "OXM_OF_ARP_SHA"] ArpSha _ Plain;
    "arp_tha" [] ["NXM_NX_ARP_THA", "OXM_OF_ARP_THA"] ArpTha _ Plain;
    "tcp_src" ["tp_src"] ["NXM_OF_TCP_SRC", "OXM_OF_TCP_SRC"] TcpSrc _ Plain;
    "tcp_dst" ["tp_dst"] ["NXM_OF_TCP_DST", "OXM_OF_TCP_DST"] TcpDst _ Plain;
    "tcp_flags" [] ["NXM_NX_TCP_FLAGS", "ONFOXM_ET_TCP_FLAGS", "OXM_OF_TCP_FLAGS"] TcpFlags _ Plain;
    "udp_src" [] ["NXM_OF_UDP_SRC", "OXM_OF_UDP_SRC"] UdpSrc _ Plain;
    "udp_dst" [] ["NXM_OF_UDP_DST", "OXM_OF_UDP_DST"] UdpDst _ Plain;
    "sctp_src" [] ["OXM_OF_SCTP_SRC"] SctpSrc _ Plain;
    "sctp_dst" [] ["OXM_OF_SCTP_DST"] SctpDst _ Plain;
    "icmp_type" [] ["NXM_OF_ICMP_TYPE", "OXM_OF_ICMPV4_TYPE"] IcmpType _ Plain;
    "icmp_code" [] ["NXM_OF_ICMP_CODE", "OXM_OF_ICMPV4_CODE"] IcmpCode _ Plain;
    "icmpv6_type" [] ["NXM_NX_ICMPV6_TYPE", "OXM_OF_ICMPV6_TYPE"] Icmpv6Type _ Plain;
    "icmpv6_code" [] ["NXM_NX_ICMPV6_CODE", "OXM_OF_ICMPV6_CODE"] Icmpv6Code _ Plain;
    "nd_target" [] ["NXM_NX_ND_TARGET", "OXM_OF_IPV6_ND_TARGET"] NdTarget _ Plain;
    "nd_sll" [] ["NXM_NX_ND_SLL", "OXM_OF_IPV6_ND_SLL"] NdSll _ Plain;
    "nd_tll" [] ["NXM_NX_ND_TLL", "OXM_OF_IPV6_ND_TLL"] NdTll _ Plain;
    "ct_state" [] ["NXM_NX_CT_STATE"] CtState 32 Plain;
    "ct_zone" [] ["NXM_NX_CT_ZONE"] CtZone _ Plain;
    "ct_mark" [] ["NXM_NX_CT_MARK"] CtMark _ Plain;
    "ct_label" [] ["NXM_NX_CT_LABEL"] CtLabel _ Plain;
    "ct_nw_src" [] ["NXM_NX_CT_NW_SRC"] CtNwSrc _ Plain;
    "ct_nw_dst" [] ["NXM_NX_CT_NW_DST"] CtNwDst _ Plain;
    "ct_nw_proto" [] ["NXM_NX_CT_NW_PROTO"] CtNwProto _ Plain;
    "ct_tp_src" [] ["NXM_NX_CT_TP_SRC"] CtTpSrc _ Plain;
    "ct_tp_dst" [] ["NXM_NX_CT_TP_DST"] CtTpDst _ Plain;
    "ct_ipv6_src" [] ["NXM_NX_CT_IPV6_SRC"] CtIpv6Src _ Plain;
    "ct_ipv6_dst" [] ["NXM_NX_CT_IPV6_DST"] CtIpv6Dst _ Plain;
}

/// All spellings: those above, and of fields that have none the names that the table of fields has.
static SPELLINGS: &[Spelling] = ALL.0.split_at(ALL.1).0;

const ALL: ([Spelling; ROWS.len() + Field::ALL.len()], usize) = {
    let mut all = [ROWS[0]; ROWS.len() + Field::ALL.len()];
    all.split_at_mut(ROWS.len()).0.copy_from_slice(ROWS);
    let (mut count, mut at) = (ROWS.len(), 0);
    while at < Field::ALL.len() {
        let (field, mut row, mut spelt) = (Field::ALL[at], 0, false);
        while row < ROWS.len() {
            spelt |= ROWS[row].field as u8 == field as u8;
            row += 1;
        }
        if !spelt {
            let &About { name, aliases, bits, .. } = field.about();
            all[count] = Spelling { name, aliases, nxm: &[], field, bits, how: How::Plain };
            count += 1;
        }
        at += 1;
    }
    (all, count)
};

/// Fields of Open vSwitch that Weir's keys do not have.
const FOREIGN: &[&str] = &[
    "dp_hash",
    "packet_type",
    "skb_priority",
    "tun_ipv6_src",
    "tun_ipv6_dst",
    "tun_flags",
    "tun_ttl",
    "tun_tos",
    "tun_gbp_id",
    "tun_gbp_flags",
    "tun_erspan_idx",
    "tun_erspan_ver",
    "tun_erspan_dir",
    "tun_erspan_hwid",
    "tun_gtpu_flags",
    "tun_gtpu_msgtype",
    "nd_reserved",
    "nd_options_type",
    "nsh_flags",
    "nsh_ttl",
    "nsh_mdtype",
    "nsh_np",
    "nsh_spi",
    "nsp",
    "nsh_si",
    "nsi",
    "nsh_c1",
    "nsh_c2",
    "nsh_c3",
    "nsh_c4",
    "nshc1",
    "nshc2",
    "nshc3",
    "nshc4",
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Spelling>> = LazyLock::new(|| {
    let names = |spelling: &'static Spelling| {
        std::iter::once(&spelling.name)
            .chain(spelling.aliases)
            .chain(spelling.nxm)
            .map(move |name| (*name, spelling))
    };
    SPELLINGS.iter().flat_map(names).collect()
});

/// The NXM or OXM name, or else the name, of each field, by its number, and its bits by that name.
static PRINTED: LazyLock<Vec<(&'static str, u8)>> = LazyLock::new(|| {
    let printed = |&field: &Field| {
        let plain = SPELLINGS.iter().find(|it| it.field == field && it.how == How::Plain);
        plain.map_or((field.name(), field.about().bits), |it| {
            (it.nxm.first().copied().unwrap_or(it.name), it.bits)
        })
    };
    Field::ALL.iter().map(printed).collect()
});

impl Spelling {
    /// The spelling of this name in a match or in `set_field`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        BY_NAME.get(name).copied().filter(|it| !it.nxm.contains(&name))
    }

    /// The spelling that `set_field` prints.
    pub(super) fn of(field: Field) -> Option<&'static Self> {
        SPELLINGS.iter().find(|it| it.field == field && it.how == How::Plain)
    }

    /// Every name of a match, to find the one that was meant.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        SPELLINGS.iter().flat_map(|it| std::iter::once(&it.name).chain(it.aliases)).copied()
    }
}

/// No field has this name.
pub(super) fn unknown(name: &str) -> Fault {
    unknown_among(name, &[])
}

/// Neither a field has this name, nor any of the words that could also stand here.
pub(super) fn unknown_among(name: &str, words: &[&'static str]) -> Fault {
    if FOREIGN.contains(&name) || name.starts_with("tun_metadata") {
        return Fault::new(name, "Weir has not got this field of Open vSwitch");
    }
    let names = Spelling::names().chain(words.iter().copied());
    Fault::new(name, "no field has this name").meant(name, names)
}

/// Some bits of a field, as a text names them.
pub(super) struct Named {
    pub(super) spelling: &'static Spelling,
    pub(super) from: u8,
    pub(super) bits: u8,
}

/// Reads `NXM_NX_REG0[4..11]`, `reg0[]`, `reg0[3]` or `reg0`; what follows is handed back.
pub(super) fn subfield(text: &str) -> Parsed<(Named, &str)> {
    let end = text.find(['[', '-']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let spelling = *BY_NAME.get(name).ok_or_else(|| unknown(name))?;
    let whole = Named { spelling, from: 0, bits: spelling.bits };
    let Some(inside) = rest.strip_prefix('[') else { return Ok((whole, rest)) };
    let Some((range, rest)) = inside.split_once(']') else {
        return Err(Fault::new(text, "the bracket is not closed").mend("write [], [BIT] or [FIRST..LAST]"));
    };
    if range.is_empty() {
        return Ok((whole, rest));
    }
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let (first, last) = (number_of(first, 8)?, number_of(last, 8)?);
    if first > last {
        return Err(Fault::new(range, "the first bit is behind the last").mend("write [FIRST..LAST]"));
    }
    if last >= u128::from(spelling.bits) {
        let what = format!("`{name}` has no bit {last}");
        return Err(Fault::new(range, what).mend(format!("its bits are 0 to {}", spelling.bits - 1)));
    }
    Ok((Named { spelling, from: first as u8, bits: (last - first + 1) as u8 }, rest))
}

impl Named {
    /// As bits of the key's field. `text` is what a complaint is about.
    pub(super) fn resolve(&self, text: &str) -> Parsed<Subfield> {
        let Self { spelling, mut from, mut bits } = *self;
        if spelling.how == How::Tos {
            let last = from + bits;
            if last <= 2 {
                return Err(
                    Fault::new(text, "the two low bits of nw_tos are not its own").mend("name `nw_ecn`")
                );
            }
            bits = last - from.max(2);
            from = from.saturating_sub(2);
        }
        let most = spelling.field.about().bits;
        if from + bits > most {
            let what = format!("Weir's `{}` has only {most} bits", spelling.name);
            return Err(Fault::new(text, what).mend(format!("name {}[0..{}]", spelling.name, most - 1)));
        }
        Ok(Subfield { field: spelling.field, from, bits })
    }
}

/// Prints some bits of a field.
pub(super) fn show(out: &mut String, part: Subfield) {
    use std::fmt::Write;
    let (mut name, mut whole) = PRINTED[part.field as usize];
    if part.field == Field::InPort && part.from + part.bits <= 16 {
        (name, whole) = ("NXM_OF_IN_PORT", 16);
    }
    if part.field == Field::VlanVid && part.from + part.bits > whole {
        (name, whole) = ("NXM_OF_VLAN_TCI", 16);
    }
    let last = u16::from(part.from) + u16::from(part.bits) - 1;
    let _ = if part.from == 0 && part.bits == whole {
        write!(out, "{name}[]")
    } else if part.bits == 1 {
        write!(out, "{name}[{}]", part.from)
    } else {
        write!(out, "{name}[{}..{last}]", part.from)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_spelt_and_no_name_stands_for_two() {
        let mut count = 0;
        for spelling in SPELLINGS {
            count += 1 + spelling.aliases.len() + spelling.nxm.len();
        }
        assert_eq!(BY_NAME.len(), count);
        for &field in Field::ALL {
            assert!(Spelling::of(field).is_some(), "{field:?}");
            assert!(Spelling::named(field.name()).is_some_and(|it| it.field == field), "{field:?}");
        }
    }
}
