//! `balancer`: who goes where, and who stays.

use crate::common::{Draw, Packets, group, packet, refused, seconds};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_packet::DropReason;
use weir_services::{Group, Host, Limits, Service, Verdict};
use weir_units::Nanos;

/// One packet of each of the connections.
fn of_each(connections: std::ops::Range<u64>) -> Packets {
    Packets::new(connections.map(|number| packet(number, b"hello")))
}

fn shares(metadata: &[u32]) -> BTreeMap<u32, usize> {
    let mut shares = BTreeMap::new();
    for home in metadata {
        *shares.entry(*home).or_default() += 1;
    }
    shares
}

fn homes(service: &mut dyn Service, connections: std::ops::Range<u64>, now: Nanos) -> Vec<u32> {
    let mut packets = of_each(connections);
    packets.process(service, now);
    packets.metadata()
}

fn counter(service: &dyn Service, name: &str) -> u64 {
    let counters = service.counters();
    counters.iter().find(|counter| counter.0 == name).expect("a counter of this name").1
}

/// The paper's balancer, as a plain model: the first bucket of those with the fewest bytes.
#[test]
fn a_new_connection_goes_to_the_bucket_with_the_fewest_bytes_and_stays_there() {
    let mut service = group("balancer", json!({}), 1).instance(0);
    let (mut bytes, mut homes) = ([0_u64; 8], BTreeMap::new());
    let mut draw = Draw::new(1);
    for round in 0..200 {
        let numbers: Vec<u64> = (0..1 + draw.below(40)).map(|_| draw.below(500)).collect();
        let payloads: Vec<Vec<u8>> = numbers.iter().map(|_| vec![7; draw.below(1400) as usize]).collect();
        let frames = numbers.iter().zip(&payloads).map(|(&number, payload)| packet(number, payload));
        let mut packets = Packets::new(frames);
        packets.process(service.as_mut(), Nanos(round * 1_000_000));
        for (at, number) in numbers.iter().enumerate() {
            let least = (0..8).min_by_key(|&bucket| bytes[bucket]).expect("eight buckets");
            let home = *homes.entry(*number).or_insert(least);
            bytes[home] += packets.frames[at].len() as u64;
            assert_eq!(packets.said[at], (home as u32, false, Verdict::Pass), "round {round}, packet {at}");
        }
    }
    let dump = service.command("dump", &Value::Null).expect("a dump");
    for (bucket, row) in dump["buckets"].as_array().expect("rows").iter().enumerate() {
        let connections = homes.values().filter(|&&home| home == bucket).count();
        assert_eq!(*row, json!({"bucket": bucket, "bytes": bytes[bucket], "connections": connections}));
    }
    assert_eq!(counter(service.as_ref(), "connections"), homes.len() as u64);
}

#[test]
fn workers_see_each_others_bytes() {
    let group = group("balancer", json!({"buckets": 2}), 2);
    let (mut one, mut two) = (group.instance(0), group.instance(1));
    let mut large = Packets::new([packet(1, &[0; 1400])]);
    large.process(one.as_mut(), seconds(0));
    assert_eq!(large.metadata(), [0]);
    // Bucket 0 is loaded by the other worker: small ones go to bucket 1 until it has as much.
    assert_eq!(homes(two.as_mut(), 100..110, seconds(0)), [1; 10]);
    let mut larger = Packets::new([packet(200, &[0; 1400])]);
    larger.process(two.as_mut(), seconds(0));
    assert_eq!(homes(one.as_mut(), 300..303, seconds(0)), [0; 3]);
}

#[test]
fn both_directions_of_a_connection_meet_in_one_bucket() {
    let mut service = group("balancer", json!({}), 1).instance(0);
    for v6 in [false, true] {
        let (client, server) =
            if v6 { ("[2001:db8::1]:999", "[2001:db8::2]:80") } else { ("198.18.0.1:999", "198.18.0.2:80") };
        let (client, server) = (client.parse().expect("an address"), server.parse().expect("an address"));
        homes(service.as_mut(), 0..5, seconds(0));
        let known = counter(service.as_ref(), "new");
        let mut packets = Packets::new([
            crate::common::tcp_packet(client, server, 2, b""),
            crate::common::udp_packet(client, server, b""),
            crate::common::tcp_packet(server, client, 0x12, b""),
            crate::common::udp_packet(server, client, b""),
        ]);
        let said = packets.process(service.as_mut(), seconds(0));
        assert_eq!((said[0].0, said[1].0), (said[2].0, said[3].0));
        assert_eq!(counter(service.as_ref(), "new"), known + 2, "one for TCP, one for UDP");
    }
}

