//! Packets through a whole datapath: tables, groups, meters, services, ports, timeouts, changes.

use crate::rig::{Rig, check_sum, config, service, udp};
use serde_json::json;
use std::time::{Duration, Instant};
use weir_datapath::{COPIES, Config, Event, Removal};
use weir_flow::{Field, Key, extract};
use weir_openflow::PortNo;

/// Packets of 50 flows, in turn.
fn flows(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|at| udp(0xc612_0001 + at as u32 % 50, 0xc613_0001, (1000 + at as u16 % 50, 80))).collect()
}

#[test]
fn a_report_without_tables_has_all_but_these_and_takes_nothing_from_them() {
    let mut rig = Rig::new(config(1));
    rig.flows("ip,actions=output:2");
    rig.sink(2);
    rig.source(1, &flows(5000), "");
    rig.wait(5000);
    let without = rig.datapath.report_without_tables().unwrap();
    check_sum(&without);
    let with = rig.datapath.report().unwrap();
    assert_eq!((without.workers[0].received, without.workers[0].sent), (5000, 5000));
    assert_eq!(without.ports, with.ports);
    assert!(without.tables.is_empty());
    assert_eq!((with.tables[0].lookups, with.tables[0].matched), (5000, 5000));
    rig.end();
}

fn field(frame: &[u8], field: Field) -> u128 {
    let mut key = Key::new();
    extract(frame, 0, &mut key);
    field.get(&key)
}

#[test]
fn packets_are_routed_rewritten_and_counted_by_flow_table_and_port() {
    let mut rig = Rig::new(config(1));
    rig.flows(
        "table=0,priority=10,ip,nw_src=198.18.0.0/27 actions=goto_table:1\n\
         table=0,priority=0 actions=drop\n\
         table=1,udp,tp_dst=80 actions=dec_ttl,mod_dl_src:02:00:00:00:00:09,mod_nw_dst:10.0.0.1,output:2",
    );
    rig.sink(2);
    let frames = flows(5000);
    let inside = frames.iter().filter(|frame| field(frame, Field::NwSrc) & 0xff < 32).count();
    rig.source(1, &frames, "");
    rig.wait(5000);
    let stats = rig.datapath.flows().unwrap();
    let counted: Vec<(u8, u64)> = stats.iter().map(|stats| (stats.flow.table.0, stats.packets)).collect();
    assert_eq!(counted, [(0, inside as u64), (0, 5000 - inside as u64), (1, inside as u64)]);
    assert_eq!(stats[2].bytes, inside as u64 * frames[0].len() as u64);
    let end = rig.end();
    let sent = end.sent(2);
    assert_eq!((sent.len(), end.dropped("by-flow")), (inside, 5000 - inside as u64));
    for frame in &sent {
        assert_eq!((field(frame, Field::NwTtl), field(frame, Field::NwDst)), (63, 0x0a00_0001));
        assert_eq!(field(frame, Field::EthSrc), 0x0200_0000_0009);
        assert!(weir_wire::Ipv4View::checked(&frame[14..]).unwrap().checksum_is_right());
    }
    let tables: Vec<(u8, u64, u64)> =
        end.report.tables.iter().map(|table| (table.table, table.lookups, table.matched)).collect();
    assert_eq!(tables, [(0, 5000, 5000), (1, inside as u64, inside as u64)]);
    let caches = &end.report.workers[0].caches;
    let hits = caches.shortcut_hits + caches.exact_hits + caches.megaflow_hits;
    assert_eq!(hits + caches.direct + caches.upcalls, 5000);
    assert!(caches.upcalls < 200 && caches.masks < 10, "{caches:?}");
    assert_eq!(
        (end.report.ports[0].sent, end.report.ports[1].received),
        (0, 0),
        "by number: {:?}",
        end.report.ports
    );
}

