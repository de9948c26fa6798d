//! Connection tracking against Linux's own: the same packets through a router in network namespaces,
//! and the same word for each, or a documented reason why not ([`DIFFERENCES`]).
//!
//! Needs root, `ip` and `nft`; says so and is skipped without.

use crate::support::router::{Class, Router, has_linux};
use crate::support::wire::{Wire, forged};
use crate::support::{ACK, FIN, Net, RST, SYN, Tcp, echo, fragments, icmp, tcp, udp, unreachable, v4, v6};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use weir_conntrack::{Checksums, Judgement, Reason, Settings, ct};

fn class(judgement: Judgement) -> Class {
    match judgement.refused {
        Some(reason) if reason.is_invalid() => return Class::Invalid,
        Some(_) => return Class::Refused,
        None => {}
    }
    let reply = judgement.state & ct::RPL != 0;
    match judgement.state {
        0 => Class::Untracked,
        state if state & ct::REL != 0 => {
            if reply {
                Class::RelatedReply
            } else {
                Class::Related
            }
        }
        state if state & ct::EST != 0 => {
            if reply {
                Class::EstablishedReply
            } else {
                Class::Established
            }
        }
        _ => Class::New,
    }
}

fn net(loose: bool) -> Net {
    Net::new(Settings { loose, checksums: Checksums::All, ..Settings::default() })
}

/// On a thread of its own, as the router takes it.
fn with_router(loose: bool, body: impl FnOnce(Router) + Send + 'static) {
    if !has_linux() {
        return;
    }
    std::thread::spawn(move || body(Router::build(loose))).join().unwrap();
}

/// What is told apart in a comparison: what Linux says, what we say, and why we refuse.
type Verdicts = (Class, Class, Option<&'static str>);

/// The differences that are meant, each with its reason.
const DIFFERENCES: &[(Verdicts, &str)] = &[
    (
        (Class::Established, Class::Invalid, Some("invalid-reset")),
        "Linux passes two in three resets that are far outside the window, above and below; RFC 5961 (section \
         3.2) has the receiver drop them, so we do",
    ),
    (
        (Class::EstablishedReply, Class::Invalid, Some("invalid-reset")),
        "the same in the direction of the answers",
    ),
    (
        (Class::EstablishedReply, Class::Invalid, Some("invalid-seq-below")),
        "Linux passes the responder's SYN-ACKs within a connection whatever their number",
    ),
    (
        (Class::Related, Class::Invalid, Some("invalid-icmp-error")),
        "Linux takes errors that quote less than the eight bytes that RFC 792 asks for",
    ),
    ((Class::RelatedReply, Class::Invalid, Some("invalid-icmp-error")), "the same"),
    (
        (Class::Invalid, Class::EstablishedReply, None),
        "Linux refuses the responder's SYN where both open at once and it comes a second time; nothing but such \
         a SYN may differ so",
    ),
];

/// Compares verdict by verdict; prints how often which came, and fails for what is no known difference.
fn compare(what: &str, ours: &[Judgement], theirs: &[Class], describe: impl Fn(usize) -> String) {
    assert_eq!(ours.len(), theirs.len());
    let mut table: BTreeMap<Verdicts, (usize, usize)> = BTreeMap::new();
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let verdicts = (*theirs, class(*ours), ours.refused.map(Reason::name));

        table.entry(verdicts).or_insert((0, number)).0 += 1;
    }
    println!("{what}: {} packets", ours.len());
    let mut unknown = Vec::new();
    for (verdicts, (count, first)) in table {
        let (theirs, ours, reason) = verdicts;
        let why = DIFFERENCES.iter().find(|(known, _)| *known == verdicts).map(|(_, why)| *why);
        let note = if theirs == ours { "" } else { why.unwrap_or("NOT EXPLAINED") };
        println!("  {count:6} linux {theirs:?}, we {ours:?} {} {note}", reason.unwrap_or(""));
        if theirs != ours && why.is_none() {
            unknown.push(format!(
                "{count} times linux {theirs:?}, we {ours:?} {reason:?}; first {}",
                describe(first)
            ));
        }
    }
    assert!(unknown.is_empty(), "{what}: {unknown:#?}");
}

