//! What must hold for every registered service, whatever it does. A new service is tested by these
//! without a line of its own; one that needs other settings than the defaults to show all it does adds
//! them to [`variants`].

mod common;

use common::{Draw, Packets, group, packet, refused, seconds};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_cpu::{CountingAllocator, Heap};
use weir_flow::{Field, Key};
use weir_packet::DropReason;
use weir_services::{Burst, Group, Host, Limits, SERVICES, Service, Verdict};
use weir_units::Nanos;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Settings under which each kind is tested.
fn variants(kind: &str) -> Vec<Value> {
    let backends = json!([{"name": "a"}, {"name": "b", "weight": 3}, {"name": "c", "state": "draining"}]);
    match kind {
        "memory" => {
            vec![json!({"block": 1 << 20, "reads": 5}), json!({"block": 64, "reads": 100, "coalesce": false})]
        }
        "balancer" => vec![
            json!({}),
            json!({"connections": 16, "idle_seconds": 2}),
            json!({"mode": "consistent", "backends": backends, "connections": 64}),
            json!({"mode": "consistent"}),
        ],
        "transcoder" => {
            let key = "000102030405060708090a0b0c0d0e0f";
            vec![json!({"key": key}), json!({"key": key, "mode": "decrypt"})]
        }
        "counter" => vec![json!({}), json!({"arguments": 2})],
        _ => vec![json!({})],
    }
}

/// Every kind under each of its settings.
fn each(mut test: impl FnMut(&str, &dyn Fn() -> Arc<dyn Group>)) {
    for registration in SERVICES {
        for settings in variants(registration.kind) {
            let name = format!("{} {settings}", registration.kind);
            test(&name, &|| group(registration.kind, settings.clone(), 2));
        }
    }
}

/// A burst of packets of few and of many connections, of all lengths, some damaged.
fn burst(draw: &mut Draw) -> Packets {
    let length = 1 + draw.below(40) as usize;
    let frames: Vec<Vec<u8>> = (0..length).map(|_| frame(draw)).collect();
    let arguments: Vec<u32> = frames.iter().map(|_| draw.below(5) as u32).collect();
    Packets::new(frames).with_arguments(|at| arguments[at])
}

fn frame(draw: &mut Draw) -> Vec<u8> {
    let connections = if draw.below(2) == 0 { 10 } else { 1 << 20 };
    let payload: Vec<u8> = (0..draw.below(300)).map(|_| draw.next() as u8).collect();
    let mut frame = packet(draw.below(connections), &payload);
    if draw.below(8) == 0 {
        for _ in 0..4 {
            let at = draw.below(frame.len() as u64) as usize;
            frame[at] = draw.next() as u8;
        }
        frame.truncate(draw.below(frame.len() as u64 + 1) as usize);
    }
    frame
}

/// Bursts with the times at which they come.
fn bursts(seed: u64, count: u64) -> Vec<(Packets, Nanos)> {
    let mut draw = Draw::new(seed);
    (0..count).map(|number| (burst(&mut draw), Nanos(number * Nanos::PER_SECOND / 3))).collect()
}

#[test]
fn names_are_distinct_and_every_kind_says_what_it_does() {
    for (at, registration) in SERVICES.iter().enumerate() {
        let kind = registration.kind;
        assert!(!registration.about.is_empty(), "{kind}");
        assert!(SERVICES[..at].iter().all(|other| other.kind != kind), "{kind} is registered twice");
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        assert!(kind.chars().all(word), "flows call it by `{kind}`");
    }
}

#[test]
fn schemas_are_valid_and_accept_what_is_tested_and_their_own_defaults() {
    for registration in SERVICES {
        let (kind, schema) = (registration.kind, (registration.schema)());
        assert!(jsonschema::meta::is_valid(&schema), "{kind}: {schema}");
        let validator = jsonschema::draft202012::new(&schema).expect("a schema that compiles");
        let mut defaults = serde_json::Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let described = property["description"].is_string() || property["$ref"].is_string();
            assert!(described, "{kind}: `{name}` is not described");
            if let Some(default) = property.get("default") {
                defaults.insert(name.clone(), default.clone());
            }
        }
        for settings in variants(kind).into_iter().chain([json!({}), Value::Object(defaults.clone())]) {
            let faults: Vec<_> = validator.iter_errors(&settings).map(|fault| fault.to_string()).collect();
            assert!(faults.is_empty(), "{kind} {settings}: {faults:?}");
        }
        assert!(!validator.is_valid(&json!({"no_such_setting": 1})), "{kind}");
    }
}

#[test]
fn settings_that_are_unknown_or_no_table_are_refused_by_name() {
    for registration in SERVICES {
        let text = refused(registration.kind, json!({"no_such_setting": 1}));
        assert!(text.contains("`mine`") && text.contains("`no_such_setting`"), "{text}");
        let text = refused(registration.kind, json!([1]));
        assert!(text.contains("table of names and values"), "{text}");
    }
}

#[test]
fn an_empty_burst_is_nothing() {
    each(|name, build| {
        let mut service = build().instance(0);
        let before = service.counters();
        service.process(&mut Burst::new(&mut [], Nanos(0)));
        service.tick(Nanos(0));
        assert_eq!(service.counters(), before, "{name}");
    });
}

