//! Traffic made for the tables of a function: what it is, and that the function passes all of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_traffic::check::{Examiner, PassFrames};
use weir_traffic::probes::probes;
use weir_traffic::stamp::StampSlot;
use weir_traffic::trace::{Direction, FrameTable, Laps, Sizes, TableCursor, TraceInfo, TraceName, TraceSpec};
use weir_trial::expected::{Expected, flow};
use weir_trial::{CLIENT_PORTS, Nf, Oracle};
use weir_wire::ipv4;
use weir_wire::table::{Action, FiveTuple};

fn table(name: &str, direction: Direction) -> FrameTable {
    TraceSpec::parse(name).unwrap().direction(direction).build_table().unwrap()
}

fn frames(name: &str, direction: Direction) -> Vec<Vec<u8>> {
    let table = table(name, direction);
    (0..table.len()).map(|place| table.frame(place).to_vec()).collect()
}

/// Every packet of a trace leaves by the far port.
fn all_pass(nf: &str, trace: &str) {
    let oracle = Oracle::new(nf.parse::<Nf>().unwrap());
    for direction in Direction::BOTH {
        for frame in frames(trace, direction) {
            let expected = oracle.expected(direction.index() as u8, &frame);
            let (Expected::Forward { port, .. } | Expected::OneOf { port, .. }) = expected else {
                panic!("{nf} {trace} {direction:?}: {expected:?}");
            };
            assert_eq!(usize::from(port), 1 - direction.index());
        }
    }
}

#[test]
fn conversations_pass_the_pipelines_both_ways() {
    for count in [1, 1000, 3000] {
        for pipeline in ["pipeline-a", "pipeline-b", "pipeline-c"] {
            all_pass(pipeline, &format!("conversations:{count}"));
        }
    }
    for entries in [16, 17, 40, 100, 2000] {
        all_pass(&format!("pipeline-a:{entries}"), &format!("conversations:200:{entries}"));
    }
}

#[test]
fn l2_flows_pass_l2_both_ways_and_differ_in_their_mac_addresses() {
    for stations in [2, 3, 499, 500] {
        all_pass(&format!("l2:{stations}"), &format!("l2flows:2000:{stations}"));
    }
    let pairs: HashSet<Vec<u8>> =
        frames("l2flows:10000", Direction::Forward).iter().map(|frame| frame[..12].to_vec()).collect();
    assert_eq!(pairs.len(), 10_000);
    let stations: HashSet<&[u8]> = pairs.iter().map(|pair| &pair[..6]).collect();
    assert_eq!(stations.len(), 250, "every station behind port 1");
    all_pass("pipeline-a-few", "conversations:2000:few");
    all_pass("l2", "conversations:500");
}

#[test]
fn conversations_are_distinct_use_many_rules_and_open_from_client_ports() {
    let frames = frames("conversations:10000", Direction::Forward);
    let tuples: HashSet<_> = frames.iter().filter_map(|frame| flow(frame)).collect();
    assert_eq!(tuples.len(), 10_000);
    assert!(tuples.iter().all(|tuple| CLIENT_PORTS.contains(&tuple.ports.unwrap().0)));
    let rules = Nf::PipelineA { entries: 500 }.rules();
    let used: HashSet<usize> =
        tuples.iter().filter_map(|tuple| rules.iter().position(|rule| rule.matches(tuple))).collect();
    assert!(used.len() > 40, "{} rules are used", used.len());
    let stations: HashSet<&[u8]> = frames.iter().map(|frame| &frame[..6]).collect();
    assert_eq!(stations.len(), 250);
}

#[test]
fn answers_trail_what_they_answer() {
    let asked = frames("conversations:1000", Direction::Forward);
    let answers = frames("conversations:1000", Direction::Reverse);
    let mirror = |frame: &[u8]| [&frame[30..34], &frame[26..30], &frame[36..38], &frame[34..36]].concat();
    for (place, answer) in answers.iter().enumerate() {
        let question = &asked[(place + 1000 - 64) % 1000];
        assert_eq!(mirror(answer), [&question[26..34], &question[34..38]].concat(), "{place}");
    }
    let spec = |name: &str| TraceSpec::parse(name).unwrap().direction(Direction::Reverse).unasked();
    assert_eq!((spec("conversations:1000"), spec("conversations:1"), spec("flows:1000")), (64, 0, 0));
    assert_eq!(spec("conversations:100x3"), 192);
}

