//! `weir nf` in the foreground: a row a second on a terminal, the ledger at the end.

use super::Session;
use super::control::watch_signals;
use anyhow::bail;
use nix::sys::signal::SigSet;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_nf::{DropReason, Ledger, Meter};
use weir_units::{Nanos, Pps};

/// Time between two rows.
const ROW: Duration = Duration::from_secs(1);
/// Rows between two headings.
const PAGE: u32 = 20;

/// One reading of the program.
struct Reading {
    at: Instant,
    ledgers: Vec<Ledger>,
    cpu: Option<Nanos>,
}

/// Shows what goes on until Ctrl-C.
pub(super) fn run(session: Session, signals: SigSet) -> anyhow::Result<ExitCode> {
    let (events, inbox) = mpsc::channel();
    watch_signals(signals, events)?;
    let ports = session.program.specs();
    let cores: Vec<String> = session.cores.iter().map(ToString::to_string).collect();
    println!(
        "{} between {}, on core {}; Ctrl-C ends it",
        session.function,
        ports.join(" and "),
        cores.join(" and ")
    );
    let rows = io::stdout().is_terminal();
    let (mut last, mut row) = (read(&session), 0);
    let meters = session.program.meters().to_vec();
    while session.program.is_running() {
        if let Some(lost) = session.program.lost() {
            bail!("{lost}");
        }
        match inbox.recv_timeout(ROW) {
            Err(RecvTimeoutError::Timeout) if rows => {
                let now = read(&session);
                if row % PAGE == 0 {
                    println!(
                        "{:>14} {:>14} {:>14} {:>14}  link",
                        "received", "sent", "dropped", "cycles/packet"
                    );
                }
                println!("{}  {}", between(&last, &now, session.tsc.hz()), links(&session));
                (last, row) = (now, row + 1);
            }
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
    }
    let (_, missing) = session.program.stop()?;
    print!("{}", table(&ledgers(&meters)));
    if missing > 0 {
        println!("{missing} packet buffers did not come back: please report this");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn read(session: &Session) -> Reading {
    Reading {
        at: Instant::now(),
        ledgers: ledgers(session.program.meters()),
        cpu: session.program.cpu_time(),
    }
}

fn ledgers(meters: &[Meter]) -> Vec<Ledger> {
    meters.iter().map(Meter::ledger).collect()
}

/// The sum of a count over all pairs of ports.
fn sum(ledgers: &[Ledger], count: fn(&Ledger) -> u64) -> u64 {
    ledgers.iter().map(count).sum()
}

fn links(session: &Session) -> String {
    let links = session.program.ports().iter().map(|port| if port.link_up() { "up" } else { "down" });
    links.collect::<Vec<_>>().join(" ")
}

/// The rates between two readings, as a row.
fn between(before: &Reading, after: &Reading, tsc_hz: f64) -> String {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let rate = |count| Pps((sum(&after.ledgers, count) - sum(&before.ledgers, count)) as f64 / seconds);
    let received = sum(&after.ledgers, Ledger::received) - sum(&before.ledgers, Ledger::received);
    let cycles = match (before.cpu, after.cpu) {
        (Some(before), Some(after)) if received > 0 => {
            format!("{:.1}", (after.0 - before.0) as f64 * 1e-9 * tsc_hz / received as f64)
        }
        _ => "-".to_owned(),
    };
    format!(
        "{:>14} {:>14} {:>14} {cycles:>14}",
        rate(Ledger::received),
        rate(Ledger::sent),
        rate(Ledger::dropped)
    )
}

/// The ledger: each port, and each reason for which packets were dropped.
fn table(ledgers: &[Ledger]) -> String {
    let mut text = format!("{:<16} {:>16} {:>16}\n", "", "received", "sent");
    for (index, port) in ledgers.iter().flat_map(|ledger| ledger.ports).enumerate() {
        text += &format!("{:<16} {:>16} {:>16}\n", format!("port {index}"), port.received, port.sent);
    }
    for (place, reason) in DropReason::ALL.into_iter().enumerate() {
        let packets: u64 = ledgers.iter().map(|ledger| ledger.dropped[place]).sum();
        if packets > 0 {
            text += &format!("{:<16} {packets:>16}\n", reason.name());
        }
    }
    let [received, sent, dropped] =
        [Ledger::received, Ledger::sent, Ledger::dropped].map(|count| sum(ledgers, count));
    text + &format!("received {received} = sent {sent} + dropped {dropped}\n")
}
