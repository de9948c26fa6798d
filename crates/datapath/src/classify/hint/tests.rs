//! Tables that lag behind, are full, or lie: whatever hints say, a packet gets its own megaflow or none.

use super::soft::{SoftPort, SoftTable};
use super::*;
use crate::classify::cache::Made;
use crate::model::clock::Clock;
use crate::model::pipeline::Pipeline;
use crate::stats::report::CacheReport;
use proptest::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard};
use weir_dpdk::{BURST, Eal, EalConfig, Memory, Pool};
use weir_flow::{Field, Seed};
use weir_openflow::PortNo;
use weir_port::{Receive, Rx, TooLong};
use weir_units::FrameSize;

/// A table that does what it is told at once, and marks packets as a test says.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    marks: Vec<Option<Mark>>,
    written: Vec<Mark>,
    erased: Vec<Mark>,
    gone: Vec<Mark>,
    full: bool,
}

impl Scripted {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

impl HintSource for Scripted {
    fn is_ready(&self, _: Nanos) -> bool {
        true
    }

    fn write(&mut self, mark: Mark, _: &Key, _: &Mask, _: Nanos) -> Result<(), Refusal> {
        if self.script().full {
            return Err(Refusal::Full);
        }
        self.script().written.push(mark);
        Ok(())
    }

    fn erase(&mut self, mark: Mark, _: Nanos) -> Result<(), Refusal> {
        self.script().erased.push(mark);
        Ok(())
    }

    fn gone(&mut self, _: Nanos) -> Option<Mark> {
        self.script().gone.pop()
    }
}

/// What marks packets: a script, or the soft TCAM in front of a port.
enum Port {
    Scripted(Scripted),
    Soft(SoftPort),
}

/// A worker's caches and a burst, and a table in front of them.
struct Bench {
    caches: Caches,
    pipeline: Pipeline,
    hints: Hints,
    report: HintReport,
    found: Found,
    burst: Burst,
    port: Port,
    pool: Pool,
}

/// The soft TCAM in front of a queue of port 0.
fn soft(inner: Rx, config: &str) -> (SoftPort, SoftTable) {
    let clock = Clock { start: weir_cpu::Ticks::now(), nanos_per_tick: 1.0 };
    in_front_of(inner, PortNo(0), (Seed::new(2), &config.parse().unwrap()), clock)
}

fn frame(source: u32) -> Vec<u8> {
    weir_frames::of_flow(source, 0xc613_0001, (1000, 80), &[0; 18])
}

/// Addresses of 10.N.0.0/16 are the flow N.
fn key(flow: u8, host: u16) -> Key {
    let mut key = Key::new();
    Field::NwSrc.set(&mut key, 0x0a00_0000 | u128::from(flow) << 16 | u128::from(host));
    key
}

fn mask() -> Mask {
    let mut mask = Mask::new();
    Field::NwSrc.examine(&mut mask, 0xffff_0000);
    mask
}

impl Bench {
    fn new(table: &Scripted, config: &str, first: Mark) -> Self {
        Self::with(Port::Scripted(table.clone()), table.clone(), (config, first))
    }

    fn with(port: Port, source: impl HintSource + 'static, (config, first): (&str, Mark)) -> Self {
        let eal = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        let pool = Pool::new(Eal::init(eal).unwrap(), 1024, FrameSize::MIN).unwrap();
        let mut burst = Burst::new();
        assert!(pool.fill(&mut burst, BURST));
        Self {
            caches: Caches::new(Seed::new(1), &crate::model::experiment::Experiment::default()),
            pipeline: Pipeline::new(Seed::new(1), Vec::new(), true),
            hints: Hints::new(Box::new(source), &config.parse().unwrap(), first),
            report: HintReport::default(),
            found: Found::default(),
            burst,
            port,
            pool,
        }
    }

    fn soft(config: &str) -> Self {
        let (port, table) = soft(Rx::Null, config);
        Self::with(Port::Soft(port), table, (config, 1))
    }

    /// Adds the megaflow of a flow.
    fn megaflow(&mut self, flow: u8) -> Handle {
        let made = Made { segments: Vec::new(), tables: [0; 4], rewritten: 0, used: Nanos(0) };
        self.caches.insert(&key(flow, 0), &mask(), made, &self.pipeline);
        self.software(&[key(flow, 1)], 1);
        self.found.handles[0]
    }

    fn software(&mut self, keys: &[Key], wanted: Packets) -> Packets {
        let Self { caches, found, .. } = self;
        let mut report = CacheReport::default();
        let known = caches.lookup(keys, wanted, found, &mut report);
        known | caches.lookup_masked(keys, wanted & !known, found, &mut report)
    }

