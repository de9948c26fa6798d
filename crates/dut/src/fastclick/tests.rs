use super::*;
use crate::eal::tests::request;
use crate::folder::Folder;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// A program in Click's place: what it says of its version, and what it does when it is started.
fn program(folder: &Folder, version: &str, does: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '{version}'; kill -ABRT $$; }}\necho \"$@\"\n{does}\n"
    );
    let path = folder.write("click", &text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const VERSION: &str = "click (FastClick) 2.1";
const STAYS: &str = "exec sleep 30";

/// A control socket that says `greeting`, and answers the questions of one connection in turn with these.
fn socket(folder: &Folder, greeting: &str, answers: &[&str]) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(folder.file("control.sock")).unwrap();
    let greeting = greeting.to_owned();
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut asked = Vec::new();
        for answer in answers {
            let Some(Ok(line)) = lines.next() else { break };
            asked.push(line);
            // In pieces, as a socket may deliver them.
            for piece in answer.as_bytes().chunks(7) {
                stream.write_all(piece).unwrap();
                stream.flush().unwrap();
            }
        }
        asked
    })
}

fn number(count: u64) -> String {
    let text = count.to_string();
    format!("200 Read handler OK\r\nDATA {}\r\n{text}", text.len())
}

const GREETING: &str = "Click::ControlSocket/1.3\r\n";
/// How long is waited for what comes, and for what never does.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

fn ports() -> [String; 2] {
    ["net_null0".to_owned(), "net_null1".to_owned()]
}

#[test]
fn counters_of_ports_are_asked_by_their_handlers() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let answers: Vec<String> = [10, 9, 1, 20, 18, 2].map(number).to_vec();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let served = socket(&folder, GREETING, &answers);
    let program = program(&folder, VERSION, STAYS);
    let mut dut = run(&program, &request(Nf::L2Fwd, &ports, &folder), LONG).unwrap();
    assert!(dut.description().starts_with("FastClick 2.1; ") && dut.description().contains("--dpdk -l 2,3"));
    let counters = dut.counters().unwrap();
    assert_eq!((counters.received, counters.sent), (30, 27));
    assert_eq!(counters.ports[1], PortCounts { received: 20, sent: 18, refused: Some(2) });
    let asked = served.join().unwrap();
    assert_eq!(asked[..3], ["READ in0.count", "READ out0.count", "READ out0.dropped"]);
    dut.stop().unwrap();
    assert!(folder.texts().contains_key("fastclick.click"), "its configuration is kept");
}

#[test]
fn another_program_of_this_name_is_told_apart() {
    let folder = Folder::new().unwrap();
    for other in ["click (Click) 2.0.1", "click, version 8.1.3", ""] {
        let error = version(&program(&folder, other, "")).unwrap_err().to_string();
        assert!(error.contains(&format!("`{other}`")) && error.contains("FastClick's version"), "{error}");
    }
}

#[test]
fn what_is_no_control_protocol_of_this_version_is_named() {
    for (greeting, says) in
        [("Click::ControlSocket/2.0\r\n", "`Click::ControlSocket/2.0`"), ("\u{7f}ELF?\n", "ELF?")]
    {
        let (folder, ports) = (Folder::new().unwrap(), ports());
        let _served = socket(&folder, greeting, &[]);
        let program = program(&folder, VERSION, STAYS);
        let error = run(&program, &request(Nf::L2Fwd, &ports, &folder), LONG).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("version 1"), "{error}");
    }
}

#[test]
fn nonsense_and_refusals_in_answers_are_named() {
    for (answer, says) in [
        ("what?\r\n", "`what?`"),
        ("511 No handler named 'in0.count'\r\n", "`READ in0.count` failed: 511 No handler"),
        ("200 OK\r\nDATUM 3\r\nabc", "`DATUM 3`"),
        ("200 OK\r\nDATA 99999999999\r\n", "`DATA 99999999999`"),
        ("200 OK\r\nDATA 4\r\nmany", "`many` where a counter"),
        ("", "it was closed"),
    ] {
        let (folder, ports) = (Folder::new().unwrap(), ports());
        let _served = socket(&folder, GREETING, &[answer]);
        let program = program(&folder, VERSION, STAYS);
        let mut dut = run(&program, &request(Nf::L2Fwd, &ports, &folder), LONG).unwrap();
        let error = dut.counters().unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn a_program_that_never_answers_or_dies_is_named_with_its_last_words() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let start = |does: &str, patience| {
        let program = program(&folder, VERSION, does);
        run(&program, &request(Nf::L2Fwd, &ports, &folder), patience).err().unwrap().to_string()
    };
    let never = start("echo looking for ports; exec sleep 30", SHORT);
    assert!(never.contains("control socket does not answer"), "{never}");
    let died = start("echo \"unknown element class 'FromDPDKDevice'\" >&2; exit 1", LONG);
    assert!(died.contains("ended by itself") && died.contains("unknown element class"), "{died}");
}

#[test]
fn a_program_that_dies_while_it_forwards_is_named() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let served = socket(&folder, GREETING, &[]);
    let die = folder.file("die");
    let does =
        format!("until [ -e {} ]; do sleep 0.05; done; echo no more DPDK buffer; exit 6", die.display());
    let program = program(&folder, VERSION, &does);
    let mut dut = run(&program, &request(Nf::L2Fwd, &ports, &folder), LONG).unwrap();
    served.join().unwrap();
    std::fs::write(die, "").unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while dut.ended().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = dut.counters().unwrap_err().to_string();
    assert!(error.contains("exit status: 6") && error.contains("no more DPDK buffer"), "{error}");
}

#[test]
fn functions_of_flow_tables_and_long_frames_are_refused() {
    assert!(FastClick.supports("l3fwd:10+firewall:10".parse().unwrap()).is_ok());
    assert!(FastClick.supports("l2fwd+pipeline-a:16".parse().unwrap()).unwrap_err().contains("pipeline-a"));
    assert!(FastClick.supports(Nf::Nat { addresses: 1 }).unwrap_err().contains("tracks no connections"));
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let long = weir_units::FrameSize::MAX;
    let request = StartRequest { max_frame: long, ..request(Nf::L2Fwd, &ports, &folder) };
    let error = FastClick.start(&request).err().unwrap().to_string();
    assert!(error.contains("2048 bytes"), "{error}");
}
