//! `nf`: Weir's own network functions, run as a process of their own (`weir nf`).
//!
//! It is driven by lines on its standard input and answers in JSON; the end of its input ends it.
//! `faulty:KIND[:SHARE]` is the same program doing something wrong on purpose: it shows what the lab
//! says of a bad device.

use crate::eal::{self, PATIENCE};
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, PortCounts, RunningDut, Sharing, StartRequest, cpu};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use weir_trial::{Nf, NfKind, Passed, Server, StageTaps};
use weir_units::Nanos;

/// The adapter.
pub(crate) struct NfProgram {
    faulty: bool,
}

impl NfProgram {
    /// As it should be.
    pub(crate) const EARNEST: Self = Self { faulty: false };
    /// With a fault.
    pub(crate) const FAULTY: Self = Self { faulty: true };
}

struct Running {
    process: Process,
    version: String,
    /// Processes and threads that forward.
    threads: Vec<(u32, u32)>,
}

/// The first line of `weir nf --control stdio`, as far as it is needed here.
#[derive(Deserialize)]
pub(crate) struct Ready {
    ready: bool,
    tid: u32,
    /// Of all workers, where there are several.
    #[serde(default)]
    tids: Vec<u32>,
    pub(crate) version: String,
}

/// Its answer to `stats`, likewise.
#[derive(Deserialize)]
struct Stats {
    received: u64,
    sent: u64,
    ports: Vec<PortCounts>,
    /// Packets dropped, by reason.
    drops: BTreeMap<String, u64>,
    #[serde(default)]
    busy_cycles: Option<u64>,
    #[serde(default)]
    cpu_ns: Option<Nanos>,
    /// By port.
    #[serde(default)]
    taps: Vec<PortTaps>,
}

/// Stamped packets at the edges of a port.
#[derive(Deserialize)]
struct PortTaps {
    received: Edge,
    sent: Edge,
}

#[derive(Deserialize)]
struct Edge {
    packets: u64,
    sum_ns: Nanos,
}

impl From<&Edge> for Passed {
    fn from(edge: &Edge) -> Self {
        Self { packets: edge.packets, delay: edge.sum_ns }
    }
}

/// Its answer to `tap`.
#[derive(Deserialize)]
struct Tapped {
    tap: bool,
}

/// The reason of what a port did not take (`weir_nf::DropReason`).
const REFUSED: &str = "transmit-full";

impl Adapter for NfProgram {
    fn name(&self) -> &'static str {
        if self.faulty { "faulty" } else { "nf" }
    }

    fn about(&self) -> &'static str {
        if self.faulty {
            "the same with a fault, to see it caught: faulty:KIND[:SHARE], such as faulty:corrupt:1e-6"
        } else {
            "Weir's own network functions, run to completion (weir nf)"
        }
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        match (self.faulty, variant.is_empty()) {
            (true, true) => {
                Err("faulty wants a fault: faulty:KIND[:SHARE]; `weir nf --help` names the kinds".to_owned())
            }
            (false, false) => Err("nf has no variants".to_owned()),
            _ => Ok(()),
        }
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf.kind() {
            NfKind::L2Fwd | NfKind::L3Fwd | NfKind::Firewall => Ok(()),
            _ => Err(crate::wants_tables("weir nf", nf)),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        Ok(format!("weir {}", env!("CARGO_PKG_VERSION")))
    }

    fn serves_queues(&self) -> Result<(), String> {
        Ok(())
    }

    fn runs_on(&self, _server: &Server) -> Result<(), String> {
        Ok(())
    }

    /// It forwards between its ports in pairs.
    fn hosts(&self) -> Option<Side> {
        Some(Side::Dut)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        self.start(&StartRequest { nf: Nf::L2Fwd, ..request.clone() })
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: self.name(), nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        let process = request.start_own(self.name(), &program()?, arguments(request))?;
        let ready: Ready = process.wait_for(0, "open its ports", PATIENCE, first)?;
        if !ready.ready {
            return Err(DutError::Answer { dut: self.name(), answer: "not ready".into(), expected: "ready" });
        }
        // In namespaces of its own it has another number there than here.
        let here = request.contained.then(|| cpu::descendant(process.pid(), "weir-nf")).flatten();
        let tids = if ready.tids.is_empty() { vec![ready.tid] } else { ready.tids };
        // On another machine its threads are none of this kernel's.
        let tids = tids.into_iter().filter(|_| request.far.is_none());
        let threads =
            here.map_or_else(|| tids.map(|thread| (process.pid(), thread)).collect(), |thread| vec![thread]);
        Ok(Box::new(Running { process, version: ready.version, threads }))
    }
}

