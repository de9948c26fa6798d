use super::*;
use crate::probes::probes;
use crate::stamp::key;
use crate::trace::{Direction, FrameSource, TraceSpec};
use weir_trial::{FlowFile, Nf};

fn table(name: &str) -> Arc<FrameTable> {
    match TraceSpec::parse(name).unwrap().build().unwrap() {
        FrameSource::Table(cursor) => Arc::clone(cursor.table()),
        FrameSource::Stream(_) => panic!("{name} is in memory"),
    }
}

fn book(nf: &str) -> Examiner {
    let nf: Nf = nf.parse().unwrap();
    let lists = probes(nf, &[[2; 12], [6; 12]]).into_iter().zip(Direction::BOTH);
    let name = if nf.is_stateful() { "conversations:100" } else { "flows:100" };
    let lap = |direction| match nf.is_stateful() {
        true => Arc::new(TraceSpec::parse(name).unwrap().direction(direction).build_table().unwrap()),
        false => table(name),
    };
    let frames = lists.map(|(own, direction)| PassFrames::new(Some(lap(direction)), own)).collect();
    Examiner::new(Arc::new(Oracle::new(nf)), frames, 7)
}

/// What a right device makes of everything that is sent, in order: port and frame.
fn through(book: &mut Examiner) -> Vec<(usize, Vec<u8>)> {
    let oracle = Arc::clone(&book.oracle);
    let mut out = Vec::new();
    for item in book.items() {
        let (frame, _) = book.send(item);
        match oracle.expected(item.direction as u8, &frame) {
            Expected::Forward { port, frame } => out.push((usize::from(port), frame)),
            Expected::OneOf { port, frames } => out.push((usize::from(port), frames[BACKEND].clone())),
            Expected::Translated { .. } | Expected::Drop(_) | Expected::Open => {}
        }
    }
    out
}

/// The backend that a right device gives every connection to.
const BACKEND: usize = 3;

/// The check of a device that does right but for what `change` does to its output.
fn checked(nf: &str, change: impl FnOnce(&mut Vec<(usize, Vec<u8>)>)) -> PacketCheck {
    let mut book = book(nf);
    let mut out = through(&mut book);
    change(&mut out);
    out.iter().for_each(|(port, frame)| book.came(*port, frame));
    book.finish()
}

/// The faults found, with their counts.
fn faults(check: &PacketCheck) -> Vec<(Fault, u64)> {
    check.wrong.iter().map(|wrong| (wrong.fault, wrong.count)).collect()
}

/// The packet that is changed: of the trace, hence with a short frame.
const VICTIM: usize = 20;

#[test]
fn a_packet_that_a_flow_table_says_otherwise_is_named_by_its_number() {
    let flows = "in_port=1,actions=output:2\nin_port=2,actions=output:1\n";
    let nf = Nf::Flows(FlowFile::of("site.flows", "site.flows", flows.to_owned()).unwrap()).to_string();
    assert!(checked(&nf, |_| {}).is_right());
    let check = checked(&nf, |out| out[VICTIM].1[0] ^= 1);
    assert_eq!(faults(&check), [(Fault::Macs, 1)]);
    let example = &check.wrong[0].example;
    assert!(example.starts_with("packet 11 into port 0: UDP 198.18."), "{example}");
    let missing = checked(&nf, |out| drop(out.remove(VICTIM + 1)));
    assert!(missing.wrong[0].example.starts_with("packet 11 into port 1: UDP 198.18."), "{missing}");
}

#[test]
fn a_device_that_does_right_is_found_right() {
    for nf in [
        "l2fwd",
        "l3fwd:1",
        "l3fwd:100",
        "firewall:300",
        "pipeline-a",
        "pipeline-b",
        "pipeline-c",
        "pipeline-d",
    ] {
        let sent = book(nf).items().len() as u64;
        let check = checked(nf, |_| {});
        assert_eq!(faults(&check), [], "{check}");
        assert_eq!((check.compared, &check.remark), (sent, &None));
    }
}

