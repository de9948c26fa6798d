//! Frames in memory, laid out for a generator that must outrun any dataplane.
//!
//! The first 64 bytes of each distinct frame stand in one cache line ([`Head`]); what follows is the
//! payload. Synthetic traces share one payload pattern ([`TAIL`]), so that half a million 1,500-byte
//! frames take 32 MB; captures bring their own bytes. A lap sends the frames in storage order, or by
//! a list of indices where frames repeat. Reading a frame is two loads (three with an order).
//!
//! Where the connections of each lap have client ports of their own ([`PortTurns`]), a frame is one of its lap
//! ([`FrameTable::made`]); what is stored is the first lap's.
//!
//! A table is immutable once built and shared between threads by `Arc`.

use super::hash::{TraceHash, TraceHasher};
use crate::stamp::StampSlot;
use weir_units::{FCS_BYTES, Nanos};
use weir_wire::EthernetRepr;
use weir_wire::lap::{Lap, LapError, PortTurns};

pub use weir_wire::lap::{HEAD_BYTES, Head, TAIL};

/// A frame of a table: `head` and `tail` one after the other, in memory size (without FCS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The first bytes, at most [`HEAD_BYTES`].
    pub head: &'a [u8],
    /// The rest; empty for frames that the head holds whole.
    pub tail: &'a [u8],
}

impl Frame<'_> {
    /// Bytes in memory, without FCS.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Never true for a frame of a table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the frame to the start of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::len`].
    #[inline]
    pub fn copy_to(&self, buffer: &mut [u8]) {
        buffer[..self.head.len()].copy_from_slice(self.head);
        buffer[self.head.len()..self.len()].copy_from_slice(self.tail);
    }

    /// The frame in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head, self.tail].concat()
    }
}

/// Where the bytes after the heads are.
#[derive(Debug, PartialEq, Eq)]
enum Tails {
    /// All frames continue with [`TAIL`].
    Pattern,
    /// Frame `i` continues with `bytes[starts[i]..]`.
    Own { bytes: Vec<u8>, starts: Vec<u64> },
}

/// How the frames' stamp slots are kept.
#[derive(Debug, PartialEq, Eq)]
enum Slots {
    /// All alike.
    Same(StampSlot),
    /// One a frame.
    Each(Vec<StampSlot>),
}

/// The frames of one lap, in order.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameTable {
    heads: Vec<Head>,
    lens: Vec<u16>,
    tails: Tails,
    slots: Slots,
    order: Option<Vec<u32>>,
    gaps: Option<Vec<Nanos>>,
    turns: Option<PortTurns>,
    bytes_a_lap: u64,
}

impl FrameTable {
    /// Packets in one lap. Never zero.
    #[inline]
    pub fn len(&self) -> usize {
        self.order.as_ref().map_or(self.heads.len(), Vec::len)
    }

    /// Never true: a table is built with at least one frame.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which distinct frame packet `i` of the lap is.
    ///
    /// # Panics
    /// When `i` is not below [`Self::len`].
    #[inline]
    pub fn index(&self, i: usize) -> usize {
        match &self.order {
            None => i,
            Some(order) => order[i] as usize,
        }
    }

