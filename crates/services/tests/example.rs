//! The service that `SERVICES.md` walks through: it compiles, does what the text says, and the text
//! shows it as it is.

#[path = "example/policer.rs"]
mod policer;

use crate::common::{Packets, extract, packet, seconds};
use policer::POLICER;
use serde_json::{Value, json};
use std::sync::Arc;
use weir_flow::{Field, Key};
use weir_packet::DropReason;
use weir_services::{Group, GroupConfig, Host, Limits, SERVICES};
use weir_units::Nanos;
use weir_wire::Ipv4View;

fn build(settings: &Value) -> Result<Arc<dyn Group>, String> {
    let config = GroupConfig { name: "slow", settings, workers: 1, seed: 1 };
    (POLICER.build)(&config).map_err(|error| error.to_string())
}

fn policed(settings: Value) -> Host {
    Host::named("slow", build(&settings).expect("right settings"), 0, Limits::default())
}

/// Ten packets of 100 bytes: IPv4 and IPv6 in turns.
fn ten() -> Packets {
    Packets::new((0..10).map(|number| {
        let mut frame = packet(number, &[0; 40]);
        frame.resize(100, 0);
        frame
    }))
}

#[test]
fn services_md_shows_the_example_as_it_is_compiled_and_every_service() {
    let text = include_str!("../../../SERVICES.md");
    assert!(text.contains(include_str!("example/policer.rs").trim_end()), "SERVICES.md is not up to date");
    for registration in SERVICES {
        assert!(
            text.contains(&format!("| `{}` |", registration.kind)),
            "{} is not listed",
            registration.kind
        );
    }
}

#[test]
fn what_goes_over_the_rate_is_dropped_and_credit_is_earned_with_time() {
    let mut host = policed(json!({"rate": 1000, "burst": 500}));
    let passed = |host: &mut Host, now: Nanos| {
        let mut packets = ten();
        packets.through(|slots| host.process(slots, now));
        10 - packets.dropped(DropReason::ByService).len()
    };
    assert_eq!(passed(&mut host, seconds(0)), 5);
    assert_eq!(passed(&mut host, seconds(0)), 0);
    // A hundred milliseconds in a hundred steps earn the price of one packet.
    let steps = (1..=100).map(|step| passed(&mut host, Nanos(step * 1_000_000))).sum::<usize>();
    assert_eq!(steps, 1);
    assert_eq!(passed(&mut host, seconds(60)), 5, "not more than the burst");
    let report = host.report();
    assert_eq!(report.coalesced, 11);
    assert_eq!(report.counters, [("over".to_owned(), report.packets - 11)]);
}

#[test]
fn marked_packets_are_right_in_the_frame_and_in_the_key() {
    let mut host = policed(json!({"rate": 0, "burst": 0, "mark": 8}));
    let mut packets = ten();
    packets.through(|slots| host.process(slots, seconds(0)));
    // Odd ones are IPv6.
    assert_eq!(packets.dropped(DropReason::ByService), [1, 3, 5, 7, 9]);
    for at in [0, 2, 4, 6, 8] {
        let mut key = Key::new();
        extract(&packets.frames[at], 1, &mut key);
        assert_eq!((&key, Field::NwTos.get(&key)), (&packets.keys[at], 8));
        assert!(Ipv4View::checked(&packets.frames[at][14..]).expect("a header").checksum_is_right());
        assert!(!packets.said[at].1, "it is classified again");
    }
}

#[test]
fn its_schema_and_its_errors_are_as_every_services() {
    let schema = (POLICER.schema)();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::draft202012::new(&schema).expect("a schema that compiles");
    assert!(validator.is_valid(&json!({"rate": 5})) && !validator.is_valid(&json!({"speed": 5})));
    let error = |settings| build(&settings).err().expect("an error");
    assert_eq!(error(json!({"mark": 64})), "service `slow`: `mark` must be a DSCP, 0 to 63, not 64");
    assert!(error(json!({"speed": 5})).contains("`speed`"));
}
