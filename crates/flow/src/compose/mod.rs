//! From a key to a frame that has it: for tracing described packets, and for tests.
//!
//! Costs: allocates. Threads: a pure function.

mod ipv6;
mod transport;

use crate::extract::{ARP_FRONT, SNAP};
use crate::field::Field;
use crate::field::span::{INNER_TCI, INNER_TPID, MPLS, OUTER_TPID, SECOND_LABEL, TCI, THIRD_LABEL};
use crate::key::Key;
use crate::protocol::{
    ARP, BOTTOM_OF_STACK, ETHER_TYPE_MIN, FRAGMENT_ANY, FRAGMENT_LATER, IPV4, IPV6, MAX_LABELS, MAX_TAGS,
    PBB, RARP, TAG_PRESENT, VLAN, is_mpls, is_tag,
};
use weir_wire::checksum;

/// Bytes of payload that are used at most: longer packets have no room for their headers.
const MAX_PAYLOAD: usize = 65_000;
/// The shortest frame, without FCS.
const MIN_FRAME: usize = 60;
/// The largest length that an IEEE 802.3 frame may name.
const MAX_802_3: usize = 1500;

/// A frame with the packet fields of a key, its checksums right, padded to 60 bytes.
///
/// `extract` of it gives back those fields, if some packet can have them all; a field without its
/// prerequisite is left out. IPv6 without a protocol becomes "no next header". The payload is left out
/// of ARP and of neighbour discovery, which have none, and cut at 65,000 bytes. The checksums of
/// fragments are those of the fragment alone.
pub fn compose(key: &Key, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
    let mut frame = Vec::with_capacity(256 + payload.len());
    frame.extend(mac(key, Field::EthDst));
    frame.extend(mac(key, Field::EthSrc));
    let tags = tags(key, &mut frame);
    let ether_type = Field::EthType.get(key) as u16;
    if ether_type < ETHER_TYPE_MIN {
        length_and_llc(&mut frame, payload);
    } else {
        frame.extend(ether_type.to_be_bytes());
        if is_tag(ether_type) && tags < MAX_TAGS {
            // A tag that is cut off: whatever follows would complete it.
            return frame;
        }
        match ether_type {
            IPV4 => ipv4(key, payload, &mut frame),
            IPV6 => ipv6::packet(key, payload, &mut frame),
            ARP | RARP => arp(key, &mut frame),
            _ => {
                shim(key, ether_type, &mut frame);
                frame.extend(payload);
            }
        }
    }
    frame.resize(frame.len().max(MIN_FRAME), 0);
    frame
}

/// Appends the tags, and counts them. The second is there only behind a first.
fn tags(key: &Key, frame: &mut Vec<u8>) -> usize {
    let tags = [(OUTER_TPID, TCI), (INNER_TPID, INNER_TCI)]
        .map(|(tpid, tci)| (tpid.get(key) as u16, tci.get(key) as u16));
    let present = tags.iter().take_while(|(_, tci)| tci & TAG_PRESENT != 0);
    let mut count = 0;
    for &(tpid, tci) in present {
        frame.extend(if is_tag(tpid) { tpid } else { VLAN }.to_be_bytes());
        frame.extend((tci & !TAG_PRESENT).to_be_bytes());
        count += 1;
    }
    count
}

/// An IEEE 802.3 frame of a protocol that has no EtherType: spanning tree's.
fn length_and_llc(frame: &mut Vec<u8>, payload: &[u8]) {
    const SPANNING_TREE: [u8; 3] = [0x42, 0x42, 0x03];
    debug_assert_ne!(SPANNING_TREE[0], SNAP[0]);
    let len = (SPANNING_TREE.len() + payload.len()).min(MAX_802_3) as u16;
    frame.extend(len.to_be_bytes());
    frame.extend(SPANNING_TREE);
    frame.extend(payload);
}

/// A label stack, or a service instance tag.
fn shim(key: &Key, ether_type: u16, frame: &mut Vec<u8>) {
    if is_mpls(ether_type) {
        let entries: [u32; MAX_LABELS] = [MPLS, SECOND_LABEL, THIRD_LABEL].map(|span| span.get(key) as u32);
        for entry in entries {
            frame.extend(entry.to_be_bytes());
            if entry & BOTTOM_OF_STACK != 0 {
                break;
            }
        }
    } else if ether_type == PBB {
        frame.extend((Field::PbbIsid.get(key) as u32).to_be_bytes());
    }
}

fn arp(key: &Key, frame: &mut Vec<u8>) {
    frame.extend(ARP_FRONT);
    frame.extend((Field::ArpOp.get(key) as u16).to_be_bytes());
    frame.extend(mac(key, Field::ArpSha));
    frame.extend((Field::ArpSpa.get(key) as u32).to_be_bytes());
    frame.extend(mac(key, Field::ArpTha));
    frame.extend((Field::ArpTpa.get(key) as u32).to_be_bytes());
}

/// An Ethernet address.
fn mac(key: &Key, field: Field) -> [u8; 6] {
    let [_, _, bytes @ ..] = field.span().get(key).to_be_bytes();
    bytes
}

fn ipv4(key: &Key, payload: &[u8], frame: &mut Vec<u8>) {
    const FROM: usize = 12;
    let protocol = key.protocol();
    let mut header = [0_u8; 20];
    header[0] = 0x45;
    header[1] = key.tos();
    header[6..8].copy_from_slice(&match key.fragment() {
        0 => [0, 0],
        // More follow; or at offset 8, the last.
        FRAGMENT_ANY => [0x20, 0],
        _ => [0, 1],
    });
    header[8] = key.ttl();
    header[9] = protocol;
    header[FROM..].copy_from_slice(&key.addresses().to_be_bytes());
    let addresses = checksum::sum(&header[FROM..]);
    let body = if key.fragment() & FRAGMENT_LATER != 0 {
        payload.to_vec()
    } else {
        transport::packet(key, protocol, payload, addresses)
    };
    let total = (header.len() + body.len()) as u16;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(body);
}