    /// Packet `i` of the lap.
    ///
    /// # Panics
    /// When `i` is not below [`Self::len`].
    #[inline]
    pub fn frame(&self, i: usize) -> Frame<'_> {
        self.distinct_frame(self.index(i))
    }

    /// Whether and how packet `i` of the lap can be stamped.
    #[inline]
    pub fn slot(&self, i: usize) -> StampSlot {
        match &self.slots {
            Slots::Same(slot) => *slot,
            Slots::Each(slots) => slots[self.index(i)],
        }
    }

    /// The same of distinct frame `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Self::distinct`].
    pub fn slot_of(&self, index: usize) -> StampSlot {
        match &self.slots {
            Slots::Same(slot) => *slot,
            Slots::Each(slots) => slots[index],
        }
    }

    /// How client ports change from lap to lap, where they do.
    #[inline]
    pub fn turns(&self) -> Option<&PortTurns> {
        self.turns.as_ref()
    }

    /// Packet `i` of a lap, counted from 0, and whether and how it can be stamped.
    pub fn made(&self, i: usize, lap: u64) -> (Vec<u8>, StampSlot) {
        let (mut frame, slot) = (self.frame(i).to_vec(), self.slot(i));
        let slot = self.turns.map_or(slot, |turns| turned(&turns, (i, lap), &mut frame, slot));
        (frame, slot)
    }

    /// The lap for a source that makes the packets itself; nothing where its frames have bytes of their own.
    pub fn lap(&self) -> Option<Result<Lap, LapError>> {
        let order = || self.order.clone().unwrap_or_else(|| (0..self.heads.len() as u32).collect());
        self.is_generated().then(|| Lap::new(self.heads.clone(), self.lens.clone(), order(), self.turns))
    }

    /// Recorded time between packet `i - 1` and packet `i`; for packet 0 the mean, so that laps join.
    #[inline]
    pub fn gap(&self, i: usize) -> Option<Nanos> {
        self.gaps.as_ref().map(|gaps| gaps[i])
    }

    /// Distinct frames in storage.
    pub fn distinct(&self) -> usize {
        self.heads.len()
    }

    /// Distinct frame `index`, in storage order.
    ///
    /// # Panics
    /// When `index` is not below [`Self::distinct`].
    #[inline]
    pub fn distinct_frame(&self, index: usize) -> Frame<'_> {
        let len = usize::from(self.lens[index]);
        let head = &self.heads[index].0[..len.min(HEAD_BYTES)];
        let rest = len.saturating_sub(HEAD_BYTES);
        let tail = match &self.tails {
            Tails::Pattern => &TAIL[..rest],
            Tails::Own { bytes, starts } => {
                let start = starts[index] as usize;
                &bytes[start..start + rest]
            }
        };
        Frame { head, tail }
    }

    /// The heads in storage order, for a loop that copies cache lines.
    #[inline]
    pub fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// Memory sizes (without FCS) in storage order.
    #[inline]
    pub fn lens(&self) -> &[u16] {
        &self.lens
    }

    /// The lap as indices of distinct frames; `None` means storage order.
    #[inline]
    pub fn order(&self) -> Option<&[u32]> {
        self.order.as_deref()
    }

    /// The memory size of all frames (without FCS), where they are alike.
    pub fn uniform_len(&self) -> Option<u16> {
        self.lens.iter().all(|len| *len == self.lens[0]).then(|| self.lens[0])
    }

    /// The slot of all frames, where they are alike.
    pub fn uniform_slot(&self) -> Option<StampSlot> {
        match &self.slots {
            Slots::Same(slot) => Some(*slot),
            Slots::Each(slots) => slots.iter().all(|slot| *slot == slots[0]).then(|| slots[0]),
        }
    }

    /// Whether every frame can be stamped.
    pub fn is_stampable(&self) -> bool {
        match &self.slots {
            Slots::Same(slot) => slot.is_stampable(),
            Slots::Each(slots) => slots.iter().all(|slot| slot.is_stampable()),
        }
    }

    /// Whether the frames were generated, all checksums right; else they come from a capture.
    pub fn is_generated(&self) -> bool {
        matches!(self.tails, Tails::Pattern)
    }

    /// The Ethernet header of all frames, where they are alike.
    pub fn uniform_link(&self) -> Option<[u8; EthernetRepr::BYTES]> {
        let first: [u8; EthernetRepr::BYTES] = *self.heads.first()?.0.first_chunk()?;
        self.heads.iter().all(|head| head.0.starts_with(&first)).then_some(first)
    }

    /// Whether the lap has recorded gaps.
    pub fn has_gaps(&self) -> bool {
        self.gaps.is_some()
    }

    /// Mean frame size over one lap, in bytes with FCS.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.bytes_a_lap as f64 / self.len() as f64 + f64::from(FCS_BYTES)
    }

    /// Share of a lap's packets that can be stamped, 0 to 1.
    pub fn stampable_share(&self) -> f64 {
        match self.uniform_slot() {
            Some(slot) => f64::from(u8::from(slot.is_stampable())),
            None => {
                let stampable = (0..self.len()).filter(|i| self.slot(*i).is_stampable()).count();
                stampable as f64 / self.len() as f64
            }
        }
    }

    /// The hash of one lap; see [`super::hash`]. Takes time in proportion to the lap's bytes.
    pub fn hash(&self) -> TraceHash {
        let mut hasher = TraceHasher::default();
        for i in 0..self.len() {
            let frame = self.frame(i);
            hasher.add(frame.head, frame.tail);
        }
        hasher.finish()
    }

    /// Memory the table takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let tails = match &self.tails {
            Tails::Pattern => 0,
            Tails::Own { bytes, starts } => bytes.capacity() + starts.capacity() * size_of::<u64>(),
        };
        let slots = match &self.slots {
            Slots::Same(_) => 0,
            Slots::Each(slots) => slots.capacity() * size_of::<StampSlot>(),
        };
        let order = self.order.as_ref().map_or(0, |order| order.capacity() * size_of::<u32>());
        let gaps = self.gaps.as_ref().map_or(0, |gaps| gaps.capacity() * size_of::<Nanos>());
        self.heads.capacity() * size_of::<Head>() + self.lens.capacity() * 2 + tails + slots + order + gaps
    }
}

/// Gives packet `i` of a lap the client port that its connection has there. Returns how it is stamped then.
#[inline]
pub(crate) fn turned(
    turns: &PortTurns,
    (i, lap): (usize, u64),
    frame: &mut [u8],
    slot: StampSlot,
) -> StampSlot {
    match turns.apply(frame, turns.turn(turns.lap_of(lap, i))) {
        Some((old, new)) => slot.with_word_changed(old, new),
        None => slot,
    }
}

