//! Frames: headers read, headers changed, stamps.

use crate::{Budget, Input, Outcome, Target};
use std::net::SocketAddr;
use weir_datapath::edit::{self, Rewrite};
use weir_flow::{Field, Key, Layout, Mask, PACKET_BITS, WORDS, compose, extract, extract_again};
use weir_frames::{ACK, Tcp, datagram, echo, fragments, padded, segment};
use weir_packet::{DropReason, Frame as _};
use weir_wire::dissect::Dissection;
use weir_wire::stamp::{Key as StampKey, Stamp};
use weir_wire::{Ipv4View, Ipv6View, TcpView, UdpView};

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

/// Frames of every kind that the switch reads.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let (a, b) = (at("198.18.0.1:1000"), at("198.19.0.1:80"));
    let (a6, b6) = (at("[2001:db8::1]:1000"), at("[2001:db8::2]:80"));
    let tcp = Tcp { flags: ACK, seq: 1, ack: 2, window: 500, ..Tcp::default() };
    let mut frames = vec![
        padded(datagram(a, b, b"payload")),
        padded(segment(a, b, tcp, b"GET / HTTP/1.1\r\n")),
        datagram(a6, b6, b"payload"),
        segment(a6, b6, tcp, b""),
        padded(echo(a.ip(), b.ip(), false, 9)),
    ];
    frames.extend(fragments(&datagram(a, b, &[7; 100]), 5, 48));
    let plain = frames[0].clone();
    for tags in [&[0x81, 0, 0x20, 5][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &[0x88, 0x47, 0, 0, 0x11, 64]] {
        let mut tagged = plain.clone();
        drop(tagged.splice(12..12, tags.iter().copied()));
        frames.push(tagged);
    }
    let mut key = Key::new();
    for (field, value) in [
        (Field::EthType, 0x86dd),
        (Field::NwProto, 58),
        (Field::Icmpv6Type, 135),
        (Field::NdTarget, 0x2001_0db8 << 96),
        (Field::NdSll, 0x0200_0000_0001),
    ] {
        field.set(&mut key, value);
    }
    frames.push(compose(&key, &[]));
    let mut key = Key::new();
    for (field, value) in [(Field::EthType, 0x0806), (Field::ArpOp, 1), (Field::ArpSpa, 0xc612_0001)] {
        field.set(&mut key, value);
    }
    frames.push(padded(compose(&key, &[])));
    frames
}

pub(super) const FRAME: Target = Target {
    name: "frame",
    about: "a frame's headers become a key and offsets, which lie in the frame and need no memory",
    budget: Budget::NOTHING,
    longest: 2048,
    words: &[],
    seeds: frames,
    run: frame,
    workers: false,
};

fn frame(input: &[u8]) -> Outcome {
    let mut key = Key::new();
    let layout = extract(input, 7, &mut key);
    lies_within(layout, input.len());
    // What stood in the key before does not matter.
    let mut again = Key::new();
    (0..WORDS).for_each(|place| again.set_bits(place, u64::MAX, u64::MAX));
    again.clear();
    assert_eq!(extract(input, 7, &mut again), layout);
    assert_eq!(again, key);
    assert_eq!(extract_again(input, &mut again), layout);
    assert_eq!(Field::InPort.get(&key), 7);
    let set = (0..WORDS).fold(0_u64, |all, place| all << 1 | u64::from(key.word(place) != 0));
    Outcome::of((Field::EthType.get(&key), Field::NwProto.get(&key), set, layout.transport == 0))
}

/// Offsets that are known lie in the frame, in their order.
fn lies_within(layout: Layout, length: usize) {
    let Layout { network, transport, payload, end, .. } = layout;
    assert!(usize::from(end) <= length.max(1) || length > usize::from(u16::MAX), "{layout:?} of {length}");
    assert!(network <= end.max(network.min(end)) && transport <= end, "{layout:?}");
    assert!(transport == 0 || network < transport, "{layout:?}");
    assert!(payload == 0 || transport <= payload, "{layout:?}");
}

pub(super) const DISSECT: Target = Target {
    name: "dissect",
    about: "the tester's walk over a frame, and views of the headers that it finds",
    budget: Budget::NOTHING,
    longest: 2048,
    words: &[],
    seeds: frames,
    run: dissect,
    workers: false,
};

fn dissect(input: &[u8]) -> Outcome {
    let found = Dissection::of(input);
    if let Some(network) = &found.network {
        // Where it ends, its own length field says, which may lie beyond the frame.
        assert!(network.offset < network.end && network.offset < input.len(), "{found:?} of {}", input.len());
        assert!(
            Ipv4View::checked(&input[network.offset..]).is_ok()
                || Ipv6View::checked(&input[network.offset..]).is_ok()
        );
    }
    if let Some(transport) = &found.transport {
        let rest = &input[transport.offset..];
        assert!(transport.payload <= input.len() && transport.offset < transport.payload, "{found:?}");
        assert!(TcpView::checked(rest).is_ok() || UdpView::checked(rest).is_ok());
    }
    let (network, transport) = (found.network.is_some(), found.transport.is_some());
    Outcome::of((found.tags, found.ether_type.0, network, transport))
}

pub(super) const EDIT: Target = Target {
    name: "edit",
    about: "headers are set, pushed and popped: bytes, offsets and key stay in step, whatever the frame",
    budget: Budget::of(64 << 10, 512, 200, 4),
    longest: 2048,
    words: &[],
    seeds: edit_seeds,
    run: edit,
    workers: false,
};

