//! Translated addresses, written: into the headers, the checksums that cover them, the key, and the packet
//! that an ICMP error quotes (RFC 5508, section 7; RFC 1624 for the checksums).
//!
//! Only what changes is written, and checksums follow it, so that a wrong one stays as wrong as it was and
//! data is not read. What a cut-off header does not have is left out.
//!
//! Cost: some twenty cycles for TCP or UDP. Threads: none.

use super::packet::{Kind, ported};
use super::tracker::ct;
use super::tuple::{ICMP, ICMP6, SCTP, TCP, Tuple, UDP};
use weir_flow::{Key, Layout};
use weir_wire::checksum::{finish, udp_nonzero};
use weir_wire::crc32c;

/// How the addresses of a packet change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// What they are, and will be. Of an ICMP error: as if it were a packet of the connection.
    from: Tuple,
    to: Tuple,
    /// Whether it has the ports, or the identifier.
    ports: bool,
    /// Whether it is an ICMP error, which quotes a packet of the other direction.
    report: bool,
}

impl Turn {
    pub(super) fn new(from: Tuple, to: Tuple, kind: Kind) -> Self {
        let report = kind == Kind::Report;
        Self { from, to, ports: !matches!(kind, Kind::Later | Kind::Report), report }
    }

    /// `ct_state`'s bits for it.
    pub(super) fn state(&self) -> u8 {
        let Self { from, to, .. } = self;
        let source = (from.source, from.source_port) != (to.source, to.source_port);
        let destination = (from.destination, from.destination_port) != (to.destination, to.destination_port);
        let source = if source { ct::SNAT } else { 0 };
        source | if destination { ct::DNAT } else { 0 }
    }

    /// Writes it into the frame and its key.
    pub(super) fn apply(&self, frame: &mut [u8], layout: Layout, key: &mut Key) {
        let (network, transport) = (usize::from(layout.network), usize::from(layout.transport));
        let end = usize::from(layout.end).min(frame.len());
        let Some(packet) = frame.get_mut(network..end) else { return };
        let header = (transport > network).then(|| transport - network);
        let mut writer = Writer { bytes: packet, changed: 0 };
        if self.report {
            self.apply_report(&mut writer, header);
        } else {
            let protocol = self.from.protocol;
            let ports = header.filter(|_| self.ports);
            writer.turn(&self.from, &self.to, protocol, header, ports.is_some());
        }
        self.apply_key(key);
    }

    /// An ICMP error: its own addresses, and those of the packet that it quotes, the other way round.
    fn apply_report(&self, writer: &mut Writer<'_>, header: Option<usize>) {
        let v6 = self.from.v6;
        if let Some(at) = header
            && let Some(quoted) = writer.bytes.get_mut(at + 8..)
        {
            let transport = quoted_transport(quoted, v6);
            let mut inner = Writer { bytes: quoted, changed: 0 };
            let (from, to) = (self.from.reversed(), self.to.reversed());
            inner.turn(&from, &to, from.protocol, transport, transport.is_some());
            let changed = inner.changed;
            writer.fix(at + 2, changed);
        }
        // Ports are those of the quoted packet; its own protocol is ICMP.
        let icmp = if v6 { ICMP6 } else { ICMP };
        writer.turn(&self.from, &self.to, icmp, header, false);
    }

    fn apply_key(&self, key: &mut Key) {
        let Self { from, to, .. } = self;
        if to.v6 {
            for (at, (old, new)) in [(8, (from.source, to.source)), (10, (from.destination, to.destination))]
            {
                if old != new {
                    key.set_word(at, (new >> 64) as u64);
                    key.set_word(at + 1, new as u64);
                }
            }
        } else {
            let source = if from.source == to.source { key.word(3) >> 32 } else { to.source as u64 };
            let destination =
                if from.destination == to.destination { key.word(3) as u32 } else { to.destination as u32 };
            key.set_word(3, source << 32 | u64::from(destination));
        }
        if self.ports && ported(to.protocol) {
            let ports = u64::from(to.source_port) << 16 | u64::from(to.destination_port);
            key.set_bits(4, ports, 0xffff_ffff);
        }
    }
}

