//! The untimed pass: every packet compared with what the network function must make of it.
//!
//! An [`Examiner`] keeps the book: what was sent, what must come of it, what came. Whoever moves the
//! packets (the tester over its ports, or a campaign that lets a DUT run over capture files) asks it
//! for each frame to send and shows it each frame that came. Every transmission carries its number
//! twice in the stamp, once as sequence number and once, multiplied, in the place of the time; so a
//! stamp that was damaged in one place is still known by the other, and every byte of the frame is
//! known to the examiner. Frames that cannot carry a stamp are known by their bytes.
//!
//! Cost: two oracle questions and some hash look-ups a packet, some microseconds: this is not for
//! timed trials. One examiner a pass, owned by one thread.

use crate::stamp::{Numbering, Reading, Stamp, StampSlot};
use crate::trace::FrameTable;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_trial::compare::{Steadiness, compare, describe, is_router_report};
use weir_trial::expected::{Expected, PAIR, flow};
use weir_trial::{Fault, Oracle, PacketCheck};
use weir_wire::table::FiveTuple;

/// What is sent in one direction of an untimed pass: a lap of a table, then frames of its own.
#[derive(Clone, Debug, Default)]
pub struct PassFrames {
    lap: Option<Arc<FrameTable>>,
    /// Its first place that is sent; behind its last one come those before, where all are sent.
    first: usize,
    of_lap: usize,
    own: Vec<Vec<u8>>,
    /// What of the trace is not among them.
    left_out: Option<String>,
    /// Whether packets may overtake earlier ones of their flow.
    may_overtake: bool,
    /// The port they are sent into, where it is not the one of the direction's number.
    into: Option<usize>,
}

impl PassFrames {
    /// Most packets of a lap that a pass sends.
    pub const MOST_OF_LAP: usize = 100_000;

    /// The first [`Self::MOST_OF_LAP`] packets of a lap, where there is one in memory, and these.
    pub fn new(lap: Option<Arc<FrameTable>>, own: Vec<Vec<u8>>) -> Self {
        let whole = lap.as_ref().map_or(0, |table| table.len());
        let of_lap = whole.min(Self::MOST_OF_LAP);
        let left_out =
            (of_lap < whole).then(|| format!("the first {of_lap} of the trace's {whole} packets were sent"));
        Self { lap, first: 0, of_lap, own, left_out, may_overtake: false, into: None }
    }

    /// The same over a lap whose first packets answer the other direction's last: these come at the end, as in a second lap.
    /// They are left out where the pass is too short to send what they answer, and where they answer what the lap before would
    /// have sent.
    pub fn after(answers: usize, lap: &Arc<FrameTable>, own: Vec<Vec<u8>>) -> Self {
        let first = answers.min(lap.len());
        let mut frames = Self::new(Some(Arc::clone(lap)), own);
        if lap.len() > Self::MOST_OF_LAP || lap.turns().is_some() {
            frames.of_lap -= first;
        }
        Self { first, ..frames }
    }

    /// Leaves out those of its own frames (not of the trace) that match, and says why.
    pub fn leave_out(&mut self, why: &str, matches: impl Fn(&[u8]) -> bool) {
        let before = self.own.len();
        self.own.retain(|frame| !matches(frame));
        let gone = before - self.own.len();
        if gone > 0 {
            let said = format!("{gone} packets left out: {why}");
            self.left_out =
                Some(self.left_out.take().map_or(said.clone(), |first| format!("{first}; {said}")));
        }
    }

    /// The beginning of a trace that is not in memory as a whole, and these.
    pub fn beginning(mut begins: Vec<Vec<u8>>, own: Vec<Vec<u8>>) -> Self {
        let left_out =
            Some(format!("the first {} packets of a capture read as a stream were sent", begins.len()));
        begins.extend(own);
        Self { lap: None, first: 0, of_lap: 0, own: begins, left_out, may_overtake: false, into: None }
    }

    /// Lets packets overtake earlier ones of their flow, as they do behind whoever splits a flow among several ways: these are
    /// counted, and no fault.
    pub fn let_overtake(&mut self) {
        self.may_overtake = true;
    }

    /// The same, sent into another port than that of the direction's number.
    #[must_use]
    pub fn into_port(self, port: usize) -> Self {
        Self { into: Some(port), ..self }
    }

    /// Packets to send.
    pub fn len(&self) -> usize {
        self.of_lap + self.own.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn frame(&self, item: usize) -> Vec<u8> {
        match (&self.lap, item.checked_sub(self.of_lap)) {
            (_, Some(own)) => self.own[own].clone(),
            (Some(table), None) => table.frame((self.first + item) % table.len()).to_vec(),
            (None, None) => Vec::new(),
        }
    }
}

/// One packet of a pass: which direction it goes, and its place in that direction's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Direction.
    pub direction: usize,
    /// Place, from 0.
    pub place: usize,
}

