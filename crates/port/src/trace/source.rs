//! The receiving end of a trace port.

use super::{Count, Frames, Replay};
use crate::TooLong;
use std::sync::Arc;
use weir_cpu::{Ticks, prefetch};
use weir_dpdk::{Burst, Pool};
use weir_wire::lap::LapCursor;

/// Replays its part of a capture or a lap into packets of a pool.
#[derive(Debug)]
pub struct TraceRx {
    replay: Replay,
    pool: Pool,
    /// The next of a capture's frames.
    next: usize,
    looped: bool,
    pace: Option<Pace>,
    /// Packets to be filled.
    spare: Burst,
    too_long: TooLong,
    count: Arc<Count>,
}

/// A rate, kept by the TSC from the first poll on.
#[derive(Debug)]
struct Pace {
    packets_per_tick: f64,
    begin: Option<Ticks>,
    replayed: u64,
}

impl Pace {
    /// Packets that are due by now.
    fn due(&mut self) -> usize {
        let now = Ticks::now();
        let begin = *self.begin.get_or_insert(now);
        let due = (now.since(begin) as f64 * self.packets_per_tick) as u64 + 1;
        usize::try_from(due.saturating_sub(self.replayed)).unwrap_or(usize::MAX)
    }
}

impl TraceRx {
    pub(crate) fn new(replay: Replay, pool: Pool, looped: bool, packets_per_tick: Option<f64>) -> Self {
        let pace =
            packets_per_tick.map(|packets_per_tick| Pace { packets_per_tick, begin: None, replayed: 0 });
        let (spare, too_long) = (Burst::new(), TooLong::default());
        Self { replay, pool, next: 0, looped, pace, spare, too_long, count: Arc::default() }
    }

    pub(crate) fn count(&self) -> Arc<Count> {
        self.count.clone()
    }

    /// Receives the next frames, as many as fit and are due. When the pool is empty
    /// nothing is received, and nothing is skipped: the next poll tries again.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let left = match &self.replay {
            replay if self.looped && replay.len() > 0 => usize::MAX,
            Replay::Frames(frames) => frames.len() - self.next,
            Replay::Lap(cursor) => cursor.left(),
        };
        let due = self.pace.as_mut().map_or(usize::MAX, Pace::due);
        let count = burst.room().min(left).min(due);
        if count == 0 || !self.pool.fill(&mut self.spare, count) {
            return 0;
        }
        let before = burst.len();
        let bytes = match &mut self.replay {
            Replay::Frames(frames) => {
                replay_frames(frames, &mut self.next, &mut self.spare, burst, &mut self.too_long)
            }
            Replay::Lap(cursor) => make_frames(cursor, &mut self.spare, burst),
        };
        if let Some(pace) = &mut self.pace {
            pace.replayed += count as u64;
        }
        let received = burst.len() - before;
        self.count.add(received as u64, bytes);
        received
    }

    /// Frames of the capture whose turn it was and that no packet buffer holds, since this was asked last.
    pub fn take_too_long(&mut self) -> TooLong {
        std::mem::take(&mut self.too_long)
    }
}

/// Copies a capture's next frames into fresh packets, and moves these into the burst. Returns their bytes.
fn replay_frames(
    frames: &Frames,
    next: &mut usize,
    spare: &mut Burst,
    burst: &mut Burst,
    too_long: &mut TooLong,
) -> u64 {
    let mut bytes = 0;
    for _ in 0..spare.len() {
        if *next == frames.len() {
            *next = 0;
        }
        match frames.get(*next) {
            Ok(frame) => {
                let Some(mut packet) = spare.pop() else { break };
                // Its length was compared with the buffers' when the capture was read.
                packet.set_len(frame.len() as u16).copy_from_slice(frame);
                bytes += frame.len() as u64;
                drop(burst.push(packet)); // there is room
            }
            Err(len) => too_long.add(len),
        }
        *next += 1;
    }
    spare.clear();
    bytes
}

/// Makes a lap's next frames in fresh packets, and moves these into the burst. Returns their bytes.
fn make_frames(cursor: &mut LapCursor, spare: &mut Burst, burst: &mut Burst) -> u64 {
    // A template is one of hundreds of thousands: it is fetched while those of the burst before are made.
    cursor.ahead(spare.len()).for_each(prefetch);
    let mut bytes = 0;
    while let Some(mut packet) = spare.pop() {
        let len = cursor.next_len();
        // It was compared with the buffers' room when the lap was read.
        cursor.make(packet.set_len(len));
        bytes += u64::from(len);
        drop(burst.push(packet)); // there is room
    }
    bytes
}
