//! What a trace port replays: a capture's frames, or a lap of templates. A file says itself which it is.

use super::Frames;
use super::frames::queue_of;
use crate::PortError;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use weir_units::FrameSize;
use weir_wire::lap::{Lap, LapCursor, MAGIC};

/// One queue's share.
#[derive(Debug)]
pub(crate) enum Replay {
    /// Frames that were captured.
    Frames(Frames),
    /// Templates.
    Lap(LapCursor),
}

impl Replay {
    /// Reads a file for a port of so many queues: see [`Frames::read`]. `room` is the longest frame that a packet buffer holds.
    pub(crate) fn read(path: &Path, queues: u16, room: u16) -> Result<Vec<Self>, PortError> {
        let refused = |reason: String| PortError::Trace { file: path.to_owned(), reason };
        let mut file = File::open(path).map_err(|error| refused(error.to_string()))?;
        let mut begins = Vec::new();
        let looked = file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut begins);
        looked.map_err(|error| refused(error.to_string()))?;
        if begins != MAGIC {
            return Ok(Frames::read(path, queues, room)?.into_iter().map(Self::Frames).collect());
        }
        let bytes = file.metadata().map_err(|error| refused(error.to_string()))?.len();
        let mut whole = BufReader::new(begins.as_slice().chain(file));
        let lap = Lap::read(&mut whole, bytes).map_err(|error| refused(error.to_string()))?;
        if lap.longest() > room {
            return Err(refused(format!(
                "its longest packet has {} bytes, and a packet buffer has room for {room}: set max_frame as large as the packets \
                 that are to come in, {} at most",
                lap.longest(),
                FrameSize::MAX.bytes()
            )));
        }
        let queues = usize::from(queues.max(1));
        if queues == 1 {
            return Ok(vec![Self::Lap(LapCursor::new(lap))]);
        }
        let part = |queue| lap.part(|head| queue_of(head, queues) == queue);
        Ok((0..queues).map(|queue| Self::Lap(LapCursor::new(part(queue)))).collect())
    }

    /// Packets in all.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Frames(frames) => frames.len(),
            Self::Lap(cursor) => cursor.lap().len(),
        }
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::Frames(Frames::default())
    }
}
