//! Fields set all at once, as compiled from values and masks of a key's words.

use super::sums::{Change, Transport};
use super::{Version, at, ether_type};
use weir_flow::protocol::{ICMP, IPV4};
use weir_flow::{Key, Layout, Mask, PACKET_BITS, Term};
use weir_port::{DropReason, Frame};

/// Words of a key that hold something of the packet.
const PACKET_WORDS: usize = PACKET_BITS.len();

/// The bits of them that can be set. Those that say what the packet is made of cannot: EtherType,
/// protocol, fragment, TCP flags, extension headers, bottom of stack, and what is below the outermost
/// tag and label.
const SETTABLE: [u64; PACKET_WORDS] = {
    let mut bits = [0; PACKET_WORDS];
    bits[1] = !0xffff;
    bits[2] = u64::MAX;
    bits[3] = u64::MAX;
    bits[4] = TOS | TTL | PORTS;
    let mut place = 8;
    while place < 14 {
        bits[place] = u64::MAX;
        place += 1;
    }
    bits[14] = !0xffff;
    bits[15] = !0xffff;
    bits[16] = 0x000f_ffff << 32;
    bits[19] = 0xffff_feff << 32;
    bits[20] = 0x00ff_ffff;
    bits
};

/// Bits of word 4.
pub(super) const TOS: u64 = 0xff << 48;
pub(super) const TTL: u64 = 0xff << 40;
pub(super) const PORTS: u64 = 0xffff_ffff;
/// Bits of word 2.
pub(super) const TCI: u64 = 0xffff;

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
        // Of words 1 and 2, the upper six bytes are the destination and the source.
        let front = |part: fn(&Masked) -> u64| {
            let [to, from] = [1, 2].map(|place| u128::from(part(&self.words[place]) >> 16));
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
        let any = |bits: &[(usize, u64)]| bits.iter().any(|&(place, bits)| words[place].mask & bits != 0);
        let others = (8..PACKET_WORDS).any(|place| words[place].mask != 0);
        Self {
            ethernet: any(&[(1, !0), (2, !TCI)]),
            ipv4: any(&[(3, !0), (4, !0)]),
            others: others || any(&[(2, TCI)]),
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
        let (destination, source) = (self.merged(key, 1), self.merged(key, 2) & !TCI | key.word(2) & TCI);
        let front = at::<12>(bytes, 0_usize)?;
        let (first, second) = ((destination & !0xffff) | source >> 48, (source >> 16) as u32);
        front[..8].copy_from_slice(&first.to_be_bytes());
        front[8..].copy_from_slice(&second.to_be_bytes());
        key.set_word(1, destination);
        key.set_word(2, source);
        Ok(())
    }

    /// Whether some of these bits of a word are set.
    pub(super) fn sets(&self, place: usize, bits: u64) -> bool {
        self.words[place].mask & bits != 0
    }

    /// A word of the key with its fields set.
    #[inline]
    pub(super) fn merged(&self, key: &Key, place: usize) -> u64 {
        let Masked { value, mask } = self.words[place];
        (key.word(place) & !mask) | value
    }

    /// Ports, or type and code, after the fields are set: as they are where there is no such header.
    #[inline]
    pub(super) fn merged_ports(&self, layout: &Layout, key: &Key, icmp: u8) -> u32 {
        let (old, new) = (key.word(4) as u32, self.merged(key, 4) as u32);
        if layout.transport == 0 {
            old
        } else if (key.word(4) >> 56) as u8 == icmp {
            new & 0x00ff_00ff
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
        let (old, new) = (key.word(3), self.merged(key, 3));
        let (old_rest, new_rest) = (key.word(4), self.merged(key, 4));
        let ports = self.merged_ports(layout, key, ICMP);
        let addresses = Change::default().of(old, new);
        // TOS is the lower byte of the header's first word, TTL the upper byte of its fifth.
        let word = |rest: u64| ((rest & TOS) >> 48 | (rest & TTL) >> 16) & 0xff00_00ff;
        let header = at::<20>(bytes, layout.network)?;
        let change = addresses.of(word(old_rest), word(new_rest));
        header[1] = (new_rest >> 48) as u8;
        header[8] = (new_rest >> 40) as u8;
        header[12..].copy_from_slice(&new.to_be_bytes());
        change.apply(header, 10)?;
        if layout.transport != 0 {
            let protocol = (old_rest >> 56) as u8;
            let ports = (old_rest as u32, ports);
            Transport { version: Version::Four, protocol, addresses, ports }.apply(bytes, layout)?;
        }
        key.set_word(3, new);
        key.set_word(4, (new_rest & !PORTS) | u64::from(ports));
        Ok(())
    }
}
