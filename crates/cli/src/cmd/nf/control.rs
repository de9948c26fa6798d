//! The line protocol by which the lab drives `weir nf`.
//!
//! One JSON object a line. The end of the input ends the program: whoever started it and died, in
//! whatever way, leaves nothing behind. Commands are few and never disturb the worker.

use super::{Session, taps};
use anyhow::bail;
use nix::sys::signal::SigSet;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use weir_cpu::Ticks;
use weir_dpdk::Eal;
use weir_nf::{FaultKind, Ledger, Meter, Program};
use weir_trial::Nf;
use weir_units::Nanos;

/// Version of the lines: rises when a field changes meaning or goes away.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// How often the worker is looked after.
const WATCH: Duration = Duration::from_millis(100);

/// The first line: packets flow from now on.
#[derive(Serialize)]
struct Ready<'a> {
    schema: u32,
    ready: bool,
    function: Nf,
    ports: Vec<PortState<'a>>,
    /// The first worker's core.
    core: usize,
    /// Its thread: with those of further workers, its CPU time is the cost of forwarding.
    tid: u32,
    /// The threads of all workers, where there are several.
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    tids: &'a [u32],
    tsc_hz: f64,
    version: String,
}

/// A port, as it was opened and as it is.
#[derive(Serialize)]
struct PortState<'a> {
    port: &'a str,
    link_up: bool,
}

/// The answer to `stats`, and the last line.
#[derive(Serialize)]
struct Stats {
    schema: u32,
    /// When it was read, by the TSC.
    tsc: u64,
    ports: Vec<PortStats>,
    received: u64,
    sent: u64,
    dropped: u64,
    /// Packets dropped, by reason.
    drops: BTreeMap<&'static str, u64>,
    busy_cycles: u64,
    /// What the taps counted, by port; left out until `tap` switches them on. A fault that tells wrong counters does not
    /// reach them.
    #[serde(skip_serializing_if = "Option::is_none")]
    taps: Option<Vec<taps::PortTaps>>,
    /// CPU time of the worker; null where the kernel does not tell, and after it has ended.
    cpu_ns: Option<Nanos>,
    /// On the last line: packet buffers that did not come back. Anything but 0 is a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers_missing: Option<u32>,
}

/// Packets of one port.
#[derive(Serialize)]
struct PortStats {
    received: u64,
    sent: u64,
    /// Packets that it did not take: among those dropped as `transmit-full`.
    refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_up: Option<bool>,
}

/// The answer to `tap`.
#[derive(Serialize)]
struct Tapped {
    schema: u32,
    /// Whether the taps are on.
    tap: bool,
}

/// A line that is no command.
#[derive(Serialize)]
struct Mistake {
    schema: u32,
    error: String,
}

/// What the program waits for.
pub(super) enum Event {
    Line(String),
    Stop,
}

/// Obeys commands until told to stop.
pub(super) fn run(session: Session, signals: SigSet) -> anyhow::Result<ExitCode> {
    let (events, inbox) = mpsc::channel();
    watch_signals(signals, events.clone())?;
    thread::Builder::new().name("weir-stdin".into()).spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if events.send(Event::Line(line)).is_err() {
                return;
            }
        }
        let _ = events.send(Event::Stop); // gone only if the program ends anyway
    })?;
    say(&ready(&session))?;
    let late = session.fault.is_some_and(|fault| fault.kind == FaultKind::OldCounters);
    let boast = session.fault.filter(|fault| fault.kind == FaultKind::Boast).map(|fault| fault.every);
    let (meters, tsc) = (session.program.meters().to_vec(), session.tsc);
    let mut before = ledgers(&meters);
    while session.program.is_running() {
        if let Some(lost) = session.program.lost() {
            bail!("{lost}");
        }
        match inbox.recv_timeout(WATCH) {
            Ok(Event::Line(line)) => match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                ("stats", "") => {
                    let now = ledgers(&meters);
                    let mut told = if late { std::mem::replace(&mut before, now) } else { now };
                    if let Some(every) = boast {
                        told.iter_mut().for_each(|ledger| boasted(ledger, every));
                    }
                    say(&stats(&told, taps::read(&meters, tsc), Some(&session.program)))?;
                }
                ("stop", "") => break,
                ("tap", what) => match taps::switch(&meters, what.trim()) {
                    Ok(tap) => say(&Tapped { schema: SCHEMA_VERSION, tap })?,
                    Err(error) => complain(format!("{error}, or `off`"))?,
                },
                _ => complain(format!(
                    "`{}` is no command; write stats, tap KEY, tap off or stop",
                    line.trim()
                ))?,
            },
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let (_, missing) = session.program.stop()?;
    let last = stats(&ledgers(&meters), taps::read(&meters, tsc), None);
    say(&Stats { buffers_missing: Some(missing), ..last })?;
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Answers a line that asks for nothing there is.
fn complain(error: String) -> anyhow::Result<()> {
    say(&Mistake { schema: SCHEMA_VERSION, error })
}

/// What each pair of ports counted.
fn ledgers(meters: &[Meter]) -> Vec<Ledger> {
    meters.iter().map(Meter::ledger).collect()
}

/// Has a ledger say that more was sent, one packet in so many: [`FaultKind::Boast`].
fn boasted(ledger: &mut Ledger, every: u64) {
    ledger.ports.iter_mut().for_each(|port| port.sent += port.sent / every);
}

/// Turns the first SIGINT or SIGTERM into an event.
pub(super) fn watch_signals(signals: SigSet, events: Sender<Event>) -> io::Result<()> {
    thread::Builder::new().name("weir-signals".into()).spawn(move || {
        if signals.wait().is_ok() {
            let _ = events.send(Event::Stop); // gone only if the program ends anyway
        }
    })?;
    Ok(())
}

/// Writes one line. Whoever reads may be gone: then the input ends too, and with it the program.
fn say(line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn ready(session: &Session) -> Ready<'_> {
    let program = &session.program;
    Ready {
        schema: SCHEMA_VERSION,
        ready: true,
        function: session.function,
        ports: (0..)
            .zip(program.specs())
            .map(|(place, port)| PortState { port, link_up: program.link_up(place) })
            .collect(),
        core: session.cores[0],
        tid: program.threads()[0],
        tids: if program.threads().len() > 1 { program.threads() } else { &[] },
        tsc_hz: session.tsc.hz(),
        version: format!("weir {}, {}", env!("CARGO_PKG_VERSION"), Eal::version()),
    }
}

fn stats(ledgers: &[Ledger], taps: Option<Vec<taps::PortTaps>>, program: Option<&Program>) -> Stats {
    let ports = ledgers.iter().flat_map(|ledger| ledger.ports).enumerate();
    let link = |index| program.map(|program| program.link_up(index));
    let ports = ports.map(|(index, port): (usize, weir_nf::PortLedger)| PortStats {
        received: port.received,
        sent: port.sent,
        refused: port.refused,
        link_up: link(index),
    });
    let sum = |count: fn(&Ledger) -> u64| ledgers.iter().map(count).sum();
    let mut drops = BTreeMap::new();
    for (reason, packets) in ledgers.iter().flat_map(Ledger::drops) {
        *drops.entry(reason.name()).or_default() += packets;
    }
    Stats {
        schema: SCHEMA_VERSION,
        tsc: Ticks::now().0,
        ports: ports.collect(),
        received: sum(Ledger::received),
        sent: sum(Ledger::sent),
        dropped: sum(Ledger::dropped),
        drops,
        busy_cycles: sum(|ledger| ledger.busy_cycles),
        taps,
        cpu_ns: program.and_then(Program::cpu_time),
        buffers_missing: None,
    }
}