/// What must come of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It comes out.
    Comes,
    /// It must not.
    Gone,
    /// Nobody says.
    Open,
}

/// An item so far.
#[derive(Clone, Copy, Debug)]
struct State {
    disposition: Option<Disposition>,
    back: bool,
    /// Whether it was sent more than once: without a stamp, nobody knows which of them came.
    resent: bool,
}

/// One sending of an item; its place in the list is its number.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    item: Item,
    stamped: bool,
    /// Whether the item was sent before: its order says nothing then.
    again: bool,
    came: bool,
}

/// Packets that must keep their order.
type Flow = (usize, FiveTuple);

/// The book of one untimed pass.
#[derive(Debug)]
pub struct Examiner {
    oracle: Arc<Oracle>,
    frames: Vec<PassFrames>,
    trial: u16,
    items: Vec<Vec<State>>,
    sent: Vec<Transmission>,
    /// The last transmission of each flow that was sent, and the last that came.
    flows: HashMap<Flow, (usize, Option<usize>)>,
    /// Frames without a stamp, as they must come out: port and number of what has not come.
    plain: HashMap<Vec<u8>, Vec<(usize, usize)>>,
    /// Frames without a stamp that came.
    plain_came: HashSet<Vec<u8>>,
    /// Messages by which a router reports what it did not forward.
    reports: u64,
    /// Packets that overtook their own flow where they may.
    overtook: u64,
    /// Of each pair of ports.
    steady: HashMap<usize, Steadiness>,
    numbering: Numbering,
    reading: Reading,
    check: PacketCheck,
}

/// Multiplied by this, consecutive numbers become bytes that look like none of their neighbours.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Its inverse modulo 2^64.
const GATHER: u64 = inverse(SPREAD);

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

impl Examiner {
    /// An empty book over these frames, a list a direction. `trial` tells the pass from trials
    /// before and after it; of its 16 bits so many of the lowest count as directions leave over.
    pub fn new(oracle: Arc<Oracle>, frames: Vec<PassFrames>, trial: u16) -> Self {
        let mut check = PacketCheck::default();
        let left_out =
            frames.iter().enumerate().filter_map(|(number, of)| Some((number, of.left_out.as_ref()?)));
        for (direction, left_out) in left_out {
            check.remark(format!("direction {direction}: {left_out}"));
        }
        let items = frames
            .iter()
            .map(|frames| vec![State { disposition: None, back: false, resent: false }; frames.len()])
            .collect();
        let (reading, numbering) = (Reading::behind(oracle.nf()), Numbering::of(frames.len()));
        Self {
            oracle,
            frames,
            trial: numbering.number(trial, 0),
            numbering,
            items,
            sent: Vec::new(),
            flows: HashMap::new(),
            plain: HashMap::new(),
            plain_came: HashSet::new(),
            reports: 0,
            overtook: 0,
            steady: HashMap::new(),
            reading,
            check,
        }
    }

    /// The port by which a direction enters the device.
    fn port_of(&self, direction: usize) -> u8 {
        self.frames[direction].into.unwrap_or(direction) as u8
    }

    /// Every item, the directions by turns. One of which the beginning of the lap is left out begins so much later: what
    /// comes behind the lap would be sent before what it answers otherwise.
    pub fn items(&self) -> Vec<Item> {
        let begins = |direction: usize| self.frames[direction].first;
        let ends = (0..self.items.len()).map(|direction| begins(direction) + self.items[direction].len());
        let turn = |turn: usize| {
            (0..self.items.len()).filter_map(move |direction| {
                let place = turn.checked_sub(begins(direction))?;
                Some(Item { direction, place })
            })
        };
        let longest = ends.max().unwrap_or(0);
        (0..longest).flat_map(turn).filter(|item| item.place < self.items[item.direction].len()).collect()
    }

    /// Chunks of one direction each, in which items that came out and items that must not take turns, the former
    /// first: `chunks` a direction. None for a direction without both, and for a function whose state decides.
    pub fn mixed(&self, size: usize, chunks: usize) -> Vec<Vec<Item>> {
        let mut mixed = Vec::new();
        for (direction, states) in self.items.iter().enumerate() {
            let all = |wanted: &dyn Fn(&State) -> bool| {
                let places = (0..states.len()).filter(|place| wanted(&states[*place]));
                places.map(|place| Item { direction, place }).collect::<Vec<_>>()
            };
            let come = all(&|state| state.disposition == Some(Disposition::Comes) && state.back);
            let gone = all(&|state| state.disposition == Some(Disposition::Gone));
            let nf = self.oracle.nf();
            if come.is_empty() || gone.is_empty() || nf.is_stateful() || nf.translates().is_some() {
                continue;
            }
            let mut turns =
                come.iter().cycle().zip(gone.iter().cycle()).flat_map(|(come, gone)| [*come, *gone]);
            mixed.extend((0..chunks).map(|_| turns.by_ref().take(size).collect()));
        }
        mixed
    }