#[test]
fn the_packets_of_a_flow_leave_in_the_order_they_came() {
    let mut rig = Rig::new(config(1));
    rig.flows("udp,tp_src=1001 actions=softflow:noop:0\nsf_stage=1 actions=output:2\nactions=output:2");
    rig.sink(2);
    let mut frames = flows(3000);
    for (number, frame) in frames.iter_mut().enumerate() {
        let at = frame.len() - 4;
        frame[at..].copy_from_slice(&(number as u32).to_be_bytes());
    }
    rig.source(1, &frames, "");
    rig.wait(3000);
    let sent = rig.end().sent(2);
    assert_eq!(sent.len(), 3000);
    let mut last = std::collections::HashMap::new();
    for frame in sent {
        let number = u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap());
        let before = last.insert(field(&frame, Field::UdpSrc), number);
        assert!(before.is_none_or(|before| before < number), "{number} came after {before:?}");
    }
}

#[test]
fn floods_and_groups_copy_and_choose() {
    let mut rig = Rig::new(config(1));
    rig.groups(
        "group_id=1,type=all,bucket=actions=output:2,bucket=actions=mod_nw_dst:10.0.0.9,output:3\n\
         group_id=2,type=select,bucket=weight:3,actions=output:2,bucket=weight:1,actions=output:3\n\
         group_id=3,type=ff,bucket=watch_port:9,actions=output:2,bucket=watch_port:3,actions=output:3",
    );
    rig.flows(
        "udp,tp_src=1000 actions=flood\nudp,tp_src=1001 actions=group:1\nudp,tp_src=1002 actions=group:3\n\
         priority=1,ip actions=group:2",
    );
    (2..4).for_each(|port| rig.sink(port));
    rig.source(1, &flows(5000), "");
    rig.wait(5000);
    let groups = rig.datapath.groups().unwrap();
    assert_eq!(groups[0].packets, 100);
    assert_eq!(groups[0].buckets.iter().map(|bucket| bucket.0).collect::<Vec<_>>(), [100, 100]);
    assert_eq!(groups[2].buckets.iter().map(|bucket| bucket.0).collect::<Vec<_>>(), [0, 100]);
    let chosen: Vec<u64> = groups[1].buckets.iter().map(|bucket| bucket.0).collect();
    assert_eq!(chosen.iter().sum::<u64>(), 4700);
    assert!(chosen[0] > chosen[1] && chosen[1] > 0, "{chosen:?}");
    let end = rig.end();
    assert_eq!(end.sent(2).len() as u64, 100 + 100 + chosen[0]);
    let third = end.sent(3);
    assert_eq!(third.len() as u64, 100 + 100 + 100 + chosen[1]);
    assert_eq!(third.iter().filter(|frame| field(frame, Field::NwDst) == 0x0a00_0009).count(), 100);
    assert_eq!(end.report.workers[0].copied, 200);
}

#[test]
fn a_meter_drops_what_exceeds_its_rate() {
    let mut rig = Rig::new(config(1));
    rig.meter("meter=1,pktps,burst,bands=type=drop,rate=1,burst_size=10");
    rig.flows("actions=meter:1,output:2");
    rig.sink(2);
    rig.source(1, &flows(1000), "");
    rig.wait(1000);
    let meters = rig.datapath.meters();
    let end = rig.end();
    let sent = end.sent(2).len() as u64;
    assert!((10..30).contains(&sent), "{sent}");
    assert_eq!(
        (end.dropped("meter"), meters[0].packets, meters[0].bands[0].0),
        (1000 - sent, 1000, 1000 - sent)
    );
}

/// Tables with three services, two of them coalesced where that is on.
const STAGES: &str = "table=0,priority=9,sf_stage=0,ip actions=softflow:noop:1\n\
    table=0,priority=8,sf_stage=1,sf_action=noop,ip,nw_src=198.18.0.0/28 actions=mod_nw_src:10.9.9.9,softflow:counter:5\n\
    table=0,priority=7,sf_stage=1,sf_action=noop actions=softflow:counter:6\n\
    table=0,priority=6,sf_stage=2,sf_action=counter,ip,nw_src=10.9.9.9 actions=softflow:balancer:0\n\
    table=0,priority=5,sf_stage=2,sf_action=counter actions=output:2\n\
    table=0,priority=4,sf_stage=3,sf_action=balancer,sf_metadata=0/1 actions=output:2\n\
    table=0,priority=3,sf_stage=3,sf_action=balancer,sf_metadata=1/1 actions=mod_nw_tos:32,output:2\n\
    table=0,priority=0 actions=drop";

