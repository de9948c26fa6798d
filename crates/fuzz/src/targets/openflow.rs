//! OpenFlow on the wire: a message, a stream in pieces, a whole session with a switch.

use super::switch::Listening;
use super::text::{FLOWS, names};
use crate::{Budget, Input, Outcome, Target, refused};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_codec::*;
use weir_openflow::{Flow, Group, Meter};

/// An action of 8 bytes becomes one of 80, and lists grow by doubling; read and written twice.
const BUDGET: Budget = Budget::of(64 << 10, 512, 400, 8);

/// Messages of all versions that say much.
pub(super) fn messages() -> Vec<Vec<u8>> {
    let flows = FLOWS.lines().map(|line| Flow::parse(line, names()).expect("the text is right"));
    let mut bodies: Vec<Body> = vec![
        Body::Hello(Hello::offering(Version::ALL)),
        Body::EchoRequest(b"are you there".to_vec()),
        Body::FeaturesRequest,
        Body::BarrierRequest,
        Body::BundleControl(BundleControl {
            id: 1,
            step: BundleStep::OpenRequest,
            flags: BundleFlags::default(),
        }),
        Body::BundleControl(BundleControl {
            id: 1,
            step: BundleStep::CommitRequest,
            flags: BundleFlags::default(),
        }),
    ];
    for (at, flow) in flows.enumerate() {
        for form in [FlowForm::Standard, FlowForm::Nxm] {
            let (matching, instructions) = (flow.matching.clone(), flow.instructions.clone());
            let table = Some(flow.table);
            bodies.push(Body::FlowMod(FlowMod {
                form,
                table,
                matching,
                instructions,
                cookie: at as u64,
                ..FlowMod::default()
            }));
        }
        let query = FlowQuery { matching: flow.matching.clone(), ..FlowQuery::default() };
        for request in [Request::Flow(query.clone()), Request::Aggregate(query)] {
            bodies.push(Body::MultipartRequest(MultipartRequest { more: at.is_multiple_of(2), request }));
        }
    }
    for text in [
        "group_id=5,type=select,bucket=weight:3,watch_port:1,output:1,bucket=output:2",
        "group_id=6,type=ff,bucket=watch_port:1,output:1",
    ] {
        let group = Group::parse(text, names()).expect("the text is right");
        for command in [GroupCommand::Add, GroupCommand::Delete, GroupCommand::InsertBucket(BucketAt::Last)] {
            bodies.push(Body::GroupMod(GroupMod { command, group: group.clone() }));
        }
    }
    let meter = "meter=3 pktps burst bands=type=dscp_remark rate=7 burst_size=5 prec_level=2";
    let meter = Meter::parse(meter).expect("the text is right");
    bodies.push(Body::MeterMod(MeterMod { command: MeterCommand::Add, meter }));
    let mut messages = Vec::new();
    for &version in Version::ALL {
        for body in &bodies {
            let mut bytes = Vec::new();
            // Not every version has every message.
            if encode(&Message::new(version, 7, body.clone()), &mut bytes).is_ok() {
                messages.push(bytes);
            }
        }
    }
    messages
}

pub(super) const MESSAGE: Target = Target {
    name: "openflow-message",
    about: "a message of any version: refused with an answer, or written to what reads the same",
    budget: BUDGET,
    longest: 4096,
    words: &[],
    seeds: messages,
    run: message,
    workers: false,
};

fn message(input: &[u8]) -> Outcome {
    match decode(input) {
        Err(error) => {
            assert!(error.data.len() <= ERROR_DATA && input.starts_with(&error.data));
            let mut answer = Vec::new();
            let outcome = refused(&error.to_string(), input);
            encode(&error.reply(), &mut answer).expect("a refusal can be said");
            decode(&answer).expect("a refusal can be read");
            outcome
        }
        Ok(message) => {
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            let kind = std::mem::discriminant(&message.body);
            if encode(&message, &mut once).is_err() {
                return Outcome::of((kind, message.version, "cannot be said"));
            }
            // A reply may be several messages.
            let mut rest = once.as_slice();
            while let Ok(Some(one)) = frame(rest) {
                if let Ok(again) = decode(one) {
                    encode(&again, &mut twice).expect("what was read can be written");
                }
                rest = &rest[one.len()..];
            }
            assert_eq!(once, twice, "{message:?}");
            Outcome::of((kind, message.version, input.len() / 64))
        }
    }
}

