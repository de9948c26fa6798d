//! `weir runs`: what was measured, newest first.

use super::layout::table;
use super::stored::{Database, when};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use weir_store::RunSummary;
use weir_trial::run::RunState;

/// Version of the JSON that `weir runs --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
List the runs in the store, newest first: number, name, start, state, points finished of those \
begun, trials kept, network functions and devices.

States: `finished`; `interrupted` by Ctrl-C or an error; `running` now; `cut off` when the process \
that measured it is gone without a word. `weir bench --resume RUN` goes on with the last three, \
and every trial measured before is kept.";

const EXAMPLES: &str = "\
Examples:
  The names of all finished runs:
    weir runs --json | jq -r '.runs[] | select(.state == \"finished\") | .name'";

/// List the runs in the store
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    database: Database,
    /// Print JSON; `weir schema runs` describes it
    #[arg(long)]
    json: bool,
}

/// What `weir runs --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Runs {
    /// Version of this form.
    schema: u32,
    /// The runs, newest first.
    runs: Vec<RunSummary>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = args.database.open()?;
    let runs = store.runs().map_err(super::store_error)?;
    if args.json {
        let document = serde_json::to_string_pretty(&Runs { schema: SCHEMA_VERSION, runs })?;
        super::print(&format!("{document}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let flag = args.database.flag();
    let Some(newest) = runs.first() else {
        let path = store.path().display();
        super::print(&format!("no runs in {path} yet\n\nNext: weir bench{flag}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let headings = ["#", "name", "started", "state", "points", "trials", "NFs", "DUTs"];
    let mut text = table(&headings, &[0, 4, 5], &rows);
    text.push_str(&next(newest, &flag));
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn row(run: &RunSummary) -> Vec<String> {
    let failed = if run.failed > 0 { format!(" ({} not measured)", run.failed) } else { String::new() };
    vec![
        run.id.to_string(),
        run.name.clone(),
        when(run.started_ms),
        format!("{}{failed}", state(run.state, run.live)),
        format!("{}/{}", run.finished, run.points),
        run.trials.to_string(),
        run.nfs.join(" "),
        run.duts.join(" "),
    ]
}

/// The state in words: a run that nobody measures any more was cut off.
pub(super) fn state(state: RunState, live: bool) -> &'static str {
    match (state, live) {
        (RunState::Running, true) => "running",
        (RunState::Running, false) => "cut off",
        (RunState::Finished, _) => "finished",
        (RunState::Interrupted, _) => "interrupted",
    }
}

fn next(newest: &RunSummary, flag: &str) -> String {
    let name = &newest.name;
    match (newest.state, newest.live) {
        (RunState::Interrupted, _) | (RunState::Running, false) => {
            format!("\nNext: weir bench --resume {name}{flag}\n")
        }
        _ => format!("\nNext: weir show {name}{flag}\n"),
    }
}
