use super::*;
use crate::compose;
use crate::field::span::{INNER_TCI, INNER_TPID, MPLS as MPLS_ENTRY, OUTER_TPID, SECOND_LABEL, THIRD_LABEL};
use crate::field::{Field, ones};
use crate::key::{Mask, WORDS};
use crate::protocol::{ARP, ICMP, ICMPV6, MPLS, NO_ETHER_TYPE, PBB, SCTP, TAG_PRESENT};
use crate::samples::{Sampler, needed};
use weir_testkit::draws;

fn key_of(frame: &[u8]) -> (Key, Layout) {
    let mut key = Key::new();
    let layout = extract(frame, 7, &mut key);
    (key, layout)
}

/// Ethernet with zero addresses, and what is behind them in hexadecimal.
fn frame(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    std::iter::repeat_n(0, 12).chain(bytes).collect()
}

fn get(key: &Key, fields: &[Field]) -> Vec<u128> {
    fields.iter().map(|field| field.get(key)).collect()
}

#[test]
fn a_short_frame_has_nothing_but_its_port() {
    for len in 0..14 {
        let (key, layout) = key_of(&vec![0xff; len]);
        assert_eq!(Field::InPort.get(&key), 7);
        assert_eq!(key.words()[1..], [0; WORDS - 1]);
        assert_eq!(layout, Layout::default());
    }
}

#[test]
fn offsets_lie_in_the_frame_and_in_order_whatever_the_bytes() {
    let mut sampler = Sampler::new(1);
    for round in 0..draws(200_000) {
        let frame = if round % 4 == 0 { sampler.frame() } else { sampler.mangled() };
        let (key, layout) = key_of(&frame);
        let Layout { ether_type, mpls, network, transport, payload, end } = layout;
        assert!(usize::from(end) <= frame.len(), "{layout:?} {frame:02x?}");
        if frame.len() < 14 {
            continue;
        }
        assert!(ether_type >= 12 && ether_type + 2 <= end, "{layout:?} {frame:02x?}");
        assert!(mpls == 0 || (mpls == ether_type + 2 && mpls + 4 <= end), "{layout:?}");
        assert!(network == 0 || (network == ether_type + 2 && network + 20 <= end), "{layout:?}");
        assert_eq!(transport == 0, payload == 0);
        assert!(transport == 0 || (network != 0 && transport >= network + 20), "{layout:?}");
        assert!(transport == 0 || (payload >= transport + 8 && payload <= end), "{layout:?}");
        for (place, word) in key.words().iter().enumerate() {
            let port = if place == IN_PORT.place() { IN_PORT.mask() } else { 0 };
            let allowed = PACKET_BITS.get(place).copied().unwrap_or(0) | port;
            assert_eq!(word & !allowed, 0, "word {place} {word:x}");
            assert!(*word == 0 || key.present() >> place & 1 == 1);
        }
    }
}

#[test]
fn the_plain_extractor_finds_what_the_walk_finds() {
    let mut sampler = Sampler::new(2);
    let mut short = 0;
    for round in 0..draws(200_000) {
        let frame = if round % 2 == 0 { sampler.frame() } else { sampler.mangled() };
        if plain(&frame, 7).is_some() {
            short += 1;
            let mut key = Key::new();
            let layout = unpacked(walk(&frame, 7, &mut key));
            assert_eq!((key, layout), key_of(&frame), "{frame:02x?}");
        }
    }
    assert!(short > draws(5_000), "only {short} frames took it");
}

#[test]
fn a_used_key_is_filled_like_a_fresh_one() {
    let mut sampler = Sampler::new(3);
    let mut used = Key::new();
    for _ in 0..draws(20_000) {
        let frame = sampler.mangled();
        let layout = extract(&frame, 7, &mut used);
        assert_eq!((used.clone(), layout), key_of(&frame));
    }
}

#[test]
fn filled_again_a_key_keeps_what_is_not_of_the_packet() {
    let mut sampler = Sampler::new(4);
    for _ in 0..draws(20_000) {
        let (before, after) = (sampler.mangled(), sampler.mangled());
        let (mut key, _) = key_of(&before);
        let mut own = Mask::exact();
        for (place, bits) in PACKET_BITS.into_iter().enumerate() {
            own.remove(place, bits);
        }
        for (place, bits) in own.iter() {
            key.set_bits(place, sampler.bits(), bits);
        }
        let kept = key.masked(&own);
        let layout = extract_again(&after, &mut key);
        let (fresh, fresh_layout) = key_of(&after);
        assert_eq!((key.masked(&own), layout), (kept, fresh_layout));
        for (place, bits) in PACKET_BITS.into_iter().enumerate() {
            assert_eq!(key.word(place) & bits, fresh.word(place) & bits, "word {place}");
        }
    }
}

