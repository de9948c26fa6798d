//! `weir verify`: every result of a run derived again from its trials.

use super::BadUse;
use super::layout::{BAD, GOOD, paint, table};
use super::rescore::plan_of;
use super::stored::{Database, bundle_file, open_bundle};
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Once;
use weir_campaign::plan::ThroughputPlan;
use weir_methods::verify::{Derived, derive};
use weir_store::Selector;
use weir_store::bundle::Bundle;
use weir_trial::run::Run;

/// Version of the JSON that `weir verify --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
Derive everything that stands with a run again, and say where it differs from what is stored: verdicts \
from the counts of each trial, percentiles from its histogram, forwarded rates from their trials, and \
the answers of searches from theirs, under the goals of the stored plan. Nothing is measured.

A bundle (`weir export --bundle`) is verified without a store: first the hash of each part and its signature.

A difference means that the store was changed since, or that this Weir derives it otherwise than the \
one that measured; `weir show` says which one that was.

Exit codes: 0 everything follows from the trials; 1 something does not; 2 bad use.";

const EXAMPLES: &str = "\
Examples:
  The last run:
    weir verify
  A file that somebody sent:
    weir verify theirs.weir
  What differs, for a script:
    weir verify @last --json | jq '.points[].derived[] | select(.differs != [])'";

/// Derive every result of a run again from its trials
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1, or a bundle
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
    /// The bundle, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<OfBundle>,
}

/// What holds of a bundle before anything is derived.
#[derive(Serialize, JsonSchema)]
struct OfBundle {
    /// `sha256:` and the hash of its manifest.
    address: String,
    /// Parts whose hashes hold.
    parts: usize,
    /// The public key that it is signed with, where it is signed.
    signed_with: Option<String>,
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
    let (run, bundle) = match bundle_file(&args.run) {
        Some(path) => {
            let Bundle { run, address, parts, signed, .. } = open_bundle(path)?;
            let signed_with = signed.map(|(_, key)| key.to_string());
            (run, Some(OfBundle { address, parts, signed_with }))
        }
        None => (args.database.load(&args.run)?, None),
    };
    let verified = Verified { bundle, ..contained(&run)? };
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&verified)?)
    } else {
        text(&verified, &run)
    };
    super::print(&text)?;
    Ok(if verified.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What of a run does not follow from its trials, each in a sentence.
pub(super) fn unexplained(run: &Run) -> anyhow::Result<Vec<String>> {
    let verified = contained(run)?;
    let says = |point: &OfPoint| {
        let place = point.point;
        let of = move |derived: &Derived| {
            let what = derived.what.clone();
            derived
                .differs
                .iter()
                .map(move |differs| format!("point {place}, {what}: {differs}"))
                .collect::<Vec<_>>()
        };
        point.derived.iter().flat_map(of).collect::<Vec<_>>()
    };
    Ok(verified.points.iter().flat_map(says).collect())
}

thread_local! {
    /// Whether this thread's panics are caught and said otherwise.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Derives a run that somebody else may have written. Numbers that no measurement gives may be beyond what is
/// calculated here: that is an error of theirs, and not the end of this program, which may be a server with other threads.
fn contained(run: &Run) -> anyhow::Result<Verified> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                usual(info)
            }
        }));
    });
    IS_QUIET.set(true);
    let verified = catch_unwind(AssertUnwindSafe(|| verify(run)));
    IS_QUIET.set(false);
    let beyond = || BadUse::new(format!("run {}: its numbers cannot be calculated with", run.name));
    verified.map_err(|_| beyond())?
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
        bundle: None,
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
    let mut head = format!("run {}\n{}\n", verified.run, verified.uuid);
    if let Some(bundle) = &verified.bundle {
        let signed =
            bundle.signed_with.as_ref().map_or("not signed".to_owned(), |key| format!("signed with {key}"));
        head.push_str(&format!(
            "bundle {}\n{} parts, all as hashed; {signed}\n",
            bundle.address, bundle.parts
        ));
    }
    head.push('\n');
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
