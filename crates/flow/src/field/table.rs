//! The table of fields: the one home of what each is called, where a key has it, and how it is used.
//!
//! A row of a field with bits of its own says in brackets: its word of the key, how many bits lie to the right
//! of it there, its [`Source`], its [`Layer`] and its [`Rounding`]. A field may share another's bits instead
//! (`in`: ports of UDP are where those of TCP are), or join those of several (`over`: a register of 64 bits).
//! Behind the brackets: prerequisite, how it is written, whether a match may mask it, and whether actions may
//! write it (`leads`: by an operation of its own, because it says what follows it in the packet).
//!
//! From it are made `super::derived` (which bits come from the packet, can be set, last for a stage), the
//! offsets that header masks read, how lookups take a key apart and how masks are rounded. Two fields that
//! claim the same bits do not compile.

use super::{About, Form, Layer, Needs, Rounding, Source};
use crate::protocol::TAG_PRESENT;

/// Lengths to which prefixes of IPv4 addresses are rounded up.
const V4: &[u8] = &[8, 16, 24, 32];
/// The same of IPv6 addresses.
const V6: &[u8] = &[32, 48, 64, 128];
/// An IPv6 address, or nothing of it.
const ALL: &[u8] = &[128];
/// A port, or nothing of it.
const PORT: &[u8] = &[16];
/// The bit of an Ethernet address that says that it is a group's.
const GROUP: u128 = 1 << 40;
/// The bit of a tag that says that there is one.
const TAG: u128 = TAG_PRESENT as u128;

/// Where a field's bits are, as its row says.
#[derive(Clone, Copy)]
enum Home {
    /// Bits of its own.
    Own { word: u8, shift: u8, source: Source, layer: Layer, rounding: Rounding },
    /// Among those of another field, so many bits from its right.
    In(Field, u8),
    /// The words that begin with another field.
    Over(Field),
}

/// A row as it stands.
struct Row {
    name: &'static str,
    aliases: &'static [&'static str],
    bits: u8,
    home: Home,
    needs: Needs,
    form: Form,
    maskable: bool,
    writable: bool,
    leads: bool,
}

macro_rules! fields {
    ($($field:ident $name:literal $aliases:tt $bits:literal $home:tt $needs:ident $form:ident $mask:ident $write:ident;)*) => {
        /// A field; `ovs-fields(7)` describes each under its name. Numbers are places in [`Field::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $(#[doc = concat!("`", $name, "`")] $field),* }

        impl Field {
            /// All fields, by number.
            pub const ALL: &'static [Self] = &[$(Self::$field),*];
        }

        const ROWS: [Row; Field::ALL.len()] = [$(Row {
            name: $name,
            aliases: &$aliases,
            bits: $bits,
            home: fields!(@home $home),
            needs: Needs::$needs,
            form: Form::$form,
            maskable: fields!(@mask $mask),
            writable: fields!(@writable $write),
            leads: fields!(@leads $write),
        }),*];
    };
    (@home (in $other:ident)) => { Home::In(Field::$other, 0) };
    (@home (in $other:ident >> $shift:literal)) => { Home::In(Field::$other, $shift) };
    (@home (over $other:ident)) => { Home::Over(Field::$other) };
    (@home ($word:literal >> $shift:literal $source:ident $(($at:expr))? $layer:ident $rounding:ident $(($of:expr))?)) => {
        Home::Own {
            word: $word,
            shift: $shift,
            source: Source::$source $(($at))?,
            layer: Layer::$layer,
            rounding: Rounding::$rounding $(($of))?,
        }
    };
    (@mask masked) => { true };
    (@mask whole) => { false };
    (@writable fixed) => { false };
    (@writable $other:ident) => { true };
    (@leads leads) => { true };
    (@leads $other:ident) => { false };
}