/// Edits of one input, at most: some grow the frame.
const EDITS: usize = 24;

fn edit_seeds() -> Vec<Vec<u8>> {
    let edits: [&[u8]; 4] = [
        &[0, 4, 5, 6, 1, 2, 3],
        &[9, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9],
        &[4, 4, 5, 5, 6, 7, 0],
        &[8, 8, 9, 12, 1, 1, 1],
    ];
    let edits = edits.iter().cycle();
    frames().iter().zip(edits).map(|(frame, edits)| Input::of_parts([(0, *edits), (0, frame)])).collect()
}

fn edit(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    input.byte();
    let mut edits = Input::new(input.part());
    input.byte();
    let mut frame = input.part().to_vec();
    let mut key = Key::new();
    let mut layout = extract(frame.bytes(), 7, &mut key);
    let mut came = Vec::with_capacity(EDITS);
    while !edits.is_over() && came.len() < EDITS {
        let before = (frame.clone(), layout, key.clone());
        let (what, result) = change(&mut edits, &mut frame, &mut layout, &mut key);
        came.push((what, result.err().map(|reason| reason as u8)));
        if result.is_err() {
            assert!(
                (&frame, &layout, &key) == (&before.0, &before.1, &before.2),
                "edit {what} failed and changed something"
            );
        } else {
            is_in_step(&frame, layout, &key, what);
        }
    }
    Outcome::of(came)
}

/// One edit: its number, and what was said of it.
fn change(
    edits: &mut Input<'_>,
    frame: &mut Vec<u8>,
    layout: &mut Layout,
    key: &mut Key,
) -> (u8, Result<(), DropReason>) {
    let what = edits.byte() % 10;
    let result = match what {
        0 => edit::dec_ttl(frame, layout, key),
        1 => edit::dec_mpls_ttl(frame, layout, key),
        2 => edit::copy_ttl_out(frame, layout, key),
        3 => edit::copy_ttl_in(frame, layout, key),
        4 => edit::push_vlan(frame, layout, key, edits.pick(&[0x8100, 0x88a8])),
        5 => edit::pop_vlan(frame, layout, key),
        6 => edit::push_mpls(frame, layout, key, edits.pick(&[0x8847, 0x8848])),
        7 => edit::pop_mpls(frame, layout, key, edits.pick(&[0x0800, 0x8847, 0x86dd, 0x0806, 5])),
        8 if edits.byte() & 1 == 0 => edit::push_pbb(frame, layout, key, 0x88e7),
        8 => edit::pop_pbb(frame, layout, key),
        _ => {
            let (mut value, mut mask) = (Key::new(), Mask::new());
            for _ in 0..=edits.below(3) {
                let field = edits.pick(Field::ALL);
                let (number, bits) = (edits.long(), edits.pick(&[u128::MAX, 0xff, 0xffff_0000, 1]));
                field.set_masked(&mut value, number, bits);
                field.examine(&mut mask, bits);
            }
            Rewrite::compile(&value, &mask).apply(frame, layout, key)
        }
    };
    (what, result)
}

/// Offsets and key are what the frame says.
fn is_in_step(frame: &[u8], layout: Layout, key: &Key, what: u8) {
    let mut read = Key::new();
    let found = extract(frame, 0, &mut read);
    assert_eq!(found, layout, "edit {what} of {frame:02x?}");
    for place in 0..WORDS {
        let packet = PACKET_BITS.get(place).copied().unwrap_or(0);
        let (of_frame, of_key) = (read.word(place) & packet, key.word(place) & packet);
        assert_eq!(of_frame, of_key, "edit {what}, word {place}, {frame:02x?}");
    }
}

pub(super) const STAMP: Target = Target {
    name: "stamp",
    about: "a tester's stamp at the end of a frame, and the text of its key",
    budget: Budget::of(4096, 8, 48, 0),
    longest: 512,
    words: &["-", "0123456789abcdef"],
    seeds: || {
        let key = StampKey::new([1, 2, 3, 4, 5]);
        let mut frame = frames()[0].clone();
        Stamp { trial: 3, sequence: 1 << 40, tsc: 77 }.write(&mut frame, &key);
        let mut seed = key.to_string().into_bytes();
        seed.extend(frame);
        vec![seed, key.to_string().into_bytes()]
    },
    run: stamp,
    workers: false,
};

fn stamp(input: &[u8]) -> Outcome {
    let (text, frame) = input.split_at(input.len().min(84));
    let key = match super::text(text).parse::<StampKey>() {
        Ok(key) => {
            assert_eq!(key.to_string().parse::<StampKey>(), Ok(key));
            key
        }
        Err(error) => {
            crate::refused(&error.to_string(), input);
            StampKey::new([1, 2, 3, 4, 5])
        }
    };
    let Some((whole, stamp)) = Stamp::read_damaged(frame, &key) else {
        assert!(frame.len() < Stamp::BYTES && Stamp::read(frame, &key).is_none());
        return Outcome::of(0);
    };
    let is_same = stamp.to_bytes(&key) == frame[frame.len() - Stamp::BYTES..];
    assert_eq!(is_same, whole, "what begins as stamps do is one, and no other bytes are");
    assert_eq!(stamp.number() | Stamp::first_of(stamp.stream() as u8), stamp.sequence);
    Outcome::of((whole, stamp.stream()))
}
