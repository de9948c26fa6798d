//! The receiving half by itself, for `./x generator --receive`: what judging a packet costs.

use crate::each::{Each, Ways};
use crate::intact::Integrity;
use crate::numbers::window_of;
use crate::recall::Recall;
use crate::sink::{Tracker, TrackerSetup};
use crate::stamp::{Numbering, Reading, Stamp};
use crate::trace::FrameTable;
use crate::windows::Grid;
use std::sync::Arc;
use weir_cpu::Ticks;
use weir_trial::{Expected, Oracle};

/// What packets are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldTo {
    /// Their stamps alone.
    Stamps,
    /// Their checksums.
    Checksums,
    /// The frames that their stamps name.
    Frames,
}

/// A lap of packets that came back, and a judge of them.
#[derive(Debug)]
pub struct Receiver {
    held_to: HeldTo,
    packets: Vec<Vec<u8>>,
    each: Option<Each>,
    tracker: Option<Tracker>,
}

const TRIAL: u16 = 2;

impl Receiver {
    /// One lap of a table, as a function leaves it.
    pub fn new(table: &Arc<FrameTable>, oracle: &Oracle, held_to: HeldTo) -> Self {
        let lap = (0..table.len()).filter_map(|place| {
            let mut frame = table.frame(place).to_vec();
            table.slot(place).stamp(&mut frame, Stamp { trial: TRIAL, sequence: place as u64, tsc: 1_000 });
            match oracle.expected(0, &frame) {
                Expected::Forward { port: 1, frame } => Some(frame),
                _ => None,
            }
        });
        let each =
            || Some(Each::new(Arc::new(Ways::of(oracle, 0, table)?), Recall::new(Arc::clone(table), 0, 1)));
        let each = if held_to == HeldTo::Frames { each() } else { None };
        Self { held_to, packets: lap.collect(), each, tracker: None }
    }

    /// Prepares a trial: not to be timed.
    pub fn begin(&mut self) {
        let integrity = (self.held_to == HeldTo::Checksums).then_some(Integrity { link: None });
        self.tracker = Some(Tracker::new(TrackerSetup {
            trial: TRIAL,
            numbering: Numbering::of(2),
            streams: vec![self.each.clone()],
            window: window_of(self.packets.len() as u64),
            shared: Vec::new(),
            all_stamped: true,
            integrity,
            reading: Reading::Plain,
            grid: Grid { start: Ticks(0), length: 1 << 20, shift: 10 },
            probes: 0,
        }));
    }

    /// Judges the lap. Returns how many packets were right.
    pub fn judge(&mut self) -> u64 {
        let Some(tracker) = &mut self.tracker else { return 0 };
        for packet in &self.packets {
            tracker.judge(packet, 1, Ticks(9_000), Ticks(0));
        }
        tracker.received()
    }
}