#[test]
fn a_frame_composed_for_a_key_has_that_key() {
    let mut sampler = Sampler::new(5);
    for round in 0..draws(100_000) {
        let frame = if round % 2 == 0 { sampler.frame() } else { sampler.mangled() };
        let (key, _) = key_of(&frame);
        let ether_type = Field::EthType.get(&key);
        if frame.len() < 14 || (ether_type == 0x86dd && Field::NwProto.get(&key) == 0) {
            // No EtherType; or an extension header that is cut off, of which the composed frame has none.
            continue;
        }
        let count = sampler.below(80);
        let payload = sampler.random(count);
        let composed = compose(&key, &payload);
        let (back, layout) = key_of(&composed);
        assert_eq!(back, key, "{frame:02x?} {composed:02x?}");
        if layout.transport != 0 && Field::NdTarget.get(&key) == 0 && layout.mpls == 0 {
            let carried = &composed[usize::from(layout.payload)..usize::from(layout.end)];
            let nd = ether_type == 0x86dd && matches!(Field::Icmpv6Type.get(&key), 135 | 136);
            assert!(carried == payload || nd, "{composed:02x?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn every_field_of_a_packet_is_composed_and_extracted() {
    let mut sampler = Sampler::new(6);
    for &field in Field::ALL.iter().filter(|field| field.about().source.is_packet()) {
        for round in 0..20 {
            let bits = ones(field.bits());
            let value = match field {
                Field::EthType => 0x88b6,
                Field::NwProto => sampler.pick(&[2, 47, 50]),
                Field::NwFrag => sampler.pick(&[1, 3]),
                Field::Ipv6Exthdr => sampler.pick(&[0x8, 0x10, 0x20, 0x40]),
                Field::Icmpv6Type => 1 + sampler.below(100) as u128,
                Field::VlanTci | Field::VlanVid => {
                    u128::from(sampler.bits()) & bits | u128::from(TAG_PRESENT)
                }
                _ if round == 0 => bits,
                _ => (u128::from(sampler.bits()) << 64 | u128::from(sampler.bits())) & bits,
            };
            let mut key = Key::new();
            Field::EthType.set(&mut key, 0x88b5);
            Field::NwProto.set(&mut key, 47);
            for (field, value) in needed(field.about().needs).into_iter().chain([(field, value)]) {
                field.set(&mut key, value);
            }
            let (found, _) = key_of(&compose(&key, &[]));
            assert_eq!(field.get(&found), value, "{} is not in the frame, or not found there", field.name());
        }
    }
}

#[test]
fn tags_are_found_outer_first_and_a_third_is_an_ether_type() {
    let (key, layout) = key_of(&frame("88a8 e064 8100 0065 8100 0066 0800"));
    assert_eq!(Field::VlanTci.get(&key), 0xf064);
    let inner = [INNER_TCI, OUTER_TPID, INNER_TPID].map(|span| span.get(&key));
    assert_eq!(inner, [0x1065, 0x88a8, 0x8100]);
    assert_eq!((Field::EthType.get(&key), layout.ether_type, layout.end), (0x8100, 20, 26));
    let (key, layout) = key_of(&frame("8100 0001 08"));
    assert_eq!(get(&key, &[Field::VlanTci, Field::EthType]), [0, 0x8100]);
    assert_eq!(layout.ether_type, 12);
}

#[test]
fn snap_names_an_ether_type_and_other_llc_has_none() {
    let (key, layout) = key_of(&frame(
        "0024 aaaa03 000000 0806 0001 0800 06 04 0102 010203040506 0a000001 0a0b0c0d0e0f 0a000002",
    ));
    assert_eq!(Field::EthType.get(&key), u128::from(ARP));
    assert_eq!((layout.ether_type, layout.network, layout.end), (20, 22, 50));
    assert_eq!(
        get(&key, &[Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha]),
        [0x102, 0x0a00_0001, 0x0a00_0002, 0x0102_0304_0506, 0x0a0b_0c0d_0e0f]
    );
    let (key, layout) = key_of(&frame("0010 424203 0000"));
    assert_eq!((Field::EthType.get(&key), layout.ether_type), (u128::from(NO_ETHER_TYPE), 12));
}

#[test]
fn three_labels_and_a_service_instance_are_found() {
    let (key, layout) = key_of(&frame("8847 00010040 00020041 00030141 45"));
    assert_eq!(Field::EthType.get(&key), u128::from(MPLS));
    assert_eq!(
        get(&key, &[Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl]),
        [0x10, 0, 0, 64]
    );
    let entries = [MPLS_ENTRY, SECOND_LABEL, THIRD_LABEL].map(|span| span.get(&key));
    assert_eq!(entries, [0x0001_0040, 0x0002_0041, 0x0003_0141]);
    assert_eq!((layout.mpls, layout.network, layout.end), (14, 0, 27));
    let (key, _) = key_of(&frame("88e7 e0abcdef 0800 45"));
    assert_eq!(get(&key, &[Field::EthType, Field::PbbIsid, Field::NwSrc]), [u128::from(PBB), 0x00ab_cdef, 0]);
}

#[test]
fn an_ipv4_header_that_contradicts_itself_leaves_ethernet_only() {
    let packet = "0800 4510 001c 0000 0000 4011 0000 0a000001 0a000002 0001 0002 0008 0000";
    let good = frame(packet);
    let (key, layout) = key_of(&good);
    assert_eq!(get(&key, &[Field::NwProto, Field::NwTos, Field::NwTtl, Field::UdpDst]), [17, 4, 64, 2]);
    assert_eq!((layout.network, layout.transport, layout.payload, layout.end), (14, 34, 42, 42));
    for (at, value) in [(14, 0x44), (14, 0x48), (17, 0x1d), (17, 0x13), (16, 0xff)] {
        let mut bad = good.clone();
        bad[at] = value;
        let (key, layout) = key_of(&bad);
        let l3 = if at == 14 && value == 0x48 { 0 } else { Field::NwSrc.get(&key) };
        assert_eq!((l3, layout.network), (0, 0), "byte {at} = {value:x}");
        assert_eq!(Field::EthType.get(&key), u128::from(IPV4));
    }
}

#[test]
fn a_packet_too_short_for_its_transport_header_says_so_and_no_other_does() {
    let front = "0800 4500 0028 0000 0000 4000 0000 0a000001 0a000002";
    for (protocol, least) in [(TCP, 20), (UDP, 8), (SCTP, 12), (ICMP, 8), (ICMPV6, 0), (47, 0)] {
        let mut packet = frame(front);
        packet[23] = protocol;
        packet.extend([0_u8; 12].into_iter().chain([0x50]).chain([0; 30]));
        for carried in 0..30 {
            packet[17] = 20 + carried;
            let (key, layout) = key_of(&packet);
            let cut = carried < least;
            assert_eq!(key.is_cut(), cut, "{carried} bytes of protocol {protocol}");
            assert_eq!(layout.transport == 0, cut || least == 0);
            packet[21] = 1;
            assert!(!key_of(&packet).0.is_cut(), "a later fragment has no header to cut");
            packet[21] = 0;
        }
    }
    // Data offset 4, and options that reach over the end.
    for offset in [0x40, 0x60] {
        let mut packet = [frame(front), vec![0; 20]].concat();
        (packet[23], packet[46]) = (TCP, offset);
        assert!(key_of(&packet).0.is_cut());
    }
}

#[test]
fn fragments_have_ports_only_in_the_first() {
    for (word, frag, port) in
        [(0x2000_u16, 1, 1), (0x2001, 3, 0), (0x0001, 3, 0), (0x4000, 0, 1), (0x8000, 0, 1)]
    {
        let mut packet = frame("0800 4500 001c 0000 0000 4011 0000 0a000001 0a000002 0001 0002 0008 0000");
        packet[20..22].copy_from_slice(&word.to_be_bytes());
        let (key, layout) = key_of(&packet);
        assert_eq!(get(&key, &[Field::NwFrag, Field::UdpSrc]), [frag, port], "{word:x}");
        assert_eq!(layout.transport != 0, port != 0);
    }
}
