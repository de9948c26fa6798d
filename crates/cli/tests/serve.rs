//! `weir serve`, as it is started and ended, and what is measured from its pages.

mod browser;

use crate::lab::{Lab, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_trial::run::RunState;

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
        Self::running(weir().args(["serve", "--listen", "127.0.0.1:0", "--db"]).arg(db).args(arguments))
    }

    fn running(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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

/// So many sizes.
fn sizes(count: usize) -> String {
    (0..count).map(|place| (64 + 4 * place).to_string()).collect::<Vec<_>>().join(", ")
}

/// A run of the simulated device that takes seconds, as each trial must be kept.
fn long() -> String {
    PLAN.replace("64, 1500", &sizes(POINTS)).replace("trials = 3", "trials = 20")
}

/// Points of that run.
const POINTS: usize = 350;

/// The token of these tests.
const TOKEN: &str = "0123456789abcdef-of-a-test";

/// A server that measures for whoever has [`TOKEN`].
fn measuring(lab: &Lab) -> Served {
    let token = lab.file("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mut command = weir();
    // A server that is killed leaves its folder: here it goes with the test.
    command.env("TMPDIR", lab.temporary()).arg("serve").arg("--db").arg(lab.file("weir.db"));
    Served::running(command.args(["--listen", "127.0.0.1:0", "--allow-runs", "--token-file"]).arg(token))
}

impl Served {
    /// The status, the header Location and the body of what a program posts.
    fn post(&self, path: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let location =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("location: ").map(str::to_owned));
        (status, location.unwrap_or_default(), body.to_owned())
    }

    /// Begins a measurement of a plan that is given as TOML; the address of its page.
    fn measure(&self, plan: &str) -> String {
        let (status, location, body) = self.post("/start", &format!("action=start&more={}", encoded(plan)));
        assert_eq!(status, 303, "{body}");
        location
    }
}

/// A text as a form has it.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_server_that_ends_interrupts_its_measurement_and_another_one_goes_on_with_it() {
    let lab = Lab::new(PLAN);
    let measured = lab.measure(0);
    let state = || lab.stored().unwrap().state;
    let (mut done, mut name) = (0, None);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let served = measuring(&lab);
        let location =
            if done == 0 { served.measure(&long()) } else { served.post("/start/resume", "run=@last").1 };
        assert_eq!(location, "/start/jobs/1");
        wait_for("points", || {
            lab.stored().filter(|run| run.id != measured.id && run.points.len() > done + 2)
        });
        let end = served.end(signal);
        assert_eq!(end, (signal == Signal::SIGTERM).then_some(0), "{signal}");
        wait_for("the run's end", || (state() == RunState::Interrupted).then_some(()));
        let run = lab.stored().unwrap();
        assert!(run.name == *name.get_or_insert_with(|| run.name.clone()), "the same run goes on");
        done = run.points.len();
        assert!(done < POINTS, "it came to its end before it was interrupted");
    }
}

#[test]
fn what_a_hostile_form_holds_is_refused_in_words_and_the_server_goes_on() {
    let lab = Lab::new(PLAN);
    lab.measure(0);
    let served = measuring(&lab);
    for plan in [
        "[".repeat(50_000),
        "a = {".repeat(15_000),
        "size = [64, \n".repeat(6_000),
        "x\n".repeat(40_000),
        format!("size = \"{}\"", "9".repeat(80_000)),
        "name = \"\u{0}\u{1b}[31m\u{202e}\"".to_owned(),
        "trace = \"no-such.pcap\"\n".to_owned(),
        "[throughput]\n".repeat(3_000),
    ] {
        let (status, _, body) = served.post("/start/check", &format!("size=&more={}", encoded(&plan)));
        let begins = plan.chars().take(20).collect::<String>();
        assert_eq!(status, 200, "{begins}");
        assert!(body.contains("cannot be used") && body.len() < 4 << 20, "{begins}: {} bytes", body.len());
        assert!(!body.contains("weir-serve-"), "the folder of the server's own says nothing: {begins}");
        let (status, _, body) = served.post("/start", &format!("action=start&more={}", encoded(&plan)));
        assert!(status == 200 && body.contains("cannot be used"), "nothing is measured: {begins}");
    }
    assert_eq!(served.post("/start/jobs/1/stop", "").0, 404);
    // A name that would be an option, or is no name, is refused by the command itself.
    let plan = encoded(PLAN);
    let (status, location, _) = served.post("/start", &format!("action=start&run+name=--db%3Dx&more={plan}"));
    assert_eq!((status, location.as_str()), (303, "/start/jobs/1"));
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let (host, end) = (&served.address, "Connection: close\r\n\r\n");
    let head = format!(
        "GET /start/jobs/1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n{end}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut events = String::new();
    stream.read_to_string(&mut events).unwrap();
    assert!(events.contains("text/event-stream") && events.contains("event: end"), "{events}");
    assert!(!lab.stored().unwrap().name.starts_with("--db"), "{events}");
    assert_eq!(served.end(Signal::SIGTERM), Some(0));
}
