//! Wrong messages, to a switch with a real datapath: truncated, oversized, of another version, out of order, at
//! random. Each is refused by the error that OpenFlow has for it, and another controller is served meanwhile.
//!
//! `WEIR_MESSAGES` says how many there are, `WEIR_SEED` which.

use crate::controller::Controller;
use crate::rig::Rig;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_codec::{Body, ErrorNumber, FlowQuery, Header, Reply, Request, Version, frame};
use weir_flow::samples::Sampler;
use weir_testkit::asked;

/// Messages where nobody says how many.
const MESSAGES: u64 = 40_000;

/// Messages before the other controller asks for something.
const BATCH: u32 = 500;

/// Batches of a connection.
const BATCHES: u64 = 8;

/// By how much the memory of this process may grow: 64 MiB, in kilobytes.
const GROWTH: u64 = 64 << 10;

/// Numbers of messages (OpenFlow 1.3.5, section 7.1).
const ERROR: u8 = 1;
const EXPERIMENTER: u8 = 4;
const FEATURES_REPLY: u8 = 6;
const PACKET_IN: u8 = 10;
const PACKET_OUT: u8 = 13;
const FLOW_MOD: u8 = 14;
const GROUP_MOD: u8 = 15;
const MULTIPART: u8 = 18;
const BARRIER: u8 = 20;
const ROLE: u8 = 24;
const METER_MOD: u8 = 29;

/// The transaction of a barrier of ours; those at random are below.
const OURS: u32 = 0xf000_0000;

/// A message of OpenFlow 1.3, its length as it is.
fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap();
    let mut out = vec![4, kind];
    out.extend(length.to_be_bytes());
    out.extend(xid.to_be_bytes());
    out.extend(body);
    out
}

/// A flow-mod: command, flags, match (with its type, length and padding) and instructions.
fn flow_mod(command: u8, flags: u16, matching: &[u8], instructions: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 40];
    body[17] = command;
    body[24..36].fill(0xff); // no buffer, any port, any group
    body[36..38].copy_from_slice(&flags.to_be_bytes());
    body.extend(matching);
    body.extend(instructions);
    body
}

/// A match of these fields.
fn fields(fields: &[u8]) -> Vec<u8> {
    let length = 4 + fields.len();
    let mut out = vec![0, 1];
    out.extend(u16::try_from(length).unwrap().to_be_bytes());
    out.extend(fields);
    out.resize(length.next_multiple_of(8), 0);
    out
}

/// An instruction that applies an action.
fn apply(action: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 4];
    out.extend(u16::try_from(8 + action.len()).unwrap().to_be_bytes());
    out.extend([0; 4]);
    out.extend(action);
    out
}

