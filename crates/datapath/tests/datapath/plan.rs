//! Plans and changes of entries while packets flow: all of it or nothing, and nothing lost.

use crate::rig::{Rig, check_sum, config, service, udp};
use serde_json::json;
use std::time::Duration;
use weir_datapath::{Change, Event, Plan, PortSpec, Removal, ServiceConfig};
use weir_openflow::{Flow, FlowCommand, FlowMod, Names, PortNo, parse_flows};
use weir_testkit::asked;

fn null(name: &str, number: u32) -> PortSpec {
    let (name, number) = (name.to_owned(), Some(PortNo(number)));
    PortSpec { name, number, spec: "null".to_owned(), queues: 1, descriptors: 64 }
}

/// Packets flow from port 1 by way of the service `watch` to port 2.
fn rig() -> Rig {
    let mut rig = Rig::new(config(1));
    rig.datapath.add_service("watch", &ServiceConfig::of_kind("counter")).unwrap();
    rig.flows("sf_stage=0 actions=softflow:watch:1\nsf_stage=1,sf_action=watch actions=output:2");
    rig.port(2, "null");
    let frames: Vec<Vec<u8>> =
        (0..500).map(|at| udp(0xc612_0000 + at % 50, 0xc613_0001, (1000, 80))).collect();
    rig.source(1, &frames, ",loop,rate=200kpps");
    rig.wait(1000);
    rig
}

/// Changes as they are when these services have come.
fn changes(rig: &Rig, services: &[&str], text: &str) -> Vec<Change> {
    let mut names = rig.datapath.names().clone();
    services.iter().for_each(|name| drop(names.add_service(name).to_string()));
    parse_flows(text, &names).unwrap().into_iter().map(Change::Flow).collect()
}

/// Waits until some more packets came; every one that ever came was sent.
fn nothing_is_lost(rig: &mut Rig) {
    let before = rig.datapath.report().unwrap();
    let report = rig.wait(before.workers[0].received + 500);
    let worker = &report.workers[0];
    assert!(worker.dropped.is_empty() && worker.sent == worker.received, "{worker:?}");
}

/// What a failed plan must leave as it was.
fn state(rig: &mut Rig) -> (Vec<String>, Vec<String>, Vec<Flow>) {
    let report = rig.datapath.report().unwrap();
    let ports = report.ports.iter().map(|port| format!("{} {}", port.number, port.spec));
    let services = report.services.iter().map(|service| service.name.clone());
    let flows = rig.datapath.flows().unwrap().into_iter().map(|stats| stats.flow);
    (ports.collect(), services.collect(), flows.collect())
}

#[test]
fn a_plan_moves_traffic_to_other_services_and_ports_and_loses_no_packet() {
    let mut rig = rig();
    for round in 0..10 {
        let (old, new) = if round % 2 == 0 { ("watch", "other") } else { ("other", "watch") };
        let (from, to) = (2 + round % 2, 3 - round % 2);
        let flows = format!(
            "sf_stage=0 actions=softflow:{new}:1\ndelete sf_stage=1\n\
             sf_stage=1,sf_action={new} actions=output:{to}"
        );
        let plan = Plan {
            add_services: vec![(new.to_owned(), ServiceConfig::of_kind("counter"))],
            remove_services: vec![old.to_owned()],
            open_ports: vec![null(&format!("p{to}"), to)],
            close_ports: vec![PortNo(from)],
            changes: changes(&rig, &[new], &flows),
            ..Plan::default()
        };
        assert_eq!(rig.datapath.carry_out(&plan).unwrap(), [PortNo(to)]);
        nothing_is_lost(&mut rig);
        let (ports, services, _) = state(&mut rig);
        assert!(ports.iter().any(|port| port.starts_with(&to.to_string())) && ports.len() == 2, "{ports:?}");
        assert!(services.iter().any(|name| name == new) && services.iter().all(|name| name != old));
    }
    rig.end();
}

/// A plan with a step of every kind.
fn everything(rig: &Rig) -> Plan {
    let flows = "delete\nsf_stage=0 actions=softflow:other:1\nsf_stage=1 actions=output:4";
    Plan {
        add_services: vec![("other".to_owned(), service("counter", json!({})))],
        replace_services: vec![("watch".to_owned(), service("counter", json!({ "arguments": 9 })))],
        open_ports: vec![null("p4", 4), null("again", 3)],
        close_ports: vec![PortNo(3)],
        changes: changes(rig, &["other"], flows),
        ..Plan::default()
    }
}

