//! `conntrack` as the datapath and people see it: metadata, the key's fields, commands, settings.

use crate::support::{ACK, SYN, Tcp, echo, extract, tcp, udp, unreachable, v4, v6};
use serde_json::{Value, json};
use weir_flow::{Field, Key};
use weir_services::{Burst, ConfigError, Group, GroupConfig, Memo, Service, Slot, Verdict, registered};
use weir_units::Nanos;

fn group(settings: &Value) -> Result<std::sync::Arc<dyn Group>, ConfigError> {
    let config = GroupConfig { name: "edge", settings, workers: 2, seed: 3 };
    (registered("conntrack").expect("it is registered").build)(&config)
}

fn service(settings: &Value) -> Box<dyn Service> {
    group(settings).unwrap().instance(0)
}

/// Runs frames as one burst, all with this argument; returns their metadata and keys.
fn process(service: &mut dyn Service, frames: &[Vec<u8>], argument: u32) -> Vec<(u32, Key)> {
    process_at(service, frames, argument, 1000)
}

/// The same, so many milliseconds after the start.
fn process_at(service: &mut dyn Service, frames: &[Vec<u8>], argument: u32, millis: u64) -> Vec<(u32, Key)> {
    let mut frames = frames.to_vec();
    let mut keys: Vec<_> = frames.iter().map(|frame| extract(frame)).collect();
    let mut slots: Vec<Slot<'_>> = frames
        .iter_mut()
        .zip(&mut keys)
        .map(|(frame, (key, layout))| Slot {
            frame,
            layout: *layout,
            key,
            argument,
            arguments: &[],
            tracking: None,
            metadata: 7,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        })
        .collect();
    service.process(&mut Burst::new(&mut slots, Nanos(millis * 1_000_000)));
    assert!(slots.iter().all(|slot| slot.coalesce && slot.verdict == Verdict::Pass));
    let metadata: Vec<u32> = slots.iter().map(|slot| slot.metadata).collect();
    metadata.into_iter().zip(keys).map(|(metadata, (key, _))| (metadata, key)).collect()
}

fn syn() -> Tcp {
    Tcp { flags: SYN, seq: 1, window: 99, ..Tcp::default() }
}

#[test]
fn metadata_says_what_the_tables_should_do() {
    let mut service = service(&json!({ "connections": 100 }));
    let ask = tcp(v4(1, 9), v4(20, 80), syn());
    let answer = tcp(v4(20, 80), v4(1, 9), Tcp { flags: SYN | ACK, seq: 5, ack: 2, ..Tcp::default() });
    let metadata = |service: &mut dyn Service, frame: &Vec<u8>, argument| {
        process(service, std::slice::from_ref(frame), argument)[0].0
    };
    assert_eq!(metadata(&mut *service, &ask, 0), 0);
    assert_eq!(metadata(&mut *service, &ask, 1), 1);
    assert_eq!(metadata(&mut *service, &answer, 0), 1);
    assert_eq!(metadata(&mut *service, &answer, 5 << 16), 0, "another zone");
    assert!(process(&mut *service, &[], 1).is_empty());
}

#[test]
fn a_burst_of_any_length_is_judged_in_its_order() {
    let mut service = service(&json!({ "connections": 1000 }));
    let mut frames = Vec::new();
    for port in 0..150 {
        frames.push(udp(v4(1, port), v4(20, 53), 5));
        frames.push(udp(v4(20, 53), v4(1, port), 5));
    }
    let judged = process(&mut *service, &frames, 1);
    for (number, (metadata, key)) in judged.iter().enumerate() {
        let state = if number % 2 == 0 { 0x21 } else { 0x2a };
        assert_eq!((*metadata, Field::CtState.get(key)), (1, state), "{number}");
    }
}

