//! From a frame's bytes to its key and layout.
//!
//! Fields are those that Open vSwitch finds, bit by bit (`tests/ovs.rs` compares), with these
//! differences: `arp_op` has all 16 bits, where Open vSwitch takes operations above 255 for 0; IGMP is
//! an IP protocol without fields of its own, and so are ICMP in IPv6 and ICMPv6 in IPv4; and the fields that Open vSwitch has not, `ipv6_exthdr` and
//! `pbb_isid`, are those of OpenFlow 1.3.5, section 7.2.3.8.
//!
//! What is malformed is left out from there on, and what came before it stays: a cut-off tag is an
//! EtherType 0x8100, an IPv4 header that contradicts itself leaves nothing but Ethernet, an IPv6
//! extension header that is cut off leaves only the addresses, a TCP header that is leaves no ports, and
//! [`CUT`](crate::span::CUT) says so.
//!
//! Costs: an untagged IPv4 packet without options that is no fragment and carries TCP or UDP takes one
//! branch of weight, 64 bytes of the frame and one cache line of the key; all others take a walk from
//! header to header. No allocation. Threads: pure functions.

mod header_mask;
mod link;
mod network;
mod transport;

pub use header_mask::{Extractor, HeaderMask, MaskedHeader, WithExtractor, words};
pub(crate) use link::SNAP;
pub(crate) use network::ARP_FRONT;

use crate::field::derived::PACKET_BITS;
use crate::field::span::{ADDRESSES, ETH_DST, ETH_SRC, ETH_TYPE, PORTS, PROTOCOL, TOS, TTL};
use crate::field::{Field, Span};
use crate::key::{HEAD, Key, places};
use crate::layout::Layout;
use crate::protocol::{ETHERNET_LEN, IPV4, TCP, UDP};

const IN_PORT: Span = Field::InPort.span();
const TCP_FLAGS: Span = Field::TcpFlags.span();

/// Bytes of a frame that are looked at: offsets of a [`Layout`] go no further.
pub const MAX_FRAME: usize = u16::MAX as usize;

/// Fills a key from a frame (without FCS) that came in by a port, and says where its headers are.
///
/// Fields that do not come from the packet become zero. A frame shorter than an Ethernet header gives
/// a key with nothing but the port, and the empty layout. Bytes behind the first [`MAX_FRAME`] are not
/// looked at.
#[inline]
pub fn extract(frame: &[u8], in_port: u32, key: &mut Key) -> Layout {
    let layout = if let Some((head, layout)) = plain(frame, in_port) {
        key.renew(head);
        packed(layout)
    } else {
        walk(frame, in_port, key)
    };
    unpacked(layout)
}

/// Fills the fields again that come from the packet, and keeps all others: for a frame whose headers
/// were changed under the key.
pub fn extract_again(frame: &[u8], key: &mut Key) -> Layout {
    let mut fresh = Key::new();
    let layout = extract(frame, 0, &mut fresh);
    let of_packets = (1 << PACKET_BITS.len()) - 1;
    for place in places((key.present() | fresh.present()) & of_packets) {
        key.set_bits(place, fresh.word(place), PACKET_BITS[place]);
    }
    layout
}

#[inline]
fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

#[inline]
fn be64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// The usual packet: untagged IPv4 without options, no fragment, a whole TCP or UDP header.
#[inline(always)]
fn plain(frame: &[u8], in_port: u32) -> Option<([u64; HEAD], Layout)> {
    const NETWORK: usize = ETHERNET_LEN;
    const TRANSPORT: usize = NETWORK + 20;
    let front: &[u8; TRANSPORT + 20] = frame.first_chunk()?;
    let length = usize::from(be16(front, NETWORK + 2));
    let protocol = front[NETWORK + 9];
    // By arithmetic, so that TCP and UDP in turns cost no wrong guesses.
    let tcp = u16::from(protocol == TCP).wrapping_neg();
    let offset_and_flags = be16(front, TRANSPORT + 12) & tcp;
    let header = usize::from(((offset_and_flags >> 12) * 4) | (8 & !tcp));
    let least = usize::from(8 + (12 & tcp));
    let unlike = ((be32(front, 12) >> 8) ^ (u32::from(IPV4) << 8 | 0x45))
        | u32::from(be16(front, NETWORK + 6) & 0x3fff);
    let other = (protocol ^ UDP) & !(tcp as u8);
    if unlike | u32::from(other) != 0
        || (header < least)
        || 20 + header > length
        || NETWORK + length > frame.len()
        || frame.len() > MAX_FRAME
    {
        return None;
    }
    let flags = offset_and_flags & 0xfff;
    let (tos, ttl) = (u64::from(front[NETWORK + 1]), u64::from(front[NETWORK + 8]));
    // Constants say where: this is one store a word.
    let mut head = [0; HEAD];
    let mut put = |span: Span, value: u64| head[span.place()] |= span.put(value);
    put(IN_PORT, u64::from(in_port));
    put(ETH_DST, be64(front, 0) >> 16);
    put(ETH_TYPE, u64::from(IPV4));
    put(ETH_SRC, be64(front, 6) >> 16);
    put(ADDRESSES, be64(front, NETWORK + 12));
    put(PROTOCOL, u64::from(protocol));
    put(TOS, tos);
    put(TTL, ttl);
    put(PORTS, u64::from(be32(front, TRANSPORT)));
    put(TCP_FLAGS, u64::from(flags));
    let layout = Layout {
        ether_type: 12,
        mpls: 0,
        network: NETWORK as u16,
        transport: TRANSPORT as u16,
        payload: (TRANSPORT + header) as u16,
        end: (NETWORK + length) as u16,
    };
    Some((head, layout))
}

/// Any packet, header by header. Its layout comes back as [`packed`].
#[cold]
#[inline(never)]
fn walk(frame: &[u8], in_port: u32, key: &mut Key) -> (u64, u32) {
    key.clear();
    IN_PORT.set(key, u64::from(in_port));
    let frame = &frame[..frame.len().min(MAX_FRAME)];
    let mut walk = Walk { frame, key, layout: Layout::default() };
    walk.ethernet();
    packed(walk.layout)
}

/// A layout in two registers, the first offset in the lowest bits. Returned as it is, it would go
/// through memory for the sake of [`walk`], and the usual packet would wait for the stores of its parts.
#[inline]
fn packed(layout: Layout) -> (u64, u32) {
    let Layout { ether_type, mpls, network, transport, payload, end } = layout;
    let join = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    (u64::from(join(ether_type, mpls)) | u64::from(join(network, transport)) << 32, join(payload, end))
}

#[inline]
fn unpacked((first, second): (u64, u32)) -> Layout {
    Layout {
        ether_type: first as u16,
        mpls: (first >> 16) as u16,
        network: (first >> 32) as u16,
        transport: (first >> 48) as u16,
        payload: second as u16,
        end: (second >> 16) as u16,
    }
}

/// A walk over a frame. Its steps go on by calling the next header's.
struct Walk<'a> {
    /// What is left to look at: the network header cuts off what is behind the packet.
    frame: &'a [u8],
    key: &'a mut Key,
    layout: Layout,
}

impl<'a> Walk<'a> {
    /// The `N` bytes from an offset on, if there are as many.
    #[inline]
    fn bytes<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        self.frame.get(at..)?.first_chunk()
    }
}

/// An offset within a frame of at most [`MAX_FRAME`] bytes.
#[inline]
fn offset(at: usize) -> u16 {
    debug_assert!(at <= MAX_FRAME);
    at as u16
}

/// Six bytes as a number.
#[inline]
fn mac(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[cfg(test)]
mod tests;
