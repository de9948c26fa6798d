//! The sending end of a trace port.

use super::Count;
use crate::PortError;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_dpdk::{Burst, Packet};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureError, CaptureWriter, Format};

/// Bytes that are gathered before the file is written.
pub(super) const BUFFER: usize = 256 << 10;
/// The same before somebody who reads a pipe is given them: so much the count of what was sent is ahead of him.
const OF_A_PIPE: usize = 4 << 10;

/// The capture that all queues of a port write. It is complete when the last of them is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Sink(Arc<Mutex<Capture>>);

struct Capture {
    path: PathBuf,
    /// Gone when it is finished, or when the file could not be written.
    writer: Option<CaptureWriter<BufWriter<File>>>,
    error: Option<String>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).field("error", &self.error).finish()
    }
}

impl Sink {
    /// Begins a capture: pcapng where the name ends so, otherwise pcap, with nanoseconds.
    pub(crate) fn create(path: &Path) -> Result<Self, PortError> {
        let refused = |reason: String| PortError::Trace { file: path.to_owned(), reason };
        let format =
            if path.extension().is_some_and(|end| end == "pcapng") { Format::Pcapng } else { Format::Pcap };
        let file = File::create(path).map_err(|error| refused(error.to_string()))?;
        let is_pipe = file.metadata().is_ok_and(|about| about.file_type().is_fifo());
        let buffer = if is_pipe { OF_A_PIPE } else { BUFFER };
        let writer = CaptureWriter::new(BufWriter::with_capacity(buffer, file), format)
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self(Arc::new(Mutex::new(Capture { path: path.to_owned(), writer: Some(writer), error: None }))))
    }

    /// Why the file is not written any more, if it is not.
    pub(crate) fn error(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).error.clone()
    }

    /// Writes the packets of a burst, up to one that cannot be written. Returns how many, and bytes.
    fn write(&self, burst: &Burst) -> (usize, u64) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = &mut file.writer else { return (0, 0) };
        let now = now();
        let (mut packets, mut bytes) = (0, 0);
        for packet in burst.iter() {
            if let Err(error) = writer.write(now, packet.data()) {
                file.fail(&error);
                break;
            }
            packets += 1;
            bytes += packet.len() as u64;
        }
        (packets, bytes)
    }
}

impl Capture {
    fn fail(&mut self, error: &CaptureError) {
        self.error = Some(format!("{}: {error}", self.path.display()));
        self.writer = None;
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let finished =
            self.writer.take().map(|writer| writer.finish().and_then(|mut file| Ok(file.flush()?)));
        if let Some(Err(error)) = finished {
            // Nobody is left to be told otherwise: the port is closed.
            eprintln!("weir: {}: {error}; the capture is not complete", self.path.display());
        }
    }
}

/// The time, since 1970-01-01 UTC.
fn now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into()
}

/// Writes what is sent, or counts it only.
#[derive(Debug)]
pub struct TraceTx {
    sink: Option<Sink>,
    count: Arc<Count>,
}

impl TraceTx {
    pub(crate) fn new(sink: Option<Sink>) -> Self {
        Self { sink, count: Arc::default() }
    }

    pub(crate) fn count(&self) -> Arc<Count> {
        self.count.clone()
    }

    /// Takes packets from the front of the burst: all of them, unless the file cannot be written any
    /// more (a full disk): then they stay, as at a port whose ring is full. So does a burst with a
    /// packet in several buffers, of which only the first could be written; the switch drops such
    /// packets where they come in.
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        let (packets, bytes) = match &self.sink {
            None => (burst.len(), burst.iter().map(|packet| packet.len() as u64).sum()),
            Some(sink) if !burst.iter().any(Packet::is_chained) => sink.write(burst),
            Some(_) => (0, 0),
        };
        self.count.add(packets as u64, bytes);
        self.count.add_errors((burst.len() - packets) as u64);
        burst.drop_front(packets);
        packets
    }
}