/// Conversations of random endpoints over a bad network, with forgers or without.
fn conversations(router: &Router, seed: u64, count: u16, forgers: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut net = net(false);
    let (mut packets, mut ours, mut segments) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let port = 1000 + number + 10_000 * seed as u16;
        let ends = if rng.random() { [v4(1, port), v4(20, 80)] } else { [v6(1, port), v6(20, 80)] };
        let mut wire = Wire::random(&mut rng, ends);
        for _ in 0..1000 {
            let Some((side, segment)) = wire.step(&mut rng) else { break };
            let forger = usize::from(rng.random::<bool>());
            let forgery = if rng.random_bool(forgers) { forged(&wire, forger, &mut rng) } else { None };
            for (side, segment) in
                [Some((side, segment)), forgery.map(|it| (forger, it))].into_iter().flatten()
            {
                let frame = tcp(ends[side], ends[1 - side], segment);
                ours.push(net.judge(&frame, 0, side == 0 || segment.flags == SYN));
                packets.push((side, frame));
                segments.push(segment);
            }
        }
    }
    let theirs = router.judge(&packets);
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let (ours, segment) = (class(*ours), segments[number]);
        let crossing = segment.flags == SYN && (*theirs, ours) == (Class::Invalid, Class::EstablishedReply);
        let wrong = if forgers == 0.0 {
            ours != *theirs
        } else {
            *theirs == Class::Invalid && ours != Class::Invalid
        };
        assert!(crossing || !wrong, "packet {number}: linux {theirs:?}, we {ours:?}: {segment:?}");
    }
    let what = if forgers == 0.0 { "legal conversations" } else { "conversations with forgers" };
    compare(what, &ours, &theirs, |number| format!("{:?}", segments[number]));
}

#[test]
fn legal_conversations_are_judged_as_linux_judges_them() {
    with_router(false, |router| conversations(&router, 1, 150, 0.0));
}

#[test]
fn forgers_fare_as_with_linux_or_worse() {
    with_router(false, |router| conversations(&router, 2, 150, 0.1));
}

#[test]
#[ignore = "a minute: half a million packets"]
fn half_a_million_packets_are_judged_as_linux_judges_them() {
    with_router(false, |router| {
        for seed in 3..6 {
            conversations(&router, seed, 500, if seed == 3 { 0.0 } else { 0.05 });
        }
    });
}

