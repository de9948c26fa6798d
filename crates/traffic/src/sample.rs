//! The sample of a timed trial: some of the packets that came, and the first that nobody sent.
//!
//! In the loop a packet costs one subtraction and one branch that is nearly never taken; one in many
//! is copied into memory that was taken, and touched, before the trial. After the trial each copy is
//! compared with what the function must make of the frame that its stamp names: the frame as sent is
//! made again from the trial's first place in the table and the number in the stamp. Copies are
//! spread over the trial at distances drawn from the trial's number, so that no period of a trace
//! hides behind them, and the same trial is sampled the same way.
//!
//! What the sample cannot see: the time in a stamp is known to lie within the trial, not to the
//! byte; and of packets without a stamp only those that should have had one.

use crate::recall::Recall;
use crate::stamp::{Numbering, Reading, Stamp, StampSlot};
use std::collections::HashMap;
use weir_cpu::Ticks;
use weir_trial::compare::{Steadiness, compare, describe, is_router_report, note};
use weir_trial::expected::{self, PAIR};
use weir_trial::{Expected, Fault, Oracle, PacketCheck};

/// Packets copied from each port in a trial, about.
const SAMPLE: u32 = 256;
/// Packets that nobody sent or that were changed, copied from each port in a trial.
const FOREIGN: usize = 32;
/// Memory for the copies from one port, in bytes: [`SAMPLE`] of the greatest standard frames.
const MEMORY: usize = SAMPLE as usize * 1536;

/// Copies of packets from one port.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Packets until the next copy.
    until: u32,
    /// Copies are one to so many packets apart, evenly drawn: half as many on average.
    apart: u32,
    random: u32,
    bytes: Vec<u8>,
    copies: Vec<Copied>,
    foreign: usize,
    reading: Reading,
}

/// One copy.
#[derive(Clone, Copy, Debug)]
struct Copied {
    start: usize,
    end: usize,
    now: Ticks,
    foreign: bool,
}

impl Sampler {
    /// Memory for a port's copies, each page of it touched.
    pub(crate) fn new(reading: Reading) -> Self {
        let mut bytes = vec![1; MEMORY];
        bytes.clear();
        let copies = Vec::with_capacity(2 * SAMPLE as usize + FOREIGN);
        Self { until: 0, apart: 1, random: 1, bytes, copies, foreign: 0, reading }
    }

    /// Begins a trial in which about so many packets will come.
    pub(crate) fn begin(&mut self, trial: u16, packets: f64) {
        self.bytes.clear();
        self.copies.clear();
        self.foreign = 0;
        self.random = u32::from(trial).wrapping_mul(0x9e37_79b9) | 1;
        self.apart = (2.0 * packets / f64::from(SAMPLE)).clamp(1.0, f64::from(u32::MAX / 2)) as u32;
        self.until = self.distance();
    }

    /// Sees a packet go by; copies it when it is its turn, or when nobody sent it.
    #[inline]
    pub(crate) fn see(&mut self, frame: &[u8], now: Ticks, known: bool) {
        self.until -= 1;
        if self.until == 0 || !known {
            self.copy(frame, now, known);
        }
    }

    #[cold]
    fn copy(&mut self, frame: &[u8], now: Ticks, known: bool) {
        let turn = self.until == 0;
        let is_stamped = self.reading.read(frame).is_some();
        if turn {
            // A turn that falls on a packet without a stamp is the next packet's.
            self.until = if is_stamped || !known { self.distance() } else { 1 };
        }
        let wanted = if known { turn && is_stamped } else { self.foreign < FOREIGN };
        let start = self.bytes.len();
        let end = start + frame.len();
        // Both have their greatest size already: nothing here may allocate.
        if wanted && end <= self.bytes.capacity() && self.copies.len() < self.copies.capacity() {
            self.bytes.extend_from_slice(frame);
            self.copies.push(Copied { start, end, now, foreign: !known });
            self.foreign += usize::from(!known);
        }
    }

    /// A distance from 1 up (Marsaglia's xorshift).
    fn distance(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        1 + self.random % self.apart
    }
}

/// Judges the copies of a trial: one sampler a port, one recall a direction.
pub(crate) struct SampleJudge<'a> {
    pub(crate) oracle: &'a Oracle,
    /// One a sender of each direction; none for a capture read as a stream.
    pub(crate) recalls: Vec<Vec<Recall>>,
    /// The port by which each direction enters the device.
    pub(crate) begins: &'a [usize],
    /// The trial's number, as it stands above the direction's bits.
    pub(crate) trial: u16,
    /// When the trial began.
    pub(crate) start: Ticks,
}

