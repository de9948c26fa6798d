//! Packets through memory that the other side may write anything into.
//!
//! A ring has one producer and one consumer, in two processes. Its slots are all of one length, so that where one lies
//! follows from a number that each side keeps for itself; of the other side's memory each reads two things, the number up
//! to which the other has come, and the length in a slot. Both are read once and compared before they are used ([`Lie`]);
//! the bytes of a packet are copied once, and looked at after that. So nothing that is written there makes this side
//! read or write outside of the memory, go on without end, or see a packet change.
//!
//! Cost: a copy by words of eight bytes each way; two cache lines that change hands a burst. All orders in which the steps of
//! both sides can be seen are gone through in `crates/models`, which has this very file.

use super::SharedWords;
use super::atomics::AtomicU64;
use super::atomics::Ordering::{Acquire, Relaxed, Release};
use std::sync::Arc;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Words of two cache lines: what different sides write lies so far apart.
const APART: usize = 16;
/// Where the consumer's number stands, and the first slot, from a ring's begin.
const CONSUMED: usize = APART;
const SLOTS: usize = 2 * APART;
/// Words before the first ring.
const HEAD: usize = 4 * APART;

/// The other side said what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lie;

/// How the memory of a port is laid out: its head, and two rings a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    queues: usize,
    /// Slots of a ring, a power of two.
    slots: usize,
    /// Bytes of the longest packet.
    longest: usize,
}

/// Which of a queue's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the helper to the switch.
    In,
    /// From the switch to the helper.
    Out,
}

impl Shape {
    /// For so many queues, with at least so many slots, of packets up to so many bytes.
    pub(super) fn new(queues: u16, slots: u16, longest: u16) -> Self {
        let slots = usize::from(slots).next_power_of_two();
        Self { queues: usize::from(queues), slots, longest: usize::from(longest) }
    }

    /// Bytes of the longest packet.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Words of a slot: its length and its packet, in whole cache lines.
    fn slot(&self) -> usize {
        (1 + self.longest.div_ceil(WORD)).next_multiple_of(APART / 2)
    }

    fn ring(&self) -> usize {
        SLOTS + self.slots * self.slot()
    }

    /// Words of all.
    pub(super) fn words(&self) -> usize {
        HEAD + self.queues * 2 * self.ring()
    }

    /// Where a ring's number of packets put in stands, that of packets taken out, and its first slot.
    #[cfg(test)]
    pub(super) fn begins(&self, queue: usize, way: Way) -> usize {
        self.begin(queue, way)
    }

    #[cfg(test)]
    pub(super) fn consumed(&self, queue: usize, way: Way) -> usize {
        self.begin(queue, way) + CONSUMED
    }

    #[cfg(test)]
    pub(super) fn first_slot(&self, queue: usize, way: Way) -> usize {
        self.begin(queue, way) + SLOTS
    }

    fn begin(&self, queue: usize, way: Way) -> usize {
        HEAD + (queue * 2 + usize::from(way == Way::Out)) * self.ring()
    }
}

/// What a helper tells of itself, in the head. Nothing that the switch does hangs on the truth of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// 1 while the link is up.
    Link = 0,
    /// The MAC address.
    Mac = 1,
    /// Packets that the driver lost before it could take them.
    Missed = 2,
    /// Packets that it took from the switch and that no peer was there for.
    Unsent = 3,
    /// Rounds of its loop: apart from what the switch reads for each burst.
    Rounds = APART as isize,
}

impl Told {
    pub(super) fn read(self, memory: &SharedWords) -> u64 {
        memory.words()[self as usize].load(Acquire)
    }

    pub(super) fn write(self, memory: &SharedWords, value: u64) {
        memory.words()[self as usize].store(value, Release);
    }
}

/// One side of a ring.
#[derive(Debug)]
struct Side {
    memory: Arc<SharedWords>,
    shape: Shape,
    begin: usize,
    /// How far this side has come. What stands in the memory is only for the other to read.
    number: u64,
}

impl Side {
    fn slot(&self, number: u64) -> &[AtomicU64] {
        // Slots are a power of two, so that the number is below them, and the slot lies in its ring.
        let place = (number as usize) & (self.shape.slots - 1);
        let begin = self.begin + SLOTS + place * self.shape.slot();
        &self.memory.words()[begin..begin + self.shape.slot()]
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.words()[self.begin + at]
    }
}

/// The side that puts packets in.
#[derive(Debug)]
pub(super) struct Producer {
    side: Side,
    /// Slots that were free when the other side was asked last, less those filled since.
    free: usize,
}

