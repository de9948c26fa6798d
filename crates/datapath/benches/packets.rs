//! What it costs to make a key of a packet, and to change packets: TSC cycles each, on one core.
//!
//! Run it with `cargo bench -p weir-datapath --bench packets`. Each case goes over a burst of frames
//! that stay in the cache; rounds alternate between the cases, so that a machine whose speed drifts
//! hits all of them; the table gives the median round and the best.

use std::hint::black_box;
use weir_cpu::Ticks;
use weir_datapath::edit::{Rewrite, dec_ttl, pop_vlan, push_vlan};
use weir_flow::span::TTL;
use weir_flow::{Field, Key, Layout, Mask, compose, extract};

const FRAMES: usize = 32;
const PASSES: usize = 2_000;
const ROUNDS: usize = 51;

struct Packet {
    frame: Vec<u8>,
    layout: Layout,
    key: Key,
}

/// A burst of packets that differ in an address and a port.
fn burst(fields: &[(Field, u128)], payload: usize) -> Vec<Packet> {
    (0..FRAMES)
        .map(|number| {
            let mut key = Key::new();
            fields.iter().for_each(|&(field, value)| field.set(&mut key, value));
            Field::EthDst.set(&mut key, 0x0200_0000_0000 + number as u128);
            Field::TcpSrc.set(&mut key, 1000 + number as u128);
            let mut frame = compose(&key, &vec![0; payload]);
            // So that a tag that is pushed finds room, as in a packet's buffer.
            frame.reserve(64);
            let layout = extract(&frame, 1, &mut key);
            Packet { frame, layout, key }
        })
        .collect()
}

fn rewrite(fields: &[(Field, u128)]) -> Rewrite {
    let (mut value, mut mask) = (Key::new(), Mask::new());
    for &(field, number) in fields {
        field.set(&mut value, number);
        field.examine(&mut mask, u128::MAX);
    }
    Rewrite::compile(&value, &mask)
}

type Case<'a> = (&'a str, Vec<Packet>, Box<dyn Fn(&mut [Packet]) + 'a>);

fn extracting<'a>(name: &'a str, fields: &[(Field, u128)]) -> Case<'a> {
    let run = |burst: &mut [Packet]| {
        for packet in burst {
            packet.layout = extract(black_box(&packet.frame), 1, &mut packet.key);
        }
    };
    (name, burst(fields, 18), Box::new(run))
}

/// Two rewrites in turns, so that there is always something to change.
fn rewriting<'a>(name: &'a str, fields: &[(Field, u128)], set: &[(Field, u128)], payload: usize) -> Case<'a> {
    let other: Vec<_> = set.iter().map(|&(field, value)| (field, value ^ 1)).collect();
    let rewrites = [rewrite(set), rewrite(&other)];
    let run = move |burst: &mut [Packet]| {
        for rewrite in &rewrites {
            for Packet { frame, layout, key } in &mut burst[..FRAMES / 2] {
                black_box(rewrite.apply(black_box(frame), layout, key)).expect("it has the headers");
            }
        }
    };
    (name, burst(fields, payload), Box::new(run))
}

fn main() {
    use Field::{
        EthDst, EthSrc, EthType, Ipv6Dst, Ipv6Src, NwDst, NwProto, NwSrc, NwTtl, UdpDst, UdpSrc, VlanTci,
    };
    let udp = [(EthType, 0x0800), (NwProto, 17), (NwTtl, 64)];
    let tcp = [(EthType, 0x0800), (NwProto, 6), (NwTtl, 64)];
    let tagged = [(EthType, 0x0800), (NwProto, 6), (VlanTci, 0x1064)];
    let udp6 = [(EthType, 0x86dd), (NwProto, 17), (NwTtl, 64)];
    let sctp = [(EthType, 0x0800), (NwProto, 132), (NwTtl, 64)];
    let macs = [(EthDst, 0x0200_0000_0001), (EthSrc, 0x0200_0000_0002)];
    let nat = [(NwSrc, 0x0a01_0203), (UdpSrc, 4321)];
    let both = [&macs[..], &nat[..], &[(NwDst, 0x0a09_0807), (UdpDst, 99)]].concat();
    let mut cases: Vec<Case<'_>> = vec![
        extracting("extract IPv4 UDP", &udp),
        extracting("extract IPv4 TCP", &tcp),
        extracting("extract IPv4 TCP, tagged", &tagged),
        extracting("extract IPv6 UDP", &udp6),
        rewriting("set Ethernet addresses", &udp, &macs, 18),
        rewriting("set source address and port, UDP", &udp, &nat, 18),
        rewriting("set source address and port, TCP", &tcp, &nat, 18),
        rewriting("set six fields, UDP", &udp, &both, 18),
        rewriting("set source address and port, SCTP of 1400 B", &sctp, &nat, 1400),
        rewriting("set addresses, IPv6 UDP", &udp6, &[(Ipv6Src, 1), (Ipv6Dst, 2)], 18),
        (
            "lower the TTL",
            burst(&udp, 18),
            Box::new(|burst| {
                for Packet { frame, layout, key } in burst {
                    // A time to live that lasts: what is lowered is put back in the key and the frame.
                    let (word, old) = (key.ttl(), [frame[22], frame[24], frame[25]]);
                    black_box(dec_ttl(black_box(frame), layout, key)).expect("it has one");
                    TTL.set(key, word.into());
                    [frame[22], frame[24], frame[25]] = old;
                }
            }),
        ),
        (
            "push a tag and pop it (plain bytes: two moves of the frame)",
            burst(&udp, 18),
            Box::new(|burst| {
                for Packet { frame, layout, key } in burst {
                    push_vlan(black_box(frame), layout, key, 0x8100).expect("there is room");
                    pop_vlan(frame, layout, key).expect("it was pushed");
                }
            }),
        ),
    ];
    let mut cycles = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, burst, run), cycles) in cases.iter_mut().zip(&mut cycles) {
            run(burst);
            let start = Ticks::now();
            for _ in 0..PASSES {
                run(black_box(burst));
            }
            cycles.push(Ticks::now().since(start) as f64 / (PASSES * FRAMES) as f64);
        }
    }
    println!("{:<62} {:>8} {:>8}", "TSC cycles a packet", "median", "best");
    for ((name, ..), cycles) in cases.iter().zip(&mut cycles) {
        cycles.sort_by(f64::total_cmp);
        println!("{name:<62} {:>8.1} {:>8.1}", cycles[cycles.len() / 2], cycles[0]);
    }
}
