//! A private Open vSwitch: its database server and its daemon, both children of ours.
//!
//! It leaves any other alone: its run, database and log folders are the DUT's folder, its control
//! sockets have names of their own, and a network namespace of its own takes the bridge's kernel
//! ports, whose names are the same for every instance. Both daemons stay in the foreground under
//! [`Process`], so that they end with the lab. The tools that set it up run one after the other, and
//! each ends at once when a daemon dies or the campaign is interrupted.

use super::DAEMON;
use crate::cpu;
use crate::process::Process;
use crate::{DutError, StartRequest};
use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Seconds that a tool waits for the daemons.
const TOOL_SECONDS: u32 = 15;

/// How long a tool may take, waits for the daemons included.
const TOOL_PATIENCE: Duration = Duration::from_secs(TOOL_SECONDS as u64 + 45);

/// Flow entries that the daemon takes a second at least, beside other work on its core.
const ENTRIES_A_SECOND: u64 = 5_000;

/// What a tool says of itself when something took it a second or much of its core, such as 500,000 flow entries (`Unreasonably long poll
/// interval`, all it counted, what woke it) is no complaint.
const QUIET: [&str; 3] = ["-vtimeval:console:off", "-vcoverage:console:off", "-vpoll_loop:console:off"];

/// How often a tool at work is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Debian's schema of the switch's database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// The bridge.
pub(super) const BRIDGE: &str = "weir";

/// What is started, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    /// The device.
    pub(super) dut: &'static str,
    /// The daemon's program.
    pub(super) program: &'a OsStr,
    /// The network namespace of its ports; none for one of its own.
    pub(super) namespace: Option<&'a Path>,
}

/// Changes settings from any thread, and does not wait for the daemon to have read them.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    remote: String,
    core: usize,
}

impl Writer {
    /// Of the database at `remote`, with its tools on a core.
    pub(super) fn new(remote: &str, core: usize) -> Self {
        Self { remote: remote.to_owned(), core }
    }