    /// Whether a transmission of an item came back.
    pub fn is_back(&self, item: Item) -> bool {
        self.items[item.direction][item.place].back
    }

    /// How many packets were sent so far.
    pub fn transmissions(&self) -> usize {
        self.sent.len()
    }

    /// Whether an item that was sent must come out.
    pub fn must_come(&self, item: Item) -> bool {
        self.items[item.direction][item.place].disposition == Some(Disposition::Comes)
    }

    /// Whether a packet that must come, of those sent from the transmission of this number on, did not yet.
    pub fn is_under_way(&self, first: usize) -> bool {
        self.sent[first..].iter().any(|sent| !sent.came && self.must_come(sent.item))
    }

    /// Notes that an item is sent; returns the frame to send, stamped where it can be, and what
    /// must come of it.
    pub fn send(&mut self, item: Item) -> (Vec<u8>, Disposition) {
        let number = self.sent.len();
        let (frame, stamped) = self.transmitted(item, number);
        let expected = self.oracle.expected(self.port_of(item.direction), &frame);
        let disposition = match &expected {
            Expected::Forward { .. } | Expected::OneOf { .. } | Expected::Translated { .. } => {
                Disposition::Comes
            }
            Expected::Drop(_) => Disposition::Gone,
            Expected::Open => Disposition::Open,
        };
        let plain = match expected {
            Expected::Forward { port, frame } if !stamped => Some((port, vec![frame])),
            Expected::OneOf { port, frames } if !stamped => Some((port, frames)),
            _ => None,
        };
        for (port, frame) in plain.into_iter().flat_map(|(port, any)| any.into_iter().map(move |f| (port, f)))
        {
            self.plain.entry(frame).or_default().push((usize::from(port), number));
        }
        if let Some(flow) = flow(&frame) {
            self.flows.entry((item.direction, flow)).or_insert((number, None)).0 = number;
        }
        let state = &mut self.items[item.direction][item.place];
        let again = state.disposition.replace(disposition).is_some();
        state.resent |= again;
        self.sent.push(Transmission { item, stamped, again, came: false });
        (frame, disposition)
    }

    /// A transmission's frame, and whether it carries a stamp.
    fn transmitted(&self, item: Item, number: usize) -> (Vec<u8>, bool) {
        let mut frame = self.frames[item.direction].frame(item.place);
        let trial = self.trial | self.numbering.number(0, item.direction);
        let stamp = Stamp { trial, sequence: number as u64, tsc: (number as u64 + 1).wrapping_mul(SPREAD) };
        let stamped = StampSlot::of(&frame).stamp(&mut frame, stamp);
        (frame, stamped)
    }

    /// Judges a frame that came out by a port of the DUT.
    pub fn came(&mut self, port: usize, frame: &[u8]) {
        if let Some(number) = self.number_of(frame) {
            return self.judge(number, port, frame, true);
        }
        if let Some(waiting) = self.plain.get_mut(frame).filter(|waiting| !waiting.is_empty()) {
            // The earliest that must leave by this port; one that must not, where there is none.
            let place = waiting.iter().position(|(out, _)| *out == port).unwrap_or(0);
            // Of several that are the same, any may have been lost: then the order of those that came says nothing.
            let is_alone = waiting.len() == 1;
            let (_, number) = waiting.remove(place);
            self.plain_came.insert(frame.to_vec());
            return self.judge(number, port, frame, is_alone);
        }
        let what = || format!("{}, by port {port}", describe(frame));
        if self.reading.read(frame).is_some() {
            self.check.note(Fault::Stale, what);
        } else if self.plain_came.contains(frame) {
            self.check.note(Fault::Duplicate, what);
        } else if let Some(number) = self.like(port, frame) {
            self.note_faults(number, port, frame);
        } else if self.oracle.nf().is_router() && is_router_report(frame) {
            self.reports += 1;
        } else {
            self.check.note(Fault::Foreign, what);
        }
    }

