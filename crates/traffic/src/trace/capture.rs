//! Captures as traces: which packets are sent, and as what.
//!
//! A packet is sent as captured, rewritten where asked, padded with zeros to 60 B (64 with FCS) where
//! shorter. Packets shorter than an Ethernet header or longer than [`FrameSize::MAX`] are left out and
//! counted. Packets that the capture's snap length cut are refused unless the caller says whether to
//! pad them to their length on the wire or to leave them out: a silently shortened packet would
//! measure another workload.
//!
//! A capture is first read through once, whole: its errors, counts, mean size and hash are known
//! before a measurement starts. One of at most [`CaptureOptions::budget`] bytes then stays in memory;
//! a larger one is read again by [`super::stream`] while it is sent.

use super::hash::{TraceHash, TraceHasher};
use super::table::TableBuilder;
use super::{FrameTable, Rewrite, TraceError, TraceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use weir_units::{FCS_BYTES, FrameSize, Nanos};
use weir_wire::EthernetRepr;
use weir_wire::pcap::{CaptureReader, CapturedPacket};

/// What becomes of packets that the capture's snap length cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutPackets {
    /// The capture is refused at the first of them.
    #[default]
    Refuse,
    /// They are padded with zeros to their length on the wire; their payload checksums are then wrong.
    Pad,
    /// They are left out.
    Skip,
}

/// How a capture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Packets cut by the snap length.
    pub cut: CutPackets,
    /// Largest file that is kept in memory, in bytes.
    pub budget: u64,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { cut: CutPackets::Refuse, budget: 256 << 20 }
    }
}

/// What became of a capture's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureCounts {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that are sent.
    pub sent: u64,
    /// Cut by the snap length (padded or left out, as asked).
    pub cut: u64,
    /// Padded to the least Ethernet frame.
    pub padded: u64,
    /// Left out: shorter than an Ethernet header.
    pub too_short: u64,
    /// Left out: longer than Weir sends.
    pub too_long: u64,
    /// Captured earlier than the packet before; the gap counts as zero.
    pub backwards: u64,
    /// Without a time stamp; then the trace has no gaps.
    pub untimed: u64,
}

/// A capture, read through once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaptureSummary {
    /// What became of its packets.
    pub counts: CaptureCounts,
    /// Bytes of the sent frames in memory, without FCS.
    pub bytes: u64,
    /// From the first sent packet to the last.
    pub duration: Nanos,
    /// Hash of the sent frames, in order.
    pub hash: TraceHash,
}

impl CaptureSummary {
    /// Mean frame size in bytes with FCS.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.bytes as f64 / self.counts.sent as f64 + f64::from(FCS_BYTES)
    }

    /// Mean time between packets; it joins the laps.
    pub fn mean_gap(&self) -> Nanos {
        Nanos(self.duration.0 / (self.counts.sent - 1).max(1))
    }

    /// Whether the frames have recorded gaps.
    pub fn has_gaps(&self) -> bool {
        self.counts.untimed == 0
    }
}

/// Reads the frames of a capture that are sent, one by one.
pub(super) struct CaptureFrames {
    path: PathBuf,
    reader: CaptureReader<File>,
    rewrite: Rewrite,
    cut: CutPackets,
    counts: CaptureCounts,
    last: Option<Nanos>,
    frame: Vec<u8>,
}

