//! The traffic of one point: a trace for each direction, built once and sent as often as needed.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use weir_dut::folder::Folder;
use weir_dut::wiring::Fed;
use weir_traffic::check::PassFrames;
use weir_traffic::probes::{Macs, probes};
use weir_traffic::trace::{
    Direction, FrameSource, Laps, Sizes, TableCursor, TraceError, TraceHash, TraceSpec,
};
use weir_trial::Nf;
use weir_units::{FCS_BYTES, FrameSize, Nanos};
use weir_wire::pcap::{CaptureWriter, Format};

/// The traces of a point.
#[derive(Debug)]
pub struct Traffic {
    specs: Vec<TraceSpec>,
    /// The first building of each, from which tables are shared.
    built: Vec<FrameSource>,
}

/// Traffic that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Captures for the `fed` wiring could not be written.
    #[error("{path}: {reason}; free space in the folder for temporary files, or name another with TMPDIR", path = path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A capture too large for memory cannot be fed.
    #[error(
        "{0} is too large for the `fed` wiring, whose source keeps the trace in memory; use the `vhost` wiring"
    )]
    TooLarge(String),
}

/// Packets of a capture read as a stream that an untimed pass sends.
const OF_A_STREAM: usize = 10_000;

impl Traffic {
    /// Builds the traces: `first` goes from port 0 to port 1; `second`, where given, the other way.
    pub fn build(
        first: &str,
        second: Option<&str>,
        sizes: Option<Sizes>,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let mut specs = Vec::new();
        for (name, direction) in [Some(first), second].into_iter().zip(Direction::BOTH) {
            let Some(name) = name else { continue };
            let mut spec = TraceSpec::parse(name)?.direction(direction).seed(seed);
            if let Some(sizes) = sizes {
                spec = spec.sizes(sizes);
            }
            specs.push(spec);
        }
        let built = specs.iter().map(TraceSpec::build).collect::<Result<_, _>>()?;
        Ok(Self { specs, built })
    }

    /// Directions with traffic.
    pub fn directions(&self) -> u8 {
        self.specs.len() as u8
    }

    /// Seed of everything random.
    pub fn seed(&self) -> u64 {
        self.specs[0].seed
    }

    /// Mean frame size over the directions, in bytes with FCS.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.built.iter().map(FrameSource::mean_frame_bytes).sum::<f64>() / self.built.len() as f64
    }

    /// The largest frame that may come. Streams are not read ahead, so they may hold any.
    pub fn max_frame(&self) -> FrameSize {
        let standard = FrameSize::new(1522).expect("a legal size");
        let longest = self.built.iter().map(|source| match source.table() {
            Some(table) => table.lens().iter().copied().max().unwrap_or(0) + FCS_BYTES,
            None => FrameSize::MAX.bytes(),
        });
        let longest = longest.max().and_then(|bytes| FrameSize::new(u32::from(bytes)).ok());
        longest.map_or(FrameSize::MAX, |size| size.max(standard))
    }

    /// Whether every trace has recorded gaps.
    pub fn has_gaps(&self) -> bool {
        self.built.iter().all(FrameSource::has_gaps)
    }

    /// Hashes of the traces, by which two runs know that they sent the same bytes.
    pub fn hashes(&self) -> Vec<TraceHash> {
        self.built.iter().map(FrameSource::trace_hash).collect()
    }

    /// A fresh source per direction, from its first packet.
    pub fn sources(&self) -> Result<Vec<FrameSource>, TrafficError> {
        let source = |(spec, built): (&TraceSpec, &FrameSource)| match built.table() {
            Some(table) => Ok(FrameSource::Table(TableCursor::new(table.clone(), Laps::Endless))),
            None => Ok(spec.build()?),
        };
        self.specs.iter().zip(&self.built).map(source).collect()
    }

    /// What an untimed pass sends, a list a direction: the trace, and probes of the function, which
    /// carry the MAC addresses of the trace's first packet.
    pub fn pass(&self, nf: Nf) -> Result<Vec<PassFrames>, TrafficError> {
        let mut begins = Vec::new();
        for (spec, built) in self.specs.iter().zip(&self.built) {
            let mut frames = Vec::new();
            if built.table().is_none() {
                let mut stream = spec.build()?;
                while let Some(frame) = stream.next_frame().filter(|_| frames.len() < OF_A_STREAM) {
                    frames.push([frame.head, frame.tail].concat());
                }
            }
            begins.push(frames);
        }
        let macs = self.built.iter().zip(&begins).map(|(built, begins)| match built.table() {
            Some(table) => macs(table.frame(0).head),
            None => macs(begins.first().map_or(&[], Vec::as_slice)),
        });
        let macs: Vec<Macs> = macs.collect();
        let own = probes(nf, &macs).into_iter().zip(begins).zip(&self.built).zip(&self.specs);
        Ok(own
            .map(|(((probes, begins), built), spec)| match built.table() {
                Some(table) => PassFrames::after(spec.unasked(), table, probes),
                None => PassFrames::beginning(begins, probes),
            })
            .collect())
    }

    /// Writes the traces as captures, for a DUT that feeds itself. Returns the files and the number
    /// of packets in all of them.
    pub fn write_captures(&self, folder: &Folder) -> Result<(Vec<PathBuf>, u32), TrafficError> {
        let mut packets = 0;
        let mut paths = Vec::new();
        for (direction, (spec, source)) in self.specs.iter().zip(&self.built).enumerate() {
            let too_large = || TrafficError::TooLarge(spec.name.to_string());
            let table = source.table().ok_or_else(too_large)?;
            packets += u32::try_from(table.len()).map_err(|_| too_large())?;
            if packets > Fed::MOST_PACKETS {
                return Ok((paths, packets)); // refused by the wiring, with its limit
            }
            let path = Fed::capture(folder, direction);
            let write = |reason: String| TrafficError::Write { path: path.clone(), reason };
            let file = File::create(&path).map_err(|error| write(error.to_string()))?;
            let mut capture = CaptureWriter::new(BufWriter::new(file), Format::Pcap)
                .map_err(|error| write(error.to_string()))?;
            for place in 0..table.len() {
                let frame = table.frame(place).to_vec();
                capture
                    .write(Nanos(place as u64 * 1_000), &frame)
                    .map_err(|error| write(error.to_string()))?;
            }
            capture.finish().map_err(|error| write(error.to_string()))?;
            paths.push(path);
        }
        Ok((paths, packets))
    }
}

/// The MAC addresses of a frame; zeros behind the end of one that has none.
fn macs(frame: &[u8]) -> Macs {
    frame.first_chunk().copied().unwrap_or_default()
}