pub(super) const STREAM: Target = Target {
    name: "openflow-stream",
    about: "messages one behind the other: each ends where its length says, or the stream is given up",
    budget: BUDGET,
    longest: 8192,
    words: &[],
    seeds: || {
        messages()
            .chunks(8)
            .map(<[Vec<u8>]>::concat)
            .filter(|stream| stream.len() < 8192)
            .step_by(5)
            .collect()
    },
    run: stream,
    workers: false,
};

fn stream(input: &[u8]) -> Outcome {
    let (mut rest, mut count, mut bad) = (input, 0_usize, 0_usize);
    loop {
        match frame(rest) {
            Ok(Some(message)) => {
                assert!(message.len() >= HEADER && rest.starts_with(message));
                let header = Header::peek(message).expect("a whole message has a header");
                bad += usize::from(decode(message).is_err());
                assert_eq!(usize::from(header.length), message.len());
                (rest, count) = (&rest[message.len()..], count + 1);
            }
            Ok(None) => return Outcome::of((count.min(20), bad.min(20), rest.is_empty())),
            Err(error) => return Outcome::of((refused(&error.to_string(), input), count.min(20))),
        }
    }
}

pub(super) const SESSION: Target = Target {
    name: "openflow-session",
    about: "a whole session with a switch over a socket, in pieces: it ends, its answers are bounded, others are served",
    // The switch's own threads are not counted.
    budget: Budget::of(4 << 20, 2048, 4000, 8).within(Duration::from_secs(8), Duration::from_micros(200)),
    longest: 8192,
    words: &[],
    seeds: || {
        let hello = |version: u8| vec![version, 0, 0, 8, 0, 0, 0, 1];
        let of = |version: u8| {
            messages().into_iter().filter(move |message| message[0] == version).collect::<Vec<_>>()
        };
        let mut seeds = Vec::new();
        for version in [1, 4, 5, 6] {
            for some in of(version).chunks(12) {
                let stream = [&hello(version)[..], &some.concat()].concat();
                if stream.len() < 4000 {
                    seeds.push([&[stream.len() as u8][..], &stream].concat());
                }
            }
        }
        seeds
    },
    run: session,
    workers: false,
};

/// How long a switch may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers to a byte of requests, at most: a question of 24 bytes about all flows is answered with all.
const ANSWERS: usize = 4096;

fn session(input: &[u8]) -> Outcome {
    Listening::with(|switch| {
        let mut input = Input::new(input);
        let piece = 1 + usize::from(input.byte());
        let stream = input.rest();
        let heard = talk(&switch.openflow(), stream, piece);
        assert!(
            heard.len() <= (64 << 10) + ANSWERS * stream.len(),
            "{} bytes for {}",
            heard.len(),
            stream.len()
        );
        let mut kinds = Vec::new();
        let mut rest = heard.as_slice();
        while let Ok(Some(message)) = frame(rest) {
            decode(message).expect("what the switch says can be read");
            kinds.push((message[0], message[1]));
            rest = &rest[message.len()..];
        }
        assert!(rest.is_empty(), "the switch broke off within a message");
        // Somebody else is greeted.
        let greeted = talk(&switch.openflow(), &[4, 0, 0, 8, 0, 0, 0, 1, 4, 2, 0, 8, 0, 0, 0, 9], 16);
        assert!(greeted.ends_with(&[4, 3, 0, 8, 0, 0, 0, 9]), "{greeted:02x?}");
        kinds.dedup();
        kinds.truncate(24);
        Outcome::of(kinds)
    })
}

/// Says bytes in pieces, hangs up, and hears what is answered.
fn talk(path: &std::path::Path, bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut socket = UnixStream::connect(path).expect("the switch listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket.set_write_timeout(Some(PATIENCE)).expect("a time");
    for part in bytes.chunks(piece.max(bytes.len() / 64)) {
        match socket.write_all(part) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break,
            Err(error) => panic!("the switch takes nothing: {error}"),
        }
    }
    let _ = socket.shutdown(Shutdown::Write); // it may have hung up
    let mut heard = Vec::new();
    match socket.read_to_end(&mut heard) {
        Ok(_) => heard,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => heard,
        Err(error) => panic!("the switch does not hang up: {error}"),
    }
}
