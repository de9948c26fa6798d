//! A packet under the reference: which value each field has, and what setting one does to its bytes.
//!
//! Headers are found and changed here by the plain words of their standards, without a line of the switch's
//! own extraction and edits. What is not plain (two tags, IPv6 extension headers, a header that is cut off or
//! contradicts itself, a change within a fragment or a label stack) is not judged: [`Unjudged`] says why.

use weir_flow::{Field, ones};
use weir_wire::checksum;

/// Why the reference does not say what becomes of a packet.
pub(super) type Unjudged = &'static str;

const VLAN: u16 = 0x8100;
const PROVIDER_VLAN: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;
/// Least EtherType: what is below is a length (IEEE 802.3, section 3.2.6).
const LEAST_ETHER_TYPE: u16 = 0x0600;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
/// Next headers that extend IPv6 (RFC 8200, section 4.1; RFC 4302 and 4303), and "no next header".
const EXTENSIONS: [u8; 7] = [0, 43, 44, 50, 51, 59, 60];

/// In `vlan_tci`: a tag is there.
const TAG: u16 = 0x1000;
/// Bytes of a tag.
const TAG_BYTES: usize = 4;
/// Bytes of both MAC addresses.
const MACS: usize = 12;

/// What lies behind the EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Ipv4,
    Ipv6,
    Arp,
    Other,
}

/// A packet on its way through the tables.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) frame: Vec<u8>,
    /// OpenFlow's number of its port; 0 once it is forgotten.
    pub(super) in_port: u32,
    pub(super) metadata: u64,
    registers: [u32; 16],
    ether_type: u16,
    network: Network,
    /// Where the network header begins.
    at: usize,
    protocol: u8,
    /// Bits of `nw_frag`: 1 for any fragment, 2 for a later one.
    fragment: u8,
    /// Where the transport header begins, if it is one with fields.
    transport: Option<usize>,
}

impl Packet {
    /// Finds the headers of a frame that came in by a port.
    pub(super) fn new(frame: &[u8], in_port: u32) -> Result<Self, Unjudged> {
        let mut packet = Self {
            frame: frame.to_vec(),
            in_port,
            metadata: 0,
            registers: [0; 16],
            ether_type: 0,
            network: Network::Other,
            at: 0,
            protocol: 0,
            fragment: 0,
            transport: None,
        };
        packet.find()?;
        Ok(packet)
    }

    fn find(&mut self) -> Result<(), Unjudged> {
        if self.frame.len() < MACS + 2 {
            return Err("it is shorter than an Ethernet header");
        }
        let mut at = MACS;
        if is_tag(self.be16(at)) {
            at += TAG_BYTES;
            if self.frame.len() < at + 2 {
                return Err("its tag is cut off");
            }
        }
        self.ether_type = self.be16(at);
        if is_tag(self.ether_type) {
            return Err("it has two tags");
        }
        if self.ether_type < LEAST_ETHER_TYPE {
            return Err("it is an IEEE 802.3 frame with a length");
        }
        self.at = at + 2;
        (self.protocol, self.fragment, self.transport) = (0, 0, None);
        match self.ether_type {
            IPV4 => self.find_ipv4(),
            IPV6 => self.find_ipv6(),
            ARP | RARP => self.find_arp(),
            _ => {
                self.network = Network::Other;
                Ok(())
            }
        }
    }

    fn find_ipv4(&mut self) -> Result<(), Unjudged> {
        let header = &self.frame[self.at..];
        let whole = header.len() >= 20;
        let (len, total) = if whole {
            (usize::from(header[0] & 15) * 4, usize::from(self.be16(self.at + 2)))
        } else {
            (0, 0)
        };
        if !whole || len < 20 || total < len || header.len() < total {
            return Err("its IPv4 header is cut off or contradicts itself");
        }
        let offset = self.be16(self.at + 6);
        self.network = Network::Ipv4;
        self.protocol = header[9];
        self.fragment = u8::from(offset & 0x3fff != 0) | u8::from(offset & 0x1fff != 0) << 1;
        if self.fragment & 2 == 0 && self.protocol != ICMPV6 {
            self.find_transport(self.at + len, self.at + total)?;
        }
        Ok(())
    }

