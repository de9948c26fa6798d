//! Random edits of random packets.

use super::*;
use weir_flow::span::TCI;

/// Frames of the automatic runs.
const FRAMES: u64 = 150_000;
/// Frames of the run by hand.
const MANY: u64 = 100_000_000;

/// The key as it must be in what is not the packet's.
fn expected(edit: &Edit, before: &Key) -> Key {
    let mut key = before.clone();
    if let Edit::Rewrite(rewrite) = edit {
        let (_, value, mask) = &**rewrite;
        for (place, bits) in mask.iter() {
            let packet = PACKET_BITS.get(place).copied().unwrap_or(0);
            key.set_bits(place, value.word(place), bits & !packet);
        }
    }
    key
}

#[test]
fn bytes_layout_and_key_stay_in_step_and_checksums_stay_right() {
    let mut sampler = Sampler::new(weir_testkit::seed(21));
    let (mut done, mut refused, mut checked) = (0, 0, 0);
    for _ in 0..FRAMES {
        let mut packet = Packet::new(sampler.frame());
        let (header, transport) = packet.wrong();
        assert_eq!((header.unwrap_or(0), transport.unwrap_or(0)), (0, 0), "{packet:02x?}");
        for _ in 0..=sampler.below(4) {
            let edit = random_edit(&mut sampler, &packet.key);
            let before = packet.clone();
            if packet.apply(&edit).is_err() {
                refused += 1;
                assert_eq!(packet, before, "{edit:?} failed and changed something");
                continue;
            }
            done += 1;
            let state = || format!("{edit:?}\n{before:02x?}\n{packet:02x?}");
            assert!(packet.is_in_step(&expected(&edit, &before.key)), "{}", state());
            if edit.says_what_follows() {
                continue;
            }
            // What was taken for a header once labels went can be as wrong as it likes, if it stays so.
            let ((header, transport), (old_header, old_transport)) = (packet.wrong(), before.wrong());
            if before.layout.network != 0 && packet.layout.network != 0 {
                assert_eq!(header, old_header, "{}", state());
            }
            if before.layout.transport != 0 && packet.layout.transport != 0 {
                checked += usize::from(transport.is_some());
                assert_eq!(transport, old_transport, "{}", state());
            }
        }
    }
    assert!(done > FRAMES && refused > FRAMES / 10 && checked > 50_000, "{done} {refused} {checked}");
}

#[test]
fn a_rewrite_changes_no_byte_but_its_fields_and_checksums() {
    let mut sampler = Sampler::new(weir_testkit::seed(22));
    for _ in 0..FRAMES {
        let mut packet = Packet::new(if sampler.one_in(4) { sampler.mangled() } else { sampler.frame() });
        let (value, mut mask) = random_fields(&mut sampler, &packet.key);
        // Tags move all bytes; see `tags_move_all_bytes_and_change_none`.
        mask.remove(TCI.place(), TCI.mask());
        let before = packet.clone();
        if packet.apply(&rewrite(value, mask.clone())).is_err() {
            continue;
        }
        assert_eq!(packet.frame.len(), before.frame.len());
        let allowed = places(&before, &mask);
        for (at, (new, old)) in packet.frame.iter().zip(&before.frame).enumerate() {
            let may = allowed.iter().any(|&(from, count)| (from..from + count).contains(&at));
            assert!(new == old || may, "byte {at} {allowed:?} {mask:?}\n{before:02x?}\n{packet:02x?}");
        }
    }
}

