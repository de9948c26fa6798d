//! The receiving end of a trace port.

use super::{Count, Frames};
use crate::TooLong;
use std::sync::Arc;
use weir_cpu::Ticks;
use weir_dpdk::{Burst, Pool};

/// Replays its part of a capture into packets of a pool.
#[derive(Debug)]
pub struct TraceRx {
    frames: Frames,
    pool: Pool,
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
    pub(crate) fn new(frames: Frames, pool: Pool, looped: bool, packets_per_tick: Option<f64>) -> Self {
        let pace =
            packets_per_tick.map(|packets_per_tick| Pace { packets_per_tick, begin: None, replayed: 0 });
        let (spare, too_long) = (Burst::new(), TooLong::default());
        Self { frames, pool, next: 0, looped, pace, spare, too_long, count: Arc::default() }
    }

    pub(crate) fn count(&self) -> Arc<Count> {
        self.count.clone()
    }

    /// Receives the next frames of the capture, as many as fit and are due. When the pool is empty
    /// nothing is received, and nothing is skipped: the next poll tries again.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let left =
            if self.looped && self.frames.len() > 0 { usize::MAX } else { self.frames.len() - self.next };
        let due = self.pace.as_mut().map_or(usize::MAX, Pace::due);
        let count = burst.room().min(left).min(due);
        if count == 0 || !self.pool.fill(&mut self.spare, count) {
            return 0;
        }
        let (before, mut bytes) = (burst.len(), 0);
        for _ in 0..count {
            if self.next == self.frames.len() {
                self.next = 0;
            }
            match self.frames.get(self.next) {
                Ok(frame) => {
                    let Some(mut packet) = self.spare.pop() else { break };
                    // Its length was compared with the buffers' when the capture was read.
                    packet.set_len(frame.len() as u16).copy_from_slice(frame);
                    bytes += frame.len() as u64;
                    drop(burst.push(packet)); // there is room
                }
                Err(len) => self.too_long.add(len),
            }
            self.next += 1;
        }
        self.spare.clear();
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
