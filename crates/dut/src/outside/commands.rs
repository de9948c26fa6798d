//! A dataplane described by its commands, in a few lines of TOML.

use super::pinned::forwarding;
use super::tables::Tables;
use super::words::{Command, Places};
use super::{About, Outside};
use crate::eal::PATIENCE;
use crate::process::Process;
use crate::wiring::WiringKind;
use crate::{Counters, DutError, PortCounts, RunningDut, StartRequest, cpu};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_units::Nanos;

/// The largest description that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Longest that a command for the version or the counters may take, in seconds.
const COMMAND_SECONDS: &str = "10";
/// Longest that a description may let its dataplane take to become ready, in seconds.
const MOST_READY_SECONDS: u64 = 600;
/// The exit code by which `timeout` says that it ended the command.
const TIMED_OUT: i32 = 124;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: Option<String>,
    version: Option<Command>,
    wirings: Vec<String>,
    functions: Vec<String>,
    start: Command,
    ready: String,
    ready_seconds: Option<u64>,
    counters: Option<Command>,
    stop: Option<String>,
    #[serde(default)]
    threads: Vec<String>,
}

/// The adapter.
#[derive(Debug)]
pub(super) struct Commanded {
    about: About,
    /// The description's own text, kept with each run.
    text: String,
    file: File,
}