#[test]
fn every_packet_gets_a_verdict_and_keeps_its_length() {
    each(|name, build| {
        let mut host = Host::new(build(), 0, Limits::default());
        let (mut packets, mut dropped, mut coalesced) = (0, 0, 0);
        for (mut burst, now) in bursts(1, 60) {
            let lengths: Vec<usize> = burst.frames.iter().map(Vec::len).collect();
            burst.through(|slots| host.process(slots, now));
            assert!(burst.frames.iter().map(Vec::len).eq(lengths), "{name}");
            let passed = |verdict| verdict == Verdict::Pass;
            packets += burst.said.len() as u64;
            dropped += burst.said.iter().filter(|said| !passed(said.2)).count() as u64;
            coalesced += burst.said.iter().filter(|said| said.1 && passed(said.2)).count() as u64;
        }
        let report = host.report();
        assert_eq!(
            (report.packets, report.dropped, report.coalesced),
            (packets, dropped, coalesced),
            "{name}"
        );
        assert_eq!((report.panics, report.last_panic), (0, None), "{name}");
        let kind = name.split(' ').next().expect("a kind");
        let may = SERVICES.iter().any(|registration| registration.kind == kind && registration.coalesces);
        assert!(may || coalesced == 0, "{name} coalesces without having declared it");
    });
}

#[test]
fn the_same_seed_and_packets_give_the_same_verdicts_bytes_and_counters() {
    each(|name, build| {
        let run = || {
            let mut service = build().instance(0);
            let mut after = Vec::new();
            for (mut burst, now) in bursts(2, 60) {
                burst.process(service.as_mut(), now);
                service.tick(now);
                after.push(burst);
            }
            (after, service.counters())
        };
        assert!(run() == run(), "{name}");
    });
}

#[test]
fn nothing_is_allocated_for_packets_or_ticks_once_warm() {
    assert!(Heap::is_counted());
    each(|name, build| {
        let mut host = Host::new(build(), 0, Limits::default());
        for (mut burst, now) in bursts(3, 20) {
            burst.through(|slots| host.process(slots, now));
        }
        for (mut burst, now) in bursts(4, 60) {
            let now = Nanos(now.0 + 20 * Nanos::PER_SECOND);
            let mut calls = None;
            burst.through(|slots| {
                let before = Heap::now();
                host.process(slots, now);
                host.tick(now);
                calls = Some(Heap::now().calls - before.calls);
            });
            assert_eq!(calls, Some(0), "{name}");
        }
        assert_eq!(host.report().panics, 0, "{name}");
    });
}

#[test]
fn only_fields_that_are_declared_are_rewritten_and_the_key_follows_the_packet() {
    for registration in SERVICES {
        for settings in variants(registration.kind) {
            let name = format!("{} {settings}", registration.kind);
            let mut service = group(registration.kind, settings, 2).instance(0);
            for (mut burst, now) in bursts(5, 60) {
                let before = burst.keys.clone();
                burst.process(service.as_mut(), now);
                for (at, frame) in burst.frames.iter().enumerate() {
                    let mut after = Key::new();
                    common::extract(frame, 1, &mut after);
                    for &field in Field::ALL {
                        let declared = registration.rewrites.contains(&field);
                        let unchanged = field.get(&before[at]) == field.get(&after);
                        assert!(declared || unchanged, "{name} rewrites {}", field.name());
                        let told = field.get(&burst.keys[at]) == field.get(&after);
                        assert!(declared || told, "{name} changes {} only in the key", field.name());
                    }
                }
            }
        }
    }
}

/// A service around another that panics after every third burst is dealt with.
struct Rough {
    inner: Arc<dyn Group>,
    calls: Arc<AtomicU64>,
}

struct RoughInstance {
    inner: Box<dyn Service>,
    calls: Arc<AtomicU64>,
}

impl Group for Rough {
    fn instance(&self, worker: usize) -> Box<dyn Service> {
        Box::new(RoughInstance { inner: self.inner.instance(worker), calls: Arc::clone(&self.calls) })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Service for RoughInstance {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        self.inner.process(burst);
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(!call.is_multiple_of(3), "call {call}");
    }
}

#[test]
fn a_panic_around_any_service_loses_packets_with_a_reason_and_the_next_instance_goes_on() {
    each(|name, build| {
        let group = Arc::new(Rough { inner: build(), calls: Arc::default() });
        let limits = Limits { panics: 0, ..Limits::default() };
        let mut host = Host::new(group, 0, limits);
        let mut lost = 0;
        for (number, (mut burst, now)) in (1..).zip(bursts(6, 30)) {
            burst.through(|slots| host.process(slots, now));
            let dropped = burst.dropped(DropReason::ServicePanic);
            assert_eq!(number % 3 == 0, !dropped.is_empty(), "{name}, burst {number}");
            assert!(dropped.iter().all(|&at| !burst.said[at].1), "{name}: lost and coalesced");
            lost += dropped.len() as u64;
        }
        let report = host.report();
        assert_eq!((report.panics, report.builds, report.quarantine), (10, 11, None), "{name}");
        assert!(report.dropped >= lost, "{name}");
        let said = report.last_panic.unwrap_or_default();
        assert!(said.starts_with("call 30, at ") && said.contains("registry.rs"), "{name}: {said}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_frames_never_panic(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..70),
        damage in proptest::collection::vec((any::<u64>(), 0..120_usize, any::<u8>(), 0..120_usize), 0..70),
        argument in any::<u32>(),
    ) {
        let damaged = damage.into_iter().map(|(number, at, byte, length)| {
            let mut frame = packet(number, b"some payload that is longer than one block of a cipher");
            let at = at.min(frame.len() - 1);
            frame[at] = byte;
            frame.truncate(frame.len() - length.min(frame.len()));
            frame
        });
        let frames: Vec<Vec<u8>> = frames.into_iter().chain(damaged).collect();
        each(|_, build| {
            let mut service = build().instance(0);
            let mut burst = Packets::new(frames.iter().cloned()).with_arguments(|at| argument >> (at % 32));
            burst.process(service.as_mut(), seconds(1));
            service.tick(seconds(2));
        });
    }
}