/// The packets of an untimed pass in the order in which they are sent: a chunk of 64, one direction after the other.
fn of_pass(nf: Nf, trace: &str) -> Vec<(usize, Vec<u8>)> {
    let specs = TraceSpec::parse_pair(trace).unwrap();
    let macs = [[2; 12]; 2];
    let each = specs.iter().zip(probes(nf, &macs));
    let frames = each
        .map(|(spec, own)| PassFrames::after(spec.unasked(), &Arc::new(spec.build_table().unwrap()), own));
    let mut book = Examiner::new(Arc::new(Oracle::new(nf).opened()), frames.collect(), 1);
    let mut sent = Vec::new();
    for chunk in book.items().chunks(64) {
        for direction in [0, 1] {
            let of_it = chunk.iter().filter(|item| item.direction == direction);
            sent.extend(of_it.map(|item| (direction, book.send(*item).0)));
        }
    }
    sent
}

#[test]
fn a_pass_sends_no_answer_before_what_it_answers_where_the_first_answers_are_left_out() {
    let nf = Nf::PipelineA { entries: 40 };
    let rules = nf.rules();
    for trace in ["t2:40:1000", "conversations:60000x2:40"] {
        let oracle = Oracle::new(nf).opened();
        let (mut asked, mut answers) = (HashSet::new(), 0);
        for (direction, frame) in of_pass(nf, trace) {
            let Some(tuple) = flow(&frame) else { continue };
            let (source, destination) = tuple.ports.unwrap();
            let question = FiveTuple {
                source: tuple.destination,
                destination: tuple.source,
                ports: Some((destination, source)),
                ..tuple
            };
            let comes = matches!(oracle.expected(direction as u8, &frame), Expected::Forward { .. });
            let rule = rules.iter().find(|rule| rule.matches(&tuple));
            if comes && rule.is_none_or(|rule| rule.action != Action::Allow) {
                assert!(asked.contains(&question), "{trace}: {tuple:?} answers nothing yet");
                answers += 1;
            }
            asked.insert(tuple);
        }
        assert!(answers > 400, "{trace}: {answers}");
    }
}

#[test]
fn bursts_and_other_sizes_are_the_same_conversations() {
    let bursts = frames("conversations:32x256", Direction::Forward);
    assert_eq!(bursts.len(), 32 * 256);
    assert!(bursts.chunks(256).all(|burst| burst.iter().all(|frame| *frame == burst[0])));
    let large = TraceSpec::parse("conversations:10").unwrap().sizes("1500".parse::<Sizes>().unwrap());
    let large = large.build_table().unwrap();
    for (place, small) in frames("conversations:10", Direction::Forward).iter().enumerate() {
        let large = large.frame(place).to_vec();
        assert_eq!((flow(&large), large.len()), (flow(small), 1496));
    }
}

#[test]
fn more_conversations_than_there_are_pairs_differ_in_the_clients_port() {
    let spec =
        |count: u32| TraceSpec::of(TraceName::Conversations { count, burst: 1, entries: 500, few: false });
    for count in [100_000, 250_000] {
        let flows = spec(count).flows().unwrap().unwrap();
        assert_eq!(flows.iter().collect::<HashSet<_>>().len(), count as usize);
    }
}

#[test]
fn names_are_read_and_printed_and_misfits_are_said() {
    for name in [
        "conversations:1000",
        "conversations:32x256",
        "conversations:5x2:64",
        "conversations:9:few",
        "conversations:9:few:64",
        "l2flows:10000",
        "l2flows:9:2",
        "t1:500",
        "t2:40:100",
    ] {
        assert_eq!(TraceName::parse(name).unwrap().to_string(), name);
    }
    for name in ["conversations:0", "conversations:1001x1000", "conversations:", "l2flows:2000000"] {
        assert!(TraceName::parse(name).unwrap_err().to_string().contains("number of flows"), "{name}");
    }
    let error = TraceName::parse("conversations:5:15").unwrap_err().to_string();
    assert!(error.contains("pipeline-a can have"), "{error}");
    assert!(TraceName::parse("t1:500:1001").unwrap_err().to_string().contains("1 to 1000"));
    let suits = |trace: &str, nf: &str| TraceName::parse(trace).unwrap().suits(nf.parse().unwrap());
    for (trace, nf) in [
        ("conversations:10", "pipeline-c"),
        ("conversations:10:few", "pipeline-a-few"),
        ("conversations:10", "l2"),
        ("conversations:10", "firewall"),
        ("l2flows:10:16", "l2:16"),
        ("tr2e", "l2-nfpa:100"),
        ("tr3e", "l2-nfpa"),
        ("flows:10", "l3fwd"),
        ("t2", "pipeline-d:3"),
        ("t2:500:100", "pipeline-d:3"),
        ("t1:40", "pipeline-c:40"),
    ] {
        assert_eq!(suits(trace, nf), Ok(()));
    }
    for (trace, nf) in [
        ("flows:10", "pipeline-a"),
        ("conversations:10", "pipeline-a:100"),
        ("conversations:10", "pipeline-a-few"),
        ("conversations:10:few", "pipeline-a"),
        ("l2flows:10", "l2:16"),
        ("simple", "l2"),
        ("simple", "l2-nfpa"),
        ("tr3e", "l2-nfpa:9999"),
        ("conversations:10", "l3fwd"),
        ("t1", "pipeline-a"),
        ("t1:40", "pipeline-a"),
    ] {
        assert!(suits(trace, nf).unwrap_err().contains("drops the packets"), "{trace} {nf}");
    }
}