#[test]
fn a_plan_that_fails_at_any_step_says_which_and_leaves_all_as_it_was() {
    let mut rig = rig();
    rig.port(3, "null");
    let before = state(&mut rig);
    let counted = |rig: &mut Rig| rig.datapath.flows().unwrap()[0].packets;
    let mut packets = counted(&mut rig);
    type Spoil = fn(&mut Plan, &Rig);
    let spoilt: [(Spoil, &str, &str); 6] = [
        (
            |plan, _| plan.replace_services[0].1 = service("counter", json!({ "arguments": 0 })),
            "building services anew",
            "arguments",
        ),
        (
            |plan, _| plan.replace_services[0].1 = service("noop", json!({})),
            "building services anew",
            "service `watch` is a `counter` and cannot become a `noop`",
        ),
        (
            |plan, _| plan.add_services.push(("watch".to_owned(), service("counter", json!({})))),
            "adding services",
            "`watch` exists",
        ),
        (
            |plan, _| {
                plan.open_ports.push(PortSpec { spec: "trace:absent.pcap".to_owned(), ..null("bad", 5) });
            },
            "opening ports",
            "absent.pcap",
        ),
        (
            |plan, rig| plan.changes.extend(changes(rig, &[], "table=9 actions=meter:77,output:1")),
            "changing tables",
            "no meter 77",
        ),
        (
            |plan, _| plan.remove_services = vec!["other".to_owned()],
            "removing services",
            "`other` is called by flows",
        ),
    ];
    for (spoil, step, why) in spoilt {
        let mut plan = everything(&rig);
        spoil(&mut plan, &rig);
        let error = rig.datapath.carry_out(&plan).unwrap_err().to_string();
        assert!(error.starts_with(step) && error.contains(why), "{error}");
        assert!(error.ends_with("all is as it was before"), "{error}");
        assert_eq!(state(&mut rig), before, "{step}");
        nothing_is_lost(&mut rig);
        let now = counted(&mut rig);
        assert!(now > packets, "{step}: counters go on from {packets}, not from {now}");
        packets = now;
        let report = rig.datapath.report().unwrap();
        let watch = report.services.iter().find(|service| service.name == "watch").unwrap();
        assert!(watch.instances[0].packets > packets / 2, "{step}: the instance is the old one");
    }
    assert!(rig.datapath.tick().unwrap().is_empty(), "what was taken back is not told");
    assert_eq!(rig.datapath.carry_out(&everything(&rig)).unwrap(), [PortNo(4), PortNo(3)]);
    let (ports, ..) = state(&mut rig);
    assert_eq!(ports.len(), 4, "{ports:?}");
    nothing_is_lost(&mut rig);
    rig.end();
}

#[test]
fn a_service_built_anew_has_its_new_settings_and_loses_no_packet() {
    let mut rig = rig();
    for arguments in [3, 5, 7] {
        let counter = service("counter", json!({ "arguments": arguments }));
        let plan = Plan { replace_services: vec![("watch".to_owned(), counter)], ..Plan::default() };
        let before = rig.datapath.report().unwrap().workers[0].received;
        rig.datapath.carry_out(&plan).unwrap();
        let report = rig.datapath.report().unwrap();
        let watch = report.services.iter().find(|service| service.name == "watch").unwrap();
        // Every packet goes through it: one that went on counting would have all of them.
        let since = report.workers[0].received - before;
        assert!(watch.instances[0].packets <= since, "it begins anew: {watch:?} of {since}");
        nothing_is_lost(&mut rig);
    }
    rig.end();
}

#[test]
fn of_ports_that_are_added_together_all_are_there_or_none() {
    let mut rig = rig();
    let before = state(&mut rig);
    let bad = PortSpec { spec: "trace:absent.pcap".to_owned(), ..null("bad", 5) };
    let error = rig.datapath.add_ports(&[null("p3", 3), null("p4", 4), bad]).unwrap_err().to_string();
    assert!(error.contains("port `bad`") && error.contains("absent.pcap"), "{error}");
    assert_eq!(state(&mut rig), before);
    assert_eq!(rig.datapath.names().port("p3"), None);
    assert_eq!(rig.datapath.add_ports(&[null("p3", 3), null("p4", 4)]).unwrap(), [PortNo(3), PortNo(4)]);
    nothing_is_lost(&mut rig);
    rig.end();
}

