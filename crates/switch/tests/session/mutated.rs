//! Messages that are right, and the same with some bytes changed, in every version and in any order: what comes of
//! them as a whole is bounded, the switch stays up, and another controller is served meanwhile.
//!
//! `WEIR_MESSAGES` says how many there are, `WEIR_SEED` which.

use crate::controller::{Controller, flow_mod, packet, packet_out};
use crate::rig::Rig;
use crate::wrong::{is_served, resident};
use std::time::{Duration, Instant};
use weir_codec::*;
use weir_flow::samples::Sampler;
use weir_openflow::{Action, Group, Meter, Names, PortNo, TableId, ToController};
use weir_testkit::{asked, seed};

/// Messages where nobody says how many.
const MESSAGES: u64 = 30_000;

/// Messages before the other controller asks for something.
const BATCH: usize = 200;

/// Batches of a connection.
const BATCHES: usize = 10;

/// By how much the memory of this process may grow, in kilobytes: what one controller may have the switch hold,
/// what is gathered of its changes, and tables of their greatest number of flows of this test.
const GROWTH: u64 = 256 << 10;

/// Entries that use most of what entries can.
const FLOWS: &[&str] = &[
    "in_port=1,actions=output:2",
    "table=3,priority=9,tcp,tp_dst=80,actions=load:7->NXM_NX_REG0[],resubmit(,5)",
    "table=5,ip,nw_dst=10.0.0.0/8,actions=group:1",
    "udp,actions=meter:1,controller(max_len=64)",
    "ip,actions=ct(commit,zone=3,table=4,nat(src=10.0.0.1-10.0.0.9))",
    "table=4,ct_state=+trk+est,ip,actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],flood",
    "dl_vlan=5,actions=strip_vlan,write_metadata:5/7,goto_table:9",
    "idle_timeout=1,send_flow_rem,arp,arp_op=1,actions=clone(set_field:2->arp_op,in_port)",
    "hard_timeout=1,ipv6,actions=write_actions(output:3,dec_ttl)",
    "sf_stage=1,actions=set_field:3->sf_metadata,note:01.02.03",
];

/// Groups that refer to one another.
const GROUPS: &[&str] = &[
    "group_id=1,type=select,bucket=weight:3,output:1,bucket=weight:5,group:2",
    "group_id=2,type=all,bucket=output:1,bucket=output:2",
    "group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_group:2,group:2",
    "group_id=1,type=indirect,bucket=group:3",
];

fn group(random: &mut Sampler) -> GroupMod {
    let group = Group::parse(random.pick(GROUPS), &Names::default()).expect("it is right");
    let command = random.pick(&[
        GroupCommand::Add,
        GroupCommand::Modify,
        GroupCommand::AddOrModify,
        GroupCommand::Delete,
        GroupCommand::InsertBucket(BucketAt::Last),
        GroupCommand::RemoveBucket(BucketAt::First),
    ]);
    GroupMod { command, group }
}

