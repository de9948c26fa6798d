//! Plans run one after another, each by a `weir bench` of its own, and the account of them at the end.

use super::catalogue::Figure;
use super::{Args, Listed, document, listed, parsed, short, unmeasurable};
use crate::cmd::layout::table;
use crate::cmd::stored::db_flag;
use crate::cmd::{BadUse, print};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use schemars::JsonSchema;
use serde::Serialize;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_campaign::now_ms;
use weir_store::{Selector, Store};
use weir_trial::run::Run;
use weir_units::utc;

/// How often a running plan is looked after.
const LOOK: Duration = Duration::from_millis(50);

/// How a plan went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Every point that this machine can measure was measured.
    Ran,
    /// This machine can measure none of its points: it was not begun.
    NotHere,
    /// A point failed, or the plan could not be begun.
    Failed,
    /// Ctrl-C came while it ran, or before.
    Interrupted,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::NotHere => "not here",
            Self::Failed => "FAILED",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What became of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ran {
    /// How it went.
    outcome: Outcome,
    /// The run in the database, where one was begun.
    run: Option<String>,
    /// Its page, where it was written.
    page: Option<String>,
    /// Points with results.
    measured: usize,
    /// Why points have none, each reason once.
    why: Vec<String>,
}

/// Runs plans one after another, and says at the end what became of each.
pub(super) fn run(args: &Args, figures: &[&'static Figure]) -> anyhow::Result<ExitCode> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))?;
    // A database that cannot be opened is told before anything is measured.
    Store::open(args.db.as_deref()).map_err(crate::cmd::store_error)?;
    let folder = tempfile::tempdir()?;
    let session = Session { args, folder: folder.path(), interrupted: &interrupted };
    let mut told = Vec::new();
    for (place, figure) in figures.iter().enumerate() {
        let text = if args.short { short::shortened(figure.text) } else { figure.text.to_owned() };
        let mut one = listed(figure, &text)?;
        if !args.json {
            print(&format!("\n{}/{} {}: {}\n", place + 1, figures.len(), figure.name, figure.figure))?;
        }
        one.ran = Some(session.plan(figure, &text, &one)?);
        told.push(one);
    }
    let is_fine = told
        .iter()
        .filter_map(|one| one.ran.as_ref())
        .all(|ran| matches!(ran.outcome, Outcome::Ran | Outcome::NotHere));
    print(&if args.json { document(told)? } else { account(&told, &db_flag(args.db.as_deref())) })?;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What all plans of a session have in common.
struct Session<'a> {
    args: &'a Args,
    /// For the plans' files.
    folder: &'a Path,
    interrupted: &'a AtomicBool,
}

impl Session<'_> {
    /// Runs one plan, unless this machine can measure none of its points.
    fn plan(&self, figure: &Figure, text: &str, listed: &Listed) -> anyhow::Result<Ran> {
        let nothing = |outcome, why| Ran { outcome, run: None, page: None, measured: 0, why };
        if self.interrupted.load(Ordering::SeqCst) {
            return Ok(nothing(Outcome::Interrupted, Vec::new()));
        }
        if listed.here() == 0 {
            let reasons = listed.not_here.iter().chain(&listed.refused);
            return Ok(nothing(Outcome::NotHere, reasons.map(|reason| reason.why.clone()).collect()));
        }
        let plan = parsed(figure, text)?.name;
        let file = self.folder.join(format!("{plan}.toml"));
        std::fs::write(&file, text)?;
        let stamp: String = utc(now_ms(), utc::SECOND).chars().filter(char::is_ascii_digit).collect();
        let name = format!("{plan}-{stamp}");
        let status = self.bench(&file, &name)?;
        let store = Store::open_existing(self.args.db.as_deref()).map_err(crate::cmd::store_error)?;
        let stored = store.find(&Selector::Name(name.clone())).and_then(|run| store.load(run));
        let Ok(stored) = stored else {
            let why = format!("`weir bench` began no run ({status}); what it said stands above");
            return Ok(nothing(self.outcome(status), vec![why]));
        };
        let page = store.beside(&format!("{name}.html"));
        let page = page.exists().then(|| page.display().to_string());
        let (measured, why) = counted(&stored);
        Ok(Ran { outcome: self.outcome(status), run: Some(name), page, measured, why })
    }

    fn outcome(&self, status: ExitStatus) -> Outcome {
        match status.code() {
            Some(0) => Outcome::Ran,
            _ if self.interrupted.load(Ordering::SeqCst) => Outcome::Interrupted,
            _ => Outcome::Failed,
        }
    }

    /// A `weir bench` of its own: DPDK takes its memory once in a process. Ctrl-C is handed on to it.
    fn bench(&self, plan: &Path, name: &str) -> anyhow::Result<ExitStatus> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").arg(plan).args(["--name", name]).process_group(0);
        if let Some(db) = &self.args.db {
            command.arg("--db").arg(db);
        }
        if self.args.json {
            command.stdout(Stdio::null());
        }
        let mut child = command.spawn().map_err(|error| BadUse::new(format!("weir bench: {error}")))?;
        let mut is_told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.interrupted.load(Ordering::SeqCst) && !is_told {
                // It may have ended meanwhile; then there is nobody to tell.
                let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
                is_told = true;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How many points have results, and why the others have none, each reason once.
fn counted(run: &Run) -> (usize, Vec<String>) {
    let mut why: Vec<String> = Vec::new();
    for error in run.points.iter().filter_map(|point| point.error.as_ref()) {
        if !why.contains(error) {
            why.push(error.clone());
        }
    }
    (run.points.iter().filter(|point| point.finished && point.error.is_none()).count(), why)
}

/// What became of the plans, for people.
fn account(told: &[Listed], db: &str) -> String {
    let row = |one: &Listed, ran: &Ran| {
        let points = format!("{}/{}", ran.measured, one.points);
        let page = ran.page.clone().unwrap_or_default();
        vec![one.name.clone(), ran.outcome.word().to_owned(), points, page]
    };
    let with = || told.iter().filter_map(|one| Some((one, one.ran.as_ref()?)));
    let rows: Vec<_> = with().map(|(one, ran)| row(one, ran)).collect();
    let mut text = format!("\n{}", table(&["plan", "how", "measured", "page"], &[2], &rows));
    // What the plan's own points said before they ran is told as in the list: what a machine would need that can measure them.
    let foreseen = |one: &Listed, why: &str| {
        one.not_here
            .iter()
            .chain(&one.refused)
            .any(|reason| reason.why.contains(why) || why.contains(&reason.why))
    };
    let others = |(one, ran): (&Listed, &Ran)| -> Vec<String> {
        let others = ran.why.iter().filter(|why| !foreseen(one, why));
        others.map(|why| format!("  {}: {why}\n", one.name)).collect()
    };
    let why: Vec<String> = with().flat_map(others).collect();
    if !why.is_empty() {
        text.push_str("\nWhat was not measured, and why:\n");
        text.extend(why);
    }
    text.push('\n');
    text.push_str(&unmeasurable(told));
    text + &format!("\nNext: weir runs{db}\n")
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::FIGURES;
    use super::*;

    fn told(place: usize, outcome: Outcome, measured: usize, why: &[&str]) -> Listed {
        let mut one = listed(&FIGURES[place], FIGURES[place].text).unwrap();
        let why = why.iter().map(|why| (*why).to_owned()).collect();
        one.ran = Some(Ran { outcome, run: None, page: None, measured, why });
        one
    }

    #[test]
    fn the_account_has_each_plan_how_far_it_came_and_why_not_further() {
        let all = [
            told(0, Outcome::Ran, 90, &[]),
            told(1, Outcome::Failed, 3, &["the device ended"]),
            told(2, Outcome::NotHere, 0, &["one node is here", "no card is here"]),
        ];
        let text = account(&all, " --db papers.db");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        for line in [
            "nfv-first/figure2 ran 90/90",
            "nfv-first/table1 FAILED 3/30",
            "nfv-first/section41 not here 0/6",
            "nfv-first/table1: the device ended",
            "nfv-first/section41: no card is here",
            "Next: weir runs --db papers.db",
        ] {
            assert!(lines.iter().any(|have| have == line), "`{line}` is not in\n{text}");
        }
    }
}
