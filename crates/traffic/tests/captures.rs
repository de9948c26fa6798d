//! Captures as traces: memory and stream, gaps, rewriting, and everything that can be wrong.

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use weir_traffic::trace::capture::CaptureOptions;
use weir_traffic::trace::{
    CutPackets, Direction, FrameSource, Ipv4Prefix, Laps, Rewrite, TraceInfo, TraceOptions, TraceSpec,
    VlanChange,
};
use weir_units::{FrameSize, Nanos};
use weir_wire::pcap::{CaptureWriter, Format};
use weir_wire::{Dissection, Ipv4View, checksum};

fn write(path: &Path, packets: &[(Nanos, Vec<u8>)]) {
    let format =
        if path.extension().is_some_and(|end| end == "pcapng") { Format::Pcapng } else { Format::Pcap };
    let mut writer = CaptureWriter::new(Vec::new(), format).unwrap();
    for (at, frame) in packets {
        writer.write(*at, frame).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

/// The packets of a named trace, a microsecond apart.
fn packets(name: &str, sizes: u32) -> Vec<(Nanos, Vec<u8>)> {
    let spec = TraceSpec::parse(name).unwrap().sizes(FrameSize::new(sizes).unwrap());
    let table = spec.build_table().unwrap();
    (0..table.len()).map(|i| (Nanos(1_000_000_000 + i as u64 * 1_000), table.frame(i).to_vec())).collect()
}

fn spec(path: &Path) -> TraceSpec {
    TraceSpec::parse(path.to_str().unwrap()).unwrap()
}

/// A specification that reads the file as a stream, whatever its size.
fn streamed(path: &Path, laps: Laps) -> TraceSpec {
    let capture = CaptureOptions { budget: 0, ..Default::default() };
    spec(path).options(TraceOptions { laps, capture, ..Default::default() })
}

fn folder() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_owned();
    (folder, move |name: &str| at.join(name))
}

fn error(spec: &TraceSpec) -> String {
    let built = spec.build().map(|_| ()).unwrap_err().to_string();
    assert_eq!(TraceInfo::of(spec).unwrap_err().to_string(), built, "info and build say the same");
    built
}

#[test]
fn a_trace_written_to_a_capture_has_the_same_hash_when_it_is_read() {
    let (_folder, file) = folder();
    for name in ["a.pcap", "a.pcapng"] {
        write(&file(name), &packets("tr3i", 128));
        let table =
            TraceSpec::parse("tr3i").unwrap().sizes(FrameSize::new(128).unwrap()).build_table().unwrap();
        assert_eq!(spec(&file(name)).build().unwrap().trace_hash(), table.hash());
        let info = TraceInfo::of(&spec(&file(name))).unwrap();
        assert_eq!((info.packets, info.flows, info.destination_addresses), (10_000, 10_000, 10_000));
        assert_eq!(info.hash, table.hash());
        let gaps = info.gaps.unwrap();
        assert_eq!((gaps.min, gaps.mean, gaps.max), (Nanos(1_000), Nanos(1_000), Nanos(1_000)));
        assert_eq!(gaps.duration, Nanos(9_999_000));
    }
}

#[test]
fn a_stream_gives_the_same_frames_gaps_and_slots_as_memory_over_several_laps() {
    let (_folder, file) = folder();
    let path = file("big.pcap");
    // 30 MB: several chunks a lap.
    write(&path, &packets("flows:20000", 1500));
    let mut memory = spec(&path).build().unwrap();
    let mut stream = streamed(&path, Laps::Endless).build().unwrap();
    assert!(matches!((&memory, &stream), (FrameSource::Table(_), FrameSource::Stream(_))));
    assert_eq!(memory.trace_hash(), stream.trace_hash());
    assert_eq!((memory.packets(), stream.packets()), (20_000, 20_000));
    assert!((memory.mean_frame_bytes() - stream.mean_frame_bytes()).abs() < 1e-9);
    for i in 0..50_000 {
        let (a, b) = (memory.next_frame().unwrap(), stream.next_frame().unwrap());
        assert_eq!(a, b, "packet {i}");
        assert_eq!(a.gap, Some(Nanos(1_000)), "packet {i}");
    }
    assert!(stream.error().is_none());
}

#[test]
fn a_stream_sent_once_ends_after_its_last_frame() {
    let (_folder, file) = folder();
    write(&file("once.pcap"), &packets("tr3i", 64));
    let mut stream = streamed(&file("once.pcap"), Laps::Once).build().unwrap();
    let mut sent = 0;
    while stream.next_frame().is_some() {
        sent += 1;
    }
    assert_eq!(sent, 10_000);
    assert!(stream.next_frame().is_none() && stream.error().is_none());
}

#[test]
fn a_stream_dropped_in_the_middle_ends_its_thread() {
    let (_folder, file) = folder();
    write(&file("drop.pcap"), &packets("flows:20000", 1500));
    let mut stream = streamed(&file("drop.pcap"), Laps::Endless).build().unwrap();
    assert!(stream.next_frame().is_some());
    drop(stream); // joins: the test would hang if the thread did not end
}

#[test]
fn a_capture_that_changes_while_it_is_sent_breaks_off_with_its_reason() {
    let (_folder, file) = folder();
    let path = file("shrinks.pcap");
    write(&path, &packets("tr2i", 64));
    let mut stream = streamed(&path, Laps::Endless).build().unwrap();
    // In one step: who writes it anew leaves it empty for a moment, in which a reader ahead may come by.
    let shrunk = std::fs::File::options().write(true).open(&path).unwrap();
    shrunk.set_len(shrunk.metadata().unwrap().len() - 3).unwrap();
    let mut sent = 0_u64;
    while stream.next_frame().is_some() {
        sent += 1;
        assert!(sent < 1 << 24, "the stream must end");
    }
    assert!(stream.error().unwrap().to_string().contains("truncated"), "{:?}", stream.error());
}

#[test]
fn a_truncated_capture_is_refused_with_its_packet_and_offset() {
    let (_folder, file) = folder();
    for name in ["cut.pcap", "cut.pcapng"] {
        let path = file(name);
        write(&path, &packets("tr2i", 64));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let said = error(&spec(&path));
        let record = if name == "cut.pcap" { 76 } else { 92 };
        let offset = whole.len() - record;
        assert!(
            said.contains(name) && said.contains("packet 100") && said.contains(&format!("byte {offset}")),
            "{said}"
        );
        assert_eq!(error(&streamed(&path, Laps::Once)), said);
    }
}

#[test]
fn files_that_are_no_captures_are_refused_by_what_they_are() {
    let (folder, file) = folder();
    std::fs::write(file("notes.pcap"), "just some notes\n").unwrap();
    assert!(error(&spec(&file("notes.pcap"))).contains("neither pcap nor pcapng"));
    std::fs::write(file("empty.pcap"), "").unwrap();
    assert!(error(&spec(&file("empty.pcap"))).contains("empty"));
    write(&file("none.pcap"), &[]);
    assert!(error(&spec(&file("none.pcap"))).contains("holds no frame that can be sent: of 0 packets"));
    assert!(error(&spec(&file("missing.pcap"))).contains("missing.pcap"));
    assert!(error(&spec(&folder.path().join(""))).contains("directory"));
}

#[test]
fn packets_cut_by_the_snap_length_are_refused_padded_or_skipped_as_asked() {
    let (_folder, file) = folder();
    let path = file("snap.pcap");
    let frames = packets("tr2i", 256);
    write(&path, &frames);
    // As a snap length of 96 would have kept it: the second packet's record loses its tail.
    let mut bytes = std::fs::read(&path).unwrap();
    let second = 24 + 16 + 252;
    bytes[second + 8..second + 12].copy_from_slice(&96_u32.to_le_bytes());
    bytes.drain(second + 16 + 96..second + 16 + 252);
    std::fs::write(&path, bytes).unwrap();

    let said = error(&spec(&path));
    assert!(said.contains("packet 2 (byte 292) was cut") && said.contains("96 of 252 bytes"), "{said}");
    let with = |cut| {
        let capture = CaptureOptions { cut, ..Default::default() };
        TraceInfo::of(&spec(&path).options(TraceOptions { capture, ..Default::default() })).unwrap()
    };
    let (padded, skipped) = (with(CutPackets::Pad), with(CutPackets::Skip));
    assert_eq!((padded.packets, padded.frame_sizes.min, padded.capture.unwrap().cut), (100, 256, 1));
    assert_eq!((skipped.packets, skipped.capture.unwrap().cut), (99, 1));
}

#[test]
fn short_frames_are_padded_and_impossible_ones_counted() {
    let (_folder, file) = folder();
    let path = file("odd.pcap");
    let frame = |len: usize| vec![0x11; len];
    let times = [10, 5, 20, 30].map(Nanos);
    write(
        &path,
        &[(times[0], frame(42)), (times[1], frame(13)), (times[2], frame(9_019)), (times[3], frame(9_018))],
    );
    let info = TraceInfo::of(&spec(&path)).unwrap();
    let counts = info.capture.unwrap();
    assert_eq!((counts.packets, counts.sent), (4, 2));
    assert_eq!((counts.padded, counts.too_short, counts.too_long), (1, 1, 1));
    assert_eq!((info.frame_sizes.min, info.frame_sizes.max), (64, 9_022));
    assert_eq!(info.gaps.unwrap().max, Nanos(20), "from the first sent packet to the next");
}

#[test]
fn time_that_runs_backwards_is_counted_and_makes_no_gap() {
    let (_folder, file) = folder();
    let frames = packets("tr2i", 64);
    let jumbled = [
        (Nanos(9_000), frames[0].1.clone()),
        (Nanos(4_000), frames[1].1.clone()),
        (Nanos(7_000), frames[2].1.clone()),
    ];
    write(&file("back.pcap"), &jumbled);
    let info = TraceInfo::of(&spec(&file("back.pcap"))).unwrap();
    assert_eq!(info.capture.unwrap().backwards, 1);
    let gaps = info.gaps.unwrap();
    assert_eq!((gaps.min, gaps.max), (Nanos(0), Nanos(3_000)));
}

#[test]
fn rewriting_moves_addresses_sets_macs_and_tags_with_right_checksums() {
    let (_folder, file) = folder();
    // T1's frames carry TCP checksums; reversed, they come from 198.19/16.
    let table = TraceSpec::parse("t1").unwrap().direction(Direction::Reverse).build_table().unwrap();
    let frames: Vec<_> = (0..5_000).map(|i| (Nanos(i * 10), table.frame(i as usize).to_vec())).collect();
    write(&file("in.pcap"), &frames);
    let mac = |last| format!("02:00:00:00:00:{last:02x}").parse().unwrap();
    let options = TraceOptions {
        source_mac: Some(mac(0xa1)),
        destination_mac: Some(mac(0xa2)),
        vlan: Some(VlanChange::Push(42)),
        source_prefix: Some("10.0.0.0/8".parse::<Ipv4Prefix>().unwrap()),
        destination_prefix: Some(Ipv4Prefix::TEST_NET_1),
        laps: Laps::Once,
        ..Default::default()
    };
    let mut source = spec(&file("in.pcap")).options(options).build().unwrap();
    let mut seen = 0;
    while let Some(frame) = source.next_frame() {
        let bytes = [frame.head, frame.tail].concat();
        let before = &frames[seen].1;
        assert_eq!(bytes.len(), before.len() + 4);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 0, 0xa2, 2, 0, 0, 0, 0, 0xa1]);
        assert_eq!(bytes[12..16], [0x81, 0x00, 0x00, 42]);
        let view = Ipv4View::checked(&bytes[18..]).unwrap();
        let old = Ipv4View::checked(&before[14..]).unwrap();
        assert_eq!(view.source().octets(), [10, 19, old.source().octets()[2], old.source().octets()[3]]);
        assert_eq!(view.destination().octets()[..2], [198, 19]);
        assert!(view.checksum_is_right());
        let segment = view.payload();
        let protocol = Dissection::of(&bytes).network.unwrap().protocol;
        let pseudo = checksum::pseudo_ipv4(view.source(), view.destination(), protocol, segment.len() as u16);
        assert_eq!(checksum::finish(pseudo + checksum::sum(segment)), 0, "packet {seen}");
        seen += 1;
    }
    assert_eq!(seen, frames.len());
}

