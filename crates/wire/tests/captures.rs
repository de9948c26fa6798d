//! Capture files, whole and broken.
//!
//! `WEIR_CASES` says how many broken ones of each kind are tried, `WEIR_SEED` which; without, 256 and others
//! each time.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_units::Nanos;
use weir_wire::pcap::{CaptureError, CaptureReader, CaptureWriter, Format, SeenPacket};

const FORMATS: [Format; 2] = [Format::Pcap, Format::Pcapng];

/// Packets of 60, 61, 62 … bytes, a millisecond and a nanosecond apart.
fn capture(format: Format, packets: u64) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new(), format).unwrap();
    for i in 0..packets {
        writer.write(Nanos(5_000_000_000 + i * 1_000_001), &vec![i as u8; 60 + i as usize]).unwrap();
    }
    writer.finish().unwrap()
}

/// Time stamp and bytes.
type Packet = (Option<Nanos>, Vec<u8>);

/// Reads to the end or to the first error; the packets before it, and the error.
fn read(bytes: &[u8]) -> (Vec<Packet>, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => packets.push((packet.timestamp, packet.data.to_vec())),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

#[test]
fn what_is_written_is_read_back_in_both_formats() {
    for format in FORMATS {
        let bytes = capture(format, 20);
        assert_eq!(CaptureReader::new(&bytes[..]).unwrap().format(), format);
        let (packets, error) = read(&bytes);
        assert!(error.is_none(), "{format}: {error:?}");
        assert_eq!(packets.len(), 20);
        for (i, (timestamp, data)) in packets.iter().enumerate() {
            assert_eq!(*timestamp, Some(Nanos(5_000_000_000 + i as u64 * 1_000_001)), "{format}");
            assert_eq!(data, &vec![i as u8; 60 + i]);
        }
    }
}

#[test]
fn the_offset_after_the_last_packet_is_the_length_of_the_file() {
    for format in FORMATS {
        let bytes = capture(format, 7);
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        while reader.next_packet().unwrap().is_some() {}
        assert_eq!((reader.packets(), reader.offset()), (7, bytes.len() as u64), "{format}");
    }
}

#[test]
fn a_capture_cut_at_any_byte_yields_its_whole_packets_and_then_an_error_or_a_clean_end() {
    for format in FORMATS {
        let bytes = capture(format, 3);
        let (whole, _) = read(&bytes);
        let mut ends = 0;
        for cut in 0..bytes.len() {
            let (packets, error) = read(&bytes[..cut]);
            assert!(packets.len() <= 3 && packets == whole[..packets.len()], "{format} cut at {cut}");
            match error {
                None => ends += 1,
                Some(CaptureError::Truncated { packet, offset }) => {
                    assert_eq!(packet, packets.len() as u64 + 1, "{format} cut at {cut}");
                    assert!(offset as usize <= cut, "{format} cut at {cut}: offset {offset}");
                }
                Some(CaptureError::Empty) => assert_eq!(cut, 0),
                Some(CaptureError::NotACapture { .. }) => assert!(cut < 4, "{format} cut at {cut}"),
                Some(other) => panic!("{format} cut at {cut}: {other}"),
            }
        }
        // Clean ends: after the header(s) and after packets one and two.
        let headers = if format == Format::Pcap { 1 } else { 2 };
        assert_eq!(ends, headers + 2, "{format}");
    }
}

#[test]
fn text_archives_and_nothing_are_told_from_captures() {
    let error = |bytes: &[u8]| read(bytes).1.unwrap().to_string();
    assert!(error(b"").contains("empty"));
    assert!(error(b"flow,rate\n1,2\n").contains("66 6c 6f 77 (text)"), "{}", error(b"flow,rate\n"));
    assert!(error(&[0x1f, 0x8b, 8, 0, 0]).contains("gunzip"));
    assert!(error(&[0, 1]).contains("begins with 00 01"));
}

#[test]
fn packets_that_are_not_ethernet_are_refused_by_their_link_type() {
    let mut bytes = capture(Format::Pcap, 1);
    bytes[20] = 113;
    let error = read(&bytes).1.unwrap();
    assert!(error.to_string().contains("packet 1 (byte 24) has link type 113"), "{error}");
}

#[test]
fn a_packet_cut_by_the_snap_length_is_read_and_says_so() {
    let mut bytes = capture(Format::Pcap, 1);
    // Original length of the first record, above both the kept length and the snap length.
    bytes[36..40].copy_from_slice(&400_000_u32.to_le_bytes());
    let mut reader = CaptureReader::new(&bytes[..]).unwrap();
    let packet = reader.next_packet().unwrap().unwrap();
    assert!(packet.is_cut());
    assert_eq!((packet.data.len(), packet.original_len), (60, 400_000));
}

#[test]
fn time_stamps_follow_the_interface_s_resolution() {
    let mut bytes = capture(Format::Pcapng, 1);
    // The option `if_tsresol` (code 9, length 1): without it, ticks are microseconds.
    let at = bytes.windows(5).position(|five| five == [9, 0, 1, 0, 9]).unwrap() + 4;
    for (resolution, nanos) in
        [(9, 5_000_000_000_u64), (6, 5_000_000_000_000), (0x80, 5_000_000_000_000_000_000)]
    {
        bytes[at] = resolution;
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.next_packet().unwrap().unwrap().timestamp, Some(Nanos(nanos)), "{resolution}");
    }
}

/// How many captures are tried, and which.
fn config() -> ProptestConfig {
    let asked = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
    };
    let cases = asked("WEIR_CASES").map_or(256, |cases| u32::try_from(cases).unwrap_or(u32::MAX));
    let rng_seed = asked("WEIR_SEED").map_or(RngSeed::Random, RngSeed::Fixed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_bytes_after_a_header_never_panic(
        pcapng in any::<bool>(),
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let format = if pcapng { Format::Pcapng } else { Format::Pcap };
        let mut bytes = capture(format, 0);
        bytes.extend(rest);
        let _ = read(&bytes);
    }

    #[test]
    fn damaged_captures_never_panic(
        pcapng in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let format = if pcapng { Format::Pcapng } else { Format::Pcap };
        let mut bytes = capture(format, 4);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(&bytes);
    }
}

#[test]
fn a_packet_is_written_with_where_it_was_seen_and_how_long_it_was() {
    for format in FORMATS {
        let mut writer = CaptureWriter::new(Vec::new(), format).unwrap();
        let seen = |interface, sent| SeenPacket {
            timestamp: Nanos(7),
            original_len: 1500,
            data: &[1, 2, 3, 4],
            interface,
            sent,
        };
        writer.write_seen(&seen(0, false)).unwrap();
        let left = writer.interface("left").unwrap();
        writer.write_seen(&seen(left, true)).unwrap();
        let bytes = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        for _ in 0..2 {
            let packet = reader.next_packet().unwrap().unwrap();
            assert_eq!((packet.original_len, packet.data, packet.is_cut()), (1500, &[1, 2, 3, 4][..], true));
        }
        assert!(reader.next_packet().unwrap().is_none());
        let named = bytes.windows(4).any(|bytes| bytes == b"left");
        assert_eq!(named, format == Format::Pcapng);
        // Option 2 of 4 bytes: the flags, outbound for the second packet.
        let outbound = bytes.windows(8).filter(|bytes| *bytes == [2, 0, 4, 0, 2, 0, 0, 0]).count();
        assert_eq!(outbound, usize::from(format == Format::Pcapng));
    }
}
