//! A private Open vSwitch whose ports are its own test ports (`dummy-pmd`): frames come in by its control
//! socket, go through its whole userspace datapath (caches, slow path, actions), and leave into captures.
//! It needs neither privileges nor DPDK nor a network namespace.

use crate::hex;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Ports where frames come in and go out.
pub(crate) const PORTS: [u32; 4] = [1, 2, 3, 4];

/// Where a marker goes out: what was queued before it at its port has been forwarded then.
const MARKED: u32 = 9;

/// The flow of markers. Their EtherType is one for local experiments (IEEE 802), and no other frame's;
/// every megaflow of Open vSwitch looks at the EtherType anyway.
const MARKER_FLOW: &str = "table=0,priority=65535,dl_type=0x88b5 actions=output:9";

/// Frames that a test port queues, but for one marker.
const QUEUE: usize = 99;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a capture's header, and of a packet's.
const CAPTURE: u64 = 24;
const RECORD: usize = 16;

/// A frame and the port it comes in or goes out by.
pub(crate) type At = (u32, Vec<u8>);

/// Whether it is installed.
pub(crate) fn installed() -> bool {
    let program = |name| weir_testkit::Need::Program(name, "openvswitch-switch");
    weir_testkit::needs!(
        program("ovs-vswitchd"),
        program("ovsdb-server"),
        program("ovsdb-tool"),
        program("ovs-vsctl"),
        program("ovs-ofctl"),
    )
}

/// A child that ends with its owner.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What leaves by a port: a capture that grows.
struct Capture {
    port: u32,
    file: File,
    read: u64,
}

impl Capture {
    /// Whole packets that were written since.
    fn more(&mut self) -> Vec<Vec<u8>> {
        let length = self.file.metadata().unwrap().len();
        let mut bytes = vec![0; (length - self.read) as usize];
        self.file.read_exact_at(&mut bytes, self.read).unwrap();
        let (mut rest, mut frames) = (bytes.as_slice(), Vec::new());
        while let Some((header, behind)) = rest.split_at_checked(RECORD) {
            let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
            let Some((frame, behind)) = behind.split_at_checked(length) else { break };
            frames.push(frame.to_vec());
            rest = behind;
        }
        self.read += (bytes.len() - rest.len()) as u64;
        frames
    }
}

/// The switch.
pub(crate) struct Ovs {
    folder: tempfile::TempDir,
    captures: Vec<Capture>,
    marked: Capture,
    control: UnixStream,
    answers: serde_json::StreamDeserializer<'static, serde_json::de::IoRead<BufReader<UnixStream>>, Value>,
    asked: u64,
    _daemon: Daemon,
    _database: Daemon,
}