/// Where the transport header of a quoted packet starts, if the tuple has something of it.
fn quoted_transport(quoted: &[u8], v6: bool) -> Option<usize> {
    if v6 {
        return super::packet::transport_of_v6(quoted);
    }
    quoted.first().map(|byte| usize::from(byte & 0x0f) * 4)
}

/// Bytes from a network header on, and by what the sum over their 16-bit words has changed.
struct Writer<'a> {
    bytes: &'a mut [u8],
    changed: u32,
}

impl Writer<'_> {
    /// Writes bytes at an even offset; returns by what the sum changes. Nothing where they are cut off.
    fn put(&mut self, at: usize, new: &[u8]) -> u32 {
        let Some(old) = self.bytes.get_mut(at..at + new.len()) else { return 0 };
        let words = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
        let pairs = old.chunks_exact(2).zip(new.chunks_exact(2));
        let change = pairs.filter(|(old, new)| old != new);
        let change: u32 = change.map(|(old, new)| u32::from(!words(old)) + u32::from(words(new))).sum();
        old.copy_from_slice(new);
        self.changed += change;
        change
    }

    /// Has a checksum follow.
    fn fix(&mut self, at: usize, change: u32) {
        self.fix_to(at, change, |field| field);
    }

    fn fix_to(&mut self, at: usize, change: u32, last: impl Fn(u16) -> u16) {
        let Some(field) = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk::<2>()) else { return };
        if change != 0 {
            let old = u16::from_be_bytes(*field);
            self.put(at, &last(finish(u32::from(!old) + change)).to_be_bytes());
        }
    }

    /// Turns a packet's addresses, its ports or identifier if `ports` says so, and its checksums.
    fn turn(&mut self, from: &Tuple, to: &Tuple, protocol: u8, transport: Option<usize>, ports: bool) {
        let addresses = self.addresses(from, to);
        let Some(at) = transport else { return };
        let old = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>()).copied();
        let mut change = 0;
        if ports && ported(protocol) {
            change += self.put(at, &to.source_port.to_be_bytes());
            change += self.put(at + 2, &to.destination_port.to_be_bytes());
        } else if ports && to.kind != 0 {
            change += self.put(at + 4, &to.identifier().to_be_bytes());
        }
        match protocol {
            TCP => self.fix(at + 16, addresses + change),
            UDP if self.bytes.get(at + 6..at + 8).is_some_and(|field| field != [0, 0]) => {
                self.fix_to(at + 6, addresses + change, udp_nonzero);
            }
            ICMP => self.fix(at + 2, change),
            ICMP6 => self.fix(at + 2, addresses + change),
            SCTP => self.fix_sctp(at, old),
            _ => {}
        }
    }

    /// Writes addresses, and the IPv4 header's checksum; returns by what the sum over them changes.
    fn addresses(&mut self, from: &Tuple, to: &Tuple) -> u32 {
        let (source, destination) = if to.v6 { (8, 24) } else { (12, 16) };
        let mut change = 0;
        for (at, old, new) in
            [(source, from.source, to.source), (destination, from.destination, to.destination)]
        {
            if old != new {
                change += if to.v6 {
                    self.put(at, &new.to_be_bytes())
                } else {
                    self.put(at, &(new as u32).to_be_bytes())
                };
            }
        }
        if !to.v6 {
            self.fix(10, change);
        }
        change
    }

    /// SCTP's checksum covers the packet alone (RFC 9260, section 6.8).
    fn fix_sctp(&mut self, at: usize, old: Option<[u8; 4]>) {
        let Some(packet) = self.bytes.get_mut(at..) else { return };
        let behind = packet.len() as u32;
        let (Some(old), Some(header)) = (old, packet.first_chunk_mut::<12>()) else { return };
        let change: [u8; 4] = std::array::from_fn(|byte| old[byte] ^ header[byte]);
        let field = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let field = field ^ crc32c::effect(&change, behind - 4);
        header[8..].copy_from_slice(&field.to_le_bytes());
    }
}
