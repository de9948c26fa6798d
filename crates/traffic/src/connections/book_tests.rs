use super::super::frames::Own;
use super::*;
use std::collections::{HashMap, VecDeque};
use weir_units::Nanos;

/// Packets on their way into the device.
#[derive(Default)]
struct Queue(VecDeque<(u8, [u8; BYTES])>);

impl Wire for Queue {
    fn send(&mut self, port: u8, packet: Packet<'_>) {
        let mut bytes = [0; BYTES];
        packet.template.write(packet.own, &mut bytes);
        self.0.push_back((port, bytes));
    }
}

/// What a simulated tracker does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// It holds so many connections, and forgets the oldest.
    Forgets(usize),
    /// It loses every so manyth packet.
    Loses(usize),
    /// It lets every so manyth packet out twice.
    Doubles(usize),
    /// It changes a byte of every so manyth packet.
    Changes(usize),
}

/// Runs all connections through a tracker that lets what comes by port 1 out only if it knows it.
fn run(asked: ConnectionSpec, fault: Mistake) -> Book<'static> {
    run_and_ask(asked, fault).0
}

/// The same, with how many connections the tracker knows at the end: it forgets those that are reset.
fn run_and_ask(asked: ConnectionSpec, fault: Mistake) -> (Book<'static>, usize) {
    let script: &'static Script = Box::leak(Box::new(Script::of("pipeline-a".parse().unwrap(), 7).unwrap()));
    let mut book = Book::new(script, 1_000_000_000, asked);
    let mut queue = Queue::default();
    let mut known: HashMap<(u32, u16, u32, u16), usize> = HashMap::new();
    let (mut order, mut number) = (VecDeque::new(), 0);
    let mut drain = |queue: &mut Queue, book: &mut Book<'_>| {
        while let Some((port, mut frame)) = queue.0.pop_front() {
            number += 1;
            let said = Said::read(&frame).unwrap();
            let (client, server) =
                if port == 0 { (said.source, said.destination) } else { (said.destination, said.source) };
            let key = (client.0, client.1, server.0, server.1);
            if port == 0 && said.flags == flags::SYN {
                known.insert(key, number);
                order.push_back(key);
            }
            if let Mistake::Forgets(most) = fault
                && order.len() > most
            {
                known.remove(&order.pop_front().unwrap());
            }
            let every = |n: usize| number % n == 0;
            if !known.contains_key(&key) || matches!(fault, Mistake::Loses(n) if every(n)) {
                continue;
            }
            if matches!(fault, Mistake::Changes(n) if every(n)) {
                frame[30] ^= 1;
            }
            if said.flags & flags::RST != 0 {
                known.remove(&key);
            }
            let times = if matches!(fault, Mistake::Doubles(n) if every(n)) { 2 } else { 1 };
            for _ in 0..times {
                book.came((1 - port, &frame), Ticks(number as u64 * 100), queue);
            }
        }
    };
    while book.begun() < asked.count as usize {
        book.begin(Ticks(0), &mut queue);
        drain(&mut queue, &mut book);
    }
    if asked.held {
        for place in 0..asked.count as usize {
            if book.is_open(place) {
                book.prove(place, &mut queue);
            }
        }
        drain(&mut queue, &mut book);
    }
    for _ in 0..3 {
        (0..asked.count as usize).for_each(|place| book.break_off(place, &mut queue));
        drain(&mut queue, &mut book);
    }
    (book, known.len())
}

fn asked(count: u64, held: bool) -> ConnectionSpec {
    ConnectionSpec { rate: 1e5, count, held }
}

#[test]
fn every_connection_through_a_tracker_that_works_is_whole() {
    let book = run(asked(3_000, false), Mistake::None);
    assert_eq!((book.opened, book.whole, book.proved), (3_000, 3_000, 0));
    assert_eq!(
        (book.came[0].right, book.came[1].right),
        (9_000, 15_000),
        "three answers, five of the client's"
    );
    assert!(book.check.is_right() && book.check.compared == 24_000);
    let book = run(asked(3_000, true), Mistake::None);
    assert_eq!((book.opened, book.whole, book.proved), (3_000, 3_000, 3_000));
    assert_eq!((book.came[0].right, book.came[1].right), (6_000, 9_000));
}

#[test]
fn a_tracker_that_forgets_connections_proves_as_many_as_it_holds() {
    let book = run(asked(3_000, true), Mistake::Forgets(1_234));
    assert_eq!((book.opened, book.proved, book.whole), (3_000, 1_234, 1_234));
    assert_eq!(book.came.iter().map(|came| came.duplicated).sum::<u64>(), 0);
    assert!(book.check.is_right(), "what it forgot is dropped, not wrong");
}

