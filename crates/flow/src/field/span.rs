//! Bits of a key that lie together in a word.

use super::Field;
use crate::key::{Key, Mask};

/// Bits of one word of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The word.
    pub word: u8,
    /// Bits of it to the right.
    pub shift: u8,
    /// How many they are, 1 to 64.
    pub bits: u8,
}

impl Span {
    /// The word's place in a key.
    #[inline]
    pub const fn place(self) -> usize {
        self.word as usize
    }

    /// The bits, in their word.
    #[inline]
    pub const fn mask(self) -> u64 {
        (u64::MAX >> (64 - self.bits)) << self.shift
    }

    /// A value, in its place of the word; bits of it that have no room are left out.
    #[inline]
    pub const fn put(self, value: u64) -> u64 {
        (value << self.shift) & self.mask()
    }

    /// The value that a word has here.
    #[inline]
    pub const fn of(self, word: u64) -> u64 {
        (word & self.mask()) >> self.shift
    }

    /// These bits and those directly to the right of them, as one number.
    ///
    /// # Panics
    /// Where those are elsewhere; in a constant, that does not compile.
    pub const fn with(self, right: Self) -> Self {
        assert!(
            self.word == right.word && right.shift + right.bits == self.shift,
            "two fields do not lie side by side in the key"
        );
        Self { word: self.word, shift: right.shift, bits: self.bits + right.bits }
    }

    /// The value in a key.
    #[inline]
    pub fn get(self, key: &Key) -> u64 {
        self.of(key.word(self.place()))
    }

    /// Writes it.
    #[inline]
    pub fn set(self, key: &mut Key, value: u64) {
        key.set_bits(self.place(), self.put(value), self.mask());
    }

    /// Names all of it in a mask.
    #[inline]
    pub fn examine(self, mask: &mut Mask) {
        mask.add(self.place(), self.mask());
    }

    /// The bits of it that a mask names.
    #[inline]
    pub fn mask_of(self, mask: &Mask) -> u64 {
        self.of(mask.word(self.place()))
    }
}

/// Ethernet's destination.
pub const ETH_DST: Span = Field::EthDst.span();
/// Ethernet's source.
pub const ETH_SRC: Span = Field::EthSrc.span();
/// The EtherType.
pub const ETH_TYPE: Span = Field::EthType.span();
/// The outermost tag.
pub const TCI: Span = Field::VlanTci.span();
/// Both addresses of IPv4, or of ARP, as the header of IPv4 has them.
pub const ADDRESSES: Span = Field::NwSrc.span().with(Field::NwDst.span());
/// IP's protocol.
pub const PROTOCOL: Span = Field::NwProto.span();
/// IP's type of service: DSCP and ECN.
pub const TOS: Span = Field::NwTos.span().with(Field::NwEcn.span());
/// IP's time to live.
pub const TTL: Span = Field::NwTtl.span();
/// Both ports, as headers have them; ICMP's type and code, and ARP's operation, lie in them.
pub const PORTS: Span = Field::TcpSrc.span().with(Field::TcpDst.span());
/// The outermost label stack entry, as the header has it.
pub const MPLS: Span = Field::MplsLabel
    .span()
    .with(Field::MplsTc.span())
    .with(Field::MplsBos.span())
    .with(Field::MplsTtl.span());

/// Bits of a key that no field has. All of them come from the packet, and plain packets have them as zero.
#[derive(Clone, Copy, Debug)]
pub struct Hidden {
    /// What they are called.
    pub name: &'static str,
    /// Where they are.
    pub span: Span,
    /// Which part of a lookup examines them.
    pub layer: super::Layer,
}

macro_rules! hidden {
    ($($(#[$about:meta])* $span:ident $bits:literal ($word:literal >> $shift:literal $layer:ident);)*) => {
        $($(#[$about])* pub const $span: Span = Span { word: $word, shift: $shift, bits: $bits };)*

        /// All of them.
        pub const HIDDEN: &[Hidden] =
            &[$(Hidden { name: stringify!($span), span: $span, layer: super::Layer::$layer }),*];
    };
}

hidden! {
    /// Whether the packet is too short for its transport header, of TCP, UDP, SCTP, ICMP or ICMPv6. No flow can
    /// match it: to the tables, such a packet has ports of zero. But those of one that has them can be set,
    /// and so a megaflow must tell the two apart.
    CUT 1 (0 >> 18 Network);
    /// The second label stack entry.
    SECOND_LABEL 32 (19 >> 0 Link);
    /// The third.
    THIRD_LABEL 32 (20 >> 32 Link);
    /// The inner tag.
    INNER_TCI 16 (21 >> 48 Link);
    /// What says that the outermost tag is one.
    OUTER_TPID 16 (21 >> 32 Link);
    /// The same of the inner tag.
    INNER_TPID 16 (21 >> 16 Link);
}
