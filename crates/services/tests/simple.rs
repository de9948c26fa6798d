//! `noop`, `counter` and `memory`.

use crate::common::{Packets, group, packet, refused, seconds};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_services::Verdict;

#[test]
fn a_noop_coalesces_whatever_it_is_told() {
    let mut service = group("noop", Value::Null, 1).instance(0);
    let mut packets =
        Packets::new((0..40).map(|number| packet(number, b""))).with_arguments(|at| at as u32 * 1000);
    let before = packets.frames.clone();
    let said = packets.process(service.as_mut(), seconds(0));
    assert!(said.iter().all(|said| *said == (0, true, Verdict::Pass)));
    assert_eq!(packets.frames, before);
}

/// Packets and bytes by argument, counted with a map.
fn expected(packets: &Packets) -> BTreeMap<u32, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for (argument, frame) in packets.arguments.iter().zip(&packets.frames) {
        let count: &mut (u64, u64) = counts.entry(*argument).or_default();
        count.0 += 1;
        count.1 += frame.len() as u64;
    }
    counts
}

#[test]
fn counts_by_argument_are_exact_and_a_clear_starts_anew() {
    let mut service = group("counter", json!({"arguments": 100}), 1).instance(0);
    let mut packets =
        Packets::new((0..5000_u64).map(|number| packet(number, &vec![0; number as usize % 777])))
            .with_arguments(|at| (at as u32 % 100).wrapping_mul(0x0101_0101));
    packets.process(service.as_mut(), seconds(0));
    assert!(packets.said.iter().all(|said| *said == (0, true, Verdict::Pass)));
    let rows: Vec<Value> = expected(&packets)
        .into_iter()
        .map(|(argument, (packets, bytes))| json!({"argument": argument, "packets": packets, "bytes": bytes}))
        .collect();
    let whole = json!({"arguments": rows, "other": {"packets": 0, "bytes": 0}});
    assert_eq!(service.command("dump", &Value::Null), Ok(whole.clone()));
    assert_eq!(service.command("clear", &Value::Null), Ok(whole));
    assert_eq!(service.counters()[0], ("packets", 0));
    let error = service.command("reset", &Value::Null).unwrap_err();
    assert!(error.contains("`reset`") && error.contains("`clear`"), "{error}");
}

#[test]
fn arguments_beyond_the_room_are_counted_together_and_the_sum_stays_exact() {
    let mut service = group("counter", json!({"arguments": 3}), 1).instance(0);
    let mut packets =
        Packets::new((0..70_u64).map(|number| packet(number, &[1; 100]))).with_arguments(|at| at as u32 % 7);
    packets.process(service.as_mut(), seconds(0));
    let bytes: u64 = packets.frames.iter().map(|frame| frame.len() as u64).sum();
    let counters = service.counters();
    assert_eq!(counters, [("packets", 70), ("bytes", bytes), ("arguments", 3), ("other_packets", 40)]);
    let dump = service.command("dump", &Value::Null).expect("a dump");
    assert_eq!(dump["other"]["packets"], json!(40));
}

#[test]
fn a_counter_without_room_or_with_too_much_is_refused() {
    for arguments in [0, 1 << 21] {
        let text = refused("counter", json!({"arguments": arguments}));
        assert!(text.contains("`arguments` must be 1 to 1048576") && text.contains("mine"), "{text}");
    }
}

#[test]
fn memory_reads_as_often_as_the_argument_or_else_the_settings_say() {
    let group = group("memory", json!({"block": 1 << 16, "reads": 3, "coalesce": false}), 2);
    let mut service = group.instance(0);
    let mut packets =
        Packets::new((0..100).map(|number| packet(number, b""))).with_arguments(|at| at as u32 % 4);
    packets.process(service.as_mut(), seconds(0));
    assert!(packets.said.iter().all(|said| !said.1 && said.2 == Verdict::Pass));
    assert_eq!(service.counters(), [("reads", 25 * (3 + 1 + 2 + 3))]);
    // Each draws other places, another worker too.
    let mut values = packets.metadata();
    let mut other = packets.clone();
    other.process(group.instance(1).as_mut(), seconds(0));
    assert!(other.metadata() != values);
    values.sort_unstable();
    values.dedup();
    assert!(values.len() > 95, "{} different values", values.len());
}

#[test]
fn memory_reads_the_same_places_however_bursts_are_cut() {
    let group = group("memory", json!({"block": 1 << 16, "reads": 50}), 1);
    let (mut whole, mut parts) = (group.instance(0), group.instance(0));
    let mut packets = Packets::new((0..64).map(|number| packet(number, b"")));
    packets.process(whole.as_mut(), seconds(0));
    let mut values = Vec::new();
    for cut in [1, 2, 29, 32] {
        let mut part = Packets::new((0..cut).map(|number| packet(number, b"")));
        part.process(parts.as_mut(), seconds(0));
        values.extend(part.metadata());
    }
    assert_eq!(values, packets.metadata());
}

#[test]
fn a_flow_cannot_ask_for_reads_without_end() {
    let mut service = group("memory", json!({"block": 1 << 12}), 1).instance(0);
    let mut packets = Packets::new([packet(0, b"")]).with_arguments(|_| u32::MAX);
    packets.process(service.as_mut(), seconds(0));
    assert_eq!(service.counters(), [("reads", 4096)]);
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    assert!(refused("memory", json!({"block": 8})).contains("64 to"));
    assert!(refused("memory", json!({"block": 1_u64 << 40})).contains("make `block` smaller"));
    assert!(refused("memory", json!({"reads": 5000})).contains("at most 4096"));
}
