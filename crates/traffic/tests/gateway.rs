//! Traffic made for the tables of a function: what it is, and that the function passes all of it.

use std::collections::HashSet;
use weir_traffic::trace::{Direction, FrameTable, Sizes, TraceName, TraceSpec};
use weir_trial::expected::{Expected, flow};
use weir_trial::{CLIENT_PORTS, Nf, Oracle};

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
    ] {
        assert_eq!(TraceName::parse(name).unwrap().to_string(), name);
    }
    for name in ["conversations:0", "conversations:1001x1000", "conversations:", "l2flows:2000000"] {
        assert!(TraceName::parse(name).unwrap_err().to_string().contains("number of flows"), "{name}");
    }
    let error = TraceName::parse("conversations:5:15").unwrap_err().to_string();
    assert!(error.contains("pipeline-a can have"), "{error}");
    let suits = |trace: &str, nf: &str| TraceName::parse(trace).unwrap().suits(nf.parse().unwrap());
    for (trace, nf) in [
        ("conversations:10", "pipeline-c"),
        ("conversations:10:few", "pipeline-a-few"),
        ("conversations:10", "l2"),
        ("conversations:10", "firewall"),
        ("l2flows:10:16", "l2:16"),
        ("flows:10", "l3fwd"),
        ("t2", "pipeline-d:3"),
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
        ("conversations:10", "l3fwd"),
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
