//! `transcoder`: against OpenSSL, and against itself.

use crate::common::{Draw, Packets, checksum_is_right, group, packet, refused, seconds, udp_packet};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use weir_cpu::aes::Kernel;
use weir_services::{Service, Verdict};
use weir_wire::{Dissection, checksum::update_u16};

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const IV: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

fn settings(mode: &str) -> Value {
    json!({"key": KEY, "iv": IV, "mode": mode})
}

/// An encrypting one with each kernel that this CPU has.
fn each_kernel() -> impl Iterator<Item = Box<dyn Service>> {
    Kernel::available().map(|kernel| {
        let settings = json!({"key": KEY, "iv": IV, "kernel": kernel.name()});
        group("transcoder", settings, 1).instance(0)
    })
}

fn transcoder(mode: &str) -> Box<dyn Service> {
    group("transcoder", settings(mode), 1).instance(0)
}

fn mixed(seed: u64, count: usize) -> Packets {
    let mut draw = Draw::new(seed);
    Packets::new((0..count).map(|_| {
        let payload: Vec<u8> = (0..draw.below(1460)).map(|_| draw.next() as u8).collect();
        packet(draw.next(), &payload)
    }))
}

/// The place of the payload in a frame, by another parser than the service's.
fn payload(frame: &[u8]) -> std::ops::Range<usize> {
    let found = Dissection::of(frame);
    found.transport.expect("a transport header").payload..found.network.expect("a packet").end
}

/// Gives a frame another source port, and its checksum the difference.
fn change_port(frame: &mut [u8]) {
    let found = Dissection::of(frame).transport.expect("a transport header");
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let field = update_u16(word(frame, found.checksum), found.source, found.source ^ 0x4000);
    frame[found.offset] ^= 0x40;
    frame[found.checksum..][..2].copy_from_slice(&field.to_be_bytes());
}

/// What `openssl enc` makes of whole blocks.
fn openssl(text: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(["enc", "-aes-128-cbc", "-nopad", "-K", KEY, "-iv", IV])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command `openssl` runs; `./x setup --test` installs it");
    child.stdin.take().expect("a pipe").write_all(text).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    output.stdout
}

/// What a frame must become but for its checksum: and where that is.
fn encrypted_by_openssl(plain: &[u8]) -> (Vec<u8>, usize) {
    let payload = payload(plain);
    let whole = payload.start..payload.start + payload.len() / 16 * 16;
    let mut expected = plain.to_vec();
    if !whole.is_empty() {
        let encrypted = openssl(&plain[whole.clone()]);
        assert_ne!(plain[whole.clone()], encrypted);
        expected[whole].copy_from_slice(&encrypted);
    }
    (expected, Dissection::of(plain).transport.expect("a transport header").checksum)
}

#[test]
fn whole_blocks_are_what_openssl_makes_of_them_and_nothing_else_changes_with_any_instructions() {
    for count in [1, 5, 33, 70] {
        let before = mixed(count as u64, count);
        let expected: Vec<_> = before.frames.iter().map(|plain| encrypted_by_openssl(plain)).collect();
        for mut service in each_kernel() {
            let mut packets = before.clone();
            let said = packets.process(service.as_mut(), seconds(0));
            assert!(said.iter().all(|said| *said == (0, true, Verdict::Pass)));
            for ((expected, checksum), frame) in expected.iter().zip(&packets.frames) {
                assert_eq!(checksum_is_right(frame), Some(true));
                let mut frame = frame.clone();
                frame[*checksum..checksum + 2].copy_from_slice(&expected[*checksum..checksum + 2]);
                assert_eq!(frame, *expected);
            }
        }
    }
}

#[test]
fn a_peer_decrypts_what_was_encrypted_also_behind_a_nat() {
    let mut packets = mixed(9, 64);
    let before = packets.frames.clone();
    packets.process(transcoder("encrypt").as_mut(), seconds(0));
    packets.frames.iter_mut().for_each(|frame| change_port(frame));
    packets.process(transcoder("decrypt").as_mut(), seconds(0));
    for (plain, frame) in before.iter().zip(&mut packets.frames) {
        assert_eq!(checksum_is_right(frame), Some(true));
        change_port(frame);
        assert_eq!(frame, plain);
    }
}

#[test]
fn a_packet_that_was_damaged_before_is_seen_to_be_damaged_behind() {
    let mut packets = mixed(10, 64);
    for frame in &mut packets.frames {
        let last = payload(frame).end - 1;
        frame[last] ^= 1;
        assert_eq!(checksum_is_right(frame), Some(false));
    }
    packets.process(transcoder("encrypt").as_mut(), seconds(0));
    assert!(packets.frames.iter().all(|frame| checksum_is_right(frame) == Some(false)));
}

