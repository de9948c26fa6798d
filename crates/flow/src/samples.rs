//! Random frames of every kind that keys know, well-formed and mangled, and what fields need: for tests and stress.
//!
//! Frames are built byte by byte, not by [`compose()`](crate::compose()), so that each can be checked against the
//! other. The same seed gives the same frames. Costs: allocates. Threads: plain data.

use crate::field::{Field, Needs};
use crate::ipv6::{AUTHENTICATION, DESTINATION, ESP, FRAGMENT, HOP_BY_HOP, NOTHING, ROUTING};
use crate::protocol::{
    ARP, ICMP, ICMPV6, IPV4, IPV6, MPLS, MPLS_UPSTREAM, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, PBB,
    RARP, SCTP, SERVICE_VLAN, TAG_PRESENT, TCP, UDP, VLAN,
};
use weir_wire::checksum::{finish, sum, udp_nonzero};
use weir_wire::crc32c::crc32c;

/// Fields of a packet that has what a field needs, in an order in which each has what it needs itself.
pub fn needed(needs: Needs) -> Vec<(Field, u128)> {
    let (ether_type, protocol, kind) = match needs {
        Needs::Nothing => return Vec::new(),
        Needs::Vlan => return vec![(Field::VlanTci, TAG_PRESENT.into())],
        Needs::Mpls => (MPLS, None, None),
        Needs::Pbb => (PBB, None, None),
        Needs::Arp => (ARP, None, None),
        Needs::Ipv4 | Needs::Ip => (IPV4, None, None),
        Needs::Ipv6 => (IPV6, None, None),
        Needs::Tcp => (IPV4, Some(TCP), None),
        Needs::Udp => (IPV4, Some(UDP), None),
        Needs::Sctp => (IPV4, Some(SCTP), None),
        Needs::Icmp => (IPV4, Some(ICMP), None),
        Needs::Icmpv6 => (IPV6, Some(ICMPV6), None),
        Needs::Nd | Needs::NdSolicit => (IPV6, Some(ICMPV6), Some(NEIGHBOUR_SOLICITATION)),
        Needs::NdAdvert => (IPV6, Some(ICMPV6), Some(NEIGHBOUR_ADVERTISEMENT)),
    };
    let mut fields = vec![(Field::EthType, ether_type.into())];
    fields.extend(protocol.map(|protocol| (Field::NwProto, protocol.into())));
    fields.extend(kind.map(|kind| (Field::Icmpv6Type, kind.into())));
    fields
}

/// A source of random frames.
#[derive(Clone, Debug)]
pub struct Sampler {
    state: u64,
}

/// IPv4 or IPv6, as far as transport checksums care.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Four,
    Six,
}

impl Sampler {
    /// A source by its seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits (Steele, Lea and Flood's SplitMix).
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Whether an event of one in so many happens.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn put(&mut self, frame: &mut Vec<u8>, count: usize) {
        for _ in 0..count.div_ceil(8) {
            frame.extend(self.bits().to_le_bytes());
        }
        frame.truncate(frame.len() - (count.div_ceil(8) * 8 - count));
    }

    /// Random bytes.
    pub fn random(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        self.put(&mut bytes, count);
        bytes
    }

