use super::*;
use crate::trace::TraceSpec;
use weir_dpdk::{Eal, EalConfig, Memory, Port, PortConfig};
use weir_trial::verdict::Code;
use weir_trial::{TrialResult, TrialSpec, judge};
use weir_units::{FrameSize, Nanos, Pps};

const SPEC: TrialSpec = TrialSpec { load: Pps(1e6), duration: Nanos(50_000_000) };

/// A sender into a port that takes everything, in a trial that begins now; what it counted at its end.
fn counted(port: &str, rogue: impl Fn(&mut Sender, u64)) -> (DirectionCounts, u64) {
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 64, pci: false }).unwrap();
    let (tsc, pool) = (Tsc::get(), Pool::new(eal, 4_096, FrameSize::new(1522).unwrap()).unwrap());
    let mut port = Port::open(port, PortConfig::default(), &pool).unwrap();
    let (_rx, tx) = port.take_queue().unwrap();
    let source = TraceSpec::parse("flows:10").unwrap().build().unwrap();
    let mut sender = Sender::new(source, tx, &pool, Shape::Constant, NonZeroU32::MIN, 1);
    let grid = Grid::new(Ticks(0), tsc.ticks(SPEC.duration), tsc);
    let schedule =
        Schedule { shape: Shape::Constant, load: SPEC.load, duration: SPEC.duration, phase: 0.0, seed: 1 };
    let catch_up = tsc.ticks(Nanos(100_000));
    sender.begin(SenderCourse { trial: 2, stream: 0, schedule, grid, catch_up }, tsc);
    let start = Ticks::now();
    sender.begin_at(start);
    let (mut now, mut round) = (start, 0);
    while now.since(start) < grid.length {
        sender.offer(now);
        rogue(&mut sender, round);
        round += 1;
        now = Ticks::now();
    }
    let counts = sender.finish();
    let in_windows = sender.windows().windows().iter().map(|window| window.intended()).sum();
    (counts, in_windows)
}

/// When the first packets of a trial's stream are due, where gaps are drawn.
fn drawn(sender: &mut Sender, tsc: Tsc, trial: u16, stream: u8) -> Vec<u64> {
    let grid = Grid::new(Ticks(0), tsc.ticks(SPEC.duration), tsc);
    let schedule =
        Schedule { shape: Shape::Poisson, load: SPEC.load, duration: SPEC.duration, phase: 0.0, seed: 1 };
    sender.begin(SenderCourse { trial, stream, schedule, grid, catch_up: 0 }, tsc);
    let pacer = sender.pacer.as_mut().unwrap();
    let next = |_| {
        let due = pacer.first();
        pacer.due(due, 1);
        due
    };
    (0..10).map(next).collect()
}

/// A sender of a trace into a port that takes everything, which stamps one packet in so many.
fn sender(trace: &str, port: &str, shape: Shape, every: u32) -> (Sender, Tsc) {
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 64, pci: false }).unwrap();
    let (tsc, pool) = (Tsc::get(), Pool::new(eal, 4_096, FrameSize::new(1522).unwrap()).unwrap());
    let mut port = Port::open(port, PortConfig::default(), &pool).unwrap();
    let (_rx, tx) = port.take_queue().unwrap();
    let source = TraceSpec::parse(trace).unwrap().build().unwrap();
    (Sender::new(source, tx, &pool, shape, NonZeroU32::new(every).unwrap(), 1), tsc)
}

#[test]
fn each_trial_and_stream_draws_gaps_of_its_own_and_the_same_again() {
    let (mut sender, tsc) = sender("flows:10", "net_null_drawn", Shape::Poisson, 1);
    let first = drawn(&mut sender, tsc, 2, 0);
    assert!(first.is_sorted() && first[0] < first[9], "{first:?}");
    assert_ne!(first, drawn(&mut sender, tsc, 4, 0), "another trial");
    assert_ne!(first, drawn(&mut sender, tsc, 2, 1), "another stream");
    assert_eq!(first, drawn(&mut sender, tsc, 2, 0), "the same trial again");
}

#[test]
fn all_packets_are_stamped_only_where_each_is_to_be_and_each_can_be() {
    let all = |trace, port, every| sender(trace, port, Shape::Constant, every).0.stamps_all();
    assert!(all("flows:10", "net_null_all", 1));
    assert!(!all("flows:10", "net_null_second", 2), "every other packet");
    assert!(!all("tcp:10", "net_null_bare", 1), "a SYN has no room for a stamp");
}

#[test]
fn a_trial_counts_anew_to_its_first_stamp() {
    let (mut sender, tsc) = sender("flows:10", "net_null_anew", Shape::Constant, 3);
    let stamped = |sender: &mut Sender, packets| {
        drawn(sender, tsc, 2, 0);
        sender.offer_now(packets);
        sender.finish().stamped
    };
    assert_eq!(stamped(&mut sender, 4), 1);
    assert_eq!(stamped(&mut sender, 2), 0, "the third of this trial is the first to be stamped");
}

fn verdict(counts: DirectionCounts) -> weir_trial::Verdict {
    judge(&TrialResult { directions: vec![counts], ..TrialResult::new(SPEC) })
}

#[test]
fn what_a_sender_counts_is_its_schedule_in_all_and_in_the_windows() {
    let (counts, in_windows) = counted("net_null_sums", |_, _| {});
    assert_eq!((counts.intended, in_windows), (50_000, 50_000));
    assert_eq!(counts.sent + counts.refused + counts.unsent, counts.intended);
    assert_eq!((counts.stamped, counts.refused), (counts.sent, 0), "every packet is stamped and taken");
    assert!(!verdict(counts).has(Code::CountsDoNotAddUp));
}

/// The check is no identity: the schedule was counted before the trial, what was sent during it.
#[test]
fn a_sender_that_sends_beside_its_schedule_does_not_add_up() {
    let (counts, in_windows) = counted("net_null_rogue", |sender, round| {
        if round == 100 {
            sender.offer_now(5);
        }
    });
    assert_eq!((counts.intended, in_windows), (50_000, 50_005));
    assert!(verdict(counts).has(Code::CountsDoNotAddUp), "{counts:?}");
}

#[test]
fn a_ring_that_nobody_empties_refuses_what_does_not_fit_and_all_of_it_is_counted() {
    let (counts, _) = counted("net_ring_full", |_, _| {});
    assert!(counts.refused > 0, "nobody empties the ring: {counts:?}");
    assert_eq!(counts.sent + counts.refused + counts.unsent, 50_000);
}
