//! `weir rescore`: stored trials judged again, under other goals, without hardware.

use super::BadUse;
use super::cells::{count, size};
use super::layout::table;
use super::stored::Database;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use weir_campaign::plan::{self, Known, Plan, ThroughputPlan};
use weir_methods::mlrsearch::{Goal, Missing, Rescored};
use weir_methods::stored::searches;
use weir_store::Selector;
use weir_trial::run::{Point, PointKey, PointResult, Purpose, Run};
use weir_trial::{FlowFile, TrialResult};
use weir_units::{Nanos, Pps};

/// Version of the JSON that `weir rescore --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
Judge the stored trials of a run's throughput searches again, under other goals, without hardware.

A goal is a name (of the run's plan, else a preset: rfc2544, bswlv, ndr, pdr), keys of a plan's \
[goal.NAME] table, or both: `ndr`, `loss_ratio=0.1%`, `pdr:exceed_ratio=0,width=1%`. Keys without a \
name change the plan's first goal; like=PRESET starts from a preset. Without --goal, the plan's own \
goals are judged, which gives the stored results.

A search goes where its own goals lead it, so other goals may stay undecided; then the table says \
which trials would be needed. Superseded trials and warm-up trials have no part in it.";

const EXAMPLES: &str = "\
Examples:
  What would 0.1 % of loss have allowed?
    weir rescore @last --goal loss_ratio=0.1%
  No second chance for a load, beside the plan's own goal:
    weir rescore @last --goal ndr --goal ndr:exceed_ratio=0";

/// Judge stored trials again under other goals
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1
    #[arg(value_name = "RUN", default_value = "@last")]
    run: Selector,
    /// A goal: NAME, KEY=VALUE,… or NAME:KEY=VALUE,…; repeatable [default: the plan's]
    #[arg(long, value_name = "GOAL")]
    goal: Vec<String>,
    /// Print JSON; `weir schema rescore` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// What `weir rescore --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// Version of this form.
    schema: u32,
    /// Name of the run.
    run: String,
    /// The goals, with all their numbers.
    goals: Vec<Goal>,
    /// Every search of every point.
    searches: Vec<Judged>,
}

