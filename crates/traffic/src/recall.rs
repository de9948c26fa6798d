//! A trial's stamped frames, made again after it from the numbers in their stamps.

use crate::stamp::Stamp;
use crate::trace::FrameTable;
use std::sync::Arc;

/// A trial's stamped frames, made again from their numbers.
///
/// Every `every`th frame has its turn to be stamped, and the `n`th that can be carries number `n`.
#[derive(Clone, Debug)]
pub(crate) struct Recall {
    table: Arc<FrameTable>,
    start: u64,
    /// The lap of the first frame.
    lap: u64,
    every: u64,
    /// Turns of one cycle, after which places repeat, whose frames can be stamped; `None` where all can.
    stampable: Option<Arc<[u32]>>,
    /// Turns in one cycle.
    cycle: u64,
}

impl Recall {
    /// Of a trial that began at a place of the first lap.
    pub(crate) fn new(table: Arc<FrameTable>, start: usize, every: u32) -> Self {
        let (len, start, every) = (table.len() as u64, start as u64, u64::from(every));
        let mut recall = Self { table, start, lap: 0, every, stampable: None, cycle: len / gcd(len, every) };
        if !recall.table.is_stampable() {
            let can = |turn: &u64| recall.table.slot(recall.place(*turn)).is_stampable();
            recall.stampable = Some((0..recall.cycle).filter(can).map(|turn| turn as u32).collect());
        }
        recall
    }

    /// The same of a trial that began in a later lap.
    pub(crate) fn in_lap(self, lap: u64) -> Self {
        Self { lap, ..self }
    }

    /// Place in the table of the frame that had this turn, from 0.
    pub(crate) fn place(&self, turn: u64) -> usize {
        let len = self.table.len() as u64;
        // Sums of numbers below the length, so that no number of packets overflows.
        let passed = (turn % len * (self.every % len) + self.every - 1) % len;
        ((self.start + passed) % len) as usize
    }

    /// Whether number and turn are the same, and each frame has one.
    #[inline]
    pub(crate) fn is_every(&self) -> bool {
        self.every == 1 && self.stampable.is_none()
    }

    /// The lap of the frame that had this turn.
    fn lap_of(&self, turn: u64) -> u64 {
        let passed = (u128::from(turn) + 1) * u128::from(self.every) - 1;
        let laps = (u128::from(self.start) + passed) / self.table.len() as u128;
        self.lap.wrapping_add(laps as u64)
    }

    /// Place in the table of the frame that carried this number; nothing where no frame could.
    pub(crate) fn place_of(&self, number: u64) -> Option<usize> {
        self.turn_of(number).map(|turn| self.place(turn))
    }

    /// The turn of the frame that carried this number.
    fn turn_of(&self, number: u64) -> Option<u64> {
        Some(match &self.stampable {
            None => number,
            Some(turns) => {
                let (lap, place) = (number.checked_div(turns.len() as u64)?, number % turns.len() as u64);
                lap.checked_mul(self.cycle)?.checked_add(u64::from(turns[place as usize]))?
            }
        })
    }

    /// The frame that carried this stamp; nothing where no frame could.
    pub(crate) fn frame(&self, stamp: Stamp) -> Option<Vec<u8>> {
        let turn = self.turn_of(stamp.number())?;
        let (mut frame, slot) = self.table.made(self.place(turn), self.lap_of(turn));
        slot.stamp(&mut frame, stamp).then_some(frame)
    }

    /// The table.
    pub(crate) fn table(&self) -> &FrameTable {
        &self.table
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
