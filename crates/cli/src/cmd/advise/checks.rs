//! A check: the advised point measured as a run of its own, by a `weir bench` of its own.
//!
//! DPDK takes its memory once a process, and a check may want other memory than the one before it; so each is a process,
//! which also leaves nothing behind when it dies.

use super::super::BadUse;
use super::super::stored::Database;
use super::plans;
use std::path::Path;
use std::process::{Command, Stdio};
use weir_advice::check::{Checked, hold};
use weir_advice::{Advice, Answer};
use weir_campaign::now_ms;
use weir_trial::run::Run;
use weir_trial::run::advice::{AdviceCheck, Asked, CheckVerdict};

/// Measures a plan into the database, and reads the run.
pub(super) fn bench(plan: &str, database: &Database) -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    eprintln!("measuring {plan}");
    measured(Path::new(plan), folder.path(), database)
}

/// Measures an advice, and holds it against what came of it.
pub(super) fn check(
    run: &Run,
    (answer, advice, number): (&Answer, &Advice, usize),
    asked: &Asked,
    database: &Database,
) -> anyhow::Result<AdviceCheck> {
    let started_ms = now_ms();
    let text = plans::of_advice(run, (advice, number), asked).map_err(BadUse::new)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("check.toml");
    std::fs::write(&file, text)?;
    eprintln!("checking {}: {}", answer.question, advice.says);
    let (checked, name, uuid) = match measured(&file, folder.path(), database) {
        Ok(check) => (hold(advice, asked, &check), check.name, check.uuid),
        // What cannot be measured here is an answer, too.
        Err(error) => {
            let why = format!("the check was not measured: {error:#}");
            let checked = Checked { compared: Vec::new(), verdict: CheckVerdict::Undecided, why };
            (checked, String::new(), String::new())
        }
    };
    Ok(AdviceCheck {
        started_ms,
        question: answer.question,
        asked: *asked,
        advice: advice.says.clone(),
        key: advice.key.clone(),
        derived_from: advice.derived_from.clone(),
        extrapolated: advice.extrapolated.clone(),
        compared: checked.compared,
        verdict: checked.verdict,
        why: checked.why,
        run: name,
        uuid,
    })
}

/// Runs `weir bench` on a plan. Points that failed are in the run; only one that was not begun is an error.
fn measured(plan: &Path, folder: &Path, database: &Database) -> anyhow::Result<Run> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bench").arg(plan).arg("--json").arg("-o").arg(folder.join("page.html"));
    if let Some(db) = database.named() {
        command.arg("--db").arg(db);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let why = said.trim().trim_start_matches("error: ");
        BadUse::new(if why.is_empty() {
            format!("weir bench ended with {}", output.status)
        } else {
            why.to_owned()
        })
        .into()
    })
}