    /// The transmission whose stamp, damaged or not, a frame carries.
    fn number_of(&self, frame: &[u8]) -> Option<usize> {
        let (whole, stamp) = self.reading.read_damaged(frame)?;
        let by_time = stamp.tsc.wrapping_mul(GATHER).wrapping_sub(1);
        let is_ours = |number: u64| {
            let sent = self.sent.get(usize::try_from(number).ok()?)?;
            sent.stamped.then_some(number as usize)
        };
        let trial_is_right = self.numbering.same_trial(stamp.trial, self.trial)
            && self.numbering.direction(stamp.trial) < self.frames.len();
        if stamp.sequence == by_time {
            return is_ours(by_time);
        }
        if !whole || !trial_is_right {
            return None;
        }
        // One of the two numbers is damaged: the one that fits the packet better is right.
        let apart = |number: &usize| {
            let sent = self.transmitted(self.sent[*number].item, *number).0;
            sent.iter().rev().zip(frame.iter().rev()).filter(|(sent, came)| sent != came).count()
        };
        let candidates = [stamp.sequence, by_time].into_iter().filter_map(is_ours);
        candidates.min_by_key(apart)
    }

    /// A transmission of the same flow, for a packet that lost its stamp.
    fn like(&self, port: usize, frame: &[u8]) -> Option<usize> {
        let flow = flow(frame)?;
        let entering =
            |port: usize| (0..self.frames.len()).find(|one| usize::from(self.port_of(*one)) == port);
        let directions = [port ^ 1, port].into_iter().filter_map(entering);
        let mut known = directions.filter_map(|direction| self.flows.get(&(direction, flow)));
        known.next().map(|(number, _)| *number)
    }

    /// Which packet an item is, where the frames are a user's own: their numbers are known to him.
    fn place(&self, item: Item) -> String {
        match self.oracle.nf().flow_file() {
            Some(_) => format!("packet {} into port {}: ", item.place + 1, self.port_of(item.direction)),
            None => String::new(),
        }
    }

    fn note_faults(&mut self, number: usize, port: usize, frame: &[u8]) {
        let item = self.sent[number].item;
        let sent = self.transmitted(item, number).0;
        let expected = self.oracle.expected(self.port_of(item.direction), &sent);
        let pair = usize::from(self.port_of(item.direction) / PAIR);
        let moved = self.steady.entry(pair).or_default().note(item.direction, flow(&sent), &expected, frame);
        let place = self.place(item);
        for (fault, example) in compare(&expected, frame, port as u8).into_iter().chain(moved) {
            self.check.note(fault, || format!("{place}{example}"));
        }
    }

    /// Judges the frame of a transmission, which is known to be that one, or one of several that are the same.
    fn judge(&mut self, number: usize, port: usize, frame: &[u8], is_alone: bool) {
        let Transmission { item, again, came, stamped } = self.sent[number];
        if came {
            return self.check.note(Fault::Duplicate, || format!("{}, by port {port}", describe(frame)));
        }
        self.sent[number].came = true;
        let state = &mut self.items[item.direction][item.place];
        state.back = true;
        let has_a_place = !again && (stamped || (is_alone && !state.resent));
        self.note_faults(number, port, frame);
        // The flow is that of the packet as sent: what came may be damaged.
        let flow = flow(&self.transmitted(item, number).0).filter(|_| has_a_place);
        let Some((_, last)) = flow.and_then(|flow| self.flows.get_mut(&(item.direction, flow))) else {
            return;
        };
        if let Some(earlier) = last.filter(|last| *last > number) {
            if self.frames[item.direction].may_overtake {
                self.overtook += 1;
                return;
            }
            let example =
                || format!("{}: packet {number} came after packet {earlier} of its flow", describe(frame));
            self.check.note(Fault::Order, example);
        } else {
            *last = Some(number);
        }
    }

    /// Adds a sentence about what was not compared.
    pub fn remark(&mut self, sentence: impl Into<String>) {
        self.check.remark(sentence);
    }

    /// Closes the book: what must have come and did not is missing.
    pub fn finish(mut self) -> PacketCheck {
        let (mut open, mut compared) = (0_u64, 0);
        for (direction, states) in self.items.iter().enumerate() {
            for (place, state) in states.iter().enumerate() {
                match state.disposition {
                    None => {}
                    Some(Disposition::Open) => open += 1,
                    Some(disposition) => {
                        compared += 1;
                        if disposition == Disposition::Comes && !state.back {
                            let frame = self.frames[direction].frame(place);
                            let place = self.place(Item { direction, place });
                            let port = self.port_of(direction);
                            let example = || format!("{place}{}, into port {port}", describe(&frame));
                            self.check.note(Fault::Missing, example);
                        }
                    }
                }
            }
        }
        self.check.compared = compared;
        if open > 0 {
            let nf = self.oracle.nf();
            self.check.remark(format!("{open} packets whose disposition {nf} leaves open were not compared"));
        }
        if self.overtook > 0 {
            let says = "packets came after later ones of their flow, which is free to whoever splits flows";
            self.check.remark(format!("{} {says}", self.overtook));
        }
        if self.reports > 0 {
            self.check.remark(format!(
                "{} ICMP messages by which the router reports were passed over",
                self.reports
            ));
        }
        self.check
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