#[test]
fn the_key_tells_of_the_connection_and_nothing_is_left_of_another() {
    let mut service = service(&json!({ "connections": 100 }));
    let (client, server) = (v4(30, 4000), v4(20, 53));
    let ask = udp(client, server, 5);
    let frames = [ask.clone(), udp(server, client, 5), unreachable(server.ip(), client.ip(), &ask, 60)];
    for (number, (_, key)) in process(&mut *service, &frames, 1 | 9 << 16).iter().enumerate() {
        assert_eq!(Field::CtState.get(key), [0x21, 0x2a, 0x2c][number]);
        assert_eq!(Field::CtZone.get(key), 9);
        let original = [Field::CtNwSrc, Field::CtNwDst, Field::CtNwProto, Field::CtTpSrc, Field::CtTpDst];
        let values = original.map(|field| field.get(key));
        assert_eq!(values, [0x0a00_011e, 0x0a00_0114, 17, 4000, 53], "{number}");
    }
    let six = process(&mut *service, &[echo(v6(30, 0).ip(), v6(20, 0).ip(), false, 8)], 1);
    let key = &six[0].1;
    let word = |address: std::net::SocketAddr| match address.ip() {
        std::net::IpAddr::V6(address) => address.to_bits(),
        std::net::IpAddr::V4(_) => 0,
    };
    assert_eq!(Field::CtIpv6Src.get(key), word(v6(30, 0)));
    assert_eq!(Field::CtIpv6Dst.get(key), word(v6(20, 0)));
    assert_eq!((Field::CtTpSrc.get(key), Field::CtTpDst.get(key), Field::CtNwProto.get(key)), (128, 0, 58));

    // A key that was tracked before, and now is nothing known.
    let mut frame = tcp(client, server, Tcp { flags: ACK, ..Tcp::default() });
    let (mut key, layout) = extract(&frame);
    for (field, value) in
        [(Field::CtNwSrc, 1), (Field::CtMark, 2), (Field::CtLabel, 3), (Field::CtIpv6Dst, 4)]
    {
        field.set(&mut key, value);
    }
    Field::Ipv6Label.set(&mut key, 0xabcde);
    let slot = Slot {
        frame: &mut frame,
        layout,
        key: &mut key,
        argument: 0,
        arguments: &[],
        tracking: None,
        metadata: 1,
        memo: Memo::NOWHERE,
        coalesce: false,
        verdict: Verdict::Pass,
        splice: None,
    };
    service.process(&mut Burst::new(&mut [slot], Nanos(1_000_000_000)));
    for field in [Field::CtNwSrc, Field::CtMark, Field::CtLabel, Field::CtIpv6Dst] {
        assert_eq!(field.get(&key), 0, "{}", field.name());
    }
    assert_eq!(Field::Ipv6Label.get(&key), 0xabcde, "what shares a word stays");
}

#[test]
fn only_declared_fields_are_rewritten() {
    let declared = registered("conntrack").unwrap().rewrites;
    let mut service = service(&json!({ "connections": 100 }));
    for frame in [
        udp(v4(1, 9), v4(20, 9), 5),
        udp(v6(1, 9), v6(20, 9), 5),
        echo(v4(1, 0).ip(), v4(20, 0).ip(), false, 1),
    ] {
        let before = extract(&frame).0;
        let after = process(&mut *service, &[frame], 1)[0].1.clone();
        let mut allowed = weir_flow::Mask::new();
        for field in declared {
            field.examine(&mut allowed, u128::MAX);
        }
        for place in 0..weir_flow::WORDS {
            assert_eq!((before.word(place) ^ after.word(place)) & !allowed.word(place), 0, "word {place}");
        }
    }
}