    /// A well-formed frame of any kind.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(256);
        self.put(&mut frame, 12);
        for _ in 0..self.pick(&[0, 0, 0, 0, 1, 1, 2, 3]) {
            frame.extend(self.pick(&[VLAN, VLAN, SERVICE_VLAN]).to_be_bytes());
            self.put(&mut frame, 2);
        }
        let start = frame.len();
        let snap = self.one_in(12);
        if snap {
            frame.extend([0, 0, 0xaa, 0xaa, 3, 0, 0, 0]);
        }
        match self.below(24) {
            0..12 => self.network(&mut frame, IPV4),
            12..18 => self.network(&mut frame, IPV6),
            18 => self.arp(&mut frame),
            19..21 => self.mpls(&mut frame),
            21 => {
                frame.extend(PBB.to_be_bytes());
                self.put(&mut frame, 4 + 12);
                frame.extend(IPV4.to_be_bytes());
                self.ipv4(&mut frame);
            }
            22 if !snap => {
                frame.extend([0, 43, 0x42, 0x42, 3]);
                self.put(&mut frame, 40);
            }
            _ => {
                frame.extend((0x8900_u16 + self.below(0x100) as u16).to_be_bytes());
                let count = self.below(80);
                self.put(&mut frame, count);
            }
        }
        if snap {
            let len = (frame.len() - start - 2).min(1500) as u16;
            frame[start..start + 2].copy_from_slice(&len.to_be_bytes());
        }
        if frame.len() < 60 && !self.one_in(4) {
            frame.resize(60, 0);
        }
        frame
    }

    /// A frame with something wrong: changed, cut or prolonged; or random bytes.
    pub fn mangled(&mut self) -> Vec<u8> {
        if self.one_in(50) {
            let count = self.below(200);
            return self.random(count);
        }
        let mut frame = self.frame();
        for _ in 0..=self.below(3) {
            let at = self.below(frame.len().clamp(1, 120)).min(frame.len().saturating_sub(1));
            match self.below(8) {
                _ if frame.is_empty() => {}
                0 => frame.truncate(self.below(frame.len() + 1)),
                1 => {
                    let count = self.below(40);
                    self.put(&mut frame, count);
                }
                2 => frame[at] = self.pick(&[0, 1, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xff]),
                3 => frame[at] ^= 1 << self.below(8),
                4 if frame.len() > 17 => {
                    frame[16..18].copy_from_slice(&(self.bits() as u16 & 0x7f).to_be_bytes())
                }
                5 if frame.len() > 23 => frame[23] = self.pick(&[ICMP, TCP, UDP, SCTP, ICMPV6]),
                6 if frame.len() > 20 => {
                    frame[20] = self.pick(&[HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, ESP]);
                }
                _ => frame[at] = self.bits() as u8,
            }
        }
        frame
    }

    fn network(&mut self, frame: &mut Vec<u8>, ether_type: u16) {
        frame.extend(ether_type.to_be_bytes());
        if ether_type == IPV4 { self.ipv4(frame) } else { self.ipv6(frame) }
    }

    fn arp(&mut self, frame: &mut Vec<u8>) {
        frame.extend(self.pick(&[ARP, ARP, RARP]).to_be_bytes());
        frame.extend([0, 1, 8, 0, 6, 4, 0, self.pick(&[1, 2, 3, 4])]);
        self.put(frame, 20);
    }

    fn mpls(&mut self, frame: &mut Vec<u8>) {
        frame.extend(self.pick(&[MPLS, MPLS, MPLS_UPSTREAM]).to_be_bytes());
        let labels = 1 + self.below(4);
        for left in (0..labels).rev() {
            let entry = self.bits() as u32 & !0x100;
            frame.extend((entry | if left == 0 { 0x100 } else { 0 }).to_be_bytes());
        }
        if self.one_in(2) { self.ipv4(frame) } else { self.ipv6(frame) }
    }

    fn ipv4(&mut self, frame: &mut Vec<u8>) {
        let options = self.pick(&[0, 0, 0, 0, 0, 4, 8, 40]);
        let protocol = self.pick(&[TCP, TCP, TCP, UDP, UDP, UDP, SCTP, ICMP, 2, 47, 50]);
        let fragment: u16 = self.pick(&[0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 0x0010, 0x2010]);
        let addresses = self.random(8);
        let body = if fragment & 0x1fff != 0 {
            let count = self.below(60);
            self.random(count)
        } else {
            self.transport(protocol, Version::Four, sum(&addresses))
        };
        let mut header = vec![0x45 + (options / 4) as u8, self.bits() as u8, 0, 0, 0, 7, 0, 0];
        header.extend([self.pick(&[0, 1, 2, 64, 255]), protocol, 0, 0]);
        header.extend(addresses);
        header.resize(20 + options, 1);
        let total = (header.len() + body.len()) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        let field = finish(sum(&header));
        header[10..12].copy_from_slice(&field.to_be_bytes());
        frame.extend(header);
        frame.extend(body);
    }

    fn ipv6(&mut self, frame: &mut Vec<u8>) {
        let protocol = self.pick(&[TCP, TCP, UDP, UDP, SCTP, ICMPV6, ICMPV6, NOTHING, ESP, 47]);
        let addresses = self.random(32);
        let (mut chain, mut headers) = (Vec::new(), Vec::new());
        let (mut later, mut pseudo) = (false, sum(&addresses));
        for _ in 0..self.pick(&[0, 0, 0, 1, 1, 2, 3, 5]) {
            let header = self.pick(&[HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, AUTHENTICATION]);
            headers.push(header);
            match header {
                FRAGMENT => {
                    let word = self.pick(&[0_u16, 0, 1, 8, 9]);
                    chain.extend([vec![0, 0], word.to_be_bytes().to_vec(), self.random(4)].concat());
                    later = word & 0xfff8 != 0;
                }
                AUTHENTICATION => {
                    let units = 4 + 2 * self.below(3);
                    chain.extend([vec![0, units as u8], self.random(units * 4 + 6)].concat());
                }
                ROUTING if self.one_in(2) => {
                    // One address left to visit; the checksum is that of the last.
                    let last = self.random(16);
                    pseudo = sum(&addresses[..16]) + sum(&last);
                    chain.extend([vec![0, 2, 0, 1, 0, 0, 0, 0], last].concat());
                }
                ROUTING => chain.extend([0, 0, 0, 0, 0, 0, 0, 0]),
                _ if self.one_in(3) => chain.extend([[0, 1, 1, 12], [0; 4], [0; 4], [0; 4]].concat()),
                _ => chain.extend([0, 0, 1, 4, 0, 0, 0, 0]),
            }
            if later {
                break;
            }
        }
        headers.push(protocol);
        let body = if later {
            let count = self.below(60);
            self.random(count)
        } else {
            self.transport(protocol, Version::Six, pseudo)
        };
        name_next(&mut chain, &headers);
        let first = 6 << 28 | (self.bits() as u32 & 0x0fff_ffff);
        frame.extend(first.to_be_bytes());
        frame.extend(((chain.len() + body.len()) as u16).to_be_bytes());
        frame.extend([headers[0], self.pick(&[0, 1, 2, 64, 255])]);
        frame.extend(addresses);
        frame.extend(chain);
        frame.extend(body);
    }

    /// A transport packet with its checksum, by the sum of its addresses.
    fn transport(&mut self, protocol: u8, version: Version, addresses: u32) -> Vec<u8> {
        let payload = self.below(60);
        let (mut packet, mut pseudo) = (Vec::new(), addresses + u32::from(protocol));
        let at = match protocol {
            TCP => {
                let options = self.pick(&[0, 0, 4, 12, 40]);
                self.put(&mut packet, 20 + options);
                packet[12] = (packet[12] & 0x0f) | ((5 + options / 4) << 4) as u8;
                16
            }
            UDP => {
                self.put(&mut packet, 4);
                packet.extend([0, (8 + payload) as u8, 0, 0]);
                6
            }
            SCTP => {
                self.put(&mut packet, 12 + payload);
                packet[8..12].fill(0);
                let crc = crc32c(&packet);
                packet[8..12].copy_from_slice(&crc.to_le_bytes());
                return packet;
            }
            ICMP | ICMPV6 => {
                self.put(&mut packet, 8);
                if version == Version::Four {
                    pseudo = 0;
                }
                if protocol == ICMPV6 && self.one_in(2) {
                    packet[..2].copy_from_slice(&[self.pick(&[135, 136]), 0]);
                    self.neighbour(&mut packet);
                }
                2
            }
            _ => return self.random(payload),
        };
        if protocol != ICMPV6 {
            self.put(&mut packet, payload);
        }
        if protocol == UDP && self.one_in(5) {
            return packet;
        }
        packet[at..at + 2].fill(0);
        pseudo += if pseudo == 0 { 0 } else { packet.len() as u32 };
        let field = udp_nonzero(finish(pseudo + sum(&packet)));
        packet[at..at + 2].copy_from_slice(&field.to_be_bytes());
        packet
    }

    /// A target and options of neighbour discovery.
    fn neighbour(&mut self, packet: &mut Vec<u8>) {
        self.put(packet, 16);
        for _ in 0..self.pick(&[0, 1, 1, 1, 2, 3]) {
            let units = self.pick(&[1, 1, 1, 2]);
            packet.extend([self.pick(&[1, 1, 2, 2, 14]), units]);
            if self.one_in(8) {
                packet.resize(packet.len() + usize::from(units) * 8 - 2, 0);
            } else {
                self.put(packet, usize::from(units) * 8 - 2);
            }
        }
    }
}

/// Writes into each extension header which one is behind it.
fn name_next(chain: &mut [u8], headers: &[u8]) {
    let mut at = 0;
    for pair in headers.windows(2) {
        chain[at] = pair[1];
        let units = usize::from(chain[at + 1]);
        at += match pair[0] {
            AUTHENTICATION => (units + 2) * 4,
            FRAGMENT => 8,
            _ => (units + 1) * 8,
        };
    }
}