#[test]
fn a_connection_that_idled_is_forgotten_and_one_that_lives_is_not() {
    let mut service = group("balancer", json!({"idle_seconds": 10}), 1).instance(0);
    homes(service.as_mut(), 0..100, seconds(0));
    for second in 1..30 {
        homes(service.as_mut(), 0..40, seconds(second));
        (0..300).for_each(|_| service.tick(seconds(second)));
    }
    assert_eq!((counter(service.as_ref(), "connections"), counter(service.as_ref(), "expired")), (40, 60));
    assert_eq!(counter(service.as_ref(), "new"), 100);
    let forgotten = service.command("flush", &Value::Null).expect("an answer");
    assert_eq!((forgotten, counter(service.as_ref(), "connections")), (json!({"forgotten": 40}), 0));
}

#[test]
fn connections_beyond_the_room_are_placed_steadily_and_push_nobody_out() {
    let mut service = group("balancer", json!({"connections": 100}), 1).instance(0);
    let first = homes(service.as_mut(), 0..100, seconds(0));
    let remembered = counter(service.as_ref(), "connections");
    assert!((90..=100).contains(&remembered), "{remembered} of 100");
    let beyond = homes(service.as_mut(), 1000..3000, seconds(1));
    assert!(counter(service.as_ref(), "connections") <= 100);
    assert!(shares(&beyond).len() == 8 && shares(&beyond).values().all(|&share| share > 150));
    assert!(counter(service.as_ref(), "untracked_packets") >= 1900);
    assert_eq!(homes(service.as_mut(), 0..100, seconds(2)), first);
    assert_eq!(homes(service.as_mut(), 1000..3000, seconds(2)), beyond);
}

fn backends(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

fn consistent(names: &[&str]) -> std::sync::Arc<dyn Group> {
    group("balancer", json!({"mode": "consistent", "backends": backends(names), "table": 4099}), 2)
}

fn set(group: &dyn Group, list: &Value) -> Result<Value, String> {
    group.command("set-backends", list).expect("a command of the group")
}

#[test]
fn shares_follow_the_weights() {
    let settings = json!({"mode": "consistent", "backends": [{"name": "a"}, {"name": "b", "weight": 3}]});
    let mut service = group("balancer", settings, 1).instance(0);
    let shares = shares(&homes(service.as_mut(), 0..20_000, seconds(0)));
    let ratio = shares[&1] as f64 / shares[&0] as f64;
    assert!(shares.len() == 2 && (2.8..3.2).contains(&ratio), "{shares:?}");
}

#[test]
fn when_a_backend_goes_only_its_connections_move() {
    let group = consistent(&["a", "b", "c", "d", "e"]);
    let mut service = group.instance(0);
    let before = homes(service.as_mut(), 0..5000, seconds(0));
    set(group.as_ref(), &backends(&["a", "b", "d", "e"])).expect("right backends");
    let after = homes(service.as_mut(), 0..5000, seconds(1));
    for (was, is) in before.iter().zip(&after) {
        assert!(*is != 2 && (was == is || *was == 2), "{was} to {is}");
    }
    assert_eq!(shares(&after).len(), 4);
    assert_eq!(counter(service.as_ref(), "moved"), shares(&before)[&2] as u64);
}

#[test]
fn when_backends_come_nobody_moves_and_new_connections_use_them_under_their_own_numbers() {
    let group = consistent(&["a", "b"]);
    let mut service = group.instance(0);
    let before = homes(service.as_mut(), 0..2000, seconds(0));
    // `b` goes and comes back: it is number 1 again; `c` is a number that nobody had.
    set(group.as_ref(), &backends(&["a"])).expect("right backends");
    let list = set(group.as_ref(), &backends(&["c", "b", "a"])).expect("right backends");
    let numbers: Vec<&Value> =
        list["backends"].as_array().expect("a list").iter().map(|backend| &backend["metadata"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1), &json!(0)]);
    assert_eq!(homes(service.as_mut(), 0..2000, seconds(1)), before);
    let new = shares(&homes(service.as_mut(), 10_000..12_000, seconds(1)));
    assert!(new.len() == 3 && new.values().all(|&share| share > 500), "{new:?}");
}

