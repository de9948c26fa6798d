//! Ethernet, VLAN tags, LLC and SNAP, MPLS, provider backbone tags.

use super::{Walk, be16, be32, be64, offset};
use crate::field::span::{
    ETH_DST, ETH_SRC, ETH_TYPE, INNER_TCI, INNER_TPID, MPLS, OUTER_TPID, SECOND_LABEL, TCI, THIRD_LABEL,
};
use crate::field::{Field, Span};
use crate::protocol::{
    ARP, BOTTOM_OF_STACK, ETHER_TYPE_MIN, ETHERNET_LEN, IPV4, IPV6, MAX_LABELS, MAX_TAGS, NO_ETHER_TYPE, PBB,
    RARP, TAG_LEN, TAG_PRESENT, is_mpls, is_tag,
};

const PBB_ISID: Span = Field::PbbIsid.span();

/// LLC and SNAP headers whose organisation says that an EtherType follows (RFC 1042).
pub(crate) const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// Where the EtherType of a frame is, behind its tags, and the tags (TPID, TCI). A tag of which not
/// even the EtherType behind it is there is no tag. Nothing for frames shorter than an Ethernet header.
fn tags(frame: &[u8]) -> Option<(usize, [(u16, u16); MAX_TAGS])> {
    frame.first_chunk::<ETHERNET_LEN>()?;
    let (mut at, mut tags) = (ETHERNET_LEN - 2, [(0, 0); MAX_TAGS]);
    for tag in &mut tags {
        let Some(bytes) = frame.get(at..).and_then(<[u8]>::first_chunk::<6>) else { break };
        if !is_tag(be16(bytes, 0)) {
            break;
        }
        *tag = (be16(bytes, 0), be16(bytes, 2) | TAG_PRESENT);
        at += TAG_LEN;
    }
    Some((at, tags))
}

impl Walk<'_> {
    /// The whole frame.
    pub(super) fn ethernet(&mut self) {
        let Some((at, tags)) = tags(self.frame) else { return };
        let Some((at, ether_type)) = self.ether_type(at) else { return };
        self.layout.ether_type = offset(at);
        self.layout.end = offset(self.frame.len());
        let Some(addresses) = self.bytes::<ETHERNET_LEN>(0) else { return };
        ETH_DST.set(self.key, be64(addresses, 0) >> 16);
        ETH_SRC.set(self.key, be64(addresses, 6) >> 16);
        ETH_TYPE.set(self.key, u64::from(ether_type));
        let [(outer, outer_tci), (inner, inner_tci)] =
            tags.map(|(tpid, tci)| (u64::from(tpid), u64::from(tci)));
        if outer_tci != 0 {
            for (span, value) in
                [(TCI, outer_tci), (INNER_TCI, inner_tci), (OUTER_TPID, outer), (INNER_TPID, inner)]
            {
                span.set(self.key, value);
            }
        }
        let at = at + 2;
        match ether_type {
            IPV4 => self.ipv4(at),
            IPV6 => self.ipv6(at),
            ARP | RARP => self.arp(at),
            PBB => self.pbb(at),
            _ if is_mpls(ether_type) => self.mpls(at),
            _ => {}
        }
    }

    /// The EtherType behind the tags and where it is: behind LLC and SNAP in an IEEE 802.3 frame, and
    /// where the frame has none, where its length is.
    fn ether_type(&self, at: usize) -> Option<(usize, u16)> {
        let first = be16(self.bytes::<2>(at)?, 0);
        if first >= ETHER_TYPE_MIN {
            return Some((at, first));
        }
        let snap = self.bytes::<8>(at + 2).filter(|bytes| bytes.starts_with(&SNAP));
        let second = snap.map(|bytes| be16(bytes, 6)).filter(|&second| second >= ETHER_TYPE_MIN);
        Some(second.map_or((at, NO_ETHER_TYPE), |second| (at + 2 + SNAP.len(), second)))
    }

    /// A label stack (RFC 3032).
    fn mpls(&mut self, at: usize) {
        let mut entries = [0_u64; MAX_LABELS];
        for (number, entry) in entries.iter_mut().enumerate() {
            let Some(bytes) = self.bytes::<4>(at + number * TAG_LEN) else { break };
            self.layout.mpls = offset(at);
            let value = be32(bytes, 0);
            *entry = u64::from(value);
            if value & BOTTOM_OF_STACK != 0 {
                break;
            }
        }
        for (span, entry) in [MPLS, SECOND_LABEL, THIRD_LABEL].into_iter().zip(entries) {
            span.set(self.key, entry);
        }
    }

    /// A service instance tag (IEEE 802.1ah, figure 9-3): priority, flags, 24 bits of I-SID.
    fn pbb(&mut self, at: usize) {
        if let Some(bytes) = self.bytes::<4>(at) {
            PBB_ISID.set(self.key, u64::from(be32(bytes, 0)));
        }
    }
}