    /// What the table and the software make of a burst.
    fn packets(&mut self, keys: &[Key], now: u64) -> Packets {
        let wanted = (1 << keys.len()) - 1;
        match &mut self.port {
            Port::Scripted(table) => {
                for (packet, mark) in self.burst.iter_mut().zip(&table.script().marks) {
                    packet.set_mark(*mark);
                }
            }
            Port::Soft(port) => {
                for (packet, key) in self.burst.iter_mut().zip(keys) {
                    let frame = frame(Field::NwSrc.get(key) as u32);
                    packet.set_len(frame.len() as u16);
                    packet.data_mut().copy_from_slice(&frame);
                }
                port.mark(&mut self.burst, 0, Nanos(now));
            }
        }
        let (found, report) = (&mut self.found, &mut self.report);
        self.hints.resolve((&self.burst, keys), wanted, &mut self.caches, (found, report), Nanos(now))
    }

    fn propose(&mut self, handle: Handle, now: u64) {
        self.hints.propose(handle, &self.caches, &mut self.report, Nanos(now));
    }

    fn counts(&self) -> [u64; 4] {
        [self.report.hits, self.report.missed, self.report.stale, self.report.wrong]
    }
}

#[test]
fn a_megaflow_is_named_once_the_table_has_taken_it_up() {
    let mut bench = Bench::soft("8,latency=100us");
    let handle = bench.megaflow(3);
    bench.propose(handle, 1000);
    bench.propose(handle, 1000);
    assert_eq!((bench.packets(&[key(3, 7)], 100_999), bench.report.written), (0, 1));
    assert_eq!(bench.packets(&[key(3, 7), key(4, 7)], 101_000), 0b01);
    assert_eq!((bench.found.handles[0], bench.counts()), (handle, [1, 2, 0, 0]));
    let Port::Soft(port) = &mut bench.port else { unreachable!("it is emulated") };
    assert!(port.take_emulated() > 0 && port.take_emulated() == 0);
}

/// A port by which the same frame comes again and again.
#[derive(Debug)]
struct Again(Pool, Vec<u8>);

impl Receive for Again {
    fn receive(&mut self, burst: &mut Burst) -> usize {
        let room = burst.room();
        (0..room).for_each(|_| drop(burst.push(self.0.packet(&self.1).unwrap())));
        room
    }

    fn take_too_long(&mut self) -> TooLong {
        TooLong { packets: 3, bytes: 4000 }
    }

