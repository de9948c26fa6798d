//! Services: their settings, and packets through each of them.

use super::{seeds, text};
use crate::{Budget, Input, Outcome, Target, refused};
use serde_json::{Value, json};
use std::time::Duration;
use weir_flow::{Key, extract};
use weir_services::{Burst, GroupConfig, Memo, SERVICES, Slot, Verdict, registered};
use weir_units::Nanos;

pub(super) const SETTINGS: Target = Target {
    name: "service-settings",
    about: "settings of each kind of service, as JSON: taken or refused with a sentence, and little is built of them",
    // A balancer's table is as large as its settings say, within bounds of its own.
    budget: Budget::of(64 << 20, 512, 300_000, 64).within(Duration::from_secs(2), Duration::from_micros(50)),
    longest: 1024,
    words: &[
        "null",
        "true",
        "-1",
        "1e9",
        "4294967296",
        "[]",
        "{}",
        "\"\"",
        "\"connections\":",
        "\"timeouts\":",
        "\"backends\":",
        "\"table\":",
    ],
    seeds: || {
        let mut all = seeds(&[
            r#"{"connections": 4096, "fragments": 512, "checksums": "all", "timeouts": {"udp_single": 30}, "zones": {"7": 100}}"#,
            r#"{"mode": "consistent", "table": 1009, "backends": [{"name": "a"}, {"name": "b"}]}"#,
            r#"{"key": "000102030405060708090a0b0c0d0e0f"}"#,
            r#"{"block": 4096, "reads": 2}"#,
            r#"{"arguments": 16}"#,
            "{}",
        ]);
        let count = SERVICES.len() as u8 - 1;
        all = all.iter().flat_map(|text| (0..count).map(move |kind| [&[kind][..], text].concat())).collect();
        all
    },
    run: settings,
    workers: false,
};

fn settings(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    // What `memory` takes is what its settings say: that is what it is for.
    let kinds: Vec<_> = SERVICES.iter().filter(|service| service.kind != "memory").collect();
    let service = input.pick(&kinds);
    let rest = input.rest();
    let settings: Value = match serde_json::from_str(&text(rest)) {
        Ok(settings) => settings,
        Err(_) => return Outcome::of(0),
    };
    let config = GroupConfig { name: "mine", settings: &settings, workers: 2, seed: 7 };
    match (service.build)(&config) {
        Ok(_) => Outcome::of((
            service.kind,
            settings.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>()),
        )),
        Err(error) => refused(&error.to_string(), rest),
    }
}

pub(super) const BURST: Target = Target {
    name: "service-burst",
    about: "a burst of any frames through a service of each kind: every packet is judged, and its bytes stay its own",
    // The greatest is the tracker, whose tables stand ready.
    budget: Budget::of(64 << 20, 64, 60_000, 4).within(Duration::from_millis(500), Duration::from_micros(50)),
    longest: 4096,
    words: &[],
    seeds: || {
        let frames = super::packets::frames();
        let parts = |choice: u8| Input::of_parts(frames.iter().map(|frame| (choice, frame.as_slice())));
        (0..KINDS.len() as u8)
            .flat_map(|kind| [1_u8, 2].map(|choice| [&[kind][..], &parts(choice)].concat()))
            .collect()
    },
    run: burst,
    workers: false,
};

const KINDS: [&str; 6] = ["noop", "counter", "transcoder", "balancer", "memory", "conntrack"];

fn settings_of(kind: &str) -> Value {
    match kind {
        "transcoder" => json!({"key": "000102030405060708090a0b0c0d0e0f"}),
        "balancer" => {
            json!({"mode": "consistent", "table": 1009, "backends": [{"name": "a"}, {"name": "b"}]})
        }
        "memory" => json!({"block": 4096, "reads": 2}),
        "counter" => json!({"arguments": 4}),
        "conntrack" => json!({"connections": 64, "fragments": 16, "checksums": "all"}),
        _ => json!({}),
    }
}

/// Packets of a burst, at most.
const PACKETS: usize = 64;

fn burst(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let kind = input.pick(&KINDS);
    let settings = settings_of(kind);
    let config = GroupConfig { name: kind, settings: &settings, workers: 1, seed: 7 };
    let group = (registered(kind).expect("a registered kind").build)(&config).expect("right settings");
    let mut service = group.instance(0);
    let mut packets = Vec::new();
    while !input.is_over() && packets.len() < PACKETS {
        let argument = u32::from(input.byte());
        let frame = input.part().to_vec();
        let mut key = Key::new();
        let layout = extract(&frame, 1, &mut key);
        packets.push((frame, key, layout, argument));
    }
    let lengths: Vec<usize> = packets.iter().map(|packet| packet.0.len()).collect();
    let mut slots: Vec<Slot<'_>> = packets
        .iter_mut()
        .map(|(frame, key, layout, argument)| Slot {
            frame,
            layout: *layout,
            key,
            argument: *argument,
            arguments: &[],
            tracking: None,
            metadata: 0,
            memo: Memo::NOWHERE,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        })
        .collect();
    let mut taken = Burst::new(&mut slots, Nanos(1_000_000_000));
    service.process(&mut taken);
    assert_eq!(taken.taken(), lengths.len(), "{kind} leaves packets that it did not look at");
    service.tick(Nanos(2_000_000_000));
    let said: Vec<(bool, u32)> =
        slots.iter().map(|slot| (slot.verdict == Verdict::Pass, slot.metadata.min(2))).collect();
    drop(slots);
    for ((frame, ..), length) in packets.iter().zip(lengths) {
        assert!(frame.len() <= length + 64, "{kind} makes {} bytes of {length}", frame.len());
    }
    Outcome::of((kind, said))
}
