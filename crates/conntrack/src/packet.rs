//! What a packet is to the tracker: read from its key and, where the key does not say enough, from its
//! bytes. Nothing here trusts a length: what is not there makes the packet invalid.

use super::reason::Reason;
use super::tuple::{ICMP, ICMP6, IndexKey, SCTP, TCP, Tuple, UDP, icmp_role};
use weir_flow::protocol::{ARP, FRAGMENT_ANY, FRAGMENT_LATER, IPV4, IPV6};
use weir_flow::{Field, Key, Layout, Seed};
use weir_wire::checksum;

/// A packet, as the datapath has it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The frame, without FCS.
    pub frame: &'a [u8],
    /// Where its headers start.
    pub layout: Layout,
    /// Its fields.
    pub key: &'a Key,
}

/// What kind of packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Udp,
    /// A request or a reply.
    Icmp,
    /// An ICMP error, about another packet.
    Report,
    /// Another protocol.
    Other,
    /// A fragment that is not the first.
    Later,
    /// It is never tracked and always passes: the network would not work without.
    Vital,
    /// Not IP.
    #[default]
    Foreign,
    Bad(Reason),
}

/// A packet, looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub(super) key: IndexKey,
    pub(super) kind: Kind,
    pub(super) zone: u16,
    /// Where its connection may be ([`super::Tracker::approach`]); to be verified.
    pub at: u32,
}

impl Look {
    /// Whether there is something to be looked up.
    #[inline]
    pub(super) const fn is_flow(&self) -> bool {
        matches!(self.kind, Kind::Tcp | Kind::Udp | Kind::Icmp | Kind::Other)
    }
}

impl<'a> Packet<'a> {
    #[inline]
    pub(super) fn v6(&self) -> bool {
        self.key.ether_type() == IPV6
    }

    /// The port that it came in by.
    #[inline]
    pub(super) fn in_port(&self) -> u32 {
        self.key.in_port()
    }

    #[inline]
    pub(super) fn protocol(&self) -> u8 {
        self.key.protocol()
    }

    /// Whether it is a first fragment.
    #[inline]
    pub(super) fn is_first_fragment(&self) -> bool {
        self.key.fragment() == FRAGMENT_ANY
    }

    /// Whether it is IPv4 and no fragment.
    #[inline]
    pub(super) fn is_whole_v4(&self) -> bool {
        self.key.ether_type() == IPV4 && self.key.fragment() == 0
    }