impl Ovs {
    /// Starts it, with its ports.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let file = |name: &str| path.join(name).display().to_string();
        tool(path, "ovsdb-tool", &["create", &file("conf.db"), SCHEMA]);
        let remote = format!("unix:{}", file("db.sock"));
        let database = daemon(
            path,
            "ovsdb-server",
            &[&file("conf.db"), &format!("--remote=p{remote}"), &format!("--unixctl={}", file("db.ctl"))],
        );
        let where_it_is = format!("--db={remote}");
        let vsctl = |words: &[&str]| {
            let all = [&["--retry", "--timeout=30", &where_it_is], words].concat();
            tool(path, "ovs-vsctl", &all);
        };
        // Its poller sleeps while nothing comes, for so many microseconds.
        let settings = ["other_config:vlan-limit=2", "other_config:pmd-maxsleep=200"];
        vsctl(&[&["--no-wait", "init", "--", "set", "Open_vSwitch", "."], &settings[..]].concat());
        let control = format!("--unixctl={}", file("switch.ctl"));
        let switch = daemon(path, "ovs-vswitchd", &[&remote, "--enable-dummy=override", &control]);
        let mut words: Vec<String> =
            ["add-br", "br", "--", "set", "Bridge", "br", "datapath_type=dummy", "fail-mode=secure"]
                .map(str::to_owned)
                .to_vec();
        for port in PORTS.into_iter().chain([MARKED]) {
            let more = format!("-- add-port br p{port} -- set Interface p{port} type=dummy-pmd");
            words.extend(more.split(' ').map(str::to_owned));
            words.push(format!("ofport_request={port}"));
            words.push(format!("options:tx_pcap={}", file(&format!("{port}.pcap"))));
        }
        vsctl(&words.iter().map(String::as_str).collect::<Vec<_>>());
        // By default it hides the ports of first fragments, too; OpenFlow does not (1.3.5, section 7.3.2).
        let bridge = format!("unix:{}", file("br.mgmt"));
        tool(path, "ovs-ofctl", &["set-frags", &bridge, "nx-match"]);
        let control = UnixStream::connect(path.join("switch.ctl")).unwrap();
        let capture = |port: u32| Capture {
            port,
            file: File::open(path.join(format!("{port}.pcap"))).unwrap(),
            read: CAPTURE,
        };
        let reader = BufReader::new(control.try_clone().unwrap());
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            captures: PORTS.map(capture).into(),
            marked: capture(MARKED),
            answers: serde_json::Deserializer::from_reader(reader).into_iter(),
            control,
            asked: 0,
            folder,
            _daemon: switch,
            _database: database,
        }
    }

    /// Replaces all groups and flows, and forgets all megaflows.
    pub(crate) fn load(&mut self, groups: &[String], flows: &[String]) -> Result<(), String> {
        let mut text = "flow delete\ngroup delete\n".to_owned();
        for group in groups {
            // Its default method recirculates, which it does not survive with an action set (`Tables::sets`).
            let method = "type=select,selection_method=hash,fields(eth_dst)";
            text += &format!("group add {}\n", group.replace("type=select", method));
        }
        for flow in flows.iter().map(String::as_str).chain([MARKER_FLOW]) {
            text += &format!("flow add {flow}\n");
        }
        let path = self.folder.path();
        std::fs::write(path.join("bundle"), text).unwrap();
        let bundle = || {
            command(path, "ovs-ofctl")
                .args(["-O", "OpenFlow15", "bundle"])
                .arg(format!("unix:{}", path.join("br.mgmt").display()))
                .arg(path.join("bundle"))
                .output()
                .unwrap()
        };
        let mut output = bundle();
        // On a machine that is full the daemon may give a connection up that takes too long.
        if String::from_utf8_lossy(&output.stderr).contains("failed to connect") {
            output = bundle();
        }
        if !output.status.success() || !output.stderr.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        self.ask(&["revalidator/purge"]);
        Ok(())
    }

    /// Has its bridge do something by `ovs-ofctl`.
    pub(crate) fn ofctl(&self, words: &[&str]) {
        let path = self.folder.path();
        let bridge = format!("unix:{}", path.join("br.mgmt").display());
        tool(path, "ovs-ofctl", &[&words[..1], &[&bridge], &words[1..]].concat());
    }

    /// Asks the daemon.
    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        self.send(&words[0], &words[1..]);
        self.answer()
    }

    fn send(&mut self, method: &str, parameters: &[String]) {
        self.asked += 1;
        let question = json!({"id": self.asked, "method": method, "params": parameters});
        self.control.write_all(question.to_string().as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        let answer = self.answers.next();
        let Some(Ok(answer)) = answer else { panic!("{answer:?}\n{}", self.last_words()) };
        assert_eq!(answer["error"], Value::Null, "{}", self.last_words());
        answer["result"].as_str().unwrap_or_default().to_owned()
    }

    /// What the daemon said.
    fn last_words(&self) -> String {
        let mut text = String::new();
        let log = File::open(self.folder.path().join("ovs-vswitchd.log"));
        let _ = log.and_then(|mut log| log.read_to_string(&mut text));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Lets frames in and returns what leaves, in the order in which it leaves each port.
    pub(crate) fn forward(&mut self, frames: &[At]) -> Vec<At> {
        let mut waiting: Vec<Vec<String>> = PORTS
            .iter()
            .map(|port| frames.iter().filter(|(at, _)| at == port).map(|(_, frame)| hex(frame)).collect())
            .collect();
        let mut out = Vec::new();
        while waiting.iter().any(|frames| !frames.is_empty()) {
            let mut ports = 0;
            for (frames, port) in waiting.iter_mut().zip(PORTS).filter(|(frames, _)| !frames.is_empty()) {
                let mut parameters = vec![format!("p{port}")];
                parameters.extend(frames.drain(..frames.len().min(QUEUE)));
                parameters.push(format!("020000000099020000000088{:04x}{:032x}", 0x88b5, 0));
                self.send("netdev-dummy/receive", &parameters);
                ports += 1;
            }
            (0..ports).for_each(|_| drop(self.answer()));
            self.wait_for_markers(ports);
        }
        for capture in &mut self.captures {
            out.extend(capture.more().into_iter().map(|frame| (capture.port, frame)));
        }
        out
    }

    fn wait_for_markers(&mut self, count: usize) {
        let (begin, mut seen) = (Instant::now(), 0);
        while seen < count {
            let marker = |frame: &&Vec<u8>| frame[12..14] == [0x88, 0xb5];
            seen += self.marked.more().iter().filter(marker).count();
            assert!(begin.elapsed() < PATIENCE, "frames do not come through\n{}", self.last_words());
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// A program that looks for everything in this folder.
fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
        command.env(name, folder);
    }
    command.stdin(Stdio::null());
    command
}

fn daemon(folder: &Path, program: &str, arguments: &[&str]) -> Daemon {
    let log = File::create(folder.join(format!("{program}.log"))).unwrap();
    let quiet = ["-vconsole:info", "-vsyslog:off", "-vfile:off"];
    // It ends with the test, however that ends.
    let mut command = command(folder, "setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).args(arguments).args(quiet);
    Daemon(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

fn tool(folder: &Path, program: &str, arguments: &[&str]) {
    let output = command(folder, program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
