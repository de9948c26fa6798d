//! A switch that only answers, for `ovs-ofctl` to talk to: it records every message and answers by rote.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_codec::*;
use weir_openflow::{PortNo, TableId};

/// What a run of `ovs-ofctl` said, on the wire and to people.
pub(crate) struct Session {
    /// Every message of all its connections, but hellos.
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ok: bool,
}

pub(crate) fn name(version: Version) -> &'static str {
    match version {
        Version::V10 => "OpenFlow10",
        Version::V13 => "OpenFlow13",
        Version::V14 => "OpenFlow14",
        Version::V15 => "OpenFlow15",
    }
}

pub(crate) fn port(number: u32) -> Port {
    Port {
        number: PortNo(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("p{number}"),
        config: 0,
        state: 0,
        current: Port::TEN_GIGABIT | Port::FIBER,
        advertised: 0,
        supported: Port::TEN_GIGABIT,
        peer: 0,
        current_speed: 10_000_000,
        greatest_speed: 10_000_000,
    }
}

/// Answers of a switch with two ports and one table. `reply` answers multiparts of which this one knows
/// nothing.
fn answer(message: &Message, reply: &dyn Fn(&Request) -> Option<Reply>) -> Option<Body> {
    let multipart = |reply| Some(Body::MultipartReply(MultipartReply { more: false, reply }));
    match &message.body {
        Body::EchoRequest(data) => Some(Body::EchoReply(data.clone())),
        Body::FeaturesRequest => Some(Body::FeaturesReply(Features {
            datapath_id: 1,
            n_buffers: 0,
            n_tables: 254,
            capabilities: Features::FLOW_STATS,
            actions: if message.version == Version::V10 { 0xfff } else { 0 },
            ports: if message.version == Version::V10 { vec![port(1), port(2)] } else { Vec::new() },
            ..Features::default()
        })),
        Body::GetConfigRequest => Some(Body::GetConfigReply(Config { flags: 0, miss_send_len: 128 })),
        Body::BarrierRequest => Some(Body::BarrierReply),
        Body::RoleRequest(role) => Some(Body::RoleReply(*role)),
        Body::QueueConfigRequest(port) => {
            Some(Body::QueueConfigReply(QueueConfig { port: *port, queues: Vec::new() }))
        }
        Body::BundleControl(control) => {
            let step = match control.step {
                BundleStep::OpenRequest => BundleStep::OpenReply,
                BundleStep::CloseRequest => BundleStep::CloseReply,
                BundleStep::CommitRequest => BundleStep::CommitReply,
                _ => BundleStep::DiscardReply,
            };
            Some(Body::BundleControl(BundleControl { step, ..*control }))
        }
        Body::MultipartRequest(request) => {
            if let Some(own) = reply(&request.request) {
                return multipart(own);
            }
            match &request.request {
                Request::PortDesc(_) => multipart(Reply::PortDesc(vec![port(1), port(2)])),
                Request::TableFeatures(_) => multipart(Reply::TableFeatures(vec![TableFeatures {
                    table: TableId(0),
                    command: 0,
                    features: 0,
                    name: "table0".to_owned(),
                    metadata_match: u64::MAX,
                    metadata_write: u64::MAX,
                    config: 0,
                    most: 1_000_000,
                    // Those that must be there.
                    properties: vec![
                        TableProperty::Instructions { miss: false, ids: Vec::new() },
                        TableProperty::NextTables { miss: false, tables: vec![TableId(1)] },
                        TableProperty::WriteActions { miss: false, ids: Vec::new() },
                        TableProperty::ApplyActions { miss: false, ids: Vec::new() },
                        TableProperty::Match(Vec::new()),
                        TableProperty::Wildcards(Vec::new()),
                        TableProperty::WriteSetField { miss: false, ids: Vec::new() },
                        TableProperty::ApplySetField { miss: false, ids: Vec::new() },
                    ],
                }])),
                Request::Table => multipart(Reply::Table(vec![TableStats {
                    table: TableId(0),
                    name: "classifier".to_owned(),
                    wildcards: 0x3f_ffff,
                    most: 1_000_000,
                    active: 0,
                    lookups: 0,
                    matched: 0,
                }])),
                Request::Flow(query) => multipart(Reply::Flow(query.form, Vec::new())),
                Request::Aggregate(query) => multipart(Reply::Aggregate(query.form, Aggregate::default())),
                Request::TableDesc => multipart(Reply::TableDesc(vec![TableDesc {
                    table: TableId(0),
                    config: TableConfig::default(),
                }])),
                Request::Monitor(_) => multipart(Reply::Monitor(Vec::new())),
                _ => None,
            }
        }
        // What `ovs-ofctl` cannot do without is answered; all else succeeds without a word.
        _ => None,
    }
}

fn serve(
    mut stream: TcpStream,
    version: Version,
    reply: &dyn Fn(&Request) -> Option<Reply>,
    received: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    let hello = Body::Hello(Hello::offering(&[version]));
    encode(&Message::new(version, 1, hello), &mut out).expect("a hello can be said");
    stream.write_all(&out)?;
    let (mut buffer, mut chunk) = (Vec::new(), vec![0; 65536]);
    let mut context = Context::default();
    loop {
        while let Some(message) = frame(&buffer).expect("ovs-ofctl speaks OpenFlow") {
            let length = message.len();
            let bytes: Vec<u8> = buffer.drain(..length).collect();
            match decode_with(&bytes, context) {
                Ok(Message { body: Body::Hello(_), .. }) => continue,
                Ok(message) => {
                    if let Body::FlowModTableId(on) = message.body {
                        context.flow_mod_table_id = on;
                    }
                    if let Some(body) = answer(&message, reply) {
                        out.clear();
                        encode(&Message::new(message.version, message.xid, body), &mut out)
                            .expect("what is asked can be answered");
                        stream.write_all(&out)?;
                    }
                }
                Err(error) => {
                    out.clear();
                    encode(&error.reply(), &mut out).expect("every error can be said");
                    stream.write_all(&out)?;
                }
            }
            received.lock().expect("no thread panics").push(bytes);
        }
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            count => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Runs `ovs-ofctl` against the switch; `@` among the arguments stands for its address.
pub(crate) fn ofctl(
    version: Version,
    arguments: &[&str],
    reply: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
) -> Session {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
    let local = listener.local_addr().expect("it is bound");
    let address = format!("tcp:{local}");
    // It may connect more than once, one connection within another.
    let (received, reply) = (Arc::new(Mutex::new(Vec::new())), Arc::new(reply));
    let (seen, over) = (Arc::clone(&received), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&over);
    let server = std::thread::spawn(move || {
        let mut connections = Vec::new();
        for stream in listener.incoming().flatten() {
            let (reply, seen) = (Arc::clone(&reply), Arc::clone(&seen));
            if over.load(Ordering::Acquire) {
                break;
            }
            connections.push(std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(20)))?;
                serve(stream, version, &*reply, &seen)
            }));
        }
        // It may close before it has read all; what it sent counts all the same.
        connections.into_iter().for_each(|connection| drop(connection.join().expect("it is served")));
    });
    let output = Command::new("ovs-ofctl")
        .args(["--timeout=20", "-O", name(version)])
        .args(arguments.iter().map(|word| if *word == "@" { address.as_str() } else { *word }))
        .output()
        .expect("ovs-ofctl is installed: `./x setup --test` does that");
    // A connection of ours wakes the server up; it comes behind all of the program's.
    ended.store(true, Ordering::Release);
    drop(TcpStream::connect(local));
    server.join().expect("the server ends");
    let received = std::mem::take(&mut *received.lock().expect("no thread panics"));
    Session {
        received,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        ok: output.status.success(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