impl Commanded {
    /// Reads a description; the mistake in it, with its line.
    pub(super) fn read(name: &'static str, path: &Path) -> Result<Self, String> {
        let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        if length > MOST_BYTES {
            return Err(format!("has {length} bytes; a description has {MOST_BYTES} at most"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: File = toml::from_str(&text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let about = file.about.as_deref().unwrap_or("a dataplane described by its commands");
        let about = About::new(name, about, &file.wirings, file.functions.clone())?;
        let places = Places::known();
        let commands = [("start", Some(&file.start)), ("counters", file.counters.as_ref())];
        for (key, command) in commands.into_iter().chain([("version", file.version.as_ref())]) {
            command
                .map_or(Ok(Vec::new()), |one| one.filled(&places))
                .map_err(|why| format!("`{key}`: {why}"))?;
        }
        if file.ready.trim().is_empty() {
            return Err(
                "`ready` is empty; write a part of the line that it prints once it forwards".to_owned()
            );
        }
        if !(1..=MOST_READY_SECONDS).contains(&file.ready_seconds.unwrap_or(1)) {
            return Err(format!("`ready_seconds` is not between 1 and {MOST_READY_SECONDS}"));
        }
        if file.counters.is_none() && about.wirings.contains(&WiringKind::Fed) {
            return Err(
                "`wirings` has \"fed\", where the counters are the result, and there are no `counters`"
                    .to_owned(),
            );
        }
        Ok(Self { about, text, file })
    }

    fn patience(&self) -> Duration {
        self.file.ready_seconds.map_or(PATIENCE, Duration::from_secs)
    }
}

impl Outside for Commanded {
    fn about(&self) -> &About {
        &self.about
    }

    fn version(&self) -> Result<String, DutError> {
        let Some(command) = &self.file.version else { return Ok("of unknown version".to_owned()) };
        let words: Vec<OsString> = command.words().into_iter().map(OsString::from).collect();
        let text = printed(self.about.name, &words)?;
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map(str::to_owned).ok_or_else(|| self.answer(&text, "a version"))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let name = self.about.name;
        let version = Outside::version(self)?;
        request.folder.write("device.toml", &self.text)?;
        let tables = Tables::write(request)?;
        let places = Places::of(request, &tables);
        let filled = |key: &str, command: &Command| {
            let reason =
                |why| DutError::Unsupported { dut: name, nf: request.nf, reason: format!("`{key}`: {why}") };
            let mut words = command.filled(&places).map_err(reason)?.into_iter();
            let program = words.next().unwrap_or_default();
            Ok::<_, DutError>(request.command(OsStr::new(&program), words.collect()))
        };
        let (program, arguments) = filled("start", &self.file.start)?;
        let counters = self.file.counters.as_ref().map(|command| filled("counters", command)).transpose()?;
        let process = Process::start(name, &program, &arguments, request.alarm.clone())?;
        let ready = |lines: &[&str]| lines.iter().any(|line| line.contains(&self.file.ready)).then_some(());
        process.wait_for(0, "print the text of `ready`", self.patience(), ready)?;
        let names: Vec<&str> = self.file.threads.iter().map(String::as_str).collect();
        let threads = forwarding(process.pid(), &names, request.core);
        let children = process.conduct().children;
        Ok(Box::new(Running {
            name,
            process,
            version,
            threads,
            children,
            ports: request.ports.len(),
            counters: counters.map(|(program, arguments)| [vec![program], arguments].concat()),
            stop: self.file.stop.clone(),
        }))
    }
}

impl Commanded {
    fn answer(&self, answer: &str, expected: &'static str) -> DutError {
        DutError::Answer { dut: self.about.name, answer: answer.trim().to_owned(), expected }
    }
}

struct Running {
    name: &'static str,
    process: Process,
    version: String,
    threads: Vec<(u32, u32)>,
    /// Processes that it had started when it was ready: they are a part of it.
    children: u32,
    ports: usize,
    counters: Option<Vec<OsString>>,
    stop: Option<String>,
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn has_counters(&self) -> bool {
        self.counters.is_some()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let Some(command) = &self.counters else { return Ok(Counters::new(0, 0, Nanos(0), Instant::now())) };
        let asked = Instant::now();
        let text = printed(self.name, command)?;
        let at = asked + asked.elapsed() / 2;
        Ok(counted(by_port(self.name, &text, self.ports)?, &self.threads, at))
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.clone()
    }

    fn conduct(&self) -> weir_trial::Conduct {
        let conduct = self.process.conduct();
        weir_trial::Conduct { children: conduct.children.saturating_sub(self.children), ..conduct }
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process]
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        match self.stop.as_deref() {
            Some(farewell) => self.process.stop(&[farewell]),
            None => self.process.terminate(),
        }
        Ok(())
    }
}

/// A reading of ports and of the CPU time of the forwarding threads.
pub(crate) fn counted(ports: Vec<PortCounts>, threads: &[(u32, u32)], at: Instant) -> Counters {
    let cpu = threads.iter().filter_map(|(process, thread)| cpu::thread_cpu(*process, *thread));
    let cpu = cpu.map(|cpu| cpu.0).sum();
    let (received, sent) = PortCounts::totals(&ports);
    Counters { ports, ..Counters::new(received, sent, Nanos(cpu), at) }
}

/// Runs a command to its end and returns what it printed; an error where it fails or does not end.
pub(crate) fn printed(dut: &'static str, command: &[OsString]) -> Result<String, DutError> {
    let shown = || command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut timed = std::process::Command::new("timeout");
    timed.args(["--kill-after=1", COMMAND_SECONDS]).args(command).stdin(std::process::Stdio::null());
    let output = timed.output().map_err(|error| DutError::Spawn {
        program: "timeout".to_owned(),
        reason: format!("{error} (of Debian's coreutils)"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = match output.status.code() {
        Some(TIMED_OUT) => format!("did not end within {COMMAND_SECONDS} s"),
        _ => output.status.to_string(),
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last_words = said.lines().map(|line| format!("\n    | {line}")).collect();
    Err(DutError::Refused { dut, command: shown(), reason, last_words })
}

/// Counters as a command prints them, a line a port; an error where a line or a port is missing, or is something else.
pub(crate) fn by_port(dut: &'static str, text: &str, ports: usize) -> Result<Vec<PortCounts>, DutError> {
    lines_of_ports(text, ports).ok_or_else(|| DutError::Answer {
        dut,
        answer: text.trim().to_owned(),
        expected: "a line a port, packets received and packets sent (and refused),",
    })
}

fn lines_of_ports(text: &str, ports: usize) -> Option<Vec<PortCounts>> {
    let port = |line: &str| {
        let numbers = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        match numbers[..] {
            [received, sent] => Some(PortCounts { received, sent, refused: None }),
            [received, sent, refused] => Some(PortCounts { received, sent, refused: Some(refused) }),
            _ => None,
        }
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let found = lines.map(port).collect::<Option<Vec<_>>>()?;
    (found.len() == ports).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Commanded, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        Commanded::read("exec:mine.toml", &path)
    }

    const WHOLE: &str =
        "wirings = [\"vhost\"]\nfunctions = [\"l2fwd\"]\nstart = \"dp {eal} {port0}\"\nready = \"up\"\n";

    #[test]
    fn a_description_has_all_that_is_needed_or_says_what_is_missing() {
        read(WHOLE).unwrap();
        for (text, says) in [
            (WHOLE.replace("ready = \"up\"", ""), "missing field `ready`"),
            (WHOLE.replace("\"up\"", "\" \""), "`ready` is empty"),
            (WHOLE.replace("{port0}", "{prot0}"), "`start`: `{prot0}` is no place"),
            (WHOLE.replace("start", "strat"), "unknown field `strat`"),
            (WHOLE.replace("\"dp {eal} {port0}\"", "[]"), "`start`: the command is empty"),
            (WHOLE.replace("\"vhost\"", "\"fed\""), "there are no `counters`"),
            (format!("{WHOLE}ready_seconds = 0\n"), "`ready_seconds` is not between 1 and 600"),
            ("start = 1".to_owned(), "line 1"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn counters_are_a_line_a_port_and_nothing_else() {
        let ports = by_port("x", "10 20\n30 40 5\n", 2).unwrap();
        assert_eq!((ports[0].received, ports[0].sent, ports[1].refused), (10, 20, Some(5)));
        for wrong in ["10 20\n", "10 20\n30\n", "10 20\n30 x\n", "10 20\n30 40\n50 60\n", "-1 2\n3 4\n"] {
            assert!(by_port("x", wrong, 2).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_that_fails_is_named_with_what_it_said() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(printed("x", &words(&["echo", "1", "2"])).unwrap(), "1 2\n");
        let error =
            printed("x", &words(&["sh", "-c", "echo no such switch >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such switch"), "{error}");
    }
}
