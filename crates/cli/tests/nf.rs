//! `weir nf` as people and the lab use it: the built program, its lines, its mistakes.

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PORTS: [&str; 4] = ["--port", "net_null0,no-rx=1", "--port", "net_null1,no-rx=1"];

fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("nf");
    command
}

/// A controlled program; it is killed when a test fails before it ended.
struct Controlled {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Controlled {
    fn start(args: &[&str]) -> (Self, Value) {
        let mut child = weir()
            .args(args)
            .args(["--control", "stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output };
        let ready = program.line();
        (program, ready)
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        self.line()
    }

    /// Waits for the end, and returns the exit code; nothing after a signal.
    fn end(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < Duration::from_secs(10), "weir nf does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_lab_is_told_when_packets_flow_what_was_counted_and_how_it_ended() {
    let args = ["l3fwd", "--entries", "7", "--port", "net_null0", "--port", "net_null1,no-rx=1"];
    let (mut program, ready) = Controlled::start(&args);
    assert_eq!(
        (&ready["schema"], &ready["ready"], &ready["function"]),
        (&1.into(), &true.into(), &"l3fwd:7".into())
    );
    assert!(ready["ports"][0]["link_up"] == true && ready["ports"][1]["port"] == "net_null1,no-rx=1");
    assert!(ready["tsc_hz"].as_f64().unwrap() > 1e8 && ready["version"].as_str().unwrap().contains("DPDK"));
    let task = format!("/proc/{}/task/{}", program.child.id(), ready["tid"]);
    assert_eq!(fs::read_to_string(format!("{task}/comm")).unwrap().trim(), "weir-nf");
    let mut stats = program.ask("stats");
    while stats["received"] == 0 {
        stats = program.ask("stats");
    }
    // The null port's packets are all zeros: not IPv4.
    assert!(stats["drops"]["not-ipv4"].as_u64().unwrap() > 0);
    assert!(
        program.ask("faster")["error"].as_str().unwrap().contains("write stats, tap KEY, tap off or stop")
    );
    let last = program.ask("stop");
    assert_eq!(last["received"], last["dropped"]);
    assert_eq!(last["drops"]["not-ipv4"], last["dropped"]);
    assert!(last["busy_cycles"].as_u64().unwrap() > 0);
    assert_eq!((&last["buffers_missing"], program.end()), (&0.into(), Some(0)));
}

#[test]
fn taps_are_switched_by_lines_and_counted_by_port() {
    let (mut program, _) =
        Controlled::start(&["l2fwd", "--port", "net_null0", "--port", "net_null1,no-rx=1"]);
    let key = weir_traffic::stamp::key().to_string();
    let short = &key[1..];
    for broken in ["tap", "tap on", &format!("tap {short}"), &format!("tap {key} 7"), "tap \u{e9}"] {
        let error = program.ask(broken);
        let error = error["error"].as_str().unwrap_or_else(|| panic!("{broken}: {error}"));
        assert!(error.contains("5 words of 16 hexadecimal digits") && error.ends_with("or `off`"), "{error}");
    }
    let before = program.ask("stats");
    assert!(before["taps"].is_null() && before["ports"][1]["refused"] == 0, "{before}");
    assert!(program.ask("stats now")["error"].as_str().unwrap().contains("`stats now` is no command"));
    assert_eq!(program.ask(&format!("tap {key}"))["tap"], true);
    assert_eq!(program.ask(" tap off ")["tap"], false);
    // The null port's packets have no stamps.
    let last = program.ask("stop");
    for port in 0..2 {
        for edge in ["received", "sent"] {
            let expected = serde_json::json!({ "packets": 0, "sum_ns": 0, "buckets": [] });
            assert_eq!(last["taps"][port][edge], expected, "{last}");
        }
    }
    assert_eq!((&last["buffers_missing"], program.end()), (&0.into(), Some(0)));
}

#[test]
fn the_end_of_the_input_ends_the_program() {
    let (mut program, _) = Controlled::start(&[&["l2fwd"], &PORTS[..]].concat());
    drop(program.input.take());
    assert_eq!(program.line()["buffers_missing"], 0);
    assert_eq!(program.end(), Some(0));
}

#[test]
fn a_termination_signal_ends_the_program_with_its_ledger() {
    let (mut program, _) = Controlled::start(&[&["l2fwd"], &PORTS[..]].concat());
    let pid = nix::unistd::Pid::from_raw(program.child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(program.line()["received"], 0);
    assert_eq!(program.end(), Some(0));
}

#[test]
fn in_the_foreground_the_ledger_is_printed_at_the_end() {
    let mut child = weir().arg("firewall").args(PORTS).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("firewall:10 between net_null0,no-rx=1 and net_null1"), "{line}");
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let rest: Vec<String> = output.lines().map(Result::unwrap).collect();
    assert_eq!(rest.last().unwrap(), "received 0 = sent 0 + dropped 0");
    assert!(child.wait().unwrap().success());
}

#[test]
fn mistakes_are_refused_with_what_would_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let rules = file("rules", "allow any any any any any\ndeny udp any any any\n");
    let twice = file("twice", "198.18.0.0/16 0\n198.18.0.0/16 1\n");
    let far = file("far", "198.18.0.0/16 2\n");
    let cases: &[(&[&str], &str)] = &[
        (&["l3fwd", "--routes", "/nowhere/routes"], "/nowhere/routes: No such file"),
        (&["l3fwd", "--routes", &twice], "twice: two routes lead to 198.18.0.0/16"),
        (&["l3fwd", "--routes", &far], "ports are 0 to 1"),
        (&["firewall", "--rules", &rules], "rules:2: `deny udp any any any`"),
        (&["firewall", "--routes", &twice], "takes --rules, not --routes"),
        (&["l3fwd", "--rules", &rules], "takes --routes, not --rules"),
        (&["l2fwd", "--entries", "3"], "l2fwd has no table"),
        (&["l3fwd", "--entries", "100001"], "--entries 100001 is not 1 to 100000"),
        (&["l2fwd", "--port", "net_null2"], "3 --port given"),
        (&["l2fwd", "--core", "1023"], "core 1023"),
        (&["router"], "l2fwd, l3fwd, firewall"),
    ];
    for (args, message) in cases {
        let output = weir().args(*args).args(PORTS).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(message), "{args:?}: {text}");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    }
    let output = weir().args(["l2fwd", "--port", "eth0", "--port", "net_null0"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("`eth0` is no port"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn further_pairs_of_ports_are_served_likewise() {
    let more = ["--port", "net_null2", "--port", "net_null3,no-rx=1"];
    let (mut program, ready) = Controlled::start(&[&["l2fwd"], &PORTS[..], &more[..]].concat());
    assert_eq!(ready["ports"].as_array().unwrap().len(), 4);
    let begin = Instant::now();
    while program.ask("stats")["ports"][3]["sent"] == 0 {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    let last = program.ask("stop");
    let count = |port: usize, what: &str| last["ports"][port][what].as_u64().unwrap();
    assert_eq!((count(0, "sent"), count(1, "sent"), count(2, "sent")), (0, 0, 0), "{last}");
    assert_eq!(count(2, "received"), count(3, "sent"), "{last}");
    assert_eq!((&last["received"], &last["buffers_missing"]), (&last["ports"][2]["received"], &0.into()));
    assert_eq!(program.end(), Some(0));
}

/// The owner of shared memory, between a port that has packets for ever and one that takes all.
fn owner(folder: &str) -> (Controlled, Value) {
    let ports = ["net_null0", "ring:0:near", "ring:1:far", "net_null1,no-rx=1"];
    let ports = ports.iter().flat_map(|port| ["--port", port]);
    let args: Vec<&str> = ["l2fwd", "--share", folder, "--links", "2"].into_iter().chain(ports).collect();
    Controlled::start(&args)
}

fn attached(folder: &str) -> Vec<&str> {
    vec!["l2fwd", "--attach", folder, "--port", "ring:0:far", "--port", "ring:1:near"]
}

/// Waits for the end of a program that failed; what it said.
fn failure(mut program: Controlled) -> (Option<i32>, String) {
    let code = program.end();
    let mut error = String::new();
    program.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    (code, error)
}

#[test]
fn a_function_attached_to_shared_memory_forwards_and_each_learns_of_the_others_death() {
    if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::HugePages(100)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (mut primary, ready) = owner(path);
    assert_eq!(ready["ports"][1]["port"], "ring:0:near");
    let (mut function, _) = Controlled::start(&attached(path));
    let begin = Instant::now();
    while primary.ask("stats")["ports"][3]["sent"].as_u64() < Some(100_000) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", primary.ask("stats"));
    }
    // An end is one process's.
    let late = weir().args(attached(path)).output().unwrap();
    let error = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(late.status.code() == Some(2) && error.contains("has `ring:0:far`"), "{error}");
    // In order: the buffers come back, and the place is free.
    let last = function.ask("stop");
    assert_eq!((&last["dropped"], &last["drops"]["transmit-full"]), (&last["dropped"], &last["dropped"]));
    assert_eq!(function.end(), Some(0));
    let (function, _) = Controlled::start(&attached(path));
    kill(function.child.id());
    let (code, error) = failure(primary);
    assert!(code == Some(1) && error.contains("weir nf l2fwd (process"), "{code:?} {error}");
    assert!(error.contains(&function.child.id().to_string()) && error.contains("has died"), "{error}");
    assert_eq!(fs::read_dir(path).unwrap().count(), 0, "the owner leaves nothing behind");

    let (primary, _) = owner(path);
    let (function, _) = Controlled::start(&attached(path));
    kill(primary.child.id());
    let (code, error) = failure(function);
    let says =
        format!("process {}, which owns the memory and the ports of this one, has ended", primary.child.id());
    assert!(code == Some(1) && error.contains(&says), "{code:?} {error}");
    assert_eq!(fs::read_dir(path).unwrap().count(), 0, "who survives the owner clears up");

    let (mut primary, _) = owner(path);
    assert_eq!((&primary.ask("stop")["buffers_missing"], primary.end()), (&0.into(), Some(0)));
}

fn kill(process: u32) {
    let process = nix::unistd::Pid::from_raw(process.try_into().unwrap());
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn shared_memory_that_cannot_be_is_refused_with_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (args, says) in [
        (
            vec!["l2fwd", "--port", "ring:0:far", "--port", "net_null0"],
            "`ring:0:far` is an end of rings, which takes",
        ),
        (attached(path), "start the one that owns it first"),
        (
            vec!["l2fwd", "--attach", path, "--port", "net_null0", "--port", "ring:0:far"],
            "`net_null0` is a device",
        ),
        (
            vec!["l2fwd", "--attach", path, "--port", "ring:0:left", "--port", "ring:0:far"],
            "write ring:N:near",
        ),
        (
            vec![
                "l2fwd",
                "--share",
                "/nowhere",
                "--links",
                "1",
                "--port",
                "net_null0",
                "--port",
                "ring:0:far",
            ],
            "/nowhere",
        ),
        (vec!["l2fwd", "--share", path, "--port", "net_null0", "--port", "ring:0:far"], "--links"),
        (
            vec!["l2fwd", "--port", "net_null0", "--port", "net_null1", "--port", "net_null2"],
            "3 --port given",
        ),
    ] {
        let output = weir().args(&args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(says), "{args:?}: {error}");
    }
}
