//! Capture files: what is read is no more than the file has, and is read again as it was written.

use crate::{Budget, Outcome, Target, refused};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

/// The library reads into a buffer of 8,000,000 bytes, whatever a record's length says.
const BUDGET: Budget = Budget::of(9_000_000, 64, 200, 8);

pub(super) const PCAP: Target = Target {
    name: "pcap",
    about: "a pcap file is read to its end or to what is wrong with it",
    budget: BUDGET,
    longest: 4096,
    words: &[],
    seeds: || seeds(Format::Pcap),
    run: read,
    workers: false,
};

pub(super) const PCAPNG: Target = Target {
    name: "pcapng",
    about: "a pcapng file, of blocks that are known and others, is read to its end or to what is wrong with it",
    budget: BUDGET,
    longest: 4096,
    words: &[],
    seeds: || {
        let mut seeds = seeds(Format::Pcapng);
        seeds.push(blocks());
        seeds
    },
    run: read,
    workers: false,
};

fn written(format: Format, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new(), format).expect("memory takes everything");
    for (at, frame) in frames.iter().enumerate() {
        writer.write(Nanos(5_000_000_000 + at as u64 * 1001), frame).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

fn seeds(format: Format) -> Vec<Vec<u8>> {
    let frames = super::packets::frames();
    vec![written(format, &frames[..3]), written(format, &frames[3..6]), written(format, &[])]
}

/// A section of each kind of block: interface with a resolution, simple packet, statistics, one that nobody knows.
fn blocks() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let section =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let interface = block(1, &[1, 0, 0, 0, 0, 0, 1, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let simple = block(3, &[8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let statistics = block(5, &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    [section, interface, simple, statistics, block(0x4444, b"whatever")].concat()
}

fn read(input: &[u8]) -> Outcome {
    let mut reader = match CaptureReader::new(input) {
        Ok(reader) => reader,
        Err(error) => return refused(&error.to_string(), input),
    };
    let (mut packets, mut bytes, mut before) = (0, 0, reader.offset());
    let end = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                bytes += packet.data.len();
                packets += 1;
                assert!(bytes <= input.len(), "{bytes} bytes of packets in a file of {}", input.len());
            }
            Ok(None) => break Outcome::of(0),
            Err(error) => break refused(&error.to_string(), input),
        }
        assert!(reader.offset() > before, "a packet moves on in the file");
        before = reader.offset();
    };
    assert_eq!(reader.packets(), packets);
    Outcome::of((end, packets.min(3), reader.format() == Format::Pcap))
}
