//! Packets for services: frames with right checksums, their keys and layouts.

#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use weir_flow::{Field, Key, Layout};
use weir_frames::{ACK, Tcp, datagram, padded, segment};
use weir_packet::DropReason;
use weir_services::{Burst, Group, GroupConfig, Memo, Service, Slot, Verdict, registered};
use weir_units::Nanos;
use weir_wire::checksum::{self, pseudo_ipv4, pseudo_ipv6, sum};
use weir_wire::dissect::Network;
use weir_wire::{Dissection, EthernetView, MacAddress};

/// Something between packets that depends on a number only.
pub(crate) type Draw = weir_testkit::Dice;

fn sockets(v6: bool, host: u16, port: u16) -> SocketAddr {
    let ip = if v6 {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host))
    } else {
        IpAddr::V4(Ipv4Addr::from(0xc612_0000 | u32::from(host)))
    };
    SocketAddr::new(ip, port)
}

fn pseudo(from: SocketAddr, to: SocketAddr, protocol: u8, length: usize) -> u32 {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => pseudo_ipv4(from, to, protocol, length as u16),
        (IpAddr::V6(from), IpAddr::V6(to)) => pseudo_ipv6(from, to, protocol, length as u32),
        _ => unreachable!("both ends are of one family"),
    }
}

/// A UDP packet with its checksum.
pub(crate) fn udp_packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    padded(datagram(from, to, payload))
}

/// A TCP packet with its checksum.
pub(crate) fn tcp_packet(from: SocketAddr, to: SocketAddr, flags: u8, payload: &[u8]) -> Vec<u8> {
    let tcp = Tcp { flags, seq: 1000, ack: 2000, window: 8192, ..Tcp::default() };
    padded(segment(from, to, tcp, payload))
}

/// A packet of connection `number`: TCP or UDP, IPv4 or IPv6, by its lowest bits.
pub(crate) fn packet(number: u64, payload: &[u8]) -> Vec<u8> {
    let from = sockets(number & 1 != 0, (number >> 2) as u16, 1024 + (number >> 4) as u16 % 60_000);
    let to = sockets(number & 1 != 0, 0xffff, 80);
    if number & 2 == 0 { tcp_packet(from, to, ACK, payload) } else { udp_packet(from, to, payload) }
}

/// Whether the transport checksum of a frame is right; `None` where there is none to check.
pub(crate) fn checksum_is_right(frame: &[u8]) -> Option<bool> {
    let found = Dissection::of(frame);
    let (network, transport) = (found.network?, found.transport?);
    let bytes = &frame[transport.offset..network.end];
    if network.protocol == 17 && bytes[6..8] == [0, 0] {
        return None;
    }
    let (from, to) = (SocketAddr::new(network.source, 0), SocketAddr::new(network.destination, 0));
    Some(checksum::fold(pseudo(from, to, network.protocol, bytes.len()) + sum(bytes)) == 0xffff)
}

/// The key and layout of a frame, as far as services look at them.
pub(crate) fn extract(frame: &[u8], in_port: u32, key: &mut Key) -> Layout {
    key.clear();
    Field::InPort.set(key, in_port.into());
    let mut layout = Layout { end: frame.len() as u16, ..Layout::default() };
    let Ok(ethernet) = EthernetView::checked(frame) else { return layout };
    let found = Dissection::of(frame);
    let mac = |mac: MacAddress| mac.0.iter().fold(0, |all, &byte| all << 8 | u128::from(byte));
    Field::EthDst.set(key, mac(ethernet.destination()));
    Field::EthSrc.set(key, mac(ethernet.source()));
    Field::EthType.set(key, found.ether_type.0.into());
    layout.ether_type = 12 + 4 * found.tags as u16;
    if found.tags > 0 {
        Field::VlanTci.set(key, (u16::from_be_bytes([frame[14], frame[15]]) | 0x1000).into());
    }
    if let Some(network) = &found.network {
        extract_network(frame, network, key, &mut layout);
    }
    if let Some(transport) = found.transport {
        Field::TcpSrc.set(key, transport.source.into());
        Field::TcpDst.set(key, transport.destination.into());
        if found.network.is_some_and(|network| network.protocol == 6) {
            Field::TcpFlags.set(key, frame[transport.offset + 13].into());
        }
        layout.transport = transport.offset as u16;
        layout.payload = transport.payload as u16;
    }
    layout
}