#[test]
fn a_lost_packet_fails_its_connection_and_no_other() {
    let book = run(asked(1_000, false), Mistake::Loses(97));
    let lost = book.asked().count - book.whole;
    assert!((60..=90).contains(&lost), "{lost}");
    assert!(book.check.is_right());
}

#[test]
fn connections_that_stand_still_are_reset_from_where_they_stand_and_counted_when_the_device_let_one_through()
{
    for held in [false, true] {
        let (book, known) = run_and_ask(asked(1_000, held), Mistake::Loses(7));
        assert!(book.broken > 200 && book.whole + book.broken == 1_000, "{} {}", book.broken, book.whole);
        // What is over without a reset the tracker keeps here; and it knows of each that began.
        let over = if held { 0 } else { book.whole };
        assert_eq!(known as u64, over + book.broken - book.reset, "{} of {}", book.reset, book.broken);
        assert!(
            book.broken - book.reset < book.broken / 4,
            "{} of {}: those of whom the only reset was lost",
            book.reset,
            book.broken
        );
        assert!(
            book.check.is_right() && book.came.iter().all(|came| came.foreign + came.damaged == 0),
            "{:?}",
            book.came
        );
    }
    let (book, known) = run_and_ask(asked(1_000, true), Mistake::Forgets(100));
    assert_eq!((book.broken, book.reset, known), (900, 0, 0), "what it forgot it lets no reset of through");
    assert_eq!(run(asked(1_000, false), Mistake::None).broken, 0);
}

#[test]
fn a_reset_that_nobody_sent_and_one_of_other_numbers_are_told() {
    let script = Script::of("pipeline-a".parse().unwrap(), 7).unwrap();
    let mut book = Book::new(&script, 0, asked(1, false));
    let mut queue = Queue::default();
    let mut frame = [0; BYTES];
    book.begin(Ticks(0), &mut queue);
    let (port, syn) = queue.0.pop_front().unwrap();
    book.came((1 - port, &syn), Ticks(5), &mut queue);
    let back = Step::Syn.resets(false)[1];
    let packet = script.reset((0, (0, 0)), back);
    packet.template.write(packet.own, &mut frame);
    book.came((0, &frame), Ticks(5), &mut queue);
    assert_eq!((book.came[0].foreign, book.reset), (1, 0), "nobody sent it");
    book.break_off(0, &mut queue);
    packet.template.write(Own { sequence: 77, ..packet.own }, &mut frame);
    book.came((0, &frame), Ticks(5), &mut queue);
    assert_eq!((book.came[0].damaged, book.reset), (1, 0), "it is another");
    packet.template.write(packet.own, &mut frame);
    book.came((0, &frame), Ticks(5), &mut queue);
    assert_eq!((book.came[0].right, book.reset, book.is_unfinished(0)), (1, 1, false));
}

#[test]
fn what_is_lost_of_an_opening_can_be_sent_again_and_what_follows_a_loss_is_no_duplicate() {
    let script = Script::of("pipeline-a".parse().unwrap(), 7).unwrap();
    let mut book = Book::new(&script, 0, asked(1, true));
    let mut queue = Queue::default();
    book.begin(Ticks(0), &mut queue);
    // Each packet is lost once.
    for step in 0..3 {
        let (lost, _) = queue.0.pop_front().unwrap();
        assert_eq!(lost, u8::from(step == 1));
        book.open_again(0, &mut queue);
        let (port, frame) = queue.0.pop_front().unwrap();
        book.came((1 - port, &frame), Ticks(5), &mut queue);
    }
    assert!(book.is_open(0) && book.opened == 1 && queue.0.is_empty());
    book.open_again(0, &mut queue);
    assert!(queue.0.is_empty(), "it is open");
    // Of another, the ACK is lost and the request comes.
    let mut book = Book::new(&script, 9, asked(1, false));
    book.begin(Ticks(0), &mut queue);
    for _ in 0..2 {
        let (port, frame) = queue.0.pop_front().unwrap();
        book.came((1 - port, &frame), Ticks(5), &mut queue);
    }
    queue.0.pop_front().unwrap();
    let (port, request) = queue.0.pop_front().unwrap();
    book.came((1 - port, &request), Ticks(5), &mut queue);
    assert!(queue.0.is_empty() && book.opened == 0 && book.whole == 0);
    assert_eq!((book.came[1].right, book.came[1].duplicated), (2, 0));
}

