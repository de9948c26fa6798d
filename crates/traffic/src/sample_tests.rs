use super::*;
use crate::stamp::key;
use crate::trace::{FrameSource, FrameTable, Sizes, TableCursor, TraceSpec};
use std::sync::Arc;
use weir_trial::Nf;

const TRIAL: u16 = 5;
const PORTS: usize = 2;

fn table(name: &str, sizes: &str) -> Arc<FrameTable> {
    let spec = TraceSpec::parse(name).unwrap();
    // Some traces come in their own sizes only.
    let spec = if sizes == "own" { spec } else { spec.sizes(sizes.parse::<Sizes>().unwrap()) };
    match spec.build().unwrap() {
        FrameSource::Table(cursor) => Arc::clone(cursor.table()),
        FrameSource::Stream(_) => panic!("{name} is in memory"),
    }
}

/// Sends the frames of a direction as a sender does: every `every`th has its turn to be stamped.
fn sent(table: &Arc<FrameTable>, (start, every, count): (usize, u32, usize), direction: u16) -> Vec<Vec<u8>> {
    let mut cursor = TableCursor::new(Arc::clone(table), Default::default());
    cursor.advance(start).for_each(drop);
    let (mut turn, mut sequence, mut frames) = (0, 0, Vec::new());
    for place in cursor.advance(count) {
        let mut frame = table.frame(place).to_vec();
        turn += 1;
        if turn % every == 0 {
            let stamp = Stamp { trial: TRIAL << 1 | direction, sequence, tsc: 1_000 + sequence };
            sequence += u64::from(table.slot(place).stamp(&mut frame, stamp));
        }
        frames.push(frame);
    }
    frames
}

#[test]
fn every_stamped_frame_is_made_again_from_its_number() {
    // T1's connections begin with packets too short for a stamp.
    for (name, sizes) in [("flows:100", "64"), ("flows:7", "imix"), ("t1", "own"), ("simple", "64")] {
        let table = table(name, sizes);
        for (start, every) in [(0, 1), (3, 1), (5, 2), (1, 7), (table.len() - 1, 10), (0, 100)] {
            let recall = Recall::new(Arc::clone(&table), start, every);
            let frames = sent(&table, (start, every, (3 * table.len()).clamp(1_000, 60_000)), 0);
            let mut stamped = 0;
            for frame in &frames {
                // One in 65,536 of T1's frames without a stamp reads as one, of any trial.
                let Some(stamp) = Stamp::read(frame, key()).filter(|stamp| stamp.trial == TRIAL << 1) else {
                    continue;
                };
                assert_eq!(recall.frame(stamp).as_ref(), Some(frame), "{name} {start} {every} {stamp:?}");
                stamped += 1;
            }
            assert!(stamped > 0, "{name} {every}");
        }
    }
}

/// A trial through a device: what came by each port, whether known, judged.
fn judged(nf: &str, change: impl Fn(&mut Vec<(usize, Vec<u8>, bool)>)) -> PacketCheck {
    let (table, oracle) = (table("flows:50", "64"), Oracle::new(nf.parse::<Nf>().unwrap()));
    let mut out = Vec::new();
    for frame in sent(&table, (9, 1, 200), 0) {
        if let Expected::Forward { port, frame } = oracle.expected(0, &frame) {
            out.push((usize::from(port), frame, true));
        }
    }
    change(&mut out);
    let mut samplers: Vec<Sampler> = (0..PORTS).map(|_| Sampler::new(Reading::Plain)).collect();
    samplers.iter_mut().for_each(|sampler| sampler.begin(TRIAL, 200.0));
    out.iter().for_each(|(port, frame, known)| samplers[*port].see(frame, Ticks(9_000), *known));
    let recalls = vec![vec![Recall::new(table, 9, 1)]];
    let judge = SampleJudge { oracle: &oracle, recalls, begins: &[0], trial: TRIAL, start: Ticks(1_000) };
    judge.judge(samplers.iter().enumerate())
}

fn faults(check: &PacketCheck) -> Vec<(Fault, u64)> {
    check.wrong.iter().map(|wrong| (wrong.fault, wrong.count)).collect()
}

#[test]
fn right_packets_are_found_right() {
    for nf in ["l2fwd", "l3fwd:10", "firewall:10"] {
        let check = judged(nf, |_| {});
        assert!(check.compared == 200 && check.is_right(), "{check}");
    }
}

