//! The ends of a port in the switch, before a helper that is played here and does as it likes.

use super::ends::{ApartRx, ApartTx, Common, ends};
use super::ring::{Consumer, Producer, Shape, Told, Way};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_dpdk::{BURST, Burst, Eal, EalConfig, Memory, Pool, SharedWords, Worker};
use weir_testkit::{Dice, seed};
use weir_units::FrameSize;

const SHAPE: (u16, u16, u16) = (1, 64, 1518);

fn shape() -> Shape {
    Shape::new(SHAPE.0, SHAPE.1, SHAPE.2)
}

/// A helper that is played: its memory and its ends of the rings.
struct Played {
    memory: Arc<SharedWords>,
    into: Producer,
    from: Consumer,
}

impl Played {
    fn new() -> Self {
        let memory = Arc::new(SharedWords::create(shape().words()).unwrap().0);
        Told::Link.write(&memory, 1);
        let into = Producer::new(&memory, shape(), 0, Way::In);
        let from = Consumer::new(&memory, shape(), 0, Way::Out);
        Self { memory, into, from }
    }

    fn gives(&mut self, packets: usize) {
        assert_eq!(self.into.free(packets), Ok(packets));
        (0..packets).for_each(|number| self.into.put(&[number as u8; 60]));
        self.into.publish();
    }

    fn takes(&mut self, packets: usize) {
        assert!(self.from.ready().unwrap() >= packets);
        self.from.advance(packets);
    }

    fn word(&self, at: usize, value: u64) {
        self.memory.words()[at].store(value, Relaxed);
    }
}

/// Runs the body as a switch's worker would, with the ends of a port and its first helper, and counts the pool.
fn on_worker(body: impl FnOnce(&Pool, &Common, (ApartRx, ApartTx), Played) + Send + 'static) {
    let config = EalConfig { memory: Memory::Normal, megabytes: 64, pci: false };
    let eal = Eal::init(config).expect("EAL starts anywhere");
    let pool = Pool::new(eal, 2048, FrameSize::new(1522).unwrap()).expect("memory");
    let inner = pool.clone();
    let play = move || {
        let first = Played::new();
        let common = Arc::new(Common::new(shape(), 1, first.memory.clone()));
        let both = ends(&common, 0, &inner);
        body(&inner, &common, both, first);
    };
    Worker::spawn(eal, "test", weir_cpu::allowed_cores()[0], play).unwrap().join().unwrap();
    assert_eq!(pool.in_use(), 0, "packet buffers are missing");
}

/// The next helper is there, the first has ended.
fn next(common: &Common) -> Played {
    common.ended();
    common.is_over();
    let next = Played::new();
    common.begun(next.memory.clone());
    next
}

/// All that comes, until nothing comes twice: the first time may be where one helper's ring ends.
fn receive(rx: &mut ApartRx) -> usize {
    let (mut sum, mut nothing) = (0, 0);
    while nothing < 3 {
        let mut burst = Burst::new();
        let got = rx.receive(&mut burst);
        assert_eq!(got, burst.len());
        assert!(burst.iter().all(|packet| (1..=1518).contains(&packet.len())));
        nothing = if got == 0 { nothing + 1 } else { 0 };
        sum += got;
    }
    sum
}

/// Sends so many packets of so many bytes. Returns those sent, those too long, and those that were not taken.
fn send(tx: &mut ApartTx, pool: &Pool, (packets, bytes): (usize, u16)) -> [usize; 3] {
    let mut burst = Burst::new();
    assert!(pool.fill(&mut burst, packets));
    burst.iter_mut().for_each(|packet| packet.set_len(bytes).fill(7));
    let sent = tx.transmit(&mut burst);
    [sent, tx.take_too_long().packets as usize, burst.len()]
}

#[test]
fn what_a_helper_had_given_is_received_after_its_end_and_what_it_had_not_passed_on_is_counted() {
    on_worker(|pool, common, (mut rx, mut tx), mut first| {
        first.gives(40);
        assert_eq!(send(&mut tx, pool, (30, 60)), [30, 0, 0]);
        first.takes(10);
        assert_eq!(common.undelivered(), 0, "it may pass them on yet");
        common.ended();
        assert_eq!((send(&mut tx, pool, (5, 60)), common.undelivered()), ([0, 0, 5], 0));
        common.is_over();
        assert_eq!(common.undelivered(), 20);
        let mut second = Played::new();
        common.begun(second.memory.clone());
        assert_eq!(common.undelivered(), 20, "whoever looks now sees the same");
        second.gives(7);
        assert_eq!(receive(&mut rx), 47);
        assert_eq!(send(&mut tx, pool, (3, 60)), [3, 0, 0]);
        assert_eq!(common.undelivered(), 20);
        second.takes(1);
        let mut third = next(common);
        assert_eq!(common.undelivered(), 22);
        third.gives(1);
        assert_eq!((receive(&mut rx), common.stats().received, common.stats().sent), (1, 48, 33));
    });
}

