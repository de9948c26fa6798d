//! The control socket: requests, answers, slow and dead clients, reloading. The datapath is a double.

use crate::double::{Bench, settings};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use weir_datapath::{Captured, Change, Dead, Event};
use weir_openflow::{FlowMod, PortNo};
use weir_switch::{ControlSocket, MetricsAt, MetricsServer, Request, RunError, SocketError, Stats};

const TWO_PORTS: &str = "[port.left]\nspec = \"null\"\n[port.right]\nspec = \"null\"\n";

fn bench(more: &str) -> Bench {
    Bench::new(settings(&format!("{TWO_PORTS}{more}")))
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(10), "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn dumped(bench: &Bench, flow: &str) -> Vec<String> {
    let dump = bench.client().ask(&Request::DumpFlows { flow: flow.to_owned() }).unwrap();
    dump.as_array().unwrap().iter().map(|entry| entry["line"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_dead_worker_ends_the_switch_with_what_is_known() {
    let bench = bench("");
    // Connected while the switch is there: it ends as soon as it looks.
    let mut client = weir_switch::Client::connect(&bench.path()).unwrap();
    let client = std::thread::spawn(move || {
        // Until the switch is gone.
        while client.ask(&Request::Version {}).is_ok() {}
    });
    let why = "has ended: it panicked".to_owned();
    bench.behind.lock().unwrap().dead = Some(Dead { worker: 1, core: 3, why });
    let error = bench.failed();
    assert_eq!(
        error.to_string(),
        "worker 1 on core 3 has ended: it panicked; the switch ends, to be started anew"
    );
    let RunError::Dead { stats, .. } = error else { panic!("{error}") };
    assert_eq!((stats.uptime_ns, stats.version.as_str()), (77, "weir 1, DPDK"));
    client.join().unwrap();
}

#[test]
fn tables_are_filled_before_ports_open_and_names_of_ports_are_known() {
    let bench = bench("[tables]\nflows = \"in_port=left,actions=output:right\"\n");
    let lines = dumped(&bench, "");
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("cookie=0x0, duration=1.500s, table=0, n_packets=7, n_bytes=420, idle_age=1, ")
    );
    assert!(lines[0].contains("in_port=") && lines[0].ends_with("actions=output:right"), "{}", lines[0]);
    let shown = bench.client().ask(&Request::Show {}).unwrap();
    assert_eq!((&shown[0]["name"], &shown[1]["number"]), (&json!("left"), &json!(2)));
}

#[test]
fn flows_are_added_as_a_whole_or_not_at_all() {
    let bench = bench("");
    let mut client = bench.client();
    let add = |flows: &str| Request::AddFlows { flows: flows.to_owned(), name: Some("my.flows".to_owned()) };
    let done = client.ask(&add("# two\ntcp,actions=output:left\nadd udp,actions=drop\n")).unwrap();
    assert_eq!(done["changes"], 2);
    let error =
        client.ask(&add("ip,actions=drop\nicmp,actions=outptu:1\n\nfoo,actions=1")).unwrap_err().to_string();
    assert!(error.contains("my.flows: line 2") && error.contains("my.flows: line 4"), "{error}");
    let error = client.ask(&add("arp,actions=drop\npriority=666,actions=drop")).unwrap_err().to_string();
    assert!(error.contains("table is full"), "{error}");
    assert_eq!(dumped(&bench, "").len(), 2);
    client.ask(&Request::DelFlows { flow: "tcp".to_owned(), strict: false }).unwrap();
    assert_eq!(dumped(&bench, "udp").len(), 1);
    assert_eq!(dumped(&bench, "tcp").len(), 0);
    let replace =
        Request::ReplaceFlows { flows: "udp,actions=drop\narp,actions=drop".to_owned(), name: None };
    assert_eq!(client.ask(&replace).unwrap()["changes"], 1, "an entry that stays is not touched");
    assert_eq!(dumped(&bench, "").len(), 2);
}

#[test]
fn groups_and_meters_are_added_once_changed_and_removed() {
    let bench = bench("");
    let mut client = bench.client();
    let group = "group_id=7,type=all,bucket=output:left,bucket=output:right".to_owned();
    client.ask(&Request::AddGroup { group: group.clone() }).unwrap();
    let twice = client.ask(&Request::AddGroup { group: group.clone() }).unwrap_err().to_string();
    assert!(twice.contains("group 7 is there already"), "{twice}");
    client.ask(&Request::ModGroup { group }).unwrap();
    let dump = client.ask(&Request::DumpGroups {}).unwrap();
    assert!(dump[0]["group"].as_str().unwrap().starts_with("group_id=7,type=all"), "{dump}");
    let line = "group_id=7,duration=2.500s,ref_count=1,packet_count=3,byte_count=180,\
                bucket0:packet_count=3,byte_count=180,bucket1:packet_count=3,byte_count=180";
    assert_eq!((&dump[0]["line"], &dump[0]["buckets"][1]["bytes"]), (&json!(line), &json!(180)));
    let absent = client.ask(&Request::DelGroups { group: Some(8) }).unwrap_err().to_string();
    assert!(absent.contains("no group 8"), "{absent}");
    client.ask(&Request::DelGroups { group: Some(7) }).unwrap();
    assert_eq!(client.ask(&Request::DumpGroups {}).unwrap(), json!([]));
    let meter = "meter=3,kbps,band=type=drop,rate=100".to_owned();
    let absent = client.ask(&Request::ModMeter { meter: meter.clone() }).unwrap_err().to_string();
    assert!(absent.contains("add-meter adds it"), "{absent}");
    client.ask(&Request::AddMeter { meter }).unwrap();
    let dump = client.ask(&Request::DumpMeters {}).unwrap();
    assert!(dump[0]["meter"].as_str().unwrap().contains("rate=100"), "{dump}");
    let line = "meter:3 flow_count:2 packet_in_count:9 byte_in_count:540 duration:2.500s bands: \
                0: packet_count:2 byte_count:120";
    assert_eq!(
        (&dump[0]["line"], &dump[0]["bands"]),
        (&json!(line), &json!([{ "packets": 2, "bytes": 120 }]))
    );
    let absent = client.ask(&Request::DelMeters { meter: Some(8) }).unwrap_err().to_string();
    assert!(absent.contains("no meter 8"), "{absent}");
    client.ask(&Request::DelMeters { meter: None }).unwrap();
    assert_eq!(client.ask(&Request::DumpMeters {}).unwrap(), json!([]));
}

#[test]
fn ports_come_and_go_and_a_misspelt_one_is_told_apart() {
    let bench = bench("");
    let mut client = bench.client();
    let add = |name: &str, spec: &str, number| Request::AddPort {
        name: name.to_owned(),
        spec: spec.to_owned(),
        number,
        queues: None,
        descriptors: None,
    };
    assert_eq!(client.ask(&add("middle", "null", None)).unwrap()["number"], 3);
    for (request, said) in [
        (add("new", "bad", None), "`bad` cannot be opened"),
        (add("all", "null", None), "word of the flow syntax"),
        (add("new", "null", Some(0)), "number 0 is not 1 to"),
        (Request::DelPort { port: "midle".to_owned() }, "(did you mean \"middle\"?)"),
    ] {
        let error = client.ask(&request).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    client.ask(&Request::DelPort { port: "middle".to_owned() }).unwrap();
    client.ask(&Request::DelPort { port: "1".to_owned() }).unwrap();
    let shown = client.ask(&Request::Show {}).unwrap();
    assert_eq!((shown.as_array().unwrap().len(), &shown[0]["name"]), (1, &json!("right")));
}

#[test]
fn services_are_asked_and_their_answers_joined() {
    let bench = bench("");
    let mut client = bench.client();
    let selection: serde_json::Map<String, Value> = json!({ "zone": 4 }).as_object().unwrap().clone();
    let dump = |limit| Request::DumpConntrack { service: None, selection: selection.clone(), limit };
    let told = client.ask(&dump(None)).unwrap();
    let found: std::collections::BTreeSet<String> =
        told["connections"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!((found.len(), told["connections"].as_array().unwrap().len()), (1000, 1000), "each once");
    assert_eq!(told["more"], false);
    let told = client.ask(&dump(Some(10))).unwrap();
    assert_eq!((told["connections"].as_array().unwrap().len(), &told["more"]), (10, &json!(true)));
    let flush = Request::FlushConntrack { service: None, selection: selection.clone() };
    assert_eq!(client.ask(&flush).unwrap()["flushed"], 1000);
    client.ask(&Request::Release { service: "conntrack".to_owned() }).unwrap();
    assert!(client.ask(&Request::Release { service: "nat".to_owned() }).is_err());
    let commands = bench.behind.lock().unwrap().commands.clone();
    assert_eq!((commands[0].1.as_str(), &commands[0].2["zone"]), ("dump", &json!(4)));
    assert!(commands.iter().all(|(_, command, argument)| command == "release" || argument["limit"] == 32));
    assert_eq!(commands.last().unwrap().1, "release");
    let services = client.ask(&Request::Services {}).unwrap();
    assert_eq!((&services[0]["name"], &services[0]["packets"]), (&json!("conntrack"), &json!(3)));
}

#[test]
fn a_described_packet_and_bytes_are_traced() {
    let bench = bench("");
    let mut client = bench.client();
    let ask = |packet: Option<&str>, frame: Option<&str>, in_port: Option<&str>| Request::Trace {
        packet: packet.map(str::to_owned),
        frame: frame.map(str::to_owned),
        in_port: in_port.map(str::to_owned),
        metadata: vec![7],
    };
    let told = client.ask(&ask(Some("in_port=left,tcp,nw_dst=10.0.0.1,tcp_dst=80"), None, None)).unwrap();
    assert_eq!((&told["in_port"], &told["steps"]), (&json!(1), &json!("62 bytes at port 1 [7]")));
    assert_eq!(told["frame"].as_str().map(str::len), Some(124), "{told}");
    assert!(told["stages"].is_array() && told["services"].is_array() && told["workers"].is_array(), "{told}");
    client.ask(&ask(None, Some("ffff 0000"), Some("right"))).unwrap();
    assert_eq!(bench.behind.lock().unwrap().traced[1], (PortNo(2), vec![255, 255, 0, 0]));
    for (request, said) in [
        (ask(Some("tcp"), None, None), "which port"),
        (ask(None, None, None), "either a described"),
        (ask(Some("in_port=left,reg1=3"), None, None), "no part of a packet"),
        (ask(None, Some("xy"), Some("left")), "no hexadecimal digit"),
    ] {
        let error = client.ask(&request).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn captures_stream_until_enough_and_end_with_their_client() {
    let bench = bench("");
    let capture = |count| Request::Capture {
        port: Some("left".to_owned()),
        matching: "udp".to_owned(),
        received: false,
        sent: false,
        snap: 96,
        count,
    };
    let packet = Captured { port: PortNo(1), sent: true, unix_ns: 5, length: 3, bytes: vec![1, 2, 3] };
    let mut client = bench.client();
    client.ask(&capture(2)).unwrap();
    let (filter, sender) = bench.behind.lock().unwrap().captures.remove(0);
    assert!(filter.received && filter.sent && filter.snap == 96 && filter.port == Some(PortNo(1)));
    for _ in 0..3 {
        let _ = sender.send(packet.clone()); // the third may come when the capture is over
    }
    let line = json!({ "port": 1, "sent": true, "unix_ns": 5, "length": 3, "frame": "010203" });
    assert_eq!(client.event().unwrap(), Some(line.clone()));
    assert_eq!(client.event().unwrap(), Some(line));
    assert_eq!(client.event().unwrap(), None);
    assert!(client.ask(&Request::Version {}).is_ok(), "the connection goes on");
    client.ask(&capture(0)).unwrap();
    let (_, sender) = bench.behind.lock().unwrap().captures.remove(0);
    drop(client);
    wait_for("the capture to end with its client", || sender.send(packet.clone()).is_err());
}

#[test]
fn a_monitor_hears_what_happens() {
    let bench = bench("");
    let mut client = bench.client();
    client.ask(&Request::Monitor {}).unwrap();
    bench.behind.lock().unwrap().events = vec![
        Event::Link(PortNo(2), false),
        Event::Quarantined("conntrack".to_owned(), "3 panics".to_owned()),
    ];
    let link = client.event().unwrap().unwrap();
    assert_eq!(link, json!({ "kind": "link", "port": 2, "name": "right", "up": false }));
    assert_eq!(client.event().unwrap().unwrap()["service"], "conntrack");
    bench.behind.lock().unwrap().trouble = Some("worker 0 panicked".to_owned());
    assert_eq!(client.event().unwrap().unwrap(), json!({ "kind": "trouble", "error": "worker 0 panicked" }));
    std::thread::sleep(Duration::from_millis(300));
    *bench.behind.lock().unwrap() =
        crate::double::Behind { events: vec![Event::Link(PortNo(1), true)], ..Default::default() };
    assert_eq!(client.event().unwrap().unwrap()["kind"], "link", "trouble is told once");
}

#[test]
fn a_client_that_never_reads_or_writes_holds_up_nobody() {
    let bench = bench("");
    let silent = UnixStream::connect(bench.path()).unwrap();
    let mut deaf = UnixStream::connect(bench.path()).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // It asks for far more than it takes; its own thread is the only one that waits.
    for _ in 0..20_000 {
        if deaf.write_all(b"{\"command\":\"stats\"}\n").is_err() {
            break;
        }
    }
    let begin = Instant::now();
    assert!(bench.client().ask(&Request::Version {}).is_ok());
    assert!(begin.elapsed() < Duration::from_secs(5));
    drop((silent, deaf));
}

#[test]
fn lines_that_are_no_requests_are_answered_and_the_connection_goes_on() {
    let bench = bench("");
    let mut stream = UnixStream::connect(bench.path()).unwrap();
    stream
        .write_all(b"\n{\"id\":[1],\"command\":\"versoin\"}\n\xff\xfe\n{\"id\":2,\"command\":\"version\"}\n")
        .unwrap();
    let mut lines =
        BufReader::new(&stream).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let first = lines.next().unwrap();
    assert!(first["id"] == json!([1]) && first["ok"] == false);
    assert!(first["error"].as_str().unwrap().contains("did you mean \"version\""), "{first}");
    assert_eq!(lines.next().unwrap()["ok"], false);
    let third = lines.next().unwrap();
    assert_eq!((&third["id"], &third["result"]["protocol"]), (&json!(2), &json!(1)));
}

#[test]
fn no_more_clients_are_served_than_there_are_threads_for() {
    let bench = bench("");
    let clients: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(bench.path()).unwrap()).collect();
    let mut last = String::new();
    clients[39].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (&clients[39]).read_to_string(&mut last).unwrap();
    assert!(last.contains("clients are served already"), "{last}");
    drop(clients);
    wait_for("places to be free again", || bench.client().ask(&Request::Version {}).is_ok());
}

#[test]
fn the_socket_is_its_owners_and_is_not_taken_from_another_switch() {
    let bench = bench("");
    let mode = std::fs::metadata(bench.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = ControlSocket::listen(&bench.path(), bench.asks.clone());
    assert!(matches!(again, Err(SocketError::InUse { .. })));
    let left_over = bench.folder.path().join("left-over");
    drop(UnixListener::bind(&left_over).unwrap());
    assert!(ControlSocket::listen(&left_over, bench.asks.clone()).is_ok(), "nobody answers there any more");
    let file = bench.folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let error = ControlSocket::listen(&file, bench.asks.clone()).unwrap_err().to_string();
    assert!(error.contains("no socket") && file.exists(), "{error}");
    let open = bench.folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = ControlSocket::listen(&open.join("s"), bench.asks.clone()).unwrap_err().to_string();
    assert!(error.contains("chmod go-w"), "{error}");
    let new = bench.folder.path().join("a/b/s");
    let socket = ControlSocket::listen(&new, bench.asks.clone()).unwrap();
    let folder = std::fs::metadata(new.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!((folder & 0o777, socket.path()), (0o700, new.as_path()));
}

#[test]
fn stop_is_answered_and_then_the_switch_ends() {
    let bench = bench("");
    let mut client = bench.client();
    assert_eq!(client.ask(&Request::Stop {}).unwrap(), Value::Null);
    let ended = bench.ended();
    assert_eq!((ended.buffers_missing, ended.report.workers[0].received), (0, 10));
    assert!(client.ask(&Request::Version {}).is_err());
}

#[test]
fn a_reload_changes_what_differs_and_leaves_the_rest() {
    let old = "[tables]\nflows = \"\"\"\ntcp,actions=output:left\nudp,actions=drop\n\"\"\"\n\
               groups = \"group_id=1,type=all,bucket=output:1\"";
    let bench = bench(old);
    let mut client = bench.client();
    client.ask(&Request::AddFlow { flow: "arp,actions=drop".to_owned() }).unwrap();
    let temporary = Request::AddPort {
        name: "tmp".to_owned(),
        spec: "null".to_owned(),
        number: Some(9),
        queues: None,
        descriptors: None,
    };
    client.ask(&temporary).unwrap();
    *bench.configuration.lock().unwrap() = settings(
        "[switch]\nbuffers = 2048\n[port.left]\nspec = \"null\"\n[port.new]\nnumber = 5\nspec = \"null\"\n\
         [tables]\nflows = \"\"\"\ntcp,actions=output:left\nicmp,actions=output:new\n\"\"\"",
    );
    let before = bench.behind.lock().unwrap().applied.len();
    let told = client.ask(&Request::Reload {}).unwrap();
    assert_eq!(told["restart"], json!(["buffers"]));
    let done = told["done"].to_string();
    assert!(done.contains("port right closed") && done.contains("port new opened as 5"), "{done}");
    let applied = bench.behind.lock().unwrap().applied[before..].to_vec();
    assert_eq!(applied.len(), 1, "tables change in one go");
    let kinds = applied[0].iter().map(|change| match change {
        Change::Flow(FlowMod::Delete(_)) => "delete",
        Change::Flow(FlowMod::Add(_)) => "add",
        Change::DeleteGroup(Some(_)) => "delete group",
        _ => "other",
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["delete", "add", "delete group"], "tcp stays as it is");
    let flows = dumped(&bench, "").join("\n");
    assert!(
        flows.contains("arp") && flows.contains("tcp") && flows.contains("icmp") && !flows.contains("udp")
    );
    let ports = client.ask(&Request::Show {}).unwrap();
    let names: Vec<&str> =
        ports.as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["left", "new", "tmp"], "what came by other ways stays");
    let again = client.ask(&Request::Reload {}).unwrap();
    assert_eq!((&again["done"], &again["restart"]), (&json!([]), &json!(["buffers"])));
}

#[test]
fn a_reload_that_cannot_be_changes_no_table() {
    let bench = bench("[tables]\nflows = \"tcp,actions=drop\"");
    let mut client = bench.client();
    *bench.configuration.lock().unwrap() =
        settings(&format!("{TWO_PORTS}[tables]\nflows = \"udp,actions=drop\\npriority=666,actions=drop\""));
    assert!(client.ask(&Request::Reload {}).unwrap_err().to_string().contains("table is full"));
    assert!(dumped(&bench, "")[0].contains("tcp"));
    *bench.configuration.lock().unwrap() = settings(&format!("{TWO_PORTS}[port.third]\nspec = \"bad\"\n"));
    let error = client.ask(&Request::Reload {}).unwrap_err().to_string();
    assert!(error.contains("port `third`") && error.contains("as it was before"), "{error}");
    assert!(dumped(&bench, "")[0].contains("tcp"), "no table was changed either");
    *bench.configuration.lock().unwrap() = settings(&format!("{TWO_PORTS}[port.third]\nspec = \"null\"\n"));
    assert!(client.ask(&Request::Reload {}).unwrap()["done"].to_string().contains("port third opened"));
}

#[test]
fn a_reload_of_services_is_one_plan_with_the_flows_that_call_them() {
    let flow = |name: &str| format!("[tables]\nflows = \"tcp,actions=softflow:{name}:1\"\n");
    let old = format!(
        "[service.old]\nkind = \"counter\"\n[service.lb]\nkind = \"conntrack\"\n{}",
        flow("conntrack")
    );
    let bench = bench(&old);
    let mut client = bench.client();
    let new =
        "[service.new]\nkind = \"counter\"\n[service.lb]\nkind = \"conntrack\"\nlimits = { panics = 9 }\n";
    *bench.configuration.lock().unwrap() = settings(&format!("{TWO_PORTS}{new}{}", flow("new")));
    let told = client.ask(&Request::Reload {}).unwrap();
    let done =
        ["service new added", "service lb built anew", "service old removed", "1 flows added or changed"];
    assert_eq!((&told["done"], &told["restart"]), (&json!(done), &json!([])));
    let plan = bench.behind.lock().unwrap().plans[0].clone();
    assert_eq!((plan.add_services[0].0.as_str(), plan.replace_services[0].1.limits.panics), ("new", 9));
    assert_eq!((plan.remove_services, plan.changes.len()), (vec!["old".to_owned()], 1));
    *bench.configuration.lock().unwrap() = settings(&format!("{TWO_PORTS}{}", flow("new")));
    let error = client.ask(&Request::Reload {}).unwrap_err().to_string();
    assert!(error.contains("`new`"), "a flow cannot call what goes: {error}");
    assert_eq!(bench.behind.lock().unwrap().plans.len(), 1);
}

fn http(server: &MetricsServer, request: &str) -> String {
    let MetricsAt::Tcp(address) = server.at() else { panic!("{server:?}") };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_while_another_client_says_nothing() {
    let bench = bench("");
    let server = MetricsServer::listen(&"127.0.0.1:0".parse().unwrap(), bench.asks.clone()).unwrap();
    let MetricsAt::Tcp(address) = server.at() else { panic!("{server:?}") };
    let idle = TcpStream::connect(address).unwrap();
    let answer = http(&server, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    assert!(body.contains("weir_switch_received_packets_total{worker=\"0\",core=\"0\"} 10\n"), "{body}");
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("HEAD /metrics?x=1 HTTP/1.1\r\n\r\n", "200"),
    ] {
        assert!(http(&server, request).starts_with(&format!("HTTP/1.1 {status}")), "{request}");
    }
    drop(idle);
}

#[test]
fn clients_that_say_nothing_push_out_each_other_and_nobody_who_asks() {
    let bench = bench("");
    let server = MetricsServer::listen(&"127.0.0.1:0".parse().unwrap(), bench.asks.clone()).unwrap();
    let MetricsAt::Tcp(address) = server.at() else { panic!("{server:?}") };
    let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..20 {
        assert!(http(&server, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        silent.extend((0..10).map(|_| TcpStream::connect(address).unwrap()));
    }
    // A request without an end is no request.
    let mut endless = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    while endless.write_all(&[b'x'; 1024]).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "it is taken without a bound");
    }
}

#[test]
fn metrics_at_a_unix_socket_are_the_owners_alone() {
    let (bench, folder) = (bench(""), tempfile::tempdir().unwrap());
    let path = folder.path().join("metrics");
    let at = MetricsAt::Unix(path.clone());
    let server = MetricsServer::listen(&at, bench.asks.clone()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("weir_switch_info"), "{answer}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn the_ledger_is_a_document_of_its_own_version() {
    let bench = bench("");
    let stats: Stats = bench.client().ask_for(&Request::Stats { without_tables: false }).unwrap();
    assert_eq!((stats.schema, stats.version.as_str(), stats.tsc_hz), (1, "weir 1, DPDK", 1e9));
    assert!(stats.workers.iter().all(weir_switch::stats::WorkerReport::balances));
}

#[test]
fn a_reload_changes_endpoints_of_controllers_and_takes_them_back_if_something_else_fails() {
    let openflow = |more: &str| format!("{TWO_PORTS}[openflow]\nlisten = [\"ptcp:0:127.0.0.1\"{more}]\n");
    let bench = Bench::new(settings(&openflow("")));
    let mut client = bench.client();
    let mut shown = || client.ask(&Request::ShowControllers {}).unwrap();
    let address = shown()[0]["address"].as_str().unwrap().to_owned();
    let mut controller = TcpStream::connect(&address).unwrap();
    controller.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    wait_for("the connection", || shown()[0]["connections"][0]["role"] == "equal");
    let unix = bench.folder.path().join("of.sock");
    let more = format!(", \"punix:{}\"", unix.display());
    let mut client = bench.client();
    let mut reload = |text: &str| {
        *bench.configuration.lock().unwrap() = settings(text);
        client.ask(&Request::Reload {}).map_err(|error| error.to_string())
    };
    let told = reload(&format!("{}datapath_id = \"7\"\n", openflow(&more))).unwrap();
    assert_eq!(told["done"], json!([format!("punix:{} opened", unix.display())]));
    assert_eq!(told["restart"], json!(["datapath_id"]));
    UnixStream::connect(&unix).unwrap();
    let error = reload(&format!("{}[port.third]\nspec = \"bad\"\n", openflow(""))).unwrap_err();
    assert!(error.contains("port `third`"), "{error}");
    UnixStream::connect(&unix).expect("it is there again");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!(", \"ptcp:{}:127.0.0.1\"", taken.local_addr().unwrap().port());
    let flows = "[tables]\nflows = \"tcp,actions=drop\"\n";
    let error = reload(&format!("{}{flows}", openflow(&port))).unwrap_err();
    assert!(error.contains("name another port"), "{error}");
    assert_eq!(dumped(&bench, "").len(), 0, "no table was changed either");
    let standalone = format!("{}fail_mode = \"standalone\"\ncontrollers = [\"unix:absent\"]\n", openflow(""));
    let told = reload(&standalone).unwrap();
    assert_eq!(told["restart"], json!(["fail_mode"]));
    let shown = || bench.client().ask(&Request::ShowControllers {}).unwrap();
    wait_for("the attempt", || shown()[1]["last_end"].is_string());
    assert_eq!(
        (&shown()[0]["connections"][0]["version"], &shown()[1]["endpoint"]),
        (&json!("1.3"), &json!("unix:absent"))
    );
    let mut bytes = [0; 16];
    controller.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[1], 0, "the first connection was there all the time");
}

#[test]
fn addresses_that_were_learned_are_shown_with_their_ports_and_forgotten_by_vlan_and_port() {
    let bench = bench("[switch]\nmac_ageing = 60\nmac_table_size = 500\n");
    let mut client = bench.client();
    let shown = client.ask(&Request::DumpFdb {}).unwrap();
    let one = &shown["addresses"][0];
    assert_eq!((&one["address"], &one["port_name"]), (&json!("02:00:00:00:00:0a"), &json!("left")));
    assert_eq!((&one["vlan"], &one["age_seconds"]), (&json!(5), &json!(3)));
    assert_eq!((&shown["ageing_seconds"], &shown["most"]), (&json!(60), &json!(500)));
    let flush = |vlan, port: Option<&str>| Request::FlushFdb { vlan, port: port.map(str::to_owned) };
    assert!(client.ask(&flush(Some(4096), None)).unwrap_err().to_string().contains("no VLAN 4096"));
    assert!(client.ask(&flush(None, Some("middle"))).unwrap_err().to_string().contains("no port `middle`"));
    for (vlan, port, flushed) in [(Some(6), None, 0), (Some(5), Some("right"), 0), (None, Some("left"), 1)] {
        assert_eq!(client.ask(&flush(vlan, port)).unwrap()["flushed"], flushed);
    }
    assert_eq!(client.ask(&Request::DumpFdb {}).unwrap()["addresses"], json!([]));
}
