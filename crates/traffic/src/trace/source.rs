//! A cursor over frames: a table in memory, or a capture read as a stream.

use super::TraceError;
use super::hash::TraceHash;
use super::stream::PcapStream;
use super::table::{FrameTable, HEAD_BYTES, Head, turned};
use crate::stamp::StampSlot;
use std::sync::Arc;
use weir_units::Nanos;

/// How often a trace is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Laps {
    /// Once.
    Once,
    /// Again and again.
    #[default]
    Endless,
}

/// The next frame to send: `head` and `tail` one after the other, in memory size (without FCS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRef<'a> {
    /// The first bytes, at most [`super::HEAD_BYTES`].
    pub head: &'a [u8],
    /// The rest.
    pub tail: &'a [u8],
    /// Recorded time since the frame before, where the trace is a capture.
    pub gap: Option<Nanos>,
    /// Whether and how it can be stamped.
    pub slot: StampSlot,
}

/// Walks a [`FrameTable`].
#[derive(Clone, Debug)]
pub struct TableCursor {
    table: Arc<FrameTable>,
    next: usize,
    laps: Laps,
    /// Laps that are over.
    lap: u64,
    /// The head of the frame at hand, where it is not as it is stored.
    made: Head,
}

impl TableCursor {
    /// Starts at the first frame.
    pub fn new(table: Arc<FrameTable>, laps: Laps) -> Self {
        Self { table, next: 0, laps, lap: 0, made: Head([0; HEAD_BYTES]) }
    }

    /// The table.
    pub fn table(&self) -> &Arc<FrameTable> {
        &self.table
    }

    /// Place in the table of the frame that comes next.
    pub fn position(&self) -> usize {
        self.next % self.table.len()
    }

    /// The lap, counted from 0, of the frame that comes next.
    pub fn lap(&self) -> u64 {
        self.lap + u64::from(self.next == self.table.len())
    }

    /// Moves on by up to `count` frames and returns their places in the table, in order; fewer only
    /// at the end of a trace sent once. The fast way for whoever holds the table.
    #[inline]
    pub fn advance(&mut self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let (start, len) = (self.next, self.table.len());
        let count = match self.laps {
            Laps::Once => count.min(len - start),
            Laps::Endless => count,
        };
        self.next = match self.laps {
            Laps::Once => start + count,
            Laps::Endless if start + count < len => start + count,
            Laps::Endless => (start + count) % len,
        };
        self.lap += (start + count).saturating_sub(self.next) as u64 / len as u64;
        let mut place = start;
        (0..count).map(move |_| {
            if place == len {
                place = 0;
            }
            place += 1;
            place - 1
        })
    }

    /// The next frame; `None` after the last of a trace sent once.
    #[inline]
    pub fn next_frame(&mut self) -> Option<FrameRef<'_>> {
        if self.next == self.table.len() {
            match self.laps {
                Laps::Once => return None,
                Laps::Endless => (self.next, self.lap) = (0, self.lap + 1),
            }
        }
        let i = self.next;
        self.next += 1;
        let (frame, mut slot) = (self.table.frame(i), self.table.slot(i));
        let mut head = frame.head;
        if let Some(turns) = self.table.turns() {
            let made = &mut self.made.0[..head.len()];
            made.copy_from_slice(head);
            slot = turned(turns, (i, self.lap), made, slot);
            head = made;
        }
        Some(FrameRef { head, tail: frame.tail, gap: self.table.gap(i), slot })
    }
}

/// Where a generator takes its frames from.
#[derive(Debug)]
pub enum FrameSource {
    /// Frames in memory.
    Table(TableCursor),
    /// A capture read while it is sent.
    Stream(Box<PcapStream>),
}

impl FrameSource {
    /// The next frame; `None` after the last of a trace sent once, or where a stream broke off.
    #[inline]
    pub fn next_frame(&mut self) -> Option<FrameRef<'_>> {
        match self {
            Self::Table(cursor) => cursor.next_frame(),
            Self::Stream(stream) => stream.next_frame(),
        }
    }

    /// The table, where the whole trace is in memory: for a loop without a cursor.
    pub fn table(&self) -> Option<&Arc<FrameTable>> {
        match self {
            Self::Table(cursor) => Some(cursor.table()),
            Self::Stream(_) => None,
        }
    }

    /// Deals a trace out to several senders: each flow goes to one of them, whole and in order. What has
    /// an order or gaps of its own (a stream, a capture's timing, a trace sent once) stays with one sender,
    /// and so does each flow: a trace of fewer flows than senders gives fewer sources.
    pub fn shares(self, senders: usize) -> Vec<Self> {
        match self {
            Self::Table(cursor)
                if senders > 1 && cursor.laps == Laps::Endless && !cursor.table.has_gaps() =>
            {
                let tables = super::share::by_flow(&cursor.table, senders).into_iter();
                tables.map(|table| Self::Table(TableCursor::new(Arc::new(table), Laps::Endless))).collect()
            }
            whole => vec![whole],
        }
    }

    /// Deals a trace out as [`Self::shares`] does, a capture as well, whose packets then come in their flows' order and at a
    /// schedule of the senders' own; nothing where it is not in memory.
    pub fn spread(self, senders: usize) -> Option<Vec<Self>> {
        let Self::Table(cursor) = self else { return None };
        let tables = super::share::by_flow(&cursor.table, senders).into_iter();
        Some(tables.map(|table| Self::Table(TableCursor::new(Arc::new(table), Laps::Endless))).collect())
    }

    /// Mean frame size of a lap, in bytes with FCS.
    pub fn mean_frame_bytes(&self) -> f64 {
        match self {
            Self::Table(cursor) => cursor.table().mean_frame_bytes(),
            Self::Stream(stream) => stream.summary().mean_frame_bytes(),
        }
    }

    /// Packets in one lap.
    pub fn packets(&self) -> u64 {
        match self {
            Self::Table(cursor) => cursor.table().len() as u64,
            Self::Stream(stream) => stream.summary().counts.sent,
        }
    }

    /// Whether the frames have recorded gaps.
    pub fn has_gaps(&self) -> bool {
        match self {
            Self::Table(cursor) => cursor.table().has_gaps(),
            Self::Stream(stream) => stream.summary().has_gaps(),
        }
    }

    /// The hash of one lap; see [`super::hash`].
    pub fn trace_hash(&self) -> TraceHash {
        match self {
            Self::Table(cursor) => cursor.table().hash(),
            Self::Stream(stream) => stream.summary().hash,
        }
    }

    /// How often the generator had to wait for the disk: never for a table.
    pub fn stalls(&self) -> u64 {
        match self {
            Self::Table(_) => 0,
            Self::Stream(stream) => stream.stalls(),
        }
    }

    /// Why a stream ended early, where it did.
    pub fn error(&self) -> Option<&TraceError> {
        match self {
            Self::Table(_) => None,
            Self::Stream(stream) => stream.error(),
        }
    }
}
