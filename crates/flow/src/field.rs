//! Every field that can be matched, set or moved: its names, its place in the key, its prerequisites.
//!
//! One table, [`Field::about`], is the home of all of it. Names are those of `ovs-fields(7)`; Weir's
//! own are `sf_stage`, `sf_action` and `sf_metadata` (SoftFlow, section 3).

use crate::key::{Key, Mask};

/// A field. Numbers are places in [`Field::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is described in `ovs-fields(7)` under its name, in this order")]
pub enum Field {
    InPort,
    Metadata,
    TunId,
    TunSrc,
    TunDst,
    PktMark,
    RecircId,
    ConjId,
    ActsetOutput,
    SfStage,
    SfAction,
    SfMetadata,
    Reg0,
    Reg1,
    Reg2,
    Reg3,
    Reg4,
    Reg5,
    Reg6,
    Reg7,
    Reg8,
    Reg9,
    Reg10,
    Reg11,
    Reg12,
    Reg13,
    Reg14,
    Reg15,
    Xreg0,
    Xreg1,
    Xreg2,
    Xreg3,
    Xreg4,
    Xreg5,
    Xreg6,
    Xreg7,
    Xxreg0,
    Xxreg1,
    Xxreg2,
    Xxreg3,
    EthDst,
    EthSrc,
    EthType,
    VlanTci,
    VlanVid,
    VlanPcp,
    MplsLabel,
    MplsTc,
    MplsBos,
    MplsTtl,
    PbbIsid,
    ArpOp,
    ArpSpa,
    ArpTpa,
    ArpSha,
    ArpTha,
    NwSrc,
    NwDst,
    Ipv6Src,
    Ipv6Dst,
    Ipv6Label,
    Ipv6Exthdr,
    NwProto,
    NwTos,
    NwEcn,
    NwTtl,
    NwFrag,
    TcpSrc,
    TcpDst,
    TcpFlags,
    UdpSrc,
    UdpDst,
    SctpSrc,
    SctpDst,
    IcmpType,
    IcmpCode,
    Icmpv6Type,
    Icmpv6Code,
    NdTarget,
    NdSll,
    NdTll,
    CtState,
    CtZone,
    CtMark,
    CtLabel,
    CtNwSrc,
    CtNwDst,
    CtNwProto,
    CtTpSrc,
    CtTpDst,
    CtIpv6Src,
    CtIpv6Dst,
}

/// What must be so in a packet for a field to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: every packet has it.
    Nothing,
    /// An 802.1Q tag.
    Vlan,
    /// EtherType 0x8847 or 0x8848.
    Mpls,
    /// EtherType 0x88e7.
    Pbb,
    /// EtherType 0x0806 or 0x8035.
    Arp,
    /// EtherType 0x0800.
    Ipv4,
    /// EtherType 0x86dd.
    Ipv6,
    /// Either of the two.
    Ip,
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
    /// IP protocol 132.
    Sctp,
    /// IPv4 protocol 1.
    Icmp,
    /// IPv6 protocol 58.
    Icmpv6,
    /// ICMPv6 type 135 or 136 (RFC 4861).
    Nd,
    /// ICMPv6 type 135.
    NdSolicit,
    /// ICMPv6 type 136.
    NdAdvert,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 0x2a, or 42.
    Number,
    /// 42.
    Decimal,
    /// A port: a number, a name, or a reserved word.
    Port,
    /// 02:00:00:00:00:01.
    Mac,
    /// 198.18.0.1.
    Ipv4,
    /// 2001:db8::1.
    Ipv6,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Fragment,
    /// `+syn-ack` and the like.
    TcpFlags,
    /// `+est-new` and the like.
    CtState,
    /// A service's name.
    Service,
}

/// All about a field.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name it is printed under.
    pub name: &'static str,
    /// Other names it is read by.
    pub aliases: &'static [&'static str],
    /// Its bits.
    pub bits: u8,
    /// The word of the key that holds it, or its upper half when it has more than 64 bits (the lower
    /// half is in the next word).
    pub word: u8,
    /// Bits of that word to the right of it.
    pub shift: u8,
    /// Prerequisite.
    pub needs: Needs,
    /// How it is written.
    pub form: Form,
    /// Whether a match may mask it.
    pub maskable: bool,
    /// Whether actions may write it.
    pub writable: bool,
}

