//! `weir switch` itself: in the foreground until told to stop.

use super::options::Options;
use super::{stdio, view};
use crate::cmd::{BadUse, WEIR, print};
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;
use weir_switch::{Answer, Confinement, Finished, Inbound, Request, RunError, Running, Stats, ask};
use weir_units::Pps;

/// Says something to whoever reads it, if anybody does: a switch outlives the readers of what it prints.
macro_rules! tell {
    ($to:ident, $($words:tt)+) => {
        drop(writeln!(std::io::$to(), $($words)+))
    };
}

/// Time between two rows on a terminal.
const ROW: Duration = Duration::from_secs(1);
/// Rows between two headings.
const PAGE: u32 = 20;

pub(super) fn run(options: Options) -> anyhow::Result<ExitCode> {
    // Before any thread starts, so that all inherit it, and the one that waits for signals gets them.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block()?;
    let settings = options.settings()?;
    let (stdio, announce) = (options.stdio(), options.announce);
    let loader = Box::new(move || options.settings().map_err(|error| error.to_string()));
    let version = WEIR.strip_prefix("weir ").unwrap_or(WEIR);
    let confinement = Confinement::begin(&settings).map_err(BadUse::new)?;
    let mut running = weir_switch::start(settings, loader, version).map_err(BadUse::new)?;
    let kept = running.confine(confinement).map_err(BadUse::new)?;
    for warning in running.warnings() {
        tell!(stderr, "weir switch: {warning}");
    }
    watch_signals(signals, running.asks())?;
    if stdio {
        return stdio::run(running);
    }
    if announce {
        stdio::announce(&mut running)?;
    } else {
        tell!(stdout, "{}; {kept}; Ctrl-C ends it", headline(&mut running)?);
    }
    tell_events(running.asks())?;
    if !announce && std::io::stdout().is_terminal() {
        show_rows(running.asks())?;
    }
    let finished = match running.run() {
        Ok(finished) => finished,
        Err(error) => return died(error),
    };
    print(&view::render(&finished.stats, None))?;
    Ok(ended(&finished))
}

/// The exit code where a worker died: a fault of the program itself (EX_SOFTWARE of sysexits.h).
const DEAD: u8 = 70;

/// What is said of a switch that did not end as it was told to, and its exit code.
pub(super) fn died(error: RunError) -> anyhow::Result<ExitCode> {
    match error {
        RunError::Dead { ref stats, .. } => {
            tell!(stderr, "weir switch: {error}\n{}", view::render(stats, None));
            Ok(ExitCode::from(DEAD))
        }
        RunError::Control(error) => Err(error.into()),
    }
}

/// The exit code of a switch that ended, and what is to be said about buffers.
pub(super) fn ended(finished: &Finished) -> ExitCode {
    if finished.buffers_missing == 0 {
        return ExitCode::SUCCESS;
    }
    tell!(stderr, "{} packet buffers did not come back: please report this", finished.buffers_missing);
    ExitCode::FAILURE
}

fn headline(running: &mut Running) -> anyhow::Result<String> {
    let stats = running.stats().map_err(anyhow::Error::msg)?;
    let cores: Vec<String> = stats.workers.iter().map(|worker| worker.core.to_string()).collect();
    let ports: Vec<&str> = stats.ports.iter().map(|port| port.name.as_str()).collect();
    let mut line = match ports.as_slice() {
        [] => "a switch without ports".to_owned(),
        ports => format!("ports {}", ports.join(", ")),
    };
    line += &format!(" on core {}", cores.join(", "));
    if let Some(path) = running.control() {
        line += &format!("; control at {}", path.display());
    }
    for address in running.openflow() {
        line += &format!("; OpenFlow at {address}");
    }
    if let Some(at) = running.metrics() {
        let who = if at.is_public() { ", for whoever reaches that address" } else { "" };
        line += &format!("; metrics at {at}{who}");
    }
    Ok(line)
}

