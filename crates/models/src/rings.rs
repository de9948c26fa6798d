//! The ring between a switch and the helper of an untrusted port: a producer, a consumer, and memory of which neither believes
//! what the other wrote.

use crate::atomics::{AtomicU64, Ordering};
use crate::the_ring::{Consumer, Lie, Producer, Shape, Way};
use crate::{SharedWords, every_order};
use loom::thread;
use std::sync::Arc;

/// Slots of the ring: fewer than packets, so that each is used again.
const SLOTS: u16 = 2;
/// Bytes of the longest packet: a word and some.
const LONGEST: u16 = 12;
/// Where the ring's number of packets put in stands, and the length in its first slot: behind the head of the memory, and
/// behind the ring's own.
const NUMBER: usize = 64;
const LENGTH: usize = NUMBER + 32;

fn ring() -> (Arc<SharedWords>, Producer, Consumer) {
    let shape = Shape::new(1, SLOTS, LONGEST);
    let memory = Arc::new(SharedWords((0..shape.words()).map(|_| AtomicU64::new(0)).collect()));
    let ends = (Producer::new(&memory, shape, 0, Way::In), Consumer::new(&memory, shape, 0, Way::In));
    (memory, ends.0, ends.1)
}

/// The packet of a number: each of another length.
fn packet(number: usize) -> Vec<u8> {
    vec![1 + number as u8; 9 + number % 4]
}

/// Takes all that waits; the packets, or that something cannot be.
fn take(consumer: &mut Consumer) -> Result<Vec<Vec<u8>>, Lie> {
    let ready = consumer.ready()?;
    let one = |behind| {
        let mut bytes = vec![0; consumer.length(behind)?];
        consumer.copy(behind, &mut bytes);
        Ok(bytes)
    };
    let packets: Result<Vec<_>, _> = (0..ready).map(one).collect();
    consumer.advance(ready);
    packets
}

/// Puts so many packets in, one or two at a time, as there is room.
fn put_all(producer: &mut Producer, packets: usize) {
    let mut put = 0;
    while put < packets {
        let room = producer.free(packets - put).expect("the other side does not lie");
        (0..room).for_each(|more| producer.put(&packet(put + more)));
        put += room;
        producer.publish();
        if room == 0 {
            thread::yield_now();
        }
    }
}

/// Packets come out as they went in, each once, while their slots are used again; orders of steps.
pub fn packets_come_out_as_they_went_in() -> u64 {
    every_order(Some(3), || {
        let (_memory, mut producer, mut consumer) = ring();
        let other = thread::spawn(move || put_all(&mut producer, 3));
        let mut taken = Vec::new();
        while taken.len() < 3 {
            let came = take(&mut consumer).expect("the other side does not lie");
            if came.is_empty() {
                thread::yield_now();
            }
            taken.extend(came);
        }
        other.join().expect("it does not panic");
        assert_eq!(taken, (0..3).map(packet).collect::<Vec<_>>());
    })
}

/// A producer that does not order its number behind its packets: what the model must find something wrong with.
pub fn a_careless_producer_is_found_out() {
    every_order(Some(3), || {
        let (memory, mut producer, mut consumer) = ring();
        let other = thread::spawn(move || {
            producer.put(&packet(0));
            memory.words()[NUMBER].store(1, Ordering::Relaxed);
        });
        let came = take(&mut consumer);
        other.join().expect("it does not panic");
        assert!(came == Ok(Vec::new()) || came == Ok(vec![packet(0)]), "{came:?}");
    });
}

/// Whatever a third party writes over numbers and lengths meanwhile, a packet is never longer than its slot, and no more come
/// at once than there are slots; orders of steps.
pub fn no_lie_moves_a_bound() -> u64 {
    every_order(Some(3), || {
        let (memory, mut producer, mut consumer) = ring();
        producer.put(&packet(0));
        producer.put(&packet(1));
        producer.publish();
        let liar = thread::spawn(move || {
            for (place, value) in [(LENGTH, u64::MAX), (NUMBER, 1 << 40), (LENGTH, 12), (NUMBER, 3)] {
                memory.words()[place].store(value, Ordering::Relaxed);
            }
        });
        for _ in 0..2 {
            if let Ok(came) = take(&mut consumer) {
                assert!(came.len() <= usize::from(SLOTS), "{came:?}");
                assert!(came.iter().all(|packet| (1..=usize::from(LONGEST)).contains(&packet.len())));
            }
        }
        liar.join().expect("it does not panic");
    })
}
