//! A dataplane behind a program that speaks lines of JSON.
//!
//! The lab writes a question a line, the program answers with a line: `describe`, `start`, `counters`, `stop`. Lines that
//! do not begin with `{` are its dataplane's chatter and are passed over. An answer with `error` refuses.

use super::commands::counted;
use super::tables::Tables;
use super::{About, Outside};
use crate::eal::{self, Lcores, PATIENCE};
use crate::process::Process;
use crate::wiring::INTERFACES;
use crate::{Counters, DutError, PortCounts, RunningDut, StartRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Longest that a program may take to start its dataplane.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// What it answers to `describe`.
#[derive(Debug, Deserialize)]
struct Described {
    version: String,
    #[serde(default)]
    about: Option<String>,
    wirings: Vec<String>,
    functions: Vec<String>,
}

/// What it answers to `start`.
#[derive(Debug, Deserialize)]
struct Started {
    /// Forwarding threads: process and thread.
    #[serde(default)]
    threads: Vec<(u32, u32)>,
    /// How the dataplane was started, for the record.
    #[serde(default)]
    description: Option<String>,
}

/// What it answers to `counters`.
#[derive(Debug, Deserialize)]
struct Counted {
    ports: Vec<PortCounts>,
    /// What else it counts, stages among it, by its own names.
    #[serde(default)]
    details: BTreeMap<String, u64>,
    /// What it holds now, by its own names.
    #[serde(default)]
    states: BTreeMap<String, u64>,
}

/// What it answers to `stop`, before it ends.
#[derive(Debug, Deserialize)]
struct Stopped {}

#[derive(Debug, Serialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Question<'a> {
    Describe,
    Start(Box<Start<'a>>),
    Counters,
    Stop,
}

/// Everything that a dataplane is started with.
#[derive(Debug, Serialize)]
struct Start<'a> {
    /// The function, such as `l3fwd:10`.
    function: String,
    kind: &'static str,
    entries: Option<u32>,
    routes: Option<PathBuf>,
    rules: Option<PathBuf>,
    flows: Option<PathBuf>,
    /// DPDK's `--vdev` strings or PCI addresses.
    ports: &'a [String],
    /// The interfaces in its network namespace; none where the wiring has none.
    interfaces: Option<[&'static str; 2]>,
    /// DPDK's options for cores, memory and ports.
    eal: Vec<String>,
    core: usize,
    control_core: usize,
    huge_pages: bool,
    /// Packet buffers that it must have.
    buffers: u32,
    /// Bytes, with the FCS.
    max_frame: u16,
    folder: &'a Path,
}

/// The adapter.
#[derive(Debug)]
pub(super) struct Speaking {
    about: About,
    version: String,
    program: PathBuf,
}

impl Speaking {
    /// Starts the program once and asks what it is.
    pub(super) fn ask(name: &'static str, program: &Path) -> Result<Self, String> {
        let none: [&str; 0] = [];
        let alarm = Arc::new(AtomicBool::new(false));
        let process =
            Process::start(name, program.as_os_str(), &none, alarm).map_err(|error| error.to_string())?;
        let mut talk = Talk { name, process };
        let described: Described =
            talk.ask(&Question::Describe, PATIENCE).map_err(|error| error.to_string())?;
        talk.process.stop(&[]);
        let about =
            described.about.as_deref().unwrap_or("a dataplane behind a program that speaks JSON lines");
        let about = About::new(name, about, &described.wirings, described.functions)?;
        Ok(Self { about, version: described.version, program: program.to_owned() })
    }
}

impl Outside for Speaking {
    fn about(&self) -> &About {
        &self.about
    }

    fn version(&self) -> Result<String, DutError> {
        Ok(self.version.clone())
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let name = self.about.name;
        let tables = Tables::write(request)?;
        let (program, arguments) = request.command(self.program.as_os_str(), Vec::new());
        let process = Process::start(name, OsStr::new(&program), &arguments, request.alarm.clone())?;
        let mut talk = Talk { name, process };
        let start = Start {
            function: request.nf.to_string(),
            kind: request.nf.kind().name(),
            entries: request.nf.entries(),
            routes: tables.routes,
            rules: tables.rules,
            flows: tables.flows,
            ports: request.ports,
            interfaces: request.namespace.map(|_| INTERFACES),
            eal: eal::arguments(request, Lcores::MainAndWorker, 0, false),
            core: request.core,
            control_core: request.control_core,
            huge_pages: request.huge_pages,
            buffers: eal::buffers(request),
            max_frame: request.max_frame.bytes(),
            folder: request.folder.path(),
        };
        let started: Started = talk.ask(&Question::Start(Box::new(start)), START_PATIENCE)?;
        let children = talk.process.conduct().children;
        let description = started.description.unwrap_or_else(|| talk.process.command().to_owned());
        Ok(Box::new(Running {
            talk,
            description: format!("{}; {description}", self.version),
            threads: started.threads,
            children,
            ports: request.ports.len(),
        }))
    }
}

/// Questions and answers.
struct Talk {
    name: &'static str,
    process: Process,
}

impl Talk {
    fn ask<T: DeserializeOwned>(
        &mut self,
        question: &Question<'_>,
        patience: Duration,
    ) -> Result<T, DutError> {
        let text = serde_json::to_string(question).unwrap_or_default();
        let (expected, what) = match question {
            Question::Describe => ("version, wirings and functions", "answer `describe`"),
            Question::Start(_) => ("its threads", "answer `start`"),
            Question::Counters => ("the counters of all ports", "answer `counters`"),
            Question::Stop => ("an answer", "answer `stop`"),
        };
        let mark = self.process.mark();
        self.process.say(&text)?;
        let line =
            |lines: &[&str]| lines.iter().find(|line| line.starts_with('{')).map(|line| (*line).to_owned());
        let answer = self.process.wait_for(mark, what, patience, line)?;
        let wrong = || DutError::Answer { dut: self.name, answer: answer.clone(), expected };
        let value: Value = serde_json::from_str(&answer).map_err(|_| wrong())?;
        if let Some(reason) = value.get("error") {
            let reason = reason.as_str().map_or_else(|| reason.to_string(), str::to_owned);
            let last_words = self.process.last_words();
            return Err(DutError::Refused { dut: self.name, command: text, reason, last_words });
        }
        serde_json::from_value(value).map_err(|_| wrong())
    }
}

struct Running {
    talk: Talk,
    description: String,
    threads: Vec<(u32, u32)>,
    /// Processes that it had started when it was ready: the dataplane is one of them.
    children: u32,
    ports: usize,
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let counted_by_it: Counted = self.talk.ask(&Question::Counters, PATIENCE)?;
        let at = asked + asked.elapsed() / 2;
        let Counted { ports, details, states } = counted_by_it;
        if ports.len() != self.ports {
            let answer = format!("counters of {} ports", ports.len());
            return Err(DutError::Answer { dut: self.talk.name, answer, expected: "those of all its ports" });
        }
        Ok(Counters { details, states, ..counted(ports, &self.threads, at) })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.clone()
    }

    fn conduct(&self) -> weir_trial::Conduct {
        let conduct = self.talk.process.conduct();
        weir_trial::Conduct { children: conduct.children.saturating_sub(self.children), ..conduct }
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.talk.process]
    }

    fn ended(&mut self) -> Option<DutError> {
        self.talk.process.ended()
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        // One that cannot say how it stops is ended all the same.
        let stopped = self.talk.ask::<Stopped>(&Question::Stop, PATIENCE);
        self.talk.process.stop(&[]);
        stopped.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program of the shell that answers its first question with this line, and what is made of it.
    fn asked(answer: &str) -> Result<Speaking, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter");
        std::fs::write(&path, format!("#!/bin/sh\nread question\necho starting\n{answer}\nread end\n"))
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Speaking::ask("exec:adapter", &path)
    }

    #[test]
    fn a_program_says_what_it_is_among_its_chatter() {
        let spoken = asked(
            "echo '{\"version\":\"dp 1.2\",\"wirings\":[\"vhost\",\"veth\"],\"functions\":[\"l2fwd\"]}'",
        );
        let spoken = spoken.unwrap();
        assert_eq!((spoken.version.as_str(), spoken.about.wirings.len()), ("dp 1.2", 2));
    }

    #[test]
    fn nonsense_a_refusal_and_an_end_are_told_apart() {
        for (answer, says) in [
            (
                "echo '{\"version\":7}'",
                "answered `{\"version\":7}` where version, wirings and functions was expected",
            ),
            ("echo '{nonsense'", "answered `{nonsense`"),
            ("echo '{\"error\":\"no license\"}'", "no license"),
            ("echo out of memory; exit 3", "exit status: 3"),
            (
                "echo '{\"version\":\"1\",\"wirings\":[\"vhost\"],\"functions\":[\"l9fwd\"]}'",
                "`l9fwd` is no function Weir knows",
            ),
        ] {
            let error = asked(answer).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
