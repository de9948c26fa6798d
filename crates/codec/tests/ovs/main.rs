//! The codec against `ovs-ofctl`: what it sends is understood, and written back byte by byte; what we
//! answer it understands.

mod ct;
mod prints;
mod support;

use std::io::Write;
use std::time::Duration;
use support::{Session, hex, name, ofctl};
use weir_codec::*;
use weir_openflow::{
    Bucket, Flow, FlowMod as Change, Group, GroupId, GroupKind, Meter, MeterId, Names, PortNo,
};

/// Flows whose bytes mean in every version what their text means.
const FLOWS: &str = include_str!("flows.txt");
/// Flows that some version has other words for, or that not all can say.
const OTHERWISE: &str = include_str!("flows_otherwise.txt");

fn names() -> Names {
    let mut names = Names::default();
    names.add_port("p1", PortNo(1));
    names.add_port("p2", PortNo(2));
    names
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
    file.write_all(text.as_bytes()).expect("and written");
    file
}

/// Decodes a message and checks that it is written back as it was.
fn back(bytes: &[u8], context: &mut Context) -> Result<Message, String> {
    let message = decode_with(bytes, *context).map_err(|error| format!("{error}\n{}", hex(bytes)))?;
    if let Body::FlowModTableId(on) = message.body {
        context.flow_mod_table_id = on;
    }
    let mut again = Vec::new();
    encode_with(&message, *context, &mut again).map_err(|error| format!("{error}: {message:?}"))?;
    if again == bytes {
        Ok(message)
    } else {
        Err(format!("{message:?}\n was {}\n now {}", hex(bytes), hex(&again)))
    }
}

