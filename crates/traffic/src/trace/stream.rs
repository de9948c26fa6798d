//! Captures too large for memory: a thread reads ahead, the generator takes frames from chunks.
//!
//! The reader fills tables of about [`CHUNK_BYTES`] and hands them over a bounded channel; used tables
//! come back and are filled again, so that at most [`CHUNKS`] of them exist however large the file is.
//! When the generator is faster than the disk it waits, and [`PcapStream::stalls`] counts how often:
//! such a trial offered less than it intended. The thread ends with the stream: dropping it joins.

use super::capture::{CaptureFrames, CaptureSummary, read_through};
use super::source::{FrameRef, Laps};
use super::table::TableBuilder;
use super::{FrameTable, TraceError, TraceSpec};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use weir_units::Nanos;

/// Bytes of frames in a chunk, roughly.
pub const CHUNK_BYTES: usize = 4 << 20;
/// Chunks that wait to be sent, at most; one more is being sent and one being filled.
pub const CHUNKS: usize = 4;

type Chunk = Result<FrameTable, TraceError>;

/// A capture read while it is sent.
#[derive(Debug)]
pub struct PcapStream {
    summary: CaptureSummary,
    full: Option<Receiver<Chunk>>,
    empty: Sender<FrameTable>,
    chunk: Option<FrameTable>,
    next: usize,
    stalls: u64,
    error: Option<TraceError>,
    thread: Option<JoinHandle<()>>,
}

impl PcapStream {
    /// Reads the capture through once, then starts the thread that reads it for sending.
    pub(super) fn open(path: &Path, spec: &TraceSpec) -> Result<Self, TraceError> {
        let summary = read_through(path, spec, |_, _| {})?;
        Self::start(path, spec, summary)
    }

    fn start(path: &Path, spec: &TraceSpec, summary: CaptureSummary) -> Result<Self, TraceError> {
        let (full_in, full) = sync_channel(CHUNKS);
        let (empty, empty_out) = channel();
        let lap_gap = summary.has_gaps().then(|| summary.mean_gap());
        let reader =
            Reader { path: path.to_owned(), spec: spec.clone(), lap_gap, full: full_in, empty: empty_out };
        let thread = std::thread::Builder::new()
            .name("weir-capture".to_owned())
            .spawn(move || reader.run())
            .map_err(|error| TraceError::File { path: path.to_owned(), reason: error.to_string() })?;
        Ok(Self {
            summary,
            full: Some(full),
            empty,
            chunk: None,
            next: 0,
            stalls: 0,
            error: None,
            thread: Some(thread),
        })
    }

    /// What the capture holds.
    pub fn summary(&self) -> &CaptureSummary {
        &self.summary
    }

    /// How often the generator had to wait for the disk.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Why the stream ended early, where it did (the file changed or the disk failed meanwhile).
    pub fn error(&self) -> Option<&TraceError> {
        self.error.as_ref()
    }

    /// The next frame; `None` after the last of a trace sent once, or at an [`Self::error`].
    #[inline]
    pub fn next_frame(&mut self) -> Option<FrameRef<'_>> {
        if self.chunk.as_ref().is_none_or(|chunk| self.next == chunk.len()) && !self.next_chunk() {
            return None;
        }
        let chunk = self.chunk.as_ref()?;
        let i = self.next;
        self.next += 1;
        let frame = chunk.frame(i);
        Some(FrameRef { head: frame.head, tail: frame.tail, gap: chunk.gap(i), slot: chunk.slot(i) })
    }

    /// Takes the next chunk, waiting for it where the reader is behind.
    #[cold]
    fn next_chunk(&mut self) -> bool {
        if let Some(used) = self.chunk.take() {
            // The reader may have ended already: then nobody needs the table.
            let _ = self.empty.send(used);
        }
        let Some(full) = &self.full else { return false };
        let chunk = match full.try_recv() {
            Ok(chunk) => Some(chunk),
            Err(TryRecvError::Empty) => {
                self.stalls += 1;
                full.recv().ok()
            }
            Err(TryRecvError::Disconnected) => None,
        };
        self.next = 0;
        match chunk {
            Some(Ok(chunk)) => self.chunk = Some(chunk),
            Some(Err(error)) => self.error = Some(error),
            None => {}
        }
        self.chunk.is_some()
    }
}

impl Drop for PcapStream {
    fn drop(&mut self) {
        // Without a receiver the reader's next hand-over fails, which ends it.
        self.full = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The reading thread's own.
struct Reader {
    path: PathBuf,
    spec: TraceSpec,
    lap_gap: Option<Nanos>,
    full: SyncSender<Chunk>,
    empty: Receiver<FrameTable>,
}

impl Reader {
    fn run(self) {
        loop {
            match self.lap() {
                Ok(true) if self.spec.options.laps == Laps::Endless => {}
                Ok(_) => return,
                Err(error) => {
                    // The stream may be gone already: then nobody asks why.
                    let _ = self.full.send(Err(error));
                    return;
                }
            }
        }
    }

    /// Hands over the whole capture once; `false` when nobody takes it any more.
    fn lap(&self) -> Result<bool, TraceError> {
        let mut frames = CaptureFrames::open(&self.path, &self.spec)?;
        let mut first = true;
        loop {
            let mut builder = match self.empty.try_recv() {
                Ok(used) => TableBuilder::reuse(used),
                Err(_) => TableBuilder::with_own_bytes(),
            };
            while builder.bytes() < CHUNK_BYTES
                && let Some((frame, gap)) = frames.next_frame()?
            {
                builder.push_frame(frame);
                if let Some(lap_gap) = self.lap_gap {
                    builder.push_gap(if first { lap_gap } else { gap });
                }
                first = false;
            }
            match builder.build() {
                None if first => {
                    let reason = "it holds no frame any more".to_owned();
                    return Err(TraceError::NoFrames { path: self.path.clone(), reason });
                }
                None => return Ok(true),
                Some(chunk) => {
                    if self.full.send(Ok(chunk)).is_err() {
                        return Ok(false);
                    }
                }
            }
        }
    }
}
