//! `weir serve`, as it is started and ended.

use crate::lab::{Lab, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Two points of the simulated device: measured in no time, on no core.
const PLAN: &str = "name = \"served\"\nnf = \"l2fwd\"\ndut = \"simulated\"\nwiring = \"vhost\"\ntrace = \"tr3i\"\nsize = [64, 1500]\n\
                    [mrr]\ntrials = 3\nduration = \"100ms\"\n[simulated]\ncapacity = \"1Mpps\"\n";

/// A server, killed with the test that fails.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(db: &Path, arguments: &[&str]) -> Self {
        let mut child = weir()
            .args(["serve", "--listen", "127.0.0.1:0", "--db"])
            .arg(db)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("no address in `{line}`")).to_owned();
        Self { child, address }
    }

    /// The status and the body at a path.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Ends it by a signal; its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        wait_for("the server's end", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_and_commands_say_the_same_and_a_signal_ends_the_server() {
    let lab = Lab::new(PLAN);
    lab.measure(0);
    let db = lab.file("weir.db");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let served = Served::start(&db, &[]);
        let list = served.get("/runs").1;
        assert!(list.contains("simulated") && list.contains("2/2"), "{list}");
        let of = |arguments: &[&str]| printed(weir().args(arguments).arg("--db").arg(&db));
        assert_eq!(served.get("/runs/@last/run.json").1, of(&["export", "@last", "--json"]));
        assert_eq!(served.get("/runs/@last/trials.csv").1, of(&["export", "@last", "--csv"]));
        let shown = of(&["show"]);
        let point = served.get("/runs/@last/points/0").1;
        let verdict = point.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).unwrap();
        assert!(!verdict.is_empty() && shown.contains(verdict), "`{verdict}` is not in\n{shown}");
        let bundle = lab.file("run.weir");
        printed(weir().args(["export", "--bundle", "-o"]).arg(&bundle).arg("--db").arg(&db));
        let (status, _) = served.get("/runs/@last/bundle.weir");
        assert_eq!(status, 200);
        assert_eq!(served.end(signal), Some(0), "{signal}");
    }
}

#[test]
fn what_cannot_be_served_is_bad_use_with_a_way_out() {
    let lab = Lab::new(PLAN);
    let refused = |arguments: &[&str]| {
        let output = weir().arg("serve").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let db = lab.file("weir.db");
    let missing = refused(&["--db", db.to_str().unwrap()]);
    assert!(missing.contains("there is no store at") && missing.contains("weir bench"), "{missing}");
    lab.measure(0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for listen in [taken.local_addr().unwrap().to_string(), "nowhere".to_owned(), "256.0.0.1:80".to_owned()] {
        let text = refused(&["--db", db.to_str().unwrap(), "--listen", &listen]);
        assert!(text.contains(&listen) && text.contains("--listen ADDRESS:PORT"), "{text}");
    }
}