#[test]
fn every_fault_of_one_packet_is_found_by_name() {
    type Change = fn(&mut Vec<(usize, Vec<u8>)>);
    let cases: [(Change, &[(Fault, u64)]); 14] = [
        (|out| out[VICTIM].1[0] ^= 1, &[(Fault::Macs, 1)]),
        (|out| out[VICTIM].1[15] ^= 1, &[(Fault::Header, 1)]),
        (|out| out[VICTIM].1[25] ^= 1, &[(Fault::Checksum, 1)]),
        (|out| out[VICTIM].1[35] ^= 1, &[(Fault::Header, 1)]),
        // Any part of a stamp makes all of it unreadable: which of its flow's packets it was, nobody can tell.
        (|out| out[VICTIM].1[42] ^= 1, &[(Fault::Payload, 1), (Fault::Missing, 1)]),
        (|out| out[VICTIM].1[45] ^= 4, &[(Fault::Payload, 1), (Fault::Missing, 1)]),
        (|out| out[VICTIM].1[51] ^= 1, &[(Fault::Payload, 1), (Fault::Missing, 1)]),
        (|out| out[VICTIM].1[59] ^= 1, &[(Fault::Payload, 1), (Fault::Missing, 1)]),
        (|out| out[VICTIM].0 ^= 1, &[(Fault::Port, 1)]),
        (|out| drop(out.remove(VICTIM)), &[(Fault::Missing, 1)]),
        (|out| out.push(out[VICTIM].clone()), &[(Fault::Duplicate, 1)]),
        (|out| out.push((1, vec![9; 60])), &[(Fault::Foreign, 1)]),
        (|out| out[VICTIM].1.truncate(59), &[(Fault::Length, 1), (Fault::Missing, 1)]),
        (|out| out[VICTIM].1.push(0), &[(Fault::Length, 1), (Fault::Missing, 1)]),
    ];
    for nf in ["l2fwd", "l3fwd:10", "firewall:10"] {
        for (number, (change, found)) in cases.iter().enumerate() {
            let check = checked(nf, change);
            assert_eq!(faults(&check), *found, "{nf}, case {number}: {check}");
            assert!(check.wrong.iter().all(|wrong| wrong.example.len() > 15), "{check}");
        }
    }
}

#[test]
fn a_transcoder_that_encrypts_nothing_or_otherwise_is_named() {
    let clear = checked("pipeline-b:64", |out| {
        let mut undo = weir_cipher::end_of::<18>(&out[VICTIM].1).unwrap().to_vec();
        undo.splice(..0, out[VICTIM].1[..42].to_vec());
        out[VICTIM].1 = undo;
    });
    assert_eq!(faults(&clear), [(Fault::Payload, 1)], "{clear}");
    // Two bytes behind the last whole block are not encrypted, and are those of the stamp, which is none then; its
    // translated address tells nobody which flow it was of.
    let tail = checked("pipeline-b:64", |out| out[VICTIM].1[59] ^= 1);
    assert_eq!(faults(&tail), [(Fault::Foreign, 1), (Fault::Missing, 1)], "{tail}");
    let address = checked("pipeline-b:64", |out| out[VICTIM].1[30] = 11);
    assert_eq!(faults(&address), [(Fault::Header, 1)], "{address}");
}

#[test]
fn a_balancer_that_moves_a_connection_or_invents_a_backend_is_named() {
    let nf: Nf = "pipeline-c:64".parse().unwrap();
    let [other, own] = [BACKEND - 1, BACKEND].map(|number| nf.backends(1)[number]);
    let moved = checked("pipeline-c:64", |out| {
        // The long flow ends the list of direction 0; its last packet goes elsewhere.
        let last = out.iter().rposition(|(_, frame)| frame[30..34] == own.address.octets()).unwrap();
        let frame = &mut out[last].1;
        frame[..6].copy_from_slice(&other.mac);
        frame[30..34].copy_from_slice(&other.address.octets());
        frame[24..26].fill(0);
        let sum = weir_wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    });
    assert_eq!(faults(&moved), [(Fault::Header, 1)], "{moved}");
    assert!(moved.wrong[0].example.contains("backend 3 before, now to 2"), "{moved}");
    let invented = checked("pipeline-c:64", |out| out[VICTIM].1[33] ^= 0x40);
    assert!(faults(&invented).iter().any(|(fault, _)| *fault == Fault::Header), "{invented}");
}

