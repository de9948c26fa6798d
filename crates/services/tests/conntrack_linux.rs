//! Connection tracking against Linux's own: the same packets through a router in network namespaces,
//! and the same word for each, or a documented reason why not ([`DIFFERENCES`]).
//!
//! Needs root, `ip` and `nft`; says so and is skipped without.

mod support;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use support::router::{Class, Router, missing};
use support::wire::{Wire, forged};
use support::{Net, SYN, tcp, v4, v6};
use weir_services::conntrack::{Checksums, Judgement, Reason, Settings, ct};

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
    if let Some(why) = missing() {
        println!("skipped: {why}");
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
        "Linux passes any reset above what was acknowledged, however far, without effect; we end the window \
         where RFC 5961 (section 3.2) does",
    ),
    (
        (Class::EstablishedReply, Class::Invalid, Some("invalid-reset")),
        "the same in the direction of the answers",
    ),
    (
        (Class::Established, Class::Invalid, Some("invalid-seq-below")),
        "Linux passes what is older than a window without effect (\"ignored\"); van Rooij's rule II refuses it",
    ),
    (
        (Class::EstablishedReply, Class::Invalid, Some("invalid-seq-below")),
        "the same, and SYN-ACKs within a connection, which Linux passes whatever their number",
    ),
    (
        (Class::EstablishedReply, Class::Invalid, Some("invalid-seq-above")),
        "Linux passes SYN-ACKs within a connection whatever their number",
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
    if forgers == 0.0 {
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(class(*ours), *theirs, "packet {number}: {:?}", segments[number]);
        }
    }
    let what = if forgers == 0.0 { "legal conversations" } else { "conversations with forgers" };
    compare(what, &ours, &theirs, |number| format!("{:?}", segments[number]));
}

#[test]
fn legal_conversations_are_judged_just_as_linux_judges_them() {
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
