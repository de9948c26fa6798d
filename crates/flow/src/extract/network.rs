//! IPv4, IPv6, ARP and RARP.

use super::{PACKET_BITS, Walk, be16, be32, be64, mac, offset};
use crate::ipv6;
use crate::protocol::{FRAGMENT_ANY, FRAGMENT_LATER, ICMP, ICMPV6, IPV4};

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
        self.key.set_word(3, be64(header, 12));
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
        for place in 0..4 {
            self.key.set_word(8 + place, be64(header, 8 + 8 * place));
        }
        self.frame = &self.frame[..end];
        let Some(chain) = ipv6::Chain::walk(self.frame, at + header.len(), header[6]) else { return };
        let first = be32(header, 0);
        self.key.set_bits(16, u64::from(first & 0x000f_ffff) << 32, !0 << 32);
        if chain.headers != 0 {
            self.key.set_bits(14, u64::from(chain.headers), 0xffff);
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
        self.key.set_bits(0, u64::from(ip.fragment) << 16, PACKET_BITS[0]);
        let word = u64::from(ip.protocol) << 56 | u64::from(ip.tos) << 48 | u64::from(ip.ttl) << 40;
        self.key.set_word(4, word);
        if ip.fragment & FRAGMENT_LATER == 0 && ip.protocol != foreign {
            self.transport(behind, ip.protocol);
        }
    }

    /// An ARP or RARP packet of IPv4 over Ethernet.
    pub(super) fn arp(&mut self, at: usize) {
        let Some(packet) = self.bytes::<28>(at).filter(|bytes| bytes.starts_with(&ARP_FRONT)) else { return };
        let [.., a, b, c, d, e, f, _, _, _, _] = *packet;
        let target = mac([a, b, c, d, e, f]);
        let sender = be64(packet, 8) >> 16;
        let (sender_ip, target_ip) = (be32(packet, 14), be32(packet, 24));
        self.layout.network = offset(at);
        self.layout.end = offset(at + packet.len());
        self.key.set_word(3, u64::from(sender_ip) << 32 | u64::from(target_ip));
        self.key.set_word(4, u64::from(be16(packet, 6)) << 16);
        self.key.set_word(14, sender << 16);
        self.key.set_word(15, target << 16);
    }
}
