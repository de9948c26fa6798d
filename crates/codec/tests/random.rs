//! Random messages and random bytes: nothing panics, nothing takes more memory than a small multiple of its
//! bytes, and what can be read is written back to what reads the same.
//!
//! Each round takes a message that clients send and changes some of its bytes, so that most of it is right.
//! `WEIR_MESSAGES` says how many rounds; this is the fuzz target, with the seed in `WEIR_SEED`.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use weir_codec::*;
use weir_cpu::{CountingAllocator, Heap};
use weir_openflow::{Flow, Group, GroupKind, Meter, Names, PortNo, TableId};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const FLOWS: &str = concat!(include_str!("ovs/flows.txt"), include_str!("ovs/flows_otherwise.txt"));

/// Most bytes taken from the heap for each byte of a message: an action of 8 bytes becomes one of 80, and
/// lists grow by doubling.
const TAKEN: u64 = 64;
/// Bytes taken for any message.
const ALWAYS: u64 = 2048;

/// Messages of every kind in every version that has it.
fn samples() -> Vec<Vec<u8>> {
    let names = Names::default();
    let flows: Vec<Flow> =
        FLOWS.lines().map(|line| Flow::parse(line, &names).expect("the text is right")).collect();
    let group = |kind| {
        Group::parse(&format!("group_id=5,type={kind},bucket=watch_port:1,output:1"), &names)
            .expect("the text is right")
    };
    let meter = Meter::parse("meter=3 pktps burst bands=type=dscp_remark rate=7 burst_size=5 prec_level=2")
        .expect("the text is right");
    let mut bodies: Vec<Body> = Vec::new();
    for (place, flow) in flows.iter().enumerate() {
        for form in [FlowForm::Standard, FlowForm::Nxm] {
            bodies.push(Body::FlowMod(FlowMod {
                form,
                table: Some(TableId(0)),
                matching: flow.matching.clone(),
                instructions: flow.instructions.clone(),
                cookie: place as u64,
                ..FlowMod::default()
            }));
        }
        bodies.push(Body::PacketOut(PacketOut {
            buffer: None,
            in_port: PortNo(1),
            fields: weir_flow::Match::any(),
            actions: flow.instructions.apply.clone(),
            data: vec![1; 60],
        }));
        bodies.push(Body::FlowRemoved(FlowRemoved {
            form: if place % 2 == 0 { FlowForm::Standard } else { FlowForm::Nxm },
            table: TableId(3),
            matching: flow.matching.clone(),
            cookie: 1,
            priority: 2,
            reason: 1,
            duration: std::time::Duration::new(3, 4),
            idle_timeout: 5,
            hard_timeout: 0,
            packets: 6,
            bytes: 7,
        }));
        for request in [Request::Flow, Request::Aggregate] {
            let form = if place % 2 == 0 { FlowForm::Standard } else { FlowForm::Nxm };
            let request =
                request(FlowQuery { form, matching: flow.matching.clone(), ..FlowQuery::default() });
            bodies.push(Body::MultipartRequest(MultipartRequest { more: false, request }));
        }
        let monitor = MonitorRequest {
            id: 7,
            command: MonitorCommand::Add,
            flags: 0x1f,
            table: None,
            out_port: None,
            out_group: None,
            matching: flow.matching.clone(),
        };
        let request = Request::Monitor(vec![monitor.clone(), monitor]);
        bodies.push(Body::MultipartRequest(MultipartRequest { more: false, request }));
    }
    for form in [FlowForm::Standard, FlowForm::Nxm] {
        let stats = |flow: &Flow| FlowStats {
            flow: flow.clone(),
            duration: std::time::Duration::new(1, 2),
            idle_age: None,
            hard_age: None,
            packets: 3,
            bytes: 4,
        };
        let reply = Reply::Flow(form, flows.iter().map(stats).collect());
        bodies.push(Body::MultipartReply(MultipartReply { more: true, reply }));
    }
    let updates = flows.iter().map(|flow| FlowUpdate::Full {
        event: UpdateEvent::Removed(2),
        table: flow.table,
        priority: 3,
        idle_timeout: 0,
        hard_timeout: 0,
        cookie: 9,
        matching: flow.matching.clone(),
        instructions: flow.instructions.clone(),
    });
    let reply = Reply::Monitor(updates.chain([FlowUpdate::Abbreviated(5)]).collect());
    bodies.push(Body::MultipartReply(MultipartReply { more: false, reply }));
    for kind in ["all", "select", "indirect", "ff"] {
        for command in [GroupCommand::Add, GroupCommand::Delete, GroupCommand::InsertBucket(BucketAt::Last)] {
            bodies.push(Body::GroupMod(GroupMod { command, group: group(kind) }));
        }
    }
    let groups = vec![group("select"), Group { kind: GroupKind::All, ..group("all") }];
    for reply in [Reply::GroupDesc(groups), Reply::MeterConfig(vec![meter.clone(), meter.clone()])] {
        bodies.push(Body::MultipartReply(MultipartReply { more: false, reply }));
    }
    bodies.push(Body::MeterMod(MeterMod { command: MeterCommand::Add, meter }));
    bodies.push(Body::Hello(Hello::offering(Version::ALL)));
    let error = ErrorMessage { number: Code::FlowOverlap.number(Version::V13), data: vec![5; 64] };
    bodies.push(Body::Error(error));
    bodies.push(Body::ServicesRequest(7));
    let about =
        |number: u16| ServiceAbout { number, name: format!("service.{number}"), kind: "noop".to_owned() };
    bodies.push(Body::ServicesReply(ServiceList { next: 9, services: (1..9).map(about).collect() }));
    bodies.push(Body::CtFlush(CtFlush {
        protocol: 6,
        zone: Some(5),
        original: Some(CtTuple { source_port: Some(7), icmp_code: Some(1), ..CtTuple::default() }),
        reply: Some(CtTuple {
            source: Some("2001:db8::1".parse().expect("it is right")),
            ..CtTuple::default()
        }),
    }));
    for form in [PacketInForm::Standard, PacketInForm::Nicira, PacketInForm::Nicira2] {
        bodies.push(Body::PacketIn(PacketIn {
            form,
            total_len: 64,
            fields: flows[14].matching.clone(),
            data: vec![7; 64],
            ..PacketIn::default()
        }));
    }
    let mut out = Vec::new();
    for &version in Version::ALL {
        for body in &bodies {
            let mut bytes = Vec::new();
            let message = Message::new(version, 77, body.clone());
            // Not every version has every message, action and field.
            if encode(&message, &mut bytes).is_ok() {
                let add = BundleAdd { id: 5, flags: BundleFlags::default(), message: Box::new(message) };
                // A reply may be several.
                let mut rest = bytes.as_slice();
                while let Ok(Some(one)) = frame(rest) {
                    out.push(one.to_vec());
                    rest = &rest[one.len()..];
                }
                bytes.clear();
                if encode(&Message::new(version, 77, Body::BundleAdd(add)), &mut bytes).is_ok() {
                    out.push(bytes);
                }
            }
        }
    }
    assert!(out.len() > 500, "there are only {} samples", out.len());
    out
}