#[test]
fn faults_of_packets_with_and_without_their_stamp_are_named() {
    type Change = fn(&mut Vec<(usize, Vec<u8>, bool)>);
    let cases: [(Change, Fault); 11] = [
        (|out| out[4].1[0] ^= 1, Fault::Macs),
        (|out| out[4].1[22] ^= 1, Fault::Ttl),
        (|out| out[4].1[24] ^= 1, Fault::Checksum),
        (|out| out[4].1[36] ^= 1, Fault::Header),
        (|out| (out[4].1[52], out[4].2) = (out[4].1[52] ^ 0xff, false), Fault::Header), // a stamp no longer
        (|out| (out[4].0, out[4].2) = (0, false), Fault::Port),
        (|out| (out[4].1[42], out[4].2) = (out[4].1[42] ^ 0xff, false), Fault::Header),
        (
            |out| {
                out[4].1.truncate(58);
                out[4].2 = false;
            },
            Fault::Length,
        ),
        (|out| out.push((1, vec![3; 60], false)), Fault::Foreign),
        (
            |out| {
                // Another time, and the checksum that goes with it: only the stamp is wrong.
                let frame = &mut out[4].1;
                frame[59] = frame[59].wrapping_add(9);
                let stamp = *frame.last_chunk::<{ Stamp::BYTES }>().unwrap();
                let (at, field) = StampSlot::of(frame).finish(&stamp).unwrap();
                frame[at..at + 2].copy_from_slice(&field);
                out[4].2 = false;
            },
            Fault::Payload,
        ),
        (
            |out| {
                Stamp { trial: 3 << 1, sequence: 4, tsc: 1_004 }.write(&mut out[4].1, key());
                out[4].2 = false;
            },
            Fault::Stale,
        ),
    ];
    for (number, (change, fault)) in cases.into_iter().enumerate() {
        let check = judged("l3fwd:10", change);
        let found = faults(&check);
        assert!(found.contains(&(fault, 1)), "case {number}: {check}");
        assert!(found.len() == 1 || found.contains(&(Fault::Checksum, 1)), "case {number}: {check}");
    }
}

#[test]
fn what_came_by_another_pair_of_ports_is_named_in_a_sample() {
    let (table, oracle) = (table("flows:50", "64"), Oracle::new(Nf::L2Fwd));
    let check = |begins: &[usize], port: usize| {
        let mut sampler = Sampler::new(Reading::Plain);
        sampler.begin(TRIAL, 100.0);
        // Of direction 1, which enters by port 2.
        for frame in sent(&table, (0, 1, 50), 1) {
            sampler.see(&frame, Ticks(9_000), false);
        }
        let recalls = vec![vec![Recall::new(Arc::clone(&table), 0, 1)]; 2];
        SampleJudge { oracle: &oracle, recalls, begins, trial: TRIAL, start: Ticks(0) }
            .judge([(port, &sampler)])
    };
    assert_eq!(faults(&check(&[0, 2], 3)), []);
    let crossed = check(&[0, 2], 1);
    assert_eq!(faults(&crossed), [(Fault::Port, 32)], "{crossed}");
    assert!(crossed.wrong[0].example.contains("left by port 1, must leave by port 3"), "{crossed}");
}

#[test]
fn what_a_rule_denies_is_found_in_a_sample() {
    let rules = ["deny udp any any any any", "allow any any any any any"].map(|rule| rule.parse().unwrap());
    let wall = Oracle::with_tables("firewall:2".parse().unwrap(), &[], rules.into());
    let table = table("flows:50", "64");
    let mut sampler = Sampler::new(Reading::Plain);
    sampler.begin(TRIAL, 100.0);
    for frame in sent(&table, (0, 1, 100), 0) {
        sampler.see(&frame, Ticks(9_000), true);
    }
    let recalls = vec![vec![Recall::new(table, 0, 1)]];
    let check = SampleJudge { oracle: &wall, recalls, begins: &[0], trial: TRIAL, start: Ticks(0) }
        .judge([(1, &sampler)]);
    assert_eq!(faults(&check), [(Fault::Denied, 100)], "{check}");
}

#[test]
fn a_sample_is_spread_over_the_trial_and_never_allocates() {
    let mut sampler = Sampler::new(Reading::Plain);
    let (bytes, copies) = (sampler.bytes.capacity(), sampler.copies.capacity());
    let mut frame = vec![0; 60];
    for (packets, size) in [(100_000_u64, 60), (1_000_000, 60), (100_000, 1514), (300, 9_000)] {
        frame.resize(size, 0);
        sampler.begin(9, packets as f64);
        for number in 0..packets {
            Stamp { trial: 18, sequence: number, tsc: 0 }.write(&mut frame, key());
            sampler.see(&frame, Ticks(number), true);
        }
        assert_eq!((sampler.bytes.capacity(), sampler.copies.capacity()), (bytes, copies));
        if size < 9_000 {
            assert!((200..=320).contains(&sampler.copies.len()), "{} of {packets}", sampler.copies.len());
            let late = sampler.copies.iter().filter(|copied| copied.now.0 > packets / 2).count();
            assert!((70..=180).contains(&late), "{late} in the second half");
        }
    }
    sampler.begin(9, 1e9);
    (0..100).for_each(|_| sampler.see(&[7; 60], Ticks(0), false));
    assert_eq!(sampler.copies.len(), FOREIGN);
}

#[test]
fn where_few_packets_carry_a_stamp_those_are_sampled() {
    let mut sampler = Sampler::new(Reading::Plain);
    sampler.begin(1, 10_000.0);
    let table = table("flows:100", "64");
    sent(&table, (0, 20, 10_000), 0).iter().for_each(|frame| sampler.see(frame, Ticks(0), true));
    assert!(sampler.copies.len() > 100, "{}", sampler.copies.len());
    assert!(table.is_stampable());
}