#[test]
fn coalescing_on_and_off_make_the_same_packets() {
    let run = |coalescing: bool| {
        let mut rig = Rig::new(weir_datapath::Config { coalescing, ..config(1) });
        rig.flows(STAGES);
        rig.sink(2);
        rig.source(1, &flows(4000), "");
        rig.wait(4000);
        let counted = rig.datapath.command("counter", "dump", &json!({})).unwrap();
        let packets: Vec<u64> = rig.datapath.flows().unwrap().iter().map(|stats| stats.packets).collect();
        let end = rig.end();
        (end.sent(2), packets, counted, end.report.workers[0].caches.clone())
    };
    let (on, off) = (run(true), run(false));
    assert_eq!(on.0.len(), 4000);
    assert!(on.0 == off.0, "the same packets in the same order");
    assert_eq!(on.1, off.1, "the same flow counters");
    assert_eq!(on.2, off.2, "the same words of the service");
    assert_eq!(off.3.coalesced, 0);
    assert!(on.3.coalesced > 7000, "{:?}", on.3);
    let lookups =
        |caches: &weir_datapath::CacheReport| caches.exact_hits + caches.megaflow_hits + caches.upcalls;
    assert!(lookups(&on.3) < 6000 && lookups(&off.3) > 12_000, "{:?} {:?}", on.3, off.3);
}

#[test]
fn packets_behind_a_popped_label_are_looked_at_anew() {
    let mut rig = Rig::new(config(1));
    rig.flows(
        "table=0,mpls actions=pop_mpls:0x0800,goto_table:1\ntable=0,priority=1 actions=push_mpls:0x8847,output:3\n\
         table=1,ip,nw_src=198.18.0.0/28 actions=output:2\ntable=1,priority=0 actions=drop",
    );
    (2..4).for_each(|port| rig.sink(port));
    let labelled = |frame: Vec<u8>| [&frame[..12], &[0x88, 0x47, 0, 1, 0x01, 64], &frame[14..]].concat();
    let frames: Vec<Vec<u8>> = flows(2000).into_iter().map(labelled).collect();
    rig.source(1, &frames, "");
    rig.wait(2000);
    let end = rig.end();
    let sent = end.sent(2);
    let inside = frames.iter().filter(|frame| frame[33] < 16).count();
    assert_eq!((sent.len(), end.dropped("by-flow")), (inside, 2000 - inside as u64));
    assert!(sent.iter().all(|frame| field(frame, Field::EthType) == 0x0800));
}

#[test]
fn a_list_of_changes_is_seen_whole_or_not_at_all() {
    let mut rig = Rig::new(config(1));
    let pair = |tos: u8| {
        format!(
            "table=0 actions=mod_nw_tos:{tos},goto_table:1\n\
             table=1,ip,nw_tos={tos} actions=output:2\ntable=1,priority=1 actions=output:3"
        )
    };
    rig.flows(&pair(32));
    (2..4).for_each(|port| rig.sink(port));
    rig.source(1, &flows(500), ",loop,rate=200kpps");
    for round in 0..200 {
        let tos = if round % 2 == 0 { 64 } else { 32 };
        rig.flows(&format!("delete table=1\n{}", pair(tos)));
    }
    rig.wait(1);
    let refused = rig.try_flows("table=0 actions=output:3\ntable=5 actions=group:9").unwrap_err().to_string();
    assert!(refused.contains("change 2 of 2") && refused.contains("no group 9"), "{refused}");
    std::thread::sleep(Duration::from_millis(50));
    let end = rig.end();
    assert!(end.sent(2).len() > 1000);
    assert_eq!(end.sent(3).len(), 0, "no packet saw one table without the other");
}

