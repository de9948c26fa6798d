//! Fields of a [`Rewrite`] off the usual way: VLAN, MPLS, PBB, ARP, IPv6, neighbour discovery.

use super::rewrite::{Rewrite, set_rest};
use super::sums::{Change, Transport};
use super::tags::{insert_vlan, pop_vlan};
use super::{Version, at, ether_type, ip_version};
use weir_flow::ipv6::Chain;
use weir_flow::neighbour::Neighbour;
use weir_flow::protocol::{ARP, ICMPV6, PBB, RARP, TAG_PRESENT, VLAN};
use weir_flow::span::{ADDRESSES, MPLS, PORTS, TCI, TOS, TTL};
use weir_flow::{Field, Key, Layout, Span, extract_again};
use weir_packet::{DropReason, Frame};

const PBB_ISID: Span = Field::PbbIsid.span();
const LABEL: Span = Field::Ipv6Label.span();

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
        if self.sets(MPLS) {
            let entry = self.merged(key, MPLS);
            *at::<4>(bytes, layout.mpls)? = (entry as u32).to_be_bytes();
            MPLS.set(key, entry);
        }
        if self.sets(PBB_ISID) {
            let isid = self.merged(key, PBB_ISID);
            at::<3>(bytes, layout.ether_type + 3)?.copy_from_slice(&(isid as u32).to_be_bytes()[1..]);
            PBB_ISID.set(key, isid);
        }
        let kind = key.ports();
        match ip_version(layout, key) {
            Ok(Version::Four) => self.apply_ipv4(bytes, layout, key)?,
            Ok(Version::Six) => {
                self.set_neighbour(bytes, layout, key, neighbour)?;
                self.set_ipv6(bytes, layout, key)?;
            }
            Err(_) if layout.network != 0 => self.set_arp(bytes, layout, key)?,
            Err(_) => {}
        }
        if is_neighbour(layout, key, kind) != is_neighbour(layout, key, key.ports()) {
            *layout = extract_again(frame.bytes(), key);
        }
        if self.sets(TCI) { self.set_tci(frame, layout, key) } else { Ok(()) }
    }

    fn sets_any<const N: usize>(&self, fields: [Field; N]) -> bool {
        fields.into_iter().any(|field| self.sets_field(field))
    }

    /// Where the fields of neighbour discovery are, if any is to be set.
    fn neighbour(&self, bytes: &[u8], layout: &Layout, key: &Key) -> Neighbour {
        let wanted = self.sets_any([Field::NdTarget, Field::NdSll, Field::NdTll]);
        if !wanted || !is_neighbour(layout, key, key.ports()) {
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
        if self.sets(ADDRESSES) && !arp {
            place(version? == Version::Four)?;
        }
        if self.sets(TOS) || self.sets(TTL) || (self.sets(PORTS) && !arp) {
            version?;
        }
        if self.sets_any([Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label]) {
            place(version? == Version::Six)?;
        }
        if arp {
            // Its operation lies where the source port does.
            place(!self.sets_field(Field::TcpDst))?;
        }
        place(!self.sets_field(Field::NdTarget) || neighbour.target.is_some())?;
        place(!self.sets_field(Field::NdSll) || arp || neighbour.source.is_some())?;
        place(!self.sets_field(Field::NdTll) || arp || neighbour.destination.is_some())?;
        place(!self.sets(MPLS) || layout.mpls != 0)?;
        let tag = usize::from(layout.ether_type) + 2;
        place(!self.sets(PBB_ISID) || (ether_type(key) == PBB && bytes.len() >= tag + 4))?;
        let tci = self.merged(key, TCI) as u16;
        let tagged = (tci | key.tci()) & TAG_PRESENT != 0;
        place(!self.sets(TCI) || tagged || tci == 0)
    }

    /// An ARP packet (RFC 826).
    fn set_arp(&self, bytes: &mut [u8], layout: &Layout, key: &mut Key) -> Result<(), DropReason> {
        let packet = at::<28>(bytes, layout.network)?;
        let [operation, sender, target] =
            [Field::ArpOp, Field::ArpSha, Field::ArpTha].map(|field| self.merged(key, field.span()));
        let addresses = self.merged(key, ADDRESSES);
        packet[6..8].copy_from_slice(&(operation as u16).to_be_bytes());
        packet[8..14].copy_from_slice(&mac(sender));
        packet[14..18].copy_from_slice(&addresses.to_be_bytes()[..4]);
        packet[18..24].copy_from_slice(&mac(target));
        packet[24..].copy_from_slice(&addresses.to_be_bytes()[4..]);
        for (field, value) in [(Field::ArpOp, operation), (Field::ArpSha, sender), (Field::ArpTha, target)] {
            field.span().set(key, value);
        }
        ADDRESSES.set(key, addresses);
        Ok(())
    }

    /// Addresses, label, traffic class, hop limit, and the transport header.
    fn set_ipv6(&self, bytes: &mut [u8], layout: &Layout, key: &mut Key) -> Result<(), DropReason> {
        let routed = routed(bytes, layout);
        let header = at::<40>(bytes, layout.network)?;
        let (tos, ttl) = (self.merged(key, TOS) as u8, self.merged(key, TTL) as u8);
        let label = self.merged(key, LABEL);
        let first = u32::from(header[0] >> 4) << 28 | u32::from(tos) << 20 | label as u32;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[7] = ttl;
        let mut addresses = Change::default();
        for (field, place) in [(Field::Ipv6Src, 8), (Field::Ipv6Dst, 24)] {
            let (old, new) = (field.get(key), self.merged_field(key, field));
            // Its last destination is what the packet's checksum is about.
            if field == Field::Ipv6Src || !routed {
                addresses = addresses.of_wide(old, new);
            }
            header[place..][..16].copy_from_slice(&new.to_be_bytes());
            field.set(key, new);
        }
        let (old, new) = (key.ports(), self.merged_ports(layout, key, ICMPV6));
        if layout.transport != 0 {
            let (protocol, ports) = (key.protocol(), (old, new));
            Transport { version: Version::Six, protocol, addresses, ports }.apply(bytes, layout)?;
        }
        set_rest(key, tos, ttl, new);
        LABEL.set(key, label);
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
            let new = self.merged_field(key, Field::NdTarget);
            change = change.of_wide(u128::from_be_bytes(*place), new);
            *place = new.to_be_bytes();
            Field::NdTarget.set(key, new);
        }
        for (place, field) in [(found.source, Field::NdSll), (found.destination, Field::NdTll)] {
            let Some(place) = place else { continue };
            let (old, new) = (field.span().get(key), self.merged(key, field.span()));
            change = change.of(old, new);
            *at::<6>(bytes, start + place)? = mac(new);
            field.span().set(key, new);
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
        let (old, new) = (key.tci(), self.merged(key, TCI) as u16);
        match (old & TAG_PRESENT != 0, new & TAG_PRESENT != 0) {
            (true, true) => {
                let tag = at::<2>(frame.bytes_mut(), 14_usize)?;
                let eligible = u16::from_be_bytes(*tag) & TAG_PRESENT;
                *tag = ((new & !TAG_PRESENT) | eligible).to_be_bytes();
                TCI.set(key, u64::from(new));
                Ok(())
            }
            (true, false) => pop_vlan(frame, layout, key),
            (false, true) => insert_vlan(frame, layout, key, VLAN, new),
            (false, false) => Ok(()),
        }
    }
}

/// An Ethernet address.
fn mac(value: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = value.to_be_bytes();
    bytes
}

/// Whether a packet with these values in place of ports is one of neighbour discovery.
fn is_neighbour(layout: &Layout, key: &Key, ports: u32) -> bool {
    let icmpv6 =
        layout.transport != 0 && ip_version(layout, key) == Ok(Version::Six) && key.protocol() == ICMPV6;
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
