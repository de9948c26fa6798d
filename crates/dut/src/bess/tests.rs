use super::messages::{
    Any, ConstraintsResponse, CreatePortRequest, CreateResponse, EmptyResponse, Error, GetPortStatsRequest,
    GetPortStatsResponse, ListResponse, ListWorkersResponse, Named, Stat, VersionResponse, Worker,
};
use super::*;
use crate::eal::tests::request;
use crate::folder::Folder;
use bytes::Bytes;
use prost::Message;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What the stand-in for `bessd` answers.
enum Reply {
    /// A message.
    Message(Vec<u8>),
    /// A status of gRPC's.
    Status(u16, &'static str),
    /// These bytes in place of a message.
    Bytes(&'static [u8]),
}

impl<M: Message> From<M> for Reply {
    fn from(message: M) -> Self {
        Self::Message(message.encode_to_vec())
    }
}

type Behaviour = Arc<dyn Fn(&str, &[u8]) -> Reply + Send + Sync>;

/// The calls that a stand-in got.
type Calls = Arc<Mutex<Vec<String>>>;

fn refusal(code: i32, reason: &str) -> Option<Error> {
    Some(Error { code, errmsg: reason.to_owned() })
}

/// What a `bessd` with these modules says when nothing is wrong.
fn well(modules: &[&str], call: &str, question: &[u8]) -> Reply {
    let named = |name: &&str| Named { name: (*name).to_owned() };
    match call {
        "GetVersion" => VersionResponse { version: "v0.4.0-99".to_owned(), error: None }.into(),
        "ListModules" => ListResponse { items: modules.iter().map(named).collect(), error: None }.into(),
        "ListPorts" => ListResponse::default().into(),
        "ListWorkers" => {
            let workers = vec![Worker { wid: 0, core: 0, silent_drops: 3 }];
            ListWorkersResponse { workers, error: None }.into()
        }
        "GetPortStats" => {
            let name = GetPortStatsRequest::decode(question).unwrap().name;
            let first = u64::from(name == "weir_port0");
            GetPortStatsResponse {
                error: None,
                inc: Some(Stat { packets: 10 + first, dropped: 1 }),
                out: Some(Stat { packets: 7 + first, dropped: 2 }),
            }
            .into()
        }
        "CreatePort" | "CreateModule" => CreateResponse::default().into(),
        _ => EmptyResponse::default().into(),
    }
}

/// A server of the control protocol at a socket; it ends with the test's process.
fn serve(path: PathBuf, behaviour: Behaviour) -> Calls {
    let calls = Calls::default();
    let heard = Arc::clone(&calls);
    let (ready, listening) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::bind(path).unwrap();
            ready.send(()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(connection(stream, Arc::clone(&behaviour), Arc::clone(&heard)));
            }
        });
    });
    listening.recv().unwrap();
    calls
}