impl SampleJudge<'_> {
    fn numbering(&self) -> Numbering {
        Numbering::of(self.recalls.len())
    }

    /// The port by which a direction enters the device.
    fn begin(&self, direction: usize) -> u8 {
        self.begins.get(direction).map_or(0, |port| *port as u8)
    }

    /// Compares every copy, of each port's sampler.
    pub(crate) fn judge<'s>(&self, samplers: impl IntoIterator<Item = (usize, &'s Sampler)>) -> PacketCheck {
        let mut check = PacketCheck::default();
        for (direction, _) in self.recalls.iter().enumerate().filter(|(_, recalls)| recalls.is_empty()) {
            check.remark(format!("direction {direction}: a capture read as a stream is not sampled"));
        }
        let mut steady: HashMap<usize, Steadiness> = HashMap::new();
        for (port, sampler) in samplers {
            let steady = steady.entry(port / usize::from(PAIR)).or_default();
            for copied in &sampler.copies {
                let frame = &sampler.bytes[copied.start..copied.end];
                self.packet(&mut check, steady, (port, frame), copied);
            }
        }
        check
    }

    fn packet(
        &self,
        check: &mut PacketCheck,
        steady: &mut Steadiness,
        (port, frame): (usize, &[u8]),
        copied: &Copied,
    ) {
        let reading = Reading::behind(self.oracle.nf());
        let Some(stamp) = reading.read(frame) else { return self.foreign(check, port, frame) };
        let numbering = self.numbering();
        if !numbering.same_trial(stamp.trial, numbering.number(self.trial, 0)) {
            // A late packet is counted as such; one that also came by a port it never was to come by
            // is nobody's straggler.
            if copied.foreign {
                note(check, vec![(Fault::Stale, format!("{}, by port {port}", describe(frame)))]);
            }
            return;
        }
        let direction = numbering.direction(stamp.trial);
        let recalls = self.recalls.get(direction);
        let Some(recall) = recalls.and_then(|streams| streams.get(stamp.stream())) else {
            return if copied.foreign {
                self.foreign(check, port, frame)
            };
        };
        let Some(sent) = recall.frame(stamp) else { return self.foreign(check, port, frame) };
        let expected = self.oracle.expected(self.begin(direction), &sent);
        let mut faults = compare(&expected, frame, port as u8);
        faults.extend(steady.note(direction, expected::flow(&sent), &expected, frame));
        if faults.is_empty() && !(self.start.0..=copied.now.0).contains(&stamp.tsc) {
            let what = format!("{}: the time in its stamp does not lie within the trial", describe(frame));
            faults.push((Fault::Payload, what));
        }
        note(check, faults);
    }

    /// Names what is wrong with a packet that carries no stamp of this trial.
    fn foreign(&self, check: &mut PacketCheck, port: usize, frame: &[u8]) {
        let Some((direction, mut sent)) = self.like(port, frame) else {
            let passed = self.oracle.nf().is_router() && is_router_report(frame);
            if !passed {
                note(check, vec![(Fault::Foreign, format!("{}, by port {port}", describe(frame)))]);
            }
            return;
        };
        if Reading::behind(self.oracle.nf()) == Reading::Plain {
            end_as(&mut sent, frame);
        }
        let expected = self.oracle.expected(self.begin(direction), &sent);
        let mut faults = compare(&expected, frame, port as u8);
        if let Expected::Forward { .. } = expected {
            // What was sent carried a stamp; this carries none, or one of no trial.
            faults.retain(|(fault, _)| *fault != Fault::Payload);
            if faults.is_empty() {
                let end: String =
                    frame.iter().rev().take(Stamp::BYTES).rev().map(|b| format!("{b:02x}")).collect();
                let what = format!("{}: the stamp at its end is damaged: 0x{end}", describe(frame));
                faults.push((Fault::Payload, what));
            }
        }
        note(check, faults);
    }

    /// The direction and a frame of the same flow, for a packet that lost its stamp.
    fn like(&self, port: usize, frame: &[u8]) -> Option<(usize, Vec<u8>)> {
        let flow = expected::flow(frame)?;
        // Addresses and ports at their usual places say quickly which frames to look at.
        let near = |head: &[u8]| head.get(23) == frame.get(23) && head.get(26..38) == frame.get(26..38);
        let entering = |port: usize| self.begins.iter().position(|begin| *begin == port);
        for direction in [port ^ 1, port].into_iter().filter_map(entering) {
            for table in self.recalls.get(direction).into_iter().flatten().map(Recall::table) {
                let same = |index: &usize| {
                    let known = table.distinct_frame(*index);
                    near(known.head) && expected::flow(&known.to_vec()) == Some(flow)
                };
                if let Some(index) = (0..table.distinct()).find(same) {
                    return Some((direction, table.distinct_frame(index).to_vec()));
                }
            }
        }
        None
    }
}

/// Ends a frame as another one does where a stamp stands, its checksum mended: what is still wrong then is not the
/// stamp.
fn end_as(sent: &mut [u8], came: &[u8]) {
    let slot = StampSlot::of(sent);
    let same_length = sent.len() == came.len() && slot.is_stampable();
    let ends = sent.last_chunk_mut::<{ Stamp::BYTES }>().zip(came.last_chunk::<{ Stamp::BYTES }>());
    let Some((end, stamp)) = ends.filter(|_| same_length) else { return };
    *end = *stamp;
    if let Some((at, field)) = slot.finish(stamp)
        && let Some(place) = sent.get_mut(at..at + 2)
    {
        place.copy_from_slice(&field);
    }
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
