//! Services that are told more than one number, and packets that leave where they came in.

use crate::rig::{Rig, config, service, udp};
use serde_json::json;
use std::collections::BTreeMap;
use weir_datapath::{Change, Config, Refusal};
use weir_openflow::PortNo;

fn rig(services: &[(&str, &str)]) -> Rig {
    let services: BTreeMap<_, _> =
        services.iter().map(|(name, kind)| ((*name).to_owned(), service(kind, json!({})))).collect();
    Rig::new(Config { services, ..config(1) })
}

fn frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|at| udp(0xc612_0000 + at % 10, 0xc613_0001, (1000, 80 + (at % 2) as u16))).collect()
}

#[test]
fn each_packet_is_told_what_its_own_entry_says_coalesced_or_on_a_copy() {
    let mut rig = rig(&[("counter", "counter"), ("quota", "quota")]);
    rig.flows(
        "priority=9,sf_stage=0,udp,tp_dst=80 actions=softflow:counter:7:\"even\"\n\
         priority=9,sf_stage=0,udp,tp_dst=81 actions=clone(softflow:counter:8:\"odd, \\\"one\\\"\"),softflow:counter:9\n\
         priority=9,sf_stage=1,sf_action=counter,udp,tp_dst=80 actions=softflow:quota:3:50\n\
         priority=8,sf_stage=1,sf_action=counter actions=softflow:quota:4:200\n\
         priority=9,sf_stage=2 actions=output:2",
    );
    rig.sink(2);
    let told = rig.datapath.explain(PortNo(1), &frames(1)[0], &[]);
    for part in ["service counter, arguments 7, \"even\": taken", "service quota, arguments 3, 50: taken"] {
        assert!(told.contains(part), "{part} in:\n{told}");
    }
    rig.source(1, &frames(1_000), "");
    rig.wait_until(|report| report.workers[0].sent >= 1_500);
    let dump = rig.datapath.command("counter", "dump", &json!(null)).unwrap();
    let counts = |argument: u32, text: Option<&str>| {
        let mut row = json!({"argument": argument, "packets": 500, "bytes": 30_000});
        if let Some(text) = text {
            row["text"] = text.into();
        }
        row
    };
    let all = [counts(7, Some("even")), counts(8, Some("odd, \"one\"")), counts(9, None)];
    assert_eq!(dump[0]["arguments"], json!(all));
    let dump = rig.datapath.command("quota", "dump", &json!(null)).unwrap();
    let paid = [json!({"account": 3, "bytes": 15_000}), json!({"account": 4, "bytes": 120_000})];
    assert_eq!(dump[0]["accounts"], json!(paid));
    assert_eq!(rig.end().sent(2).len(), 1_500);
}

#[test]
fn what_a_service_cannot_be_told_is_refused_with_the_entry() {
    let mut rig = rig(&[("counter", "counter"), ("noop", "noop")]);
    for (flow, why) in [
        ("actions=softflow:noop:1:2", "service 2: it takes one number"),
        ("actions=clone(softflow:noop:\"x\")", "service 2: it takes one number"),
        (
            "actions=softflow:counter:\"web\"",
            "service 1: a counter takes a number, and a text to show beside its counts",
        ),
    ] {
        let flows = weir_openflow::parse_flows(flow, rig.datapath.names()).unwrap();
        let changes: Vec<Change> = flows.into_iter().map(Change::Flow).collect();
        let refused = rig.datapath.apply_each(changes, false).unwrap().refused.remove(0).1;
        assert_eq!((refused.why, refused.text), (Refusal::BadArgument, format!("table 0: {why}")));
    }
    rig.flows("actions=softflow:counter:1:\"web\"");
    rig.end();
}

#[test]
fn packets_leave_where_they_came_in_from_a_service_a_group_and_a_copy() {
    let mut rig = rig(&[("noop", "noop")]);
    rig.groups(
        "group_id=1,type=all,bucket=IN_PORT,bucket=output:2\n\
         group_id=2,type=select,bucket=IN_PORT\n\
         group_id=3,type=indirect,bucket=output:1",
    );
    rig.flows(
        "priority=9,sf_stage=0 actions=softflow:noop\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.0 actions=IN_PORT\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.1 actions=group:1\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.2 actions=group:2\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.3 actions=clone(mod_tp_dst:9,IN_PORT),output:2\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.4 actions=write_actions(IN_PORT)\n\
         priority=9,sf_stage=1,udp,nw_src=198.18.0.5 actions=group:3\n\
         priority=8,sf_stage=1,udp actions=output:1",
    );
    rig.sink(2);
    rig.source(1, &frames(1_000), "");
    rig.wait(1_000);
    let end = rig.end();
    // By the six of ten addresses that come back here, one of which sends to the port by its number and is not heard.
    assert_eq!((end.sent(1).len(), end.sent(2).len()), (500, 200));
    // A port by its number is not where a packet came in by (OpenFlow 1.3.5, section 7.2.5).
    assert_eq!(end.dropped("in-port"), 500);
}