impl CaptureFrames {
    /// Opens the capture of a specification.
    pub(super) fn open(path: &Path, spec: &TraceSpec) -> Result<Self, TraceError> {
        let failed = |reason: String| TraceError::File { path: path.to_owned(), reason };
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        if file.metadata().is_ok_and(|file| file.is_dir()) {
            return Err(failed("it is a directory; give a pcap or pcapng file".to_owned()));
        }
        let reader = CaptureReader::new(file).map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            reader,
            rewrite: spec.options.rewrite(),
            cut: spec.options.capture.cut,
            counts: CaptureCounts::default(),
            last: None,
            frame: Vec::new(),
        })
    }

    /// The next frame that is sent and its gap to the one sent before; nothing at the end.
    pub(super) fn next_frame(&mut self) -> Result<Option<(&[u8], Nanos)>, TraceError> {
        loop {
            let at = self.reader.offset();
            let packet = self.reader.next_packet();
            let failed = |reason: String| TraceError::File { path: self.path.clone(), reason };
            let Some(packet) = packet.map_err(|error| failed(error.to_string()))? else { return Ok(None) };
            self.counts.packets += 1;
            if packet.is_cut() && self.cut == CutPackets::Refuse {
                return Err(failed(format!(
                    "packet {} (byte {at}) was cut by the capture's snap length: {} of {} bytes are there; \
                     have cut packets padded or skipped, or capture again without a snap length",
                    self.counts.packets,
                    packet.data.len(),
                    packet.original_len
                )));
            }
            let timestamp = packet.timestamp;
            if !prepare(&packet, &mut self.frame, &mut self.counts, self.cut) {
                continue;
            }
            self.rewrite.apply(&mut self.frame);
            if !fit(&mut self.frame, &mut self.counts) {
                continue;
            }
            self.counts.sent += 1;
            let gap = self.gap(timestamp);
            return Ok(Some((&self.frame, gap)));
        }
    }

    fn gap(&mut self, timestamp: Option<Nanos>) -> Nanos {
        let Some(now) = timestamp else {
            self.counts.untimed += 1;
            return Nanos(0);
        };
        let before = self.last.unwrap_or(now);
        self.counts.backwards += u64::from(now < before);
        self.last = Some(now);
        Nanos(now.0.saturating_sub(before.0))
    }

    /// What became of the packets so far.
    pub(super) fn counts(&self) -> CaptureCounts {
        self.counts
    }
}

/// Copies a packet into `frame` as it was on the wire; says whether it may be sent.
fn prepare(
    packet: &CapturedPacket<'_>,
    frame: &mut Vec<u8>,
    counts: &mut CaptureCounts,
    cut: CutPackets,
) -> bool {
    counts.cut += u64::from(packet.is_cut());
    if packet.is_cut() && cut == CutPackets::Skip {
        return false;
    }
    if packet.original_len > u32::from(FrameSize::MAX.without_fcs()) {
        counts.too_long += 1;
        return false;
    }
    if packet.data.len() < EthernetRepr::BYTES {
        counts.too_short += 1;
        return false;
    }
    frame.clear();
    frame.extend_from_slice(packet.data);
    frame.resize(packet.original_len as usize, 0);
    true
}

/// Pads a frame to the least size; says whether it is short enough to be sent.
fn fit(frame: &mut Vec<u8>, counts: &mut CaptureCounts) -> bool {
    let least = usize::from(FrameSize::MIN.without_fcs());
    if frame.len() < least {
        counts.padded += 1;
        frame.resize(least, 0);
    }
    let fits = frame.len() <= usize::from(FrameSize::MAX.without_fcs());
    counts.too_long += u64::from(!fits);
    fits
}

/// Reads a capture through, giving every sent frame and its gap to `see`.
pub(super) fn read_through(
    path: &Path,
    spec: &TraceSpec,
    mut see: impl FnMut(&[u8], Nanos),
) -> Result<CaptureSummary, TraceError> {
    let mut frames = CaptureFrames::open(path, spec)?;
    let mut hasher = TraceHasher::default();
    let (mut bytes, mut duration) = (0_u64, 0_u64);
    while let Some((frame, gap)) = frames.next_frame()? {
        hasher.add(frame, &[]);
        bytes += frame.len() as u64;
        duration += gap.0;
        see(frame, gap);
    }
    let counts = frames.counts();
    if counts.sent == 0 {
        let reason = format!(
            "of {} packets, {} are shorter than an Ethernet header, {} longer than {}, {} cut and skipped",
            counts.packets,
            counts.too_short,
            counts.too_long,
            FrameSize::MAX,
            counts.cut
        );
        return Err(TraceError::NoFrames { path: path.to_owned(), reason });
    }
    Ok(CaptureSummary { counts, bytes, duration: Nanos(duration), hash: hasher.finish() })
}

/// Whether a capture is small enough to be kept in memory.
pub(super) fn fits_in_memory(path: &Path, spec: &TraceSpec) -> Result<bool, TraceError> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(file.len() <= spec.options.capture.budget),
        Err(error) => Err(TraceError::File { path: path.to_owned(), reason: error.to_string() }),
    }
}

/// Loads a capture into memory.
pub(super) fn load(path: &Path, spec: &TraceSpec) -> Result<FrameTable, TraceError> {
    let mut builder = TableBuilder::with_own_bytes();
    let summary = read_through(path, spec, |frame, gap| {
        builder.push_frame(frame);
        builder.push_gap(gap);
    })?;
    builder.join_laps(summary.has_gaps().then(|| summary.mean_gap()));
    Ok(builder.build().expect("a capture without frames was refused"))
}