/// Offsets and lengths of what a rewrite may change in a packet.
fn places(packet: &Packet, mask: &Mask) -> Vec<(usize, usize)> {
    let layout = packet.layout;
    let (network, transport) = (usize::from(layout.network), usize::from(layout.transport));
    let [ether_type, protocol] = packet.get([Field::EthType, Field::NwProto]);
    let mut places = vec![];
    let mut put = |field: Field, from: usize, count: usize| {
        if field.mask_of(mask) != 0 {
            places.push((from, count));
        }
    };
    use Field as F;
    let sums = |put: &mut dyn FnMut(Field, usize, usize), fields: &[Field], from: usize, count: usize| {
        fields.iter().for_each(|&field| put(field, from, count));
    };
    put(F::EthDst, 0, 6);
    put(F::EthSrc, 6, 6);
    sums(&mut put, &[F::MplsLabel, F::MplsTc, F::MplsBos, F::MplsTtl], layout.mpls.into(), 4);
    put(F::PbbIsid, usize::from(layout.ether_type) + 3, 3);
    match ether_type {
        0x0800 => {
            put(F::NwSrc, network + 12, 4);
            put(F::NwDst, network + 16, 4);
            sums(&mut put, &[F::NwTos, F::NwEcn], network + 1, 1);
            put(F::NwTtl, network + 8, 1);
            sums(&mut put, &[F::NwSrc, F::NwDst, F::NwTos, F::NwEcn, F::NwTtl], network + 10, 2);
        }
        0x86dd => {
            sums(&mut put, &[F::NwTos, F::NwEcn], network, 2);
            put(F::NwTtl, network + 7, 1);
            put(F::Ipv6Label, network + 1, 3);
            put(F::Ipv6Src, network + 8, 16);
            put(F::Ipv6Dst, network + 24, 16);
            let options = usize::from(layout.end) - transport;
            sums(&mut put, &[F::NdTarget, F::NdSll, F::NdTll], transport + 8, options);
        }
        _ => {
            put(F::ArpSpa, network + 14, 4);
            put(F::ArpTpa, network + 24, 4);
            put(F::ArpOp, network + 6, 2);
            put(F::ArpSha, network + 8, 6);
            put(F::ArpTha, network + 18, 6);
        }
    }
    let icmp = matches!(protocol, 1 | 58);
    if transport != 0 {
        put(F::TcpSrc, transport, if icmp { 1 } else { 2 });
        put(F::TcpDst, transport + if icmp { 1 } else { 2 }, if icmp { 1 } else { 2 });
        let ports = [F::TcpSrc, F::TcpDst];
        let pseudo = [F::NwSrc, F::NwDst, F::Ipv6Src, F::Ipv6Dst, F::NdTarget, F::NdSll, F::NdTll];
        match protocol {
            6 => sums(&mut put, &[&ports[..], &pseudo].concat(), transport + 16, 2),
            17 => sums(&mut put, &[&ports[..], &pseudo].concat(), transport + 6, 2),
            132 => sums(&mut put, &ports, transport + 8, 4),
            _ => sums(&mut put, &[&ports[..], &pseudo].concat(), transport + 2, 2),
        }
    }
    places
}

#[test]
fn tags_move_all_bytes_and_change_none() {
    let mut sampler = Sampler::new(weir_testkit::seed(23));
    for _ in 0..FRAMES {
        let packet = Packet::new(sampler.frame());
        if packet.frame.len() < 14 {
            continue;
        }
        let mut there = packet.clone();
        let (push, pop) = match sampler.below(3) {
            0 => (Edit::PushVlan(0x8100), Edit::PopVlan),
            1 => (Edit::PushMpls(0x8847), Edit::PopMpls(Field::EthType.get(&packet.key) as u16)),
            _ => (Edit::PushPbb(0x88e7), Edit::PopPbb),
        };
        match there.apply(&push) {
            Ok(()) => {}
            Err(DropReason::NoSuchHeader) => {
                assert_eq!(Field::EthType.get(&packet.key), 0x05ff);
                continue;
            }
            Err(other) => panic!("{other:?} {packet:02x?}"),
        }
        assert!(there.is_in_step(&packet.key), "{packet:02x?}\n{there:02x?}");
        there.apply(&pop).unwrap_or_else(|error| panic!("{error:?} {packet:02x?}\n{there:02x?}"));
        assert_eq!(there, packet);
    }
}

/// Any bytes and any edits: no panic, and always in step.
fn stress(seed: u64, frames: u64) {
    let mut sampler = Sampler::new(seed);
    for _ in 0..frames {
        let mut packet = Packet::new(if sampler.one_in(3) { sampler.frame() } else { sampler.mangled() });
        for _ in 0..=sampler.below(3) {
            let edit = random_edit(&mut sampler, &packet.key);
            let before = packet.key.clone();
            match packet.apply(&edit) {
                Ok(()) => assert!(packet.is_in_step(&expected(&edit, &before)), "{edit:?} {packet:02x?}"),
                Err(_) => assert_eq!(packet.key, before, "{edit:?}"),
            }
        }
    }
}

#[test]
fn no_bytes_and_no_edits_break_it() {
    stress(24, FRAMES);
}

/// Run it by hand: `cargo test --release -p weir-datapath --test edit -- --ignored by_the_hundred_million`.
#[test]
#[ignore = "takes minutes"]
fn no_bytes_and_no_edits_break_it_by_the_hundred_million() {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || stress(1000 + thread, MANY.div_ceil(threads)));
        }
    });
}

#[test]
fn a_layout_that_is_out_of_step_is_no_panic() {
    let mut sampler = Sampler::new(weir_testkit::seed(25));
    for _ in 0..FRAMES {
        let mut packet = Packet::new(sampler.frame());
        let cut = sampler.below(packet.frame.len() + 1);
        packet.frame.truncate(cut);
        let edit = random_edit(&mut sampler, &packet.key);
        // Whatever it says; that it comes back is what counts, and that it invents no bytes.
        let result = packet.apply(&edit);
        assert!(packet.frame.len() <= cut + 18, "{edit:?} {result:?}");
    }
}