async fn connection(stream: tokio::net::UnixStream, behaviour: Behaviour, calls: Calls) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond, Arc::clone(&behaviour), Arc::clone(&calls)));
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    behaviour: Behaviour,
    calls: Calls,
) {
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let call = request.uri().path().strip_prefix("/bess.pb.BESSControl/").unwrap().to_owned();
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    while let Some(Ok(chunk)) = body.data().await {
        bytes.extend_from_slice(&chunk);
    }
    calls.lock().unwrap().push(call.clone());
    let response = http::Response::builder().header("content-type", "application/grpc");
    let reply = match behaviour(&call, grpc::unframed(&bytes).unwrap()) {
        Reply::Status(code, message) => {
            let response = response.header("grpc-status", code.to_string()).header("grpc-message", message);
            respond.send_response(response.body(()).unwrap(), true).unwrap();
            return;
        }
        Reply::Message(message) => [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat(),
        Reply::Bytes(bytes) => bytes.to_vec(),
    };
    let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
    stream.send_data(reply.into(), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    stream.send_trailers(trailers).unwrap();
}

/// A program in the place of `bessd`.
fn program(folder: &Folder, does: &str) -> PathBuf {
    let text =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'bessd version v0.4.0'; exit; }}\n{does}\n");
    let path = folder.write("bessd", &text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const STAYS: &str = "exec sleep 30";
/// How long is waited for what comes, and for what never does.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

fn ports() -> [String; 2] {
    ["net_vhost0,iface=/t/link0.sock".to_owned(), "net_null1,no-rx=1".to_owned()]
}

/// A request for core 0, which every machine has.
fn asked<'a>(nf: &str, ports: &'a [String], folder: &'a Folder) -> StartRequest<'a> {
    StartRequest { core: 0, control_core: 0, ..request(nf.parse().unwrap(), ports, folder) }
}

/// Starts one whose server behaves so; the error.
fn error_of(behaviour: impl Fn(&str, &[u8]) -> Reply + Send + Sync + 'static) -> String {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    serve(folder.file("bess.sock"), Arc::new(behaviour));
    let begun = started(&program(&folder, STAYS), &asked("l2fwd", &ports, &folder), LONG);
    begun.err().unwrap().to_string()
}

#[test]
fn one_of_the_labs_own_is_set_up_counted_and_ended() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let calls = serve(folder.file("bess.sock"), Arc::new(|call, question| well(&[], call, question)));
    let program = program(&folder, STAYS);
    assert_eq!(version(&program).unwrap(), "BESS v0.4.0");
    let mut dut = started(&program, &asked("l3fwd:2", &ports, &folder), LONG).unwrap();
    assert!(dut.description().starts_with("BESS v0.4.0-99; taskset -c 0 "), "{}", dut.description());
    assert!(dut.description().contains("-m=0 -buffers=16384"), "{}", dut.description());
    let counters = dut.counters().unwrap();
    assert_eq!((counters.received, counters.sent), (21, 15));
    assert_eq!(counters.ports[1], crate::PortCounts { received: 10, sent: 7, refused: Some(2) });
    assert_eq!((counters.details["packets missed"], counters.details["dropped by the function"]), (2, 3));
    let pid = dut.processes()[0].pid();
    dut.stop().unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let calls = calls.lock().unwrap();
    assert_eq!(calls[..4], ["GetVersion", "AddWorker", "CreatePort", "CreatePort"]);
    // Two ends of port 0, the sending end of port 1, of which nothing comes, and the router.
    assert_eq!(calls.iter().filter(|call| *call == "CreateModule").count(), 3 + 6);
    assert_eq!(calls.iter().filter(|call| *call == "ModuleCommand").count(), 2);
    assert_eq!(calls.iter().rev().nth(3).unwrap(), "ResumeAll", "{calls:?}");
}

#[test]
fn one_that_runs_is_taken_over_only_where_nothing_is_somebody_elses_and_left_empty() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    for (modules, before) in [(&[][..], 2), (&["weir_in0"][..], 2)] {
        let socket = folder.file(&format!("{}.sock", modules.len()));
        let calls = serve(socket.clone(), Arc::new(move |call, question| well(modules, call, question)));
        let dut = running(&Place::Unix(socket.clone()), &asked("l2fwd", &ports, &folder)).unwrap();
        assert!(dut.description().contains(&format!("BESS v0.4.0-99 at unix:{}", socket.display())));
        dut.stop().unwrap();
        let calls = calls.lock().unwrap();
        assert_eq!(calls.iter().filter(|call| *call == "ResetAll").count(), before, "{calls:?}");
        assert_eq!(calls.last().unwrap(), "ResetAll");
    }
    let socket = folder.file("other.sock");
    let calls = serve(socket.clone(), Arc::new(|call, question| well(&["nat0"], call, question)));
    let taken = running(&Place::Unix(socket), &asked("l2fwd", &ports, &folder));
    let error = taken.err().unwrap().to_string();
    assert!(error.contains("somebody has made `nat0`"), "{error}");
    assert!(!calls.lock().unwrap().contains(&"ResetAll".to_owned()));
    let nobody = running(&Place::Unix(folder.file("nobody")), &asked("l2fwd", &ports, &folder));
    let error = nobody.err().unwrap().to_string();
    assert!(error.contains("bessd at unix:") && error.contains("nobody"), "{error}");
}

#[test]
fn one_of_another_version_is_named_with_what_it_does_not_know() {
    let error = error_of(|call, question| match call {
        "CreatePort" => Reply::Status(12, "unknown%20method"),
        _ => well(&[], call, question),
    });
    assert!(
        error.contains("`CreatePort net_vhost0,iface=/t/link0.sock` failed: UNIMPLEMENTED (12) by bessd v0.4.0-99 unknown method"),
        "{error}"
    );
    let error = error_of(|_, _| Reply::Status(12, ""));
    assert!(error.contains("`GetVersion` failed: UNIMPLEMENTED (12)"), "{error}");
}

#[test]
fn what_it_refuses_is_named_and_a_running_one_is_left_empty() {
    let refuses = |call: &str, question: &[u8]| match call {
        "CreatePort" => {
            let arg = CreatePortRequest::decode(question).unwrap().arg;
            assert!(arg.is_some_and(|Any { type_url, .. }| type_url.ends_with("bess.pb.PMDPortArg")));
            CreateResponse { error: refusal(19, "Cannot attach vdev"), name: String::new() }.into()
        }
        _ => well(&[], call, question),
    };
    let error = error_of(refuses);
    assert!(error.contains("failed: Cannot attach vdev (error 19)"), "{error}");
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let socket = folder.file("running.sock");
    let calls = serve(socket.clone(), Arc::new(refuses));
    let taken = running(&Place::Unix(socket), &asked("l2fwd", &ports, &folder));
    assert!(taken.err().unwrap().to_string().contains("Cannot attach vdev"));
    assert_eq!(calls.lock().unwrap().last().unwrap(), "ResetAll");
}

