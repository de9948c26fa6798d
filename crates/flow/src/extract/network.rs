//! IPv4, IPv6, ARP and RARP.

use super::{Walk, be16, be32, be64, mac, offset};
use crate::field::span::{ADDRESSES, PROTOCOL, TOS, TTL};
use crate::field::{Field, Span};
use crate::ipv6;
use crate::protocol::{FRAGMENT_ANY, FRAGMENT_LATER, ICMP, ICMPV6, IPV4};

const FRAGMENT: Span = Field::NwFrag.span();
const LABEL: Span = Field::Ipv6Label.span();
const EXTENSIONS: Span = Field::Ipv6Exthdr.span();

/// What an IP header, whichever version, says of its packet.
pub(super) struct Ip {
    pub(super) protocol: u8,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) fragment: u8,
}

/// Ethernet and IPv4, with the lengths of their addresses (RFC 826).
pub(crate) const ARP_FRONT: [u8; 6] = [0, 1, (IPV4 >> 8) as u8, IPV4 as u8, 6, 4];

impl Walk<'_> {
    /// An IPv4 header (RFC 791). Its version is not looked at, as in Open vSwitch: the EtherType says
    /// it.
    pub(super) fn ipv4(&mut self, at: usize) {
        let Some(header) = self.bytes::<20>(at) else { return };
        let (len, total) = (usize::from(header[0] & 0xf) * 4, usize::from(be16(header, 2)));
        if len < header.len() || len > total || self.frame.len() < at + total {
            return;
        }
        self.frame = &self.frame[..at + total];
        ADDRESSES.set(self.key, be64(header, 12));
        let fragment = be16(header, 6);
        let later = if fragment & 0x1fff != 0 { FRAGMENT_LATER } else { 0 };
        let any = if fragment & 0x3fff != 0 { FRAGMENT_ANY } else { 0 };
        let ip = Ip { protocol: header[9], tos: header[1], ttl: header[8], fragment: any | later };
        // ICMPv6 belongs to IPv6 alone.
        self.internet(at, at + len, &ip, ICMPV6);
    }

    /// An IPv6 header (RFC 8200) and what extends it.
    pub(super) fn ipv6(&mut self, at: usize) {
        let Some(header) = self.bytes::<40>(at) else { return };
        let end = at + header.len() + usize::from(be16(header, 4));
        if self.frame.len() < end {
            return;
        }
        let [source, destination] =
            [8, 24].map(|at| u128::from(be64(header, at)) << 64 | u128::from(be64(header, at + 8)));
        Field::Ipv6Src.set(self.key, source);
        Field::Ipv6Dst.set(self.key, destination);
        self.frame = &self.frame[..end];
        let Some(chain) = ipv6::Chain::walk(self.frame, at + header.len(), header[6]) else { return };
        let first = be32(header, 0);
        LABEL.set(self.key, u64::from(first));
        if chain.headers != 0 {
            EXTENSIONS.set(self.key, u64::from(chain.headers));
        }
        let (tos, ttl) = ((first >> 20) as u8, header[7]);
        let ip = Ip { protocol: chain.protocol, tos, ttl, fragment: chain.fragment };
        // ICMP belongs to IPv4 alone.
        self.internet(at, chain.end, &ip, ICMP);
    }

    /// What both versions have in common; then the transport header, unless it is the `foreign` one.
    fn internet(&mut self, at: usize, behind: usize, ip: &Ip, foreign: u8) {
        self.layout.network = offset(at);
        self.layout.end = offset(self.frame.len());
        for (span, byte) in [(FRAGMENT, ip.fragment), (PROTOCOL, ip.protocol), (TOS, ip.tos), (TTL, ip.ttl)] {
            span.set(self.key, u64::from(byte));
        }
        if ip.fragment & FRAGMENT_LATER == 0 && ip.protocol != foreign {
            self.transport(behind, ip.protocol);
        }
    }

    /// An ARP or RARP packet of IPv4 over Ethernet.
    pub(super) fn arp(&mut self, at: usize) {
        let Some(packet) = self.bytes::<28>(at).filter(|bytes| bytes.starts_with(&ARP_FRONT)) else { return };
        let [.., a, b, c, d, e, f, _, _, _, _] = *packet;
        self.layout.network = offset(at);
        self.layout.end = offset(at + packet.len());
        for (field, value) in [
            (Field::ArpOp, u64::from(be16(packet, 6))),
            (Field::ArpSpa, u64::from(be32(packet, 14))),
            (Field::ArpTpa, u64::from(be32(packet, 24))),
            (Field::ArpSha, be64(packet, 8) >> 16),
            (Field::ArpTha, mac([a, b, c, d, e, f])),
        ] {
            field.span().set(self.key, value);
        }
    }
}
