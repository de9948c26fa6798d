//! `weir switch` as people and the lab use it: the built program over captures, changed while it runs.

use crate::lab::{told, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_units::Nanos;
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};
use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, UdpRepr};

/// A UDP packet from host `n` of 10.0.0.0/16, numbered by its source port; odd hosts go to 10.2.0.1.
fn frame(number: u16) -> Vec<u8> {
    let mut frame = vec![0; 60 + usize::from(number % 64)];
    let payload_len = (frame.len() - EthernetRepr::BYTES - Ipv4Repr::BYTES) as u16;
    let ether_type = EtherType::IPV4;
    let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
    EthernetRepr { destination: mac(2), source: mac(1), ether_type }.emit(&mut frame);
    let third = if number % 2 == 1 { 2 } else { 1 };
    let ip = Ipv4Repr {
        source: [10, 0, (number >> 8) as u8, number as u8].into(),
        destination: [10, third, 0, 1].into(),
        protocol: 17,
        ttl: 64,
        payload_len,
    };
    ip.emit(&mut frame[14..]);
    UdpRepr { source: number, destination: 53, payload_len: payload_len - 8 }.emit(&mut frame[34..]);
    frame
}

fn write_capture(path: &Path, frames: impl Iterator<Item = Vec<u8>>) {
    let mut writer =
        CaptureWriter::new(BufWriter::new(fs::File::create(path).unwrap()), Format::Pcap).unwrap();
    frames.for_each(|frame| writer.write(Nanos(1), &frame).unwrap());
    writer.finish().unwrap();
}

fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        frames.push(packet.data.to_vec());
    }
    frames
}

/// A switch that runs, in a folder of its own; it is killed when a test fails before it ended.
struct Running {
    folder: TempDir,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    ready: Value,
}

impl Running {
    /// Starts it with a control socket in the folder, and waits until packets flow.
    fn start(prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = prepare(folder.path());
        let mut child = weir()
            .arg("switch")
            .args(&arguments)
            .args(["--control", "stdio", "--control"])
            .arg(folder.path().join("control"))
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut running = Self { folder, child, input, output, ready: Value::Null };
        running.ready = running.line();
        assert_eq!(running.ready["ready"], true, "{}", running.ready);
        running
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = weir();
        command.arg("switch").args(arguments).arg("--control").arg(self.file("control"));
        command.current_dir(self.folder.path()).output().unwrap()
    }

    /// What a command prints when all is well.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command is refused with.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    fn stats(&self) -> Value {
        let stats: Value = serde_json::from_str(&self.said(&["stats", "--json"])).unwrap();
        for worker in stats["workers"].as_array().unwrap() {
            let count = |key: &str| worker[key].as_u64().unwrap();
            let dropped: u64 =
                worker["dropped"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(
                count("received") + count("injected") + count("copied") + count("taken_over"),
                count("sent") + dropped + count("to_controller") + count("handed_over") + count("held"),
                "{worker:#}"
            );
        }
        stats
    }

    fn sum(&self, key: &str) -> u64 {
        self.stats()["workers"].as_array().unwrap().iter().map(|worker| worker[key].as_u64().unwrap()).sum()
    }

    fn dropped(&self, reason: &str) -> u64 {
        let stats = self.stats();
        let workers = stats["workers"].as_array().unwrap();
        workers.iter().map(|worker| worker["dropped"][reason].as_u64().unwrap_or(0)).sum()
    }

