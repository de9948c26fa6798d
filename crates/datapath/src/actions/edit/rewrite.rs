//! Fields set all at once, as compiled from values and masks of a key's words.

use super::sums::{Change, Transport};
use super::{Version, at, ether_type};
use weir_flow::protocol::{ICMP, IPV4};
use weir_flow::span::{ADDRESSES, ETH_DST, ETH_SRC, PORTS, TOS, TTL};
use weir_flow::{Field, Key, Layout, Mask, PACKET_BITS, PACKET_WORDS, SETTABLE, Span, Term};
use weir_packet::{DropReason, Frame};

/// The bits of type and code of ICMP among those of ports.
const ICMP_BITS: u32 = PORTS.of(Field::IcmpType.span().mask() | Field::IcmpCode.span().mask()) as u32;

/// What an Ethernet header has that is set, and an IPv4 packet.
const ETHERNET: [Span; 2] = [ETH_DST, ETH_SRC];
const INTERNET: [Span; 4] = [ADDRESSES, TOS, TTL, PORTS];

/// The rest of a packet's bits that can be set. Those that say what the packet is made of cannot: EtherType,
/// protocol, fragment, TCP flags, extension headers, bottom of stack, and what is below the outermost tag and
/// label.
const OTHERS: [u64; PACKET_WORDS] = without(without(SETTABLE, &ETHERNET), &INTERNET);

const fn without(mut bits: [u64; PACKET_WORDS], spans: &[Span]) -> [u64; PACKET_WORDS] {
    let mut at = 0;
    while at < spans.len() {
        bits[spans[at].place()] &= !spans[at].mask();
        at += 1;
    }
    bits
}

/// What is set in a word: side by side, so that the usual ones share a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Masked {
    value: u64,
    mask: u64,
}

/// Fields to be set. Bits that nothing can set are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rewrite {
    /// Whether an Ethernet address is set.
    ethernet: bool,
    /// Whether any of `nw_src`, `nw_dst`, `nw_tos`, `nw_ttl`, ports (and what shares their words) is.
    ipv4: bool,
    /// Whether any other field of the packet is.
    others: bool,
    /// What is set in the words that hold something of the packet.
    words: [Masked; PACKET_WORDS],
    /// What has no place in the packet.
    apart: Box<[Term]>,
}

/// Ethernet addresses, or bits of them, that are set: what is kept of a frame's first 16 bytes as they lie in
/// memory, and what is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    keep: [u64; 2],
    put: [u64; 2],
}

impl Addresses {
    /// None.
    pub(crate) const NONE: Self = Self { keep: [u64::MAX; 2], put: [0; 2] };

    /// Sets them; of a frame that is too short to be one, nothing.
    #[inline(always)]
    pub(crate) fn apply(&self, bytes: &mut [u8]) {
        if let Some(front) = bytes.first_chunk_mut::<16>() {
            let [low, high] = weir_flow::words(front);
            let both = u128::from(high & self.keep[1] | self.put[1]) << 64
                | u128::from(low & self.keep[0] | self.put[0]);
            *front = both.to_le_bytes();
        }
    }
}

impl Rewrite {
    /// The Ethernet addresses it sets, if it changes nothing else of the packet.
    pub(crate) fn only_addresses(&self) -> Option<Addresses> {
        let front = |part: fn(&Masked) -> u64| {
            let [to, from] = ETHERNET.map(|span| u128::from(span.of(part(&self.words[span.place()]))));
            weir_flow::words(&(to << 80 | from << 32).to_be_bytes())
        };
        let keep = front(|word| word.mask).map(|mask| !mask);
        let addresses = Addresses { keep, put: front(|word| word.value) };
        (!self.ipv4 && !self.others).then_some(addresses)
    }