#[test]
fn a_router_that_does_not_lower_the_time_to_live_is_named() {
    let check = checked("l3fwd:10", |out| {
        for (_, frame) in out {
            frame[22] += 1;
            frame[24..26].fill(0);
            let sum = weir_wire::checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    });
    let [(Fault::Ttl, count)] = faults(&check)[..] else { panic!("{check}") };
    assert!(count > 400);
    assert!(check.wrong[0].example.contains("time to live 64, must be 63"), "{check}");
}

#[test]
fn a_firewall_that_lets_everything_through_is_named_with_the_rule() {
    let nf: Nf = "firewall:50".parse().unwrap();
    let mut book = book("firewall:50");
    for item in book.items() {
        let (frame, _) = book.send(item);
        book.came(1 - item.direction, &frame);
    }
    let check = book.finish();
    let [(Fault::Denied, count)] = faults(&check)[..] else { panic!("{check}") };
    assert!(count >= nf.rules().len() as u64 - 1, "{check}");
    assert!(check.wrong[0].example.contains("rule `deny "), "{check}");
}

#[test]
fn packets_that_overtake_their_own_flow_are_named_and_those_of_other_flows_are_free_to() {
    let swapped = |between: usize| {
        checked("l2fwd", |out| {
            let own = flow(&out[VICTIM].1).unwrap();
            assert_ne!(flow(&out[VICTIM + 2].1), Some(own));
            let long = out.len() - 20; // within the long flow
            let at = if between == 0 { VICTIM } else { long };
            out.swap(at, at + 2);
        })
    };
    assert_eq!(faults(&swapped(0)), []);
    let check = swapped(1);
    assert_eq!(faults(&check), [(Fault::Order, 1)], "{check}");
    assert!(check.wrong[0].example.contains("came after packet"), "{check}");
}

#[test]
fn packets_that_may_overtake_their_own_flow_are_counted_and_right() {
    let mut book = book("l2fwd");
    book.frames.iter_mut().for_each(PassFrames::let_overtake);
    let mut out = through(&mut book);
    let long = out.len() - 20; // within the long flow
    out.swap(long, long + 2);
    out.iter().for_each(|(port, frame)| book.came(*port, frame));
    let check = book.finish();
    assert!(check.is_right() && check.to_string().contains("1 packets came after later ones"), "{check}");
}

/// Seen with TCP packets of 64 B: a device that lost the first two bursts after its start was said to have let them
/// be overtaken, once they were sent again.
#[test]
fn a_packet_without_a_stamp_that_is_sent_again_was_not_overtaken() {
    let frames = vec![PassFrames::new(Some(table("tcp:10")), Vec::new()), PassFrames::new(None, Vec::new())];
    let mut book = Examiner::new(Arc::new(Oracle::new(Nf::L2Fwd)), frames, 7);
    let items = book.items();
    let (first, _) = book.send(items[0]);
    for item in &items[1..] {
        let (frame, _) = book.send(*item);
        book.came(1, &frame);
    }
    let (again, _) = book.send(items[0]);
    assert_eq!(first, again, "no stamp tells one from the other");
    book.came(1, &again);
    let check = book.finish();
    assert_eq!(faults(&check), [], "{check}");
}

#[test]
fn packets_of_an_earlier_trial_are_stale() {
    let check = checked("l2fwd", |out| {
        let mut old = out[VICTIM].1.clone();
        Stamp { trial: 6 << 1, sequence: 3, tsc: 12_345 }.write(&mut old, key());
        out.push((1, old));
    });
    assert_eq!(faults(&check), [(Fault::Stale, 1)], "{check}");
}

#[test]
fn a_packet_sent_again_is_not_missing_nor_twice_when_both_come() {
    let mut book = book("l2fwd");
    let items = book.items();
    let first = through(&mut book);
    let (again, disposition) = book.send(items[0]);
    assert_eq!(disposition, Disposition::Comes);
    assert!(!book.is_back(items[0]));
    book.came(1, &again);
    assert!(book.is_back(items[0]));
    first.iter().for_each(|(port, frame)| book.came(*port, frame));
    assert_eq!(faults(&book.finish()), []);
}

#[test]
fn frames_that_cannot_carry_a_stamp_are_known_by_their_bytes() {
    let own: Vec<Vec<u8>> = vec![vec![1; 60], vec![1; 60], vec![0; 60], (0..60).collect()];
    let run = |change: fn(&mut Vec<(usize, Vec<u8>)>)| {
        let frames = vec![PassFrames::new(None, own.clone()), PassFrames::new(None, own.clone())];
        let mut book = Examiner::new(Arc::new(Oracle::new(Nf::L2Fwd)), frames, 1);
        let mut out = through(&mut book);
        change(&mut out);
        out.iter().for_each(|(port, frame)| book.came(*port, frame));
        book.finish()
    };
    let right = run(|out| out.reverse());
    assert_eq!((faults(&right), right.compared), (vec![], 8), "{right}");
    assert_eq!(faults(&run(|out| drop(out.pop()))), [(Fault::Missing, 1)]);
    assert_eq!(faults(&run(|out| out.push(out[7].clone()))), [(Fault::Duplicate, 1)]);
    assert_eq!(faults(&run(|out| out[7].0 = 1)), [(Fault::Port, 1)]);
    assert_eq!(faults(&run(|out| out[7].1[20] = 0)), [(Fault::Foreign, 1), (Fault::Missing, 1)]);
}

#[test]
fn a_packet_that_leaves_by_another_pair_of_ports_is_named_and_each_pair_has_its_own_addresses() {
    let run = |nf: &str, change: fn(&mut Vec<(usize, Vec<u8>)>)| {
        // Two functions beside one another, with traffic in one direction each.
        let lap = || PassFrames::new(Some(table("flows:50")), Vec::new());
        let frames = vec![lap(), lap().into_port(2)];
        let mut book = Examiner::new(Arc::new(Oracle::new(nf.parse().unwrap())), frames, 9);
        let (mut out, oracle) = (Vec::new(), Arc::clone(&book.oracle));
        for item in book.items() {
            let (frame, _) = book.send(item);
            match oracle.expected(2 * item.direction as u8, &frame) {
                Expected::Forward { port, frame } => out.push((usize::from(port), frame)),
                other => panic!("{other:?}"),
            }
        }
        change(&mut out);
        out.iter().for_each(|(port, frame)| book.came(*port, frame));
        book.finish()
    };
    for nf in ["l2fwd", "l3fwd:10"] {
        let right = run(nf, |_| {});
        assert_eq!((faults(&right), right.compared), (vec![], 100), "{nf}: {right}");
        let crossed = run(nf, |out| out.iter_mut().for_each(|(port, _)| *port ^= 2));
        assert_eq!(faults(&crossed), [(Fault::Port, 100)], "{nf}: {crossed}");
        assert!(crossed.wrong[0].example.contains("left by port 3, must leave by port 1"), "{crossed}");
        let one = run(nf, |out| out[VICTIM].0 = 3);
        assert_eq!(faults(&one), [(Fault::Port, 1)], "{nf}: {one}");
        let gone = run(nf, |out| drop(out.remove(VICTIM + 1)));
        assert!(gone.wrong[0].example.ends_with("into port 2"), "{gone}");
    }
}

#[test]
fn what_nobody_decides_is_said_and_not_compared_and_reports_of_a_router_are_passed_over() {
    let arp = vec![vec![6; 60]];
    let mut book = Examiner::new(
        Arc::new(Oracle::new("l3fwd:10".parse().unwrap())),
        vec![PassFrames::new(None, arp)],
        1,
    );
    through(&mut book);
    let mut report = probes(Nf::L2Fwd, &[[2; 12]])[0][0].clone();
    report[23] = 1; // ICMP
    report[34] = 3; // destination unreachable
    book.came(0, &report);
    let check = book.finish();
    assert_eq!((check.compared, faults(&check)), (0, vec![]), "{check}");
    let remark = check.remark.unwrap();
    assert!(
        remark.contains("1 packets whose disposition l3fwd:10 leaves open") && remark.contains("1 ICMP"),
        "{remark}"
    );
}

#[test]
fn a_long_trace_is_cut_and_the_remark_says_so() {
    let frames = PassFrames::new(Some(table("flows:150k")), Vec::new());
    assert_eq!(frames.len(), PassFrames::MOST_OF_LAP);
    let book = Examiner::new(Arc::new(Oracle::new(Nf::L2Fwd)), vec![frames], 1);
    let check = book.finish();
    assert_eq!(
        check.remark.as_deref(),
        Some("direction 0: the first 100000 of the trace's 150000 packets were sent")
    );
}

/// A device that looks up the first packet of each burst of 32 and treats the others as that one.
#[test]
fn packets_that_must_come_and_packets_that_must_not_fill_bursts_together() {
    for (nf, some) in [("l3fwd:10", true), ("firewall:50", true), ("l2fwd", false), ("pipeline-a:50", false)]
    {
        let mut book = book(nf);
        through(&mut book).iter().for_each(|(port, frame)| book.came(*port, frame));
        assert_eq!(!book.mixed(64, 3).is_empty(), some, "{nf}");
        for skips in [false, true] {
            for burst in book.mixed(64, 3).iter().flat_map(|chunk| chunk.chunks(32)) {
                let first = book.transmissions();
                let sent: Vec<_> = burst.iter().map(|item| (item.direction, book.send(*item))).collect();
                let dispositions: Vec<Disposition> =
                    sent.iter().map(|(_, (_, disposition))| *disposition).collect();
                assert_eq!(dispositions, [Disposition::Comes, Disposition::Gone].repeat(16), "{nf}");
                assert!(book.is_under_way(first), "{nf}");
                for (direction, (frame, _)) in sent {
                    match book.oracle.expected(direction as u8, &frame) {
                        Expected::Forward { port, frame } => book.came(port.into(), &frame),
                        _ if skips => book.came(1 - direction, &frame),
                        _ => {}
                    }
                }
                assert!(!book.is_under_way(first), "{nf}: what must not come is not waited for");
            }
            let found = faults(&book.check);
            assert_eq!(found.is_empty(), !(skips && some), "{nf}: {found:?}");
        }
    }
}

#[test]
fn numbers_are_spread_and_gathered_again() {
    for number in (0..1000).chain([u64::from(u32::MAX), (1 << 48) - 1]) {
        assert_eq!(number.wrapping_mul(SPREAD).wrapping_mul(GATHER), number);
    }
}