    fn take_emulated(&mut self) -> u64 {
        1 << 60
    }
}

#[test]
fn packets_come_out_of_a_soft_tcam_as_out_of_a_nic_with_their_marks_and_its_cycles_are_told() {
    let mut bench = Bench::soft("8,latency=0us");
    let pool = bench.pool.clone();
    bench.burst.clear();
    let inner = Rx::Decorated(Box::new(Again(pool.clone(), frame(0x0a03_0009))));
    let (port, mut table) = soft(inner, "8,latency=0us");
    let mut rx = Rx::Decorated(Box::new(port));
    let mut burst = Burst::new();
    // One that was there before is nobody's business, its mark included.
    drop(burst.push(pool.packet(&frame(0x0a03_0001)).unwrap()));
    burst.get_mut(0).unwrap().set_mark(Some(9));
    table.write(5, &key(3, 0), &mask(), Nanos(0)).unwrap();
    assert_eq!(rx.receive(&mut burst), BURST - 1);
    let marks: Vec<_> = burst.iter().map(|packet| packet.mark()).collect();
    assert_eq!((marks[0], &marks[1..]), (Some(9), &[Some(5); BURST - 1][..]));
    assert_eq!(rx.take_too_long(), TooLong { packets: 3, bytes: 4000 });
    let spent = rx.take_emulated();
    assert!(spent > 1 << 60, "{spent}: its own cycles, and those of what is behind it");
    burst.clear();
    table.erase(5, Nanos(0)).unwrap();
    rx.receive(&mut burst);
    assert!(burst.iter().all(|packet| packet.mark().is_none()), "it is erased");
}

#[test]
fn a_megaflow_that_was_removed_is_named_until_the_table_catches_up_and_nobody_believes_it() {
    let mut bench = Bench::soft("8,latency=100us");
    let old = bench.megaflow(3);
    bench.propose(old, 0);
    assert_eq!(bench.packets(&[key(3, 1)], 100_000), 1);
    bench.caches.remove(old, &bench.pipeline);
    let new = bench.megaflow(3);
    assert_ne!(old, new);
    // The first stale hint has the entry erased, which takes its time too.
    assert_eq!(bench.packets(&[key(3, 1), key(3, 2)], 200_000), 0);
    assert_eq!((bench.packets(&[key(3, 1)], 299_999), bench.counts()), (0, [1, 0, 3, 0]));
    assert_eq!((bench.packets(&[key(3, 1)], 300_000), bench.counts()), (0, [1, 1, 3, 0]));
    bench.propose(new, 300_000);
    assert_eq!(bench.packets(&[key(3, 1)], 400_000), 1);
    assert_eq!(bench.found.handles[0], new);
}

#[test]
fn a_full_table_gives_up_the_least_recently_used_or_the_slowest() {
    for (evict, leaves) in [("least-recent", 1), ("lowest-rate", 2)] {
        let mut bench = Bench::soft(&format!("3,latency=0us,evict={evict}"));
        let handles: Vec<Handle> = (0..4).map(|flow| bench.megaflow(flow)).collect();
        handles[..3].iter().for_each(|handle| bench.propose(*handle, 0));
        // Flow 1 has many packets, and the oldest; flow 2 has one.
        for now in 1..10 {
            bench.packets(&[key(0, 1), key(1, 1), key(1, 2)], now);
        }
        bench.packets(&[key(0, 1), key(0, 2), key(2, 1)], 20);
        bench.propose(handles[3], 30);
        assert_eq!((bench.report.full, bench.report.evicted, bench.report.written), (1, 1, 3), "{evict}");
        bench.propose(handles[3], 31);
        let keys: Vec<Key> = (0..4).map(|flow| key(flow, 9)).collect();
        assert_eq!(bench.packets(&keys, 40), 0b1111 & !(1 << leaves), "{evict}");
        assert_eq!(bench.hints.fill(), (3, 3));
    }
}

#[test]
fn a_table_smaller_than_it_said_is_found_out_and_its_places_are_not_lost() {
    let table = Scripted::default();
    let mut bench = Bench::new(&table, "4", 1);
    let handle = bench.megaflow(1);
    table.script().full = true;
    (0..10).for_each(|now| bench.propose(handle, now));
    assert_eq!((bench.report.full, bench.report.written, bench.hints.fill()), (10, 0, (4, 0)));
    table.script().full = false;
    bench.propose(handle, 10);
    // It took the update, and said later that nothing came of it.
    let mark = table.script().written[0];
    table.script().gone.push(mark);
    bench.propose(handle, 11);
    assert_eq!((bench.report.written, bench.hints.fill()), (2, (4, 1)));
}

#[test]
fn the_hint_of_another_ports_table_is_wrong_here() {
    let other = Scripted::default();
    let mut bench = Bench::new(&other, "4", 5);
    let handle = bench.megaflow(1);
    bench.propose(handle, 0);
    assert_eq!(other.script().written, [5]);
    other.script().marks = vec![Some(1), Some(9), Some(0), Some(u32::MAX), Some(5), Some(6)];
    let keys: Vec<Key> = (0..6).map(|host| key(1, host)).collect();
    assert_eq!(bench.packets(&keys, 1), 0b01_0000);
    // Mark 6 is one of ours, of a place that nobody has: as stale as any.
    assert_eq!((bench.counts(), other.script().erased.len()), ([1, 0, 1, 4], 0));
}

proptest! {
    // Each case makes caches and packets anew.
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Marks and handles at random, megaflows that come and go, tables that say things are gone that are not.
    #[test]
    fn no_hint_ever_names_a_megaflow_that_the_packet_does_not_belong_to(
        steps in proptest::collection::vec((0_u8..8, 0_u8..8, 0_u32..14, any::<u64>()), 1..200)
    ) {
        let table = Scripted::default();
        let mut bench = Bench::new(&table, "8", 3);
        let (mut live, mut resolved) = ([None; 8], 0);
        for (now, (step, flow, mark, random)) in (0..).zip(steps) {
            let at = usize::from(flow);
            match step {
                0 => live[at] = Some(bench.megaflow(flow)),
                1 => if let Some(handle) = live[at].take() {
                    bench.caches.remove(handle, &bench.pipeline);
                },
                2 => if let Some(handle) = live[at] {
                    bench.propose(handle, now);
                },
                3 => table.script().gone.push(mark),
                // A place's handle is spoilt: any bits, or another's.
                4 => bench.hints.slots[at].handle = Handle::from_bits(random),
                5 => bench.hints.slots[at].handle = live[(random % 8) as usize].unwrap_or_default(),
                _ => {
                    let keys: Vec<Key> = (0..8).map(|host| key((flow + host as u8) % 8, host)).collect();
                    let marks = (0..8).map(|place| (random >> place & 1 == 0).then_some((mark + place) % 14));
                    table.script().marks = marks.collect();
                    let hits = bench.packets(&keys, now);
                    resolved += 8;
                    for (place, key) in keys.iter().enumerate().filter(|(place, _)| hits >> place & 1 == 1) {
                        let (of, mask) = bench.caches.matching(bench.found.handles[place]).expect("it is there");
                        prop_assert!(key.agrees(&of, mask));
                    }
                    let named = bench.found.handles;
                    let software = bench.software(&keys, 0xff);
                    prop_assert_eq!(hits & !software, 0, "the software finds what hints find");
                    for place in places(hits) {
                        prop_assert_eq!(named[place], bench.found.handles[place]);
                    }
                }
            }
            prop_assert_eq!(bench.counts().iter().sum::<u64>(), resolved);
        }
    }
}