/// A change that may be in a bundle.
fn change(random: &mut Sampler) -> Body {
    match random.below(8) {
        0 => Body::GroupMod(group(random)),
        1 => {
            let meter = Meter::parse("meter=1 pktps bands=type=drop rate=10").expect("it is right");
            let command = random.pick(&[MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
            Body::MeterMod(MeterMod { command, meter })
        }
        2 => {
            let to = Action::Controller(ToController::default());
            let actions =
                vec![random.pick(&[&Action::Output(PortNo::TABLE), &Action::Output(PortNo(2)), &to]).clone()];
            packet_out(1, actions, packet(random.pick(&[14, 60, 1500])))
        }
        _ => match flow_mod(random.pick(FLOWS)) {
            Body::FlowMod(flow) => {
                let command = random.pick(&[
                    FlowCommand::Add,
                    FlowCommand::Add,
                    FlowCommand::Modify,
                    FlowCommand::ModifyStrict,
                    FlowCommand::Delete,
                    FlowCommand::DeleteStrict,
                ]);
                Body::FlowMod(FlowMod { command, priority: random.below(9) as u16, ..flow })
            }
            other => other,
        },
    }
}

/// A question, some of them unfinished.
fn question(random: &mut Sampler) -> Body {
    let flows = FlowQuery::default;
    let monitor = |random: &mut Sampler| MonitorRequest {
        id: random.below(20) as u32,
        command: random.pick(&[MonitorCommand::Add, MonitorCommand::Modify, MonitorCommand::Delete]),
        flags: random.below(128) as u16,
        out_port: None,
        out_group: None,
        table: None,
        matching: weir_flow::Match::any(),
    };
    let request = match random.below(12) {
        0 => Request::Desc,
        1 | 2 => Request::Flow(flows()),
        3 => Request::Aggregate(flows()),
        4 => Request::Table,
        5 => Request::Port(PortNo::ANY),
        6 => Request::Group(ALL_GROUPS),
        7 => Request::GroupDesc(ALL_GROUPS),
        8 => Request::Meter(ALL_METERS),
        9 => Request::PortDesc(PortNo::ANY),
        10 => Request::GroupFeatures,
        _ => Request::Monitor(vec![monitor(random), monitor(random)]),
    };
    Body::MultipartRequest(MultipartRequest { more: random.one_in(3), request })
}

/// A message of any kind.
fn right(random: &mut Sampler, version: Version, xid: u32) -> Message {
    let flags = BundleFlags { atomic: true, ordered: random.one_in(2) };
    let id = random.below(3) as u32;
    let body = match random.below(10) {
        0 | 1 => question(random),
        2 if version > Version::V10 => {
            let step = random.pick(&[
                BundleStep::OpenRequest,
                BundleStep::CloseRequest,
                BundleStep::CommitRequest,
                BundleStep::DiscardRequest,
            ]);
            Body::BundleControl(BundleControl { id, step, flags })
        }
        3 | 4 if version > Version::V10 => {
            let message = Box::new(Message::new(version, xid, change(random)));
            Body::BundleAdd(BundleAdd { id, flags, message })
        }
        5 => Body::SetConfig(Config { flags: 0, miss_send_len: random.bits() as u16 }),
        6 if version >= Version::V14 => {
            let config = TableConfig { flags: TableConfig::EVICTION, eviction: None, vacancy: None };
            Body::TableMod(TableMod { table: Some(TableId(random.below(9) as u8)), config })
        }
        _ => change(random),
    };
    Message::new(version, xid, body)
}

/// The same as bytes, perhaps with some of them changed; what a version cannot say is left out.
fn mutated(random: &mut Sampler, version: Version, xid: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if encode(&right(random, version, xid), &mut bytes).is_err() {
        bytes.clear();
        return bytes;
    }
    if random.one_in(2) && bytes.len() > HEADER {
        for _ in 0..1 + random.below(3) {
            let at = HEADER + random.below(bytes.len() - HEADER);
            bytes[at] = if random.one_in(2) { random.bits() as u8 } else { bytes[at] ^ 1 << random.below(8) };
        }
    }
    bytes
}

#[test]
fn messages_with_changed_bytes_leave_a_switch_that_serves_others() {
    let rig = Rig::with(|openflow| openflow.echo = Duration::from_secs(3600));
    let (wanted, seed) = (asked("WEIR_MESSAGES", MESSAGES), seed(12));
    let mut random = Sampler::new(seed);
    let mut other = Controller::new(&rig, Version::V13);
    other.deaf_to_events();
    is_served(&mut other);
    let (mut said, mut refused, mut before) = (0, 0, None);
    let began = Instant::now();
    while said < wanted {
        let version = random.pick(Version::ALL);
        let mut controller = Controller::new(&rig, version);
        for _ in 0..BATCHES {
            let bytes: Vec<Vec<u8>> =
                (1..=BATCH as u32).map(|xid| mutated(&mut random, version, xid)).collect();
            said += bytes.iter().filter(|bytes| !bytes.is_empty()).count() as u64;
            controller.say_bytes(&bytes.concat());
            let heard = controller.until_done();
            refused += heard.iter().filter(|message| matches!(message.body, Body::Error(_))).count();
            is_served(&mut other);
        }
        drop(controller);
        // Groups and meters that are left are in nobody's way, but they are to be made again.
        other.say(Body::GroupMod(GroupMod {
            command: GroupCommand::Delete,
            group: Group { id: ALL_GROUPS, kind: weir_openflow::GroupKind::All, buckets: Vec::new() },
        }));
        assert_eq!(other.until_done(), []);
        before.get_or_insert_with(resident);
    }
    let (before, after) = (before.unwrap_or_default(), resident());
    println!(
        "seed {seed}: {said} messages in {:?}, {refused} refused, memory {before} kB before, {after} after",
        began.elapsed()
    );
    assert!(refused > 0 && after < before + GROWTH, "{before} kB before, {after} kB after");
}
