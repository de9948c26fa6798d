//! `weir doctor`: what on this machine will spoil which claim, and the command that mends it.

use super::BadUse;
use super::layout::{BAD, BEWARE, GOOD, STRONG, paint, table, width};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_campaign::Cores;
use weir_campaign::doctor::{
    Checkup, CoreStalls, Done, Finding, HUGE_PAGES, Machine, Measured, Quiet, QuietError, Setting, Severity,
    cores_here, examine,
};

/// Version of the JSON that `weir doctor --json` prints.
const SCHEMA_VERSION: u32 = 1;
/// Longest time the cores may be watched.
const LONGEST: f64 = 3600.0;
/// Columns of the widest line of text; commands may be wider, as they are to be copied.
const WIDTH: usize = 100;
/// Columns that a text has at least behind its indent, however narrow the terminal.
const LEAST_TEXT: usize = 30;
/// Columns of a finding's name.
const NAMES: usize = 24;

const LONG_ABOUT: &str = "\
Say what on this machine will spoil which claim, worst first, each with the command that mends it.

It reads the facts that stand with every run, watches other processes for half a second, and then \
keeps the cores of tester and DUT busy for a while, to see whether anybody takes them away: \
hypervisors and firmware do, and tell nobody. Nothing is changed and no root is needed. Run it as \
you run `weir bench`, for example under the same `taskset`.

With --apply it changes what can be changed without a reboot, as root, and keeps what stood there in \
/run/weir/quieted.json; --undo puts everything back. Each setting is named with its two values.

Severities:
  BLOCKS   nothing can be measured
  SPOILS   the claims it names would be wrong, or would not be found again
  WEAKENS  the claims it names hold with a reservation, or something cannot be used

Exit code: 0 nothing blocks or spoils; 1 something does; 2 bad use.";

const EXAMPLES: &str = "\
Examples:
  Watch the cores for a minute: some are taken away only now and then:
    weir doctor --seconds 60
  Quiet the machine, measure, and put everything back:
    sudo weir doctor --apply && weir bench; sudo weir doctor --undo
  Refuse to measure on a machine that would spoil it:
    weir doctor && weir bench
  What a script may want to know:
    weir doctor --json | jq -r '.findings[] | \"\\(.severity) \\(.rule): \\(.mend)\"'
  Every fact that a run on this machine would keep:
    weir doctor --facts";

/// Say what on this machine will spoil a measurement, and how to mend it
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// How long to watch the cores of tester and DUT
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Print every fact of the environment instead, and judge nothing
    #[arg(long, conflicts_with = "json")]
    facts: bool,
    /// Quiet this machine for a run: governor, turbo, watchdog, page merging, NUMA balancing, huge pages
    #[arg(long, conflicts_with_all = ["json", "facts", "undo"])]
    apply: bool,
    /// Put back everything that --apply changed
    #[arg(long, conflicts_with_all = ["json", "facts"])]
    undo: bool,
    /// Print JSON, facts and all; `weir schema doctor` describes it
    #[arg(long)]
    json: bool,
    /// The database that runs would be kept in [default: in the per-user data folder]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
}