    /// From the transport header to the packet's end.
    #[inline]
    pub(super) fn transport(&self) -> Result<&'a [u8], Reason> {
        let Layout { transport, end, .. } = self.layout;
        if transport == 0 {
            return Err(Reason::Truncated);
        }
        self.frame.get(usize::from(transport)..usize::from(end)).ok_or(Reason::Truncated)
    }

    /// Bytes of the network packet.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.layout.end.saturating_sub(self.layout.network))
    }

    /// Looks at a packet: what it is, and its tuple.
    pub fn look(&self, zone: u16, seed: Seed) -> Look {
        let mut look = Look::default();
        self.look_into(&mut look, zone, seed);
        look
    }

    /// The same, into a place that is used again. Fields are written one by one: a whole structure
    /// would be copied, and that copy waits for the pieces it was made of.
    #[inline(always)]
    pub fn look_into(&self, look: &mut Look, zone: u16, seed: Seed) {
        let plain = self.key.ether_type() == IPV4 && self.key.fragment() & FRAGMENT_LATER == 0;
        let protocol = self.key.protocol();
        look.kind = match protocol {
            TCP if plain => Kind::Tcp,
            UDP if plain => Kind::Udp,
            _ => {
                *look = self.look_closer(zone, seed);
                return;
            }
        };
        look.zone = zone;
        look.key.set_v4(self.key.addresses(), self.key.ports(), protocol, zone, seed);
    }

    #[inline(never)]
    fn look_closer(self, zone: u16, seed: Seed) -> Look {
        let mut look = Look { zone, ..Look::default() };
        let v6 = match self.key.ether_type() {
            IPV4 => false,
            IPV6 => true,
            other => {
                look.kind = if other == ARP { Kind::Vital } else { Kind::Foreign };
                return look;
            }
        };
        // A header that is cut off, or contradicts itself or the frame: nothing of it is known.
        if self.layout.network == 0 {
            look.kind = Kind::Bad(Reason::Truncated);
            return look;
        }
        if self.key.fragment() & FRAGMENT_LATER != 0 {
            look.kind = Kind::Later;
            return look;
        }
        let protocol = self.protocol();
        let mut tuple = Tuple { protocol, ..self.addresses() };
        match (protocol, v6) {
            (ICMP, false) | (ICMP6, true) => {
                look.kind = self.icmp(v6, &mut tuple);
                if look.kind != Kind::Icmp {
                    return look;
                }
            }
            _ => {
                if tuple.has_ports() {
                    let ports = self.key.ports();
                    (tuple.source_port, tuple.destination_port) = ((ports >> 16) as u16, ports as u16);
                    if self.layout.transport == 0 {
                        look.kind = Kind::Bad(Reason::Truncated);
                        return look;
                    }
                }
                look.kind = match protocol {
                    TCP => Kind::Tcp,
                    UDP => Kind::Udp,
                    _ => Kind::Other,
                };
            }
        }
        look.key = IndexKey::of(&tuple, zone, seed);
        look
    }

    /// A tuple of its addresses alone.
    pub(super) fn addresses(&self) -> Tuple {
        let v6 = self.v6();
        let [source, destination] =
            if v6 { [Field::Ipv6Src, Field::Ipv6Dst] } else { [Field::NwSrc, Field::NwDst] }
                .map(|field| field.get(self.key));
        Tuple {
            v6,
            source,
            destination,
            source_port: 0,
            destination_port: 0,
            protocol: self.protocol(),
            kind: 0,
            answer: false,
        }
    }

    /// Whether an ICMP packet is a reply.
    pub(super) fn answers(&self) -> bool {
        icmp_role(self.v6(), Field::IcmpType.get(self.key) as u8).is_some_and(|(_, answer)| answer)
    }

    /// What an ICMP packet is; fills the tuple of requests and replies.
    fn icmp(&self, v6: bool, tuple: &mut Tuple) -> Kind {
        let Ok(bytes) = self.transport() else { return Kind::Bad(Reason::Truncated) };
        let Some(header) = bytes.first_chunk::<8>() else { return Kind::Bad(Reason::Truncated) };
        let (icmp_type, code) = (header[0], header[1]);
        if let Some((kind, answer)) = icmp_role(v6, icmp_type) {
            let identifier = u16::from_be_bytes([header[4], header[5]]);
            let ports = (identifier, u16::from(code));
            (tuple.kind, tuple.answer) = (kind, answer);
            (tuple.source_port, tuple.destination_port) = if answer { (ports.1, ports.0) } else { ports };
            return Kind::Icmp;
        }
        let hops = self.key.ttl();
        match (v6, icmp_type) {
            (false, 3 | 4 | 5 | 11 | 12) | (true, 1..=4) => Kind::Report,
            // Neighbour discovery is not routed (RFC 4861, section 7.1: hop limit 255), nor is multicast
            // listener discovery (RFC 3810, section 5: hop limit 1).
            (true, 133..=137) if hops == 255 => Kind::Vital,
            (true, 130..=132 | 143) if hops == 1 => Kind::Vital,
            (true, 130..=137 | 143) => Kind::Bad(Reason::Discovery),
            _ => Kind::Bad(Reason::IcmpType),
        }
    }

    /// Whether the transport checksum over the whole packet is right. Of fragments, their sums are added up
    /// (`fragments.rs`).
    pub(super) fn checksum_is_right(&self, bytes: &[u8], protocol: u8) -> bool {
        self.sum_is_right(checksum::sum(bytes), protocol, bytes.len() as u32)
    }

    /// The same of a packet that carries so many bytes with this sum.
    pub(super) fn sum_is_right(&self, sum: u32, protocol: u8, length: u32) -> bool {
        let (at, size) = if self.v6() { (8, 32) } else { (12, 8) };
        let from = usize::from(self.layout.network) + at;
        let Some(addresses) = self.frame.get(from..from + size) else { return false };
        let pseudo = match protocol {
            ICMP => 0,
            _ => checksum::sum(addresses) + u32::from(protocol) + length,
        };
        checksum::finish(pseudo + u32::from(checksum::fold(sum))) == 0
    }

    /// Whether its protocol has a checksum that is verified.
    pub(super) fn has_checksum(&self) -> bool {
        let icmp = if self.v6() { ICMP6 } else { ICMP };
        matches!(self.protocol(), TCP | UDP) || self.protocol() == icmp
    }
}

/// Whether a protocol's packets have ports that the key holds.
pub(super) const fn ported(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

/// The fragment header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentHeader {
    pub(super) id: u32,
    /// Where its bytes stand in the whole, in bytes.
    pub(super) offset: u32,
    /// How many they are.
    pub(super) length: u32,
    /// Whether others follow.
    pub(super) more: bool,
}

impl<'a> Packet<'a> {
    /// What a fragment carries.
    pub(super) fn carried(&self) -> Option<&'a [u8]> {
        let header = self.fragment()?;
        let end = usize::from(self.layout.end);
        self.frame.get(end.checked_sub(header.length as usize)?..end)
    }

    /// The fragment header, of a packet whose key says that it is a fragment.
    pub(super) fn fragment(&self) -> Option<FragmentHeader> {
        let header = self.frame.get(usize::from(self.layout.network)..usize::from(self.layout.end))?;
        if !self.v6() {
            let fixed: &[u8; 20] = header.first_chunk()?;
            let body = header.get(usize::from(fixed[0] & 0x0f) * 4..)?;
            return Some(FragmentHeader {
                id: u32::from(u16::from_be_bytes([fixed[4], fixed[5]])),
                offset: u32::from(u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff) * 8,
                length: body.len() as u32,
                more: fixed[6] & 0x20 != 0,
            });
        }
        let found = walk(header)?;
        let fragment = header.get(found.fragment?..)?.first_chunk::<8>()?;
        let body = header.get(found.fragment? + 8..)?;
        Some(FragmentHeader {
            id: u32::from_be_bytes([fragment[4], fragment[5], fragment[6], fragment[7]]),
            offset: u32::from(u16::from_be_bytes([fragment[2], fragment[3]]) & 0xfff8),
            length: body.len() as u32,
            more: fragment[3] & 1 != 0,
        })
    }
}