#[test]
fn a_packet_that_comes_twice_or_changed_is_told() {
    let book = run(asked(1_000, false), Mistake::Doubles(100));
    assert_eq!(book.whole, 1_000);
    assert_eq!(book.came.iter().map(|came| came.duplicated).sum::<u64>(), 80);
    let book = run(asked(1_000, false), Mistake::Changes(100));
    assert!(book.whole < 1_000 && !book.check.is_right());
    let damaged: u64 = book.came.iter().map(|came| came.damaged + came.foreign + came.late).sum();
    assert!(damaged > 50, "{:?}", book.came);
}

#[test]
fn what_belongs_to_no_connection_is_foreign_and_what_is_of_an_earlier_trial_late() {
    let script = Script::of("pipeline-a".parse().unwrap(), 7).unwrap();
    let mut book = Book::new(&script, 500, asked(10, false));
    let mut queue = Queue::default();
    book.begin(Ticks(0), &mut queue);
    book.came((1, &[0xab; 60]), Ticks(1), &mut queue);
    let packet = script.sent((400, (0, 0)), Step::Syn, false);
    let mut frame = [0; BYTES];
    packet.template.write(Own { ..packet.own }, &mut frame);
    book.came((1, &frame), Ticks(1), &mut queue);
    let unborn = script.sent((505, (0, 0)), Step::Syn, false);
    unborn.template.write(unborn.own, &mut frame);
    book.came((1, &frame), Ticks(1), &mut queue);
    assert_eq!((book.came[1].foreign, book.came[1].late, book.came[1].right), (2, 1, 0));
    assert_eq!(ConnectionSpec::of(10.0, Nanos(Nanos::PER_SECOND)).count, 10);
}

/// What a simulated translator does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    /// It gives every connection the same address and port.
    Shares,
    /// It lets packets out with the address that they came with.
    Leaves,
    /// It gives answers to the host of the connection before.
    Mixes,
}

/// Runs connections through a translator with four addresses: what comes from inside gets one of them and a port of its
/// own, what comes from outside goes where the connection began.
fn translated(count: u64, slip: Slip) -> Book<'static> {
    let script: &'static Script = Box::leak(Box::new(Script::of("nat:4".parse().unwrap(), 7).unwrap()));
    let mut book = Book::new(script, 40, asked(count, false));
    let mut queue = Queue::default();
    let drain = |queue: &mut Queue, book: &mut Book<'_>| {
        while let Some((port, frame)) = queue.0.pop_front() {
            let said = Said::read(&frame).unwrap();
            let word = if port == 0 { said.sequence } else { said.acknowledgement };
            let number = 40 + place(40, word) as u64;
            let last = said.sequence & 63 == 8 && port == 0;
            let step = said.step(port, last).unwrap();
            let own = (0xcb00_7101 + (number % 4) as u32, 10_000 + (number % 50_000) as u16);
            let public = match slip {
                Slip::Shares => (0xcb00_7101, 10_000),
                Slip::Leaves if port == 0 => said.source,
                _ => own,
            };
            if port == 1 {
                assert_eq!(said.destination, if slip == Slip::Leaves { said.destination } else { public });
            }
            let (out, packet) = script.comes((number, public), step, false);
            let packet = match slip {
                Slip::Mixes if port == 1 => {
                    Packet { own: script.comes((number - 1, public), step, false).1.own, ..packet }
                }
                _ => packet,
            };
            let mut bytes = [0; BYTES];
            packet.template.write(packet.own, &mut bytes);
            book.came((out, &bytes), Ticks(9), queue);
        }
    };
    for _ in 0..count {
        book.begin(Ticks(0), &mut queue);
    }
    drain(&mut queue, &mut book);
    book
}

#[test]
fn a_translator_that_works_has_every_connection_whole_and_its_ports_free_again() {
    let book = translated(2_000, Slip::None);
    assert_eq!((book.opened, book.whole), (2_000, 2_000));
    assert!(book.check.is_right() && book.taken.is_empty(), "{:?}", book.check);
}

#[test]
fn two_connections_with_one_source_are_told_and_an_address_that_is_not_public_is() {
    let faults = |book: &Book<'_>| {
        book.check
            .wrong
            .iter()
            .map(|wrong| format!("{:?} {}", wrong.fault, wrong.example))
            .collect::<String>()
    };
    // Ends repeat after 512 connections: towards one server there are several then.
    let book = translated(2_000, Slip::Shares);
    assert!(faults(&book).contains("which lives, has that address and port"), "{}", faults(&book));
    let book = translated(100, Slip::Leaves);
    assert!(faults(&book).contains("is no public address"), "{}", faults(&book));
    let book = translated(100, Slip::Mixes);
    assert!(book.whole == 0 && !book.check.is_right(), "an answer came to another host");
}