    /// Ends it, and returns the last line: no packet buffer is missing.
    fn stop(mut self) -> (TempDir, Value) {
        writeln!(self.input.as_mut().unwrap(), "stop").unwrap();
        let last = self.line();
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "the switch does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((status.code(), &last["buffers_missing"]), (Some(0), &Value::from(0)), "{last}");
        assert!(!self.file("control").exists());
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        (folder, last)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two trace ports: a capture comes in at `in`, what leaves by `out` and `other` is written.
fn traces(folder: &Path, packets: u16, more: &str) -> Vec<String> {
    write_capture(&folder.join("in.pcap"), (0..packets).map(frame));
    let port = |name: &str, spec: &str| ["--port".to_owned(), format!("{name}=trace:{spec}")];
    let mut arguments = port("in", &format!("in.pcap{more}")).to_vec();
    arguments.extend(port("out", ",tx=out.pcap"));
    arguments.extend(port("other", ",tx=other.pcap"));
    arguments
}

fn with_flows(mut arguments: Vec<String>, flows: &[&str]) -> Vec<String> {
    for flow in flows {
        arguments.extend(["--flow".to_owned(), (*flow).to_owned()]);
    }
    arguments
}

#[test]
fn a_capture_goes_through_the_tables_and_comes_out_as_it_should() {
    let flows =
        ["udp,nw_dst=10.1.0.0/16,actions=output:out", "udp,nw_dst=10.2.0.0/16,actions=dec_ttl,output:other"];
    let running = Running::start(|folder| with_flows(traces(folder, 2000, ""), &flows));
    let ready = &running.ready;
    assert!(ready["tid"].as_array().is_some_and(|threads| threads.len() == 1), "{ready}");
    assert!(ready["version"].as_str().unwrap().contains("DPDK") && ready["ports"][0]["name"] == "in");
    wait_for("2000 packets to be sent", || (running.sum("sent") == 2000).then_some(()));
    let shown = running.said(&["stats"]);
    assert!(shown.contains("exact") && !shown.contains("WRONG"), "{shown}");
    let (folder, last) = running.stop();
    assert_eq!((&last["received"], &last["sent"], &last["dropped"]), (&2000.into(), &2000.into(), &0.into()));
    let out: Vec<Vec<u8>> = (0..2000).step_by(2).map(frame).collect();
    assert!(read_capture(&folder.path().join("out.pcap")) == out, "unchanged, in order");
    let other = read_capture(&folder.path().join("other.pcap"));
    assert_eq!(other.len(), 1000);
    for (sent, number) in other.iter().zip((1..2000).step_by(2)) {
        let ip = weir_wire::Ipv4View::checked(&sent[14..]).unwrap();
        assert!(ip.ttl() == 63 && ip.checksum_is_right() && sent[34..] == frame(number)[34..]);
    }
}

#[test]
fn flows_change_while_packets_flow_and_their_counters_are_exact() {
    let running = Running::start(|folder| traces(folder, 100, ",loop,rate=100kpps"));
    wait_for("packets without a flow", || (running.dropped("no-match") > 100).then_some(()));
    running.said(&["ctl", "add-flow", "priority=5,udp,actions=output:out"]);
    fs::write(running.file("more.flows"), "udp,nw_dst=10.2.0.1,actions=drop\narp,actions=flood # all\n")
        .unwrap();
    running.said(&["ctl", "add-flows", "more.flows"]);
    wait_for("packets at the port", || (running.sum("sent") > 100).then_some(()));
    let dump = running.said(&["ctl", "dump-flows"]);
    assert!(dump.lines().count() == 3 && dump.contains("n_packets="), "{dump}");
    assert!(dump.contains("priority=5,udp actions=output:"), "{dump}");
    let error = running.refused(&["ctl", "add-flow", "udp,actions=ouput:out"]);
    assert!(error.contains("ouput"), "{error}");
    fs::write(running.file("wrong.flows"), "tcp,actions=drop\n\nudp,nw_dst=1.2.3,actions=drop\n").unwrap();
    let error = running.refused(&["ctl", "add-flows", "wrong.flows"]);
    assert!(error.contains("wrong.flows: line 3"), "{error}");
    running.said(&["ctl", "del-flows", "arp"]);
    assert_eq!(running.said(&["ctl", "dump-flows"]).lines().count(), 2, "nothing of a wrong file was added");
    fs::write(running.file("none.flows"), "actions=drop\n").unwrap();
    running.said(&["ctl", "replace-flows", "none.flows"]);
    assert!(running.said(&["ctl", "dump-flows"]).contains("actions=drop"));
    let before = running.sum("sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(running.sum("sent"), before, "when a change returns, every worker forwards by it");
    let flows: Value = serde_json::from_str(&running.said(&["ctl", "dump-flows", "--json"])).unwrap();
    assert!(flows[0]["packets"].as_u64().unwrap() > 0, "{flows}");
    running.stop();
}

#[test]
fn ports_come_and_go_while_packets_flow() {
    let flows = ["actions=output:4,output:out"];
    let running = Running::start(|folder| with_flows(traces(folder, 100, ",loop,rate=50kpps"), &flows));
    wait_for("packets", || (running.sum("sent") > 100).then_some(()));
    for round in 0..5 {
        let spec = format!("trace:,tx=new{round}.pcap");
        assert_eq!(running.said(&["ctl", "add-port", "new", &spec, "--number", "4"]), "port 4\n");
        let of_port = || {
            let shown: Value = serde_json::from_str(&running.said(&["ctl", "show", "--json"])).unwrap();
            let port = shown.as_array().unwrap().iter().find(|port| port["name"] == "new").cloned();
            port.unwrap()["sent"].as_u64().unwrap()
        };
        wait_for("packets at the new port", || (of_port() > 50).then_some(()));
        running.said(&["ctl", "del-port", "new"]);
        let kept = read_capture(&running.file(&format!("new{round}.pcap")));
        assert!(
            kept.len() > 50 && kept.iter().all(|sent| frame(sent[35].into()) == *sent),
            "whole when it is gone"
        );
    }
    let error = running.refused(&["ctl", "del-port", "new"]);
    assert!(error.contains("there is no port `new`"), "{error}");
    let error = running.refused(&["ctl", "add-port", "bad", "trace:absent.pcap"]);
    assert!(error.contains("absent.pcap: No such file"), "{error}");
    running.stop();
}

#[test]
fn a_capture_of_running_traffic_holds_what_was_asked_for() {
    let flows = ["udp,nw_dst=10.2.0.0/16,actions=dec_ttl,output:other", "priority=1,actions=output:out"];
    let running = Running::start(|folder| with_flows(traces(folder, 100, ",loop,rate=20kpps"), &flows));
    running.said(&["capture", "--port", "other", "--write", "sent.pcapng", "--count", "40"]);
    let sent = read_capture(&running.file("sent.pcapng"));
    assert!(sent.len() == 40 && sent.iter().all(|frame| frame[22] == 63), "as they went out");
    running.said(&[
        "capture",
        "--flow",
        "udp,nw_dst=10.1.0.1",
        "--received",
        "--snap",
        "30",
        "-n",
        "20",
        "--write",
        "in.pcapng",
    ]);
    let received = read_capture(&running.file("in.pcapng"));
    assert!(received.len() == 20 && received.iter().all(|frame| frame.len() == 30 && frame[22] == 64));
    let bytes = fs::read(running.file("sent.pcapng")).unwrap();
    assert!(bytes.windows(5).any(|bytes| bytes == b"other"), "the port is named");
    running.stop();
}

#[test]
fn the_path_of_a_packet_is_told() {
    let flows = ["udp,nw_dst=10.2.0.0/16,actions=output:other", "tcp,actions=drop"];
    let running = Running::start(|folder| with_flows(traces(folder, 10, ""), &flows));
    let told = running.said(&["trace", "in_port=in,udp,nw_dst=10.2.3.4,udp_dst=9"]);
    assert!(told.contains("other") || told.contains("output:3"), "{told}");
    assert!(running.said(&["trace", "in_port=in,tcp"]).contains("drop"), "{told}");
    let of_capture = running.said(&["trace", "--pcap", "in.pcap", "--packet", "2", "--port", "in"]);
    assert!(of_capture.contains("10.2.0.1"), "{of_capture}");
    let error = running.refused(&["trace", "--pcap", "in.pcap", "--packet", "11", "--port", "in"]);
    assert!(error.contains("it holds 10 packets"), "{error}");
    let error = running.refused(&["trace", "udp"]);
    assert!(error.contains("in_port=PORT"), "{error}");
    assert_eq!(running.sum("received"), 10, "a packet that is traced is none that was received");
    running.stop();
}

#[test]
fn a_reload_applies_what_changed_and_loses_nothing() {
    let configuration = |flows: &str, ports: &str| {
        format!(
            "[port.in]\nspec = \"trace:in.pcap,loop,rate=50kpps\"\n[port.out]\nspec = \"trace:,tx=out.pcap\"\n{ports}\
             [tables]\nflows = \"\"\"\n{flows}\"\"\"\n"
        )
    };
    let old = "udp,nw_dst=10.1.0.1,actions=output:out\npriority=1,actions=drop\n";
    let running = Running::start(|folder| {
        write_capture(&folder.join("in.pcap"), (0..100).map(frame));
        fs::write(folder.join("switch.toml"), configuration(old, "")).unwrap();
        vec!["--config".to_owned(), "switch.toml".to_owned()]
    });
    wait_for("packets", || (running.sum("sent") > 100).then_some(()));
    let new = "udp,nw_dst=10.1.0.1,actions=output:out\npriority=1,actions=output:other\n";
    let other = "[port.other]\nspec = \"trace:,tx=other.pcap\"\n[switch]\nbuffers = 4096\n";
    fs::write(running.file("switch.toml"), configuration(new, other)).unwrap();
    let told = running.said(&["ctl", "reload"]);
    assert!(told.contains("1 flows added or changed, port other opened as 3"), "{told}");
    assert!(told.contains("these take a restart: buffers"), "{told}");
    let dump = running.said(&["ctl", "dump-flows", "udp"]);
    let packets: u64 = dump.split("n_packets=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!(packets > 100, "an entry that stays keeps its counters: {dump}");
    fs::write(running.file("switch.toml"), "[switch]\ncoers = 1\n").unwrap();
    let error = running.refused(&["ctl", "reload"]);
    assert!(
        error.contains("switch.toml:2:1: unknown key `coers`") && error.contains("did you mean `cores`"),
        "{error}"
    );
    wait_for("packets at the new port", || (!read_ports(&running, "other").is_null()).then_some(()));
    running.stop();
}

/// A port's row once it has sent something.
fn read_ports(running: &Running, name: &str) -> Value {
    let stats = running.stats();
    let ports = stats["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == name && port["sent"].as_u64() > Some(0));
    port.cloned().unwrap_or_default()
}

#[test]
fn metrics_are_what_the_ledger_says() {
    let running = Running::start(|folder| {
        let mut arguments = with_flows(traces(folder, 300, ""), &["actions=output:out"]);
        arguments.extend(["--metrics".to_owned(), "127.0.0.1:0".to_owned()]);
        arguments
    });
    wait_for("300 packets to be sent", || (running.sum("sent") == 300).then_some(()));
    let url = running.ready["metrics"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("weir_switch_port_sent_packets_total{port=\"2\",name=\"out\"} 300\n"), "{page}");
    running.stop();
}

#[test]
fn services_are_listed_and_asked() {
    let flows = ["sf_stage=0,actions=softflow:counter:1", "sf_stage=1,actions=output:out"];
    let running = Running::start(|folder| with_flows(traces(folder, 500, ""), &flows));
    wait_for("500 packets to be sent", || (running.sum("sent") == 500).then_some(()));
    let services: Value = serde_json::from_str(&running.said(&["ctl", "services", "--json"])).unwrap();
    let counter = services.as_array().unwrap().iter().find(|service| service["name"] == "counter").unwrap();
    assert_eq!((&counter["packets"], &counter["panics"]), (&500.into(), &0.into()));
    assert!(running.said(&["stats"]).contains("counter"));
    assert!(running.said(&["ctl", "services"]).lines().count() > 3);
    running.said(&["ctl", "release", "counter"]);
    assert!(running.refused(&["ctl", "release", "contrack"]).contains("contrack"));
    assert_eq!(running.said(&["ctl", "dump-conntrack"]), "");
    running.stop();
}

#[test]
fn the_end_of_the_input_ends_the_switch() {
    let mut running = Running::start(|folder| traces(folder, 10, ""));
    writeln!(running.input.as_mut().unwrap(), "stats\nnonsense").unwrap();
    let stats = running.line();
    assert!(stats["received"].is_u64() && stats["cpu_ns"].is_u64() && stats["tsc"].is_u64(), "{stats}");
    assert!(running.line()["error"].as_str().unwrap().contains("`nonsense` is no command"));
    running.input = None;
    assert_eq!(running.line()["buffers_missing"], 0);
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.toml"), "[port.a]\nspce = \"null\"\n").unwrap();
    fs::write(folder.path().join("bad.flows"), "tcp,actions=output:nowhere\n").unwrap();
    for (arguments, said) in [
        (&["--config", "bad.toml"][..], "bad.toml:2:1: unknown key `spce`"),
        (&["--config", "absent.toml"], "absent.toml: No such file"),
        (&["--flows", "bad.flows", "--port", "null"], "bad.flows: line 1"),
        (&["--flows", "absent.flows"], "absent.flows: No such file"),
        (&["--port", "all=null"], "flow syntax"),
        (&["--port", "net_nil0"], "net_nil0"),
        (&["--port", "a=null", "--port", "a=null"], "port `a` is named twice"),
        (&["--service", "x=contrack"], "there is no kind of service `contrack`"),
        (&["--service", "x=noop:{"], "settings of `x`"),
        (&["--core", "999"], "999"),
        (&["stats"], "no switch answers"),
        (&["ctl", "add-port", "x"], "SPEC"),
    ] {
        let mut command = weir();
        command.arg("switch").args(arguments).current_dir(folder.path());
        command.arg("--control").arg(folder.path().join("control"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

#[test]
fn a_client_for_whom_no_thread_can_be_started_is_told_so_and_others_are_served() {
    let running = Running::start(|_| ["--port", "null", "--flow", "actions=drop"].map(str::to_owned).into());
    let process = running.child.id().to_string();
    let asks = |client: &UnixStream| -> Value {
        // Who is refused is hung up on as well.
        let _ = (&*client).write_all(b"{\"command\":\"version\"}\n");
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    };
    let connect = || {
        let client = UnixStream::connect(running.file("control")).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    };
    // Stacks of threads that have ended are used again: so many clients that none is left of those.
    let clients: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    clients.iter().for_each(|client| assert_eq!(asks(client)["ok"], true));
    let limit = |bytes: &str| {
        let limited =
            Command::new("prlimit").args(["--pid", &process, &format!("--as={bytes}:")]).output().unwrap();
        assert!(limited.status.success(), "{}", told(&limited));
    };
    // Less than a stack more than there is.
    let statm = fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    limit(&(pages * 4096 + (1 << 20)).to_string());
    let refused = asks(&connect());
    limit("unlimited");
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("no thread can be started for another client"), "{refused}");
    assert_eq!((asks(&clients[0])["ok"] == true, asks(&connect())["ok"] == true), (true, true));
    drop(clients);
    running.stop();
}
