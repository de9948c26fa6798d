//! Connection tracking against models: conversations of independent TCP endpoints over a bad network,
//! forgers, a plain map as oracle of the table, random bytes.

use crate::support::host::Phase;
use crate::support::wire::{Wire, forged};
use crate::support::{Net, SYN, Tcp, tcp, udp, v4, v6};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::net::SocketAddr;
use weir_conntrack::{Reason, Settings, ct};

/// Runs conversations until so many packets were judged. Legal ones must pass, forged ones must not.
fn converse(seed: u64, packets: usize) -> [usize; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut net = Net::new(Settings { connections: 4096, loose: false, ..Settings::default() });
    let (mut legal, mut forgeries, mut number) = (0, 0, 0_u16);
    while legal < packets {
        number += 1;
        let ends = if rng.random() {
            [v4(1, 1000 + number), v4(20, 80)]
        } else {
            [v6(1, 1000 + number), v6(20, 80)]
        };
        let mut wire = Wire::random(&mut rng, ends);
        let limit = rng.random_range(50..2000);
        for _ in 0..limit {
            let Some((side, segment)) = wire.step(&mut rng) else { break };
            let frame = tcp(wire.ends[side], wire.ends[1 - side], segment);
            // Outside may only answer; where both open at once, either SYN may come first.
            let judgement = net.judge(&frame, 0, side == 0 || segment.flags == SYN);
            assert_eq!(judgement.refused, None, "seed {seed}: {segment:?} of {:?}", wire.hosts);
            legal += 1;
            let forger = usize::from(rng.random::<bool>());
            if rng.random_bool(0.1)
                && let Some(segment) = forged(&wire, forger, &mut rng)
            {
                let frame = tcp(wire.ends[forger], wire.ends[1 - forger], segment);
                let judgement = net.judge(&frame, 0, true);
                let refused = judgement.refused.filter(|reason| reason.is_invalid());
                assert!(refused.is_some(), "seed {seed}: forged {segment:?} passed {:?}", wire.hosts);
                forgeries += 1;
            }
        }
        if rng.random_bool(0.2) {
            let side = usize::from(rng.random::<bool>());
            if wire.hosts[side].phase == Phase::Open && wire.before[side].is_empty() {
                let abort = wire.hosts[side].abort();
                let judgement = net.judge(&tcp(wire.ends[side], wire.ends[1 - side], abort), 0, false);
                assert_eq!(judgement.refused, None, "seed {seed}: {abort:?}");
                legal += 1;
            }
        }
        net.now.0 += 1_000_000;
        net.tracker.sweep(net.tick_now(), || false);
    }
    [legal, forgeries]
}

#[test]
fn legal_conversations_over_a_bad_network_are_never_invalid_and_forgeries_always() {
    let mut total = [0, 0];
    for seed in 0..40 {
        let [legal, forged] = converse(seed, 5000);
        total = [total[0] + legal, total[1] + forged];
    }
    println!("{} legal packets passed, {} forged ones did not", total[0], total[1]);
    assert!(total[0] >= 200_000 && total[1] > 1000, "{total:?}");
}

#[test]
#[ignore = "minutes: as many packets as WEIR_CONNTRACK_PACKETS says, 5 million without"]
fn legal_conversations_by_the_million() {
    let packets = std::env::var("WEIR_CONNTRACK_PACKETS").ok().and_then(|text| text.parse().ok());
    let packets: usize = packets.unwrap_or(5_000_000);
    let mut total = [0, 0];
    for seed in 1000.. {
        let [legal, forged] = converse(seed, 50_000);
        total = [total[0] + legal, total[1] + forged];
        if total[0] >= packets {
            break;
        }
    }
    println!("{} legal packets passed, {} forged ones did not", total[0], total[1]);
}

/// When a timeout of so many seconds ends: rounded up to a tick of 17 ms, of which it begins with one.
fn rounded(now: u64, seconds: u64) -> u64 {
    let ticks = ((seconds * 1_000_000_000) >> 24) + 1;
    ((now >> 24) + ticks) << 24
}

