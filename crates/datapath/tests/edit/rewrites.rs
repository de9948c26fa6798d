//! Fields set, case by case.

use super::*;
use Field::*;
use weir_flow::samples::needed;

fn packet(fields: &[(Field, u128)], payload: &[u8]) -> Packet {
    let mut key = Key::new();
    for &(field, value) in fields {
        field.set(&mut key, value);
    }
    Packet::new(weir_flow::compose(&key, payload))
}

fn udp() -> Vec<(Field, u128)> {
    vec![(EthType, 0x0800), (NwProto, 17), (NwTtl, 64), (NwSrc, 0x0a00_0001), (UdpSrc, 1000), (UdpDst, 53)]
}

fn with(mut fields: Vec<(Field, u128)>, more: &[(Field, u128)]) -> Vec<(Field, u128)> {
    fields.extend(more);
    fields
}

fn applied(mut packet: Packet, fields: &[(Field, u128)]) -> Packet {
    let before = packet.key.clone();
    packet.apply(&setting(fields)).unwrap();
    assert!(packet.is_in_step(&before), "{packet:02x?}");
    packet
}

#[test]
fn ports_of_later_fragments_are_skipped_and_addresses_set() {
    let later = packet(&with(udp(), &[(NwFrag, 3)]), &[1, 2, 3, 4, 5, 6, 7, 8]);
    let body = later.frame[34..42].to_vec();
    let after = applied(later, &[(NwSrc, 0x0102_0304), (UdpDst, 99)]);
    assert_eq!(after.get([NwSrc, UdpDst]), [0x0102_0304, 0]);
    assert_eq!((&after.frame[34..42], after.wrong().0), (body.as_slice(), Some(0)));
}

#[test]
fn a_udp_checksum_of_zero_stays_zero_and_none_becomes_zero() {
    let mut silent = packet(&udp(), b"x");
    silent.frame[40..42].fill(0);
    let after = applied(silent, &[(NwDst, 7), (UdpSrc, 8)]);
    assert_eq!(after.frame[40..42], [0, 0]);
    // Whatever the port, one of them would sum up to zero.
    let mut all_ones = 0;
    for port in 0..=u16::MAX {
        let mut after = packet(&udp(), b"x");
        after.apply(&setting(&[(UdpSrc, port.into())])).unwrap();
        assert_ne!(after.frame[40..42], [0, 0]);
        assert_eq!(after.wrong().1, Some(0));
        all_ones += usize::from(after.frame[40..42] == [0xff, 0xff]);
    }
    assert!(all_ones >= 1);
}

#[test]
fn a_vlan_is_set_pushed_and_popped_by_its_field() {
    let tagged = applied(packet(&udp(), b""), &[(VlanTci, 0x7064)]);
    assert_eq!(tagged.frame[12..18], [0x81, 0, 0x60, 0x64, 8, 0]);
    assert_eq!((tagged.layout.network, tagged.get([VlanTci, UdpDst])), (18, [0x7064, 53]));
    let mut eligible = tagged.clone();
    eligible.frame[14] |= 0x10;
    let other = applied(eligible, &[(VlanPcp, 1)]);
    assert_eq!(other.frame[14..16], [0x30, 0x64]);
    let untagged = applied(other, &[(VlanTci, 0)]);
    assert_eq!(untagged, packet(&udp(), b""));
    assert_eq!(applied(untagged.clone(), &[(VlanTci, 0)]), untagged);
    let mut nothing = untagged;
    assert_eq!(nothing.apply(&setting(&[(VlanPcp, 1)])), Err(DropReason::NoSuchHeader));
}

#[test]
fn a_field_without_its_header_is_refused_and_changes_nothing() {
    let arp = packet(&[(EthType, 0x0806), (ArpOp, 1)], b"");
    let ipv6 = packet(&[(EthType, 0x86dd), (NwProto, 6), (NwTtl, 3)], b"");
    for (packet, field) in [
        (&arp, NwTtl),
        (&arp, TcpDst),
        (&arp, Ipv6Src),
        (&arp, MplsTtl),
        (&arp, PbbIsid),
        (&ipv6, NwDst),
        (&ipv6, NdTarget),
        (&ipv6, NdSll),
        (&ipv6, ArpTha),
    ] {
        let mut after = packet.clone();
        let edit = setting(&[(EthDst, 5), (Reg1, 6), (field, 1)]);
        assert_eq!(after.apply(&edit), Err(DropReason::NoSuchHeader), "{field:?}");
        assert_eq!(&after, packet);
    }
    let mut malformed = packet(&udp(), b"");
    malformed.frame[14] = 0x44;
    let mut malformed = Packet::new(malformed.frame);
    assert_eq!(malformed.apply(&setting(&[(NwTtl, 1)])), Err(DropReason::BadHeader));
    let mut short = Packet::new(vec![1; 13]);
    assert_eq!(short.apply(&setting(&[(EthDst, 1)])), Err(DropReason::TooShort));
    assert_eq!(short.apply(&setting(&[(Reg0, 1)])), Ok(()));
    assert_eq!(short.get([Reg0]), [1]);
}

