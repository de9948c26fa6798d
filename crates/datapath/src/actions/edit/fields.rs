//! Fields of a [`Rewrite`] off the usual way: VLAN, MPLS, PBB, ARP, IPv6, neighbour discovery.

use super::rewrite::{PORTS, Rewrite, TCI, TOS, TTL};
use super::sums::{Change, Transport};
use super::tags::{insert_vlan, pop_vlan};
use super::{Version, at, ether_type, ip_version};
use weir_flow::ipv6::Chain;
use weir_flow::neighbour::Neighbour;
use weir_flow::protocol::{ARP, ICMPV6, PBB, RARP, TAG_PRESENT, VLAN};
use weir_flow::{Key, Layout, extract_again};
use weir_port::{DropReason, Frame};

/// Bits of word 4 that an ARP packet has.
const ARP_OP: u64 = 0xffff << 16;

impl Rewrite {
    /// All that is in the packet but Ethernet addresses. First it is made sure that each field has its
    /// place, then they are set, the tag last, as it may hide or show headers.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_others<F: Frame + ?Sized>(
        &self,
        frame: &mut F,
        layout: &mut Layout,
        key: &mut Key,
    ) -> Result<(), DropReason> {
        let neighbour = self.neighbour(frame.bytes(), layout, key);
        self.check(frame.bytes(), layout, key, neighbour)?;
        let bytes = frame.bytes_mut();
        if self.sets(19, !0) {
            let word = self.merged(key, 19);
            *at::<4>(bytes, layout.mpls)? = ((word >> 32) as u32).to_be_bytes();
            key.set_word(19, word);
        }
        if self.sets(20, !0) {
            let word = self.merged(key, 20);
            let isid = at::<3>(bytes, layout.ether_type + 3)?;
            isid.copy_from_slice(&(word as u32).to_be_bytes()[1..]);
            key.set_word(20, word);
        }
        let kind = key.word(4) as u32;
        match ip_version(layout, key) {
            Ok(Version::Four) => self.apply_ipv4(bytes, layout, key)?,
            Ok(Version::Six) => {
                self.set_neighbour(bytes, layout, key, neighbour)?;
                self.set_ipv6(bytes, layout, key)?;
            }
            Err(_) if layout.network != 0 => self.set_arp(bytes, layout, key)?,
            Err(_) => {}
        }
        if is_neighbour(layout, key, kind) != is_neighbour(layout, key, key.word(4) as u32) {
            *layout = extract_again(frame.bytes(), key);
        }
        if self.sets(2, TCI) { self.set_tci(frame, layout, key) } else { Ok(()) }
    }

    fn sets_ipv6(&self) -> bool {
        (8..12).any(|place| self.sets(place, !0)) || self.sets(16, !0)
    }

    /// Where the fields of neighbour discovery are, if any is to be set.
    fn neighbour(&self, bytes: &[u8], layout: &Layout, key: &Key) -> Neighbour {
        let wanted = (12..16).any(|place| self.sets(place, !0));
        if !wanted || !is_neighbour(layout, key, key.word(4) as u32) {
            return Neighbour::default();
        }
        let message = bytes.get(usize::from(layout.transport)..usize::from(layout.end));
        message.map_or_else(Neighbour::default, Neighbour::find)
    }

    /// Whether every field has its place.
    fn check(
        &self,
        bytes: &[u8],
        layout: &Layout,
        key: &Key,
        neighbour: Neighbour,
    ) -> Result<(), DropReason> {
        let version = ip_version(layout, key);
        let arp = layout.network != 0 && matches!(ether_type(key), ARP | RARP);
        let place = |has: bool| if has { Ok(()) } else { Err(DropReason::NoSuchHeader) };
        if self.sets(3, !0) && !arp {
            place(version? == Version::Four)?;
        }
        if self.sets(4, TOS | TTL) || (self.sets(4, PORTS) && !arp) {
            version?;
        }
        if self.sets_ipv6() {
            place(version? == Version::Six)?;
        }
        if arp {
            place(!self.sets(4, PORTS & !ARP_OP))?;
        }
        place(!self.sets(12, !0) && !self.sets(13, !0) || neighbour.target.is_some())?;
        place(!self.sets(14, !0) || arp || neighbour.source.is_some())?;
        place(!self.sets(15, !0) || arp || neighbour.destination.is_some())?;
        place(!self.sets(19, !0) || layout.mpls != 0)?;
        let tag = usize::from(layout.ether_type) + 2;
        place(!self.sets(20, !0) || (ether_type(key) == PBB && bytes.len() >= tag + 4))?;
        let tci = self.merged(key, 2) as u16;
        let tagged = (tci | key.word(2) as u16) & TAG_PRESENT != 0;
        place(!self.sets(2, TCI) || tagged || tci == 0)
    }

    /// An ARP packet (RFC 826).
    fn set_arp(&self, bytes: &mut [u8], layout: &Layout, key: &mut Key) -> Result<(), DropReason> {
        let packet = at::<28>(bytes, layout.network)?;
        let operation = self.merged(key, 4) & ARP_OP | key.word(4) & !ARP_OP;
        let (addresses, sender, target) = (self.merged(key, 3), self.merged(key, 14), self.merged(key, 15));
        packet[6..8].copy_from_slice(&((operation >> 16) as u16).to_be_bytes());
        packet[8..14].copy_from_slice(&sender.to_be_bytes()[..6]);
        packet[14..18].copy_from_slice(&addresses.to_be_bytes()[..4]);
        packet[18..24].copy_from_slice(&target.to_be_bytes()[..6]);
        packet[24..].copy_from_slice(&addresses.to_be_bytes()[4..]);
        for (place, word) in [(3, addresses), (4, operation), (14, sender), (15, target)] {
            key.set_word(place, word);
        }
        Ok(())
    }

    /// Addresses, label, traffic class, hop limit, and the transport header.
    fn set_ipv6(&self, bytes: &mut [u8], layout: &Layout, key: &mut Key) -> Result<(), DropReason> {
        let routed = routed(bytes, layout);
        let header = at::<40>(bytes, layout.network)?;
        let (old_rest, rest) = (key.word(4), self.merged(key, 4));
        let label = self.merged(key, 16);
        let first = u32::from(header[0] >> 4) << 28
            | u32::from((rest >> 48) as u8) << 20
            | (label >> 32) as u32 & 0x000f_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[7] = (rest >> 40) as u8;
        let mut addresses = Change::default();
        for place in 8..12 {
            let (old, new) = (key.word(place), self.merged(key, place));
            // Its last destination is what the packet's checksum is about.
            if place < 10 || !routed {
                addresses = addresses.of(old, new);
            }
            header[(place - 7) * 8..][..8].copy_from_slice(&new.to_be_bytes());
            key.set_word(place, new);
        }
        let (old, new) = (old_rest as u32, self.merged_ports(layout, key, ICMPV6));
        if layout.transport != 0 {
            let protocol = (rest >> 56) as u8;
            Transport { version: Version::Six, protocol, addresses, ports: (old, new) }
                .apply(bytes, layout)?;
        }
        key.set_word(4, (rest & !PORTS) | u64::from(new));
        key.set_word(16, label);
        Ok(())
    }

    /// Target and link-layer addresses, and what the checksum has to do with them.
    fn set_neighbour(
        &self,
        bytes: &mut [u8],
        layout: &Layout,
        key: &mut Key,
        found: Neighbour,
    ) -> Result<(), DropReason> {
        let mut change = Change::default();
        let start = usize::from(layout.transport);
        if let Some(target) = found.target {
            let place = at::<16>(bytes, start + target)?;
            for (half, word) in place.as_chunks_mut::<8>().0.iter_mut().zip([12, 13]) {
                let new = self.merged(key, word);
                change = change.of(u64::from_be_bytes(*half), new);
                *half = new.to_be_bytes();
                key.set_word(word, new);
            }
        }
        for (place, word) in [(found.source, 14), (found.destination, 15)] {
            let Some(place) = place else { continue };
            let new = self.merged(key, word);
            change = change.of(key.word(word) & !0xffff, new & !0xffff);
            at::<6>(bytes, start + place)?.copy_from_slice(&new.to_be_bytes()[..6]);
            key.set_word(word, new);
        }
        if change == Change::default() { Ok(()) } else { change.apply(bytes, start + 2) }
    }

    /// The tag: changed, pushed or popped. Its drop eligible indicator, which no field has, is kept.
    fn set_tci<F: Frame + ?Sized>(
        &self,
        frame: &mut F,
        layout: &mut Layout,
        key: &mut Key,
    ) -> Result<(), DropReason> {
        let (old, new) = (key.word(2) as u16, self.merged(key, 2) as u16);
        match (old & TAG_PRESENT != 0, new & TAG_PRESENT != 0) {
            (true, true) => {
                let tag = at::<2>(frame.bytes_mut(), 14_usize)?;
                let eligible = u16::from_be_bytes(*tag) & TAG_PRESENT;
                *tag = ((new & !TAG_PRESENT) | eligible).to_be_bytes();
                key.set_bits(2, u64::from(new), TCI);
                Ok(())
            }
            (true, false) => pop_vlan(frame, layout, key),
            (false, true) => insert_vlan(frame, layout, key, VLAN, new),
            (false, false) => Ok(()),
        }
    }
}

/// Whether a packet with these values in place of ports is one of neighbour discovery.
fn is_neighbour(layout: &Layout, key: &Key, ports: u32) -> bool {
    let icmpv6 = layout.transport != 0
        && ip_version(layout, key) == Ok(Version::Six)
        && (key.word(4) >> 56) as u8 == ICMPV6;
    icmpv6 && Neighbour::is((ports >> 16) as u8, ports as u8)
}

/// Whether an IPv6 packet has further to go than its destination address.
fn routed(bytes: &[u8], layout: &Layout) -> bool {
    let network = usize::from(layout.network);
    let first = bytes.get(network + 6).copied();
    let packet = bytes.get(..usize::from(layout.end)).zip(first);
    packet
        .and_then(|(packet, first)| Chain::walk(packet, network + 40, first))
        .is_some_and(|chain| chain.routed)
}