/// The messages of a connection's bytes, by the lengths in their headers.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let (one, rest) = bytes.split_at_checked(length.max(HEADER)).unwrap_or((bytes, &[]));
        bytes = rest;
        Some(one)
    })
}

/// Reads bytes, watching what is taken; what is read is written, and reads the same again.
fn read(bytes: &[u8], context: Context) -> Result<(), TestCaseError> {
    let before = Heap::now();
    let read = decode_with(bytes, context);
    let taken = Heap::now().taken - before.taken;
    let most = ALWAYS + TAKEN * bytes.len() as u64;
    prop_assert!(taken <= most, "{taken} bytes were taken for a message of {}", bytes.len());
    match read {
        Err(error) => {
            prop_assert!(error.data.len() <= ERROR_DATA && bytes.starts_with(&error.data));
            let mut out = Vec::new();
            prop_assert!(encode(&error.reply(), &mut out).is_ok());
            prop_assert!(decode(&out).is_ok());
        }
        Ok(message) => {
            let mut once = Vec::new();
            if encode_with(&message, context, &mut once).is_ok() {
                // A reply with entries that Open vSwitch's tools do not know is several messages.
                let mut twice = Vec::new();
                let again: Vec<_> = messages(&once).map(|one| decode_with(one, context)).collect();
                for again in again.iter().flatten() {
                    prop_assert!(encode_with(again, context, &mut twice).is_ok());
                }
                prop_assert_eq!(&once, &twice, "{:?}\n{:?}", message, again);
            }
        }
    }
    Ok(())
}

fn rounds() -> u32 {
    std::env::var("WEIR_MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000)
}

fn seed() -> u64 {
    std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20)
}

#[test]
fn every_message_reads_back_as_it_was_written() {
    assert!(Heap::is_counted());
    for bytes in samples() {
        let message = decode(&bytes).unwrap_or_else(|error| panic!("{error}: {} bytes", bytes.len()));
        let mut again = Vec::new();
        encode(&message, &mut again).expect("what was read can be written");
        assert_eq!(again, bytes, "{message:?}");
        read(&bytes, Context::default()).expect("it is read");
    }
}

#[test]
fn changed_messages_neither_panic_nor_take_memory_nor_change_when_they_are_written_again() {
    let samples = samples();
    let change = prop_oneof![
        3 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, value)| (at, vec![value], false)),
        1 => (any::<prop::sample::Index>(), any::<[u8; 2]>()).prop_map(|(at, value)| (at, value.to_vec(), false)),
        1 => (any::<prop::sample::Index>(), 0_u8..9).prop_map(|(at, value)| (at, vec![0, value * 8], false)),
        1 => (any::<prop::sample::Index>(), Just((Vec::new(), true))).prop_map(|(at, (v, cut))| (at, v, cut)),
    ];
    let changes = prop::collection::vec(change, 1..4);
    let config = Config {
        cases: rounds(),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed()),
        ..Config::default()
    };
    let strategy = (any::<prop::sample::Index>(), changes, any::<bool>(), any::<bool>());
    let done = TestRunner::new(config).run(&strategy, |(which, changes, fix, flow_mod_table_id)| {
        let mut bytes = which.get(&samples).clone();
        for (at, value, cut) in changes {
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at.max(HEADER));
            }
            for (place, byte) in (at..).zip(value) {
                if let Some(old) = bytes.get_mut(place) {
                    *old = byte;
                }
            }
        }
        // A length that is right lets more of the message be read.
        if fix {
            let length = (bytes.len() as u16).to_be_bytes();
            bytes[2..4].copy_from_slice(&length);
        }
        read(&bytes, Context { flow_mod_table_id })
    });
    done.unwrap_or_else(|failure| panic!("WEIR_SEED={}: {failure}", seed()));
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(5000) })]

    #[test]
    fn random_bytes_are_refused_or_read(
        version in prop::sample::select(vec![1_u8, 4, 5, 6, 2, 9]),
        kind in 0_u8..40,
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = vec![version, kind, 0, (body.len() + HEADER) as u8, 0, 0, 0, 1];
        bytes.extend(body);
        read(&bytes, Context::default())?;
    }
}