impl Producer {
    pub(super) fn new(memory: &Arc<SharedWords>, shape: Shape, queue: usize, way: Way) -> Self {
        let begin = shape.begin(queue, way);
        Self { side: Side { memory: memory.clone(), shape, begin, number: 0 }, free: 0 }
    }

    /// Slots that are free, if there are so many; else as many as there are.
    #[inline]
    pub(super) fn free(&mut self, wanted: usize) -> Result<usize, Lie> {
        if self.free < wanted {
            self.free = self.side.shape.slots - self.waiting()?;
        }
        Ok(self.free.min(wanted))
    }

    /// Packets that the other side has not said to have taken.
    pub(super) fn waiting(&self) -> Result<usize, Lie> {
        let consumed = self.side.word(CONSUMED).load(Acquire);
        let waiting = self.side.number.wrapping_sub(consumed);
        if waiting > self.side.shape.slots as u64 { Err(Lie) } else { Ok(waiting as usize) }
    }

    /// Of so many packets that were put in, those that the other side has not said to have taken: for whoever looks
    /// on. None that cannot be.
    pub(super) fn left(memory: &SharedWords, shape: Shape, queue: usize, produced: u64) -> u64 {
        let consumed = memory.words()[shape.begin(queue, Way::Out) + CONSUMED].load(Acquire);
        produced.wrapping_sub(consumed).min(produced).min(shape.slots as u64)
    }

    /// Bytes of the longest packet.
    pub(super) fn longest(&self) -> usize {
        self.side.shape.longest
    }

    /// How far it has come.
    pub(super) fn number(&self) -> u64 {
        self.side.number
    }

    /// Puts a packet into the next slot; there is one that is free, and the packet is none too long.
    #[inline]
    pub(super) fn put(&mut self, packet: &[u8]) {
        let packet = &packet[..packet.len().min(self.side.shape.longest)];
        let slot = self.side.slot(self.side.number);
        slot[0].store(packet.len() as u64, Relaxed);
        store(&slot[1..], packet);
        self.side.number = self.side.number.wrapping_add(1);
        self.free = self.free.saturating_sub(1);
    }

    /// Lets the other side have what was put in.
    #[inline]
    pub(super) fn publish(&self) {
        self.side.word(0).store(self.side.number, Release);
    }
}

/// The side that takes packets out.
#[derive(Debug)]
pub(super) struct Consumer {
    side: Side,
}

impl Consumer {
    pub(super) fn new(memory: &Arc<SharedWords>, shape: Shape, queue: usize, way: Way) -> Self {
        let begin = shape.begin(queue, way);
        Self { side: Side { memory: memory.clone(), shape, begin, number: 0 } }
    }

    /// Packets that wait.
    #[inline]
    pub(super) fn ready(&self) -> Result<usize, Lie> {
        let produced = self.side.word(0).load(Acquire);
        let ready = produced.wrapping_sub(self.side.number);
        if ready > self.side.shape.slots as u64 { Err(Lie) } else { Ok(ready as usize) }
    }

    /// The length of the packet that is so many behind the next, which is one that waits. It may be another when it is
    /// asked again.
    #[inline]
    pub(super) fn length(&self, behind: usize) -> Result<usize, Lie> {
        let length = self.side.slot(self.side.number.wrapping_add(behind as u64))[0].load(Relaxed);
        match usize::try_from(length) {
            Ok(length) if (1..=self.side.shape.longest).contains(&length) => Ok(length),
            _ => Err(Lie),
        }
    }

    /// Copies that packet, of a length that was asked for before.
    #[inline]
    pub(super) fn copy(&self, behind: usize, into: &mut [u8]) {
        load(&self.side.slot(self.side.number.wrapping_add(behind as u64))[1..], into);
    }

    /// Gives the slots of so many packets back.
    #[inline]
    pub(super) fn advance(&mut self, packets: usize) {
        self.side.number = self.side.number.wrapping_add(packets as u64);
        self.side.word(CONSUMED).store(self.side.number, Release);
    }
}

#[inline]
fn store(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    let mut places = words.iter();
    for (chunk, word) in whole.iter().zip(places.by_ref()) {
        word.store(u64::from_ne_bytes(*chunk), Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), places.next()) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Relaxed);
    }
}