    /// Runs `ovs-vsctl` with these words; the reason where it does not do what they say.
    pub(super) fn write(&self, words: &[String]) -> Result<(), String> {
        let mut command = Command::new("ovs-vsctl");
        command
            .args([&format!("--db={}", self.remote), &format!("--timeout={TOOL_SECONDS}"), "--no-wait"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let output = cpu::spawn_on(self.core, &mut command).and_then(std::process::Child::wait_with_output);
        let output = output.map_err(|error| format!("ovs-vsctl: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match (output.status.success(), said.trim()) {
            (true, _) => Ok(()),
            (false, "") => Err(format!("ovs-vsctl: {}", output.status)),
            (false, said) => Err(said.to_owned()),
        }
    }
}

/// Both daemons.
#[derive(Debug)]
pub(super) struct Instance {
    dut: &'static str,
    folder: PathBuf,
    alarm: Arc<AtomicBool>,
    /// Where the tools run.
    core: usize,
    /// Ends before its database.
    daemon: Option<Process>,
    database: Option<Process>,
}

impl Instance {
    /// Starts both daemons, with these settings in the database before the second reads it.
    pub(super) fn start(
        plan: Plan<'_>,
        request: &StartRequest<'_>,
        settings: &[String],
    ) -> Result<Self, DutError> {
        let Plan { dut, program, namespace: inside } = plan;
        let folder = request.folder.path().to_owned();
        let alarm = Arc::clone(&request.alarm);
        let mut instance =
            Self { dut, folder, alarm, core: request.control_core, daemon: None, database: None };
        let database = instance.file("conf.db");
        instance.run("ovsdb-tool", &["create".to_owned(), database.clone(), SCHEMA.to_owned()])?;
        let arguments = [
            instance.environment(),
            vec![
                "ovsdb-server".to_owned(),
                database,
                format!("--remote=p{}", instance.remote()),
                format!("--unixctl={}", instance.file("ovsdb.ctl")),
            ],
            logging(),
        ];
        instance.database = Some(instance.child("env", &arguments.concat())?);
        instance.wait_for_database()?;
        let mut words = vec!["--no-wait", "init"];
        if !settings.is_empty() {
            words.extend(["--", "set", "Open_vSwitch", "."]);
        }
        words.extend(settings.iter().map(String::as_str));
        instance.configure(&words)?;
        // Entering a namespace of one's users may take away the tie to our life; so it is tied anew.
        let (enter, words) = match inside {
            Some(path) => ("nsenter", vec![format!("--net={}", path.display()), "--".to_owned()]),
            None => ("unshare", namespace()),
        };
        let arguments = [
            words,
            instance.environment(),
            ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned).to_vec(),
            vec![
                program.to_string_lossy().into_owned(),
                instance.remote(),
                format!("--unixctl={}", instance.control()),
            ],
            logging(),
        ];
        instance.daemon = Some(instance.child(enter, &arguments.concat())?);
        instance.configure(&[
            "add-br",
            BRIDGE,
            "--",
            "set",
            "Bridge",
            BRIDGE,
            "datapath_type=netdev",
            "fail-mode=secure",
        ])?;
        Ok(instance)
    }

    /// Waits until the database answers: a tool that finds it deaf tries again after a second, not sooner.
    fn wait_for_database(&self) -> Result<(), DutError> {
        let end = Instant::now() + Duration::from_secs(u64::from(TOOL_SECONDS));
        while UnixStream::connect(self.file("db.sock")).is_err() && Instant::now() < end {
            self.goes_on()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether there is anything to wait for: no daemon has ended, and nobody wants waits to end.
    fn goes_on(&self) -> Result<(), DutError> {
        match self.ended() {
            Some(ended) => Err(ended),
            None if self.alarm.load(Ordering::Relaxed) => Err(DutError::Interrupted { dut: self.dut }),
            None => Ok(()),
        }
    }

    fn child(&self, program: &str, arguments: &[String]) -> Result<Process, DutError> {
        Process::start(self.dut, OsStr::new(program), arguments, Arc::clone(&self.alarm))
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.file("db.sock"))
    }

    fn control(&self) -> String {
        self.file("vswitchd.ctl")
    }

    /// Where an instance looks for everything, as settings of the environment.
    fn environment(&self) -> Vec<String> {
        let folder = self.folder.display();
        let variables = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"].map(|name| format!("{name}={folder}"));
        std::iter::once("env".to_owned()).chain(variables).collect()
    }

    /// The daemon that forwards.
    pub(super) fn daemon(&self) -> Option<&Process> {
        self.daemon.as_ref()
    }

    /// What changes its settings beside it.
    pub(super) fn writer(&self) -> Writer {
        Writer::new(&self.remote(), self.core)
    }

    /// Runs `ovs-vsctl`, which waits until the daemon has done what it says.
    pub(super) fn configure(&self, words: &[&str]) -> Result<String, DutError> {
        let mut arguments = vec![
            format!("--db={}", self.remote()),
            format!("--timeout={TOOL_SECONDS}"),
            "--retry".to_owned(),
        ];
        arguments.extend(words.iter().map(|&word| word.to_owned()));
        self.run("ovs-vsctl", &arguments)
    }

    /// Puts the flows of a file, whose text this is, into the bridge, all or none.
    pub(super) fn add_flows(&self, file: &Path, flows: &str) -> Result<(), DutError> {
        self.add(&["add-flows"], file, flows)
    }

    /// Puts the groups of a file, whose text this is, into the bridge, all or none. How they choose is said in OpenFlow 1.5 alone.
    pub(super) fn add_groups(&self, file: &Path, groups: &str) -> Result<(), DutError> {
        self.add(&["-O", "OpenFlow15", "add-groups"], file, groups)
    }

    fn add(&self, command: &[&str], file: &Path, entries: &str) -> Result<(), DutError> {
        let bridge = format!("unix:{}", self.file(&format!("{BRIDGE}.mgmt")));
        let words = ["--bundle"].iter().chain(command).map(|&word| word.to_owned());
        let words: Vec<String> = words.chain([bridge, file.display().to_string()]).collect();
        let entries = Duration::from_secs(entries.lines().count() as u64 / ENTRIES_A_SECOND);
        self.run_for("ovs-ofctl", &words, TOOL_PATIENCE + entries).map(drop)
    }

    /// Asks the daemon.
    pub(super) fn ask(&self, question: &[&str]) -> Result<String, DutError> {
        let mut arguments = vec![format!("--target={}", self.control()), format!("--timeout={TOOL_SECONDS}")];
        arguments.extend(question.iter().map(|&word| word.to_owned()));
        self.run("ovs-appctl", &arguments)
    }

    /// Runs a tool to its end, away from the core that forwards, and returns what it printed. Complaints on standard error count as failure:
    /// `ovs-vsctl` reports ports that could not be opened so, and still says success.
    fn run(&self, program: &'static str, arguments: &[String]) -> Result<String, DutError> {
        self.run_for(program, arguments, TOOL_PATIENCE)
    }

    /// The same, with so much time.
    fn run_for(
        &self,
        program: &'static str,
        arguments: &[String],
        patience: Duration,
    ) -> Result<String, DutError> {
        let spawn = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                DutError::Missing { dut: self.dut, program, package: super::PACKAGE }
            }
            _ => DutError::Spawn { program: program.to_owned(), reason: error.to_string() },
        };
        let mut command = Command::new(program);
        command
            .args(QUIET)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut tool = cpu::spawn_on(self.core, &mut command).map_err(spawn)?;
        let end = Instant::now() + patience;
        let outcome = loop {
            match tool.try_wait() {
                Ok(Some(_)) | Err(_) => break Ok(()),
                Ok(None) => {}
            }
            if let Err(over) = self.goes_on() {
                break Err(over);
            }
            if Instant::now() > end {
                break Ok(());
            }
            std::thread::sleep(LOOK);
        };
        if outcome.is_err() || !matches!(tool.try_wait(), Ok(Some(_))) {
            let _ = tool.kill();
        }
        let output = tool.wait_with_output().map_err(spawn)?;
        outcome?;
        self.judge(program, arguments, &output)
    }

    fn judge(&self, program: &str, arguments: &[String], output: &Output) -> Result<String, DutError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let complaints = text(&output.stderr);
        if output.status.success() && complaints.is_empty() {
            return Ok(text(&output.stdout));
        }
        let reason = if complaints.is_empty() { output.status.to_string() } else { complaints };
        let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
        Err(self.refused(&words.collect::<Vec<_>>().join(" "), reason))
    }