/// Builds a [`FrameTable`].
#[derive(Debug)]
pub(super) struct TableBuilder {
    table: FrameTable,
}

impl TableBuilder {
    /// A table whose frames continue with [`TAIL`].
    pub(super) fn with_pattern(distinct: usize) -> Self {
        Self::new(Tails::Pattern, distinct)
    }

    /// A table whose frames bring their own bytes.
    pub(super) fn with_own_bytes() -> Self {
        Self::new(Tails::Own { bytes: Vec::new(), starts: Vec::new() }, 0)
    }

    fn new(tails: Tails, distinct: usize) -> Self {
        Self {
            table: FrameTable {
                heads: Vec::with_capacity(distinct),
                lens: Vec::with_capacity(distinct),
                tails,
                slots: Slots::Each(Vec::with_capacity(distinct)),
                order: None,
                gaps: None,
                turns: None,
                bytes_a_lap: 0,
            },
        }
    }

    /// Adds a distinct frame by its head and memory size, continued by [`TAIL`]; returns its index.
    pub(super) fn push_head(&mut self, head: Head, len: u16, slot: StampSlot) -> u32 {
        debug_assert!(matches!(self.table.tails, Tails::Pattern));
        self.push(head, len, slot)
    }

    /// Adds a distinct frame of its own bytes; returns its index.
    pub(super) fn push_frame(&mut self, frame: &[u8]) -> u32 {
        self.push_stamped(frame, StampSlot::of(frame))
    }

    /// The same of a frame that is stamped otherwise than its outermost headers say.
    pub(super) fn push_stamped(&mut self, frame: &[u8], slot: StampSlot) -> u32 {
        let mut head = Head([0; HEAD_BYTES]);
        let cut = frame.len().min(HEAD_BYTES);
        head.0[..cut].copy_from_slice(&frame[..cut]);
        if let Tails::Own { bytes, starts } = &mut self.table.tails {
            starts.push(bytes.len() as u64);
            bytes.extend_from_slice(&frame[cut..]);
        }
        self.push(head, frame.len() as u16, slot)
    }

    fn push(&mut self, head: Head, len: u16, slot: StampSlot) -> u32 {
        let index = self.table.heads.len() as u32;
        self.table.heads.push(head);
        self.table.lens.push(len);
        if let Slots::Each(slots) = &mut self.table.slots {
            slots.push(slot);
        }
        index
    }

    /// Has the client ports of each lap's connections change.
    pub(super) fn turn_ports(&mut self, turns: PortTurns) {
        self.table.turns = Some(turns);
    }

    /// Adds the recorded time before the frame pushed last.
    pub(super) fn push_gap(&mut self, gap: Nanos) {
        self.table.gaps.get_or_insert_default().push(gap);
    }

    /// Sets the gap before the first frame, so that laps join; with `None` the table has no gaps.
    pub(super) fn join_laps(&mut self, gap: Option<Nanos>) {
        match (gap, &mut self.table.gaps) {
            (Some(gap), Some(gaps)) => gaps[0] = gap,
            _ => self.table.gaps = None,
        }
    }

    /// Bytes of the frames so far, in memory.
    pub(super) fn bytes(&self) -> usize {
        let beyond = match &self.table.tails {
            Tails::Pattern => 0,
            Tails::Own { bytes, .. } => bytes.len(),
        };
        self.table.heads.len() * HEAD_BYTES + beyond
    }

    /// Forgets all frames and keeps the memory.
    pub(super) fn reuse(mut table: FrameTable) -> Self {
        table.heads.clear();
        table.lens.clear();
        match &mut table.tails {
            Tails::Pattern => {}
            Tails::Own { bytes, starts } => {
                bytes.clear();
                starts.clear();
            }
        }
        match &mut table.slots {
            Slots::Same(_) => table.slots = Slots::Each(Vec::new()),
            Slots::Each(slots) => slots.clear(),
        }
        if let Some(gaps) = &mut table.gaps {
            gaps.clear();
        }
        table.order = None;
        table.bytes_a_lap = 0;
        Self { table }
    }

    /// The table, in storage order; `None` without a frame.
    pub(super) fn build(self) -> Option<FrameTable> {
        self.finish(None)
    }

    /// The table, its lap in the given order of indices; `None` without a frame.
    pub(super) fn build_in_order(self, order: Vec<u32>) -> Option<FrameTable> {
        self.finish(Some(order))
    }

    fn finish(self, order: Option<Vec<u32>>) -> Option<FrameTable> {
        let mut table = self.table;
        table.order = order;
        if table.is_empty() {
            return None;
        }
        table.bytes_a_lap = (0..table.len()).map(|i| u64::from(table.lens[table.index(i)])).sum();
        if let Slots::Each(slots) = &table.slots
            && slots.iter().all(|slot| *slot == slots[0])
        {
            table.slots = Slots::Same(slots[0]);
        }
        Some(table)
    }
}
