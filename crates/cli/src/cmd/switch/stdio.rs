//! The line protocol by which the lab drives `weir switch`, the same as that of `weir nf`.
//!
//! One JSON object a line. The end of the input ends the switch: whoever started it and died, in
//! whatever way, leaves nothing behind.

use super::run::{died, ended};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;
use weir_cpu::Ticks;
use weir_switch::stats::WorkerReport;
use weir_switch::stats::counters::{Kind, Section, WORKER};
use weir_switch::{Answer, Inbound, Request, Running, Stats, ask};
use weir_units::Nanos;

/// Version of the lines: rises when a field changes meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// The first line: packets flow from now on.
#[derive(Serialize)]
struct Ready<'a> {
    schema: u32,
    ready: bool,
    version: &'a str,
    /// The workers' threads, whose CPU time is the cost of forwarding, and their cores.
    tid: Vec<u32>,
    cores: Vec<usize>,
    ports: Vec<PortState<'a>>,
    tsc_hz: f64,
    /// Path of the control socket.
    control: Option<String>,
    /// Where metrics are.
    metrics: Option<String>,
}

/// A port, as it was opened and as it is.
#[derive(Serialize)]
struct PortState<'a> {
    name: &'a str,
    number: u32,
    port: &'a str,
    link_up: bool,
}

/// The answer to `stats`, and the last line.
#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    /// When it was read, by the TSC.
    tsc: u64,
    ports: Vec<PortLine<'a>>,
    received: u64,
    sent: u64,
    dropped: u64,
    /// Packets dropped, by reason.
    drops: BTreeMap<&'a str, u64>,
    /// Packets in workers' hands.
    held: u64,
    busy_cycles: u64,
    /// What the hints of the ports were worth; all zero where no port gives any.
    hints: Hints,
    /// How workers that give their cores back waited.
    waiting: Waiting,
    /// What each step of a packet's life took, over the bursts that were timed.
    steps: BTreeMap<&'a str, Step>,
    /// Where packets found what to do.
    caches: Caches,
    /// What the caches and the tables of hints hold now, over all workers, by the names among the metrics.
    states: BTreeMap<&'static str, u64>,
    /// CPU time of the workers; null where the kernel does not tell, and after they have ended.
    cpu_ns: Option<Nanos>,
    /// On the last line: packet buffers that did not come back. Anything but 0 is a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers_missing: Option<u32>,
}

/// Hints, over all workers.
#[derive(Serialize)]
struct Hints {
    right: u64,
    missing: u64,
    stale: u64,
    wrong: u64,
    written: u64,
    /// Nanoseconds of the workers' CPU time that went into emulating tables that NICs have.
    emulated_ns: u64,
}

/// Waits, over all workers.
#[derive(Serialize)]
struct Waiting {
    sleeps: u64,
    slept_ns: u64,
    late: u64,
    power_hints: u64,
}

/// A step, over all workers.
#[derive(Default, Serialize)]
struct Step {
    packets: u64,
    cycles: u64,
}

/// Lookups, over all workers.
#[derive(Default, Serialize)]
struct Caches {
    shortcut_hits: u64,
    exact_hits: u64,
    megaflow_hits: u64,
    direct: u64,
    upcalls: u64,
    coalesced: u64,
    revoked: u64,
}

/// Packets of one port.
#[derive(Serialize)]
struct PortLine<'a> {
    name: &'a str,
    received: u64,
    sent: u64,
    /// Packets that it did not take.
    send_dropped: u64,
    link_up: bool,
}

/// A line that is no command, or could not be answered.
#[derive(Serialize)]
struct Mistake {
    schema: u32,
    error: String,
}

/// Prints the first line.
pub(super) fn announce(running: &mut Running) -> anyhow::Result<()> {
    let stats = running.stats().map_err(anyhow::Error::msg)?;
    let states = stats.ports.iter().map(|port| PortState {
        name: &port.name,
        number: port.number,
        port: &port.spec,
        link_up: port.link_up,
    });
    say(&Ready {
        schema: SCHEMA_VERSION,
        ready: true,
        version: &stats.version,
        tid: stats.workers.iter().map(|worker| worker.thread).collect(),
        cores: stats.workers.iter().map(|worker| worker.core).collect(),
        ports: states.collect(),
        tsc_hz: stats.tsc_hz,
        control: running.control().map(|path| path.display().to_string()),
        metrics: running.metrics().map(ToString::to_string),
    })
}

/// Obeys commands until told to stop.
pub(super) fn run(mut running: Running) -> anyhow::Result<ExitCode> {
    announce(&mut running)?;
    let asks = running.asks();
    thread::Builder::new().name("weir-stdin".into()).spawn(move || obey(&asks))?;
    let finished = match running.run() {
        Ok(finished) => finished,
        Err(error) => return died(error),
    };
    say(&Line { buffers_missing: Some(finished.buffers_missing), cpu_ns: None, ..line(&finished.stats) })?;
    Ok(ended(&finished))
}

