//! The traffic of one point: a trace for each direction, built once and sent as often as needed.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use weir_dut::folder::Folder;
use weir_dut::wiring::Fed;
use weir_traffic::Shape;
use weir_traffic::check::PassFrames;
use weir_traffic::probes::{Macs, probes};
use weir_traffic::trace::{
    Direction, FrameSource, FrameTable, Laps, Sizes, TableCursor, TraceError, TraceHash, TraceSpec,
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
    /// Some queue would have no packet.
    #[error(
        "the packets of {trace} have too few addresses for {queues} queues; take a trace of more flows, or fewer workers"
    )]
    TooFew {
        /// The trace.
        trace: String,
        /// Queues of each port.
        queues: usize,
    },
    /// Fewer flows than queues.
    #[error(
        "{trace} has {flows} flow(s) in a direction, and each of {queues} queues wants one at least; take a trace of more flows, \
         or fewer `queues`"
    )]
    FewFlows {
        /// The trace.
        trace: String,
        /// How many of its flows differ, where these are fewer than queues.
        flows: usize,
        /// Queues of each port.
        queues: usize,
    },
    /// A trace that cannot be dealt out.
    #[error("{trace} {why}, and cannot be spread over {queues} queues; {mend}")]
    Whole {
        /// The trace.
        trace: String,
        /// Why.
        why: &'static str,
        /// Queues of each port.
        queues: usize,
        /// How to mend it.
        mend: &'static str,
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
    /// Builds the traces for a function: `first` goes from port 0 to port 1; `second`, where given, the other way.
    pub fn build(
        nf: Nf,
        first: &str,
        second: Option<&str>,
        sizes: Option<Sizes>,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let mut specs = Vec::new();
        for (name, direction) in [Some(first), second].into_iter().zip(Direction::BOTH) {
            let Some(name) = name else { continue };
            let mut spec = TraceSpec::parse(name)?.direction(direction).seed(seed).over(nf);
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

    /// The largest frame that may come, a standard one with its tag at least.
    pub fn max_frame(&self) -> FrameSize {
        self.longest_frame().max(FrameSize::new(1522).expect("a legal size"))
    }

    /// The largest frame of the traces. Streams are not read ahead, so they may hold any.
    pub fn longest_frame(&self) -> FrameSize {
        let longest = self.built.iter().map(|source| match source.table() {
            Some(table) => table.lens().iter().copied().max().unwrap_or(0) + FCS_BYTES,
            None => FrameSize::MAX.bytes(),
        });
        let longest = longest.max().and_then(|bytes| FrameSize::new(u32::from(bytes)).ok());
        longest.unwrap_or(FrameSize::MAX)
    }

    /// Whether its TCP connections are opened, in each lap, before anything else of them comes.
    pub(crate) fn opens_connections(&self) -> bool {
        self.specs.iter().all(|spec| spec.name.opens_connections())
    }

    /// Whether the ports of its connections change from lap to lap.
    pub(crate) fn turns_ports(&self) -> bool {
        self.built.iter().any(|source| source.table().is_some_and(|table| table.turns().is_some()))
    }

    /// Whether every trace has recorded gaps.
    pub fn has_gaps(&self) -> bool {
        self.built.iter().all(FrameSource::has_gaps)
    }

    /// Hashes of the traces, by which two runs know that they sent the same bytes.
    pub fn hashes(&self) -> Vec<TraceHash> {
        self.built.iter().map(FrameSource::trace_hash).collect()
    }

    /// The laps of all directions; nothing where one is read as a stream.
    pub(crate) fn tables(&self) -> Option<Vec<&FrameTable>> {
        self.built.iter().map(|source| source.table().map(|table| &**table)).collect()
    }

    /// A fresh source per direction, from its first packet.
    pub fn sources(&self) -> Result<Vec<FrameSource>, TrafficError> {
        let source = |(spec, built): (&TraceSpec, &FrameSource)| match built.table() {
            Some(table) => Ok(FrameSource::Table(TableCursor::new(table.clone(), Laps::Endless))),
            None => Ok(spec.build()?),
        };
        self.specs.iter().zip(&self.built).map(source).collect()
    }

    /// The same for ports of so many queues: by direction, then by queue. Each flow goes by one of them, whole and in its
    /// order, and each has as many flows as the others.
    pub(crate) fn spread(&self, queues: usize, shape: Shape) -> Result<Vec<Vec<FrameSource>>, TrafficError> {
        let each = self.sources()?.into_iter().zip(&self.specs);
        let shared = each.map(|(source, spec)| {
            let trace = spec.name.to_string();
            if queues < 2 {
                return Ok(vec![source]);
            }
            if shape == Shape::Recorded {
                let (why, mend) = ("is sent at its recorded gaps, by one sender", "take another `shape`");
                return Err(TrafficError::Whole { trace, why, queues, mend });
            }
            let Some(shares) = source.spread(queues) else {
                let (why, mend) =
                    ("is too large for memory and read while it is sent", "take a smaller capture");
                return Err(TrafficError::Whole { trace, why, queues, mend });
            };
            match shares.len() {
                all if all == queues => Ok(shares),
                flows => Err(TrafficError::FewFlows { trace, flows, queues }),
            }
        });
        shared.collect()
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

    /// Writes the laps as templates, for a DUT that makes its packets itself. Returns the files, by direction, and the number of
    /// packets in all of them.
    pub fn write_laps(&self, folder: &Folder) -> Result<(Vec<PathBuf>, u32), TrafficError> {
        let (mut packets, mut written) = (0, Vec::new());
        for (direction, (spec, source)) in self.specs.iter().zip(&self.built).enumerate() {
            let too_large = || TrafficError::TooLarge(spec.name.to_string());
            let table = source.table().ok_or_else(too_large)?;
            packets += u32::try_from(table.len()).map_err(|_| too_large())?;
            let path = Fed::lap(folder, direction);
            let failed = |reason: String| TrafficError::Write { path: path.clone(), reason };
            let lap = table.lap().ok_or_else(too_large)?.map_err(|error| failed(error.to_string()))?;
            let mut file = BufWriter::new(File::create(&path).map_err(|error| failed(error.to_string()))?);
            let done = lap.write(&mut file).and_then(|()| file.flush());
            done.map_err(|error| failed(error.to_string()))?;
            written.push(path);
        }
        Ok((written, packets))
    }

    /// Writes the traces as captures, for a DUT that feeds itself through so many queues a port; none
    /// of more packets than it can feed itself. Returns the files, by direction and queue, and the number
    /// of packets in all of them.
    pub fn write_captures(
        &self,
        folder: &Folder,
        queues: usize,
        most: u32,
    ) -> Result<(Vec<Vec<PathBuf>>, u32), TrafficError> {
        let mut packets = 0;
        let mut written = Vec::new();
        for (direction, (spec, source)) in self.specs.iter().zip(&self.built).enumerate() {
            let too_large = || TrafficError::TooLarge(spec.name.to_string());
            let table = source.table().ok_or_else(too_large)?;
            packets += u32::try_from(table.len()).map_err(|_| too_large())?;
            let paths: Vec<PathBuf> =
                (0..queues).map(|queue| Fed::capture(folder, direction, queue)).collect();
            if packets <= most {
                for (queue, path) in paths.iter().enumerate() {
                    let count = write_capture(path, table, (queue, queues))?;
                    if count == 0 {
                        return Err(TrafficError::TooFew { trace: spec.name.to_string(), queues });
                    }
                }
            } // else it is refused by the wiring, with its limit
            written.push(paths);
        }
        Ok((written, packets))
    }
}

/// Writes the packets of one queue of so many. Returns how many they are.
fn write_capture(
    path: &Path,
    table: &FrameTable,
    (queue, queues): (usize, usize),
) -> Result<usize, TrafficError> {
    let failed = |reason: String| TrafficError::Write { path: path.to_owned(), reason };
    let file = File::create(path).map_err(|error| failed(error.to_string()))?;
    let mut capture =
        CaptureWriter::new(BufWriter::new(file), Format::Pcap).map_err(|error| failed(error.to_string()))?;
    let mut count = 0;
    for place in 0..table.len() {
        let frame = table.frame(place).to_vec();
        if queue_of(&frame, queues) == queue {
            capture.write(Nanos(place as u64 * 1_000), &frame).map_err(|error| failed(error.to_string()))?;
            count += 1;
        }
    }
    capture.finish().map_err(|error| failed(error.to_string()))?;
    Ok(count)
}

/// The queue of a packet: by its pair of addresses, whichever comes first, so that both directions of a
/// conversation meet. IPv4 addresses where it has them, else MAC addresses.
fn queue_of(frame: &[u8], queues: usize) -> usize {
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    let pair = if is_ipv4 { frame.get(26..34) } else { frame.get(..12) };
    let (one, other) = pair.map_or((&[][..], &[][..]), |pair| pair.split_at(pair.len() / 2));
    let bits = |address: &[u8]| address.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    // Addition does not mind the order.
    (mixed(mixed(bits(one)).wrapping_add(mixed(bits(other)))) % queues as u64) as usize
}

/// A number mixed well (the finaliser of SplitMix64, Steele et al., OOPSLA 2014).
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The MAC addresses of a frame; zeros behind the end of one that has none.
fn macs(frame: &[u8]) -> Macs {
    frame.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_share_a_trace_by_addresses_and_both_directions_of_a_pair_meet() {
        let traffic = Traffic::build(Nf::L2Fwd, "flows:1000", Some("flows:1000"), None, 1).unwrap();
        let folder = Folder::new().unwrap();
        let (paths, packets) = traffic.write_captures(&folder, 2, 2000).unwrap();
        assert_eq!((paths.len(), paths[0].len(), packets), (2, 2, 2000));
        let sizes: Vec<u64> =
            paths.iter().flatten().map(|path| std::fs::metadata(path).unwrap().len()).collect();
        assert!(sizes.iter().all(|size| size * 5 > sizes[0] * 4 && size * 4 < sizes[0] * 5), "{sizes:?}");
        let mut frame = [0; 60];
        frame[12] = 8;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 198, 18, 3, 7]);
        let forth = queue_of(&frame, 7);
        frame[26..34].copy_from_slice(&[198, 18, 3, 7, 10, 0, 0, 1]);
        assert_eq!(queue_of(&frame, 7), forth);
    }

    #[test]
    fn a_single_flow_cannot_feed_two_queues() {
        let traffic = Traffic::build(Nf::L2Fwd, "simple", None, None, 1).unwrap();
        let error = traffic.write_captures(&Folder::new().unwrap(), 2, 1).unwrap_err().to_string();
        assert!(error.contains("simple") && error.contains("2 queues"), "{error}");
    }
}