#[test]
fn every_field_that_can_be_set_is_set_in_the_packet() {
    let mut tried = 0;
    for &field in Field::ALL {
        let about = field.about();
        if !about.source.is_packet() || !about.writable || about.leads {
            continue;
        }
        tried += 1;
        let tag = matches!(field, VlanTci | VlanVid);
        let value = if tag { 0x1005 } else { 5 & weir_flow::ones(field.bits()) };
        let needs = with(vec![(EthType, 0x88b5), (NwTtl, 64)], &needed(about.needs));
        // Neighbour discovery has an option for an address only where there is one.
        let old = if about.form == weir_flow::Form::Mac { 9 } else { 0 };
        let before = packet(&with(needs, &[(field, if tag { 0x1000 } else { old })]), b"");
        let mut after = before.clone();
        assert_eq!(after.apply(&setting(&[(field, value)])), Ok(()), "{}", about.name);
        let expected = value & weir_flow::ones(field.bits());
        assert_eq!(after.get([field]), [expected], "{} is not set in the key", about.name);
        assert!(after.is_in_step(&before.key), "{} is set in the key and not in the frame", about.name);
    }
    assert!(tried > 30, "only {tried} fields were tried");
}

#[test]
fn what_a_packet_is_made_of_cannot_be_set() {
    let before = packet(&with(udp(), &[(TcpFlags, 0)]), b"abc");
    let fixed = [(EthType, 0x86dd), (NwProto, 6), (NwFrag, 3), (TcpFlags, 7), (Ipv6Exthdr, 1), (MplsBos, 1)];
    let (mut value, mut mask) = (Key::new(), Mask::new());
    for (field, number) in fixed {
        field.set(&mut value, number);
        field.examine(&mut mask, u128::MAX);
    }
    assert!(Rewrite::compile(&value, &mask).is_empty());
    assert_eq!(applied(before.clone(), &fixed), before);
}

#[test]
fn fields_without_a_place_in_the_frame_change_the_key_alone() {
    let mut after = packet(&udp(), b"");
    let before = after.clone();
    let apart =
        [(InPort, 9), (SfMetadata, 8), (CtMark, 7), (Metadata, 6), (Xxreg3, 5), (TunDst, 4), (CtLabel, 3)];
    after.apply(&setting(&apart)).unwrap();
    assert_eq!((&after.frame, after.layout), (&before.frame, before.layout));
    assert_eq!(after.get(apart.map(|(field, _)| field)), apart.map(|(_, value)| value));
}

#[test]
fn arp_is_answered_by_setting_its_fields() {
    let request =
        [(EthType, 0x0806), (ArpOp, 1), (ArpSpa, 0x0a00_0001), (ArpTpa, 0x0a00_0002), (ArpSha, 0xa)];
    let reply = [(ArpOp, 2), (ArpSpa, 0x0a00_0002), (ArpTpa, 0x0a00_0001), (ArpSha, 0xb), (ArpTha, 0xa)];
    let after = applied(packet(&request, b""), &reply);
    assert_eq!(after, packet(&[&request[..1], &reply[..]].concat(), b""));
}

#[test]
fn a_neighbour_message_is_answered_by_setting_its_fields() {
    let request =
        [(EthType, 0x86dd), (NwProto, 58), (Ipv6Src, 1), (Ipv6Dst, 2), (Icmpv6Type, 135), (NdTarget, 5)];
    let solicitation = packet(&[&request[..], &[(NdSll, 0xa)]].concat(), b"");
    let changed = applied(solicitation.clone(), &[(NdTarget, 6), (NdSll, 0xc), (Ipv6Dst, 7)]);
    assert_eq!((changed.get([NdTarget, NdSll]), changed.wrong().1), ([6, 0xc], Some(0)));
    // No longer one of neighbour discovery, it has no such field any more; and back.
    let echo = applied(changed.clone(), &[(Icmpv6Type, 128)]);
    assert_eq!((echo.get([Icmpv6Type, NdTarget, NdSll]), echo.wrong().1), ([128, 0, 0], Some(0)));
    assert_eq!(applied(echo, &[(Icmpv6Type, 135)]), changed);
}

#[test]
fn the_checksum_of_a_routed_packet_is_about_its_last_destination() {
    let mut sampler = Sampler::new(weir_testkit::seed(41));
    let mut routed = 0;
    while routed < 200 {
        let mut packet = Packet::new(sampler.frame());
        let (network, end) = (usize::from(packet.layout.network), usize::from(packet.layout.end));
        if Field::EthType.get(&packet.key) != 0x86dd || network == 0 || packet.layout.transport == 0 {
            continue;
        }
        if !Chain::walk(&packet.frame[..end], network + 40, packet.frame[network + 6]).unwrap().routed {
            continue;
        }
        routed += 1;
        let [protocol] = packet.get([NwProto]);
        let field = usize::from(packet.layout.transport) + if protocol == 6 { 16 } else { 6 };
        let before = packet.frame.clone();
        packet.apply(&setting(&[(Ipv6Dst, 77)])).unwrap();
        if matches!(protocol, 6 | 17) {
            assert_eq!(packet.frame[field..field + 2], before[field..field + 2]);
            packet.apply(&setting(&[(Ipv6Src, u128::MAX - 77)])).unwrap();
            let silent = protocol == 17 && before[field..field + 2] == [0, 0];
            assert_eq!(packet.frame[field..field + 2] == before[field..field + 2], silent);
        }
    }
}