macro_rules! fields {
    ($($field:ident $name:literal $aliases:tt $bits:literal @ $word:literal >> $shift:literal $needs:ident $form:ident $mask:ident $write:ident;)*) => {
        impl Field {
            /// All fields, by number.
            pub const ALL: &'static [Self] = &[$(Self::$field),*];

            /// All about this field.
            pub const fn about(self) -> &'static About {
                const ABOUT: &[About] = &[$(About {
                    name: $name,
                    aliases: &$aliases,
                    bits: $bits,
                    word: $word,
                    shift: $shift,
                    needs: Needs::$needs,
                    form: Form::$form,
                    maskable: fields!(@ $mask),
                    writable: fields!(@ $write),
                }),*];
                &ABOUT[self as usize]
            }
        }
    };
    (@ masked) => { true };
    (@ whole) => { false };
    (@ writable) => { true };
    (@ fixed) => { false };
}

fields! {
    InPort "in_port" [] 32 @ 0 >> 32 Nothing Port whole writable;
    Metadata "metadata" [] 64 @ 6 >> 0 Nothing Number masked writable;
    TunId "tun_id" ["tunnel_id"] 64 @ 7 >> 0 Nothing Number masked writable;
    TunSrc "tun_src" [] 32 @ 37 >> 32 Nothing Ipv4 masked writable;
    TunDst "tun_dst" [] 32 @ 37 >> 0 Nothing Ipv4 masked writable;
    PktMark "pkt_mark" [] 32 @ 22 >> 0 Nothing Number masked writable;
    RecircId "recirc_id" [] 32 @ 22 >> 32 Nothing Number whole fixed;
    ConjId "conj_id" [] 32 @ 38 >> 32 Nothing Decimal whole fixed;
    ActsetOutput "actset_output" [] 32 @ 38 >> 0 Nothing Port whole fixed;
    SfStage "sf_stage" [] 8 @ 0 >> 24 Nothing Decimal masked fixed;
    SfAction "sf_action" [] 16 @ 0 >> 0 Nothing Service whole fixed;
    SfMetadata "sf_metadata" [] 32 @ 5 >> 32 Nothing Number masked writable;
    Reg0 "reg0" [] 32 @ 23 >> 32 Nothing Number masked writable;
    Reg1 "reg1" [] 32 @ 23 >> 0 Nothing Number masked writable;
    Reg2 "reg2" [] 32 @ 24 >> 32 Nothing Number masked writable;
    Reg3 "reg3" [] 32 @ 24 >> 0 Nothing Number masked writable;
    Reg4 "reg4" [] 32 @ 25 >> 32 Nothing Number masked writable;
    Reg5 "reg5" [] 32 @ 25 >> 0 Nothing Number masked writable;
    Reg6 "reg6" [] 32 @ 26 >> 32 Nothing Number masked writable;
    Reg7 "reg7" [] 32 @ 26 >> 0 Nothing Number masked writable;
    Reg8 "reg8" [] 32 @ 27 >> 32 Nothing Number masked writable;
    Reg9 "reg9" [] 32 @ 27 >> 0 Nothing Number masked writable;
    Reg10 "reg10" [] 32 @ 28 >> 32 Nothing Number masked writable;
    Reg11 "reg11" [] 32 @ 28 >> 0 Nothing Number masked writable;
    Reg12 "reg12" [] 32 @ 29 >> 32 Nothing Number masked writable;
    Reg13 "reg13" [] 32 @ 29 >> 0 Nothing Number masked writable;
    Reg14 "reg14" [] 32 @ 30 >> 32 Nothing Number masked writable;
    Reg15 "reg15" [] 32 @ 30 >> 0 Nothing Number masked writable;
    Xreg0 "xreg0" [] 64 @ 23 >> 0 Nothing Number masked writable;
    Xreg1 "xreg1" [] 64 @ 24 >> 0 Nothing Number masked writable;
    Xreg2 "xreg2" [] 64 @ 25 >> 0 Nothing Number masked writable;
    Xreg3 "xreg3" [] 64 @ 26 >> 0 Nothing Number masked writable;
    Xreg4 "xreg4" [] 64 @ 27 >> 0 Nothing Number masked writable;
    Xreg5 "xreg5" [] 64 @ 28 >> 0 Nothing Number masked writable;
    Xreg6 "xreg6" [] 64 @ 29 >> 0 Nothing Number masked writable;
    Xreg7 "xreg7" [] 64 @ 30 >> 0 Nothing Number masked writable;
    Xxreg0 "xxreg0" [] 128 @ 23 >> 0 Nothing Number masked writable;
    Xxreg1 "xxreg1" [] 128 @ 25 >> 0 Nothing Number masked writable;
    Xxreg2 "xxreg2" [] 128 @ 27 >> 0 Nothing Number masked writable;
    Xxreg3 "xxreg3" [] 128 @ 29 >> 0 Nothing Number masked writable;
    EthDst "dl_dst" ["eth_dst"] 48 @ 1 >> 16 Nothing Mac masked writable;
    EthSrc "dl_src" ["eth_src"] 48 @ 2 >> 16 Nothing Mac masked writable;
    EthType "dl_type" ["eth_type"] 16 @ 1 >> 0 Nothing Number whole writable;
    VlanTci "vlan_tci" [] 16 @ 2 >> 0 Nothing Number masked writable;
    VlanVid "vlan_vid" [] 13 @ 2 >> 0 Nothing Number masked writable;
    VlanPcp "dl_vlan_pcp" ["vlan_pcp"] 3 @ 2 >> 13 Vlan Decimal whole writable;
    MplsLabel "mpls_label" [] 20 @ 19 >> 44 Mpls Decimal whole writable;
    MplsTc "mpls_tc" [] 3 @ 19 >> 41 Mpls Decimal whole writable;
    MplsBos "mpls_bos" [] 1 @ 19 >> 40 Mpls Decimal whole writable;
    MplsTtl "mpls_ttl" [] 8 @ 19 >> 32 Mpls Decimal whole writable;
    PbbIsid "pbb_isid" [] 24 @ 20 >> 0 Pbb Number masked writable;
    ArpOp "arp_op" [] 16 @ 4 >> 16 Arp Decimal whole writable;
    ArpSpa "arp_spa" [] 32 @ 3 >> 32 Arp Ipv4 masked writable;
    ArpTpa "arp_tpa" [] 32 @ 3 >> 0 Arp Ipv4 masked writable;
    ArpSha "arp_sha" [] 48 @ 14 >> 16 Arp Mac masked writable;
    ArpTha "arp_tha" [] 48 @ 15 >> 16 Arp Mac masked writable;
    NwSrc "nw_src" ["ip_src"] 32 @ 3 >> 32 Ipv4 Ipv4 masked writable;
    NwDst "nw_dst" ["ip_dst"] 32 @ 3 >> 0 Ipv4 Ipv4 masked writable;
    Ipv6Src "ipv6_src" [] 128 @ 8 >> 0 Ipv6 Ipv6 masked writable;
    Ipv6Dst "ipv6_dst" [] 128 @ 10 >> 0 Ipv6 Ipv6 masked writable;
    Ipv6Label "ipv6_label" [] 20 @ 16 >> 32 Ipv6 Number masked writable;
    Ipv6Exthdr "ipv6_exthdr" [] 9 @ 14 >> 0 Ipv6 Number masked fixed;
    NwProto "nw_proto" ["ip_proto"] 8 @ 4 >> 56 Ip Decimal whole writable;
    NwTos "nw_tos" ["ip_dscp"] 6 @ 4 >> 50 Ip Decimal whole writable;
    NwEcn "nw_ecn" ["ip_ecn"] 2 @ 4 >> 48 Ip Decimal whole writable;
    NwTtl "nw_ttl" ["ip_ttl"] 8 @ 4 >> 40 Ip Decimal whole writable;
    NwFrag "nw_frag" ["ip_frag"] 2 @ 0 >> 16 Ip Fragment masked fixed;
    TcpSrc "tcp_src" ["tp_src"] 16 @ 4 >> 16 Tcp Decimal masked writable;
    TcpDst "tcp_dst" ["tp_dst"] 16 @ 4 >> 0 Tcp Decimal masked writable;
    TcpFlags "tcp_flags" [] 12 @ 5 >> 16 Tcp TcpFlags masked fixed;
    UdpSrc "udp_src" [] 16 @ 4 >> 16 Udp Decimal masked writable;
    UdpDst "udp_dst" [] 16 @ 4 >> 0 Udp Decimal masked writable;
    SctpSrc "sctp_src" [] 16 @ 4 >> 16 Sctp Decimal masked writable;
    SctpDst "sctp_dst" [] 16 @ 4 >> 0 Sctp Decimal masked writable;
    IcmpType "icmp_type" [] 8 @ 4 >> 16 Icmp Decimal whole writable;
    IcmpCode "icmp_code" [] 8 @ 4 >> 0 Icmp Decimal whole writable;
    Icmpv6Type "icmpv6_type" [] 8 @ 4 >> 16 Icmpv6 Decimal whole writable;
    Icmpv6Code "icmpv6_code" [] 8 @ 4 >> 0 Icmpv6 Decimal whole writable;
    NdTarget "nd_target" [] 128 @ 12 >> 0 Nd Ipv6 masked writable;
    NdSll "nd_sll" [] 48 @ 14 >> 16 NdSolicit Mac masked writable;
    NdTll "nd_tll" [] 48 @ 15 >> 16 NdAdvert Mac masked writable;
    CtState "ct_state" [] 8 @ 4 >> 32 Nothing CtState masked fixed;
    CtZone "ct_zone" [] 16 @ 5 >> 0 Nothing Number whole fixed;
    CtMark "ct_mark" [] 32 @ 16 >> 0 Nothing Number masked writable;
    CtLabel "ct_label" [] 128 @ 17 >> 0 Nothing Number masked writable;
    CtNwSrc "ct_nw_src" [] 32 @ 31 >> 32 Ipv4 Ipv4 masked fixed;
    CtNwDst "ct_nw_dst" [] 32 @ 31 >> 0 Ipv4 Ipv4 masked fixed;
    CtNwProto "ct_nw_proto" [] 8 @ 32 >> 56 Ip Decimal whole fixed;
    CtTpSrc "ct_tp_src" [] 16 @ 32 >> 16 Nothing Decimal masked fixed;
    CtTpDst "ct_tp_dst" [] 16 @ 32 >> 0 Nothing Decimal masked fixed;
    CtIpv6Src "ct_ipv6_src" [] 128 @ 33 >> 0 Ipv6 Ipv6 masked fixed;
    CtIpv6Dst "ct_ipv6_dst" [] 128 @ 35 >> 0 Ipv6 Ipv6 masked fixed;
}