#[test]
fn connections_are_dumped_in_parts_and_flushed_by_what_they_are() {
    let mut service = service(&json!({ "connections": 100, "accounting": true }));
    let scaled = Tcp { scale: Some(7), sack: true, ..syn() };
    process(&mut *service, &[tcp(v4(1, 9), v4(20, 80), scaled), udp(v4(1, 9), v4(20, 53), 5)], 1);
    process(&mut *service, &[echo(v6(1, 0).ip(), v6(20, 0).ip(), false, 77)], 1 | 4 << 16);
    let all = service.command("dump", &Value::Null).unwrap();
    let texts: Vec<&str> =
        all["connections"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "tcp,orig=(src=10.0.0.1,dst=10.0.1.20,sport=9,dport=80),\
             reply=(src=10.0.1.20,dst=10.0.0.1,sport=80,dport=9),protoinfo=(state=SYN_SENT)",
            "udp,orig=(src=10.0.0.1,dst=10.0.1.20,sport=9,dport=53),\
             reply=(src=10.0.1.20,dst=10.0.0.1,sport=53,dport=9)",
            "icmpv6,orig=(src=fd00::1,dst=fd00:0:0:1::14,id=77,type=128,code=0),\
             reply=(src=fd00:0:0:1::14,dst=fd00::1,id=77,type=129,code=0),zone=4",
        ]
    );
    let first = &all["connections"][0];
    assert_eq!(first["original"]["window_scale"], 7);
    assert_eq!(first["original"]["counts"], json!({ "packets": 1, "bytes": 48 }));
    assert_eq!((&first["state"], &first["timeout"]), (&json!("SYN_SENT"), &json!(120)));
    let part = service.command("dump", &json!({ "limit": 2 })).unwrap();
    assert_eq!((part["connections"].as_array().unwrap().len(), &part["next"]), (2, &json!(2)));
    let rest = service.command("dump", &json!({ "limit": 2, "from": part["next"] })).unwrap();
    assert_eq!((rest["connections"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    let flushed = service.command("flush", &json!({ "protocol": "udp", "destination_port": 53 })).unwrap();
    assert_eq!(flushed["flushed"], 1);
    assert_eq!(service.command("flush", &json!({ "zone": 4 })).unwrap()["flushed"], 1);
    let stats = service.command("stats", &Value::Null).unwrap();
    assert_eq!((&stats["connections"], &stats["counters"]["flushed"]), (&json!(1), &json!(2)));
    assert_eq!(service.command("flush", &Value::Null).unwrap()["flushed"], 1);
    assert_eq!(service.counters()[0], ("connections", 0));
}

#[test]
fn what_is_not_understood_is_said() {
    let mut service = service(&json!({}));
    assert!(service.command("sing", &Value::Null).unwrap_err().contains("`dump`, `flush` and `stats`"));
    assert!(service.command("dump", &json!({ "zones": 1 })).unwrap_err().contains("`zone`"));
    assert!(service.command("flush", &json!({ "protocol": "tpc" })).unwrap_err().contains("icmpv6"));
    for (settings, word) in [
        (json!({ "connection": 5 }), "connection"),
        (json!({ "connections": 0 }), "from 1 to"),
        (json!({ "timeouts": { "icmp": 0 } }), "timeouts.icmp"),
        (json!({ "timeouts": { "tcp_established": 10_000_000 } }), "8640000"),
        (json!({ "checksums": "some" }), "some"),
    ] {
        let Err(error) = group(&settings) else { panic!("{settings} was taken") };
        assert!(
            error.to_string().starts_with("service `edge`: ") && error.to_string().contains(word),
            "{error}"
        );
    }
    let schema = (registered("conntrack").unwrap().schema)();
    assert!(schema["properties"]["connections"]["description"].is_string());
}

#[test]
fn time_passes_by_ticks() {
    let mut service = service(&json!({ "connections": 100, "timeouts": { "udp_single": 2 } }));
    process(&mut *service, &[udp(v4(1, 9), v4(20, 53), 5)], 1);
    service.tick(Nanos(2_900_000_000));
    assert_eq!(service.counters()[0].1, 1);
    service.tick(Nanos(3_100_000_000));
    assert_eq!(service.counters()[0].1, 0);
    assert!(service.memory() > 0);
}

/// Datagrams of clients of these numbers.
fn datagrams(last: u8, ports: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    ports.map(|port| udp(v4(last, port), v4(20, 53), 5)).collect()
}

#[test]
fn a_loaded_worker_ends_what_is_over_without_being_told_to() {
    let open = || {
        let mut service = service(&json!({ "connections": 20_000, "half_open": 0 }));
        for port in (0..10_000).step_by(32) {
            process(&mut *service, &datagrams(1, port..port + 32), 1);
        }
        service
    };
    let connections = |service: &dyn Service| service.counters()[0].1;
    // Each new connection pays for looking at two old ones.
    let mut service1 = open();
    for burst in 0..160 {
        process_at(&mut *service1, &datagrams(2, burst * 32..burst * 32 + 32), 1, 40_000);
    }
    assert_eq!(connections(&*service1), 160 * 32);
    // So much of the time goes into it if there are no new ones.
    let mut service2 = open();
    let (mut millis, before) = (40_000, connections(&*service2));
    process_at(&mut *service2, &datagrams(2, 0..1), 1, millis);
    for _ in 0..50 {
        process_at(&mut *service2, &datagrams(2, 0..1), 1, millis);
    }
    let same_time = connections(&*service2);
    assert!(same_time > before / 2, "one step of a millisecond, and not one a burst: {same_time}");
    while connections(&*service2) > 1 {
        millis += 1;
        process_at(&mut *service2, &datagrams(2, 0..1), 1, millis);
        assert!(millis < 42_000, "{} are left", connections(&*service2));
    }
}

#[test]
fn a_command_goes_step_by_step_however_few_it_finds() {
    let mut service = service(&json!({ "connections": 300_000, "half_open": 0 }));
    for client in 1..6 {
        for port in (0..60_000).step_by(480) {
            process(&mut *service, &datagrams(client, port..port + 480), 1);
        }
    }
    for (command, counted) in [("dump", None), ("flush", Some("flushed"))] {
        let (mut from, mut steps, mut found) = (json!(0), 0, 0);
        while !from.is_null() {
            let answer = service.command(command, &json!({ "zone": 9, "from": from })).unwrap();
            found += counted.map_or(0, |name| answer[name].as_u64().unwrap());
            found += answer["connections"].as_array().map_or(0, |all| all.len() as u64);
            assert!(answer["next"].is_null() || answer["next"].as_u64() > from.as_u64(), "it gets on");
            (from, steps) = (answer["next"].clone(), steps + 1);
        }
        assert_eq!(steps, 300_000_usize.div_ceil(2048), "{command} has breaks");
        assert_eq!(found, 0);
    }
    let mine = service.command("dump", &json!({ "from": [null, 0] })).unwrap();
    assert_eq!(mine, json!({ "connections": [], "next": null }), "worker 0 is done");
    let mine = service.command("dump", &json!({ "from": [299_999, null] })).unwrap();
    assert_eq!(mine["connections"].as_array().unwrap().len(), 1);
}

/// Runs frames as bursts of 32, each with the note that its flow's megaflow has, and returns what is known of
/// them. Notes are kept by the flow's number, several of which may share one.
fn with_notes(
    service: &mut dyn Service,
    frames: &[(usize, Vec<u8>)],
    notes: &mut [Memo],
) -> Vec<(u32, Verdict, Key)> {
    let mut said = Vec::new();
    for burst in frames.chunks(32) {
        let mut packets: Vec<_> =
            burst.iter().map(|(flow, frame)| (*flow, frame.clone(), extract(frame))).collect();
        let mut slots: Vec<Slot<'_>> = packets
            .iter_mut()
            .map(|(flow, frame, (key, layout))| Slot {
                frame,
                layout: *layout,
                key,
                argument: 1,
                arguments: &[],
                tracking: None,
                metadata: 0,
                memo: notes[*flow],
                coalesce: false,
                verdict: Verdict::Pass,
                splice: None,
            })
            .collect();
        service.process(&mut Burst::new(&mut slots, Nanos(1_000_000_000)));
        for ((flow, _), slot) in burst.iter().zip(&slots) {
            notes[*flow] = slot.memo;
            said.push((slot.metadata, slot.verdict, slot.key.clone()));
        }
    }
    said
}

#[test]
fn a_note_of_a_connection_is_the_shorter_way_to_it_and_a_wrong_one_harms_nothing() {
    let settings = json!({ "connections": 1000 });
    let (mut plain, mut noting) = (service(&settings), service(&settings));
    // Two directions of 40 connections, TCP and UDP; the last flows share a megaflow.
    let flows: Vec<Vec<u8>> = (0..40_u16)
        .flat_map(|number| {
            let (client, server) = (v4(1 + (number % 9) as u8, 4000 + number), v4(20, 53));
            let ack = |seq, ack| Tcp { flags: ACK, seq, ack, window: 500, ..Tcp::default() };
            match number % 2 {
                0 => [udp(client, server, 5), udp(server, client, 5)],
                _ => [tcp(client, server, ack(7, 9)), tcp(server, client, ack(9, 7))],
            }
        })
        .collect();
    let megaflow = |flow: usize| flow.min(70);
    let mut notes = vec![Memo::BLANK; 71];
    let mut state = 5_u32;
    for round in 0..60 {
        let frames: Vec<(usize, Vec<u8>)> = (0..100)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let flow = (state >> 8) as usize % flows.len();
                (megaflow(flow), flows[flow].clone())
            })
            .collect();
        let without = with_notes(&mut *plain, &frames, &mut vec![Memo::NOWHERE; 71]);
        assert_eq!(with_notes(&mut *noting, &frames, &mut notes), without, "round {round}");
        if round == 40 {
            assert!(notes[..70].iter().all(|note| note.number().is_some()), "each has its connection");
            assert_eq!(notes[70], Memo::NOWHERE, "what several flows share is given up");
            // Others' connections, and places where none ever was.
            for (at, note) in notes.iter_mut().enumerate().take(20) {
                *note = Memo::of([at as u32 + 1, 999, 1_000_000, u32::MAX - 2][at % 4]);
            }
        }
    }
    assert_eq!(noting.counters(), plain.counters());
    for service in [&mut plain, &mut noting] {
        service.command("flush", &json!({})).unwrap();
    }
    let frames: Vec<(usize, Vec<u8>)> =
        flows.iter().enumerate().map(|(flow, frame)| (megaflow(flow), frame.clone())).collect();
    let without = with_notes(&mut *plain, &frames, &mut vec![Memo::NOWHERE; 71]);
    assert_eq!(with_notes(&mut *noting, &frames, &mut notes), without, "connections that have gone");
}