/// What `weir doctor --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Diagnosis {
    /// Version of this form.
    schema: u32,
    /// Whether something blocks or spoils: exit code 1.
    spoils: bool,
    /// Who would run where; nothing where there are too few cores.
    cores: Option<Cores>,
    /// What was found.
    #[serde(flatten)]
    checkup: Checkup,
    /// How the watched cores stood still.
    stalls: Vec<CoreStalls>,
    /// The environment, as a run would keep it: name to value.
    facts: BTreeMap<String, String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !(args.seconds > 0.0 && args.seconds <= LONGEST) {
        let asked = args.seconds;
        let message = format!("--seconds {asked}: give a time above 0 and up to {LONGEST} seconds");
        return Err(BadUse::new(message).into());
    }
    if args.apply || args.undo {
        return settle(args.undo);
    }
    let facts = super::environment();
    if args.facts {
        let rows: Vec<Vec<String>> = facts.into_iter().map(|(name, value)| vec![name, value]).collect();
        super::print(&table(&["fact", "value"], &[], &rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = match args.db {
        // Of a server's disk nothing is known here; pages are written into the working folder.
        Some(db) if weir_store::server_of(&db).is_some() => PathBuf::from("."),
        Some(db) => db,
        None => weir_store::default_path().map_err(super::store_error)?,
    };
    let measured = Measured::here(&store, Duration::from_secs_f64(args.seconds));
    let checkup = examine(&Machine { facts: &facts, measured: &measured });
    let diagnosis = Diagnosis {
        schema: SCHEMA_VERSION,
        spoils: checkup.spoils(),
        cores: cores_here(),
        checkup,
        stalls: measured.stalls,
        facts,
    };
    if args.json {
        super::print(&format!("{}\n", serde_json::to_string_pretty(&diagnosis)?))?;
    } else {
        super::print(&page(&diagnosis))?;
    }
    Ok(if diagnosis.spoils { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Quiets the machine, or puts back what was changed for that.
fn settle(undo: bool) -> anyhow::Result<ExitCode> {
    let quiet = Quiet::here();
    let refused = |error: QuietError| BadUse::new(error);
    let wanted = quiet.wanted(HUGE_PAGES);
    let root = nix::unistd::geteuid().is_root();
    let done = match (undo, root) {
        (true, _) if quiet.kept().map_err(refused)?.is_none() => {
            return Err(refused(QuietError::Nothing { path: quiet.state() }).into());
        }
        (_, false) => {
            let kept = if undo { quiet.kept().map_err(refused)?.unwrap_or_default() } else { wanted };
            let line = |setting: &Setting| {
                let (from, to) = (&setting.before, &setting.after);
                let (from, to) = if undo { (to, from) } else { (from, to) };
                format!("\n  {} from {from} to {to} (/{})", setting.name, setting.file.display())
            };
            let would = kept.iter().map(line).collect::<String>();
            let would = if would.is_empty() { " nothing, all is well".to_owned() } else { would };
            let option = if undo { "--undo" } else { "--apply" };
            return Err(refused(QuietError::Rights { option, would }).into());
        }
        (true, true) => quiet.undo().map_err(refused)?,
        (false, true) => quiet.apply(&wanted).map_err(refused)?,
    };
    super::print(&settled(&done, undo, &quiet))?;
    let failed = done.iter().any(|(_, outcome)| matches!(outcome, Done::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What came of each setting, for people.
fn settled(done: &[(Setting, Done)], undo: bool, quiet: &Quiet) -> String {
    if done.is_empty() {
        return "every setting is as measurements want it; nothing was changed\n".to_owned();
    }
    let row = |(setting, outcome): &(Setting, Done)| {
        let (from, to) = (&setting.before, &setting.after);
        let (from, to) = if undo { (to, from) } else { (from, to) };
        let (word, why) = match outcome {
            Done::Set => ("done", String::new()),
            Done::Left(why) => ("left", why.clone()),
            Done::Failed(why) => ("FAILED", why.clone()),
        };
        vec![setting.name.clone(), from.clone(), to.clone(), word.to_owned(), why]
    };
    let rows: Vec<Vec<String>> = done.iter().map(row).collect();
    let mut text = table(&["setting", "from", "to", "", ""], &[], &rows);
    if !undo {
        let state = quiet.state();
        text.push_str(&format!("\nkept in {}; weir doctor --undo puts everything back\n", state.display()));
    }
    text
}

/// The whole answer, for people.
fn page(diagnosis: &Diagnosis) -> String {
    let mut text = head(&diagnosis.facts);
    let Checkup { findings, passed, untold } = &diagnosis.checkup;
    for (severity, word, colour, meaning) in [
        (Severity::Blocks, "BLOCKS", BAD, "nothing can be measured"),
        (Severity::Spoils, "SPOILS", BAD, "these claims would be wrong, or would not be found again"),
        (Severity::Weakens, "WEAKENS", BEWARE, "these hold with a reservation, or something cannot be used"),
    ] {
        let of_it: Vec<&Finding> = findings.iter().filter(|finding| finding.severity == severity).collect();
        if !of_it.is_empty() {
            let _ = writeln!(text, "\n{}  {meaning}", paint(colour, word));
            of_it.into_iter().for_each(|finding| text.push_str(&entry(finding)));
        }
    }
    let good: Vec<&str> = passed.iter().map(|passed| passed.says.as_str()).collect();
    let _ =
        writeln!(text, "\n{}  {} of {} checks", paint(GOOD, "WELL"), good.len(), checks(&diagnosis.checkup));
    text.push_str(&wrapped("  ", &good.join("; ")));
    if !untold.is_empty() {
        let _ = writeln!(text, "\n{}  facts that this machine does not tell", paint(STRONG, "UNTOLD"));
        text.push_str(&wrapped("  ", &untold.join(", ")));
    }
    let next = if diagnosis.spoils { "mend what spoils, then weir doctor again" } else { "weir bench" };
    let _ = writeln!(text, "\nNext: {next}");
    text
}

fn checks(checkup: &Checkup) -> usize {
    checkup.findings.len() + checkup.passed.len() + checkup.untold.len()
}

/// The machine in a line.
fn head(facts: &BTreeMap<String, String>) -> String {
    let get = |name: &str| facts.get(name).cloned();
    let parts = [
        get("cpu.model"),
        get("cpu.cores").map(|cores| format!("{cores} cores")),
        get("virtual.hypervisor").map(|kind| format!("virtual machine ({kind})")),
        get("virtual.container").map(|kind| format!("container ({kind})")),
        get("kernel.release").map(|release| format!("Linux {release}")),
        get("os.release"),
        get("dpdk.version"),
    ];
    format!("{}\n", parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

/// A finding: its name, what it says, which claims suffer, and the command on a line of its own.
fn entry(finding: &Finding) -> String {
    let indent = " ".repeat(NAMES + 2);
    let says = wrapped(&indent, &finding.says);
    let mut text = format!("  {:<NAMES$}{}", finding.rule, &says[indent.len()..]);
    if !finding.spoils.is_empty() && finding.severity != Severity::Blocks {
        let claims: Vec<&str> = finding.spoils.iter().map(|claim| claim.name()).collect();
        text.push_str(&wrapped(&indent, &format!("claims: {}", claims.join(", "))));
    }
    let _ = writeln!(text, "{indent}{} {}", paint(STRONG, "mend:"), finding.mend);
    text
}

/// Units that stay on the line of their number.
const UNITS: [&str; 7] = ["%", "s", "ms", "µs", "ns", "MiB", "GiB"];

/// Words, units together with their numbers.
fn glued(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', ')']);
        match words.last_mut() {
            Some(last) if UNITS.contains(&bare) && last.ends_with(|end: char| end.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Text in lines of at most [`WIDTH`] columns, fewer on a narrower terminal.
fn wrapped(indent: &str, text: &str) -> String {
    let most = width().map_or(WIDTH, |width| WIDTH.min(width.into())).max(indent.len() + LEAST_TEXT);
    let mut lines = vec![indent.to_owned()];
    for word in glued(text) {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > indent.len() && line + 1 + word.chars().count() > most {
            lines.push(indent.to_owned());
        }
        if let Some(line) = lines.last_mut() {
            if line.len() > indent.len() {
                line.push(' ');
            }
            line.push_str(&word);
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_the_width_and_no_word_is_lost() {
        let words = "word ".repeat(60);
        let text = wrapped("    ", &words);
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH && line.starts_with("    w")));
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(wrapped("  ", ""), "  \n");
        assert_eq!(
            glued("took 20 % (4.0 ms), core 1 twice"),
            ["took", "20 %", "(4.0 ms),", "core", "1", "twice"]
        );
    }
}
