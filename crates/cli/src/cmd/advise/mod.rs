//! `weir advise`: what a run's points say about settings that were not measured, and the trial of it.

mod checks;
mod plans;
mod text;

use super::stored::Database;
use super::{BadUse, store_error};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_advice::{Answer, Needed, Says, Wanted, advise};
use weir_campaign::plan;
use weir_store::{Selector, Store};
use weir_trial::Nf;
use weir_trial::run::advice::{AdviceCheck, Asked, CheckVerdict, DelayGoal, Question};
use weir_trial::run::{Run, RunState};
use weir_units::{Pps, Ratio};

/// Version of the JSON that `weir advise --json` prints.
const SCHEMA_VERSION: u32 = 1;

const LONG_ABOUT: &str = "\
Say what a run's points tell about settings that were not measured: the lowest clock or share of a core for a \
load, the fewest cores, how many copies, virtual ports or queues more, where a chain runs best, and from which load on \
traffic is to be split before delay rises.

Each answer has the rate or delay that is expected with its 95 % prediction interval, the model with its \
numbers, the points that it was made from, and what was extrapolated. A question that the points do not answer is \
named with the reason; --plan prints the plan that would answer it. docs/advice.md has the formulas.

--check measures each advice on this machine, as a run of its own, and keeps prediction and measurement with the run \
that the advice was made from; --errors lists all of them.

In place of a run stands a plan (a file that ends in .toml, or the name of one that comes with Weir): it is measured first.

Exit codes: 0 fine; 1 a check refuted its advice, or could not be measured; 2 bad use.";

const EXAMPLES: &str = "\
Examples:
  What carries 2 Mpps without loss, 99 of 100 packets within 50 µs?
    weir advise @last --load 2Mpps --loss 0 --delay 'p99 < 50us'
  The lowest share of a core, and is it true?
    weir advise @last --load 2Mpps --question speed --check
  What would have to be measured to know how many copies it takes?
    weir advise @last --load 2Mpps --question copies --plan -o copies.toml
  How good was the advice so far?
    weir advise --errors";

/// Advise on cores, clocks, copies, placement and load, from a run's points
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run: a name, the beginning of one, a number, @last, @last~1, or a file of `weir export --json`; or a plan, which is measured
    /// first (@last unless given; with --errors all runs)
    #[arg(value_name = "RUN|PLAN")]
    run: Option<String>,
    /// The load that is to be carried, over all directions: 2Mpps
    #[arg(long, value_name = "RATE")]
    load: Option<Pps>,
    /// Share of its packets that may be lost: 0, 0.1%
    #[arg(long, value_name = "RATIO", default_value = "0")]
    loss: Ratio,
    /// Bound of the one-way delay: 'p99 < 50us', of mean, p50, p90, p99, p99.9, p99.99 and max
    #[arg(long, value_name = "BOUND")]
    delay: Option<DelayGoal>,
    /// Questions: speed, cores, copies, vnics, queues, placement, split [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    question: Vec<Question>,
    /// Points of the run to advise on, by their numbers [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    point: Vec<u32>,
    /// A chain to place, such as firewall:10+l3fwd:10, measured or not [default: those that were measured]
    #[arg(long, value_name = "CHAIN")]
    chain: Option<Nf>,
    /// Measure each advice, and keep what came of it with the run
    #[arg(long, conflicts_with_all = ["plan", "errors"])]
    check: bool,
    /// Print the plan that would answer the first question without an answer
    #[arg(long, conflicts_with_all = ["errors", "json"])]
    plan: bool,
    /// Write that plan into a file
    #[arg(short, long, value_name = "FILE", requires = "plan")]
    output: Option<PathBuf>,
    /// List the checks that were made: prediction against measurement
    #[arg(long, conflicts_with_all = ["load", "delay", "chain", "point"])]
    errors: bool,
    /// Print JSON; `weir schema advise` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