#[test]
fn deleted_entries_are_told_to_those_who_asked_with_their_last_counters() {
    let mut rig = Rig::new(config(1));
    rig.groups("group_id=1,type=all,bucket=output:2");
    rig.meter("meter=1,pktps,band=type=drop,rate=1000000");
    rig.flows(
        "table=0,priority=3,udp,tp_src=1000,send_flow_rem actions=drop\n\
         table=0,priority=3,udp,tp_src=1001 actions=drop\n\
         table=0,priority=2,udp,tp_src=1002,send_flow_rem actions=group:1\n\
         table=0,priority=1,send_flow_rem actions=meter:1,output:2",
    );
    rig.port(2, "null");
    let frames: Vec<Vec<u8>> = (0..4000).map(|at| udp(1, 2, (1000 + at % 4, 80))).collect();
    rig.source(1, &frames, "");
    rig.wait(4000);
    rig.flows("delete table=0,udp,tp_src=1001\ndelete udp,tp_src=1000");
    rig.datapath.apply(&[Change::DeleteGroup(None), Change::DeleteMeter(None)]).unwrap();
    let told = rig.datapath.tick().unwrap().into_iter().filter_map(|event| match event {
        Event::FlowRemoved(stats, why) => Some((stats.flow.priority, stats.packets, why)),
        _ => None,
    });
    let expected = [(3, 1000, Removal::Delete), (2, 1000, Removal::Group), (1, 1000, Removal::Meter)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(rig.datapath.flows().unwrap().is_empty());
    rig.end();
}

/// Changes what is there by a line of `ovs-ofctl mod-flows` or `del-flows`.
fn change(rig: &mut Rig, command: FlowCommand, text: &str) {
    let change = FlowMod::parse_as(command, text, &Names::default()).unwrap();
    rig.datapath.apply(&[Change::Flow(change)]).unwrap();
}

/// Priority, cookie, packets and what is done, by falling priority.
fn entries(rig: &mut Rig) -> Vec<(u16, u64, u64, String)> {
    let flows = rig.datapath.flows().unwrap().into_iter();
    let show = |flow: &Flow| flow.instructions.text(&flow.matching, &Names::default());
    flows.map(|stats| (stats.flow.priority, stats.flow.cookie, stats.packets, show(&stats.flow))).collect()
}

#[test]
fn a_modification_changes_actions_and_only_what_else_it_names() {
    use FlowCommand::{Modify, ModifyStrict};
    let mut rig = Rig::new(config(1));
    rig.flows(
        "priority=9,cookie=0x19,udp,idle_timeout=60 actions=drop\npriority=8,cookie=0x28,ip actions=drop",
    );
    rig.source(1, &vec![udp(1, 2, (3, 4)); 100], "");
    rig.wait(100);
    let is = |rig: &mut Rig, expected: [(u16, u64, u64, &str); 2]| {
        let expected = expected.map(|(a, b, c, text)| (a, b, c, text.to_owned()));
        assert_eq!(entries(rig), expected);
    };
    change(&mut rig, Modify, "udp actions=output:2");
    is(&mut rig, [(9, 0x19, 100, "output:2"), (8, 0x28, 0, "drop")]);
    change(&mut rig, Modify, "cookie=0x77,ip actions=output:3");
    is(&mut rig, [(9, 0x77, 100, "output:3"), (8, 0x77, 0, "output:3")]);
    change(&mut rig, ModifyStrict, "cookie=0,priority=8,ip actions=output:4");
    is(&mut rig, [(9, 0x77, 100, "output:3"), (8, 0, 0, "output:4")]);
    change(&mut rig, Modify, "cookie=0x7/0xf,cookie=0x5,ip actions=output:5");
    is(&mut rig, [(9, 0x5, 100, "output:5"), (8, 0, 0, "output:4")]);
    change(&mut rig, Modify, "cookie=0x40/0xf0,ip actions=output:6");
    is(&mut rig, [(9, 0x5, 100, "output:5"), (8, 0, 0, "output:4")]);
    let idle = rig.datapath.flows().unwrap()[0].idle;
    change(&mut rig, ModifyStrict, "priority=9,udp,reset_counts,idle_timeout=5 actions=output:7");
    is(&mut rig, [(9, 0x5, 0, "output:7"), (8, 0, 0, "output:4")]);
    let stats = rig.datapath.flows().unwrap().remove(0);
    assert!(stats.flow.idle_timeout == 60 && stats.idle >= idle && stats.idle < stats.age, "{stats:?}");
    change(&mut rig, ModifyStrict, "priority=7,arp actions=output:8");
    assert_eq!(entries(&mut rig)[2], (7, 0, 0, "output:8".to_owned()), "added, as there was none");
    rig.end();
}

#[test]
fn deletions_select_by_cookie_port_group_and_strictly() {
    use FlowCommand::{Delete, DeleteStrict};
    let mut rig = Rig::new(config(1));
    rig.groups("group_id=1,type=all,bucket=output:2");
    let all = "priority=9,cookie=0x19,udp actions=output:2\npriority=8,cookie=0x28,ip actions=output:3\n\
               priority=7,cookie=0x37,ip actions=group:1\npriority=6,cookie=0x36,arp actions=controller";
    for (command, text, left) in [
        (Delete, "cookie=0x30/0xf0", vec![9, 8]),
        (Delete, "ip,cookie=0x30/0xf0", vec![9, 8, 6]),
        (Delete, "out_port=2", vec![8, 7, 6]),
        (Delete, "out_port=controller", vec![9, 8, 7]),
        (Delete, "out_group=1", vec![9, 8, 6]),
        (Delete, "ip,out_port=3", vec![9, 7, 6]),
        (Delete, "table=1", vec![9, 8, 7, 6]),
        (Delete, "ip", vec![6]),
        (DeleteStrict, "priority=8,ip", vec![9, 7, 6]),
        (DeleteStrict, "priority=8,ip,out_port=2", vec![9, 8, 7, 6]),
        (DeleteStrict, "priority=5,ip", vec![9, 8, 7, 6]),
        (Delete, "", vec![]),
    ] {
        rig.flows(all);
        change(&mut rig, command, text);
        let priorities: Vec<u16> = entries(&mut rig).into_iter().map(|entry| entry.0).collect();
        assert_eq!(priorities, left, "{text}");
    }
    rig.flows(all);
    let overlap = rig.try_flows("priority=8,tcp,check_overlap actions=drop").unwrap_err().to_string();
    assert!(overlap.contains("overlaps another of priority 8"), "{overlap}");
    rig.flows("priority=8,arp,check_overlap actions=drop\npriority=5,tcp,check_overlap actions=drop");
    rig.end();
}

#[test]
fn an_entry_added_again_keeps_its_counters_unless_it_says_otherwise() {
    let mut rig = Rig::new(config(1));
    rig.flows("udp actions=drop");
    rig.source(1, &vec![udp(1, 2, (3, 4)); 100], "");
    rig.wait(100);
    std::thread::sleep(Duration::from_millis(20));
    rig.flows("udp,cookie=4 actions=output:2");
    assert_eq!(entries(&mut rig), [(32768, 4, 100, "output:2".to_owned())]);
    rig.flows("udp,reset_counts actions=output:2");
    assert_eq!(entries(&mut rig), [(32768, 0, 0, "output:2".to_owned())]);
    check_sum(&rig.datapath.report().unwrap());
    rig.end();
}

/// Entries that send what goes to one of so many addresses to a port.
fn stations(count: u32, port: u32) -> String {
    let entry = |at: u32| {
        let [_, a, b, c] = at.to_be_bytes();
        format!("priority=9,udp,nw_dst=198.{}.{b}.{c} actions=output:{port}\n", 19 + a)
    };
    (0..count).map(entry).collect()
}

/// `WEIR_BUNDLE` says of how many entries.
#[test]
fn a_bundle_takes_effect_between_two_packets_and_none_is_lost() {
    let entries = u32::try_from(asked("WEIR_BUNDLE", 5000)).unwrap();
    let frames: Vec<Vec<u8>> =
        (0..30_000).map(|at| udp(0x0a00_0000 + at, 0xc613_0000 + at % entries, (1000, 80))).collect();
    let mut rig = Rig::new(config(1));
    rig.flows(&stations(entries, 2));
    rig.sink(2);
    rig.sink(3);
    let bundle = changes(&rig, &[], &stations(entries, 3));
    rig.source(1, &frames, ",rate=50kpps");
    rig.wait(5000);
    rig.datapath.apply(&bundle).unwrap();
    rig.wait(30_000);
    let end = rig.end();
    let numbers = |port| -> Vec<u32> {
        let number = |frame: &Vec<u8>| u32::from_be_bytes(frame[26..30].try_into().unwrap()) - 0x0a00_0000;
        end.sent(port).iter().map(number).collect()
    };
    let (before, after) = (numbers(2), numbers(3));
    assert!(before.len() >= 5000, "{}", before.len());
    assert!(before.iter().chain(&after).copied().eq(0..30_000), "one after the other, in order, each once");
}