#[inline]
fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<WORD>();
    let mut places = words.iter();
    for (chunk, word) in whole.iter_mut().zip(places.by_ref()) {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), places.next()) {
        let last = word.load(Relaxed).to_ne_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(shape: Shape) -> (Arc<SharedWords>, Producer, Consumer) {
        let memory = Arc::new(SharedWords::create(shape.words()).unwrap().0);
        let (producer, consumer) =
            (Producer::new(&memory, shape, 1, Way::Out), Consumer::new(&memory, shape, 1, Way::Out));
        (memory, producer, consumer)
    }

    /// All that waits, as a reader takes it.
    fn drain(consumer: &mut Consumer) -> Result<Vec<Vec<u8>>, Lie> {
        let ready = consumer.ready()?;
        let packet = |behind| {
            let mut bytes = vec![0; consumer.length(behind)?];
            consumer.copy(behind, &mut bytes);
            Ok(bytes)
        };
        let packets = (0..ready).map(packet).collect();
        consumer.advance(ready);
        packets
    }

    #[test]
    fn packets_come_out_as_they_went_in_while_slots_are_reused() {
        let (_memory, mut producer, mut consumer) = ends(Shape::new(2, 64, 1518));
        let packet = |number: usize| vec![number as u8; 1 + number % 1518];
        for round in 0..40 {
            assert_eq!(producer.free(100), Ok(64));
            (0..50).for_each(|at| producer.put(&packet(round * 50 + at)));
            assert_eq!((producer.free(20), consumer.ready()), (Ok(14), Ok(0)), "nothing is told yet");
            producer.publish();
            let wanted: Vec<_> = (0..50).map(|at| packet(round * 50 + at)).collect();
            assert_eq!(drain(&mut consumer), Ok(wanted));
        }
        assert_eq!((producer.number(), producer.waiting()), (2000, Ok(0)));
    }

    #[test]
    fn numbers_and_lengths_that_cannot_be_are_lies() {
        let shape = Shape::new(2, 64, 1518);
        let (memory, mut producer, mut consumer) = ends(shape);
        producer.put(&[1, 2, 3]);
        producer.publish();
        let begin = shape.begin(1, Way::Out);
        for length in [0, 1519, u64::MAX, 1 << 32] {
            memory.words()[begin + SLOTS].store(length, Relaxed);
            assert_eq!(consumer.length(0), Err(Lie), "{length}");
        }
        for produced in [65, u64::MAX, 1 << 63] {
            memory.words()[begin].store(produced, Relaxed);
            assert_eq!(drain(&mut consumer), Err(Lie), "{produced}");
        }
        for consumed in [2, 1 << 40, u64::MAX - 63] {
            memory.words()[begin + CONSUMED].store(consumed, Relaxed);
            assert_eq!((producer.waiting(), producer.free(1000)), (Err(Lie), Err(Lie)), "{consumed}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever stands in the memory, either side stays within it and comes to an end.
        #[test]
        fn whatever_is_written_is_read_within_bounds(
            written in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..2000_u64]), 1..200),
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..64),
        ) {
            let shape = Shape::new(2, 64, 1518);
            let (memory, mut producer, mut consumer) = ends(shape);
            let mut taken = 0;
            for (packet, (place, value)) in packets.iter().zip(written.iter().cycle()) {
                if producer.free(1) == Ok(1) {
                    producer.put(packet);
                    producer.publish();
                }
                memory.words()[place.index(shape.words())].store(*value, Relaxed);
                if let Ok(packets) = drain(&mut consumer) {
                    taken += packets.len();
                    prop_assert!(packets.iter().all(|packet| packet.len() <= 1518));
                }
            }
            prop_assert!(taken <= 64 * packets.len());
        }
    }

    #[test]
    fn a_writer_that_changes_lengths_under_the_reader_moves_no_bound() {
        let shape = Shape::new(2, 64, 1518);
        let (memory, mut producer, mut consumer) = ends(shape);
        let stop = Arc::new(AtomicU64::new(0));
        let liar = std::thread::spawn({
            let (memory, stop, begin) = (memory.clone(), stop.clone(), shape.begin(1, Way::Out));
            move || {
                for value in (0_u64..).take_while(|_| stop.load(Relaxed) == 0) {
                    for slot in 0..64 {
                        let word = begin + SLOTS + slot * shape.slot();
                        memory.words()[word].store(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50, Relaxed);
                    }
                }
            }
        });
        let (mut read, mut lies, begin) = (0, 0, std::time::Instant::now());
        while (read == 0 || lies == 0) && begin.elapsed().as_secs() < 5 {
            while producer.free(1) == Ok(1) {
                producer.put(&[7; 60]);
            }
            producer.publish();
            std::thread::yield_now();
            let ready = consumer.ready().unwrap();
            for behind in 0..ready {
                match consumer.length(behind) {
                    Ok(length) => {
                        let mut bytes = vec![0; length];
                        consumer.copy(behind, &mut bytes);
                        read += 1;
                    }
                    Err(Lie) => lies += 1,
                }
            }
            consumer.advance(ready);
        }
        assert!(read > 0, "{read} read, {lies} lies");
        stop.store(1, Relaxed);
        liar.join().unwrap();
    }
}