#[test]
fn the_table_agrees_with_a_plain_map() {
    for seed in 0..8 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut net = Net::new(Settings { connections: 10_000, half_open: 0, ..Settings::default() });
        // Ends, zone: when it times out, and whether it was answered.
        let mut oracle: HashMap<(SocketAddr, SocketAddr, u16), (u64, bool)> = HashMap::new();
        for _ in 0..20_000 {
            let six = rng.random_bool(0.3);
            let end = |rng: &mut ChaCha8Rng| {
                let (last, port) = (rng.random_range(1..5_u8), rng.random_range(1..5));
                if six { v6(last.into(), port) } else { v4(last, port) }
            };
            let (from, to) = (end(&mut rng), end(&mut rng));
            if from.ip() == to.ip() {
                continue;
            }
            let (zone, commit) = (rng.random_range(0..3), rng.random_bool(0.7));
            let now = net.now.0;
            oracle.retain(|_, (deadline, _)| *deadline > now);
            let judgement = net.judge(&udp(from, to, 5), zone, commit);
            let answered = oracle.contains_key(&(to, from, zone));
            let known = if answered { (to, from, zone) } else { (from, to, zone) };
            let expected = match oracle.get_mut(&known) {
                Some((_, replied)) => {
                    *replied |= answered;
                    let est = if *replied { ct::EST } else { ct::NEW };
                    ct::TRK | est | if answered { ct::RPL } else { 0 }
                }
                None => ct::TRK | ct::NEW,
            };
            assert_eq!(judgement.state, expected, "seed {seed}");
            assert_eq!(judgement.refused.is_none(), commit || oracle.contains_key(&known));
            if judgement.refused.is_none() {
                let replied = oracle.get(&known).is_some_and(|(_, replied)| *replied);
                let length = if replied { 120 } else { 30 };
                oracle.insert(known, (rounded(now, length), replied));
            }
            net.now.0 += rng.random_range(0..100_000_000);
            if rng.random_bool(0.3) {
                net.tracker.sweep(net.tick_now(), || false);
            }
        }
        net.settle();
        let now = net.now.0;
        oracle.retain(|_, (deadline, _)| *deadline > now);
        assert_eq!(net.tracker.connections() as usize, oracle.len());
        assert_eq!(net.tracker.all(0).count(), oracle.len());
    }
}

/// A frame of random bytes, or a good one with some bytes spoilt, cut or with a wrong length.
fn noise(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let (a, b) = if rng.random() { (v4(1, 9), v4(2, 9)) } else { (v6(1, 9), v6(2, 9)) };
    let inner = udp(a, b, rng.random_range(0..80));
    let mut frame = match rng.random_range(0..6) {
        0 => (0..rng.random_range(0..120)).map(|_| rng.random()).collect(),
        1 => tcp(
            a,
            b,
            Tcp {
                flags: rng.random(),
                seq: rng.random(),
                ack: rng.random(),
                scale: Some(3),
                ..Tcp::default()
            },
        ),
        2 => crate::support::unreachable(b.ip(), a.ip(), &inner, rng.random_range(0..80)),
        3 => crate::support::echo(a.ip(), b.ip(), rng.random(), 5),
        4 => {
            let pieces = crate::support::fragments(&inner, 4, 16);
            pieces[rng.random_range(0..pieces.len())].clone()
        }
        _ => inner,
    };
    for _ in 0..rng.random_range(0..4) {
        if !frame.is_empty() {
            let at = rng.random_range(0..frame.len());
            frame[at] = rng.random();
        }
    }
    if rng.random_bool(0.2) {
        frame.truncate(rng.random_range(0..frame.len() + 1));
    }
    frame
}

#[test]
fn random_frames_never_panic_and_memory_stays_flat() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut net =
        Net::new(Settings { connections: 300, half_open: 100, fragments: 64, ..Settings::default() });
    for port in 0..300 {
        net.judge(&udp(v4(5, port), v4(6, 1), 1), 2, true);
        net.judge(&udp(v4(6, 1), v4(5, port), 1), 2, true);
    }
    let memory = net.tracker.memory();
    for _ in 0..300_000 {
        let frame = noise(&mut rng);
        let (key, mut layout) = crate::support::extract(&frame);
        if rng.random_bool(0.05) {
            // Not even a wrong layout may do harm.
            for at in [&mut layout.network, &mut layout.transport, &mut layout.end] {
                *at = rng.random_range(0..200);
            }
        }
        let packet = weir_conntrack::Packet { frame: &frame, layout, key: &key };
        let judgement = net.tracker.track(&packet, rng.random_range(0..3), rng.random(), net.tick_now());
        assert_eq!(judgement.state & ct::INV != 0, judgement.refused.is_some_and(Reason::is_invalid));
        net.now.0 += 1_000_000;
        net.tracker.sweep(net.tick_now(), || false);
        assert!(net.tracker.connections() <= 300 && net.tracker.half_open() <= 100);
    }
    assert_eq!(net.tracker.memory(), memory);
}

#[test]
fn the_same_seed_judges_alike() {
    let run = || {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let mut net = Net::new(Settings { connections: 100, half_open: 50, ..Settings::default() });
        (0..20_000)
            .map(|_| {
                let judgement = net.allow(&noise(&mut rng));
                net.now.0 += rng.next_u64() % 1_000_000;
                (judgement.state, judgement.refused)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
