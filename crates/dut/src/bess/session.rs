//! A `bessd` that is spoken to: started or running, set up, counted and left as it was.

use super::grpc::{self, Channel, Failure, Place};
use super::messages::{
    AddWorkerRequest, Answer, Any, CommandRequest, ConstraintsResponse, CreatePortRequest, CreateResponse,
    EmptyRequest, EmptyResponse, GetPortStatsRequest, GetPortStatsResponse, ListResponse,
    ListWorkersResponse, PmdPortArg, VersionResponse,
};
use super::pipeline::{self, OURS, Pipeline};
use super::{NAME, SERVICE};
use crate::eal::{RING, Vdev, is_virtual};
use crate::process::Process;
use crate::{DutError, PortCounts, StartRequest};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a `bessd` that does not answer yet is tried, and its end looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The worker of the forwarding core.
const WORKER: i64 = 0;

/// DPDK's option by which a null port has nothing to read, which the DPDK of BESS does not know.
const NOTHING_TO_READ: &str = ",no-rx=1";

/// A `bessd`, and the process where it is the lab's own.
pub(super) struct Session {
    channel: Channel,
    pub(super) process: Option<Process>,
    /// What it says it is.
    pub(super) version: String,
    alarm: Arc<AtomicBool>,
}

impl Session {
    /// Connects to a `bessd`, one of the lab's own as soon as it answers, and asks its version.
    pub(super) fn open(
        place: &Place,
        process: Option<Process>,
        alarm: &Arc<AtomicBool>,
        patience: Duration,
    ) -> Result<Self, DutError> {
        let end = Instant::now() + patience;
        let channel = loop {
            let failure = match Channel::open(place, SERVICE) {
                Ok(channel) => break channel,
                Err(failure) => failure,
            };
            let Some(process) = &process else {
                let what = format!("bessd at {place}");
                return Err(of_failure(what, "connect", failure));
            };
            // Says how it ended, or that all is to stop.
            match process.wait_for(0, "answer", LOOK, |_| None::<()>) {
                Err(DutError::Silent { last_words, .. }) if Instant::now() > end => {
                    let what = "answer on its control socket";
                    return Err(DutError::Silent {
                        dut: NAME,
                        what,
                        seconds: patience.as_secs(),
                        last_words,
                    });
                }
                Err(DutError::Silent { .. }) | Ok(()) => {}
                Err(error) => return Err(with_reason(process, error)),
            }
        };
        let version = String::new();
        let mut session = Self { channel, process, version, alarm: Arc::clone(alarm) };
        let left = end.saturating_duration_since(Instant::now()).max(grpc::PATIENCE.min(patience));
        let answer: VersionResponse =
            session.ask_within("GetVersion", String::new(), &EmptyRequest {}, left)?;
        session.version = answer.version;
        Ok(session)
    }

    /// Refuses a `bessd` in which somebody else has made something; what an earlier lab left is taken out.
    pub(super) fn take_over(&mut self) -> Result<(), DutError> {
        let mut names = Vec::new();
        for list in ["ListModules", "ListPorts"] {
            let answer: ListResponse = self.ask(list, String::new(), &EmptyRequest {})?;
            names.extend(answer.items.into_iter().map(|item| item.name));
        }
        if let Some(name) = names.iter().find(|name| !name.starts_with(OURS)) {
            let reason =
                format!("somebody has made `{name}` in it; the lab takes one in which there is nothing");
            return Err(refused("take over a bessd".to_owned(), reason));
        }
        let workers: ListWorkersResponse = self.ask("ListWorkers", String::new(), &EmptyRequest {})?;
        if !names.is_empty() || !workers.workers.is_empty() {
            self.reset()?;
        }
        Ok(())
    }