#[test]
fn ports_come_and_go_while_packets_flow() {
    let mut rig = Rig::new(config(1));
    rig.flows("actions=output:2");
    rig.source(1, &flows(100), ",loop,rate=100kpps");
    for _ in 0..10 {
        rig.sink(2);
        std::thread::sleep(Duration::from_millis(10));
        rig.datapath.remove_port(PortNo(2)).unwrap();
        check_sum(&rig.datapath.report().unwrap());
    }
    let again = rig.datapath.remove_port(PortNo(2)).unwrap_err().to_string();
    assert!(again.contains("no port 2"), "{again}");
    let end = rig.end();
    let worker = &end.report.workers[0];
    assert!(worker.sent > 1000 && end.dropped("no-port") > 0, "{worker:?}");
}

#[test]
fn entries_expire_when_they_are_idle_or_old_and_say_so() {
    let mut rig = Rig::new(config(1));
    rig.flows(
        "udp,tp_src=1000,idle_timeout=1 actions=drop\nudp,tp_src=9,idle_timeout=1 actions=drop\n\
         udp,tp_src=1001,hard_timeout=1 actions=drop\npriority=1 actions=drop",
    );
    rig.source(1, &flows(100), ",loop,rate=10kpps");
    let (begin, mut gone) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_millis(1800) {
        for event in rig.datapath.tick().unwrap() {
            if let Event::FlowRemoved(stats, why) = event {
                gone.push((stats.flow.idle_timeout, stats.packets > 0, why));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    gone.sort_by_key(|gone| gone.0);
    assert_eq!(gone, [(0, true, Removal::Hard), (1, false, Removal::Idle)]);
    assert_eq!(rig.datapath.flows().unwrap().len(), 2);
    rig.end();
}

#[test]
fn two_workers_keep_each_flow_with_one_of_them() {
    let mut rig = Rig::new(config(2));
    rig.flows(
        "table=0,sf_stage=0,ip actions=softflow:conntrack:1\n\
         sf_stage=1,sf_metadata=1,in_port=1 actions=output:3\nsf_stage=1,sf_metadata=1,in_port=2 actions=output:4",
    );
    (3..5).for_each(|port| rig.sink(port));
    let there = flows(3000);
    let back: Vec<Vec<u8>> = (0..3000)
        .map(|at| udp(0xc613_0001, 0xc612_0001 + at as u32 % 50, (80, 1000 + at as u16 % 50)))
        .collect();
    rig.source(1, &there, "");
    rig.source(2, &back, "");
    let report = rig.wait(6000);
    assert_eq!(report.workers.len(), 2);
    // What is between two workers arrives.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let report = rig.datapath.report().unwrap();
        if report.workers.iter().map(|worker| worker.sent).sum::<u64>() == 6000 {
            break;
        }
    }
    let connections = rig.datapath.command("conntrack", "stats", &json!({})).unwrap();
    let end = rig.end();
    let over: u64 = end.report.workers.iter().map(|worker| worker.handed_over).sum();
    let taken: u64 = end.report.workers.iter().map(|worker| worker.taken_over).sum();
    assert_eq!((over, end.sent(3).len(), end.sent(4).len()), (taken, 3000, 3000), "{connections:?}");
    assert!(over > 0);
}

#[test]
fn a_service_of_another_name_and_settings_is_called_by_it() {
    let mut settings = config(1);
    settings.services.insert("tally".to_owned(), service("counter", json!({})));
    let mut rig = Rig::new(settings);
    rig.flows("sf_stage=0 actions=softflow:tally:3\nsf_stage=1,sf_action=tally actions=output:2");
    rig.sink(2);
    rig.source(1, &flows(100), "");
    rig.wait(100);
    let unknown = rig.datapath.command("tell", "dump", &json!({})).unwrap_err().to_string();
    assert!(unknown.contains("no service `tell`") && unknown.contains("tally"), "{unknown}");
    assert_eq!(rig.end().sent(2).len(), 100);
}

#[test]
fn a_trace_says_what_would_be_done_and_why_each_bit_matters() {
    let mut rig = Rig::new(config(1));
    rig.flows(STAGES);
    rig.sink(2);
    let text = rig.datapath.explain(PortNo(1), &flows(1)[0], &[0, 0, 1]);
    println!("{text}");
    for part in ["softflow:noop:1", "stage 3", "leaves by p2 (2)", "nw_src", "table 0", "megaflow:"] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    rig.end();
}

#[test]
fn a_trace_has_the_cycles_of_each_task_and_what_workers_measured_of_services() {
    let mut rig = Rig::new(config(1));
    rig.flows(STAGES);
    rig.sink(2);
    rig.source(1, &flows(100), "");
    rig.wait(100);
    let told = rig.datapath.trace(PortNo(1), &flows(1)[0], &[0, 0, 1]);
    let plain = rig.datapath.explain(PortNo(1), &flows(1)[0], &[0, 0, 1]);
    for line in plain.lines() {
        assert!(
            told.steps.lines().any(|with_cycles| with_cycles.starts_with(line)),
            "{line} in:\n{}",
            told.steps
        );
    }
    assert!(told.tsc_hz > 1e8 && told.clock_cycles > 0 && told.stages.len() > 3, "{told:?}");
    for stage in &told.stages {
        let names: Vec<&str> = stage.tasks.iter().map(|task| task.task).collect();
        assert!(names.starts_with(&["begin", "lookup"]) && names.ends_with(&["end"]), "{names:?}");
        assert!(stage.walks > 1 && stage.tasks.iter().all(|task| task.cycles.least <= task.cycles.median));
        let least: u64 = stage.tasks.iter().map(|task| task.cycles.least).sum();
        assert!(least > 0 && stage.cycles.least >= least, "{stage:?}");
        let lookup = &stage.tasks[1];
        let words = format!("[{} cycles, first {}]", lookup.cycles.median, lookup.cycles.first);
        assert!(lookup.cycles.least > 0 && lookup.steps[0].starts_with("table 0: looked up"), "{lookup:?}");
        assert!(told.steps.contains(&format!("{}  {words}", lookup.steps[0])), "{words} in:\n{}", told.steps);
        for reason in &stage.reasons {
            let of_tasks = reason.tasks.iter().map(|task| stage.tasks[*task].cycles.median);
            assert_eq!(of_tasks.sum::<u64>(), reason.cycles, "{reason:?}");
        }
    }
    let looked = told.stages[0].reasons.iter().find(|reason| reason.why == "table 0").unwrap();
    assert!(
        told.steps.contains(&format!("{}: table 0  [{} cycles]", looked.bits, looked.cycles)),
        "{}",
        told.steps
    );
    let noop = told.services.iter().find(|service| service.name == "noop").unwrap();
    assert!(noop.packets > 0 && noop.cycles > 0, "{noop:?}");
    assert!(told.workers.iter().any(|step| step.step == "lookup"), "{:?}", told.workers);
    rig.end();
}

#[test]
fn a_loop_of_services_ends_with_a_counted_reason_coalesced_or_not() {
    for coalescing in [true, false] {
        let mut rig = Rig::new(weir_datapath::Config { coalescing, ..config(1) });
        rig.flows("actions=softflow:noop:0");
        rig.source(1, &flows(200), "");
        rig.wait(200);
        let end = rig.end();
        assert_eq!(end.dropped("too-deep"), 200, "{:?}", end.report.workers[0]);
    }
}

#[test]
fn a_loop_of_tables_ends_with_a_counted_reason() {
    let mut rig = Rig::new(config(1));
    rig.flows("table=0 actions=resubmit(,1)\ntable=1 actions=resubmit(,0),resubmit(,0)");
    rig.source(1, &flows(200), "");
    rig.wait(200);
    assert_eq!(rig.end().dropped("too-deep"), 200);
}

#[test]
fn buckets_are_sets_clones_have_sets_of_their_own_and_exit_leaves_the_set() {
    let mut rig = Rig::new(config(1));
    rig.groups("group_id=1,type=indirect,bucket=actions=output:4,set_field:02:00:00:00:00:04->eth_src");
    rig.flows(
        "table=0,actions=write_actions(output:2),goto_table:1\n\
         table=1,udp,tp_dst=1 actions=output:3,exit,output:4\n\
         table=1,udp,tp_dst=2 actions=clone(mod_dl_src:02:00:00:00:00:09,output:3)\n\
         table=1,udp,tp_dst=3 actions=clone(exit),output:3\n\
         table=1,udp,tp_dst=4 actions=group:1",
    );
    (2..=4).for_each(|port| rig.sink(port));
    let frames: Vec<Vec<u8>> = (1..=4).map(|port| udp(1, 2, (7, port))).collect();
    rig.source(1, &frames, "");
    rig.wait(4);
    let end = rig.end();
    let seen = |port: u32| -> Vec<(u128, u128)> {
        let sent = end.sent(port);
        sent.iter().map(|frame| (field(frame, Field::UdpDst), field(frame, Field::EthSrc) & 0xff)).collect()
    };
    let mut by_set = seen(2);
    by_set.sort_unstable();
    assert_eq!(by_set, [(1, 1), (2, 1), (2, 9), (3, 1), (3, 1), (4, 1)], "the set, of packets and of clones");
    assert_eq!(seen(3), [(1, 1), (2, 9)], "nothing behind exit, nor behind a clone with one");
    assert_eq!(seen(4), [(4, 4)], "in a bucket, fields are set before the output");
}

#[test]
fn new_flows_beyond_their_account_end_with_the_reason_and_plain_tables_need_no_account() {
    let run = |flows_text: &str| {
        let mut rig = Rig::new(Config { upcalls: 1, ..config(1) });
        rig.flows(flows_text);
        rig.sink(2);
        rig.source(1, &flows(2000), "");
        rig.wait(2000);
        let end = rig.end();
        let caches = end.report.workers[0].caches.clone();
        (end.sent(2).len() as u64, end.dropped("upcall-limit"), caches)
    };
    let (sent, refused, caches) = run("table=0,udp actions=goto_table:1\ntable=1,udp actions=output:2");
    assert_eq!((sent, refused), (2000, 0));
    assert!(caches.direct > 0 && caches.edges < 10, "{caches:?}");
    // What is moved before the last lookup is different for each address: each needs a megaflow.
    let (sent, refused, caches) =
        run("table=0,udp actions=move:NXM_OF_IP_SRC[0..15]->NXM_NX_REG0[0..15],resubmit(,1)\n\
         table=1,udp actions=output:2");
    assert_eq!((sent + refused, caches.direct), (2000, 0));
    assert!(refused > 0 && caches.upcalls < 100, "{refused} refused, {caches:?}");
}

#[test]
fn copies_of_copies_have_a_limit_for_each_packet_that_came_in() {
    let limit = u64::from(COPIES);
    // Each stage makes two of one: 64 stages would make more than there are atoms.
    let mut rig = Rig::new(config(1));
    rig.flows(
        "table=0,priority=1,sf_stage=63 actions=output:2\n\
         table=0,priority=0 actions=clone(softflow:noop),softflow:noop",
    );
    rig.port(1, "null");
    rig.port(2, "null");
    // One that is not copied as often keeps what it may, beside one of its burst that is.
    let flood = "table=0,priority=2,sf_stage=0,udp,tp_src=7 actions=output:2,output:2,output:2,output:2";
    rig.flows(flood);
    let frames = [udp(1, 2, (6, 80)), udp(1, 2, (7, 80)), udp(1, 2, (6, 80))];
    rig.datapath.inject_all(PortNo(1), frames.to_vec());
    let end = rig.end();
    let worker = &end.report.workers[0];
    let refused = end.dropped("copy-limit");
    assert_eq!(end.dropped("no-buffer"), 0, "{worker:#?}");
    assert!(refused > 0, "{worker:#?}");
    assert_eq!(worker.copied - refused, 2 * limit + 3, "{worker:#?}");
    assert_eq!(worker.sent + end.dropped("too-deep"), 3 + 2 * limit + 3, "{worker:#?}");
}