#[test]
fn tags_are_set_and_popped() {
    let (_folder, file) = folder();
    let tagged = TraceOptions { vlan: Some(VlanChange::Set(5)), ..Default::default() };
    let table = TraceSpec::parse("tr2i").unwrap().options(tagged).build_table().unwrap();
    let frames: Vec<_> = (0..10).map(|i| (Nanos(i), table.frame(i as usize).to_vec())).collect();
    write(&file("tagged.pcap"), &frames);
    let first = |vlan| {
        let options = TraceOptions { vlan: Some(vlan), ..Default::default() };
        let mut source = spec(&file("tagged.pcap")).options(options).build().unwrap();
        let frame = source.next_frame().unwrap();
        [frame.head, frame.tail].concat()
    };
    let (popped, set, pushed) =
        (first(VlanChange::Pop), first(VlanChange::Set(4094)), first(VlanChange::Push(6)));
    assert_eq!((Dissection::of(&popped).tags, popped.len()), (0, 60), "padded back to the least frame");
    assert_eq!(set[12..16], [0x81, 0x00, 0x0f, 0xfe]);
    assert_eq!((Dissection::of(&pushed).tags, &pushed[12..20]), (2, &[0x81, 0, 0, 6, 0x81, 0, 0, 5][..]));
}

#[test]
fn prefixes_are_read_and_wrong_ones_refused() {
    let prefix: Ipv4Prefix = "198.18.0.0/15".parse().unwrap();
    assert_eq!(prefix.take_in([10, 21, 7, 9].into()), std::net::Ipv4Addr::new(198, 19, 7, 9));
    for text in ["198.18.0.0", "198.18.0.1/16", "198.18.0.0/33", "x/8", ""] {
        assert!(text.parse::<Ipv4Prefix>().unwrap_err().to_string().contains("198.18.0.0/16"), "{text}");
    }
    assert_eq!(
        "0.0.0.0/0".parse::<Ipv4Prefix>().unwrap().take_in([1, 2, 3, 4].into()),
        std::net::Ipv4Addr::new(1, 2, 3, 4)
    );
}

proptest! {
    #[test]
    fn rewriting_damaged_frames_never_panics_and_twice_changes_nothing_more(
        start in proptest::sample::select(vec![0x0800_u16, 0x8100, 0x86dd, 0x1234]),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..90),
    ) {
        if bytes.len() > 14 {
            bytes[12..14].copy_from_slice(&start.to_be_bytes());
            bytes[14] = 0x45;
        }
        let rewrite = Rewrite { vlan: Some(VlanChange::Set(9)), ..Default::default() }
            .into_test_network(Direction::Reverse);
        rewrite.apply(&mut bytes);
        let once = bytes.clone();
        rewrite.apply(&mut bytes);
        prop_assert_eq!(bytes, once);
    }
}