/// The lowest `bits` bits.
#[inline]
pub const fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

impl Field {
    /// The field of this name, or of this alias.
    pub fn named(name: &str) -> Option<Self> {
        let is = |field: &Self| field.about().name == name || field.about().aliases.contains(&name);
        Self::ALL.iter().copied().find(is)
    }

    /// The name it is printed under.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.about().bits as u32
    }

    /// Register n, of 16.
    pub fn register(number: usize) -> Option<Self> {
        Self::ALL[Self::Reg0 as usize..=Self::Reg15 as usize].get(number).copied()
    }

    /// The whole field.
    pub const fn whole(self) -> Subfield {
        Subfield { field: self, from: 0, bits: self.about().bits }
    }

    /// The field's value in a key.
    #[inline]
    pub fn get(self, key: &Key) -> u128 {
        let about = self.about();
        let word = u128::from(key.word(usize::from(about.word)));
        if about.bits > 64 {
            word << 64 | u128::from(key.word(usize::from(about.word) + 1))
        } else {
            (word >> about.shift) & ones(self.bits())
        }
    }

    /// Writes the bits of the field that `mask` names.
    #[inline]
    pub fn set_masked(self, key: &mut Key, value: u128, mask: u128) {
        let about = self.about();
        // Nearly all are within one word, which is said in two instructions then.
        if about.bits <= 64 {
            let mask = (mask & ones(self.bits())) as u64;
            if mask != 0 {
                key.set_bits(usize::from(about.word), (value as u64) << about.shift, mask << about.shift);
            }
            return;
        }
        for (place, value, mask) in self.spread(value, mask) {
            key.set_bits(place, value, mask);
        }
    }

    /// Writes the field.
    #[inline]
    pub fn set(self, key: &mut Key, value: u128) {
        self.set_masked(key, value, u128::MAX);
    }

    /// Names bits of the field in a mask.
    #[inline]
    pub fn examine(self, mask: &mut Mask, bits: u128) {
        for (place, _, bits) in self.spread(0, bits) {
            mask.add(place, bits);
        }
    }

    /// The field's bits of a mask.
    pub fn mask_of(self, mask: &Mask) -> u128 {
        let about = self.about();
        let word = u128::from(mask.word(usize::from(about.word)));
        if about.bits > 64 {
            word << 64 | u128::from(mask.word(usize::from(about.word) + 1))
        } else {
            (word >> about.shift) & ones(self.bits())
        }
    }

    /// A value and a mask of the field as (place, value, mask) of the key's words; parts whose mask
    /// is zero are left out, and so are bits that the field does not have.
    #[inline]
    pub fn spread(self, value: u128, mask: u128) -> impl Iterator<Item = (usize, u64, u64)> {
        let about = self.about();
        let (word, mask) = (usize::from(about.word), mask & ones(self.bits()));
        let parts = if about.bits > 64 {
            [(word, (value >> 64) as u64, (mask >> 64) as u64), (word + 1, value as u64, mask as u64)]
        } else {
            [(word, (value as u64) << about.shift, (mask as u64) << about.shift), (0, 0, 0)]
        };
        parts.into_iter().filter(|part| part.2 != 0).map(|(place, value, mask)| (place, value & mask, mask))
    }
}