    /// An error with the daemon's last words.
    pub(super) fn refused(&self, command: &str, reason: String) -> DutError {
        let last_words = self.daemon.as_ref().map(Process::last_words).unwrap_or_default();
        DutError::Refused { dut: self.dut, command: command.to_owned(), reason, last_words }
    }

    /// Which daemon ended, and why.
    pub(super) fn ended(&self) -> Option<DutError> {
        [&self.daemon, &self.database].into_iter().flatten().find_map(Process::ended)
    }

    /// Ends both.
    pub(super) fn stop(mut self) {
        self.daemon.take().into_iter().chain(self.database.take()).for_each(Process::terminate);
    }

    /// The daemon's command line.
    pub(super) fn command(&self) -> &str {
        self.daemon.as_ref().map_or(DAEMON, Process::command)
    }
}

/// Everything to standard error, but of DPDK only what matters; nothing to the system's log.
fn logging() -> Vec<String> {
    [
        "-vconsole:info",
        "-vdpdk:console:warn",
        "-vdpif_netdev:console:warn",
        "-vcoverage:console:off",
        "-vsyslog:off",
        "-vfile:off",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Into a network namespace of its own; whoever is not root needs one of users with it.
fn namespace() -> Vec<String> {
    let mut words = vec!["--net".to_owned()];
    if !nix::unistd::geteuid().is_root() {
        words.extend(["--user", "--map-root-user"].map(str::to_owned));
    }
    words.push("--".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::os::unix::fs::PermissionsExt as _;

    /// What a tool in the place of one of Open vSwitch's makes of it.
    fn told(script: &str) -> Result<String, DutError> {
        let folder = Folder::new().unwrap();
        let tool = folder.write("tool", &format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (alarm, path) = (Arc::default(), folder.path().to_owned());
        let instance =
            Instance { dut: "ovs-dpdk", folder: path, alarm, core: 0, daemon: None, database: None };
        instance.run(Box::leak(tool.display().to_string().into_boxed_str()), &["add-flows".to_owned()])
    }

    /// As `ovs-ofctl` 3.1 does with 500,000 flows, which it says on standard error and still adds all of them.
    #[test]
    fn a_tool_that_something_takes_more_than_a_second_has_not_failed() {
        let slow = "case \"$*\" in *-vtimeval:console:off*-vcoverage:console:off*-vpoll_loop:console:off*add-flows) exit;; esac\n\
                    echo '2026-11-25T13:46:49Z|00001|timeval|WARN|Unreasonably long 2466ms poll interval' >&2\n\
                    echo '2026-11-25T13:46:49Z|00005|coverage|INFO|Event coverage, avg rate over last' >&2\n\
                    echo '2026-11-25T15:37:34Z|00016|poll_loop|INFO|wakeup due to [POLLOUT] (53% CPU usage)' >&2";
        assert_eq!(told(slow).unwrap(), "");
        let error =
            told("echo \"ovs-vsctl: Error detected while setting up 'p0'\" >&2").unwrap_err().to_string();
        assert!(error.contains("Error detected while setting up 'p0'"), "{error}");
    }
}