#[test]
fn a_helper_that_lies_is_heard_no_more_and_the_next_one_is() {
    on_worker(|pool, common, (mut rx, mut tx), mut first| {
        let lies: [fn(&mut Played); 4] = [
            // More than there are slots; fewer than before; a packet longer than its slot; more taken than was sent.
            |helper| helper.word(shape().begins(0, Way::In), 65),
            |helper| helper.word(shape().begins(0, Way::In), u64::MAX),
            |helper| {
                helper.gives(1);
                helper.word(shape().first_slot(0, Way::In), 1519);
            },
            |helper| helper.word(shape().consumed(0, Way::Out), 1 << 40),
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            assert!(!common.lied(), "{number}");
            lie(&mut first);
            let received = receive(&mut rx);
            // It asks how much is free once it knows of none.
            let sent: usize = (0..4).map(|_| send(&mut tx, pool, (BURST, 60))[0]).sum();
            assert!(received == 0 && sent <= 64 && common.lied(), "{number}: {received}, {sent}");
            assert_eq!(receive(&mut rx), 0);
            first = next(common);
            first.gives(9);
            assert_eq!((receive(&mut rx), send(&mut tx, pool, (9, 60))[0]), (9, 9), "{number}");
            first = next(common);
        }
    });
}

#[test]
fn a_ring_that_changes_after_its_helpers_end_keeps_nobody_from_the_next() {
    on_worker(|_, common, (mut rx, _), mut first| {
        for said in [34, 0, 1 << 50] {
            assert_eq!(receive(&mut rx), 0);
            first.gives(40);
            let mut burst = Burst::new();
            assert_eq!(rx.receive(&mut burst), BURST);
            let mut second = next(common);
            second.gives(5);
            burst.drop_front(2);
            assert_eq!(rx.receive(&mut burst), 2, "of eight that are left there is room for two");
            // None is left any more, if one believes it.
            first.word(shape().begins(0, Way::In), said);
            assert_eq!(receive(&mut rx), 5, "{said}");
            first = next(common);
        }
    });
}

#[test]
fn packets_that_are_too_long_end_with_that_reason_and_the_others_are_sent() {
    on_worker(|pool, common, (_, mut tx), first| {
        assert_eq!(send(&mut tx, pool, (3, 1519)), [0, 3, 0]);
        assert_eq!(send(&mut tx, pool, (3, 1518)), [3, 0, 0]);
        assert_eq!((first.from.ready(), first.from.length(2)), (Ok(3), Ok(1518)));
        Told::Link.write(&first.memory, 0);
        assert_eq!(send(&mut tx, pool, (3, 60)), [0, 0, 3], "nobody is there");
        assert_eq!(common.stats().sent, 3);
    });
}

#[test]
fn whatever_a_helper_writes_whenever_each_packet_ends_once() {
    on_worker(|pool, common, (mut rx, mut tx), mut helper| {
        let mut dice = Dice::new(seed(22));
        let (mut sent, mut received, mut lies) = (0, 0, 0);
        for _ in 0..20_000 {
            match dice.below(8) {
                0..=2 => {
                    let wanted = 1 + dice.below(16) as usize;
                    if helper.into.free(wanted) == Ok(wanted) {
                        helper.gives(wanted);
                    }
                }
                3 | 4 => {
                    let ready = helper.from.ready().unwrap_or(0);
                    helper.from.advance(ready);
                }
                5 => {
                    // Small ones are near the truth: they are what has to be found out.
                    let value = [dice.below(200), dice.below(u64::MAX), 0][dice.below(3) as usize];
                    helper.word(dice.below(shape().words() as u64) as usize, value);
                }
                6 => {
                    let numbers = [shape().begins(0, Way::In), shape().consumed(0, Way::Out)];
                    let at = numbers[dice.below(2) as usize];
                    let now = helper.memory.words()[at].load(Relaxed);
                    helper.word(at, now.wrapping_add(dice.below(256)).wrapping_sub(128));
                }
                _ => {
                    if common.lied() {
                        lies += 1;
                        helper = next(common);
                    }
                }
            }
            let offered = 1 + dice.below(BURST as u64) as usize;
            let [gone, long, left] = send(&mut tx, pool, (offered, 1 + dice.below(1600) as u16));
            assert_eq!(gone + long + left, offered);
            sent += gone as u64;
            received += receive(&mut rx) as u64;
            let stats = common.stats();
            assert_eq!((stats.sent, stats.received), (sent, received));
            assert!(common.undelivered() <= sent);
        }
        assert!(lies > 10 && sent > 1000 && received > 1000, "{lies} lies, {sent} sent, {received} received");
        // Who does not lie is served.
        let mut last = next(common);
        last.gives(20);
        assert_eq!((receive(&mut rx), send(&mut tx, pool, (20, 60))[0]), (20, 20));
    });
}