#[test]
fn a_datagram_without_a_checksum_stays_without_and_one_that_sums_to_nought_keeps_one() {
    let (from, to) =
        ("198.18.0.1:9".parse().expect("an address"), "198.19.0.1:9".parse().expect("an address"));
    let mut none = udp_packet(from, to, &[3; 32]);
    none[40..42].fill(0);
    let mut frames = vec![none];
    // Among 2^16 values of the two bytes behind the blocks, one gives ciphertext that sums to nought.
    frames.extend((0..=u16::MAX).map(|word| {
        let mut payload = vec![5; 34];
        payload[32..].copy_from_slice(&word.to_be_bytes());
        udp_packet(from, to, &payload)
    }));
    let mut packets = Packets::new(frames);
    packets.process(transcoder("encrypt").as_mut(), seconds(0));
    assert_eq!(packets.frames[0][40..42], [0, 0]);
    assert_eq!(checksum_is_right(&packets.frames[0]), None);
    let right = |frame: &Vec<u8>| checksum_is_right(frame) == Some(true);
    assert!(packets.frames[1..].iter().all(right));
    let full = packets.frames[1..].iter().filter(|frame| frame[40..42] == [0xff, 0xff]).count();
    assert!((1..=2).contains(&full), "{full}");
}

#[test]
fn fragments_other_protocols_short_payloads_and_what_follows_a_datagram_stay_as_they_are() {
    let (from, to) =
        ("198.18.0.1:9".parse().expect("an address"), "198.19.0.1:9".parse().expect("an address"));
    let whole = udp_packet(from, to, &[3; 64]);
    let fragment = |bits: u8, offset: u8| {
        let mut frame = whole.clone();
        (frame[20], frame[21]) = (bits, offset);
        frame
    };
    let mut icmp = whole.clone();
    icmp[23] = 1;
    let mut arp = whole.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    // The datagram says it ends 15 bytes behind its first block; IP says there is more.
    let mut followed = whole.clone();
    followed[38..40].copy_from_slice(&(8 + 31_u16).to_be_bytes());
    let frames =
        [fragment(0x20, 0), fragment(0x20, 9), fragment(0, 9), icmp, arp, udp_packet(from, to, &[3; 15])];
    let mut packets = Packets::new(frames.iter().cloned().chain([followed.clone()]));
    let mut service = transcoder("encrypt");
    packets.process(service.as_mut(), seconds(0));
    assert_eq!(packets.frames[..6], frames);
    assert_eq!(packets.frames[6][58..], followed[58..]);
    assert_ne!(packets.frames[6][42..58], followed[42..58]);
    assert_eq!(service.counters()[..3], [("transcoded", 1), ("bytes", 16), ("untouched", 6)]);
}

#[test]
fn keys_that_are_none_are_refused_without_being_shown() {
    for wrong in ["00", "zz0102030405060708090a0b0c0d0e0f", "+00102030405060708090a0b0c0d0e0f", ""] {
        let text = refused("transcoder", json!({"key": wrong}));
        assert!(text.contains("`key` must be 32 hexadecimal digits"), "{text}");
        assert!(wrong.is_empty() || !text.contains(wrong), "{text}");
        let text = refused("transcoder", json!({"key": KEY, "iv": wrong}));
        assert!(text.contains("`iv` must be"), "{wrong}");
    }
    assert!(refused("transcoder", json!({"mode": "scramble"})).contains("`decrypt`"));
}

#[test]
fn a_key_comes_from_a_file_that_its_owner_alone_reads_and_there_is_none_by_itself() {
    let text = refused("transcoder", json!({}));
    assert!(text.contains("it has no key; give `key_file`"), "{text}");
    let folder = std::env::temp_dir().join(format!("weir-transcoder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("key");
    let with = json!({"key_file": path, "iv": IV});
    assert!(refused("transcoder", with.clone()).contains("No such file"));
    std::fs::write(&path, format!("{KEY}\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let text = refused("transcoder", with.clone());
    assert!(text.contains("mode 0640") && text.contains("chmod 600") && !text.contains(KEY), "{text}");
    mode(0o600);
    let (mut by_file, mut outright) = (mixed(4, 20), mixed(4, 20));
    by_file.process(group("transcoder", with.clone(), 1).instance(0).as_mut(), seconds(0));
    outright.process(transcoder("encrypt").as_mut(), seconds(0));
    assert_eq!(by_file.frames, outright.frames);
    let both = json!({"key_file": path, "key": KEY});
    assert!(refused("transcoder", both).contains("exclude each other"));
    std::fs::write(&path, KEY.repeat(1000)).unwrap();
    assert!(refused("transcoder", with).contains("`key_file` must be 32 hexadecimal digits"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_counters_name_the_instructions_in_use_and_unknown_ones_are_refused() {
    let said = |service: Box<dyn Service>| service.counters()[3];
    assert_eq!(said(transcoder("encrypt")).0, format!("kernel-{}", Kernel::best().name()));
    let named: Vec<String> = each_kernel().map(|service| said(service).0.to_owned()).collect();
    let kernels: Vec<String> =
        Kernel::available().map(|kernel| format!("kernel-{}", kernel.name())).collect();
    assert_eq!(named, kernels);
    for kernel in Kernel::ALL.into_iter().filter(|kernel| !kernel.is_available()) {
        let text = refused("transcoder", json!({"key": KEY, "kernel": kernel.name()}));
        assert!(text.contains(kernel.name()) && text.contains("lacks"), "{text}");
    }
    assert!(refused("transcoder", json!({"kernel": "abacus"})).contains("`portable`"));
}