/// One search, judged again.
#[derive(Serialize, JsonSchema)]
struct Judged {
    /// Place of its point in the plan's order, from 0.
    point: u32,
    /// Its point.
    key: PointKey,
    /// Which of the point's repeats, from 0.
    repeat: u32,
    /// Trials that were judged.
    trials: usize,
    /// What the search itself said, when it was run.
    stored: Vec<PointResult>,
    /// The answers, in the order of the goals.
    answers: Vec<Rescored>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let run = args.database.load(&args.run)?;
    let plan = plan_of(&run)?;
    let throughput = plan.method::<ThroughputPlan>().ok_or_else(|| {
        BadUse::new(format!("run {} searched for no throughput; there is nothing to judge again", run.name))
    })?;
    let goal = |text: &String| plan::goal(text, &throughput.goals).map_err(BadUse::new);
    let goals = match args.goal.as_slice() {
        [] => throughput.goals.clone(),
        asked => asked.iter().map(goal).collect::<Result<_, _>>()?,
    };
    let mut judged = Vec::new();
    for point in &run.points {
        judge(point, &plan, &goals, &mut judged)?;
    }
    let document = Document { schema: SCHEMA_VERSION, run: run.name.clone(), goals, searches: judged };
    let text =
        if args.json { format!("{}\n", serde_json::to_string_pretty(&document)?) } else { text(&document) };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The plan stored with a run. Devices that this build does not have, and captures or files of flows that have
/// gone, are no obstacle: nothing is measured.
pub(super) fn plan_of(run: &Run) -> Result<Plan, BadUse> {
    let mut known = Known { is_file: |_| true, flows: |path| Ok(FlowFile::unread(path)), ..Known::here() };
    known.duts.extend(run.points.iter().map(|point| point.key.dut.as_str()));
    Plan::parse(&run.plan, Path::new(&run.name), &known)
        .map_err(|error| BadUse::new(format!("the plan stored with run {}: {error}", run.name)))
}

fn judge(point: &Point, plan: &Plan, goals: &[Goal], judged: &mut Vec<Judged>) -> Result<(), BadUse> {
    let Some(throughput) = plan.method::<ThroughputPlan>() else { return Ok(()) };
    let config = throughput.config(point.key.theoretical());
    for (repeat, search) in searches(point).into_iter().enumerate() {
        let counting = search.trials.iter().filter(|trial| trial.purpose == Purpose::Search);
        let trials: Vec<&TrialResult> = counting.map(|trial| &trial.result).collect();
        let answers = config
            .rescore(goals, &trials)
            .map_err(|error| BadUse::new(format!("point {}: {error}", point.index)))?;
        judged.push(Judged {
            point: point.index,
            key: point.key.clone(),
            repeat: repeat as u32,
            trials: trials.len(),
            stored: search.results.into_iter().cloned().collect(),
            answers,
        });
    }
    Ok(())
}

fn text(document: &Document) -> String {
    if document.searches.is_empty() {
        return format!("run {} has no trials of a search\n", document.run);
    }
    let goals: Vec<_> = document.goals.iter().map(goal_row).collect();
    let headings = ["goal", "loss ratio", "exceed ratio", "final trial", "duration sum", "width"];
    let mut text = format!("run {}\n\n{}\n", document.run, table(&headings, &[1, 2, 3, 4, 5], &goals));
    let mut rows = Vec::new();
    for search in &document.searches {
        let key = &search.key;
        let mut about = [
            search.point.to_string(),
            key.nf.to_string(),
            key.device(),
            key.wiring.clone(),
            key.trace.rsplit('/').next().unwrap_or_default().to_owned(),
            size(key),
            count(search.trials),
        ];
        for (goal, answer) in document.goals.iter().zip(&search.answers) {
            rows.push(about.iter().cloned().chain(answer_row(goal, answer)).collect());
            about = std::array::from_fn(|_| String::new());
        }
    }
    let headings = [
        "#",
        "NF",
        "DUT",
        "wiring",
        "trace",
        "size",
        "judged",
        "goal",
        "throughput",
        "lower",
        "upper",
        "width",
        "",
    ];
    text.push_str(&table(&headings, &[0, 5, 6, 8, 9, 10, 11], &rows));
    text
}

fn goal_row(goal: &Goal) -> Vec<String> {
    vec![
        goal.name.clone(),
        goal.loss_ratio.to_string(),
        goal.exceed_ratio.to_string(),
        goal.final_trial_duration.to_string(),
        goal.duration_sum.to_string(),
        goal.relative_width.to_string(),
    ]
}

fn answer_row(goal: &Goal, answer: &Rescored) -> Vec<String> {
    let Rescored { outcome, missing } = answer;
    let show = |rate: Option<Pps>| rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
    let width = outcome.lower.zip(outcome.upper).map(|(lower, upper)| (upper.0 - lower.0) / upper.0);
    let remark = match missing {
        Some(missing) => undecided(missing),
        None => outcome.irregular().map_or_else(String::new, |why| format!("irregular: {why}")),
    };
    vec![
        goal.name.clone(),
        show(outcome.throughput),
        show(outcome.lower),
        show(outcome.upper),
        width.map_or_else(|| "-".to_owned(), |width| format!("{:.2} %", 100.0 * width)),
        remark,
    ]
}

/// What would settle a goal.
fn undecided(missing: &Missing) -> String {
    let Missing { load, duration, there, needed, long_enough } = missing;
    if !long_enough {
        return format!("undecided: no stored trial is as long as {duration}");
    }
    let there = if *there == Nanos(0) { "none".to_owned() } else { there.to_string() };
    format!("undecided: needs trials of {duration} at {load}, {there} of up to {needed} there")
}