/// Some bits of a field: `reg0[4..11]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// Bits to the right of the part.
    pub from: u8,
    /// Its bits, at least 1.
    pub bits: u8,
}

impl Subfield {
    /// The bits of the field that it names.
    #[inline]
    pub const fn mask(self) -> u128 {
        ones(self.bits as u32) << self.from
    }

    /// Its value in a key.
    #[inline]
    pub fn get(self, key: &Key) -> u128 {
        (self.field.get(key) >> self.from) & ones(u32::from(self.bits))
    }

    /// Writes it; bits of the value that do not fit are left out.
    #[inline]
    pub fn set(self, key: &mut Key, value: u128) {
        self.field.set_masked(key, value << self.from, self.mask());
    }

    /// Names its bits in a mask.
    #[inline]
    pub fn examine(self, mask: &mut Mask) {
        self.field.examine(mask, self.mask());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::WORDS;
    use proptest::prelude::*;

    #[test]
    fn every_field_lies_within_its_words_and_has_names_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (number, &field) in Field::ALL.iter().enumerate() {
            let about = field.about();
            assert_eq!(field as usize, number, "{}", about.name);
            let words = if about.bits > 64 { 2 } else { 1 };
            assert!(usize::from(about.word) + words <= WORDS, "{}", about.name);
            assert!(words == 2 || about.shift + about.bits <= 64, "{}", about.name);
            for name in std::iter::once(&about.name).chain(about.aliases) {
                assert!(names.insert(*name), "{name} twice");
                assert_eq!(Field::named(name), Some(field));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            number in 0..Field::ALL.len(), value in any::<u128>(), mask in any::<u128>(), seed in any::<u64>(),
        ) {
            let field = Field::ALL[number];
            let mut key = Key::new();
            for place in 0..WORDS {
                key.set_word(place, seed.wrapping_mul(place as u64 * 2 + 1));
            }
            let before = key.clone();
            field.set_masked(&mut key, value, mask);
            let kept = ones(field.bits());
            prop_assert_eq!(field.get(&key), ((field.get(&before) & !mask) | (value & mask)) & kept);
            let mut examined = Mask::new();
            field.examine(&mut examined, mask);
            prop_assert_eq!(field.mask_of(&examined), mask & kept);
            for place in 0..WORDS {
                let changed = key.word(place) ^ before.word(place);
                prop_assert_eq!(changed & !examined.word(place), 0);
            }
        }
    }
}