fn extract_network(frame: &[u8], network: &Network, key: &mut Key, layout: &mut Layout) {
    layout.network = network.offset as u16;
    layout.end = network.end.min(frame.len()) as u16;
    Field::NwProto.set(key, network.protocol.into());
    Field::NwFrag.set(key, network.fragment.into());
    let header = &frame[network.offset..];
    match (network.source, network.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Field::NwSrc.set(key, u32::from(source).into());
            Field::NwDst.set(key, u32::from(destination).into());
            Field::NwTos.set(key, (header[1] >> 2).into());
            Field::NwEcn.set(key, (header[1] & 3).into());
            Field::NwTtl.set(key, header[8].into());
            if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
                Field::NwFrag.set(key, 3);
            }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Field::Ipv6Src.set(key, source.into());
            Field::Ipv6Dst.set(key, destination.into());
            Field::NwTtl.set(key, header[7].into());
            let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
            Field::NwTos.set(key, (word >> 22 & 0x3f).into());
            Field::NwEcn.set(key, (word >> 20 & 3).into());
            Field::Ipv6Label.set(key, (word & 0xf_ffff).into());
        }
        _ => unreachable!("both addresses are of one family"),
    }
}

/// Packets before a service, and what it said of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packets {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) keys: Vec<Key>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) arguments: Vec<u32>,
    /// Metadata, coalesce, verdict of the last call.
    pub(crate) said: Vec<(u32, bool, Verdict)>,
}

impl Packets {
    pub(crate) fn new(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut packets = Self { frames: frames.into_iter().collect(), ..Self::default() };
        for frame in &packets.frames {
            let mut key = Key::new();
            packets.layouts.push(extract(frame, 1, &mut key));
            packets.keys.push(key);
        }
        packets.arguments = vec![0; packets.frames.len()];
        packets.said = vec![(0, false, Verdict::Pass); packets.frames.len()];
        packets
    }

    pub(crate) fn with_arguments(mut self, argument: impl Fn(usize) -> u32) -> Self {
        self.arguments = (0..self.frames.len()).map(argument).collect();
        self
    }

    /// Calls with fresh slots for all packets, and keeps what they say then.
    pub(crate) fn through(&mut self, call: impl FnOnce(&mut [Slot<'_>])) -> &[(u32, bool, Verdict)] {
        let mut slots: Vec<Slot<'_>> = Vec::with_capacity(self.frames.len());
        let each = self.frames.iter_mut().zip(&mut self.keys).zip(&self.layouts).zip(&self.arguments);
        slots.extend(each.map(|(((frame, key), &layout), &argument)| Slot {
            frame,
            layout,
            key,
            argument,
            arguments: &[],
            tracking: None,
            metadata: 0,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        }));
        call(&mut slots);
        self.said.clear();
        self.said.extend(slots.iter().map(|slot| (slot.metadata, slot.coalesce, slot.verdict)));
        &self.said
    }

    pub(crate) fn process(&mut self, service: &mut dyn Service, now: Nanos) -> &[(u32, bool, Verdict)] {
        self.through(|slots| service.process(&mut Burst::new(slots, now)))
    }

    pub(crate) fn metadata(&self) -> Vec<u32> {
        self.said.iter().map(|said| said.0).collect()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> Vec<usize> {
        let dropped = |at: &usize| self.said[*at].2 == Verdict::Drop(reason);
        (0..self.said.len()).filter(dropped).collect()
    }
}

/// A group of a registered kind.
pub(crate) fn group(kind: &str, settings: serde_json::Value, workers: usize) -> Arc<dyn Group> {
    let config = GroupConfig { name: kind, settings: &settings, workers, seed: 7 };
    (registered(kind).expect("a registered kind").build)(&config).expect("right settings")
}

/// What building a group of a kind says is wrong.
pub(crate) fn refused(kind: &str, settings: serde_json::Value) -> String {
    let config = GroupConfig { name: "mine", settings: &settings, workers: 1, seed: 7 };
    match (registered(kind).expect("a registered kind").build)(&config) {
        Ok(_) => panic!("{settings} was accepted"),
        Err(error) => error.to_string(),
    }
}

pub(crate) const fn seconds(seconds: u64) -> Nanos {
    Nanos(seconds * Nanos::PER_SECOND)
}