/// The program that is running now is the one that has the functions.
pub(crate) fn program() -> Result<PathBuf, DutError> {
    std::env::current_exe()
        .map_err(|error| DutError::Spawn { program: "weir".to_owned(), reason: error.to_string() })
}

pub(crate) fn arguments(request: &StartRequest<'_>) -> Vec<String> {
    let mut arguments = vec!["nf".to_owned(), request.nf.kind().name().to_owned()];
    if let Some(entries) = request.nf.entries() {
        arguments.extend(["--entries".to_owned(), entries.to_string()]);
    }
    for port in request.ports {
        arguments.extend(["--port".to_owned(), port.clone()]);
    }
    for core in request.workers() {
        arguments.extend(["--core".to_owned(), core.to_string()]);
    }
    if request.queues > 1 {
        arguments.extend(["--queues".to_owned(), request.queues.to_string()]);
    }
    arguments.extend(["--buffers".to_owned(), eal::buffers(request).to_string()]);
    arguments.extend(["--max-frame".to_owned(), request.max_frame.bytes().to_string()]);
    match request.sharing {
        Some(Sharing { folder, links: Some(links) }) => {
            arguments.extend(["--share".to_owned(), folder.display().to_string()]);
            arguments.extend(["--links".to_owned(), links.to_string()]);
        }
        Some(Sharing { folder, links: None }) => {
            arguments.extend(["--attach".to_owned(), folder.display().to_string()]);
        }
        None if request.huge_pages => arguments.push("--huge-pages".to_owned()),
        None => {}
    }
    if request.shared_core {
        arguments.push("--yield".to_owned());
    }
    if !request.variant.is_empty() {
        arguments.extend(["--fault".to_owned(), request.variant.to_owned()]);
    }
    arguments.extend(["--control".to_owned(), "stdio".to_owned()]);
    arguments
}

/// The first line that reads as what is expected; other lines (a driver's chatter) are passed over.
pub(crate) fn first<T: DeserializeOwned>(lines: &[&str]) -> Option<T> {
    lines.iter().find_map(|line| serde_json::from_str(line).ok())
}

/// What a program of ours answers to `stats`, and when it counted that: halfway between question and answer.
pub(crate) fn stats<T: DeserializeOwned>(process: &mut Process) -> Result<(T, Instant), DutError> {
    let mark = process.mark();
    let asked = Instant::now();
    process.say("stats")?;
    let stats = process.wait_for(mark, "print its counters", PATIENCE, first)?;
    Ok((stats, asked + asked.elapsed() / 2))
}

/// Asks the program for its counters; its CPU time is what it says.
pub(crate) fn ask(process: &mut Process) -> Result<Counters, DutError> {
    let (stats, at): (Stats, _) = stats(process)?;
    let counters = Counters::new(stats.received, stats.sent, stats.cpu_ns.unwrap_or(Nanos(0)), at);
    let pair = |[near, far]: &[PortTaps; 2]| StageTaps {
        came: [(&near.received).into(), (&far.received).into()],
        left: [(&far.sent).into(), (&near.sent).into()],
    };
    let taps = stats.taps.as_chunks().0.iter().map(pair).collect();
    let (busy, refused) = (stats.busy_cycles, stats.drops.get(REFUSED).copied());
    Ok(Counters { taps, busy, ports: stats.ports, refused, ..counters })
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let counters = ask(&mut self.process)?;
        if self.threads.is_empty() {
            return Ok(counters);
        }
        let each = self.threads.iter().filter_map(|(process, thread)| cpu::thread_cpu(*process, *thread));
        Ok(Counters { cpu: Nanos(each.map(|cpu| cpu.0).sum()), ..counters })
    }

    fn tap(&mut self, key: &str) -> Result<bool, DutError> {
        let mark = self.process.mark();
        self.process.say(&format!("tap {key}"))?;
        let tapped: Tapped = self.process.wait_for(mark, "switch its taps on", PATIENCE, first)?;
        Ok(tapped.tap)
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.clone()
    }

    fn processes(&self) -> Vec<&Process> {
        if self.threads.is_empty() { Vec::new() } else { vec![&self.process] }
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        self.process.stop(&["stop"]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_among_other_lines() {
        let lines = [
            "EAL: something",
            r#"{"schema":1,"received":7,"sent":5,"dropped":2,
               "ports":[{"received":7,"sent":0,"refused":0},{"received":0,"sent":5}],"drops":{"transmit-full":2}}"#,
        ];
        let stats: Stats = first(&lines).unwrap();
        assert_eq!((stats.received, stats.sent), (7, 5));
        assert_eq!((stats.ports[0].refused, stats.ports[1].refused), (Some(0), None));
        assert_eq!(stats.drops.get(REFUSED), Some(&2));
        assert!(first::<Ready>(&lines).is_none());
    }
}