    fn find_ipv6(&mut self) -> Result<(), Unjudged> {
        let header = &self.frame[self.at..];
        let total = if header.len() >= 40 { 40 + usize::from(self.be16(self.at + 4)) } else { usize::MAX };
        if header.len() < total {
            return Err("its IPv6 header is cut off or contradicts itself");
        }
        self.network = Network::Ipv6;
        self.protocol = header[6];
        if EXTENSIONS.contains(&self.protocol) {
            return Err("it has IPv6 extension headers");
        }
        if self.protocol != ICMP {
            self.find_transport(self.at + 40, self.at + total)?;
        }
        Ok(())
    }

    fn find_transport(&mut self, at: usize, end: usize) -> Result<(), Unjudged> {
        let least = match self.protocol {
            TCP => 20,
            UDP | ICMP | ICMPV6 => 8,
            SCTP => 12,
            _ => return Ok(()),
        };
        let offset = || usize::from(self.frame[at + 12] >> 4) * 4;
        if end < at + least || self.protocol == TCP && (offset() < least || end < at + offset()) {
            return Err("its transport header is cut off or contradicts itself");
        }
        self.transport = Some(at);
        Ok(())
    }

    fn find_arp(&mut self) -> Result<(), Unjudged> {
        // Ethernet and IPv4, with the lengths of their addresses (RFC 826).
        let front = [0, 1, 8, 0, 6, 4];
        if self.frame.len() < self.at + 28 || !self.frame[self.at..].starts_with(&front) {
            return Err("it is ARP of other addresses than IPv4 over Ethernet");
        }
        self.network = Network::Arp;
        Ok(())
    }

    fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.frame[at], self.frame[at + 1]])
    }

    /// So many bytes as a number.
    fn number(&self, at: usize, bytes: usize) -> u128 {
        self.frame[at..at + bytes].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    fn has_tag(&self) -> bool {
        is_tag(self.be16(MACS))
    }

    fn is_ip(&self) -> bool {
        matches!(self.network, Network::Ipv4 | Network::Ipv6)
    }

    /// The byte of DSCP and ECN.
    fn tos(&self) -> u8 {
        match self.network {
            Network::Ipv4 => self.frame[self.at + 1],
            Network::Ipv6 => (self.be16(self.at) >> 4) as u8,
            _ => 0,
        }
    }

    pub(super) fn ttl(&self) -> Option<u8> {
        match self.network {
            Network::Ipv4 => Some(self.frame[self.at + 8]),
            Network::Ipv6 => Some(self.frame[self.at + 7]),
            _ => None,
        }
    }

    /// The value of a field with bits of its own; zero where the packet has none.
    fn owned(&self, field: Field) -> u128 {
        let (ipv4, ipv6, arp) =
            (self.network == Network::Ipv4, self.network == Network::Ipv6, self.network == Network::Arp);
        let is_icmp = matches!(self.protocol, ICMP | ICMPV6);
        match field {
            Field::InPort => u128::from(self.in_port),
            Field::Metadata => u128::from(self.metadata),
            Field::EthDst => self.number(0, 6),
            Field::EthSrc => self.number(6, 6),
            Field::EthType => u128::from(self.ether_type),
            Field::VlanTci if self.has_tag() => u128::from(self.be16(MACS + 2) | TAG),
            Field::NwSrc if ipv4 => self.number(self.at + 12, 4),
            Field::NwDst if ipv4 => self.number(self.at + 16, 4),
            Field::NwSrc if arp => self.number(self.at + 14, 4),
            Field::NwDst if arp => self.number(self.at + 24, 4),
            Field::ArpSha if arp => self.number(self.at + 8, 6),
            Field::ArpTha if arp => self.number(self.at + 18, 6),
            Field::Ipv6Src if ipv6 => self.number(self.at + 8, 16),
            Field::Ipv6Dst if ipv6 => self.number(self.at + 24, 16),
            Field::Ipv6Label if ipv6 => self.number(self.at, 4) & ones(20),
            Field::NwProto => u128::from(self.protocol),
            Field::NwTos => u128::from(self.tos() >> 2),
            Field::NwEcn => u128::from(self.tos() & 3),
            Field::NwTtl => u128::from(self.ttl().unwrap_or(0)),
            Field::NwFrag => u128::from(self.fragment),
            Field::TcpSrc if arp => self.number(self.at + 6, 2),
            Field::TcpSrc | Field::TcpDst => {
                let second = usize::from(field == Field::TcpDst);
                match self.transport {
                    Some(at) if is_icmp => u128::from(self.frame[at + second]),
                    Some(at) => self.number(at + 2 * second, 2),
                    None => 0,
                }
            }
            Field::TcpFlags => match self.transport {
                Some(at) if self.protocol == TCP => u128::from(self.be16(at + 12) & 0x0fff),
                _ => 0,
            },
            field => register(field).map_or(0, |number| u128::from(self.registers[number])),
        }
    }

    /// The value of a field.
    pub(super) fn get(&self, field: Field) -> u128 {
        (self.owned(field.about().owner) >> within(field)) & ones(field.bits())
    }

    /// Sets the bits of a field that `mask` names; a packet without the field stays as it is.
    pub(super) fn set(&mut self, field: Field, value: u128, mask: u128) -> Result<(), Unjudged> {
        let (owner, shift) = (field.about().owner, within(field));
        let mask = (mask & ones(field.bits())) << shift;
        let value = self.owned(owner) & !mask | value << shift & mask;
        match owner {
            Field::InPort => self.in_port = value as u32,
            Field::Metadata => self.metadata = value as u64,
            Field::EthDst => self.frame[..6].copy_from_slice(&value.to_be_bytes()[10..]),
            Field::EthSrc => self.frame[6..12].copy_from_slice(&value.to_be_bytes()[10..]),
            Field::VlanTci => return self.set_tag(field, value as u16),
            Field::NwSrc | Field::NwDst if matches!(field, Field::ArpSpa | Field::ArpTpa) => {
                let at = if owner == Field::NwSrc { 14 } else { 24 };
                self.put_arp(at, &(value as u32).to_be_bytes());
            }
            Field::ArpSha => self.put_arp(8, &value.to_be_bytes()[10..]),
            Field::ArpTha => self.put_arp(18, &value.to_be_bytes()[10..]),
            Field::NwSrc | Field::NwDst if self.network == Network::Ipv4 => {
                let at = if owner == Field::NwSrc { 12 } else { 16 };
                return self.put_address(at, &(value as u32).to_be_bytes());
            }
            Field::Ipv6Src | Field::Ipv6Dst if self.network == Network::Ipv6 => {
                let at = if owner == Field::Ipv6Src { 8 } else { 24 };
                return self.put_address(at, &value.to_be_bytes());
            }
            Field::NwTos => self.set_tos((value as u8) << 2 | self.tos() & 3),
            Field::NwEcn => self.set_tos(self.tos() & !3 | value as u8),
            Field::NwTtl => self.set_ttl(value as u8),
            Field::TcpSrc | Field::TcpDst => return self.set_port(owner, value as u16),
            owner => {
                if let Some(number) = register(owner) {
                    self.registers[number] = value as u32;
                }
            }
        }
        Ok(())
    }

    fn put_arp(&mut self, at: usize, bytes: &[u8]) {
        if self.network == Network::Arp {
            self.frame[self.at + at..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Bytes of an IPv4 header, and its checksum.
    fn put_ipv4(&mut self, at: usize, bytes: &[u8]) {
        let place = self.at + at;
        let old = self.frame[place..place + bytes.len()].to_vec();
        self.frame[place..place + bytes.len()].copy_from_slice(bytes);
        self.mend(self.at + 10, &old, bytes);
    }

    /// A checksum after bytes under it changed (RFC 1624, equation 3).
    fn mend(&mut self, at: usize, old: &[u8], new: &[u8]) {
        let sum = checksum::update(self.be16(at), old, new);
        self.frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// An address, and the checksums that cover it.
    fn put_address(&mut self, at: usize, bytes: &[u8]) -> Result<(), Unjudged> {
        let place = self.at + at;
        let old = self.frame[place..place + bytes.len()].to_vec();
        if old == bytes {
            return Ok(());
        }
        match self.network {
            Network::Ipv4 => self.put_ipv4(at, bytes),
            _ => self.frame[place..place + bytes.len()].copy_from_slice(bytes),
        }
        self.mend_transport(&old, bytes)
    }

    /// The transport checksum, after bytes under it or its pseudo-header changed.
    fn mend_transport(&mut self, old: &[u8], new: &[u8]) -> Result<(), Unjudged> {
        if self.fragment != 0 && matches!(self.protocol, TCP | UDP) {
            return Err("a fragment's address or port is changed");
        }
        let Some(start) = self.transport else { return Ok(()) };
        match self.protocol {
            TCP => self.mend(start + 16, old, new),
            // Zero says that there is none (RFC 768).
            UDP if self.be16(start + 6) != 0 => {
                self.mend(start + 6, old, new);
                let sum = checksum::udp_nonzero(self.be16(start + 6));
                self.frame[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
            }
            ICMPV6 => self.mend(start + 2, old, new),
            _ => {}
        }
        Ok(())
    }

    fn set_port(&mut self, field: Field, value: u16) -> Result<(), Unjudged> {
        if self.network == Network::Arp {
            if field == Field::TcpSrc {
                self.put_arp(6, &value.to_be_bytes());
            }
            return Ok(());
        }
        let Some(start) = self.transport else { return Ok(()) };
        if !matches!(self.protocol, TCP | UDP) {
            return Err("ports of SCTP, or ICMP's type or code, are changed");
        }
        let at = start + if field == Field::TcpSrc { 0 } else { 2 };
        let old = self.be16(at);
        if old == value {
            return Ok(());
        }
        self.frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        self.mend_transport(&old.to_be_bytes(), &value.to_be_bytes())
    }

    fn set_tos(&mut self, tos: u8) {
        match self.network {
            // The checksum is one of words of 16 bits.
            Network::Ipv4 => self.put_ipv4(0, &[self.frame[self.at], tos]),
            Network::Ipv6 => {
                let word = self.be16(self.at) & 0xf00f | u16::from(tos) << 4;
                self.frame[self.at..self.at + 2].copy_from_slice(&word.to_be_bytes());
            }
            _ => {}
        }
    }

    pub(super) fn set_ttl(&mut self, ttl: u8) {
        match self.network {
            Network::Ipv4 => self.put_ipv4(8, &[ttl, self.frame[self.at + 9]]),
            Network::Ipv6 => self.frame[self.at + 7] = ttl,
            _ => {}
        }
    }

    fn set_tag(&mut self, field: Field, tci: u16) -> Result<(), Unjudged> {
        match (self.has_tag(), tci & TAG != 0, field == Field::VlanTci) {
            (true, true, _) => {}
            (false, true, true) => self.push_tag(VLAN)?,
            (true, false, true) => return self.pop_tag(),
            (false, false, true) => return Ok(()),
            (true, false, false) => return Err("the VLAN of a tag is set so that there is none"),
            (false, _, false) => return Err("the VLAN of a packet without a tag is set"),
        }
        self.frame[MACS + 2..MACS + 4].copy_from_slice(&(tci & !TAG).to_be_bytes());
        Ok(())
    }

    /// Sets bits of the outer tag; a packet without one gets one.
    pub(super) fn set_tag_bits(&mut self, value: u16, mask: u16) -> Result<(), Unjudged> {
        if !self.has_tag() {
            self.push_tag(VLAN)?;
        }
        let tci = self.be16(MACS + 2) & !mask | value & mask;
        self.frame[MACS + 2..MACS + 4].copy_from_slice(&(tci & !TAG).to_be_bytes());
        Ok(())
    }

    /// Puts a tag of this TPID in front, of VLAN 0.
    pub(super) fn push_tag(&mut self, tpid: u16) -> Result<(), Unjudged> {
        if self.has_tag() {
            return Err("a second tag is put in front");
        }
        let [high, low] = tpid.to_be_bytes();
        self.frame.splice(MACS..MACS, [high, low, 0, 0]);
        self.find()
    }

    /// Takes the tag away, if there is one.
    pub(super) fn pop_tag(&mut self) -> Result<(), Unjudged> {
        if self.has_tag() {
            self.frame.drain(MACS..MACS + TAG_BYTES);
            self.find()?;
        }
        Ok(())
    }

    /// Lowers the time to live of an IP packet; whether it could.
    pub(super) fn lower_ttl(&mut self) -> bool {
        match self.ttl().filter(|_| self.is_ip()) {
            Some(0 | 1) => false,
            Some(ttl) => {
                self.set_ttl(ttl - 1);
                true
            }
            None => true,
        }
    }
}

fn is_tag(tpid: u16) -> bool {
    matches!(tpid, VLAN | PROVIDER_VLAN)
}

/// How many bits lie to the right of a field within the one whose bits it shares.
fn within(field: Field) -> u32 {
    u32::from(field.about().shift - field.about().owner.about().shift)
}

fn register(field: Field) -> Option<usize> {
    Field::REGISTERS.iter().position(|register| *register == field)
}