    /// Makes ports, modules and a worker, and lets it run.
    pub(super) fn set_up(&mut self, request: &StartRequest<'_>) -> Result<(), DutError> {
        let worker = AddWorkerRequest { wid: WORKER, core: request.core as i64 };
        let _: EmptyResponse = self.ask("AddWorker", format!("core {}", request.core), &worker)?;
        for (number, port) in request.ports.iter().enumerate() {
            let _: CreateResponse = self.ask("CreatePort", port.clone(), &dpdk_port(number, port))?;
        }
        let reads: Vec<bool> = request.ports.iter().map(|port| !port.ends_with(NOTHING_TO_READ)).collect();
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        let Pipeline { modules, entries, links } = pipeline::of(request.nf, &reads).map_err(unsupported)?;
        for module in &modules {
            let what = format!("{} {}", module.mclass, module.name);
            let _: CreateResponse = self.ask("CreateModule", what, module)?;
        }
        for (name, command, arg) in entries {
            let what = format!("{name} {command}");
            let command = CommandRequest { name, cmd: command.to_owned(), arg: Some(arg) };
            let _: EmptyResponse = self.ask("ModuleCommand", what, &command)?;
        }
        for link in &links {
            let what = format!("{}:{} to {}:{}", link.m1, link.ogate, link.m2, link.igate);
            let _: EmptyResponse = self.ask("ConnectModules", what, link)?;
        }
        self.resume()
    }

    /// Lets it run. The question before it is what tells modules their workers: without it `bessd` ends at the first packet.
    fn resume(&mut self) -> Result<(), DutError> {
        const CHECK: &str = "CheckSchedulingConstraints";
        let checked: ConstraintsResponse = self.ask(CHECK, String::new(), &EmptyRequest {})?;
        if checked.fatal {
            let names: Vec<String> = checked.modules.into_iter().map(|module| module.name).collect();
            let reason = format!("no worker can run {}", names.join(", "));
            return Err(refused(CHECK.to_owned(), reason));
        }
        let _: EmptyResponse = self.ask("ResumeAll", String::new(), &EmptyRequest {})?;
        Ok(())
    }

    /// The counters of so many ports, and the rest by name.
    pub(super) fn counters(
        &mut self,
        ports: usize,
    ) -> Result<(Vec<PortCounts>, BTreeMap<String, u64>), DutError> {
        let mut counts = Vec::new();
        let mut missed = 0;
        for number in 0..ports {
            let name = pipeline::port(number);
            let question = GetPortStatsRequest { name: name.clone() };
            let answer: GetPortStatsResponse = self.ask("GetPortStats", name, &question)?;
            let (inc, out) = (answer.inc.unwrap_or_default(), answer.out.unwrap_or_default());
            missed += inc.dropped;
            counts.push(PortCounts { received: inc.packets, sent: out.packets, refused: Some(out.dropped) });
        }
        let answer: ListWorkersResponse = self.ask("ListWorkers", String::new(), &EmptyRequest {})?;
        let dropped = answer.workers.iter().map(|worker| worker.silent_drops.unsigned_abs()).sum();
        let details = [("packets missed", missed), ("dropped by the function", dropped)];
        Ok((counts, details.map(|(name, count)| (name.to_owned(), count)).into()))
    }

    /// Takes out all that is in it.
    pub(super) fn reset(&mut self) -> Result<(), DutError> {
        for call in ["PauseAll", "ResetAll"] {
            let _: EmptyResponse = self.ask(call, String::new(), &EmptyRequest {})?;
        }
        Ok(())
    }

    fn ask<A: Answer>(
        &mut self,
        method: &'static str,
        about: String,
        question: &impl Message,
    ) -> Result<A, DutError> {
        self.ask_within(method, about, question, grpc::PATIENCE)
    }

    fn ask_within<A: Answer>(
        &mut self,
        method: &'static str,
        about: String,
        question: &impl Message,
        patience: Duration,
    ) -> Result<A, DutError> {
        let command = if about.is_empty() { method.to_owned() } else { format!("{method} {about}") };
        let mark = self.process.as_ref().map_or(0, Process::mark);
        let failed = match self.channel.call::<A>(method, question, patience) {
            Ok(answer) => match answer.error() {
                None => return Ok(answer),
                Some(error) => refused(command, format!("{} (error {})", error.errmsg, error.code)),
            },
            Err(failure) => self.cause(&command, failure),
        };
        Err(match &self.process {
            Some(process) => with_reason(process, process.reason(mark, failed)),
            None => failed,
        })
    }