#[test]
fn a_draining_backend_keeps_its_connections_and_a_disabled_one_does_not() {
    let group = consistent(&["a", "b", "c"]);
    let mut service = group.instance(1);
    let before = homes(service.as_mut(), 0..1000, seconds(0));
    let states = |state: &str| json!([{"name": "a"}, {"name": "b", "state": state}, {"name": "c"}]);
    set(group.as_ref(), &states("draining")).expect("right backends");
    assert_eq!(homes(service.as_mut(), 0..1000, seconds(1)), before);
    assert!(!homes(service.as_mut(), 5000..6000, seconds(1)).contains(&1));
    set(group.as_ref(), &states("down")).expect("right backends");
    let after = homes(service.as_mut(), 0..1000, seconds(2));
    assert!(before.iter().zip(&after).all(|(was, is)| *is != 1 && (was == is || *was == 1)));
    set(group.as_ref(), &states("up")).expect("right backends");
    assert_eq!(homes(service.as_mut(), 0..1000, seconds(3)), after, "who moved stays");
    assert!(homes(service.as_mut(), 7000..8000, seconds(3)).contains(&1));
}

#[test]
fn without_backends_packets_are_dropped_with_their_reason() {
    let group = consistent(&[]);
    let mut service = group.instance(0);
    let mut packets = of_each(0..10);
    packets.process(service.as_mut(), seconds(0));
    assert_eq!(packets.dropped(DropReason::ByService).len(), 10);
    assert_eq!(counter(service.as_ref(), "without_backend"), 10);
    set(group.as_ref(), &backends(&["a"])).expect("right backends");
    assert_eq!(homes(service.as_mut(), 0..10, seconds(0)), [0; 10]);
}

#[test]
fn an_instance_built_anew_finds_the_same_backends() {
    let group = consistent(&["a", "b", "c"]);
    let mut first = group.instance(0);
    let before = homes(first.as_mut(), 0..500, seconds(0));
    assert_eq!(homes(group.instance(0).as_mut(), 0..500, seconds(0)), before);
}

#[test]
fn backends_are_set_through_a_host_as_well() {
    let mut host = Host::new(consistent(&["a"]), 0, Limits::default());
    let list = host.command("set-backends", &backends(&["a", "b"])).expect("right backends");
    assert_eq!(Ok(list), host.command("backends", &Value::Null));
    let mut packets = of_each(0..100);
    packets.through(|slots| host.process(slots, seconds(0)));
    assert_eq!(shares(&packets.metadata()).len(), 2);
    let dump = host.command("dump", &Value::Null).expect("a dump");
    let connections: u64 = dump["backends"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|backend| backend["connections"].as_u64().expect("a number"))
        .sum();
    assert_eq!(connections, 100);
}

#[test]
fn what_is_wrong_is_named_with_how_to_mend_it() {
    let consistent = |more: Value| {
        let mut settings = json!({"mode": "consistent"});
        settings.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        refused("balancer", settings)
    };
    for (text, wanted) in [
        (refused("balancer", json!({"buckets": 0})), "`buckets` must be 1 to 4096, not 0"),
        (refused("balancer", json!({"mode": "fair"})), "`least-loaded`"),
        (refused("balancer", json!({"backends": [{"name": "a"}]})), "mode \"consistent\""),
        (consistent(json!({"table": 65_536})), "the next one is 65537"),
        (consistent(json!({"table": 101, "backends": backends(&["a", "b"])})), "at least 200 slots"),
        (consistent(json!({"backends": backends(&["a", "a"])})), "two backends are named `a`"),
        (consistent(json!({"backends": [{"name": "a", "weight": 0}]})), "`weight` must be 1 to 1000, not 0"),
        (consistent(json!({"backends": [{"name": ""}]})), "no name"),
        (consistent(json!({"backends": [{"name": "a", "wait": 1}]})), "`wait`"),
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    let group = self::consistent(&["a"]);
    let text = set(group.as_ref(), &json!("a")).unwrap_err();
    assert!(text.contains("it wants a list as [{\"name\""), "{text}");
    assert!(set(group.as_ref(), &backends(&["b", "b"])).is_err());
    assert_eq!(homes(group.instance(0).as_mut(), 0..3, seconds(0)), [0; 3], "nothing changed");
    let least = crate::common::group("balancer", json!({}), 1);
    let text = set(least.as_ref(), &json!([])).unwrap_err();
    assert!(text.contains("least-loaded"), "{text}");
}
