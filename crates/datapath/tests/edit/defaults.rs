//! Tags and times to live, case by case (OpenFlow 1.3.5, sections 5.12 and 5.12.1).

use super::*;
use Field::*;

/// Addresses that tell which is which.
const FRONT: &str = "d0d1d2d3d4d5 505152535455";

fn frame(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// An IPv4 header with this TTL and its checksum, of protocol 253, and nothing in it.
fn ipv4(ttl: u8) -> String {
    let mut header = frame("4500 0014 0000 0000 00fd 0000 0a000001 0a000002");
    header[8] = ttl;
    let sum = weir_wire::checksum::checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    header.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame becomes another, and the key with it.
fn becomes(before: &str, edit: &Edit, after: &str) {
    let mut packet = Packet::new(frame(before));
    let key = packet.key.clone();
    packet.apply(edit).unwrap();
    assert_eq!(packet.frame, frame(after), "{before} {edit:?}");
    assert!(packet.is_in_step(&key), "{packet:02x?}");
}

fn refuses(before: &str, edit: &Edit, reason: DropReason) {
    let mut packet = Packet::new(frame(before));
    assert_eq!(packet.apply(edit), Err(reason), "{before} {edit:?}");
    assert_eq!(packet, Packet::new(frame(before)));
}

#[test]
fn a_pushed_vlan_tag_takes_vlan_and_priority_of_the_outermost() {
    becomes(&format!("{FRONT} 1234 99"), &Edit::PushVlan(0x8100), &format!("{FRONT} 8100 0000 1234 99"));
    let one = format!("{FRONT} 8100 b064 1234 99");
    let two = format!("{FRONT} 88a8 a064 8100 b064 1234 99");
    becomes(&one, &Edit::PushVlan(0x88a8), &two);
    becomes(&two, &Edit::PopVlan, &one);
    becomes(&one, &Edit::PopVlan, &format!("{FRONT} 1234 99"));
    // The third hides what is behind it, and going it shows it again.
    let ip = ipv4(9);
    let three = format!("{FRONT} 8100 a064 88a8 a064 8100 b064 0800 {ip}");
    becomes(&format!("{FRONT} 88a8 a064 8100 b064 0800 {ip}"), &Edit::PushVlan(0x8100), &three);
    becomes(&three, &Edit::PopVlan, &format!("{FRONT} 88a8 a064 8100 b064 0800 {ip}"));
    refuses(&format!("{FRONT} 1234 99"), &Edit::PopVlan, DropReason::NoSuchHeader);
    refuses("d0d1d2d3d4d5", &Edit::PushVlan(0x8100), DropReason::TooShort);
}

#[test]
fn a_pushed_label_goes_behind_vlan_tags_and_copies_the_outermost() {
    let ip = ipv4(9);
    let tagged = format!("{FRONT} 8100 0064 0800 {ip}");
    let one = format!("{FRONT} 8100 0064 8847 00000109 {ip}");
    becomes(&tagged, &Edit::PushMpls(0x8847), &one);
    let two = format!("{FRONT} 8100 0064 8848 00000009 00000109 {ip}");
    becomes(&one, &Edit::PushMpls(0x8848), &two);
    becomes(&two, &Edit::PopMpls(0x8847), &one);
    becomes(&one, &Edit::PopMpls(0x0800), &tagged);
    let labelled = format!("{FRONT} 8847 abcdef40 0000ff41 60");
    becomes(&labelled, &Edit::PushMpls(0x8847), &format!("{FRONT} 8847 abcdee40 abcdef40 0000ff41 60"));
    becomes(&format!("{FRONT} 1234 99"), &Edit::PushMpls(0x8847), &format!("{FRONT} 8847 00000100 99"));
    refuses(&tagged, &Edit::PopMpls(0x0800), DropReason::NoSuchHeader);
}

#[test]
fn labels_in_802_3_frames_go_behind_snap_and_count_in_the_length() {
    let before = format!("{FRONT} 000a aaaa03 000000 1234 9988");
    let after = format!("{FRONT} 000e aaaa03 000000 8847 00000100 9988");
    becomes(&before, &Edit::PushMpls(0x8847), &after);
    becomes(&after, &Edit::PopMpls(0x1234), &before);
    let full = format!("{FRONT} 05fe aaaa03 000000 1234 9988");
    refuses(&full, &Edit::PushMpls(0x8847), DropReason::NoRoom);
    refuses(&format!("{FRONT} 0003 424203"), &Edit::PushMpls(0x8847), DropReason::NoSuchHeader);
}

#[test]
fn a_service_instance_wraps_the_frame_and_copies_what_there_is() {
    let plain = format!("{FRONT} 1234 99");
    let wrapped = format!("{FRONT} 88e7 00000000 {plain}");
    becomes(&plain, &Edit::PushPbb(0x88e7), &wrapped);
    let tagged = format!("{FRONT} 8100 b064 1234 99");
    becomes(&tagged, &Edit::PushPbb(0x88e7), &format!("{FRONT} 88e7 a0000000 {tagged}"));
    let numbered = format!("{FRONT} 88e7 01abcdef {plain}");
    becomes(&numbered, &Edit::PushPbb(0x88e7), &format!("{FRONT} 88e7 00abcdef {numbered}"));
    let customer = "c0c1c2c3c4c5 606162636465";
    becomes(
        &format!("{FRONT} 88e7 01abcdef {customer} 1234 99"),
        &Edit::PopPbb,
        &format!("{customer} 1234 99"),
    );
    // A backbone's VLAN tag stays until it is popped.
    becomes(
        &format!("{FRONT} 88a8 0064 8100 0065 88e7 01abcdef {customer} 1234 99"),
        &Edit::PopPbb,
        &format!("{customer} 88a8 0064 8100 0065 1234 99"),
    );
    refuses(&plain, &Edit::PopPbb, DropReason::NoSuchHeader);
    refuses(&format!("{FRONT} 88e7 01abcdef {customer} 12"), &Edit::PopPbb, DropReason::NoSuchHeader);
    becomes(&numbered, &setting(&[(PbbIsid, 0x12_3456)]), &format!("{FRONT} 88e7 01123456 {plain}"));
}

#[test]
fn time_to_live_is_lowered_until_one() {
    let with = |ttl| format!("{FRONT} 0800 {}", ipv4(ttl));
    becomes(&with(2), &Edit::DecTtl, &with(1));
    becomes(&with(255), &Edit::DecTtl, &with(254));
    refuses(&with(1), &Edit::DecTtl, DropReason::TtlExpired);
    refuses(&with(0), &Edit::DecTtl, DropReason::TtlExpired);
    refuses(&format!("{FRONT} 1234"), &Edit::DecTtl, DropReason::NoSuchHeader);
    refuses(&format!("{FRONT} 0800 46"), &Edit::DecTtl, DropReason::BadHeader);
    let ipv6 = |hops| format!("{FRONT} 86dd 60000000 0000 3b{hops:02x} {:032x} {:032x}", 1, 2);
    becomes(&ipv6(2), &Edit::DecTtl, &ipv6(1));
    refuses(&ipv6(1), &Edit::DecTtl, DropReason::TtlExpired);
    let label = |ttl| format!("{FRONT} 8847 000011{ttl:02x}");
    becomes(&label(7), &Edit::DecMplsTtl, &label(6));
    refuses(&label(1), &Edit::DecMplsTtl, DropReason::TtlExpired);
    refuses(&with(9), &Edit::DecMplsTtl, DropReason::NoSuchHeader);
    becomes(&label(7), &setting(&[(MplsTtl, 200)]), &label(200));
}

#[test]
fn time_to_live_is_copied_between_labels_and_ip() {
    let both = |outer, inner| format!("{FRONT} 8847 000000{outer:02x} 000011{inner:02x} 45");
    becomes(&both(7, 9), &Edit::CopyTtlOut, &both(9, 9));
    becomes(&both(7, 9), &Edit::CopyTtlIn, &both(7, 7));
    refuses(&both(7, 0), &Edit::CopyTtlOut, DropReason::TtlExpired);
    refuses(&both(0, 9), &Edit::CopyTtlIn, DropReason::TtlExpired);
    let ip = |label, ttl| format!("{FRONT} 8847 000011{label:02x} {}", ipv4(ttl));
    becomes(&ip(7, 9), &Edit::CopyTtlOut, &ip(9, 9));
    becomes(&ip(7, 9), &Edit::CopyTtlIn, &ip(7, 7));
    let ipv6 = |label, hops| {
        format!("{FRONT} 8847 000011{label:02x} 60000000 0000 3b{hops:02x} {:032x} {:032x}", 1, 2)
    };
    becomes(&ipv6(7, 9), &Edit::CopyTtlOut, &ipv6(9, 9));
    becomes(&ipv6(7, 9), &Edit::CopyTtlIn, &ipv6(7, 7));
    for edit in [Edit::CopyTtlIn, Edit::CopyTtlOut] {
        refuses(&format!("{FRONT} 0800 {}", ipv4(9)), &edit, DropReason::NoSuchHeader);
        refuses(&format!("{FRONT} 8847 00001107 1234"), &edit, DropReason::NoSuchHeader);
        refuses(&format!("{FRONT} 8847 00001007"), &edit, DropReason::NoSuchHeader);
    }
}

#[test]
fn what_says_what_follows_is_set_and_set_back_and_checksums_hold() {
    let mut sampler = Sampler::new(weir_testkit::seed(33));
    let mut seen = [0; 3];
    for _ in 0..20_000 {
        let before = Packet::new(sampler.frame());
        let [ether_type, protocol, bottom] = before.get([Field::EthType, Field::NwProto, Field::MplsBos]);
        let pairs = [
            (Edit::SetEtherType(0x1234), Edit::SetEtherType(ether_type as u16)),
            (Edit::SetBottom(bottom == 0), Edit::SetBottom(bottom != 0)),
        ];
        for (at, (there, back)) in pairs.into_iter().enumerate() {
            let mut packet = before.clone();
            if packet.apply(&there).is_ok() {
                assert_ne!(packet.frame, before.frame);
                assert_eq!(packet.apply(&back), Ok(()), "{packet:02x?}");
                assert_eq!(packet, before);
                seen[at] += 1;
            }
        }
        let mut packet = before.clone();
        if matches!(ether_type, 0x0800 | 0x86dd) && packet.apply(&Edit::SetProtocol(200)).is_ok() {
            assert_eq!(packet.get([Field::NwProto]), [200]);
            assert_eq!(packet.wrong().0.unwrap_or(0), 0, "IPv4's checksum: {packet:02x?}");
            // The checksum of TCP is that of a pseudo-header with the protocol as it is now.
            if protocol == 6 && before.layout.transport != 0 && before.wrong().1 == Some(0) {
                let mut body = before.frame[usize::from(before.layout.transport)..].to_vec();
                let field = usize::from(before.layout.transport) + 16;
                body[16..18].copy_from_slice(&packet.frame[field..field + 2]);
                let change = |bytes: &[u8]| u16::from_be_bytes([bytes[16], bytes[17]]);
                let old = change(&before.frame[usize::from(before.layout.transport)..]);
                let expected = fold(u32::from(!old) + u32::from(!6_u16) + 200);
                assert_eq!(change(&body), !expected, "{before:02x?}");
            }
            seen[2] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}