/// What `weir advise --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// Version of this form.
    schema: u32,
    /// Name of the run; nothing where checks of all runs are listed.
    run: Option<String>,
    /// What was asked for.
    asked: Asked,
    /// The answers.
    answers: Vec<Answer>,
    /// Checks made now, or with --errors all that were kept.
    checks: Vec<Kept>,
}

/// A check with the run that the advice was made from.
#[derive(Serialize, JsonSchema)]
struct Kept {
    /// Name of that run.
    of: String,
    /// What came of it.
    #[serde(flatten)]
    check: AdviceCheck,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.errors {
        return errors(&args);
    }
    let run = match args.run.as_deref().filter(|name| is_plan(name)) {
        Some(plan) => checks::bench(plan, &args.database)?,
        None => args.database.load(&selector(&args)?)?,
    };
    let wanted = wanted(&args, &run)?;
    let answers = advise(&run, &wanted);
    if args.plan {
        return write_plan(&args, &run, &answers);
    }
    if args.check {
        return check(&args, &run, (&wanted, answers));
    }
    let document = Document {
        schema: SCHEMA_VERSION,
        run: Some(run.name.clone()),
        asked: wanted.asked,
        answers,
        checks: Vec::new(),
    };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&document)?),
        false => {
            text::heading(&run, &wanted.asked)
                + &text::answers(&document.answers)
                + &text::next(&run, &document.answers, &args.database.flag())
        }
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a name is one of a plan: a file of TOML, or one that comes with Weir.
fn is_plan(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "toml") || plan::builtin(name).is_some()
}

fn selector(args: &Args) -> anyhow::Result<Selector> {
    let name = args.run.as_deref().unwrap_or("@last");
    Ok(name.parse().map_err(BadUse::new)?)
}

fn wanted(args: &Args, run: &Run) -> anyhow::Result<Wanted> {
    let name = &run.name;
    if args.load.is_some_and(|load| load.0 <= 0.0) {
        return Err(BadUse::new(
            "--load: a load of nothing is carried by anything; name a rate, such as 2Mpps",
        )
        .into());
    }
    if run.points.is_empty() {
        let state = if run.state == RunState::Finished { "has" } else { "was cut off, and has" };
        let why = format!("run {name} {state} no points to advise from; `weir runs` lists the others");
        return Err(BadUse::new(why).into());
    }
    let unknown = args.point.iter().find(|point| run.points.iter().all(|one| one.index != **point));
    if let Some(unknown) = unknown {
        let last = run.points.len() - 1;
        let why = format!("--point: run {name} has no point {unknown}; it has 0 to {last}");
        return Err(BadUse::new(why).into());
    }
    let asked = Asked { load: args.load, loss: args.loss, delay: args.delay };
    Ok(Wanted { asked, questions: args.question.clone(), points: args.point.clone(), chain: args.chain })
}

