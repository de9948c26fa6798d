//! Another parser, the crate `etherparse`, reads the same fields out of the same well-formed frames.

use etherparse::{LinkExtHeader, NetHeaders, PacketHeaders, TransportHeader};
use weir_flow::samples::Sampler;
use weir_flow::span::{INNER_TCI, TCI};
use weir_flow::{Field, Key, Layout, extract};

const FRAMES: usize = 100_000;

/// Bits of `ipv6_exthdr` of chains that `etherparse` does not follow to their end.
const UNUSUAL: u128 = 0x180;

fn get<const N: usize>(key: &Key, fields: [Field; N]) -> [u128; N] {
    fields.map(|field| field.get(key))
}

fn be(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

fn tags_agree(key: &Key, headers: &PacketHeaders<'_>) {
    let tci = |header: &LinkExtHeader| {
        let LinkExtHeader::Vlan(vlan) = header else { panic!("{header:?}") };
        u64::from(vlan.pcp.value()) << 13 | 0x1000 | u64::from(vlan.vlan_id.value())
    };
    let found: Vec<u64> = headers.link_exts.iter().map(tci).collect();
    let ours = [TCI, INNER_TCI].map(|span| span.get(key));
    assert_eq!(ours[0], found.first().copied().unwrap_or(0));
    assert_eq!(ours[1], found.get(1).copied().unwrap_or(0));
}

fn network_agrees(key: &Key, net: &NetHeaders) {
    use Field::{ArpOp, ArpSha, ArpSpa, ArpTha, ArpTpa, Ipv6Dst, Ipv6Label, Ipv6Src};
    use Field::{NwDst, NwEcn, NwFrag, NwProto, NwSrc, NwTos, NwTtl};
    match net {
        NetHeaders::Ipv4(ip, _) => {
            let fragment = match (ip.fragment_offset.value(), ip.more_fragments) {
                (0, false) => 0,
                (0, true) => 1,
                _ => 3,
            };
            let theirs = [
                be(&ip.source),
                be(&ip.destination),
                ip.protocol.0.into(),
                ip.dscp.value().into(),
                ip.ecn.value().into(),
                ip.time_to_live.into(),
                fragment,
            ];
            assert_eq!(get(key, [NwSrc, NwDst, NwProto, NwTos, NwEcn, NwTtl, NwFrag]), theirs);
        }
        NetHeaders::Ipv6(ip, extensions) => {
            let class = u128::from(ip.traffic_class);
            let theirs = [
                be(&ip.source),
                be(&ip.destination),
                ip.flow_label.value().into(),
                class >> 2,
                class & 3,
                ip.hop_limit.into(),
            ];
            assert_eq!(get(key, [Ipv6Src, Ipv6Dst, Ipv6Label, NwTos, NwEcn, NwTtl]), theirs);
            let last =
                extensions.routing.as_ref().and_then(|routing| routing.final_destination_options.as_ref());
            let destination = extensions.destination_options.is_some() || last.is_some();
            let bits = u128::from(extensions.hop_by_hop_options.is_some()) << 6
                | u128::from(extensions.routing.is_some()) << 5
                | u128::from(extensions.fragment.is_some()) << 4
                | u128::from(destination) << 3
                | u128::from(extensions.auth.is_some()) << 2;
            assert_eq!(Field::Ipv6Exthdr.get(key) & 0x7c, bits);
        }
        NetHeaders::Arp(arp) => {
            let theirs = [
                arp.operation.0.into(),
                be(arp.sender_hw_addr()),
                be(arp.sender_protocol_addr()),
                be(arp.target_hw_addr()),
                be(arp.target_protocol_addr()),
            ];
            assert_eq!(get(key, [ArpOp, ArpSha, ArpSpa, ArpTha, ArpTpa]), theirs);
        }
    }
}

fn transport_agrees(key: &Key, transport: &TransportHeader) {
    let ours = get(key, [Field::TcpSrc, Field::TcpDst]);
    match transport {
        TransportHeader::Tcp(tcp) => {
            let names = [tcp.fin, tcp.syn, tcp.rst, tcp.psh, tcp.ack, tcp.urg, tcp.ece, tcp.cwr, tcp.ns];
            let flags = names.iter().enumerate().fold(0, |flags, (bit, &set)| flags | u128::from(set) << bit);
            assert_eq!(ours, [tcp.source_port.into(), tcp.destination_port.into()]);
            assert_eq!(Field::TcpFlags.get(key) & 0x1ff, flags);
        }
        TransportHeader::Udp(udp) => {
            assert_eq!(ours, [udp.source_port.into(), udp.destination_port.into()]);
        }
        TransportHeader::Icmpv4(icmp) => {
            let bytes = icmp.to_bytes();
            assert_eq!(ours, [bytes[0].into(), bytes[1].into()]);
        }
        TransportHeader::Icmpv6(icmp) => {
            let bytes = icmp.to_bytes();
            assert_eq!(ours, [bytes[0].into(), bytes[1].into()]);
        }
        TransportHeader::Igmp(_) => assert_eq!(ours, [0, 0]),
    }
}

#[test]
fn etherparse_finds_the_same_fields_where_it_looks() {
    let mut sampler = Sampler::new(12);
    let (mut networks, mut transports) = (0, 0);
    for _ in 0..FRAMES {
        let frame = sampler.frame();
        let mut key = Key::new();
        let layout = extract(&frame, 0, &mut key);
        let snap = frame[..usize::from(layout.ether_type)].ends_with(&[0xaa, 0xaa, 3, 0, 0, 0]);
        if snap
            || layout.mpls != 0
            || Field::EthType.get(&key) < 0x0600
            || Field::Ipv6Exthdr.get(&key) & UNUSUAL != 0
        {
            continue;
        }
        let Ok(headers) = PacketHeaders::from_ethernet_slice(&frame) else { continue };
        if headers.link_exts.len() < 3 {
            tags_agree(&key, &headers);
        }
        if let Some(net) = headers.net.as_ref().filter(|_| headers.link_exts.len() < 3) {
            networks += 1;
            network_agrees(&key, net);
            let Layout { network, transport, .. } = layout;
            assert_ne!(network, 0);
            if let Some(header) = &headers.transport {
                transports += 1;
                transport_agrees(&key, header);
                let behind = &frame[usize::from(layout.payload)..usize::from(layout.end)];
                let icmp = matches!(header, TransportHeader::Icmpv4(_) | TransportHeader::Icmpv6(_));
                let igmp = matches!(header, TransportHeader::Igmp(_));
                assert!(igmp || icmp || behind == headers.payload.slice(), "{layout:?} {headers:?}");
                assert_eq!(transport == 0, igmp);
            }
        }
    }
    assert!(networks > FRAMES / 2 && transports > FRAMES / 4, "{networks} {transports}");
}
