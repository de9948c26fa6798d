use super::*;
use crate::stamp::key;
use crate::trace::{FrameSource, Sizes, TableCursor, TraceSpec};
use weir_trial::Nf;

const TRIAL: u16 = 8;

fn table(name: &str, sizes: &str) -> Arc<FrameTable> {
    let spec = TraceSpec::parse(name).unwrap();
    let spec = if sizes == "own" { spec } else { spec.sizes(sizes.parse::<Sizes>().unwrap()) };
    let FrameSource::Table(cursor) = spec.build().unwrap() else { panic!("{name} is in memory") };
    Arc::clone(cursor.table())
}

/// The stamped packets of a trial that begins at a place, as a sender numbers them.
fn sent(table: &Arc<FrameTable>, start: usize, every: u32, count: usize) -> Vec<(Stamp, Vec<u8>)> {
    let mut cursor = TableCursor::new(Arc::clone(table), Default::default());
    cursor.advance(start).for_each(drop);
    let (mut turn, mut sequence, mut frames) = (0, 0, Vec::new());
    for place in cursor.advance(count) {
        turn += 1;
        let mut frame = table.frame(place).to_vec();
        let stamp = Stamp { trial: TRIAL, sequence, tsc: 7_000 + sequence };
        if turn % every == 0 && table.slot(place).stamp(&mut frame, stamp) {
            sequence += 1;
            frames.push((stamp, frame));
        }
    }
    frames
}

/// What a function makes of them: stamp, port, frame.
fn out(oracle: &Oracle, sent: &[(Stamp, Vec<u8>)]) -> Vec<(Stamp, u8, Vec<u8>)> {
    let made = sent.iter().filter_map(|(stamp, frame)| match oracle.expected(0, frame) {
        Expected::Forward { port, frame } => Some((*stamp, port, frame)),
        _ => None,
    });
    made.collect()
}

fn each(oracle: &Oracle, table: &Arc<FrameTable>, (start, every): (usize, u32)) -> Each {
    let ways = Ways::of(oracle, 0, table).expect("the oracle knows what must come");
    Each::new(Arc::new(ways), Recall::new(Arc::clone(table), start, every))
}

#[test]
fn right_packets_of_every_function_size_and_order_are_found_right() {
    for nf in ["l2fwd", "l3fwd:10", "firewall:10", "pipeline-a:16"] {
        let oracle = Oracle::new(nf.parse::<Nf>().unwrap());
        for (trace, sizes) in [("flows:50", "64"), ("tr3i", "imix"), ("flows:7", "1500"), ("simple", "128")] {
            let table = table(trace, sizes);
            let Some(ways) = Ways::of(&oracle, 0, &table).map(Arc::new) else { continue };
            for (start, every) in [(0, 1), (table.len() - 1, 1), (3, 7)] {
                let mut each = Each::new(Arc::clone(&ways), Recall::new(Arc::clone(&table), start, every));
                let mut packets =
                    out(&oracle, &sent(&table, start, every, 3_000.max(2 * table.len()).min(30_000)));
                if packets.len() <= 40 {
                    continue;
                }
                packets.swap(3, 40);
                let found = packets.iter().map(|(stamp, port, frame)| each.look(*stamp, *port, frame));
                let wrong = found.filter(|look| *look == Look::Wrong).count();
                assert_eq!(wrong, 0, "{nf} {trace} {sizes} {start} {every}");
            }
        }
    }
}

#[test]
fn every_changed_bit_but_those_of_the_stamp_and_padding_is_found() {
    for (nf, size) in
        [("l2fwd", "64"), ("l2fwd", "130"), ("l3fwd:10", "64"), ("l3fwd:10", "200"), ("firewall:10", "65")]
    {
        let (oracle, table) = (Oracle::new(nf.parse::<Nf>().unwrap()), table("flows:20", size));
        let packets = out(&oracle, &sent(&table, 0, 1, 20));
        let mut each = each(&oracle, &table, (0, 1));
        let (_, port, frame) = &packets[5];
        for bit in 0..frame.len() * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // A stamp that is read wrongly is another packet's, or nobody's.
            let Some(stamp) = Stamp::read(&changed, key()) else { continue };
            assert_eq!(each.look(stamp, *port, &changed), Look::Wrong, "{nf} {size}: bit {bit}");
        }
        assert_eq!(each.look(packets[5].0, 1 - port, frame), Look::Wrong, "the other port");
        assert_eq!(each.look(packets[5].0, *port, &frame[1..]), Look::Wrong, "shorter");
        assert_eq!(each.look(packets[5].0, *port, frame), Look::Right);
    }
}

