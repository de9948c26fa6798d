//! One walk over a frame: where each header starts, and how far the packet reaches.
//!
//! A [`Dissection`] is a handful of offsets. It never fails: what does not parse simply is not there
//! (`network` or `transport` is `None`), as a tester must carry any frame a capture holds. At most
//! [`MAX_TAGS`] VLAN tags and [`MAX_EXTENSIONS`] IPv6 extension headers are stepped over.

use crate::{EtherType, EthernetRepr, Ipv4View, Ipv6Repr, Ipv6View, TcpView, UdpView, VlanRepr, ipv4, word};
use std::net::IpAddr;

/// VLAN tags that are stepped over; a frame with more has no network header to us.
pub const MAX_TAGS: usize = 4;
/// IPv6 extension headers that are stepped over.
pub const MAX_EXTENSIONS: usize = 8;

/// A network header, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Where it starts, in bytes from the start of the frame.
    pub offset: usize,
    /// Where the packet ends by its own length field; may lie beyond the frame (cut) or before (padded).
    pub end: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol after any extension headers.
    pub protocol: u8,
    /// Whether the packet is a fragment.
    pub fragment: bool,
}

/// A UDP or TCP header, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transport {
    /// Where it starts, in bytes from the start of the frame.
    pub offset: usize,
    /// Where its payload starts.
    pub payload: usize,
    /// Where its checksum field stands.
    pub checksum: usize,
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// Where the headers of a frame start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dissection {
    /// VLAN tags before the network header.
    pub tags: usize,
    /// The EtherType after the tags; zero when the frame is shorter than an Ethernet header.
    pub ether_type: EtherType,
    /// IPv4 or IPv6.
    pub network: Option<Network>,
    /// UDP or TCP; never looked for in a fragment.
    pub transport: Option<Transport>,
}

impl Dissection {
    /// Walks over a frame.
    pub fn of(frame: &[u8]) -> Self {
        let mut found = Self { tags: 0, ether_type: EtherType(0), network: None, transport: None };
        if frame.len() < EthernetRepr::BYTES {
            return found;
        }
        let mut at = EthernetRepr::BYTES;
        found.ether_type = EtherType(word(frame, 12));
        while found.ether_type.is_tag() && found.tags < MAX_TAGS && frame.len() >= at + VlanRepr::BYTES {
            found.ether_type = EtherType(word(frame, at + 2));
            found.tags += 1;
            at += VlanRepr::BYTES;
        }
        let (network, transport_at) = match found.ether_type {
            EtherType::IPV4 => network_v4(frame, at),
            EtherType::IPV6 => network_v6(frame, at),
            _ => None,
        }
        .unzip();
        found.network = network;
        found.transport = network.zip(transport_at).and_then(|(network, at)| transport(frame, network, at));
        found
    }
}

/// The IPv4 header at `at`, and where its payload starts.
fn network_v4(frame: &[u8], at: usize) -> Option<(Network, usize)> {
    let view = Ipv4View::checked(&frame[at..]).ok()?;
    let network = Network {
        offset: at,
        end: at + usize::from(view.total_len()),
        source: view.source().into(),
        destination: view.destination().into(),
        protocol: view.protocol(),
        fragment: view.is_fragment(),
    };
    Some((network, at + view.header_len()))
}

/// The IPv6 header at `at`, and where what follows its extension headers starts.
fn network_v6(frame: &[u8], at: usize) -> Option<(Network, usize)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let view = Ipv6View::checked(&frame[at..]).ok()?;
    let mut network = Network {
        offset: at,
        end: at + Ipv6Repr::BYTES + usize::from(view.payload_len()),
        source: view.source().into(),
        destination: view.destination().into(),
        protocol: view.next_header(),
        fragment: false,
    };
    let mut next = at + Ipv6Repr::BYTES;
    for _ in 0..MAX_EXTENSIONS {
        let length = match (network.protocol, frame.get(next..next + 8)) {
            (HOP_BY_HOP | ROUTING | DESTINATION, Some(header)) => 8 * (usize::from(header[1]) + 1),
            (FRAGMENT, Some(header)) => {
                // Offset and more-fragments both zero: an atomic fragment, whole by itself (RFC 6946).
                network.fragment = word(header, 2) & 0xfff9 != 0;
                8
            }
            _ => break,
        };
        network.protocol = frame[next];
        next += length;
    }
    Some((network, next))
}