fn obey(asks: &SyncSender<Inbound>) {
    for text in io::stdin().lock().lines().map_while(Result::ok) {
        let said = match text.trim() {
            "stats" => match read(asks) {
                Ok(stats) => say(&line(&stats)),
                Err(error) => say(&Mistake { schema: SCHEMA_VERSION, error }),
            },
            "stop" => break,
            other => say(&Mistake {
                schema: SCHEMA_VERSION,
                error: format!("`{other}` is no command; write stats or stop"),
            }),
        };
        if said.is_err() {
            break;
        }
    }
    let _ = ask(asks, Request::Stop {}); // an error says that it stops already
}

fn read(asks: &SyncSender<Inbound>) -> Result<Stats, String> {
    match ask(asks, Request::Stats { without_tables: true })? {
        Answer::Value(stats) => serde_json::from_value(stats).map_err(|error| error.to_string()),
        other => Err(format!("{other:?} is no ledger")),
    }
}

fn line(stats: &Stats) -> Line<'_> {
    let ports = stats.ports.iter().map(|port| PortLine {
        name: &port.name,
        received: port.received,
        sent: port.sent,
        send_dropped: port.send_dropped,
        link_up: port.link_up,
    });
    let whole = |of: fn(&WorkerReport) -> u64| stats.workers.iter().map(of).sum::<u64>();
    let emulated = whole(|w| w.hints.emulated_cycles);
    Line {
        schema: SCHEMA_VERSION,
        tsc: Ticks::now().0,
        ports: ports.collect(),
        received: stats.received(),
        sent: stats.sent(),
        dropped: stats.dropped(),
        drops: stats.drops(),
        held: stats.workers.iter().map(|worker| worker.held).sum(),
        busy_cycles: stats.workers.iter().map(|worker| worker.busy_cycles).sum(),
        hints: Hints {
            right: whole(|w| w.hints.hits),
            missing: whole(|w| w.hints.missed),
            stale: whole(|w| w.hints.stale),
            wrong: whole(|w| w.hints.wrong),
            written: whole(|w| w.hints.written),
            emulated_ns: (emulated as f64 / stats.tsc_hz * 1e9) as u64,
        },
        waiting: Waiting {
            sleeps: whole(|w| w.waiting.sleeps),
            slept_ns: whole(|w| w.waiting.slept_ns),
            late: whole(|w| w.waiting.late),
            power_hints: whole(|w| w.waiting.hints),
        },
        steps: steps(stats),
        caches: caches(stats),
        states: states(stats),
        cpu_ns: cpu_time(stats).map(Nanos::from),
        buffers_missing: None,
    }
}

fn steps(stats: &Stats) -> BTreeMap<&str, Step> {
    let mut sums: BTreeMap<&str, Step> = BTreeMap::new();
    for step in stats.workers.iter().flat_map(|worker| &worker.steps) {
        let sum = sums.entry(step.step.as_ref()).or_default();
        sum.packets += step.packets;
        sum.cycles += step.cycles;
    }
    sums
}

fn caches(stats: &Stats) -> Caches {
    stats.workers.iter().map(|worker| &worker.caches).fold(Caches::default(), |sum, one| Caches {
        shortcut_hits: sum.shortcut_hits + one.shortcut_hits,
        exact_hits: sum.exact_hits + one.exact_hits,
        megaflow_hits: sum.megaflow_hits + one.megaflow_hits,
        direct: sum.direct + one.direct,
        upcalls: sum.upcalls + one.upcalls,
        coalesced: sum.coalesced + one.coalesced,
        revoked: sum.revoked + one.revoked,
    })
}

/// Names of states that are no sum of the workers'.
const NO_SUM: &str = "most_masks";

fn states(stats: &Stats) -> BTreeMap<&'static str, u64> {
    let held = WORKER.iter().filter(|counter| {
        counter.kind == Kind::Gauge && matches!(counter.section, Section::Caches | Section::Hints)
    });
    held.filter(|counter| counter.metric.0 != NO_SUM)
        .map(|counter| (counter.metric.0, stats.workers.iter().map(counter.get).sum()))
        .collect()
}

/// CPU time of all workers.
fn cpu_time(stats: &Stats) -> Option<Duration> {
    stats.workers.iter().map(|worker| weir_cpu::cpu_time(worker.thread)).sum()
}

/// Writes one line. Whoever reads may be gone: then the input ends too, and with it the switch.
fn say(line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caches_hold_is_told_over_all_workers_and_none_of_it_is_a_count() {
        let mut stats = Stats { workers: vec![WorkerReport::default(); 2], ..Stats::default() };
        (stats.workers[0].caches.megaflows, stats.workers[1].caches.megaflows) = (250, 8);
        stats.workers[1].caches.upcalls = 9;
        let states = states(&stats);
        assert_eq!(states["megaflows"], 258);
        let names: Vec<&str> = states.into_keys().collect();
        assert_eq!(names, ["cache_bytes", "edges", "hint_entries", "hint_places", "masks", "megaflows"]);
    }
}