/// What checksums cannot see: words that change places, a lowered time to live that was raised again with its
/// checksum, a UDP checksum that says that there is none.
#[test]
fn changes_that_keep_every_checksum_right_are_found() {
    let (oracle, table) = (Oracle::new("l3fwd:10".parse::<Nf>().unwrap()), table("flows:20", "128"));
    let packets = out(&oracle, &sent(&table, 0, 1, 20));
    let mut each = each(&oracle, &table, (0, 1));
    let (stamp, port, frame) = packets[9].clone();
    let integrity = crate::intact::Integrity { link: None };
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 5] = [
        ("addresses", |frame| (26..30).for_each(|at| frame.swap(at, at + 4))),
        ("ports", |frame| (34..36).for_each(|at| frame.swap(at, at + 2))),
        ("payload", |frame| (50..52).for_each(|at| frame.swap(at, at + 16))),
        ("time to live", |frame| {
            let old = u16::from_be_bytes([frame[TTL], frame[TTL + 1]]);
            let sum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
            frame[TTL] += 1;
            let sum = checksum::update_u16(sum, old, old + 0x0100);
            frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        }),
        ("no UDP checksum", |frame| {
            frame[40..42].fill(0);
            frame[70] ^= 0xff;
        }),
    ];
    for (what, change) in changes {
        let mut changed = frame.clone();
        change(&mut changed);
        assert_ne!(changed, frame);
        assert!(integrity.holds(&changed), "{what}: its checksums hold, or none is there");
        assert_eq!(each.look(stamp, port, &changed), Look::Wrong, "{what}");
    }
    assert_eq!((each.compared(), each.look(stamp, port, &frame)), (5, Look::Right));
}

#[test]
fn a_packet_that_a_rule_denies_is_wrong_whenever_it_comes() {
    let (oracle, table) = (Oracle::new("firewall:300".parse::<Nf>().unwrap()), table("flows:2000", "64"));
    let denied: Vec<_> = sent(&table, 0, 1, table.len())
        .into_iter()
        .filter(|(_, frame)| matches!(oracle.expected(0, frame), Expected::Drop(Reason::Denied(_))))
        .collect();
    let mut each = each(&oracle, &table, (0, 1));
    println!("{} of 2,000 flows are denied", denied.len());
    for (stamp, frame) in &denied {
        assert_eq!(each.look(*stamp, 1, frame), Look::Wrong);
    }
}

#[test]
fn what_nobody_can_know_is_left_to_others() {
    let (oracle, table) =
        (Oracle::new("pipeline-c:16".parse::<Nf>().unwrap()), table("conversations:50", "64"));
    let packets = sent(&table, 0, 1, table.len().min(2_000));
    let chosen =
        packets.iter().filter(|(_, frame)| matches!(oracle.expected(0, frame), Expected::OneOf { .. }));
    let Some(ways) = Ways::of(&oracle, 0, &table) else { return };
    let mut each = Each::new(Arc::new(ways), Recall::new(Arc::clone(&table), 0, 1));
    for (stamp, frame) in chosen {
        assert_eq!(each.look(*stamp, 1, frame), Look::Open, "a balancer chooses");
    }
}

/// Laps of a device that lets these packets through.
fn shared(frames: usize, laps: usize, passes: impl Fn(usize, usize) -> bool) -> Shares {
    let (oracle, table) = (Oracle::new(Nf::L2Fwd), table(&format!("flows:{frames}"), "64"));
    let mut one = each(&oracle, &table, (0, 1));
    let mut receivers = [one.clone(), one.clone(), one.clone()];
    for (number, (stamp, frame)) in sent(&table, 0, 1, frames * laps).into_iter().enumerate() {
        if passes(number % frames, number) {
            assert_eq!(one.look(stamp, 1, &frame), Look::Right);
            // Flows stay with a receiver; the third has none.
            assert_eq!(receivers[number % frames % 2].look(stamp, 1, &frame), Look::Right);
        }
    }
    let alone = shares(std::iter::once(((0, 0), &one))).unwrap();
    assert_eq!(
        shares(receivers.iter().map(|each| ((0, 0), each))).unwrap(),
        alone,
        "as one receiver sees it"
    );
    alone
}

#[test]
fn flows_that_get_less_than_half_are_counted_and_what_chance_makes_is_not() {
    let fair = shared(1_000, 60, |_, _| true);
    assert_eq!((fair.frames, fair.median, fair.starved, fair.example.as_str()), (1_000, 60, 0, ""));
    // Five flows of a thousand get nothing.
    let starved = shared(1_000, 60, |flow, _| flow % 200 != 7);
    assert_eq!((starved.starved, starved.median), (5, 60));
    assert!(starved.example.contains("UDP 198.18.") && starved.example.ends_with(", 0 times"), "{starved:?}");
    // All lose three packets of ten, by chance: some get far less, and none is starved.
    let mut random = 1_u64;
    let draws: Vec<bool> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 10 >= 3
    })
    .take(60_000)
    .collect();
    assert_eq!(shared(1_000, 60, |_, number| draws[number]).starved, 0);
}
