//! `weir verify`: every result of a run derived again from its trials.

use super::layout::{BAD, GOOD, paint, table};
use super::rescore::plan_of;
use super::stored::Database;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use weir_campaign::plan::ThroughputPlan;
use weir_methods::verify::{Derived, derive};
use weir_store::Selector;
use weir_trial::run::Run;

/// Version of the JSON that `weir verify --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
Derive everything that stands with a run again, and say where it differs from what is stored: verdicts \
from the counts of each trial, percentiles from its histogram, forwarded rates from their trials, and \
the answers of searches from theirs, under the goals of the stored plan. Nothing is measured.

A difference means that the store was changed since, or that this Weir derives it otherwise than the \
one that measured; `weir show` says which one that was.

Exit codes: 0 everything follows from the trials; 1 something does not; 2 bad use.";

const EXAMPLES: &str = "\
Examples:
  The last run:
    weir verify
  What differs, for a script:
    weir verify @last --json | jq '.points[].derived[] | select(.differs != [])'";

/// Derive every result of a run again from its trials
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1
    #[arg(value_name = "RUN", default_value = "@last")]
    run: Selector,
    /// Print JSON; `weir schema verify` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// What `weir verify --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Verified {
    /// Version of this form.
    schema: u32,
    /// Name of the run.
    run: String,
    /// Its identity.
    uuid: String,
    /// The Weir that measured it.
    measured_by: String,
    /// The Weir that derived it again.
    derived_by: String,
    /// Whether everything follows from the trials.
    holds: bool,
    /// Every point.
    points: Vec<OfPoint>,
}

/// What stands with one point.
#[derive(Serialize, JsonSchema)]
struct OfPoint {
    /// Place in the plan's order, from 0.
    point: u32,
    /// What was derived again.
    derived: Vec<Derived>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let run = args.database.load(&args.run)?;
    let verified = verify(&run)?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&verified)?)
    } else {
        text(&verified, &run)
    };
    super::print(&text)?;
    Ok(if verified.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verify(run: &Run) -> anyhow::Result<Verified> {
    let plan = plan_of(run)?;
    let of_point = |point: &weir_trial::run::Point| {
        let config =
            plan.method::<ThroughputPlan>().map(|throughput| throughput.config(point.key.theoretical()));
        OfPoint { point: point.index, derived: derive(point, config.as_ref()) }
    };
    let points: Vec<OfPoint> = run.points.iter().map(of_point).collect();
    let holds = points.iter().flat_map(|point| &point.derived).all(|derived| derived.differs.is_empty());
    Ok(Verified {
        schema: SCHEMA_VERSION,
        run: run.name.clone(),
        uuid: run.uuid.clone(),
        measured_by: run.weir.clone(),
        derived_by: super::WEIR.to_owned(),
        holds,
        points,
    })
}

fn text(verified: &Verified, run: &Run) -> String {
    let derived: usize = verified.points.iter().map(|point| point.derived.len()).sum();
    let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
    let mut rows = Vec::new();
    for point in &verified.points {
        for derived in &point.derived {
            let row = |differs: &String| vec![point.point.to_string(), derived.what.clone(), differs.clone()];
            rows.extend(derived.differs.iter().map(row));
        }
    }
    let head = format!("run {}\n{}\n\n", verified.run, verified.uuid);
    let results = derived.saturating_sub(trials);
    if verified.holds {
        let word = paint(GOOD, "HOLDS");
        return format!(
            "{head}{word}  {trials} trials and {results} results, all derived again and the same\n"
        );
    }
    let word = paint(BAD, "DIFFERS");
    let mut text = format!("{head}{word}  {} of {trials} trials and {results} results\n\n", rows.len());
    text.push_str(&table(&["point", "what", "difference"], &[0], &rows));
    if verified.measured_by != verified.derived_by {
        let (measured, derived) = (&verified.measured_by, &verified.derived_by);
        text.push_str(&format!("note: measured by {measured}, derived again by {derived}\n"));
    }
    text
}