/// What was sent, each written back as it was.
fn all_back(session: &Session, what: &str) -> Vec<Message> {
    let mut context = Context::default();
    let back = session.received.iter().map(|bytes| back(bytes, &mut context));
    let all: Result<Vec<Message>, String> = back.collect();
    all.unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[test]
fn flows_of_ovs_ofctl_mean_what_their_text_means_and_are_written_back_byte_by_byte() {
    let (file, names) = (written(FLOWS), names());
    let path = file.path().to_str().expect("its name is text");
    for &version in Version::ALL {
        let session = ofctl(version, &["add-flows", "@", path], |_| None);
        assert!(session.ok, "{version:?}: {}", session.stderr);
        let sent = all_back(&session, name(version));
        let mut lines = FLOWS.lines();
        for message in sent {
            let Body::FlowMod(flow) = message.body else { continue };
            let line = lines.next().expect("one message a line");
            let mut read = Change::parse(line, &names).expect("the text is right");
            if let (Change::Add(flow), Version::V10) = (&mut read, version) {
                // An entry of OpenFlow 1.0 that is added again begins anew.
                flow.flags.reset_counts = true;
            }
            assert_eq!(read, flow.change(version), "{version:?} {line}");
        }
        assert_eq!(lines.next(), None, "{version:?}: not all were sent");
    }
}

#[test]
fn flows_that_versions_say_otherwise_are_written_back_byte_by_byte() {
    for &version in Version::ALL {
        // OpenFlow 1.0 has no tags to push, and no instructions.
        let late = [
            "actions=push_vlan:0x8100,set_field:0x1005->vlan_vid,output:1",
            "table=3,priority=9,actions=write_metadata:5/7,goto_table:5",
        ];
        let late = late.into_iter().filter(|_| version > Version::V10);
        for line in OTHERWISE.lines().chain(late) {
            let session = ofctl(version, &["add-flow", "@", line], |_| None);
            assert!(session.ok, "{version:?} {line}: {}", session.stderr);
            let sent = all_back(&session, line);
            assert!(sent.iter().any(|it| matches!(it.body, Body::FlowMod(_))), "{version:?} {line}");
        }
    }
}

/// What else `ovs-ofctl` does, in all versions or from 1.3 on.
const COMMANDS: &[(Version, &[&str])] = &[
    (Version::V10, &["show", "@"]),
    (Version::V10, &["del-flows", "@"]),
    (Version::V10, &["del-flows", "@", "tcp,out_port=1"]),
    (Version::V10, &["del-flows", "@", "cookie=5/0xf,table=3"]),
    (Version::V10, &["--strict", "del-flows", "@", "priority=3,ip,nw_dst=10.0.0.0/8"]),
    (Version::V10, &["mod-flows", "@", "ip,actions=output:2"]),
    (Version::V10, &["--strict", "mod-flows", "@", "priority=7,ip,actions=output:2"]),
    (Version::V10, &["dump-flows", "@", "table=1,ip,nw_src=10.0.0.0/8"]),
    (Version::V10, &["dump-flows", "@", "cookie=5/-1,reg3=7"]),
    (Version::V10, &["dump-aggregate", "@", "out_port=1"]),
    (Version::V10, &["dump-tables", "@"]),
    (Version::V10, &["mod-port", "@", "p1", "down"]),
    (
        Version::V10,
        &["packet-out", "@", "in_port=1 packet=0102030405060708090a0b0c0d0e0f10 actions=output:2"],
    ),
    (Version::V10, &["probe", "@"]),
    (Version::V10, &["ct-flush", "@", "zone=5,ct_nw_src=1.2.3.4,ct_nw_proto=6,ct_tp_dst=80"]),
    (Version::V10, &["add-group", "@", "group_id=1,type=all,bucket=output:1,bucket=output:2"]),
    (
        Version::V10,
        &["add-group", "@", "group_id=2,type=select,bucket=weight:5,output:1,bucket=weight:7,output:2"],
    ),
    (
        Version::V13,
        &["mod-group", "@", "group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2"],
    ),
    (Version::V13, &["--may-create", "mod-group", "@", "group_id=3,type=indirect,bucket=output:1"]),
    (Version::V10, &["del-groups", "@", "group_id=3"]),
    (Version::V10, &["del-groups", "@"]),
    (Version::V15, &["insert-buckets", "@", "group_id=1,command_bucket_id=last,bucket=bucket_id:7,output:1"]),
    (Version::V15, &["remove-buckets", "@", "group_id=1,command_bucket_id=first"]),
    (Version::V13, &["add-meter", "@", "meter=1 kbps burst stats bands=type=drop rate=10 burst_size=5"]),
    (Version::V13, &["mod-meter", "@", "meter=1 pktps bands=type=dscp_remark rate=10 prec_level=1"]),
    (Version::V13, &["del-meter", "@", "meter=1"]),
    (Version::V13, &["del-meters", "@"]),
    (Version::V13, &["add-flow", "@", "ip,actions=meter:1,output:1"]),
    (
        Version::V13,
        &["add-flow", "@", "ip,actions=clear_actions,write_actions(output:1,dec_ttl),goto_table:7"],
    ),
    (Version::V14, &["add-flow", "@", "importance=7,actions=drop"]),
    (Version::V14, &["mod-table", "@", "0", "evict"]),
    (Version::V13, &["--bundle", "add-flow", "@", "ip,actions=output:1"]),
    (Version::V14, &["bundle", "@"]),
];

#[test]
fn whatever_ovs_ofctl_sends_is_written_back_byte_by_byte() {
    let bundle = written("flow add ip actions=output:1\ngroup add group_id=1,type=all,bucket=output:1\n");
    let path = bundle.path().to_str().expect("its name is text");
    let mut wrong = String::new();
    for (since, command) in COMMANDS {
        for &version in Version::ALL.iter().filter(|version| *version >= since) {
            let mut words = command.to_vec();
            if words[0] == "bundle" {
                words.push(path);
            }
            let session = ofctl(version, &words, |_| None);
            let mut context = Context::default();
            if !session.ok || session.received.is_empty() {
                wrong += &format!(
                    "{version:?} {words:?}: {} messages, {}\n",
                    session.received.len(),
                    session.stderr
                );
            }
            for bytes in &session.received {
                if let Err(error) = back(bytes, &mut context) {
                    wrong += &format!("{version:?} {words:?}: {error}\n");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A flow with counters, as dumps have it.
fn counted(flow: Flow) -> FlowStats {
    FlowStats {
        flow,
        duration: Duration::new(7, 5_000_000),
        idle_age: None,
        hard_age: None,
        packets: 11,
        bytes: 1100,
    }
}

/// A line of a dump without what is not the flow.
fn flow_of(line: &str, names: &Names) -> Option<Flow> {
    let line = line.trim();
    let counters = ["duration=", "n_packets=", "n_bytes=", "idle_age=", "hard_age="];
    let own = |word: &&str| !counters.iter().any(|counter| word.starts_with(counter));
    let (head, actions) = line.split_once(" actions=")?;
    let head: Vec<&str> = head.split(", ").filter(own).collect();
    Some(
        Flow::parse(&format!("{} actions={actions}", head.join(",")), names)
            .expect("a dump is text of flows"),
    )
}

#[test]
fn flows_that_we_dump_are_printed_by_ovs_ofctl_as_they_are() {
    let names = names();
    let flows: Vec<Flow> =
        FLOWS.lines().map(|line| Flow::parse(line, &names).expect("the text is right")).collect();
    // Enough for several messages.
    let many: Vec<FlowStats> = flows.iter().cycle().take(2000).cloned().map(counted).collect();
    for &version in Version::ALL {
        let dumped = many.clone();
        let session = ofctl(version, &["--no-names", "dump-flows", "@"], move |request| match request {
            Request::Flow(query) => Some(Reply::Flow(query.form, dumped.clone())),
            _ => None,
        });
        assert!(session.ok && !session.stdout.contains("error"), "{version:?}: {}", session.stderr);
        let printed: Vec<Flow> = session.stdout.lines().filter_map(|line| flow_of(line, &names)).collect();
        assert_eq!(
            printed.len(),
            many.len(),
            "{version:?}: {}",
            session.stdout.lines().last().unwrap_or_default()
        );
        for (printed, sent) in printed.iter().zip(&many) {
            let mut sent = sent.flow.clone();
            if version == Version::V10 {
                // Its statistics say nothing of flags.
                sent.flags = printed.flags;
            }
            // An entry that is dumped was checked before.
            sent.flags.check_overlap = printed.flags.check_overlap;
            assert_eq!(*printed, sent, "{version:?}");
        }
    }
}

#[test]
fn other_answers_are_printed_by_ovs_ofctl() {
    let group = Group {
        id: GroupId(7),
        kind: GroupKind::Select,
        buckets: vec![Bucket {
            id: 0,
            weight: 5,
            watch_port: None,
            watch_group: None,
            actions: vec![weir_openflow::Action::Output(PortNo(2))],
        }],
    };
    let meter =
        Meter::parse("meter=3 kbps burst stats bands=type=drop rate=10 burst_size=5").expect("it is right");
    let answers = move |request: &Request| {
        let counts = vec![(11, 1100)];
        Some(match request {
            Request::Desc => Reply::Desc(Desc {
                manufacturer: "us".to_owned(),
                hardware: "any".to_owned(),
                software: "Weir".to_owned(),
                serial: "1".to_owned(),
                datapath: "here".to_owned(),
            }),
            Request::Aggregate(query) => {
                Reply::Aggregate(query.form, Aggregate { packets: 11, bytes: 1100, flows: 3 })
            }
            Request::Port(_) => Reply::Port(vec![PortStats {
                number: PortNo(1),
                rx_packets: 1,
                tx_packets: 2,
                rx_bytes: 3,
                tx_bytes: 4,
                rx_dropped: 5,
                tx_dropped: 6,
                rx_errors: 7,
                tx_errors: 8,
                rx_frame_err: 9,
                rx_over_err: 10,
                rx_crc_err: 11,
                collisions: 12,
                duration: Some(Duration::new(5, 0)),
            }]),
            Request::GroupDesc(_) => Reply::GroupDesc(vec![group.clone()]),
            Request::Group(_) => Reply::Group(vec![GroupStats {
                group: GroupId(7),
                references: 2,
                packets: 11,
                bytes: 1100,
                duration: Duration::new(5, 0),
                buckets: counts,
            }]),
            Request::MeterConfig(_) => Reply::MeterConfig(vec![meter.clone()]),
            Request::Meter(_) => Reply::Meter(vec![MeterStats {
                meter: MeterId(3),
                flows: 2,
                packets: 11,
                bytes: 1100,
                duration: Duration::new(5, 0),
                bands: counts,
            }]),
            Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
                most: 100,
                bands: 6,
                capabilities: 15,
                most_bands: 8,
                most_colours: 0,
                features: 0,
            }),
            Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
                kinds: 15,
                capabilities: 7,
                most: [5; 4],
                actions: [0x1f; 4],
            }),
            _ => return None,
        })
    };
    let all = Version::V10;
    let cases: &[(Version, &str, &str)] = &[
        (all, "dump-desc", "Software: Weir"),
        (all, "dump-aggregate", "packet_count=11 byte_count=1100 flow_count=3"),
        (all, "dump-ports", "rx pkts=1, bytes=3, drop=5, errs=7, frame=9, over=10, crc=11"),
        (all, "dump-ports", "tx pkts=2, bytes=4, drop=6, errs=8, coll=12"),
        (all, "dump-groups", "group_id=7,type=select,bucket="),
        (all, "dump-groups", "weight:5,actions=output:2"),
        (all, "dump-group-stats", "group_id=7,duration=5s,ref_count=2,packet_count=11,byte_count=1100"),
        (all, "dump-group-features", "select group:"),
        (all, "show", "1(p1): addr:02:00:00:00:00:01"),
        (all, "show", "FIBER"),
        (all, "dump-tables", "table 0"),
        (Version::V13, "dump-meters", "type=drop rate=10 burst_size=5"),
        (Version::V13, "meter-stats", "meter:3 flow_count:2 packet_in_count:11 byte_in_count:1100"),
        (Version::V13, "meter-features", "max_meter:100 max_bands:8"),
        (Version::V14, "dump-table-desc", "eviction=off"),
        (Version::V13, "dump-table-features", "max_entries=1000000"),
    ];
    for &(since, command, expected) in cases {
        for &version in Version::ALL.iter().filter(|version| **version >= since) {
            let session = ofctl(version, &["--no-names", command, "@"], answers.clone());
            assert!(session.ok, "{version:?} {command}: {}", session.stderr);
            // Names are not asked for but here.
            let expected = if command == "show" { expected } else { &expected.replace("(p1)", "") };
            assert!(session.stdout.contains(expected), "{version:?} {command}:\n{}", session.stdout);
        }
    }
}

#[test]
fn an_update_of_a_flow_monitor_has_the_form_that_open_vswitch_gives_it_on_1_3() {
    // As Open vSwitch 3.1 told a watcher of a flow that was added.
    let words = [
        0x0413_0058_0000_0000_u64,
        0xffff_0000_0000_0000,
        0x4f4e_4600_0000_074e,
        0x0040_0000_0000_004d,
        0x0005_0000_000c_0000,
        0x0000_0000_0000_0055,
        0x0001_000c_8000_0004,
        0x0000_0001_0000_0000,
        0x0004_0018_0000_0000,
        0x0000_0010_0000_0002,
        0,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let message = decode(&bytes).expect("it is right");
    let Body::MultipartReply(MultipartReply { reply: Reply::Monitor(updates), .. }) = &message.body else {
        panic!("{message:?}");
    };
    let [FlowUpdate::Full { event: UpdateEvent::Added, priority: 77, idle_timeout: 5, cookie: 0x55, .. }] =
        updates.as_slice()
    else {
        panic!("{updates:?}");
    };
    let mut out = Vec::new();
    encode(&message, &mut out).expect("it can be said");
    assert_eq!(out, bytes);
}