/// SIGINT and SIGTERM stop the switch, SIGHUP makes it read its configuration again.
fn watch_signals(signals: SigSet, asks: SyncSender<Inbound>) -> std::io::Result<()> {
    let watch = move || {
        while let Ok(signal) = signals.wait() {
            let request = if signal == Signal::SIGHUP { Request::Reload {} } else { Request::Stop {} };
            let stop = request == Request::Stop {};
            match ask(&asks, request) {
                Ok(Answer::Value(told)) if !stop => tell!(stderr, "weir switch: {}", reloaded(&told)),
                Err(error) => tell!(stderr, "weir switch: {error}"),
                Ok(_) => {}
            }
            if stop {
                return;
            }
        }
    };
    thread::Builder::new().name("weir-signals".into()).spawn(watch).map(drop)
}

/// What a reload did, in a line.
pub(super) fn reloaded(told: &Value) -> String {
    let list = |key: &str| -> Vec<&str> {
        told[key].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str).collect()
    };
    let (done, restart) = (list("done"), list("restart"));
    let mut line = if done.is_empty() { "nothing to be changed".to_owned() } else { done.join(", ") };
    if !restart.is_empty() {
        line += &format!("; these take a restart: {}", restart.join(", "));
    }
    for warning in list("warnings") {
        line += &format!("\n{warning}");
    }
    line
}

/// Says on standard error what happens by itself, packets for the controller excepted.
fn tell_events(asks: SyncSender<Inbound>) -> std::io::Result<()> {
    let tell = move || {
        // Answered as soon as the switch serves.
        let Ok(Answer::Monitor(events)) = ask(&asks, Request::Monitor {}) else { return };
        drop(asks);
        for event in events {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            match event["kind"].as_str() {
                Some("link") => {
                    let state = if event["up"] == true { "up" } else { "down" };
                    tell!(stderr, "weir switch: link of {} is {state}", text("name"));
                }
                Some("quarantined") => {
                    tell!(
                        stderr,
                        "weir switch: service {} is in quarantine: {}",
                        text("service"),
                        text("why")
                    );
                }
                Some("trouble") => tell!(stderr, "weir switch: {}", text("error")),
                _ => {}
            }
        }
    };
    thread::Builder::new().name("weir-events".into()).spawn(tell).map(drop)
}

/// A row a second on the terminal: rates, cycles, links.
fn show_rows(asks: SyncSender<Inbound>) -> std::io::Result<()> {
    let show = move || {
        let mut before: Option<Stats> = None;
        for row in 0.. {
            let Ok(Answer::Value(stats)) = ask(&asks, Request::Stats { without_tables: true }) else {
                return;
            };
            let Ok(now) = serde_json::from_value::<Stats>(stats) else { return };
            if let Some(before) = &before {
                if row % PAGE == 1 {
                    tell!(
                        stdout,
                        "{:>14} {:>14} {:>14} {:>14}  links",
                        "received",
                        "sent",
                        "dropped",
                        "cycles/packet"
                    );
                }
                tell!(stdout, "{}", between(&now, before));
            }
            before = Some(now);
            thread::sleep(ROW);
        }
    };
    thread::Builder::new().name("weir-screen".into()).spawn(show).map(drop)
}

/// The rates between two readings, as a row.
fn between(now: &Stats, before: &Stats) -> String {
    let since = now.since(before);
    let seconds = (since.uptime_ns as f64 * 1e-9).max(1e-3);
    let rate = |count: u64| Pps(count as f64 / seconds).to_string();
    let busy: u64 = since.workers.iter().map(|worker| worker.busy_cycles).sum();
    let cycles = match since.received() {
        0 => "-".to_owned(),
        received => format!("{:.1}", busy as f64 / received as f64),
    };
    let links: Vec<&str> = now.ports.iter().map(|port| if port.link_up { "up" } else { "down" }).collect();
    let (received, sent, dropped) = (rate(since.received()), rate(since.sent()), rate(since.dropped()));
    format!("{received:>14} {sent:>14} {dropped:>14} {cycles:>14}  {}", links.join(" "))
}