    /// Why a call brought no answer, as far as the call itself tells.
    fn cause(&self, command: &str, failure: Failure) -> DutError {
        if self.alarm.load(Ordering::Relaxed) {
            return DutError::Interrupted { dut: NAME };
        }
        if let Failure::Status(code, message) = &failure {
            let told =
                if self.version.is_empty() { String::new() } else { format!(" by bessd {}", self.version) };
            let reason = format!("{} ({code}){told} {message}", grpc::status(*code));
            return refused(command.to_owned(), reason.trim_end().to_owned());
        }
        if let Failure::Broken(reason) = failure {
            let reason = format!("it went away when it was asked {command}: {reason}");
            return DutError::Network { what: "bessd".to_owned(), reason };
        }
        of_failure("bessd".to_owned(), command, failure)
    }
}

/// An error of the protocol's own.
fn refused(command: String, reason: String) -> DutError {
    DutError::Refused { dut: NAME, command, reason, last_words: String::new() }
}

/// The end of a `bessd` with its reason, which stands before a backtrace of any length: a line that begins with `F` and the date.
pub(super) fn with_reason(process: &Process, error: DutError) -> DutError {
    let DutError::Died { dut, status, last_words } = error else { return error };
    let is_reason = |line: &String| {
        let begin = line.trim_start_matches("\u{1b}[0;31m").strip_prefix('F');
        begin.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            && !line.contains("Backtrace")
    };
    let reason = process.lines().into_iter().find(is_reason).filter(|line| !last_words.contains(line));
    let reason = reason.map(|line| format!("\n    | {line}")).unwrap_or_default();
    DutError::Died { dut, status, last_words: reason + &last_words }
}

/// A call that brought no answer, in words.
fn of_failure(what: String, command: &str, failure: Failure) -> DutError {
    match failure {
        Failure::Broken(reason) => DutError::Network { what, reason },
        Failure::Nonsense(answer) => {
            DutError::Answer { dut: NAME, answer, expected: "a message of bessd's control protocol" }
        }
        Failure::Late => DutError::Network { what, reason: format!("no answer to {command}") },
        Failure::Status(code, message) => {
            DutError::Network { what, reason: format!("{}: {message}", grpc::status(code)) }
        }
    }
}

/// What makes a port of DPDK's.
fn dpdk_port(number: usize, port: &str) -> CreatePortRequest {
    let arg = if is_virtual(port) {
        PmdPortArg { vdev: Some(of_its_dpdk(port)), pci: None }
    } else {
        PmdPortArg { pci: Some(port.to_owned()), vdev: None }
    };
    let ring = u64::from(RING);
    CreatePortRequest {
        name: pipeline::port(number),
        driver: "PMDPort".to_owned(),
        num_inc_q: 1,
        num_out_q: 1,
        size_inc_q: ring,
        size_out_q: ring,
        arg: Some(Any::of("PMDPortArg", &arg)),
    }
}

/// A port's string as the DPDK of BESS (19.11) reads it: it has other names for memif's roles, paths for all of memif's sockets,
/// and no null port that nothing comes from.
fn of_its_dpdk(port: &str) -> String {
    match Vdev::new(port).driver() {
        "net_memif" => port
            .replace("role=server", "role=master")
            .replace("role=client", "role=slave")
            .replace(",socket-abstract=no", ""),
        "net_null" => port.replace(NOTHING_TO_READ, ""),
        _ => port.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_for_the_older_dpdk() {
        assert_eq!(
            of_its_dpdk("net_memif0,role=server,id=0,socket=/t/s,socket-abstract=no,rsize=10,bsize=2048"),
            "net_memif0,role=master,id=0,socket=/t/s,rsize=10,bsize=2048"
        );
        assert_eq!(of_its_dpdk("net_null1,no-rx=1"), "net_null1");
        let pci = dpdk_port(1, "0000:01:00.0");
        assert_eq!((pci.name.as_str(), pci.size_inc_q), ("weir_port1", 1024));
        let arg = PmdPortArg::decode(&pci.arg.unwrap().value[..]).unwrap();
        assert_eq!((arg.pci.as_deref(), arg.vdev), (Some("0000:01:00.0"), None));
    }
}
