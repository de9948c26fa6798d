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
use weir_flow::span::{ADDRESSES, PORTS};
use weir_flow::{Field, Key, Layout};
use weir_wire::checksum::{finish, udp_nonzero};
use weir_wire::crc32c;

/// How the addresses of a packet change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
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
    pub fn apply(&self, frame: &mut [u8], layout: Layout, key: &mut Key) {
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
            for (field, old, new) in
                [(Field::Ipv6Src, from.source, to.source), (Field::Ipv6Dst, from.destination, to.destination)]
            {
                if old != new {
                    field.set(key, new);
                }
            }
        } else {
            let [source, destination] = [key.addresses() >> 32, u64::from(key.addresses() as u32)];
            let source = if from.source == to.source { source } else { u64::from(to.source as u32) };
            let destination = if from.destination == to.destination {
                destination
            } else {
                u64::from(to.destination as u32)
            };
            ADDRESSES.set(key, source << 32 | destination);
        }
        if self.ports && ported(to.protocol) {
            let ports = u64::from(to.source_port) << 16 | u64::from(to.destination_port);
            PORTS.set(key, ports);
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
            SCTP => self.fix_sctp(at, to.v6, old),
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

    /// SCTP's checksum covers the packet alone (RFC 9260, section 6.8), all of it, also where it is quoted
    /// in part.
    fn fix_sctp(&mut self, at: usize, v6: bool, old: Option<[u8; 4]>) {
        let field = if v6 { 4 } else { 2 };
        let length = self.bytes.get(field..).and_then(|bytes| bytes.first_chunk::<2>());
        let header = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk::<12>());
        let (Some(length), Some(header), Some(old)) = (length, header, old) else { return };
        let end = usize::from(u16::from_be_bytes(*length)) + if v6 { 40 } else { 0 };
        let change: [u8; 4] = std::array::from_fn(|byte| old[byte] ^ header[byte]);
        let sum = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let sum = sum ^ crc32c::effect(&change, end.saturating_sub(at + 4) as u32);
        self.put(at + 8, &sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use weir_flow::extract;

    /// A packet from its network header on, with right checksums.
    fn packet(tuple: &Tuple, protocol: u8, mut segment: Vec<u8>) -> Vec<u8> {
        let address = |bits: u128| -> IpAddr {
            if tuple.v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
        };
        let checksum = match protocol {
            ICMP | ICMP6 => Some(2),
            TCP => Some(16),
            SCTP => None,
            _ => Some(6),
        };
        if protocol == SCTP {
            let sum = crc32c::crc32c(&segment).to_le_bytes();
            segment[8..12].copy_from_slice(&sum);
        }
        let (from, to) = (address(tuple.source), address(tuple.destination));
        weir_frames::ip(from, to, protocol, segment, checksum).split_off(14)
    }

    /// Ports, or what stands there, and enough for every header, with data behind.
    fn segment(tuple: &Tuple, data: &[u8]) -> Vec<u8> {
        let mut segment = vec![0; 20];
        match tuple.protocol {
            ICMP | ICMP6 => {
                segment[0] = tuple.icmp().expect("it is a request or a reply").0;
                segment[4..6].copy_from_slice(&tuple.identifier().to_be_bytes());
            }
            _ => {
                segment[..2].copy_from_slice(&tuple.source_port.to_be_bytes());
                segment[2..4].copy_from_slice(&tuple.destination_port.to_be_bytes());
                segment[12] = 0x50;
            }
        }
        segment.extend(data);
        if tuple.protocol == UDP {
            let length = segment.len() as u16;
            segment[4..6].copy_from_slice(&length.to_be_bytes());
        }
        segment
    }

    fn framed(v6: bool, packet: Vec<u8>) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
        frame.extend(packet);
        frame
    }

    fn turns() -> impl Strategy<Value = (Tuple, Tuple)> {
        let ends = (any::<[u128; 4]>(), any::<[u16; 4]>());
        let protocols = prop_oneof![Just(TCP), Just(UDP), Just(SCTP), Just(ICMP)];
        (any::<bool>(), protocols, ends, any::<[bool; 2]>()).prop_map(
            |(v6, protocol, (ends, ports), same)| {
                let [a, b, c, d] = ends.map(|end| if v6 { end } else { end & 0xffff_ffff });
                let icmp = protocol == ICMP;
                let protocol = if icmp && v6 { ICMP6 } else { protocol };
                let from = Tuple {
                    v6,
                    source: a,
                    destination: b,
                    source_port: ports[0],
                    destination_port: if icmp { 0 } else { ports[1] },
                    protocol,
                    kind: icmp.into(),
                    answer: false,
                };
                let destination_port = if icmp { 0 } else { ports[3] };
                let to = Tuple { source: c, destination: d, source_port: ports[2], destination_port, ..from };
                // One end stays as it is, mostly.
                let to = if same[0] { Tuple { source: a, source_port: ports[0], ..to } } else { to };
                let keeps = Tuple { destination: b, destination_port: from.destination_port, ..to };
                (from, if same[1] { keeps } else { to })
            },
        )
    }

    fn turned(turn: &Turn, frame: &[u8]) -> Vec<u8> {
        let (mut frame, mut key) = (frame.to_vec(), Key::new());
        let layout = extract(&frame, 1, &mut key);
        turn.apply(&mut frame, layout, &mut key);
        let mut fresh = Key::new();
        extract(&frame, 1, &mut fresh);
        assert_eq!(key, fresh, "the key is that of the frame");
        frame
    }

    proptest! {
        #[test]
        fn a_turned_packet_is_the_one_that_was_made_with_those_addresses(
            (from, to) in turns(),
            data in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let made = |tuple: &Tuple| framed(tuple.v6, packet(tuple, tuple.protocol, segment(tuple, &data)));
            let turn = Turn::new(from, to, if from.kind == 0 { Kind::Tcp } else { Kind::Icmp });
            prop_assert_eq!(turned(&turn, &made(&from)), made(&to));
        }

        #[test]
        fn a_turned_icmp_error_quotes_what_its_receiver_had_sent(
            (from, to) in turns(),
            data in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            // The error goes where answers to the quoted packet would.
            let made = |tuple: &Tuple| {
                let sent = tuple.reversed();
                let quoted = packet(&sent, sent.protocol, segment(&sent, &data));
                let kind = if tuple.v6 { 1 } else { 3 };
                let error = [vec![kind, 1, 0, 0, 0, 0, 0, 0], quoted].concat();
                framed(tuple.v6, packet(tuple, if tuple.v6 { ICMP6 } else { ICMP }, error))
            };
            let turn = Turn::new(from, to, Kind::Report);
            prop_assert_eq!(turned(&turn, &made(&from)), made(&to));
        }
    }
}
