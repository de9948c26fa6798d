//! Bursts of any frames through a whole datapath with two workers.

use crate::{Budget, Input, Outcome, Target};
use rig::{Rig, check_sum, config, patiently, service};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_datapath::{Change, Report, WorkerReport};
use weir_openflow::{FlowMod, PortNo, Select};

#[path = "../../../datapath/tests/datapath/rig.rs"]
#[allow(dead_code, reason = "a part of what the datapath's own tests use")]
mod rig;

pub(super) const WORKERS: Target = Target {
    name: "workers",
    about: "bursts at two ports, through tables with services, by two workers: every packet ends once, no buffer is lost",
    // Memory of the workers is not counted here; what services hold is asserted. A tracker of the usual size takes 2 GB of
    // addresses, once.
    budget: Budget::of(4 << 30, 256, 400_000, 16).within(Duration::from_secs(10), Duration::from_micros(200)),
    longest: 16 << 10,
    words: &[],
    seeds: || {
        let frames = super::packets::frames();
        let conversations = super::connections::conversations();
        let mut seeds: Vec<Vec<u8>> = (0..TABLES.len() as u8)
            .map(|tables| {
                let parts = frames.iter().enumerate().map(|(at, frame)| (at as u8, frame.as_slice()));
                [&[tables][..], &Input::of_parts(parts)].concat()
            })
            .collect();
        seeds.extend(conversations.iter().map(|talk| [&[3][..], &talk[1..]].concat()));
        seeds
    },
    run: bursts,
    workers: true,
};

/// Tables that an input chooses from.
const TABLES: [&str; 6] = [
    "in_port=1,actions=output:3\nin_port=2,actions=output:4\nactions=drop",
    "table=0,priority=9,ip,actions=dec_ttl,push_vlan:0x8100,output:3,goto_table:1\ntable=0,actions=flood\n\
     table=1,udp,actions=mod_nw_dst:1.2.3.4,mod_tp_dst:9,output:4\ntable=1,actions=controller",
    "priority=5,actions=softflow:tally:1\nsf_stage=1,actions=softflow:coder:2\nsf_stage=2,actions=output:3",
    "priority=5,ip,actions=ct(table=1,zone=1,nat)\npriority=5,ipv6,actions=ct(table=1,zone=1)\nactions=output:4\n\
     table=1,ct_state=+new,ip,actions=ct(commit,zone=1,nat(src=203.0.113.1-203.0.113.2)),output:3\n\
     table=1,ct_state=+new,ipv6,actions=ct(commit,zone=1),output:3\ntable=1,ct_state=+est,actions=output:4",
    "priority=5,actions=softflow:sticky:1\nsf_stage=1,actions=softflow:tracker:1\nsf_stage=2,sf_metadata=1,actions=output:3\nactions=output:4",
    "actions=clone(push_mpls:0x8847,output:3),move:NXM_NX_REG0[]->NXM_NX_REG1[],resubmit(,1)\n\
     table=1,vlan_tci=0x1000/0x1000,actions=pop_vlan,output:4\ntable=1,actions=output:3,output:4,in_port",
];

/// Inputs that one datapath is used for, before it is stopped and its buffers are counted.
const USES: u32 = 500;

/// Packets of an input, at most.
const PACKETS: usize = 128;

/// Bytes that a service may hold.
const HELD: u64 = 64 << 20;

struct Datapath {
    rig: Rig,
    tables: Option<usize>,
    used: u32,
    looked_at: u64,
}

impl Datapath {
    fn new() -> Self {
        let mut settings = config(2);
        let backends = json!([{"name": "a"}, {"name": "b"}]);
        let of = [
            ("tally", "counter", json!({"arguments": 16})),
            ("coder", "transcoder", json!({"key": "000102030405060708090a0b0c0d0e0f"})),
            ("sticky", "balancer", json!({"mode": "consistent", "table": 1009, "backends": backends})),
            ("tracker", "conntrack", json!({"connections": 4096, "fragments": 512, "checksums": "all"})),
        ];
        settings.services = of.map(|(name, kind, with)| (name.to_owned(), service(kind, with))).into();
        settings.poll = weir_datapath::PollMode::Yield;
        let mut rig = Rig::new(settings);
        (3..=4).for_each(|port| rig.port(port, "null"));
        Self { rig, tables: None, used: 0, looked_at: 0 }
    }

    fn tables(&mut self, wanted: usize) {
        if self.tables != Some(wanted) {
            patiently(|| self.rig.datapath.apply(&[Change::Flow(FlowMod::Delete(Select::default()))]));
            patiently(|| self.rig.try_flows(TABLES[wanted]));
            self.tables = Some(wanted);
        }
    }

    /// Frames come in by two ports at once; what was made of them.
    fn burst(&mut self, frames: &[Vec<Vec<u8>>; 2]) -> Report {
        let before = self.looked_at;
        for (port, frames) in (1..).zip(frames).filter(|(_, frames)| !frames.is_empty()) {
            self.rig.source(port, frames, "");
        }
        let count: usize = frames.iter().map(Vec::len).sum();
        let report = self.rig.wait(before + count as u64);
        self.looked_at = before + count as u64;
        for (port, _) in (1..).zip(frames).filter(|(_, frames)| !frames.is_empty()) {
            patiently(|| self.rig.datapath.remove_port(PortNo(port)));
        }
        patiently(|| self.rig.datapath.tick());
        self.rig.datapath.packet_ins();
        report
    }
}

/// What must hold at any moment.
fn check(report: &Report) {
    check_sum(report);
    for service in &report.services {
        for one in &service.instances {
            assert_eq!((one.panics, &one.quarantine), (0, &None), "{}: {one:?}", service.name);
            assert!(one.memory < HELD && one.heap < HELD, "{}: {one:?}", service.name);
        }
    }
}

fn bursts(input: &[u8]) -> Outcome {
    thread_local! {
        static DATAPATH: RefCell<Option<Datapath>> = const { RefCell::new(None) };
    }
    let mut input = Input::new(input);
    let tables = input.below(TABLES.len());
    let mut frames = [Vec::new(), Vec::new()];
    let mut count = 0;
    while !input.is_over() && count < PACKETS {
        let port = usize::from(input.byte()) & 1;
        let mut frame = input.part().to_vec();
        // A capture has no packet without bytes, and ports take frames of this length.
        frame.truncate(1518);
        if !frame.is_empty() {
            frames[port].push(frame);
            count += 1;
        }
    }
    DATAPATH.with_borrow_mut(|datapath| {
        if let Some(old) = datapath.take_if(|datapath| datapath.used >= USES) {
            check(&old.rig.end().report);
        }
        let datapath = datapath.get_or_insert_with(Datapath::new);
        datapath.used += 1;
        datapath.tables(tables);
        let before = dropped(&patiently(|| datapath.rig.datapath.report()));
        let report = datapath.burst(&frames);
        check(&report);
        let reasons: BTreeSet<String> =
            dropped(&report).difference(&before).map(|(reason, _)| reason.clone()).collect();
        let sent = |worker: &WorkerReport| worker.sent > 0;
        Outcome::of((tables, reasons, report.workers.iter().all(sent)))
    })
}

/// Reasons for which packets were dropped, and how many so far.
fn dropped(report: &Report) -> BTreeSet<(String, u64)> {
    let all = report.workers.iter().flat_map(|worker| &worker.dropped);
    all.map(|(reason, packets)| (reason.to_string(), *packets)).collect()
}