fields! {
    InPort "in_port" [] 32 (0 >> 32 Switch Metadata Exact) Nothing Port whole writable;
    Metadata "metadata" [] 64 (6 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    TunId "tun_id" ["tunnel_id"] 64 (7 >> 0 Switch Metadata Exact) Nothing Number masked writable;
    TunSrc "tun_src" [] 32 (37 >> 32 Switch Metadata Prefix(V4)) Nothing Ipv4 masked writable;
    TunDst "tun_dst" [] 32 (37 >> 0 Switch Metadata Prefix(V4)) Nothing Ipv4 masked writable;
    PktMark "pkt_mark" [] 32 (22 >> 0 Switch Metadata Exact) Nothing Number masked writable;
    RecircId "recirc_id" [] 32 (22 >> 32 OneStage Metadata Exact) Nothing Number whole fixed;
    ConjId "conj_id" [] 32 (38 >> 32 OneStage Metadata Exact) Nothing Decimal whole fixed;
    ActsetOutput "actset_output" [] 32 (38 >> 0 OneStage Metadata Exact) Nothing Port whole fixed;
    SfStage "sf_stage" [] 8 (0 >> 24 Switch Metadata Exact) Nothing Decimal masked fixed;
    SfAction "sf_action" [] 16 (0 >> 0 Switch Metadata Exact) Nothing Service whole fixed;
    SfMetadata "sf_metadata" [] 32 (5 >> 32 Switch Metadata Exact) Nothing Number masked writable;
    Reg0 "reg0" [] 32 (23 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg1 "reg1" [] 32 (23 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg2 "reg2" [] 32 (24 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg3 "reg3" [] 32 (24 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg4 "reg4" [] 32 (25 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg5 "reg5" [] 32 (25 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg6 "reg6" [] 32 (26 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg7 "reg7" [] 32 (26 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg8 "reg8" [] 32 (27 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg9 "reg9" [] 32 (27 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg10 "reg10" [] 32 (28 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg11 "reg11" [] 32 (28 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg12 "reg12" [] 32 (29 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg13 "reg13" [] 32 (29 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Reg14 "reg14" [] 32 (30 >> 32 OneStage Metadata Exact) Nothing Number masked writable;
    Reg15 "reg15" [] 32 (30 >> 0 OneStage Metadata Exact) Nothing Number masked writable;
    Xreg0 "xreg0" [] 64 (over Reg0) Nothing Number masked writable;
    Xreg1 "xreg1" [] 64 (over Reg2) Nothing Number masked writable;
    Xreg2 "xreg2" [] 64 (over Reg4) Nothing Number masked writable;
    Xreg3 "xreg3" [] 64 (over Reg6) Nothing Number masked writable;
    Xreg4 "xreg4" [] 64 (over Reg8) Nothing Number masked writable;
    Xreg5 "xreg5" [] 64 (over Reg10) Nothing Number masked writable;
    Xreg6 "xreg6" [] 64 (over Reg12) Nothing Number masked writable;
    Xreg7 "xreg7" [] 64 (over Reg14) Nothing Number masked writable;
    Xxreg0 "xxreg0" [] 128 (over Reg0) Nothing Number masked writable;
    Xxreg1 "xxreg1" [] 128 (over Reg4) Nothing Number masked writable;
    Xxreg2 "xxreg2" [] 128 (over Reg8) Nothing Number masked writable;
    Xxreg3 "xxreg3" [] 128 (over Reg12) Nothing Number masked writable;
    EthDst "dl_dst" ["eth_dst"] 48 (1 >> 16 At(0) Link Whole(GROUP)) Nothing Mac masked writable;
    EthSrc "dl_src" ["eth_src"] 48 (2 >> 16 At(6 * 8) Link Whole(GROUP)) Nothing Mac masked writable;
    EthType "dl_type" ["eth_type"] 16 (1 >> 0 Implied Link Exact) Nothing Number whole leads;
    VlanTci "vlan_tci" [] 16 (2 >> 0 Implied Link Whole(TAG)) Nothing Number masked writable;
    VlanVid "vlan_vid" [] 13 (in VlanTci) Nothing Number masked writable;
    VlanPcp "dl_vlan_pcp" ["vlan_pcp"] 3 (in VlanTci >> 13) Vlan Decimal whole writable;
    MplsLabel "mpls_label" [] 20 (19 >> 44 Implied Link Exact) Mpls Decimal whole writable;
    MplsTc "mpls_tc" [] 3 (19 >> 41 Implied Link Exact) Mpls Decimal whole writable;
    MplsBos "mpls_bos" [] 1 (19 >> 40 Implied Link Exact) Mpls Decimal whole leads;
    MplsTtl "mpls_ttl" [] 8 (19 >> 32 Implied Link Exact) Mpls Decimal whole writable;
    PbbIsid "pbb_isid" [] 24 (20 >> 0 Implied Link Exact) Pbb Number masked writable;
    ArpOp "arp_op" [] 16 (in TcpSrc) Arp Decimal whole writable;
    ArpSpa "arp_spa" [] 32 (in NwSrc) Arp Ipv4 masked writable;
    ArpTpa "arp_tpa" [] 32 (in NwDst) Arp Ipv4 masked writable;
    ArpSha "arp_sha" [] 48 (14 >> 16 Implied Transport Exact) Arp Mac masked writable;
    ArpTha "arp_tha" [] 48 (15 >> 16 Implied Transport Exact) Arp Mac masked writable;
    NwSrc "nw_src" ["ip_src"] 32 (3 >> 32 At(26 * 8) Network Prefix(V4)) Ipv4 Ipv4 masked writable;
    NwDst "nw_dst" ["ip_dst"] 32 (3 >> 0 At(30 * 8) Network Prefix(V4)) Ipv4 Ipv4 masked writable;
    Ipv6Src "ipv6_src" [] 128 (8 >> 0 Implied Network Prefix(V6)) Ipv6 Ipv6 masked writable;
    Ipv6Dst "ipv6_dst" [] 128 (10 >> 0 Implied Network Prefix(V6)) Ipv6 Ipv6 masked writable;
    Ipv6Label "ipv6_label" [] 20 (16 >> 32 Implied Network Whole(0)) Ipv6 Number masked writable;
    Ipv6Exthdr "ipv6_exthdr" [] 9 (14 >> 0 Implied Network Exact) Ipv6 Number masked fixed;
    NwProto "nw_proto" ["ip_proto"] 8 (4 >> 56 At(23 * 8) Network Exact) Ip Decimal whole leads;
    NwTos "nw_tos" ["ip_dscp"] 6 (4 >> 50 At(15 * 8) Network Whole(0)) Ip Decimal whole writable;
    NwEcn "nw_ecn" ["ip_ecn"] 2 (4 >> 48 At(15 * 8 + 6) Network Exact) Ip Decimal whole writable;
    NwTtl "nw_ttl" ["ip_ttl"] 8 (4 >> 40 At(22 * 8) Network Whole(0)) Ip Decimal whole writable;
    NwFrag "nw_frag" ["ip_frag"] 2 (0 >> 16 Implied Network Exact) Ip Fragment masked fixed;
    TcpSrc "tcp_src" ["tp_src"] 16 (4 >> 16 At(34 * 8) Transport Prefix(PORT)) Tcp Decimal masked writable;
    TcpDst "tcp_dst" ["tp_dst"] 16 (4 >> 0 At(36 * 8) Transport Prefix(PORT)) Tcp Decimal masked writable;
    TcpFlags "tcp_flags" [] 12 (5 >> 16 Unread Transport Whole(0)) Tcp TcpFlags masked fixed;
    UdpSrc "udp_src" [] 16 (in TcpSrc) Udp Decimal masked writable;
    UdpDst "udp_dst" [] 16 (in TcpDst) Udp Decimal masked writable;
    SctpSrc "sctp_src" [] 16 (in TcpSrc) Sctp Decimal masked writable;
    SctpDst "sctp_dst" [] 16 (in TcpDst) Sctp Decimal masked writable;
    IcmpType "icmp_type" [] 8 (in TcpSrc) Icmp Decimal whole writable;
    IcmpCode "icmp_code" [] 8 (in TcpDst) Icmp Decimal whole writable;
    Icmpv6Type "icmpv6_type" [] 8 (in TcpSrc) Icmpv6 Decimal whole writable;
    Icmpv6Code "icmpv6_code" [] 8 (in TcpDst) Icmpv6 Decimal whole writable;
    NdTarget "nd_target" [] 128 (12 >> 0 Implied Transport Prefix(ALL)) Nd Ipv6 masked writable;
    NdSll "nd_sll" [] 48 (in ArpSha) NdSolicit Mac masked writable;
    NdTll "nd_tll" [] 48 (in ArpTha) NdAdvert Mac masked writable;
    CtState "ct_state" [] 8 (4 >> 32 Switch Metadata Exact) Nothing CtState masked fixed;
    CtZone "ct_zone" [] 16 (5 >> 0 Switch Metadata Exact) Nothing Number whole fixed;
    CtMark "ct_mark" [] 32 (16 >> 0 Switch Metadata Exact) Nothing Number masked writable;
    CtLabel "ct_label" [] 128 (17 >> 0 Switch Metadata Exact) Nothing Number masked writable;
    CtNwSrc "ct_nw_src" [] 32 (31 >> 32 Switch Transport Prefix(V4)) Ipv4 Ipv4 masked fixed;
    CtNwDst "ct_nw_dst" [] 32 (31 >> 0 Switch Transport Prefix(V4)) Ipv4 Ipv4 masked fixed;
    CtNwProto "ct_nw_proto" [] 8 (32 >> 56 Switch Transport Exact) Ip Decimal whole fixed;
    CtTpSrc "ct_tp_src" [] 16 (32 >> 16 Switch Transport Prefix(PORT)) Nothing Decimal masked fixed;
    CtTpDst "ct_tp_dst" [] 16 (32 >> 0 Switch Transport Prefix(PORT)) Nothing Decimal masked fixed;
    CtIpv6Src "ct_ipv6_src" [] 128 (33 >> 0 Switch Transport Prefix(V6)) Ipv6 Ipv6 masked fixed;
    CtIpv6Dst "ct_ipv6_dst" [] 128 (35 >> 0 Switch Transport Prefix(V6)) Ipv6 Ipv6 masked fixed;
}

impl Field {
    /// All about this field.
    #[inline]
    pub const fn about(self) -> &'static About {
        const ABOUT: &[About; Field::ALL.len()] = &made();
        &ABOUT[self as usize]
    }
}

/// The table, with what shared fields have of others filled in.
const fn made() -> [About; Field::ALL.len()] {
    let mut table = [about(0); Field::ALL.len()];
    let mut at = 0;
    while at < table.len() {
        table[at] = about(at);
        at += 1;
    }
    table
}

/// One line of it.
const fn about(number: usize) -> About {
    let row = &ROWS[number];
    let field = Field::ALL[number];
    let (owner, word, shift, source, layer, rounding) = match row.home {
        Home::Own { word, shift, source, layer, rounding } => (field, word, shift, source, layer, rounding),
        Home::In(owner, from) => {
            let Home::Own { word, shift, source, layer, rounding } = ROWS[owner as usize].home else {
                panic!("{}", row.name)
            };
            assert!(from + row.bits <= ROWS[owner as usize].bits, "a field is wider than the one it is in");
            (owner, word, shift + from, source, layer, rounding)
        }
        Home::Over(first) => {
            let Home::Own { word, shift, source, layer, rounding } = ROWS[first as usize].home else {
                panic!("{}", row.name)
            };
            assert!(shift + ROWS[first as usize].bits == 64, "words begin with another field");
            (first, word, 0, source, layer, rounding)
        }
    };
    assert!(row.bits > 64 || shift + row.bits <= 64, "a field does not fit into its word");
    About {
        name: row.name,
        aliases: row.aliases,
        bits: row.bits,
        word,
        shift,
        needs: row.needs,
        form: row.form,
        maskable: row.maskable,
        writable: row.writable,
        leads: row.leads,
        owner,
        source,
        layer,
        rounding,
    }
}