/// A message that is wrong in a known way, and the error's type and code (OpenFlow 1.3.5, section 7.4.4).
fn wrong(random: &mut Sampler, xid: u32) -> (Vec<u8>, (u16, u16)) {
    let none = fields(&[]);
    let arp = [0x80_u8, 0, 0x0a, 2, 8, 6];
    let output = |port: u32| {
        let mut action = vec![0, 0, 0, 16];
        action.extend(port.to_be_bytes());
        action.extend([0; 8]);
        apply(&action)
    };
    let adds = |matching: &[u8], instructions: &[u8]| {
        message(FLOW_MOD, xid, &flow_mod(0, 0, matching, instructions))
    };
    match random.below(23) {
        0 => {
            let mut bytes = message(BARRIER, xid, &[]);
            bytes[0] = random.pick(&[0, 1, 2, 3, 5, 6, 7, 255]);
            (bytes, (1, 0)) // BAD_REQUEST/BAD_VERSION
        }
        1 => (message(30 + random.below(200) as u8, xid, &vec![0; random.below(64)]), (1, 1)), // BAD_TYPE
        2 => (message(MULTIPART, xid, &[0, 99, 0, 0, 0, 0, 0, 0]), (1, 2)), // BAD_MULTIPART
        3 => (message(EXPERIMENTER, xid, &[0, 1, 2, 3, 0, 0, 0, 0]), (1, 3)), // BAD_EXPERIMENTER
        4 => (message(EXPERIMENTER, xid, &[0, 0, 0x23, 0x20, 0, 0, 9, 9]), (1, 4)), // BAD_EXP_TYPE
        5 => (message(FLOW_MOD, xid, &vec![0; random.below(40)]), (1, 6)),  // BAD_LEN: truncated
        6 => {
            let most = random.pick(&[8, 8, 8, 100, 100, 60_000]);
            (message(BARRIER, xid, &vec![7; 1 + random.below(most)]), (1, 6)) // oversized
        }
        7 => (message(MULTIPART, xid, &[0, 1, 0, 0, 0, 0, 0, 0, 0]), (1, 6)),
        8 => (message(FEATURES_REPLY, xid, &[0; 24]), (1, 1)), // of a switch, not to one
        9 => {
            let mut body = vec![0; 16]; // buffer, length, reason, table, cookie
            body.extend(&none);
            body.extend([0; 2]);
            (message(PACKET_IN, xid, &body), (1, 1))
        }
        10 => (message(FLOW_MOD, xid, &flow_mod(9, 0, &none, &[])), (5, 6)), // FLOW_MOD_FAILED/BAD_COMMAND
        11 => (message(FLOW_MOD, xid, &flow_mod(0, 0x8000, &none, &[])), (5, 7)), // BAD_FLAGS
        12 => (adds(&[0, 7, 0, 4, 0, 0, 0, 0], &[]), (4, 0)),                // BAD_MATCH/BAD_TYPE
        13 => (adds(&fields(&[0x80, 0, 0x7e, 1, 0]), &[]), (4, 6)),          // BAD_FIELD
        14 => (adds(&fields(&[arp, arp].concat()), &[]), (4, 10)),           // DUP_FIELD
        15 => (adds(&fields(&[0x80, 0, 0x16, 4, 10, 0, 0, 1]), &[]), (4, 9)), // BAD_PREREQ: nw_src alone
        16 => (adds(&none, &[0, 77, 0, 8, 0, 0, 0, 0]), (3, 0)),             // BAD_INSTRUCTION/UNKNOWN_INST
        17 => (adds(&none, &apply(&[0, 99, 0, 8, 0, 0, 0, 0])), (2, 0)),     // BAD_ACTION/BAD_TYPE
        18 => (adds(&none, &apply(&[0, 0, 0, 8, 0, 0, 0, 1])), (2, 1)),      // BAD_LEN: a short output
        19 => (adds(&none, &output(u32::MAX)), (2, 4)),                      // BAD_OUT_PORT: any
        20 => (message(GROUP_MOD, xid, &[0, 9, 0, 0, 0, 0, 0, 1]), (6, 11)), // GROUP_MOD_FAILED/BAD_COMMAND
        21 => (
            message(
                METER_MOD,
                xid,
                &[0, 1, 0, 1, 0, 0xfe, 0xdc, 0xba, 0, 1, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (12, 3),
        ), // METER_MOD_FAILED/UNKNOWN_METER
        _ => {
            let mut body = vec![0; 16];
            body[3] = 9;
            (message(ROLE, xid, &body), (11, 2)) // ROLE_REQUEST_FAILED/BAD_ROLE
        }
    }
}

/// A message of which nothing is known but that its length is right.
fn noise(random: &mut Sampler, xid: u32) -> Vec<u8> {
    let longest = random.pick(&[0, 4, 8, 16, 40, 48, 100, 1000, 9000]);
    let body: Vec<u8> =
        (0..random.below(longest + 1)).map(|_| random.bits() as u8 & random.bits() as u8).collect();
    let kind = if random.below(4) == 0 {
        random.pick(&[FLOW_MOD, PACKET_OUT, GROUP_MOD])
    } else {
        random.below(36) as u8
    };
    let mut bytes = message(kind, xid, &body);
    if random.below(16) == 0 {
        bytes[0] = random.bits() as u8;
    }
    bytes
}

/// What is said until the barrier behind it all is answered.
fn all_of(controller: &mut Controller, bytes: &[u8], barrier: u32) -> Vec<(u32, Body)> {
    controller.say_bytes(bytes);
    controller.say_bytes(&message(BARRIER, barrier, &[]));
    let mut heard = Vec::new();
    loop {
        let message = controller.hear();
        if message.xid == barrier {
            assert_eq!(message.body, Body::BarrierReply);
            return heard;
        }
        heard.push((message.xid, message.body));
    }
}

/// Says wrong messages; each has its error and nothing else is said.
fn wrong_ones(controller: &mut Controller, random: &mut Sampler, barrier: u32) {
    let said: Vec<_> = (1..=BATCH).map(|xid| wrong(random, xid)).collect();
    let bytes: Vec<u8> = said.iter().flat_map(|(bytes, _)| bytes).copied().collect();
    let mut errors = BTreeMap::new();
    for (xid, body) in all_of(controller, &bytes, barrier) {
        let Body::Error(error) = body else { panic!("{xid}: {body:?}") };
        assert!(errors.insert(xid, error).is_none(), "{xid} is refused twice");
    }
    for (xid, (bytes, (kind, code))) in (1..).zip(&said) {
        let error = errors.get(&xid).unwrap_or_else(|| panic!("nothing is said of {:?}", &bytes[..8]));
        let number = ErrorNumber::Standard { kind: *kind, code: *code };
        assert_eq!(error.number, number, "of {:?}", &bytes[..bytes.len().min(80)]);
        assert!(
            error.data.len() >= bytes.len().min(64) && bytes.starts_with(&error.data),
            "{:?}",
            error.data
        );
    }
    assert_eq!(errors.len(), said.len());
}

/// Says anything; of each message there is one error at most, and the connection stays.
fn noisy_ones(controller: &mut Controller, random: &mut Sampler, barrier: u32) {
    let bytes: Vec<u8> = (1..=BATCH).flat_map(|xid| noise(random, xid)).collect();
    let mut errors = BTreeMap::<u32, u32>::new();
    for (xid, body) in all_of(controller, &bytes, barrier) {
        if matches!(body, Body::Error(_)) {
            *errors.entry(xid).or_default() += 1;
        }
    }
    let twice = errors.iter().find(|(xid, count)| **count > 1 && (1..=BATCH).contains(*xid));
    assert_eq!(twice, None);
    assert!(!errors.is_empty());
}

/// A connection that is to end: with a length that cannot be, in the middle of a message, or without a hello.
fn broken_one(rig: &Rig, random: &mut Sampler) {
    let mut stream = UnixStream::connect(rig.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let hello = message(0, 1, &[]);
    // What is said, what the switch answers, and whether it ends the connection by itself.
    let (bytes, refusal, ends) = match random.below(4) {
        0 => ([hello, vec![4, BARRIER, 0, random.below(8) as u8, 0, 0, 0, 9]].concat(), None, true),
        1 => ([hello, vec![4, FLOW_MOD, 0xff, 0xff, 0, 0, 0, 9, 1, 2, 3]].concat(), None, false),
        2 => (message(BARRIER, 9, &[]), Some((1, 1)), true), // BAD_TYPE: the first is to be a hello
        _ => (vec![0x99, 0, 0, 8, 0, 0, 0, 9, 4], None, false), // a hello of another version, and a piece
    };
    stream.write_all(&bytes).unwrap();
    if !ends {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut heard = Vec::new();
    if let Err(error) = stream.read_to_end(&mut heard) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    let mut errors = Vec::new();
    let mut rest = heard.as_slice();
    while let Some(next) = frame(rest).unwrap() {
        if Header::peek(next).unwrap().kind == ERROR {
            errors.push((u16::from_be_bytes([next[8], next[9]]), u16::from_be_bytes([next[10], next[11]])));
        }
        rest = &rest[next.len()..];
    }
    assert_eq!(errors, Vec::from_iter(refusal), "to {bytes:?}");
}

/// Memory that this process holds, in kilobytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Another controller is served: its entry is there, what others left goes.
pub(crate) fn is_served(other: &mut Controller) {
    other.say_bytes(&message(FLOW_MOD, 1, &{
        let mut body = flow_mod(3, 0, &fields(&[]), &[]); // delete, in all tables
        body[16] = 0xff;
        body
    }));
    other.add("priority=7,in_port=1,actions=output:2");
    match other.multipart(Request::Flow(FlowQuery::default())) {
        Reply::Flow(_, flows) => assert_eq!(flows.len(), 1, "{flows:?}"),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn wrong_messages_are_refused_with_their_error_and_another_controller_is_served_meanwhile() {
    // Nobody is asked whether he is there, however long the machine takes.
    let rig = Rig::with(|openflow| openflow.echo = Duration::from_secs(3600));
    let (wanted, seed) = (asked("WEIR_MESSAGES", MESSAGES), weir_testkit::seed(11));
    let mut random = Sampler::new(seed);
    let mut other = Controller::new(&rig, Version::V13);
    // It asks; what becomes of others' entries and ports is not its concern.
    other.deaf_to_events();
    is_served(&mut other);
    let (mut said, mut broken, mut before) = (0, 0, None);
    while said < wanted {
        for ones in [wrong_ones, noisy_ones] {
            let mut controller = Controller::new(&rig, Version::V13);
            for number in 0..BATCHES {
                ones(&mut controller, &mut random, OURS + number as u32);
                is_served(&mut other);
                said += u64::from(BATCH);
            }
        }
        for _ in 0..4 {
            broken_one(&rig, &mut random);
            broken += 1;
        }
        // The first round fills what is kept for later ones.
        before.get_or_insert_with(resident);
    }
    let (before, after) = (before.unwrap_or_default(), resident());
    println!(
        "seed {seed}: {said} wrong messages, {broken} broken connections, memory {before} kB before, {after} after"
    );
    assert!(after < before + GROWTH, "{before} kB before, {after} kB after");
}