/// The UDP or TCP header at `at`.
fn transport(frame: &[u8], network: Network, at: usize) -> Option<Transport> {
    let bytes = frame.get(at..network.end.min(frame.len())).filter(|_| !network.fragment)?;
    match network.protocol {
        ipv4::UDP => UdpView::checked(bytes).ok().map(|view| Transport {
            offset: at,
            payload: at + crate::UdpRepr::BYTES,
            checksum: at + crate::udp::CHECKSUM,
            source: view.source(),
            destination: view.destination(),
        }),
        ipv4::TCP => TcpView::checked(bytes).ok().map(|view| Transport {
            offset: at,
            payload: at + view.header_len(),
            checksum: at + crate::tcp::CHECKSUM,
            source: view.source(),
            destination: view.destination(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4Repr, MacAddress, UdpRepr};
    use proptest::prelude::*;

    fn tagged_udp() -> Vec<u8> {
        let mut frame = vec![0; 18 + 20 + 8 + 4];
        EthernetRepr {
            destination: MacAddress([2; 6]),
            source: MacAddress([6; 6]),
            ether_type: EtherType::VLAN,
        }
        .emit(&mut frame);
        VlanRepr { vlan: 7, priority: 0, drop_eligible: false, ether_type: EtherType::IPV4 }
            .emit(&mut frame[14..]);
        Ipv4Repr {
            source: [198, 18, 0, 1].into(),
            destination: [198, 19, 0, 1].into(),
            protocol: ipv4::UDP,
            ttl: 64,
            payload_len: 12,
        }
        .emit(&mut frame[18..]);
        UdpRepr { source: 1024, destination: 2048, payload_len: 4 }.emit(&mut frame[38..]);
        frame
    }

    #[test]
    fn headers_behind_a_tag_are_found() {
        let found = Dissection::of(&tagged_udp());
        let (network, transport) = (found.network.unwrap(), found.transport.unwrap());
        assert_eq!((found.tags, network.offset, network.end), (1, 18, 50));
        assert_eq!((transport.offset, transport.payload, transport.checksum), (38, 46, 44));
        assert_eq!((transport.source, transport.destination), (1024, 2048));
    }

    #[test]
    fn a_fragment_has_no_transport_header() {
        let mut frame = tagged_udp();
        frame[18 + 7] = 1;
        let found = Dissection::of(&frame);
        assert!(found.network.unwrap().fragment && found.transport.is_none());
    }

    #[test]
    fn an_ipv6_extension_header_is_stepped_over() {
        let mut frame = vec![0; 14 + 40 + 8 + 8];
        EthernetRepr {
            destination: MacAddress([2; 6]),
            source: MacAddress([6; 6]),
            ether_type: EtherType::IPV6,
        }
        .emit(&mut frame);
        let ip = Ipv6Repr {
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2::2".parse().unwrap(),
            next_header: 0,
            hop_limit: 64,
            payload_len: 16,
        };
        ip.emit(&mut frame[14..]);
        frame[54] = ipv4::UDP;
        UdpRepr { source: 9000, destination: 9001, payload_len: 0 }.emit(&mut frame[62..]);
        let found = Dissection::of(&frame);
        assert_eq!(found.network.unwrap().protocol, ipv4::UDP);
        assert_eq!(found.transport.unwrap().offset, 62);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Dissection::of(&bytes);
        }

        #[test]
        fn damaged_headers_never_panic_and_stay_inside(
            changes in proptest::collection::vec((0_usize..50, any::<u8>()), 0..8),
            length in 0_usize..50,
            first in prop_oneof![Just(EtherType::IPV4), Just(EtherType::IPV6), Just(EtherType::VLAN)],
        ) {
            let mut frame = tagged_udp();
            frame[12..14].copy_from_slice(&first.0.to_be_bytes());
            for (at, byte) in changes {
                frame[at] = byte;
            }
            frame.truncate(length);
            let found = Dissection::of(&frame);
            if let Some(transport) = found.transport {
                prop_assert!(transport.payload <= frame.len() && transport.checksum + 2 <= frame.len());
            }
        }
    }
}