/// A scripted conversation: who says what; and why Linux judges otherwise, where it does.
struct Script {
    name: &'static str,
    steps: Vec<(usize, Tcp, Option<&'static str>)>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn segment(flags: u8, seq: u32, ack: u32) -> Tcp {
    Tcp { flags, seq, ack, window: 1000, ..Tcp::default() }
}

fn data(seq: u32, ack: u32, length: usize) -> Tcp {
    Tcp { length, ..segment(ACK, seq, ack) }
}

/// A handshake, then the rest. The client is at 101 then, the server at 501; windows are 1,000 bytes.
fn after_handshake(
    name: &'static str,
    rest: impl IntoIterator<Item = (usize, Tcp, Option<&'static str>)>,
) -> Script {
    let mut steps = vec![
        (CLIENT, segment(SYN, 100, 0), None),
        (SERVER, segment(SYN | ACK, 500, 101), None),
        (CLIENT, segment(ACK, 101, 501), None),
    ];
    steps.extend(rest);
    Script { name, steps }
}

fn scripts() -> Vec<Script> {
    let one = |name, steps| Script { name, steps };
    vec![
        after_handshake(
            "data, beyond the window, old",
            [
                (CLIENT, data(101, 501, 1000), None),
                (
                    CLIENT,
                    data(1102, 501, 1),
                    Some("Linux bounds where data begins, a byte behind the window"),
                ),
                (CLIENT, data(1101, 501, 1), Some("the same")),
                (SERVER, segment(ACK, 501, 1101), None),
                (SERVER, segment(ACK, 501, 1900), None),
                (CLIENT, data(1101, 501, 900), None),
                (CLIENT, data(101, 501, 100), Some("Linux passes old data without effect")),
                (SERVER, segment(ACK, 501, 2001), None),
                (SERVER, segment(ACK, 501, 101), None),
            ],
        ),
        after_handshake(
            "more than the window in one segment",
            [
                (CLIENT, data(101, 501, 1400), Some("Linux passes what begins within the window")),
                (CLIENT, data(101, 501, 1000), None),
                (SERVER, segment(ACK, 501, 1101), None),
            ],
        ),
        after_handshake(
            "probes and keep-alives",
            [
                (SERVER, Tcp { window: 0, ..segment(ACK, 501, 101) }, None),
                (CLIENT, data(100, 501, 0), None),
                (CLIENT, data(100, 501, 1), None),
                (CLIENT, data(101, 501, 1), None),
                (SERVER, Tcp { window: 0, ..segment(ACK, 501, 102) }, None),
            ],
        ),
        after_handshake(
            "exact reset by the server",
            [
                (SERVER, segment(RST, 501, 0), None),
                (CLIENT, segment(ACK, 101, 501), None),
                (CLIENT, segment(SYN, 70_000, 0), Some("Linux reopens at once only right behind the reset")),
                (SERVER, segment(SYN | ACK, 9000, 70_001), None),
            ],
        ),
        after_handshake(
            "resets within the window, below, above",
            [
                (SERVER, segment(RST, 700, 0), None),
                (SERVER, segment(RST, 400, 0), None),
                (SERVER, segment(RST, 50_000, 0), None),
                (CLIENT, data(101, 501, 10), None),
                (SERVER, segment(ACK, 501, 111), None),
                (CLIENT, segment(RST | ACK, 111, 501), None),
                (SERVER, segment(ACK, 501, 111), None),
            ],
        ),
        after_handshake(
            "a restarted client is challenged",
            [
                (CLIENT, segment(SYN, 7_000_000, 0), None),
                (SERVER, segment(ACK, 501, 101), None),
                (CLIENT, segment(RST, 101, 0), None),
                (CLIENT, segment(SYN, 7_000_000, 0), None),
                (SERVER, segment(SYN | ACK, 9000, 7_000_001), None),
                (CLIENT, segment(ACK, 7_000_001, 9001), None),
            ],
        ),
        after_handshake(
            "closing by the client",
            [
                (CLIENT, segment(FIN | ACK, 101, 501), None),
                (SERVER, segment(ACK, 501, 102), None),
                (SERVER, data(501, 102, 300), None),
                (CLIENT, segment(ACK, 102, 801), None),
                (SERVER, segment(FIN | ACK, 801, 102), None),
                (CLIENT, segment(ACK, 102, 802), None),
                (SERVER, segment(FIN | ACK, 801, 102), None),
                (CLIENT, segment(ACK, 102, 802), None),
                (CLIENT, segment(SYN, 90_000, 0), None),
                (SERVER, segment(SYN | ACK, 5_000_000, 90_001), None),
            ],
        ),
        after_handshake(
            "closing by both at once, then a reset",
            [
                (CLIENT, segment(FIN | ACK, 101, 501), None),
                (SERVER, segment(FIN | ACK, 501, 101), None),
                (CLIENT, segment(ACK, 102, 502), None),
                (SERVER, segment(ACK, 502, 102), None),
                (SERVER, segment(RST, 502, 0), None),
            ],
        ),
        after_handshake(
            "data behind a FIN",
            [
                (CLIENT, segment(FIN | ACK, 101, 501), None),
                (CLIENT, data(102, 501, 10), Some("Linux does not remember that a FIN was the end")),
            ],
        ),
        after_handshake(
            "a lower number in TIME-WAIT",
            [
                (CLIENT, segment(FIN | ACK, 101, 501), None),
                (SERVER, segment(FIN | ACK, 501, 102), None),
                (CLIENT, segment(ACK, 102, 502), None),
                (
                    CLIENT,
                    segment(SYN, 50, 0),
                    Some("Linux reopens whatever the number; RFC 9293 wants a greater one"),
                ),
            ],
        ),
        after_handshake(
            "flags that no host sends",
            [
                (CLIENT, segment(0, 101, 501), None),
                (CLIENT, segment(FIN, 101, 501), None),
                (CLIENT, segment(SYN | FIN, 101, 501), None),
                (CLIENT, segment(SYN | RST, 101, 501), None),
                (CLIENT, segment(FIN | RST | ACK, 101, 501), None),
                (CLIENT, segment(0x3f, 101, 501), None),
            ],
        ),
        after_handshake(
            "SYN-ACKs within a connection",
            [
                (SERVER, segment(SYN | ACK, 500, 101), None),
                (
                    SERVER,
                    segment(SYN | ACK, 77_777, 101),
                    Some("Linux ignores SYN-ACKs without a look at their numbers"),
                ),
                (CLIENT, segment(SYN | ACK, 100, 501), Some("Linux takes none from the originator")),
            ],
        ),
        one(
            "both open at once",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(SYN, 500, 0), None),
                (CLIENT, segment(SYN | ACK, 100, 501), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
                (CLIENT, data(101, 501, 100), None),
                (SERVER, data(501, 201, 100), None),
            ],
        ),
        one(
            "nobody there",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(RST | ACK, 0, 101), None),
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(RST | ACK, 0, 101), None),
            ],
        ),
        one(
            "a reset that does not answer the SYN",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(RST | ACK, 0, 99_999), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
            ],
        ),
        one(
            "a SYN again, answered again",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
                (CLIENT, segment(ACK, 101, 501), None),
            ],
        ),
        one(
            "wrong answers to a SYN",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(SYN | ACK, 500, 5000), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
            ],
        ),
        one(
            "another SYN before an answer",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (CLIENT, segment(SYN, 70_000, 0), None),
                (SERVER, segment(SYN | ACK, 500, 70_001), None),
                (CLIENT, segment(ACK, 70_001, 501), None),
            ],
        ),
        one(
            "a half-dead server",
            vec![
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(ACK, 9000, 7000), None),
                (CLIENT, segment(RST, 7000, 0), Some("Linux counts the challenge as an answer")),
                (CLIENT, segment(SYN, 100, 0), None),
                (SERVER, segment(SYN | ACK, 500, 101), None),
                (CLIENT, segment(ACK, 101, 501), None),
            ],
        ),
        one(
            "from outside",
            vec![
                (SERVER, segment(ACK, 1, 1), None),
                (SERVER, segment(SYN | ACK, 1, 1), None),
                (SERVER, segment(RST, 1, 0), None),
                (SERVER, segment(FIN | ACK, 1, 0), None),
            ],
        ),
        one(
            "from inside, without a connection",
            vec![
                (CLIENT, segment(SYN | ACK, 1, 1), None),
                (CLIENT, segment(RST, 1, 0), None),
                (CLIENT, segment(FIN | ACK, 1, 0), None),
                (CLIENT, data(1, 1, 10), None),
            ],
        ),
    ]
}