/// The first question without an answer that a plan would give one.
fn write_plan(args: &Args, run: &Run, answers: &[Answer]) -> anyhow::Result<ExitCode> {
    let open = answers.iter().filter_map(|answer| match &answer.says {
        Says::Unanswered { needed: Some(needed), .. } => Some((answer, needed)),
        _ => None,
    });
    let open: Vec<(&Answer, &Needed)> = open.collect();
    let Some((answer, needed)) = open.first() else {
        let why = format!("run {} leaves no question open that another plan would answer", run.name);
        return Err(BadUse::new(why).into());
    };
    let text = plans::of_needed(run, answer, needed).map_err(BadUse::new)?;
    if open.len() > 1 {
        eprintln!(
            "{} questions are open; this is the plan for `{}`, {}. Choose with --question and --point.",
            open.len(),
            answer.question,
            answer.about
        );
    }
    match &args.output {
        None => super::print(&text)?,
        Some(path) => {
            let mut file = std::fs::File::create(path).map_err(|error| {
                BadUse::new(format!("plan {}: {error}; name another with -o", path.display()))
            })?;
            file.write_all(text.as_bytes())?;
            super::print(&format!("wrote {}\n\nNext: weir advise {}\n", path.display(), path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures every advice and keeps what came of it.
fn check(args: &Args, run: &Run, (wanted, answers): (&Wanted, Vec<Answer>)) -> anyhow::Result<ExitCode> {
    let mut store = args.database.open_to_write()?;
    let id = store.find(&Selector::Name(run.name.clone())).map_err(store_error)?;
    if !answers.iter().any(|answer| matches!(answer.says, Says::Advice(_))) {
        let why =
            format!("run {} answers none of these questions, so that there is nothing to check", run.name);
        super::print(&(text::heading(run, &wanted.asked) + &text::answers(&answers)))?;
        return Err(BadUse::new(why).into());
    }
    if !args.json {
        super::print(&text::heading(run, &wanted.asked))?;
    }
    let mut kept = Vec::new();
    for answer in &answers {
        let Says::Advice(advice) = &answer.says else { continue };
        let check = checks::check(
            run,
            (answer, advice.as_ref(), run.advice.len() + kept.len()),
            &wanted.asked,
            &args.database,
        )?;
        store.add_advice(id, &check).map_err(store_error)?;
        if !args.json {
            super::print(&(text::answer(answer) + &text::check(&check)))?;
        }
        kept.push(Kept { of: run.name.clone(), check });
    }
    let confirmed = kept.iter().all(|kept| kept.check.verdict == CheckVerdict::Confirmed);
    let document = Document {
        schema: SCHEMA_VERSION,
        run: Some(run.name.clone()),
        asked: wanted.asked,
        answers,
        checks: kept,
    };
    match args.json {
        true => super::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?,
        false => {
            let flag = args.database.flag();
            let open = text::unanswered(&document.answers);
            super::print(&format!("{open}Next: weir advise --errors {}{flag}\n", run.name))?;
        }
    }
    Ok(if confirmed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The checks of a run's advice, for those who look at the run; nothing where there are none.
pub(super) fn of_run(run: &Run) -> String {
    if run.advice.is_empty() {
        return String::new();
    }
    let checks: Vec<(&str, &AdviceCheck)> =
        run.advice.iter().map(|check| (run.name.as_str(), check)).collect();
    format!("advice that was checked\n{}\n", text::errors(&checks))
}

/// Lists the checks that were kept.
fn errors(args: &Args) -> anyhow::Result<ExitCode> {
    let kept = kept(args)?;
    let document = Document {
        schema: SCHEMA_VERSION,
        run: args.run.clone(),
        asked: Asked::default(),
        answers: Vec::new(),
        checks: kept,
    };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&document)?),
        false => {
            let checks: Vec<(&str, &AdviceCheck)> =
                document.checks.iter().map(|kept| (kept.of.as_str(), &kept.check)).collect();
            text::errors(&checks)
        }
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn kept(args: &Args) -> anyhow::Result<Vec<Kept>> {
    let asked = |check: &AdviceCheck| args.question.is_empty() || args.question.contains(&check.question);
    let of = |name: &str, checks: Vec<AdviceCheck>| -> Vec<Kept> {
        checks.into_iter().filter(asked).map(|check| Kept { of: name.to_owned(), check }).collect()
    };
    if args.run.is_some() {
        let run = args.database.load(&selector(args)?)?;
        return Ok(of(&run.name, run.advice));
    }
    let store = args.database.open()?;
    let mut kept = Vec::new();
    for run in store.runs().map_err(store_error)?.iter().rev() {
        let id = store.find(&Selector::Number(run.id)).map_err(store_error)?;
        kept.extend(of(&run.name, store.advice(id).map_err(store_error)?));
    }
    Ok(kept)
}

impl Database {
    /// Opens the store to write.
    fn open_to_write(&self) -> anyhow::Result<Store> {
        Store::open(Some(self.open()?.named())).map_err(store_error)
    }
}
