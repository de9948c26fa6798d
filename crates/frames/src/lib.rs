//! Frames for tests, made and read by themselves: none of the code under test is asked how a header looks.
//!
//! - [`tcp`], [`segment`], [`udp`], [`datagram`], [`icmp`], [`echo`], [`unreachable()`], [`ip`]: a frame, with its
//!   checksums; [`fragments`] of one; [`padded`] to the least that Ethernet takes;
//! - [`of_flow`]: a datagram as the switch composes it;
//! - [`extract`]: a frame's key and layout, read the simple way;
//! - [`v4`], [`v6`]: addresses of hosts.
//!
//! Tests only: what does not fit panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weir_flow::{Field, Key, Layout, compose};

/// TCP's flag FIN.
pub const FIN: u8 = 0x01;
/// TCP's flag SYN.
pub const SYN: u8 = 0x02;
/// TCP's flag RST.
pub const RST: u8 = 0x04;
/// TCP's flag PSH.
pub const PSH: u8 = 0x08;
/// TCP's flag ACK.
pub const ACK: u8 = 0x10;

/// A TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Of [`SYN`] and the others.
    pub flags: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Window, as it stands in the header.
    pub window: u16,
    /// Bytes of data.
    pub length: usize,
    /// Window scaling, as an option.
    pub scale: Option<u8>,
    /// Whether selective acknowledgements are offered.
    pub sack: bool,
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An Ethernet frame with an IP packet; `checksum` is where the transport has its checksum, if it does.
pub fn ip(from: IpAddr, to: IpAddr, protocol: u8, mut body: Vec<u8>, checksum: Option<usize>) -> Vec<u8> {
    if let Some(at) = checksum {
        let pseudo = if protocol == 1 { 0 } else { u32::from(protocol) + body.len() as u32 };
        let addresses = if protocol == 1 { 0 } else { sum(&octets(from)) + sum(&octets(to)) };
        body[at..at + 2].fill(0);
        let value = fold(pseudo + addresses + sum(&body));
        // Zero would say that a datagram has none (RFC 768).
        let value = if protocol == 17 && value == 0 { 0xffff } else { value };
        body[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if from.is_ipv4() {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + body.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend(octets(from));
        frame.extend(octets(to));
        seal(&mut frame);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((body.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend(octets(from));
        frame.extend(octets(to));
    }
    frame.extend(body);
    frame
}

/// Writes the IPv4 header checksum anew.
pub fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let value = fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&value.to_be_bytes());
}

/// A frame with a TCP segment, with zeros as its data.
pub fn tcp(from: SocketAddr, to: SocketAddr, tcp: Tcp) -> Vec<u8> {
    segment(from, to, tcp, &vec![0; tcp.length])
}

/// A frame with a TCP segment and this data.
pub fn segment(from: SocketAddr, to: SocketAddr, tcp: Tcp, data: &[u8]) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(scale) = tcp.scale {
        options.extend([1, 3, 3, scale]);
    }
    if tcp.sack {
        options.extend([1, 1, 4, 2]);
    }
    let mut body = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    body.extend(tcp.seq.to_be_bytes());
    body.extend(tcp.ack.to_be_bytes());
    body.extend([(20 + options.len() as u8) << 2, tcp.flags]);
    body.extend(tcp.window.to_be_bytes());
    body.extend([0; 4]);
    body.extend(options);
    body.extend(data);
    ip(from.ip(), to.ip(), 6, body, Some(16))
}

/// A frame with a datagram of so many bytes: 0, 1, 2 and so on.
pub fn udp(from: SocketAddr, to: SocketAddr, length: usize) -> Vec<u8> {
    datagram(from, to, &(0..length).map(|byte| byte as u8).collect::<Vec<_>>())
}

/// A frame with a datagram that carries this.
pub fn datagram(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut body = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    body.extend((8 + data.len() as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend(data);
    ip(from.ip(), to.ip(), 17, body, Some(6))
}

/// With zeros at its end, where it is shorter than the least frame of Ethernet.
pub fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A datagram between two hosts of IPv4, as the switch composes it of a key.
pub fn of_flow(source: u32, destination: u32, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut key = Key::new();
    for (field, value) in [
        (Field::EthDst, 0x0200_0000_0002),
        (Field::EthSrc, 0x0200_0000_0001),
        (Field::EthType, 0x0800),
        (Field::NwSrc, u128::from(source)),
        (Field::NwDst, u128::from(destination)),
        (Field::NwProto, 17),
        (Field::NwTtl, 64),
        (Field::UdpSrc, u128::from(ports.0)),
        (Field::UdpDst, u128::from(ports.1)),
    ] {
        field.set(&mut key, value);
    }
    compose(&key, data)
}

/// An ICMP packet with this type and code, four bytes behind the checksum, and a body.
pub fn icmp(from: IpAddr, to: IpAddr, kind: (u8, u8), word: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut body = vec![kind.0, kind.1, 0, 0];
    body.extend(word);
    body.extend(rest);
    ip(from, to, if from.is_ipv4() { 1 } else { 58 }, body, Some(2))
}

/// An echo request, or the reply to one.
pub fn echo(from: IpAddr, to: IpAddr, reply: bool, id: u16) -> Vec<u8> {
    let kind = match (from.is_ipv4(), reply) {
        (true, false) => 8,
        (true, true) => 0,
        (false, false) => 128,
        (false, true) => 129,
    };
    let id = id.to_be_bytes();
    icmp(from, to, (kind, 0), [id[0], id[1], 0, 1], &[7; 16])
}

/// "Port unreachable" about a frame, quoting so many bytes of its network packet.
pub fn unreachable(from: IpAddr, to: IpAddr, about: &[u8], quoted: usize) -> Vec<u8> {
    let packet = &about[14..];
    let kind = if from.is_ipv4() { (3, 3) } else { (1, 4) };
    icmp(from, to, kind, [0; 4], &packet[..quoted.min(packet.len())])
}

/// A frame's network packet in fragments of so many bytes of payload, a multiple of eight.
pub fn fragments(frame: &[u8], id: u16, size: usize) -> Vec<Vec<u8>> {
    let v6 = frame[12] == 0x86;
    let header = if v6 { 40 } else { 20 };
    let body = &frame[14 + header..];
    let count = body.len().div_ceil(size);
    let piece = |(number, part): (usize, &[u8])| {
        let mut out = frame[..14 + header].to_vec();
        let more = number + 1 < count;
        if v6 {
            out[18..20].copy_from_slice(&(part.len() as u16 + 8).to_be_bytes());
            let protocol = std::mem::replace(&mut out[20], 44);
            out.extend([protocol, 0]);
            out.extend(((number * size) as u16 | u16::from(more)).to_be_bytes());
            out.extend([0, 0]);
            out.extend(id.to_be_bytes());
        } else {
            out[16..18].copy_from_slice(&(part.len() as u16 + 20).to_be_bytes());
            out[18..20].copy_from_slice(&id.to_be_bytes());
            let offset = (number * size / 8) as u16 | if more { 0x2000 } else { 0 };
            out[20..22].copy_from_slice(&offset.to_be_bytes());
            seal(&mut out);
        }
        out.extend(part);
        out
    };
    body.chunks(size).enumerate().map(piece).collect()
}

/// The key and the layout of a frame, as the datapath extracts them.
pub fn extract(frame: &[u8]) -> (Key, Layout) {
    let (mut key, mut layout) = (Key::new(), Layout::default());
    let half = |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let Some(ether_type) = half(12) else { return (key, layout) };
    Field::EthType.set(&mut key, u128::from(ether_type));
    layout.ether_type = 12;
    let bits = |bytes: &[u8]| bytes.iter().fold(0_u128, |bits, &byte| bits << 8 | u128::from(byte));
    let (mut at, mut later, mut fragment) = (14, false, false);
    let protocol = match ether_type {
        0x0800 => {
            let Some(header) = frame.get(14..34) else { return (key, layout) };
            let length = usize::from(header[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if header[0] >> 4 != 4 || length < 20 || total < length || frame.len() < 14 + total {
                return (key, layout);
            }
            Field::NwSrc.set(&mut key, bits(&header[12..16]));
            Field::NwDst.set(&mut key, bits(&header[16..20]));
            Field::NwTtl.set(&mut key, u128::from(header[8]));
            let field = u16::from_be_bytes([header[6], header[7]]);
            (fragment, later) = (field & 0x3fff != 0, field & 0x1fff != 0);
            layout.end = 14 + total as u16;
            at += length;
            header[9]
        }
        0x86dd => {
            let Some(header) = frame.get(14..54) else { return (key, layout) };
            let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
            if header[0] >> 4 != 6 || frame.len() < 14 + total {
                return (key, layout);
            }
            Field::Ipv6Src.set(&mut key, bits(&header[8..24]));
            Field::Ipv6Dst.set(&mut key, bits(&header[24..40]));
            Field::NwTtl.set(&mut key, u128::from(header[7]));
            layout.end = 14 + total as u16;
            at += 40;
            let mut protocol = header[6];
            while matches!(protocol, 0 | 43 | 44 | 60) && !later && at + 8 <= 14 + total {
                let extension = &frame[at..at + 8];
                at += if protocol == 44 { 8 } else { 8 * (usize::from(extension[1]) + 1) };
                if protocol == 44 {
                    let field = u16::from_be_bytes([extension[2], extension[3]]);
                    (fragment, later) = (field & 0xfff9 != 0, field & 0xfff8 != 0);
                }
                protocol = extension[0];
            }
            protocol
        }
        _ => return (key, layout),
    };
    layout.network = 14;
    Field::NwProto.set(&mut key, u128::from(protocol));
    Field::NwFrag.set(&mut key, u128::from(fragment) | u128::from(later) << 1);
    let least = match protocol {
        6 => 20,
        17 | 1 | 58 => 8,
        132 => 12,
        _ => return (key, layout),
    };
    if later || at + least > usize::from(layout.end) {
        return (key, layout);
    }
    layout.transport = at as u16;
    let ports = match protocol {
        1 | 58 => (u16::from(frame[at]), u16::from(frame[at + 1])),
        _ => (half(at).unwrap(), half(at + 2).unwrap()),
    };
    Field::TcpSrc.set(&mut key, u128::from(ports.0));
    Field::TcpDst.set(&mut key, u128::from(ports.1));
    (key, layout)
}

/// A host of 10.0.0.0/23: numbers up to 9 stand in its first half, others in the second.
pub fn v4(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, u8::from(last > 9), last).into(), port)
}

/// The same of fd00::/16.
pub fn v6(last: u16, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::new(0xfd00, 0, 0, u16::from(last > 9), 0, 0, 0, last).into(), port)
}