/// Where an IPv6 packet's headers end.
struct Walk {
    protocol: u8,
    transport: usize,
    fragment: Option<usize>,
}

/// Extension headers that are stepped over.
const MAX_EXTENSIONS: usize = 8;

/// Steps over the extension headers of an IPv6 packet (RFC 8200, section 4).
fn walk(header: &[u8]) -> Option<Walk> {
    let mut found = Walk { protocol: *header.get(6)?, transport: 40, fragment: None };
    for _ in 0..=MAX_EXTENSIONS {
        let extension = header.get(found.transport..);
        let units = |at: usize| extension.and_then(|bytes| bytes.get(at)).map(|&byte| usize::from(byte));
        let length = match found.protocol {
            0 | 43 | 60 => (units(1)? + 1) * 8,
            51 => (units(1)? + 2) * 4,
            44 => {
                found.fragment = Some(found.transport);
                8
            }
            _ => return Some(found),
        };
        found.protocol = units(0)? as u8;
        found.transport += length;
        if let Some(fragment) = found.fragment.filter(|&at| at + 8 == found.transport) {
            let offset = header.get(fragment + 2..fragment + 4)?;
            if u16::from_be_bytes([offset[0], offset[1]]) & 0xfff8 != 0 {
                // What follows is the middle of something.
                return Some(found);
            }
        }
    }
    None
}

/// Where the transport header of an IPv6 packet starts.
pub(super) fn transport_of_v6(header: &[u8]) -> Option<usize> {
    walk(header).map(|found| found.transport)
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) tuple: Tuple,
    /// TCP: its sequence number.
    pub(super) seq: Option<u32>,
}

impl Quote {
    /// Reads what an ICMP error (behind its eight bytes) quotes: a network header, without later
    /// fragments, and at least eight bytes of what follows (RFC 792, RFC 4443 section 2.4). The inner
    /// header's checksum is not verified: routers lower its time to live before they quote it.
    pub(super) fn read(quoted: &[u8], v6: bool) -> Option<Self> {
        let (addresses, protocol, transport) = if v6 {
            let fixed: &[u8; 40] = quoted.first_chunk()?;
            let found = walk(quoted).filter(|_| fixed[0] >> 4 == 6)?;
            let later = found.fragment.is_some_and(|at| {
                quoted
                    .get(at + 2..at + 4)
                    .is_none_or(|field| u16::from_be_bytes([field[0], field[1]]) & 0xfff8 != 0)
            });
            if later {
                return None;
            }
            let wide = |at: usize| u128::from_be_bytes(std::array::from_fn(|byte| fixed[at + byte]));
            ((wide(8), wide(24)), found.protocol, found.transport)
        } else {
            let fixed: &[u8; 20] = quoted.first_chunk()?;
            let length = usize::from(fixed[0] & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
            let later = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
            if fixed[0] >> 4 != 4 || length < 20 || total < length + 8 || later {
                return None;
            }
            let narrow =
                |at: usize| u128::from(u32::from_be_bytes(std::array::from_fn(|byte| fixed[at + byte])));
            ((narrow(12), narrow(16)), fixed[9], length)
        };
        let start: &[u8; 8] = quoted.get(transport..)?.first_chunk()?;
        let mut quote = Self {
            tuple: Tuple {
                v6,
                source: addresses.0,
                destination: addresses.1,
                source_port: 0,
                destination_port: 0,
                protocol,
                kind: 0,
                answer: false,
            },
            seq: None,
        };
        let half = |at: usize| u16::from_be_bytes([start[at], start[at + 1]]);
        if protocol == if v6 { ICMP6 } else { ICMP } {
            let (kind, answer) = icmp_role(v6, start[0])?;
            let ports = (half(4), u16::from(start[1]));
            (quote.tuple.kind, quote.tuple.answer) = (kind, answer);
            (quote.tuple.source_port, quote.tuple.destination_port) =
                if answer { (ports.1, ports.0) } else { ports };
        } else if ported(protocol) {
            (quote.tuple.source_port, quote.tuple.destination_port) = (half(0), half(2));
            quote.seq =
                (protocol == TCP).then(|| u32::from_be_bytes([start[4], start[5], start[6], start[7]]));
        }
        Some(quote)
    }
}