    /// Prepares the bits that `mask` names to be set to those of `value`.
    pub fn compile(value: &Key, mask: &Mask) -> Self {
        let mut words = [Masked::default(); PACKET_WORDS];
        let mut apart = Vec::new();
        for (place, bits) in mask.iter() {
            let of_packet = PACKET_BITS.get(place).copied().unwrap_or(0);
            if let Some(&settable) = SETTABLE.get(place) {
                let mask = bits & settable;
                words[place] = Masked { value: value.word(place) & mask, mask };
            }
            let mask = bits & !of_packet;
            if mask != 0 {
                apart.push(Term { place: place as u8, value: value.word(place) & mask, mask });
            }
        }
        let any = |spans: &[Span]| spans.iter().any(|span| words[span.place()].mask & span.mask() != 0);
        Self {
            ethernet: any(&ETHERNET),
            ipv4: any(&INTERNET),
            others: words.iter().zip(OTHERS).any(|(word, others)| word.mask & others != 0),
            words,
            apart: apart.into_boxed_slice(),
        }
    }

    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        !(self.ethernet || self.ipv4 || self.others) && self.apart.is_empty()
    }

    /// Sets the fields in frame and key, and sees to the checksums.
    ///
    /// - Ports, ICMP types and codes are skipped where an IP packet has no such header, as in fragments
    ///   other than the first.
    /// - `vlan_tci` with its bit 0x1000 pushes a tag (TPID 0x8100) where there is none, and without it
    ///   pops the one there is, as in Open vSwitch.
    /// - A UDP checksum of zero stays zero. A wrong checksum stays as wrong as it was. That of an SCTP
    ///   packet in fragments cannot be right: it covers bytes that are elsewhere.
    ///
    /// # Errors
    /// `NoSuchHeader`, `BadHeader`: the packet has no place for a field, or a malformed one. `TooShort`:
    /// nor has it addresses. `NoRoom`: no room for a tag.
    #[inline]
    pub fn apply<F: Frame + ?Sized>(
        &self,
        frame: &mut F,
        layout: &mut Layout,
        key: &mut Key,
    ) -> Result<(), DropReason> {
        if layout.ether_type == 0 {
            return self.without_packet(key);
        }
        if self.others {
            self.apply_others(frame, layout, key)?;
        } else if self.ipv4 {
            if ether_type(key) == IPV4 && layout.network != 0 {
                self.apply_ipv4(frame.bytes_mut(), layout, key)?;
            } else {
                self.apply_others(frame, layout, key)?;
            }
        }
        if self.ethernet {
            self.apply_ethernet(frame.bytes_mut(), key)?;
        }
        self.apply_apart(key);
        Ok(())
    }

    /// Sets what has no place in the packet.
    #[inline]
    fn apply_apart(&self, key: &mut Key) {
        for term in &self.apart {
            key.set_bits(usize::from(term.place), term.value, term.mask);
        }
    }

    #[cold]
    fn without_packet(&self, key: &mut Key) -> Result<(), DropReason> {
        if self.ethernet || self.ipv4 || self.others {
            return Err(DropReason::TooShort);
        }
        self.apply_apart(key);
        Ok(())
    }

    /// Both addresses in one go: the key knows those that are not set.
    #[inline]
    fn apply_ethernet(&self, bytes: &mut [u8], key: &mut Key) -> Result<(), DropReason> {
        let (destination, source) = (self.merged(key, ETH_DST), self.merged(key, ETH_SRC));
        let front = at::<12>(bytes, 0_usize)?;
        let (first, second) = (destination << 16 | source >> 32, source as u32);
        front[..8].copy_from_slice(&first.to_be_bytes());
        front[8..].copy_from_slice(&second.to_be_bytes());
        ETH_DST.set(key, destination);
        ETH_SRC.set(key, source);
        Ok(())
    }

    /// Whether some of these bits are set.
    pub(super) fn sets(&self, span: Span) -> bool {
        self.words[span.place()].mask & span.mask() != 0
    }

    /// Whether some of a field's bits are.
    pub(super) fn sets_field(&self, field: Field) -> bool {
        field.spread(0, u128::MAX).any(|(place, _, bits)| self.words[place].mask & bits != 0)
    }

    /// What a key has there, with what is set.
    #[inline]
    pub(super) fn merged(&self, key: &Key, span: Span) -> u64 {
        span.of(self.merged_word(key, span.place()))
    }

    /// What a key has of a field, with what is set.
    pub(super) fn merged_field(&self, key: &Key, field: Field) -> u128 {
        field.spread(0, u128::MAX).fold(0, |value, (place, _, bits)| {
            value << 64 | u128::from((self.merged_word(key, place) & bits) >> bits.trailing_zeros())
        })
    }

    /// A word of the key with its fields set.
    #[inline]
    fn merged_word(&self, key: &Key, place: usize) -> u64 {
        let Masked { value, mask } = self.words[place];
        (key.word(place) & !mask) | value
    }

    /// Ports, or type and code, after the fields are set: as they are where there is no such header.
    #[inline]
    pub(super) fn merged_ports(&self, layout: &Layout, key: &Key, icmp: u8) -> u32 {
        let (old, new) = (key.ports(), self.merged(key, PORTS) as u32);
        if layout.transport == 0 {
            old
        } else if key.protocol() == icmp {
            new & ICMP_BITS
        } else {
            new
        }
    }

    /// Addresses, TOS, TTL and ports of a whole IPv4 header.
    #[inline]
    pub(super) fn apply_ipv4(
        &self,
        bytes: &mut [u8],
        layout: &Layout,
        key: &mut Key,
    ) -> Result<(), DropReason> {
        let (old, new) = (key.addresses(), self.merged(key, ADDRESSES));
        let (tos, ttl) = (self.merged(key, TOS) as u8, self.merged(key, TTL) as u8);
        let ports = self.merged_ports(layout, key, ICMP);
        let addresses = Change::default().of(old, new);
        // TOS is the lower byte of the header's first word, TTL the upper byte of its fifth.
        let word = |tos: u8, ttl: u8| u64::from(tos) | u64::from(ttl) << 24;
        let header = at::<20>(bytes, layout.network)?;
        let change = addresses.of(word(key.tos(), key.ttl()), word(tos, ttl));
        header[1] = tos;
        header[8] = ttl;
        header[12..].copy_from_slice(&new.to_be_bytes());
        change.apply(header, 10)?;
        if layout.transport != 0 {
            let (protocol, ports) = (key.protocol(), (key.ports(), ports));
            Transport { version: Version::Four, protocol, addresses, ports }.apply(bytes, layout)?;
        }
        ADDRESSES.set(key, new);
        set_rest(key, tos, ttl, ports);
        Ok(())
    }
}

/// Writes what both versions of IP have, with what is behind them, at once.
#[inline]
pub(super) fn set_rest(key: &mut Key, tos: u8, ttl: u8, ports: u32) {
    const PLACE: usize = TOS.place();
    const _: () = assert!(TTL.place() == PLACE && PORTS.place() == PLACE, "they are in one word");
    let value = TOS.put(tos.into()) | TTL.put(ttl.into()) | PORTS.put(ports.into());
    key.set_bits(PLACE, value, TOS.mask() | TTL.mask() | PORTS.mask());
}