/// In the middle, where that is allowed.
fn loose_scripts() -> Vec<Script> {
    vec![Script {
        name: "met in the middle",
        steps: vec![
            (SERVER, data(9000, 4000, 10), None),
            (CLIENT, data(4000, 9010, 100), None),
            (SERVER, data(9010, 4100, 700), None),
            (CLIENT, data(4100, 9710, 100), None),
            (CLIENT, segment(FIN | ACK, 4200, 9710), None),
            (SERVER, segment(FIN | ACK, 9710, 4201), None),
            (CLIENT, segment(ACK, 4201, 9711), None),
        ],
    }]
}

/// Every script over IPv4 and IPv6; a step differs just where it says so.
fn play(router: &Router, loose: bool, scripts: &[Script]) {
    let mut net = net(loose);
    let mut wrong = Vec::new();
    let (mut steps, mut differ) = (0, 0);
    for (number, script) in scripts.iter().enumerate() {
        let port = 2000 + number as u16;
        // A port that does not cross: from there only a crossing script may open.
        let crossing = script.name == "both open at once";
        let service = if crossing { 80 } else { 81 };
        for ends in [[v4(2, port), v4(21, service)], [v6(2, port), v6(21, service)]] {
            let frames: Vec<(usize, Vec<u8>)> = script
                .steps
                .iter()
                .map(|(side, segment, _)| (*side, tcp(ends[*side], ends[1 - side], *segment)))
                .collect();
            let theirs = router.judge(&frames);
            for (step, ((side, segment, why), theirs)) in script.steps.iter().zip(&theirs).enumerate() {
                let commit = *side == CLIENT || crossing && segment.flags == SYN;
                let judgement = net.judge(&frames[step].1, 0, commit);
                let ours = class(judgement);
                steps += 1;
                differ += usize::from(why.is_some());
                if (ours != *theirs) != why.is_some() {
                    let reason = judgement.refused.map(Reason::name);
                    wrong.push(format!(
                        "{} step {step} {segment:?}: linux {theirs:?}, we {ours:?} {reason:?}, meant {why:?}",
                        script.name
                    ));
                }
            }
        }
    }
    println!(
        "{} scripts, {steps} steps, {differ} of them judged otherwise for a stated reason",
        scripts.len()
    );
    for (script, segment, why) in
        scripts.iter().flat_map(|script| script.steps.iter().map(move |step| (script.name, step.1, step.2)))
    {
        if let Some(why) = why {
            println!("  {script}: {segment:?}: {why}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn scripted_conversations_are_judged_alike_or_for_a_stated_reason() {
    with_router(false, |router| play(&router, false, &scripts()));
}

#[test]
fn connections_met_in_the_middle_are_judged_alike() {
    with_router(true, |router| play(&router, true, &loose_scripts()));
}

/// A packet that is not TCP: requests, answers, errors, wrong checksums, unknown protocols, both ways,
/// among few ends, so that they often belong together. Quotes are of earlier packets.
fn medley(rng: &mut ChaCha8Rng, earlier: &[(usize, Vec<u8>)]) -> (usize, Vec<u8>) {
    let six = rng.random::<bool>();
    let side = usize::from(rng.random::<bool>());
    let end = |side: usize, rng: &mut ChaCha8Rng| {
        let (last, port) =
            ([rng.random_range(1..4_u8), rng.random_range(20..22)][side], rng.random_range(30..60));
        if six { v6(last.into(), port) } else { v4(last, port) }
    };
    let (from, to) = (end(side, rng), end(1 - side, rng));
    let id = rng.random_range(0..20);
    let mut frame = match rng.random_range(0..12) {
        0..=4 => udp(from, to, rng.random_range(0..200)),
        5..=6 => echo(from.ip(), to.ip(), false, id),
        7..=8 => echo(from.ip(), to.ip(), true, id),
        9 => {
            let kind =
                if six { [1, 2, 3, 4, 128, 129, 140, 200, 255] } else { [3, 4, 5, 11, 12, 13, 14, 9, 40] };
            let rest = udp(to, from, 20)[14..].to_vec();
            icmp(from.ip(), to.ip(), (kind[rng.random_range(0..9)], 0), [0, id as u8, 0, 0], &rest)
        }
        10 => crate::support::ip(from.ip(), to.ip(), 99, vec![1; 30], None),
        _ => {
            let same = |packet: &&(usize, Vec<u8>)| (packet.1[12] == 0x86) == six;
            let near = earlier.len().saturating_sub(200);
            let Some((sender, about)) = earlier[near..].iter().filter(same).nth(rng.random_range(0..60))
            else {
                return (side, udp(from, to, 1));
            };
            // It comes from the other side and goes to whoever sent what it is about, nearly always.
            let header = &about[14..];
            let source: std::net::IpAddr = if six {
                <[u8; 16]>::try_from(&header[8..24]).unwrap().into()
            } else {
                <[u8; 4]>::try_from(&header[12..16]).unwrap().into()
            };
            let reporter = end(1 - sender, rng).ip();
            let target = if rng.random_bool(0.9) { source } else { end(*sender, rng).ip() };
            let length = if rng.random_bool(0.9) { 200 } else { rng.random_range(10..60) };
            return (1 - sender, unreachable(reporter, target, about, length));
        }
    };
    if rng.random_bool(0.05) {
        let last = frame.len() - 1;
        frame[last] ^= 0x40;
    }
    (side, frame)
}

#[test]
fn udp_icmp_and_other_packets_are_judged_as_linux_judges_them() {
    with_router(false, |router| {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        let mut net = net(false);
        let (mut packets, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..30_000 {
            let (side, frame) = medley(&mut rng, &packets);
            ours.push(net.judge(&frame, 0, side == 0));
            packets.push((side, frame));
        }
        let theirs = router.judge(&packets);
        compare("packets other than TCP", &ours, &theirs, |number| {
            format!("{number}: {:02x?}", packets[number])
        });
    });
}

#[test]
fn fragments_come_through_as_with_linux_if_the_first_comes_first() {
    with_router(false, |router| {
        let mut net = net(false);
        let mut judged = 0;
        for id in 1..200_u16 {
            let port = 40_000 + id / 2;
            let pairs = [(v4(1, port), v4(20, 7)), (v6(1, port), v6(20, 7))];
            let (inside, outside) = pairs[usize::from(id % 4 >= 2)];
            let (side, from, to) = if id % 2 == 0 { (0, inside, outside) } else { (1, outside, inside) };
            let body = 600 + usize::from(id) * 7;
            let parts = fragments(&udp(from, to, body), id, 8 * (10 + usize::from(id) % 90));
            let ours: Vec<Class> = parts.iter().map(|part| class(net.judge(part, 0, side == 0))).collect();
            let (bytes, theirs) = router.judge_fragments(side, &parts);
            judged += parts.len();
            if theirs == Class::Refused {
                assert_eq!((ours[0], bytes), (Class::Refused, 0), "{id}");
                assert!(
                    ours[1..].iter().all(|class| *class == Class::Invalid),
                    "without its first: {ours:?}"
                );
            } else {
                assert!(ours.iter().all(|class| *class == theirs), "{id}: linux {theirs:?}, we {ours:?}");
                assert_eq!(bytes, body + 8, "{id}");
            }
        }
        println!("{judged} fragments of 199 packets judged alike");
    });
}