#[test]
fn the_same_seed_makes_the_same_conversations_and_another_seed_others() {
    let hash =
        |seed: u64| TraceSpec::parse("conversations:500").unwrap().seed(seed).build_table().unwrap().hash();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

/// What a tracker sees of a packet: between whom, whether of TCP, and with which flags.
fn seen(frame: &[u8]) -> (weir_wire::table::FiveTuple, Option<u8>) {
    let tuple = flow(frame).unwrap();
    (tuple, (tuple.protocol == ipv4::TCP).then(|| frame[34 + 13]))
}

#[test]
fn connections_of_t1_and_t2_pass_the_pipelines_both_ways_in_every_lap() {
    for (nf, trace) in
        [("pipeline-a", "t2:500:100"), ("pipeline-b", "t1:500:1000"), ("pipeline-c:40", "t2:40:1000")]
    {
        let oracle = Oracle::new(nf.parse::<Nf>().unwrap()).opened();
        for direction in Direction::BOTH {
            let table = table(trace, direction);
            for place in 0..table.len() {
                let (frame, slot) = table.made(place, place as u64 % 7);
                assert_eq!(slot, StampSlot::of(&frame), "{trace} {place}");
                let expected = oracle.expected(direction.index() as u8, &frame);
                let (Expected::Forward { port, .. } | Expected::OneOf { port, .. }) = expected else {
                    panic!("{nf} {trace} {direction:?} {place}: {expected:?}");
                };
                assert_eq!(usize::from(port), 1 - direction.index());
            }
        }
    }
}

#[test]
fn connections_are_opened_answered_and_closed_in_this_order() {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = 0x01;
    let (asks, answers) = (table("t2:500:100", Direction::Forward), table("t2:500:100", Direction::Reverse));
    assert_eq!(asks.len(), answers.len());
    let trail = TraceSpec::parse("t2:500:100").unwrap().direction(Direction::Reverse).unasked();
    let of = |table: &FrameTable, place| seen(&table.made(place, 1).0);
    let mut all: HashMap<_, Vec<(usize, Option<u8>)>> = HashMap::new();
    for place in 0..asks.len() {
        let (tuple, flags) = of(&asks, place);
        all.entry(tuple).or_default().push((place, flags));
        let back = place + trail;
        let (answer, answered) =
            seen(&answers.made(back % answers.len(), 1 + (back / answers.len()) as u64).0);
        assert_eq!(
            (answer.source, answer.ports.map(|(a, b)| (b, a))),
            (tuple.destination, tuple.ports),
            "{place}"
        );
        assert_eq!(answered, flags.map(|flags| if flags == SYN { SYN | ACK } else { flags }), "{place}");
    }
    assert_eq!(all.len(), 1_750);
    for (tuple, packets) in &all {
        assert!(CLIENT_PORTS.contains(&tuple.ports.unwrap().0));
        let [(first, flags), rest @ ..] = packets.as_slice() else { panic!() };
        assert!(flags.is_none_or(|flags| flags == SYN), "{tuple:?}");
        if let [(second, _), ..] = rest {
            assert!(second - first >= 2 * trail, "{tuple:?}: {first} and {second}");
            assert!(rest.last().unwrap().1.is_none_or(|flags| flags == FIN | ACK), "{tuple:?}");
        }
    }
}

#[test]
fn t2_over_tables_has_the_papers_conversations_and_other_ports_in_the_next_lap() {
    for (name, direction) in [("t2:500", Direction::Forward), ("t1:500:100", Direction::Reverse)] {
        let spec = TraceSpec::parse(name).unwrap().direction(direction);
        let table = Arc::new(spec.build_table().unwrap());
        let info = TraceInfo::of_table(&spec, &table);
        assert!(info.is_as_claimed(), "{name}: {:#?}", info.checks);
        let mut cursor = TableCursor::new(Arc::clone(&table), Laps::Endless);
        drop(cursor.advance(table.len() - 3));
        for number in 0..200 {
            let (place, lap) = ((table.len() - 3 + number) % table.len(), u64::from(number > 2));
            let next = cursor.next_frame().unwrap();
            assert_eq!(
                ([next.head, next.tail].concat(), next.slot),
                table.made(place, lap),
                "{name} {number}"
            );
        }
        let tuples = |lap| -> HashSet<_> {
            (200..2_200).map(|place| flow(&table.made(place, lap).0).unwrap()).collect()
        };
        assert_eq!(tuples(0).len(), tuples(1).len());
        assert!(tuples(0).is_disjoint(&tuples(1)), "{name}");
    }
}