#[test]
fn modules_are_told_their_workers_before_they_run_and_those_that_cannot_are_named() {
    let error = error_of(|call, question| match call {
        "CheckSchedulingConstraints" => {
            let modules = vec![Named { name: "weir_in0".to_owned() }];
            ConstraintsResponse { fatal: true, modules, error: None }.into()
        }
        "ResumeAll" => panic!("it was resumed"),
        _ => well(&[], call, question),
    });
    assert!(error.contains("no worker can run weir_in0"), "{error}");
}

#[test]
fn nonsense_is_named() {
    for bytes in [&b"\0\0\0\0\x02ab!"[..], b"\x01\0\0\0\0", b"\0\0\0\0\x01\xff"] {
        let error = error_of(move |_, _| Reply::Bytes(bytes));
        assert!(error.contains("where a message of bessd's control protocol was expected"), "{error}");
    }
    // A server that speaks something else.
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let listener = std::os::unix::net::UnixListener::bind(folder.file("bess.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
        stream
    });
    let begun = started(&program(&folder, STAYS), &asked("l2fwd", &ports, &folder), LONG);
    let error = begun.err().unwrap().to_string();
    assert!(error.contains("no HTTP/2"), "{error}");
    drop(server.join().unwrap());
}

#[test]
fn one_that_never_answers_or_dies_is_named_with_its_last_words() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let error = |does: &str, patience| {
        let begun = started(&program(&folder, does), &asked("l2fwd", &ports, &folder), patience);
        begun.err().unwrap().to_string()
    };
    let never = error("echo initializing DPDK; exec sleep 30", SHORT);
    assert!(never.contains("did not answer on its control socket"), "{never}");
    // The reason stands before a backtrace that is longer than what is shown of its end.
    let does = "echo 'F20261125 02:47 dpdk.cc:230] rte_eal_init() failed' >&2; seq 100 >&2; exit 1";
    let died = error(does, LONG);
    assert!(died.contains("exit status: 1") && died.contains("rte_eal_init() failed"), "{died}");
}

#[test]
fn one_that_dies_while_it_forwards_is_named() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    serve(folder.file("bess.sock"), Arc::new(|call, question| well(&[], call, question)));
    let die = folder.file("die");
    let does =
        format!("until [ -e {} ]; do sleep 0.05; done; echo out of packet buffers; exit 7", die.display());
    let mut dut = started(&program(&folder, &does), &asked("l2fwd", &ports, &folder), LONG).unwrap();
    dut.counters().unwrap();
    std::fs::write(die, "").unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while dut.ended().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = dut.ended().unwrap().to_string();
    assert!(error.contains("exit status: 7") && error.contains("out of packet buffers"), "{error}");
}

#[test]
fn ports_whose_memory_others_map_and_long_frames_are_refused() {
    let (folder, ports) = (Folder::new().unwrap(), ["net_virtio_user0,path=/t/s".to_owned()]);
    let error = Bess.start(&asked("l2fwd", &ports, &folder)).err().unwrap().to_string();
    assert!(error.contains("back end alone"), "{error}");
    let long = StartRequest { max_frame: weir_units::FrameSize::MAX, ..asked("l2fwd", &ports, &folder) };
    assert!(Bess.start(&long).err().unwrap().to_string().contains("2048 bytes"));
    assert!(Bess.takes("unix:/t/s").is_ok() && Bess.takes("10514").unwrap_err().contains("tcp:HOST:PORT"));
}

#[test]
fn huge_pages_come_from_a_file_system_of_its_own() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let asked = StartRequest { huge_pages: true, ..asked("l2fwd", &ports, &folder) };
    let (unshare, words) =
        command(&asked, arguments(&asked, Path::new("/t/bessd"), Path::new("/t/s"))).unwrap();
    let place = folder.file("huge");
    assert!(place.is_dir());
    let begin = [
        "--mount",
        "--",
        "sh",
        "-c",
        WITH_HUGE_PAGES,
        place.to_str().unwrap(),
        "taskset",
        "-c",
        "0",
        "/t/bessd",
    ];
    assert_eq!((unshare.to_str(), &words[..begin.len()]), (Some("unshare"), &begin.map(str::to_owned)[..]));
    // 16384 buffers of 3200 bytes, and what it wants for itself.
    assert!(words.contains(&"-m=434".to_owned()), "{words:?}");
    assert_eq!(words.last().unwrap(), "-iova=va");
    let ports = ["0000:03:00.0".to_owned(), ports[1].clone()];
    let physical = StartRequest { ports: &ports, ..asked };
    assert!(!arguments(&physical, Path::new("/t/bessd"), Path::new("/t/s")).contains(&"-iova=va".to_owned()));
}
